//! TEMP
use crate::replay_support::{Made, shared};
use kvplan::{policy, replay};
#[test]
fn bless() {
    let folder = shared().unwrap().join("traces");
    for name in ["smol_0_t6_s1", "smol_1_t6_s2", "smol_5_t6_s5"] {
        let rows = Made::read(&folder, name);
        for sem in ["per-interval", "cumulative"] {
            for (h, e) in [
                ("0.5", "0.0"),
                ("0.5", "0.03"),
                ("0.3", "0.1"),
                ("0.7", "0.25"),
            ] {
                for w in ["64", "128"] {
                    let s = policy::parse(&format!(
                        "four-tier:semantics={sem},hbm={h},evict={e},window={w}"
                    ))
                    .unwrap();
                    let t = &replay::run(&rows, &[s]).unwrap()[0];
                    let (m, end) = (t.mass_mean(), t.tokens_end());
                    println!(
                        "G,{name},{sem},{h},{e},{w},{},{},{:.9},{:.9},{:.9},{},{},{},{},{}",
                        t.steps,
                        t.retiers,
                        m[0],
                        m[1],
                        m[3],
                        t.total(|i| i.promoted),
                        t.total(|i| i.demoted),
                        end[3],
                        end[0],
                        end[1]
                    );
                }
            }
        }
    }
}
