//! Why a file is not a program that could be started: it becomes a note, and the linkage `Other`.

/// One line for a person. Not an error: that a file is damaged is what was found out about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault(pub String);

impl Fault {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

pub(super) type Sound<T> = Result<T, Fault>;

/// Refuses what does not hold.
pub(super) fn require(holds: bool, otherwise: &str) -> Sound<()> {
    if holds { Ok(()) } else { Err(Fault::new(otherwise)) }
}
