//! A model, factor by factor: KV bytes per token, parameters by part, weight bytes by format.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::cli::grid::{Cell, Column, Grid, number, pretty};
use crate::error::Result;
use crate::model::{Attention, KvFormat, Layer, MatrixKind, Model, WeightFormat};
use crate::units::Bytes;
use crate::units::text::{group, show_bytes};

/// What is shown of a model.
pub(super) struct View<'a> {
    pub(super) model: &'a Model,
    pub(super) kv: KvFormat,
    pub(super) formats: &'a [WeightFormat],
}

fn digits(n: u64) -> String {
    group(&n.to_string())
}

/// Bytes with their fraction where a format has one.
fn exact(bytes: f64) -> String {
    let text = if bytes.fract() == 0.0 {
        format!("{bytes:.0}")
    } else {
        format!("{bytes:.1}")
    };
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), String::new()), |(w, r)| {
            (w, format!(".{r}"))
        });
    format!("{}{rest} B", group(whole))
}

impl View<'_> {
    /// For people.
    pub(super) fn text(&self) -> String {
        let m = self.model;
        let head = if m.tied {
            "output head shares the embedding"
        } else {
            "output head apart"
        };
        let mut out = format!(
            "{} ({}), family {}\n{} layers, hidden {}, vocabulary {}, context {} tokens, {head}\nshape from: {}\n",
            m.id,
            m.name,
            m.family,
            m.layers.len(),
            digits(m.hidden.into()),
            digits(m.vocab.into()),
            digits(m.max_context.into()),
            m.source
        );
        out.push_str(&self.kv_text());
        out.push_str(&self.parameters_text());
        out + "\nWeights, bytes\n" + &indent(&self.weights_grid().table())
    }

    fn kv_text(&self) -> String {
        let m = self.model;
        let mut out = format!("\nKV bytes per token, {}\n", self.kv);
        let kinds = kinds(m);
        for (layer, count) in &kinds {
            let rule = layer.kv_rule();
            let bytes = *count as f64 * self.kv.rule_bytes(rule);
            let window = rule.window.map_or(String::new(), |w| {
                format!("   (holds {} tokens at most)", digits(w.into()))
            });
            writeln!(
                out,
                "  {} = {}{window}",
                factors(layer, *count, self.kv),
                exact(bytes)
            )
            .expect("a string takes it");
        }
        let total = exact(m.kv_bytes_per_token(self.kv));
        if kinds.len() > 1 {
            writeln!(
                out,
                "  together {total} while every layer's window has room"
            )
            .expect("a string takes it");
        }
        out.push_str(&heads_note(m));
        for tokens in lengths(m) {
            let bytes = m.kv_bytes(tokens, self.kv);
            let line = format!(
                "  a request of {} tokens holds {}\n",
                digits(tokens),
                show_bytes(Bytes::ceil(bytes))
            );
            out.push_str(&line);
        }
        out
    }

    fn parameters_text(&self) -> String {
        let m = self.model;
        let mut out = "\nParameters\n".to_string();
        for (name, n) in parts(m) {
            writeln!(out, "  {name:<28}{:>20}", digits(n)).expect("a string takes it");
        }
        let published = match m.published_parameters {
            Some(p) if p == m.parameters() => "as published".to_string(),
            Some(p) => format!("published: {}", digits(p)),
            None => "no published count to compare".into(),
        };
        let (all, active) = (digits(m.parameters()), digits(m.active_parameters()));
        writeln!(out, "  {:<28}{all:>20}   {published}", "all").expect("a string takes it");
        let note = if m.tied {
            "(the embedding once, as the head)"
        } else {
            "(of the embedding, one row)"
        };
        writeln!(
            out,
            "  {:<28}{active:>20}   {note}",
            "read by a decode step"
        )
        .expect("a string takes it");
        out
    }

    fn weights_grid(&self) -> Grid {
        let mut grid = Grid::new(&[
            Column("format", "FORMAT", false),
            Column("layers_bytes", "LAYERS", true),
            Column("embedding_bytes", "EMBEDDING", true),
            Column("head_bytes", "HEAD", true),
            Column("total_bytes", "TOTAL", true),
            Column("", "", true),
        ]);
        for format in self.formats {
            let w = self.model.weights_bytes(format);
            let cell = |n: u64| Cell::number(n as f64, digits(n));
            grid.row(vec![
                Cell::text(format.to_string()),
                cell(w.layers),
                cell(w.embedding),
                cell(w.head),
                cell(w.total()),
                Cell::text(show_bytes(Bytes(w.total()))),
            ]);
        }
        grid
    }

    /// For machines.
    pub(super) fn json(&self) -> Result<String> {
        let m = self.model;
        let by_format: Map<String, Value> = KvFormat::ALL
            .iter()
            .map(|f| (f.to_string(), number(m.kv_bytes_per_token(*f))))
            .collect();
        let weights = self
            .formats
            .iter()
            .map(|f| (f.to_string(), Value::from(m.weights_bytes(f).total())));
        let split = self.formats.iter().map(|f| {
            let w = m.weights_bytes(f);
            (
                f.to_string(),
                json!({ "layers": w.layers, "embedding": w.embedding, "head": w.head }),
            )
        });
        let kinds = kinds(m).into_iter().map(|(l, n)| self.kind(&l, n));
        pretty(&json!({
            "schema": "kvplan/model/1",
            "name": m.id,
            "published_name": m.name,
            "family": m.family,
            "source": m.source,
            "layers": m.layers.len(),
            "hidden": m.hidden,
            "vocab": m.vocab,
            "tied": m.tied,
            "max_context_tokens": m.max_context,
            "parameters": m.parameters(),
            "active_parameters": m.active_parameters(),
            "published_parameters": m.published_parameters,
            "parameters_by_part": parts(m).into_iter().map(|(k, v)| (k.to_string(), Value::from(v))).collect::<Map<_, _>>(),
            "kv_format": self.kv.to_string(),
            "kv_bytes_per_token": number(m.kv_bytes_per_token(self.kv)),
            "kv_bytes_per_token_by_format": by_format,
            "kv_by_kind": kinds.collect::<Vec<_>>(),
            "weights_bytes": weights.collect::<Map<_, _>>(),
            "weights_bytes_by_part": split.collect::<Map<_, _>>(),
        }))
    }

    fn kind(&self, layer: &Layer, count: usize) -> Value {
        let rule = layer.kv_rule();
        json!({
            "layers": count,
            "elements_per_token": rule.elements,
            "vectors_per_token": rule.vectors,
            "window_tokens": rule.window,
            "kv_bytes_per_token": number(count as f64 * self.kv.rule_bytes(rule)),
        })
    }
}

/// Kinds of layer by what their KV does, in order of appearance, with their number.
fn kinds(m: &Model) -> Vec<(Layer, usize)> {
    let mut kinds: Vec<(Layer, usize)> = Vec::new();
    for layer in &m.layers {
        match kinds
            .iter_mut()
            .find(|(k, _)| k.attention == layer.attention)
        {
            Some((_, n)) => *n += 1,
            None => kinds.push((*layer, 1)),
        }
    }
    kinds
}

/// `80 layers x 2 (K and V) x 8 KV heads x 128 wide x 2 B`.
fn factors(layer: &Layer, count: usize, kv: KvFormat) -> String {
    let unit = match kv {
        KvFormat::Fp16 => "2 B",
        KvFormat::Fp8 => "1 B",
        KvFormat::Int8 => "1 B + 2 B scale a vector",
        KvFormat::Q8_0 => "34/32 B",
        KvFormat::Q4_0 => "18/32 B",
    };
    match layer.attention {
        Attention::Grouped {
            kv_heads, head_dim, ..
        } if kv == KvFormat::Int8 => {
            format!(
                "{count} layers x 2 (K and V) x {kv_heads} KV heads x ({head_dim} wide x 1 B + 2 B scale)"
            )
        }
        Attention::Grouped {
            kv_heads, head_dim, ..
        } => {
            format!("{count} layers x 2 (K and V) x {kv_heads} KV heads x {head_dim} wide x {unit}")
        }
        Attention::Latent { kv_rank, rope, .. } if kv == KvFormat::Int8 => {
            format!("{count} layers x (latent {kv_rank} + rope key {rope} + 2 scales of 2 B)")
        }
        Attention::Latent { kv_rank, rope, .. } => {
            format!("{count} layers x (latent {kv_rank} + rope key {rope}) x {unit}")
        }
    }
}

/// What counting query heads would give: the usual slip.
fn heads_note(m: &Model) -> String {
    match m.layers.first().map(|l| l.attention) {
        Some(Attention::Grouped {
            heads, kv_heads, ..
        }) if heads > kv_heads => format!(
            "  {heads} query heads share {kv_heads} KV heads: counting query heads would give {} times as much\n",
            heads / kv_heads
        ),
        Some(Attention::Latent { heads, .. }) => {
            format!("  one latent serves all {heads} heads; K and V are made from it on the fly\n")
        }
        _ => String::new(),
    }
}

/// Lengths worth a line: a long answer, and the longest context.
fn lengths(m: &Model) -> Vec<u64> {
    let longest = u64::from(m.max_context);
    [1024, 16_384]
        .into_iter()
        .filter(|t| *t < longest)
        .chain([longest])
        .collect()
}

/// Parameters by part; they sum to all of them.
fn parts(m: &Model) -> Vec<(&'static str, u64)> {
    let of = |kind: MatrixKind| -> u64 {
        let matrices = m.layers.iter().flat_map(|l| l.matrices(m.hidden));
        matrices
            .filter(|x| x.kind == kind)
            .map(|x| u64::from(x.copies) * (x.elements() + u64::from(x.bias) * u64::from(x.out)))
            .sum()
    };
    let small: u64 = m.layers.iter().map(|l| l.small_parameters(m.hidden)).sum();
    let all = [
        ("embedding", m.vocab_matrix()),
        ("attention", of(MatrixKind::Attention)),
        ("feed-forward", of(MatrixKind::Ffn)),
        ("routers", of(MatrixKind::Router)),
        ("experts", of(MatrixKind::Expert)),
        ("norms and the like", small + u64::from(m.hidden)),
        ("head", if m.tied { 0 } else { m.vocab_matrix() }),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).collect()
}

fn indent(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| all + "  " + line + "\n")
}
