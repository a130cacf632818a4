//! `kvplan plot`: figures.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::error::{Error, Result, did_you_mean};
use crate::plan::{curve, figures};
use crate::report::plot::{
    Image, attention, equal, how_far, layers, price, savings, steps, tiers, tornado,
};
use crate::scenario::settings::Origin;
use crate::scenario::{Scenario, Settings, inputs, print, resolve};
use crate::sweep::figure::equals;

use super::Answer;
use super::flags::{Deployment, keep_inputs, scenario_file};
use super::out::Out;
use super::progress;

/// A kind of figure.
struct Kind {
    name: &'static str,
    /// What it shows.
    what: &'static str,
    /// Settings that the figure varies itself.
    varies: &'static [&'static str],
    /// Settings that stand unless asked otherwise: the question that the figure is best at.
    stands: &'static [(&'static str, &'static str)],
    draw: fn(&Settings, &Scenario, Image) -> Result<Vec<u8>>,
}

/// All kinds.
const KINDS: &[Kind] = &[
    Kind {
        name: "how-far",
        what: "tokens per request against tokens/s: wall, free zone, T1 modes, the engine as it is",
        varies: &["policy", "t1", "occupancy", "trace"],
        stands: &[],
        draw: |_, s, image| how_far::draw(&curve::curve(s, s.prompt + s.output)?, image),
    },
    Kind {
        name: "savings",
        what: "HBM saved as a map of model (7B to 70B), batch and context, moved and destroyed apart",
        varies: &["model", "batch", "output", "occupancy", "trace"],
        stands: &[(
            "policy",
            "four-tier:hbm=0.5,evict=0.03,semantics=cumulative",
        )],
        draw: |_, s, image| savings::draw(&figures::savings::savings(s)?, image),
    },
    Kind {
        name: "price",
        what: "throughput kept against HBM saved, a line a link, and the published 48 GiB",
        varies: &["policy", "occupancy", "trace"],
        stands: &[("weights", "int4"), ("output", "31744")],
        draw: |_, s, image| price::draw(&figures::price::price(s)?, image),
    },
    Kind {
        name: "tiers",
        what: "tier occupancy of a request and destroyed mass over its steps",
        varies: &[],
        stands: &[(
            "policy",
            "four-tier:hbm=0.3,evict=0.03,semantics=cumulative",
        )],
        draw: |_, s, image| tiers::draw(&figures::tiers::tiers(s)?, image),
    },
    Kind {
        name: "attention",
        what: "what a recording attends to, by position and step, coloured by tier",
        varies: &[],
        stands: &[
            ("trace", "smol_1_t9_s5"),
            ("prompt", "128"),
            ("output", "1000"),
            (
                "policy",
                "four-tier:hbm=0.3,evict=0.25,semantics=cumulative",
            ),
        ],
        draw: |_, s, image| attention::draw(&figures::attention::attention(s)?, image),
    },
    Kind {
        name: "layers",
        what: "the first layers of a step over time: compute, link, host",
        varies: &["occupancy", "fidelity"],
        stands: &[("hardware", "gh200")],
        draw: |_, s, image| layers::draw(&figures::layers::layers(s)?, image),
    },
    Kind {
        name: "step-time",
        what: "where the mean decode step goes, way by way",
        varies: &["t1", "occupancy", "trace"],
        stands: &[("hardware", "h100-sxm")],
        draw: |_, s, image| steps::draw(&figures::steps::steps(s)?, image),
    },
    Kind {
        name: "tornado",
        what: "what moves the speed: every cause of uncertainty alone, and all together",
        varies: &["occupancy", "trace", "intervals"],
        stands: &[("hardware", "gh200")],
        draw: |_, s, image| tornado::draw(&figures::tornado::tornado(s)?, image),
    },
    Kind {
        name: "equal-hbm",
        what: "policies at equal peak HBM: what each destroys, and how fast it runs",
        varies: &["policy"],
        stands: &[
            ("model", "llama-3.1-8b"),
            ("trace", "smol_1_t9_s5"),
            ("prompt", "128"),
            ("output", "1000"),
        ],
        draw: |settings, _, image| equal::draw(&equals(settings)?, image),
    },
];

/// Arguments of `plot`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan plot --list\n  kvplan plot --hardware gh200 -o how-far.svg\n  \
    kvplan plot --kind how-far --hardware h100-sxm --batch 4 -o how-far.png\n  \
    kvplan plot --kind tornado --hardware gh200 --t1 host-attention -o tornado.png"
)]
pub struct PlotArgs {
    /// Kind of figure (see --list)
    #[arg(long, value_name = "KIND", default_value = "how-far")]
    kind: String,
    /// List the kinds of figure and stop
    #[arg(long, conflicts_with = "out")]
    list: bool,
    /// Write the figure to FILE; .svg or .png chooses the format
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    #[command(flatten)]
    deployment: Deployment<false>,
}

/// Draws it.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces.
pub fn run(args: &PlotArgs, out: &mut Out) -> Result<Answer> {
    if args.list {
        let lines: Vec<String> = KINDS
            .iter()
            .map(|k| format!("{:<10} {}\n", k.name, k.what))
            .collect();
        out.result(&lines.concat())?;
        return Ok(Answer::Yes);
    }
    let kind = kind(&args.kind)?;
    let mut settings = args.deployment.settings()?;
    for (name, value) in kind.stands {
        if settings.asked(name).is_none() {
            settings.set(name, &[(*value).to_string()], Origin::Default)?;
        }
    }
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        let named = inputs::named(&settings);
        keep_inputs(args.out.as_deref(), &named, &args.deployment)?;
        scenario_file(args.out.as_deref(), out)?;
        out.result(&print::config(&settings))?;
        // Shown first, so that one sees where a contradiction comes from.
        resolve::scenario(&settings)?;
        return Ok(Answer::Yes);
    }
    let path = args.out.as_ref().ok_or_else(|| {
        Error::usage("a figure needs a file").help("add `-o FILE.svg` or `-o FILE.png`")
    })?;
    let image = image(path)?;
    let scenario = resolve::scenario(&settings)?;
    for name in kind.varies.iter().filter(|n| settings.asked(n).is_some()) {
        out.note(&format!("--{name} is not used: the figure varies it"));
    }
    out.to_file(path)?;
    let watch = progress::watch("drawing", 0, out.quiet());
    let bytes = (kind.draw)(&settings, &scenario, image)?;
    drop(watch);
    out.bytes(&bytes)?;
    Ok(Answer::Yes)
}

/// The kind of this name.
fn kind(name: &str) -> Result<&'static Kind> {
    KINDS.iter().find(|k| k.name == name).ok_or_else(|| {
        let guess = did_you_mean(name, KINDS.iter().map(|k| k.name))
            .map_or(String::new(), |g| format!("did you mean `{g}`? "));
        Error::usage(format!("figure `{name}` is not known"))
            .help(format!("{guess}`kvplan plot --list` shows all"))
    })
}

/// The format a file name asks for.
pub(super) fn image(path: &std::path::Path) -> Result<Image> {
    match path
        .extension()
        .and_then(|e| e.to_str())
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("svg") => Ok(Image::Svg),
        Some("png") => Ok(Image::Png),
        _ => Err(
            Error::usage(format!("{}: a figure is .svg or .png", path.display()))
                .help("name the file FILE.svg or FILE.png"),
        ),
    }
}
