//! The closed set of events, and the order of those that fall together.

/// What happens. Layer events live inside a step (see `step`); between steps only these exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Request number `0` joins the waiting line.
    Arrive(u32),
    /// The running batch may begin a step.
    StepBegin,
}

impl Event {
    /// Order among events of one instant: requests that arrive as a step begins take part in it.
    pub fn class(self) -> u8 {
        match self {
            Self::Arrive(_) => 0,
            Self::StepBegin => 1,
        }
    }
}
