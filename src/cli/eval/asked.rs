//! What an evaluation is asked: policies, and problems in tokens.

use std::collections::BTreeSet;

use super::{EvalArgs, GRID};
use crate::error::{Error, Result};
use crate::eval::Asked;
use crate::eval::answer::EqualBy;
use crate::eval::problems::Problem;
use crate::forward::{self, Text};
use crate::policy::four_tier::Hbm;
use crate::policy::{self, PolicySpec};
use crate::stats::mean;
use crate::sweep::by_counts;

/// A problem in tokens.
pub(super) struct Posed {
    /// Its prompt.
    pub(super) prompt: Vec<u32>,
    /// The text that all run along, where one is given and asked for.
    pub(super) given: Option<Vec<u32>>,
    /// Tokens drawn at most.
    pub(super) most: u32,
}

impl Posed {
    /// Prompt, and the most tokens that follow it.
    fn length(&self) -> by_counts::Length {
        let tokens = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let output = self.given.as_ref().map_or(self.most, |g| tokens(g.len()));
        (tokens(self.prompt.len()), output)
    }
}

/// Policies with their parameters, each once, the full cache first.
pub(super) fn resolved(texts: &[String]) -> Result<Vec<Asked>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for text in std::iter::once("full").chain(texts.iter().map(String::as_str)) {
        let spec = runnable(text)?;
        if seen.insert(spec.to_string()) {
            all.push(Asked {
                text: text.to_string(),
                spec,
            });
        }
    }
    Ok(all)
}

/// A policy that a model can decode under.
fn runnable(text: &str) -> Result<PolicySpec> {
    let spec = policy::parse(text)?;
    forward::check(&spec)?;
    if let Some(hbm @ (Hbm::Fit | Hbm::Bytes(_))) = spec.hbm() {
        return Err(Error::usage(format!(
            "policy `{}`, parameter `hbm`: {hbm} needs the memory of a machine, and there is none here",
            spec.name()
        ))
        .help("give a share of the unprotected tokens (hbm=0.5), or tokens a request (hbm=600tok)"));
    }
    Ok(spec)
}

/// The grid, with further parameters of the user's.
fn grid(more: &str) -> Vec<String> {
    let (ratios, evicted) = GRID;
    let semantics = if more.contains("semantics=") {
        ""
    } else {
        ",semantics=per-interval"
    };
    let comma = if more.is_empty() { "" } else { "," };
    let mut all = Vec::new();
    for hbm in ratios {
        for evict in evicted {
            all.push(format!(
                "four-tier:hbm={hbm},evict={evict}{semantics}{comma}{more}"
            ));
        }
    }
    all
}

impl EvalArgs {
    /// Policies as asked, the grid's after those named.
    pub(super) fn asked(&self) -> Result<Vec<String>> {
        let mut all = self.policy.clone();
        for text in self.grid.iter().flat_map(|more| grid(more)) {
            runnable(&text).map_err(|e| e.about("--grid"))?;
            all.push(text);
        }
        if all.is_empty() {
            return Err(
                Error::usage("there is no policy to hold against the full cache")
                    .help("name one with --policy (`kvplan list policies`), or ask for --grid"),
            );
        }
        for text in &self.policy {
            runnable(text)?;
        }
        Ok(all)
    }

    /// Problems in tokens; one that leaves no room for an answer is refused before any work.
    pub(super) fn posed(
        &self,
        problems: &[Problem],
        text: &Text,
        context: usize,
    ) -> Result<Vec<Posed>> {
        let one = |p: &Problem| {
            let prompt = self.prompt(p, text, context)?;
            let room = u32::try_from(context - prompt.len()).unwrap_or(u32::MAX);
            let most = self.max_new.min(room);
            Ok(Posed {
                prompt,
                given: self.given(p, text, most),
                most,
            })
        };
        problems.iter().map(one).collect()
    }

    fn prompt(&self, p: &Problem, text: &Text, context: usize) -> Result<Vec<u32>> {
        let file = self.file_of_problems().display();
        let wrong = |why: String| Error::data(format!("{file}, line {}: {why}", p.line));
        let ids = if self.raw {
            text.raw(&p.message)
        } else {
            text.chat(&p.message)
        };
        let ids = ids?;
        if ids.is_empty() {
            return Err(wrong("its prompt has no token".into()));
        }
        if ids.len() >= context {
            return Err(wrong(format!(
                "its prompt of {} tokens leaves no room in the model's context of {context}",
                ids.len()
            ))
            .help("shorten or remove it"));
        }
        Ok(ids)
    }

    /// The given text, where there is one with a token in it.
    fn given(&self, p: &Problem, text: &Text, most: u32) -> Option<Vec<u32>> {
        let reference = p.reference.as_deref().filter(|_| self.teacher_forced)?;
        let mut ids = text.encode(reference).ok()?;
        ids.truncate(most as usize);
        (!ids.is_empty()).then_some(ids)
    }

    /// Policies brought to something equal, where that is asked for.
    pub(super) fn brought(
        &self,
        asked: Vec<String>,
        posed: &[Posed],
    ) -> Result<(Vec<String>, Option<EqualBy>)> {
        let Some(by) = &self.equal else {
            return Ok((asked, None));
        };
        let lengths: Vec<by_counts::Length> = posed.iter().map(Posed::length).collect();
        let brought = by_counts::bring(by, &asked, &lengths)?;
        let equal = EqualBy {
            by: by.clone(),
            target_tokens: brought.target,
            prompt_tokens: mean(lengths.iter().map(|l| f64::from(l.0))),
            output_tokens: mean(lengths.iter().map(|l| f64::from(l.1))),
        };
        Ok((brought.policies, Some(equal)))
    }
}
