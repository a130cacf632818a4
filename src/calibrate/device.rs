//! What stands between this build and a GPU's measurements.

use super::facts::Facts;
use super::raw::Head;

/// Why no GPU can be measured here; none if one can.
pub fn obstacle() -> Option<String> {
    Some("this build measures only the host: it has no code that drives a GPU".into())
}

/// Lines of `doctor`: what is there and what can be measured, key and value.
pub fn checkup(facts: &Facts) -> Vec<(String, String)> {
    let head: Head = facts.head(false);
    let mut out: Vec<(String, String)> = head.into_iter().collect();
    let host = facts.available.is_none_or(|m| m >= 256 << 20);
    let yes = |yes: bool, why: &str| {
        if yes {
            "yes".into()
        } else {
            format!("no: {why}")
        }
    };
    if facts.wsl {
        let why = "Linux under Windows: pinned memory is limited, copies start later";
        out.push(("host.wsl".into(), why.into()));
    }
    let why = "less than 256 MiB of memory are free";
    out.push(("calibrate --host-only".into(), yes(host, why)));
    let why = obstacle();
    out.push((
        "calibrate".into(),
        yes(why.is_none(), &why.unwrap_or_default()),
    ));
    out
}
