//! A model's chat template: Jinja, as Hugging Face renders it.
//!
//! The template comes with the model and is hostile input like the rest of its file: it sees one message and the two
//! special tokens, no files and no clock, and has a bounded number of steps. A template that asks for the date gets
//! none, so that equal prompts give equal tokens on any day.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, context};

use crate::error::{Error, Result};

/// Steps a template may take; the longest known one takes some hundreds.
const FUEL: u64 = 100_000;

/// A chat template with the special tokens it may ask for.
#[derive(Clone, Debug)]
pub(super) struct Template {
    source: String,
    begin: String,
    end: String,
}

impl Template {
    pub(super) fn new(source: &str, begin: String, end: String) -> Self {
        Self {
            source: source.into(),
            begin,
            end,
        }
    }

    /// A user's message up to where the answer begins.
    pub(super) fn render(&self, label: &str, message: &str) -> Result<String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.unwrap_or_default());
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", refuse);
        let rendered = environment.render_str(
            &self.source,
            context! {
                messages => [context! { role => "user", content => message }],
                add_generation_prompt => true,
                bos_token => self.begin.as_str(),
                eos_token => self.end.as_str(),
            },
        );
        rendered.map_err(|e| {
            if e.kind() == ErrorKind::OutOfFuel {
                return Error::data(format!(
                    "{label}: its chat template takes over {FUEL} steps for a message of {} bytes",
                    message.len()
                ))
                .help("shorten the message, or give it as it is with --raw");
            }
            let why: String = e.to_string().chars().take(200).collect();
            Error::data(format!("{label}: its chat template fails: {why}"))
                .help("give the text as it is with --raw")
        })
    }
}

/// How a template says that it cannot take a message.
fn refuse(why: String) -> std::result::Result<String, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
}
