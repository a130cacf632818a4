//! Rows that nobody recorded: attention drawn from a law, alone or as the continuation of a recording.
//!
//! A [`Law`] says what a mean row looks like: sinks and prompt, a kernel of the latest 128 tokens, and a middle in which
//! every token has a lasting factor of its own and decays with age by a power, a few *heavy hitters* do not decay,
//! stretches of text are *revisited* together, and each row has noise of its own that fades within some rows. It comes
//! from numbers ([`Shape`], by default those of the shipped `SmolLM2` traces) or is fitted to a recording ([`Law::fit`]).
//!
//! Why not resample whole recorded rows: a token must keep its identity over thousands of rows, or the ranks that tiers
//! rest on are reshuffled at every seam. Why not one curve of mass by rank: moves between tiers come from tokens that
//! climb after they leave the window, which needs their history.
//!
//! Ignored: what the text says (loops, changes of topic), and layers. Weights are shares of one row. The same law and
//! seed give the same rows on every machine; a law grows with its recording, rows are drawn one at a time.

mod draw;
mod fit;
mod gather;
mod lasting;
mod law;
mod repeat;
mod shape;
mod tokens;
mod trim;
mod write;

pub use draw::Drawer;
pub use law::{Dealer, Law, Memo, Token};
pub use shape::Shape;
pub use write::{continued, fresh};

/// Latest tokens that have a kernel of their own; older ones are the middle (tokens).
pub const WINDOW: u32 = 128;

/// Rows added up at a time when a law is fitted (rows).
pub const SPAN: u32 = 64;
