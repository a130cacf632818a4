//! Text to tokens and back, as the model's own files say.
//!
//! A GGUF file holds the vocabulary, the merges and the *name* of the rule that splits text before merging; the rules of
//! the supported families are known here, any other is refused by name, because a wrong split gives other tokens without
//! a sign of it. `SentencePiece` vocabularies (`llama`) have scores instead ([`super::pieces`]). A folder holds a
//! `tokenizer.json`, which says everything. The work itself is the `tokenizers` crate's.

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::checkpoint::Checkpoint;
use super::template::Template;
use crate::error::{Error, Result};
use crate::model::gguf::header::Value;

/// The tokenizer of a model, with its chat template.
#[derive(Debug)]
pub struct Text {
    pub(super) label: String,
    pub(super) tokenizer: Tokenizer,
    /// Put before a raw text.
    pub(super) begin: Option<u32>,
    /// Tokens that end an answer.
    pub(super) ends: Vec<u32>,
    pub(super) template: Option<Template>,
}

/// How the supported families split text before merging.
enum Splitting {
    /// Digits one by one, then GPT-2's rule.
    Digits,
    /// GPT-2's rule.
    Gpt2,
    /// A pattern, then bytes; whether text is normalised first and whole words skip the merges.
    Pattern {
        regex: &'static str,
        nfc: bool,
        whole: bool,
    },
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Names of rules as GGUF files have them.
const SPLITTINGS: [&str; 8] = [
    "smollm",
    "gpt-2",
    "default",
    "qwen2",
    "deepseek-r1-qwen",
    "llama-bpe",
    "llama3",
    "llama-v3",
];

fn splitting(name: &str) -> Option<Splitting> {
    Some(match name {
        "smollm" => Splitting::Digits,
        "gpt-2" | "default" => Splitting::Gpt2,
        "qwen2" | "deepseek-r1-qwen" => Splitting::Pattern {
            regex: QWEN2,
            nfc: true,
            whole: false,
        },
        "llama-bpe" | "llama3" | "llama-v3" => Splitting::Pattern {
            regex: LLAMA3,
            nfc: false,
            whole: true,
        },
        _ => return None,
    })
}

impl Text {
    /// The tokenizer and template of a model.
    ///
    /// # Errors
    /// Data: a kind of tokenizer that is not supported, missing or contradictory parts.
    pub fn open(checkpoint: &Checkpoint) -> Result<Self> {
        if checkpoint.metadata.is_empty() {
            super::folder_text::open(checkpoint)
        } else {
            from_metadata(checkpoint)
        }
    }

    /// Tokens of a text as it is, behind the token that begins texts where the model has one.
    ///
    /// # Errors
    /// Data: the tokenizer refuses the text.
    pub fn raw(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids: Vec<u32> = self.begin.into_iter().collect();
        ids.extend(self.encode(text)?);
        Ok(ids)
    }

    /// Tokens of a user's message in the model's chat template, up to where the answer begins.
    ///
    /// # Errors
    /// Usage: the model has no template. Data: the template fails.
    pub fn chat(&self, message: &str) -> Result<Vec<u32>> {
        let template = self.template.as_ref().ok_or_else(|| {
            Error::usage(format!("{}: has no chat template", self.label))
                .help("give the text as it is with --raw")
        })?;
        self.encode(&template.render(&self.label, message)?)
    }

    /// Tokens of a text, special ones recognised.
    ///
    /// # Errors
    /// Data: the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode_fast(text, false);
        let failed =
            |e: tokenizers::Error| Error::data(format!("{}: its tokenizer: {e}", self.label));
        encoding.map(|e| e.get_ids().to_vec()).map_err(failed)
    }

    /// Text of tokens, special ones included.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, false).unwrap_or_default()
    }

    /// Whether a token ends an answer.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }
}

/// Values under `tokenizer.`.
struct Keys<'a>(&'a Checkpoint);

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.metadata(&format!("tokenizer.{key}"))
    }

    fn wrong(&self, key: &str, why: &str) -> Error {
        Error::data(format!("{}: `tokenizer.{key}` {why}", self.0.label))
    }

    fn texts(&self, key: &str) -> Result<&[String]> {
        match self.get(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            _ => Err(self.wrong(key, "is missing or no list of texts")),
        }
    }

    fn unmade(&self, why: &tokenizers::Error) -> Error {
        self.wrong("ggml.tokens", &format!("make no tokenizer: {why}"))
    }

    /// Refuses more tokens than the model has.
    fn fit(&self, tokens: &[String]) -> Result<()> {
        if tokens.len() > self.0.shape.vocab {
            return Err(self.wrong("ggml.tokens", "are more than the model's vocabulary"));
        }
        Ok(())
    }

    /// A token that must be in the vocabulary.
    fn token(&self, key: &str) -> Option<u32> {
        let id = self.get(key)?.as_count()?;
        u32::try_from(id)
            .ok()
            .filter(|id| (*id as usize) < self.0.shape.vocab)
    }

    fn unsupported(&self, key: &str, given: &str, known: &str) -> Error {
        let shown: String = given.chars().take(40).collect();
        Error::data(format!(
            "{}: tokenizer `{shown}` (`tokenizer.{key}`) is not supported",
            self.0.label
        ))
        .help(format!(
            "supported: {known}; or use the folder of the original model with its tokenizer.json"
        ))
    }
}

fn from_metadata(checkpoint: &Checkpoint) -> Result<Text> {
    let keys = Keys(checkpoint);
    let word = |key: &str| keys.get(key).and_then(Value::as_text);
    let tokens = || keys.texts("ggml.tokens");
    let flag = |key: &str| keys.get(key).and_then(Value::as_count).map(|n| n == 1);
    let (mut tokenizer, begins) = match word("ggml.model").unwrap_or("none") {
        "gpt2" => {
            let pre = word("ggml.pre").unwrap_or("default");
            let splitting = splitting(pre)
                .ok_or_else(|| keys.unsupported("ggml.pre", pre, &SPLITTINGS.join(", ")))?;
            (built(&keys, tokens()?, &splitting)?, false)
        }
        "llama" => {
            let prefix = flag("ggml.add_space_prefix").unwrap_or(true);
            (of_pieces(&keys, tokens()?, prefix)?, true)
        }
        other => return Err(keys.unsupported("ggml.model", other, "gpt2, llama")),
    };
    let tokens = tokens()?;
    tokenizer
        .add_special_tokens(special(&keys, tokens))
        .map_err(|e| keys.unmade(&e))?;
    let begin = keys.token("ggml.bos_token_id");
    let spelled = |id: Option<u32>| {
        id.and_then(|i| tokens.get(i as usize))
            .cloned()
            .unwrap_or_default()
    };
    let adds = flag("ggml.add_bos_token").unwrap_or(begins);
    let end = keys.token("ggml.eos_token_id");
    let template = word("chat_template").map(|t| Template::new(t, spelled(begin), spelled(end)));
    Ok(Text {
        label: checkpoint.label.clone(),
        tokenizer,
        begin: begin.filter(|_| adds),
        ends: [end, keys.token("ggml.eot_token_id")]
            .into_iter()
            .flatten()
            .collect(),
        template,
    })
}

/// The tokenizer of a `SentencePiece` vocabulary.
fn of_pieces(keys: &Keys<'_>, tokens: &[String], prefix: bool) -> Result<Tokenizer> {
    keys.fit(tokens)?;
    let scores = match keys.get("ggml.scores") {
        Some(Value::Numbers(scores)) if scores.len() == tokens.len() => scores,
        _ => return Err(keys.wrong("ggml.scores", "is missing or not one number a token")),
    };
    let unknown = keys.token("ggml.unknown_token_id");
    let unknown = unknown.and_then(|id| tokens.get(id as usize));
    super::pieces::tokenizer(tokens, scores, unknown.map(String::as_str), prefix)
        .map_err(|e| keys.unmade(&e))
}

/// The tokenizer of a vocabulary with merges.
fn built(keys: &Keys<'_>, tokens: &[String], splitting: &Splitting) -> Result<Tokenizer> {
    let failed = |e: tokenizers::Error| keys.unmade(&e);
    let merges = keys.texts("ggml.merges")?.iter().map(|m| {
        let pair = m
            .split_once(' ')
            .map(|(a, b)| (a.to_string(), b.to_string()));
        pair.ok_or_else(|| keys.wrong("ggml.merges", "holds one that is not a pair"))
    });
    keys.fit(tokens)?;
    let vocab = (0u32..).zip(tokens).map(|(id, t)| (t.clone(), id));
    let whole = matches!(splitting, Splitting::Pattern { whole: true, .. });
    let bpe = BPE::builder()
        .vocab_and_merges(
            vocab.collect::<tokenizers::models::bpe::Vocab>(),
            merges.collect::<Result<_>>()?,
        )
        .ignore_merges(whole)
        .build()
        .map_err(failed)?;
    let mut tokenizer = Tokenizer::new(bpe);
    let parts: Vec<PreTokenizerWrapper> = match splitting {
        Splitting::Digits => vec![
            Digits::new(true).into(),
            ByteLevel::new(false, true, true).into(),
        ],
        Splitting::Gpt2 => vec![ByteLevel::new(false, true, true).into()],
        Splitting::Pattern { regex, nfc, .. } => {
            if *nfc {
                tokenizer.with_normalizer(Some(NFC)).map_err(failed)?;
            }
            let pattern = SplitPattern::Regex((*regex).into());
            let split =
                Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(failed)?;
            vec![split.into(), ByteLevel::new(false, true, false).into()]
        }
    };
    tokenizer.with_pre_tokenizer(Some(Sequence::new(parts)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    Ok(tokenizer)
}

/// Control tokens (type 3) and those that were added whole (type 4).
fn special(keys: &Keys<'_>, tokens: &[String]) -> Vec<AddedToken> {
    let Some(Value::Numbers(kinds)) = keys.get("ggml.token_type") else {
        return Vec::new();
    };
    let marked = tokens
        .iter()
        .zip(kinds)
        .filter(|(t, kind)| !t.is_empty() && (**kind - 3.5).abs() < 0.6);
    marked
        .map(|(t, _)| AddedToken::from(t.clone(), true).normalized(false))
        .collect()
}
