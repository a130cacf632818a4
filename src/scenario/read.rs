//! Texts of settings as numbers and words, with the range in every refusal.

use crate::deploy::{HostWeights, T1Mode};
use crate::error::{Error, Result, did_you_mean};
use crate::model::Model;
use crate::timeline::Selection;
use crate::units::{Bytes, text};

use super::keys::find;
use super::settings::Settings;

/// Longest prompt or output that is simulated (tokens).
pub(super) const MAX_TOKENS: u32 = 1 << 24;
/// Largest batch that is simulated.
pub(super) const MAX_BATCH: u32 = 100_000;

/// The text of a setting that always has one.
pub(super) fn text_of<'a>(settings: &'a Settings, name: &str) -> Result<&'a str> {
    settings
        .get(name)
        .and_then(|g| g.texts.first())
        .map(String::as_str)
        .ok_or_else(|| Error::internal(format!("setting `{name}` has neither value nor default")))
}

/// A whole number within a range.
pub(super) fn number(settings: &Settings, name: &str, low: u32, high: u32) -> Result<u32> {
    let text = text_of(settings, name)?;
    number_in(text, low, high).map_err(|e| settings.wrong(name, e))
}

/// A whole number within a range, from one text.
pub(super) fn number_in(text: &str, low: u32, high: u32) -> std::result::Result<u32, String> {
    let range = format!("between {} and {}", grouped(low), grouped(high));
    let digits = if thousands(text) {
        text.replace(',', "")
    } else {
        text.replace('_', "")
    };
    let whole: i128 = match digits.parse() {
        Ok(n) => n,
        Err(_) => text::tokens(text)
            .map(i128::from)
            .map_err(|e| format!("{e}; it takes a whole number {range}"))?,
    };
    u32::try_from(whole)
        .ok()
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| format!("`{text}` is out of range: it lies {range}"))
}

/// Whether commas stand only where thousands do: `16,384`, not `4,8`.
fn thousands(text: &str) -> bool {
    let mut groups = text.split(',');
    let first = groups.next().is_some_and(|g| (1..=3).contains(&g.len()));
    first && text.contains(',') && groups.all(|g| g.len() == 3)
}

fn grouped(n: u32) -> String {
    text::group(&n.to_string())
}

/// A seed: any 64-bit number.
pub(super) fn seed(settings: &Settings) -> Result<u64> {
    let text = text_of(settings, "seed")?;
    text.parse().map_err(|_| {
        settings.wrong(
            "seed",
            format!("`{text}` is not a number from 0 to 2^64 - 1"),
        )
    })
}

/// The share of GPU memory: over 0, at most 1.
pub(super) fn fraction(settings: &Settings) -> Result<f64> {
    let text = text_of(settings, "memory-fraction")?;
    let share = text::share(text).map_err(|e| settings.wrong("memory-fraction", e))?;
    if share > 0.0 {
        Ok(share)
    } else {
        Err(settings.wrong(
            "memory-fraction",
            "0 leaves no memory at all: it lies over 0 and at most at 1",
        ))
    }
}

/// A size.
pub(super) fn size(settings: &Settings, name: &str) -> Result<Bytes> {
    text::bytes(text_of(settings, name)?).map_err(|e| settings.wrong(name, e))
}

/// One of the words of a setting.
pub(super) fn word<'a>(settings: &'a Settings, name: &str) -> Result<&'a str> {
    let text = text_of(settings, name)?;
    let words = find(name).map_or(&[][..], |k| k.words);
    if words.contains(&text) {
        return Ok(text);
    }
    Err(not_a_word(settings, name, text, words))
}

fn not_a_word(settings: &Settings, name: &str, text: &str, words: &[&str]) -> Error {
    let list = words.join(", ");
    let error = settings.wrong(name, format!("`{text}` is not one of {list}"));
    match did_you_mean(text, words.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The T1 mode: a word, `staged` with an optional size, `selective` with what it fetches.
pub(super) fn t1(settings: &Settings) -> Result<T1Mode> {
    let text = text_of(settings, "t1")?;
    let (word, rest) = match text.split_once(':') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    };
    match (word, rest) {
        ("stream", None) => Ok(T1Mode::Stream),
        ("staged", None) => Ok(T1Mode::Staged(None)),
        ("staged", Some(size)) => {
            let buffer = text::bytes(size).map_err(|e| settings.wrong("t1", e))?;
            Ok(T1Mode::Staged(Some(buffer)))
        }
        ("host-attention", None) => Ok(T1Mode::HostAttention),
        ("direct", None) => Ok(T1Mode::Direct),
        ("selective", rest) => Selection::parse(rest.unwrap_or_default())
            .map(T1Mode::Selective)
            .map_err(|e| in_two(settings, &e)),
        ("stream" | "host-attention" | "direct", Some(_)) => Err(settings
            .wrong("t1", format!("`{word}` takes no size"))
            .help("only staged has a buffer (staged:8GiB), and selective a number (selective:top-k=512)")),
        _ => Err(not_a_word(
            settings,
            "t1",
            word,
            find("t1").map_or(&[][..], |k| k.words),
        )),
    }
}

/// What is wrong with `selective`, and the way out behind the colon.
fn in_two(settings: &Settings, why: &str) -> Error {
    match why.split_once(": write ") {
        Some((why, way)) => settings
            .wrong("t1", format!("selective: {why}"))
            .help(format!("write {way}")),
        None => settings.wrong("t1", format!("selective: {why}")),
    }
}

/// Parts that a batch is split into: 1 where nothing was said.
pub(super) fn split(settings: &Settings) -> Result<u32> {
    match settings.get("split") {
        Some(_) => number(settings, "split", 1, 2),
        None => Ok(1),
    }
}

/// Weights in host memory: a share, a size, or `fit`; none where nothing was said.
pub(super) fn host_weights(settings: &Settings, model: &Model) -> Result<Option<HostWeights>> {
    const NAME: &str = "weights-in-ddr";
    if settings.get(NAME).is_none() {
        return Ok(None);
    }
    let text = text_of(settings, NAME)?;
    if text == "fit" {
        return Ok(Some(HostWeights::Fit));
    }
    if let Ok(share) = text::share(text) {
        return Ok(Some(HostWeights::Share(share)));
    }
    let help = "write a share of the layers' weights (0.3), a size over all GPUs (20GiB), or fit";
    let size = text::bytes(text).map_err(|e| settings.wrong(NAME, e).help(help))?;
    let format = crate::model::WeightFormat::parse(text_of(settings, "weights")?)?;
    let layers = Bytes(model.weights_bytes(&format).layers);
    if size > layers {
        let most = text::show_bytes(layers);
        let why = format!(
            "`{text}` is more than the {most} of the layers of {}",
            model.id
        );
        return Err(settings.wrong(NAME, why).help(help));
    }
    Ok(Some(HostWeights::Size(size)))
}

/// Times as many output tokens; none where nothing was said.
pub(super) fn length_factor(settings: &Settings) -> Result<Option<f64>> {
    const NAME: &str = "length-factor";
    if settings.get(NAME).is_none() {
        return Ok(None);
    }
    let text = text_of(settings, NAME)?;
    let factor = text
        .parse()
        .ok()
        .filter(|f: &f64| (1.0..=100.0).contains(f));
    let wrong = || settings.wrong(NAME, format!("`{text}` is not a number from 1 to 100"));
    factor.map(Some).ok_or_else(wrong)
}
