//! The step and the batch.
