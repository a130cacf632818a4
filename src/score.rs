//! How much a position matters: cumulative attention and its variants.
