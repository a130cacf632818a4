//! The files of the page, embedded: markup, style and scripts as they lie in `page/`, with no build step.

/// One file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Where it is served.
    pub(super) path: &'static str,
    /// Its content type.
    pub(super) kind: &'static str,
    /// Its text.
    pub(super) bytes: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const fn file(path: &'static str, kind: &'static str, bytes: &'static str) -> File {
    File { path, kind, bytes }
}

/// All of them.
pub(super) const FILES: [File; 9] = [
    file(
        "/",
        "text/html; charset=utf-8",
        include_str!("page/index.html"),
    ),
    file(
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("page/page.css"),
    ),
    file("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    file("/main.js", SCRIPT, include_str!("page/main.js")),
    file("/form.js", SCRIPT, include_str!("page/form.js")),
    file("/ask.js", SCRIPT, include_str!("page/ask.js")),
    file("/show.js", SCRIPT, include_str!("page/show.js")),
    file("/chart.js", SCRIPT, include_str!("page/chart.js")),
    file("/text.js", SCRIPT, include_str!("page/text.js")),
];
