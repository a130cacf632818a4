//! A forward pass of our own for Llama and Qwen2: logits, and the attention rows that no runtime hands out.
//!
//! Recording needs the softmax of every layer and head, and evaluation a cache whose entries can be moved and destroyed;
//! flash kernels have neither, and the bit-exactness of tiering can only be shown where the order of every sum is ours.
//! Weights stay in the format of their file and are widened a few rows at a time (memory is that of the file); all
//! arithmetic is binary32 in the lane order of [`crate::simd::dense`]; KV is binary32.
//!
//! Several sequences go through a step together. What an item computes does not depend on its batch mates or on the
//! number of threads: every product has lanes of its own, and sums over heads and layers are taken in their order.
//!
//! Read: GGUF files and Hugging Face folders of safetensors ([`Checkpoint`]). Everything is checked by name and shape
//! before a weight is read ([`Model::load`]). Ignored: mixtures of experts, sliding windows, other rope scalings than
//! none, linear and Llama-3's (each refused by name). Lengths are in tokens.

mod attention;
mod cache;
mod checkpoint;
mod folder_text;
mod gguf;
mod keeper;
mod load;
mod matrix;
mod names;
mod pieces;
mod prompt;
mod quantiser;
mod rope;
mod rows;
mod safetensors;
mod sampler;
mod shape;
mod slots;
mod step;
mod store;
mod template;
mod text;

pub use cache::{Cache, Positions, Storage};
pub use checkpoint::{Checkpoint, Stored};
pub use keeper::{Keeper, check, window};
pub use load::Model;
pub use matrix::Matrix;
pub use prompt::{CHUNK, Prompt};
pub use quantiser::{Grouping, Quantiser};
pub use rows::{Detail, Rows};
pub use sampler::{Drawn, Sampler, likeliest, log_probability};
pub use shape::{Rope, Scaling, Shape};
pub use step::{Item, Step};
pub use text::Text;
