//! Percentiles, intervals, seeded random streams.
