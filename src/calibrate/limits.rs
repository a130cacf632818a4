//! How much memory the control groups of this process leave it: a container's limit, which `MemAvailable` does not know.
//!
//! Read from the files in which Linux says it, of either version, for the group and those above it; the smallest counts.
//! Pages of files that nobody uses are given back before a limit is met, so they count as free. Ignored: limits on
//! swapping, and what others of the group take meanwhile. Bytes.

use std::fs;
use std::path::{Path, PathBuf};

/// Where one version keeps its groups, and what its files are called: the limit, what is used, the unused pages of files.
struct Version {
    root: &'static str,
    names: [&'static str; 3],
}

const FIRST: Version = Version {
    root: "/sys/fs/cgroup/memory",
    names: [
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ],
};

const SECOND: Version = Version {
    root: "/sys/fs/cgroup",
    names: ["memory.max", "memory.current", "inactive_file"],
};

/// What is left; none without a limit.
pub(super) fn left() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let room = |(version, group): (&Version, String)| {
        let folder = PathBuf::from(version.root).join(group.trim_start_matches('/'));
        let root = Path::new(version.root).to_path_buf();
        // In a container the group may be named as the host knows it; then its limit stands at the root.
        let all = folder.ancestors().take_while(|f| f.starts_with(&root));
        all.filter_map(|f| in_folder(f, version)).min()
    };
    named(&groups).into_iter().filter_map(room).min()
}

/// The groups that limit memory: `4:memory:/a/b` or `0::/a/b`.
fn named(groups: &str) -> Vec<(&'static Version, String)> {
    let one = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (of, path) = (parts.next()?, parts.next()?);
        let version = match of {
            "" => &SECOND,
            _ if of.split(',').any(|o| o == "memory") => &FIRST,
            _ => return None,
        };
        Some((version, path.to_string()))
    };
    groups.lines().filter_map(one).collect()
}

fn in_folder(folder: &Path, version: &Version) -> Option<u64> {
    let [limit, used, unused] = version.names;
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let stat = text("memory.stat").unwrap_or_default();
    room(&text(limit)?, &text(used)?, &stat, unused)
}

/// What a limit leaves; none where it says `max`.
fn room(limit: &str, used: &str, stat: &str, unused: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let used: u64 = used.trim().parse().ok()?;
    let of = |line: &str| line.strip_prefix(unused)?.trim().parse::<u64>().ok();
    let unused = stat.lines().find_map(of).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(unused)))
}

#[cfg(test)]
mod tests {
    use super::{named, room};

    #[test]
    fn groups_are_found_in_both_versions() {
        let both = "9:name=systemd:/\n4:memory:/box/7\n2:cpu,cpuacct:/\n0::/user.slice\n";
        let found = named(both);
        let paths: Vec<_> = found.iter().map(|(v, p)| (v.root, p.as_str())).collect();
        let want = [
            ("/sys/fs/cgroup/memory", "/box/7"),
            ("/sys/fs/cgroup", "/user.slice"),
        ];
        assert_eq!(paths, want);
        assert!(named("nonsense\n:::\n").len() < 2);
    }

    /// 8 GiB, 3 used, 1 of it pages of files that nobody uses: 6 are left.
    #[test]
    fn a_limit_leaves_what_is_not_used() {
        let gib = |n: u64| (n << 30).to_string();
        let stat = format!("anon 5\ninactive_file {}\nactive_file 7\n", 1u64 << 30);
        assert_eq!(
            room(&gib(8), &gib(3), &stat, "inactive_file"),
            Some(6 << 30)
        );
        assert_eq!(room(&gib(8), &gib(3), "", "inactive_file"), Some(5 << 30));
        assert_eq!(room(&gib(1), &gib(3), "", "inactive_file"), Some(0));
        assert_eq!(room("max\n", &gib(3), &stat, "inactive_file"), None);
    }
}
