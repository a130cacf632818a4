//! Laws that turn a model and a machine into time.
