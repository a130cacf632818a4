//! When requests come, and the whole load of a run: arrivals, lengths, prompt blocks.
//!
//! All at once, at a constant mean rate with independent gaps (Poisson), or as recorded. A static batch is `all` with as
//! many requests as the batch. What is ignored: clients that wait for their answer before they ask again (a closed loop);
//! bursts and days, which a recording has. Gaps are exponential draws of one seeded stream: a higher rate has the same draws,
//! closer together, so that rates are compared on one sequence of requests. Units: seconds, requests per second.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngExt;

use crate::error::{Error, Result};
use crate::stats;
use crate::units::{Ps, text};

use super::drawn::Drawn;
use super::{Recorded, Request};

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// All at the start.
    All,
    /// Independently, so many a second on average.
    Poisson(f64),
    /// As a file says, lengths included.
    File(Arc<Recorded>),
}

impl Arrivals {
    /// `all`, `poisson:RATE`, or a file.
    ///
    /// # Errors
    /// Usage: none of these. Data: a damaged file.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(rate) = text.strip_prefix("poisson:") {
            let rate = rate.trim_end_matches("/s").trim();
            return match rate.parse::<f64>() {
                Ok(r) if (1e-6..=1e6).contains(&r) => Ok(Self::Poisson(r)),
                _ => Err(Error::usage(format!(
                    "`{text}`: the rate is a number of requests per second from 0.000001 to 1,000,000"
                ))
                .help("poisson:2.0 is two requests a second")),
            };
        }
        if Self::names_file(text) {
            return Recorded::read(Path::new(text)).map(|r| Self::File(Arc::new(r)));
        }
        Err(Error::usage(format!("`{text}` is no way to arrive"))
            .help("it takes all, poisson:RATE (requests per second), or a file of requests (.jsonl or .csv)"))
    }

    /// Whether a text that is neither `all` nor a rate names a file, be it there or not.
    pub fn names_file(text: &str) -> bool {
        let word = text == "all" || text.starts_with("poisson:");
        !word && (text.contains(['.', '/', '\\']) || Path::new(text).exists())
    }

    /// The file behind them.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::File(recorded) => Some(recorded.file().to_path_buf()),
            _ => None,
        }
    }
}

/// What a server is asked: requests in order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests.
    pub requests: Vec<Request>,
    /// Ids of the prompt blocks of each; empty if nobody shares any.
    pub blocks: Vec<Vec<u32>>,
    /// Tokens of such a block.
    pub block_tokens: u32,
}

impl Load {
    /// `n` requests that come as `arrivals` say with lengths as `lengths` say; a recording has its own lengths, and at most
    /// its own number (the scenario refuses to be asked for more).
    pub fn new(arrivals: &Arrivals, lengths: &Drawn, n: u32, fixed: (u32, u32), seed: u64) -> Self {
        let rate = match arrivals {
            Arrivals::File(recorded) => {
                let Recorded {
                    requests,
                    blocks,
                    block_tokens,
                    ..
                } = recorded.as_ref().clone().first(n);
                return Self {
                    requests,
                    blocks,
                    block_tokens,
                };
            }
            Arrivals::All => f64::INFINITY,
            Arrivals::Poisson(rate) => *rate,
        };
        let mut rng = stats::stream(seed, stats::Purpose::Arrivals);
        let mut at = 0.0;
        let request = |(i, (prompt, output)): (usize, (u32, u32))| {
            // The first comes at the start; the gap before it would only shift the clock.
            if i > 0 {
                at += -libm::log(1.0 - rng.random_range(0.0..1.0)) / rate;
            }
            Request {
                prompt,
                output,
                arrival: Ps::from_secs(at),
                generated: 0,
            }
        };
        let lengths = lengths.draw(n, fixed, seed);
        Self {
            requests: lengths.into_iter().enumerate().map(request).collect(),
            ..Self::default()
        }
    }
}

/// What an answer may take, each part if it is asked for (s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Time to the first token.
    pub ttft: Option<f64>,
    /// Time per further token, mean over a request.
    pub tpot: Option<f64>,
    /// Time to the last token.
    pub e2e: Option<f64>,
}

impl Slo {
    /// `ttft=1s,tpot=50ms,e2e=60s`, any of them.
    ///
    /// # Errors
    /// A sentence that says which part is wrong.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut slo = Self::default();
        for part in text.split(',') {
            let (name, value) = part
                .trim()
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is no limit such as ttft=1s"))?;
            let limit = self::text::seconds(value.trim().trim_start_matches("<=").trim())
                .ok()
                .filter(|s| *s > 0.0)
                .ok_or_else(|| format!("`{part}`: a time such as 200ms or 1s"))?;
            let name = name.trim();
            let place = match name {
                "ttft" => &mut slo.ttft,
                "tpot" => &mut slo.tpot,
                "e2e" => &mut slo.e2e,
                other => return Err(format!("`{other}` is not one of ttft, tpot, e2e")),
            };
            if place.replace(limit).is_some() {
                return Err(format!("{name} is there twice: keep one limit for each"));
            }
        }
        Ok(slo)
    }

    /// Whether times meet it; a request of one token has no time per further token.
    pub fn met(&self, ttft: f64, tpot: Option<f64>, e2e: f64) -> bool {
        let within = |limit: Option<f64>, time: f64| limit.is_none_or(|l| time <= l);
        within(self.ttft, ttft)
            && within(self.e2e, e2e)
            && tpot.is_none_or(|t| within(self.tpot, t))
    }
}
