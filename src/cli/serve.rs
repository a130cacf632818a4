//! `kvplan serve`: the page, on this machine, until Ctrl-C.

use clap::Args;

use crate::error::Result;
use crate::web::{Limits, Server};

use super::interrupt;
use super::out::Out;

/// Arguments of `serve`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "The page answers with the numbers of `kvplan plan` as its sliders move; its address keeps the\n\
    settings, which are the flags of `plan`. Nobody but this machine can reach it. From another one,\n\
    through ssh, with the same port on both sides:\n  \
    ssh -L 8017:127.0.0.1:8017 HOST kvplan serve\n\n\
    EXAMPLES:\n  kvplan serve\n  kvplan serve --port 8080\n  \
    curl 'http://127.0.0.1:8017/api/plan?hardware=h100-sxm&batch=4&policy=four-tier:hbm=0.3&t1=staged'\n  \
    curl -o scenario.toml 'http://127.0.0.1:8017/download/scenario.toml?hardware=gh200'\n  \
    kvplan plan scenario.toml"
)]
pub struct ServeArgs {
    /// Port of 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 8017)]
    port: u16,
}

/// Serves until Ctrl-C; stdout has the address of the page.
///
/// # Errors
/// Exit 2: the port is taken.
pub fn run(args: &ServeArgs, out: &mut Out) -> Result<()> {
    let server = Server::bind(args.port, Limits::default())?;
    out.result(&format!("http://{}/\n", server.address()))?;
    out.finish()?;
    out.note("open it in a browser; Ctrl-C stops");
    interrupt::serve();
    server.run(interrupt::asked)
}
