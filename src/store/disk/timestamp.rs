//! Times as the cache keeps them: when an image was first seen, when it was last used. They decide
//! what is collected and never enter a result.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "times of use never enter a result")]
    pub fn now() -> Self {
        Self::of(SystemTime::now())
    }

    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    #[must_use]
    pub fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0)
    }

    /// How long ago `earlier` was; nothing where a clock was set back in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    #[cfg(test)]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }
}
