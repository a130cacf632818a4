//! Requests: what arrives when, how long it is.
