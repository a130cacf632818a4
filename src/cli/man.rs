//! `kvplan completions` and `kvplan man`: made from the same definition as the help.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::{Error, Result, did_you_mean};

use super::out::Out;

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan completions bash > ~/.local/share/bash-completion/completions/kvplan\n  kvplan completions zsh"
)]
pub struct CompletionsArgs {
    /// Shell to complete in
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan man | man -l -\n  kvplan man simulate\n  kvplan man trace synth"
)]
pub struct ManArgs {
    /// Page of this verb, and of a verb below it [default: that of kvplan, which lists the verbs]
    #[arg(value_name = "VERB", num_args = 0..=2)]
    verb: Vec<String>,
}

/// Prints the script.
///
/// # Errors
/// It cannot be written (exit 2).
pub fn completions(args: &CompletionsArgs, mut command: Command, out: &mut Out) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "kvplan", &mut script);
    out.bytes(&script)
}

/// Prints the page.
///
/// # Errors
/// No such verb; it cannot be written (exit 2).
pub fn man(args: &ManArgs, mut command: Command, out: &mut Out) -> Result<()> {
    command.build();
    let mut page = command;
    for verb in &args.verb {
        let below = page.find_subcommand(verb).cloned();
        page = below.ok_or_else(|| unknown(verb, &page))?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|e| Error::internal(format!("man: {e}")))?;
    out.bytes(&text)
}

fn unknown(verb: &str, command: &Command) -> Error {
    let names = command.get_subcommands().map(Command::get_name);
    let names: Vec<&str> = names.filter(|n| *n != "help").collect();
    let guess = did_you_mean(verb, names.iter().copied())
        .map_or(String::new(), |g| format!("did you mean `{g}`? "));
    let error = Error::usage(format!("verb `{verb}` is not known"));
    if names.is_empty() {
        let above = command.get_name();
        return error.help(format!(
            "`{above}` has no verbs below it: kvplan man {above}"
        ));
    }
    error.help(format!("{guess}verbs: {}", names.join(", ")))
}
