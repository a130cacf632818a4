//! How tokens on the host take part in attention: the T1 modes of the design, as the loop runs them.

/// Share of the host's tokens that `staged` keeps in device memory, the best scored.
pub const STAGED: f64 = 0.5;

/// Share of the host's tokens that `selective` fetches, by whole pages.
pub const SELECTED: f64 = 0.25;

/// A mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is on the host: what the others are held against.
    Resident,
    /// All of it comes over the link each step, a layer ahead.
    Stream,
    /// The best of it stays in a buffer, the rest comes as in `stream`.
    Staged,
    /// Attention reads it in place, over the link.
    Direct,
    /// Some pages of it come, a layer ahead; the others do not take part.
    Selective,
    /// The host attends to it and sends results.
    HostAttention,
    /// As the published prototype: a copy a layer, waited for, then attention, waited for.
    Serial,
}

impl Mode {
    /// Those that are held against `Resident` or a reference.
    pub const ALL: [Self; 6] = [
        Self::Stream,
        Self::Staged,
        Self::Direct,
        Self::Selective,
        Self::HostAttention,
        Self::Serial,
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Stream => "stream",
            Self::Staged => "staged",
            Self::Direct => "direct",
            Self::Selective => "selective",
            Self::HostAttention => "host-attention",
            Self::Serial => "serial",
        }
    }

    /// The one of a word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Resident]
            .into_iter()
            .chain(Self::ALL)
            .find(|m| m.word() == word)
    }

    /// Whether the loop gathers scores in it: not where tokens are missing or their weights stay on the host.
    pub fn scores(self) -> bool {
        !matches!(self, Self::Selective | Self::HostAttention)
    }

    /// Whether tokens come over the link by copies.
    pub(super) fn copied(self) -> bool {
        matches!(
            self,
            Self::Stream | Self::Staged | Self::Selective | Self::Serial
        )
    }

    /// Of `host` tokens, best scored first, how many lie in device memory as well.
    pub(super) fn staged(self, host: usize) -> usize {
        match self {
            Self::Resident => host,
            Self::Staged => (host as f64 * STAGED) as usize,
            _ => 0,
        }
    }

    /// Of `pages` pages on the host, how many are fetched a step.
    pub fn fetched(self, pages: u64) -> u64 {
        match self {
            Self::Selective => ((pages as f64 * SELECTED).ceil() as u64).min(pages),
            Self::Resident => 0,
            _ => pages,
        }
    }
}
