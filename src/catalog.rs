//! The world embedded in the binary: models, hardware, runtimes, traces by name.
