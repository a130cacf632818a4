//! A policy's card: what it does, what it needs of a trace, its parameters as resolved.

use serde_json::json;

use super::Form;
use crate::cli::grid::{Cell, Column, Grid, pretty};
use crate::error::{Error, Result};
use crate::policy::{self, Card, Lanes};

/// The card of `NAME[:key=value,...]`.
pub(super) fn text(spec: &str, form: Form) -> Result<String> {
    let card = policy::parse(spec)?.card();
    match form {
        Form::Json => json(&card),
        Form::Table => Ok(table(&card)),
        Form::Toml => {
            Err(Error::usage("a policy is not a file").help("`--format json` prints its card"))
        }
    }
}

fn traits(card: &Card) -> Vec<&'static str> {
    let all = [
        (card.oracle, "reads the future: a ceiling, not a policy"),
        (
            card.destroys,
            "destroys tokens: never ranked with policies that do not",
        ),
        (
            card.counts_by_length,
            "its token counts follow from the lengths alone",
        ),
    ];
    all.into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, text)| text)
        .collect()
}

fn lanes(card: &Card) -> &'static str {
    match card.lanes {
        Lanes::Sequence => "sequence",
        Lanes::Layer => "layer",
        Lanes::KvHead => "kv-head",
    }
}

fn table(card: &Card) -> String {
    let mut grid = Grid::new(&[
        Column("key", "PARAMETER", false),
        Column("value", "VALUE", false),
        Column("help", "WHAT IT DOES", false),
    ]);
    for p in &card.params {
        grid.row(vec![
            Cell::text(p.key),
            Cell::text(&p.value),
            Cell::text(p.help),
        ]);
    }
    let params = if card.params.is_empty() {
        "no parameters\n".to_string()
    } else {
        grid.table()
    };
    let traits = traits(card)
        .into_iter()
        .fold(String::new(), |all, t| all + t + "\n");
    let stand_in = card.stand_in.map_or(String::new(), |name| {
        format!("without those: ask for the approximation {name}\n")
    });
    format!(
        "{}: {}\nrule from: {}\none placement a {}\nneeds of a trace: {}\n{stand_in}{traits}\n{params}",
        card.name,
        card.summary,
        card.source,
        lanes(card).replace("kv-head", "KV head"),
        card.needs.words()
    )
}

fn json(card: &Card) -> Result<String> {
    let params = card
        .params
        .iter()
        .map(|p| json!({ "key": p.key, "value": p.value, "help": p.help }));
    pretty(&json!({
        "schema": "kvplan/policy/1",
        "name": card.name,
        "summary": card.summary,
        "source": card.source,
        "lanes": lanes(card),
        "needs": card.needs.words(),
        "stand_in": card.stand_in,
        "oracle": card.oracle,
        "destroys": card.destroys,
        "counts_by_length": card.counts_by_length,
        "parameters": params.collect::<Vec<_>>(),
    }))
}
