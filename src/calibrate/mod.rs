//! calibrate
pub mod host_attention;
