//! One text while it is recorded.

use super::{Done, End, Settings, Task, vectors};
use crate::error::{Error, Result};
use crate::forward::{CHUNK, Cache, Detail, Drawn, Item, Model, Rows, Shape};
use crate::forward::{likeliest, log_probability};
use crate::trace::{Header, TraceWriter, half};

/// A text being recorded.
pub(super) struct Running {
    task: Task,
    writer: TraceWriter,
    layers: bool,
    keys: bool,
    /// Logits of what follows.
    logits: Vec<f32>,
    /// Token of the row that comes next.
    next: Drawn,
    tokens: Vec<u32>,
}

/// What a step says of one token.
pub(super) struct Row<'a> {
    pub(super) weights: &'a Rows,
    /// Empty where they are not kept.
    pub(super) queries: &'a [f32],
    /// Logits of what follows.
    pub(super) logits: &'a [f32],
}

/// Attention that a step must hand out.
pub(super) fn detail(settings: &Settings) -> Detail {
    if settings.layers {
        Detail::Layers
    } else {
        Detail::Mean
    }
}

impl Running {
    /// Runs the prompt and the given tokens.
    pub(super) fn begin(
        model: &Model,
        header: &Header,
        settings: &Settings,
        task: Task,
        cache: &mut [Cache; 1],
        tell: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let shape = model.shape();
        let window = settings.keys.unwrap_or(0) as usize;
        let prompt = model.prompt(cache, &task.prompt, window, tell)?;
        let header = full_header(header, settings, &task, prompt.sums)?;
        let mut writer = TraceWriter::create(&task.path, header)?;
        if settings.keys.is_some() {
            vectors::prompt(&mut writer, shape, &cache[0], &prompt.queries.concat())?;
        }
        let mut text = Self {
            writer,
            layers: settings.layers,
            keys: settings.keys.is_some(),
            logits: prompt.logits,
            next: Drawn {
                token: 0,
                logp: 0.0,
            },
            tokens: Vec::new(),
            task,
        };
        for chunk in text.task.given.clone().chunks(CHUNK) {
            let mut items = Item::of(0, chunk, detail(settings));
            for item in &mut items {
                item.queries = text.keys;
            }
            let step = model.step(cache, &items)?;
            let logits = step.logits.chunks_exact(shape.vocab);
            for (i, (token, logits)) in chunk.iter().zip(logits).enumerate() {
                text.take(*token)?;
                let row = Row {
                    weights: &step.rows[i],
                    queries: &step.queries[i],
                    logits,
                };
                text.push(shape, &cache[0], &row)?;
            }
            tell(chunk.len() as u64);
        }
        Ok(text)
    }

    /// The given token is the next one.
    fn take(&mut self, token: u32) -> Result<()> {
        let best = likeliest(&self.logits)?;
        self.next = Drawn {
            token,
            logp: log_probability(&self.logits, best, token),
        };
        Ok(())
    }

    /// Draws the next token, or says why there is none.
    pub(super) fn draw(
        &mut self,
        settings: &Settings,
        is_end: &dyn Fn(u32) -> bool,
    ) -> Result<Option<End>> {
        if self.task.scored {
            return Ok(Some(End::Given));
        }
        let step = self.writer.rows();
        if step >= settings.max_new {
            return Ok(Some(End::Limit));
        }
        let drawn = settings.sampler.draw(&self.logits, self.task.number, step);
        self.next = drawn.map_err(|e| self.named(e, step))?;
        Ok(is_end(self.next.token).then_some(End::Model))
    }

    /// An error of the model's numbers, with the text and the step it came up in.
    fn named(&self, error: Error, step: u32) -> Error {
        Error {
            message: format!(
                "text {}, token {step}: {}",
                self.task.number + 1,
                error.message
            ),
            ..error
        }
    }

    /// The token that was drawn last.
    pub(super) fn drawn(&self) -> u32 {
        self.next.token
    }

    /// Writes the row of the token drawn last, and keeps the logits of what follows.
    #[allow(clippy::cast_possible_truncation)] // as the format stores it
    pub(super) fn push(&mut self, shape: &Shape, cache: &Cache, row: &Row<'_>) -> Result<()> {
        let position = row.weights.positions() - 1;
        let halves =
            |w: &[f32]| -> Vec<u16> { w.iter().map(|w| half::from_f64(f64::from(*w))).collect() };
        self.writer.push_row(&halves(&row.weights.mean()))?;
        if self.layers {
            self.writer.push_layers(&halves(row.weights.weights()))?;
        }
        self.writer
            .push_token(self.next.token, self.next.logp as f32)?;
        if self.keys {
            vectors::row(&mut self.writer, shape, cache, position, row.queries)?;
        }
        self.tokens.push(self.next.token);
        self.logits.clear();
        self.logits.extend_from_slice(row.logits);
        Ok(())
    }

    /// Gives the trace its name, and removes what earlier runs left of it.
    pub(super) fn finish(self, end: End) -> Result<Done> {
        let done = Done {
            path: self.task.path.clone(),
            prompt: count(self.task.prompt.len())?,
            rows: self.writer.rows(),
            end,
            tokens: self.tokens,
        };
        self.writer.finish()?;
        for part in super::resume::parts(&done.path) {
            std::fs::remove_file(part).ok(); // a part that stays does no harm
        }
        Ok(done)
    }
}

fn count(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::usage("a text has more than 2^32 tokens"))
}

/// The header of one text.
fn full_header(model: &Header, settings: &Settings, task: &Task, sums: Vec<f32>) -> Result<Header> {
    let given = count(task.given.len())?;
    let mut header = model.clone();
    header.prompt_length = count(task.prompt.len())?;
    header.prompt_ids = Some(task.prompt.clone());
    header.prompt_column_sums = Some(sums);
    if settings.layers {
        header = header.with_layers(model.layers.unwrap_or(0));
    }
    header = header.with_tokens();
    if let Some(window) = settings.keys {
        vectors::announce(&mut header, window)?;
    }
    if task.scored {
        header.forced = (0..given).collect();
        header.planned_rows = Some(given);
    } else {
        header.sampler = Some(crate::trace::Sampler {
            temperature: Some(settings.sampler.temperature),
            top_p: Some(settings.sampler.top_p),
            seed: Some(settings.sampler.seed),
        });
    }
    Ok(header)
}
