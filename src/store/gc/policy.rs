//! When to collect and how much: the kubelet's thresholds, or a size.

use std::path::Path;
use std::time::Duration;

use oci::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcPolicy {
    pub target: GcTarget,
    /// What was first seen less than this long ago is not taken to make room.
    pub min_age: Duration,
    /// What was not used for longer than this is taken whether there is room or not.
    pub max_age: Option<Duration>,
}

/// How much room is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcTarget {
    /// None: only age counts.
    Any,
    /// The cache has at most so many bytes.
    Size(u64),
    /// When the disk is `high` percent full, it is brought down to `low`.
    Disk { high: u8, low: u8 },
}

impl Default for GcTarget {
    /// The kubelet's thresholds.
    fn default() -> Self {
        Self::Disk { high: 85, low: 80 }
    }
}

/// The disk that the cache, or the images of a node, lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    pub capacity: u64,
    pub available: u64,
}

impl DiskSpace {
    /// The disk that a directory lies on.
    pub fn of(directory: &Path) -> Result<Self> {
        let found = rustix::fs::statvfs(directory);
        let found =
            found.map_err(|error| Error::io("could not read how full the disk is", directory, &error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Self { capacity: bytes(found.f_blocks), available: bytes(found.f_bavail) })
    }
}

impl GcPolicy {
    pub fn check(self) -> Result<Self> {
        if let GcTarget::Disk { high, low } = self.target
            && (high > 100 || low > high)
        {
            return Err(Error::usage("--low must be at most --high, and --high at most 100")
                .fact("high", high)
                .fact("low", low));
        }
        if self.max_age.is_some_and(|most| most < self.min_age) {
            return Err(Error::usage("--max-age is shorter than --min-age"));
        }
        Ok(self)
    }
}

impl GcTarget {
    /// How many bytes are too many, where there are `total`.
    #[must_use]
    pub fn excess(self, total: u64, disk: DiskSpace) -> u64 {
        match self {
            Self::Any => 0,
            Self::Size(most) => total.saturating_sub(most),
            Self::Disk { high, low } => {
                let percent =
                    |of: u8| u64::try_from(u128::from(disk.capacity) * u128::from(of) / 100).unwrap_or(u64::MAX);
                let used = disk.capacity.saturating_sub(disk.available);
                if disk.capacity == 0 || used < percent(high) {
                    return 0;
                }
                percent(100 - low.min(100)).saturating_sub(disk.available)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_the_kubelets() {
        let disk = |available| DiskSpace { capacity: 1000, available };
        let target = GcTarget::Disk { high: 85, low: 80 };
        for (available, excess) in [(1000, 0), (151, 0), (150, 50), (100, 100), (0, 200)] {
            assert_eq!(target.excess(7, disk(available)), excess, "{available} of 1000 available");
        }
        assert_eq!(GcTarget::Size(10).excess(25, disk(0)), 15);
        assert_eq!(GcTarget::Size(10).excess(10, disk(0)), 0);
        assert_eq!(GcTarget::Any.excess(u64::MAX, disk(0)), 0);
        let huge = DiskSpace { capacity: u64::MAX, available: 0 };
        assert!(GcTarget::Disk { high: 100, low: 0 }.excess(0, huge) == u64::MAX);
        assert_eq!(GcTarget::Disk { high: 0, low: 0 }.excess(0, DiskSpace { capacity: 0, available: 0 }), 0);
    }

    #[test]
    fn a_policy_that_contradicts_itself_is_refused() {
        let policy = |target, min, max: Option<u64>| {
            GcPolicy { target, min_age: Duration::from_secs(min), max_age: max.map(Duration::from_secs) }
                .check()
                .is_ok()
        };
        assert!(policy(GcTarget::Disk { high: 85, low: 85 }, 0, None));
        assert!(!policy(GcTarget::Disk { high: 80, low: 85 }, 0, None));
        assert!(!policy(GcTarget::Disk { high: 101, low: 85 }, 0, None));
        assert!(policy(GcTarget::Any, 5, Some(5)));
        assert!(!policy(GcTarget::Any, 6, Some(5)));
    }
}
