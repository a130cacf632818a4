//! The answer against its alternatives.
