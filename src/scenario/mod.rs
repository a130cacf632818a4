//! One question, resolved.
