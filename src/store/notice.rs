//! What a place wants to say while it works: retries, second fetches, waits.

use std::sync::Arc;

/// One line for a person. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something went wrong and was mended; always shown.
    Warning(String),
    /// How the work goes; shown with `-v`.
    Detail(String),
}

/// Where notices go. Cheap to clone.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    pub fn new(show: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Notices that nobody reads.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    pub fn warn(&self, line: impl Into<String>) {
        (self.0)(Notice::Warning(line.into()));
    }

    pub fn detail(&self, line: impl Into<String>) {
        (self.0)(Notice::Detail(line.into()));
    }
}
