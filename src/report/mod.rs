//! Tables, CSV, markdown, plots; computes nothing.
