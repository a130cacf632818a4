//! Whether what is written would replace what is read.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Whether two paths name one file, there already or not.
pub(super) fn one_file(a: &Path, b: &Path) -> bool {
    whole(a).is_some() && whole(a) == whole(b)
}

/// A path from the root on, links followed; none if its folder is not there.
pub(super) fn whole(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    let folder = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok();
    let made = || Some(folder?.join(path.file_name()?));
    std::fs::canonicalize(path).ok().or_else(made)
}

/// Refuses to write `to` over one of the files that it is made `from`; `what` says what would replace what.
///
/// # Errors
/// They are one file (exit 2).
pub(super) fn keep<'a>(
    from: impl IntoIterator<Item = &'a Path>,
    to: Option<&Path>,
    what: &str,
) -> Result<()> {
    // What is not there yet replaces nothing.
    let Some(to) = to.filter(|to| to.exists()) else {
        return Ok(());
    };
    if from.into_iter().any(|f| one_file(f, to)) {
        return Err(
            Error::usage(format!("{}: {what}", to.display())).help("name another file with -o")
        );
    }
    Ok(())
}
