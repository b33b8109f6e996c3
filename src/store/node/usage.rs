//! How much room the images of a node take, as its runtime says, and how much of it is too much.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::cri::FilesystemUsage;
use crate::error::{Error, Result};
use crate::store::collect::{Disk, Room};
use crate::store::disk::Timestamp;

#[derive(Debug, Clone)]
pub struct Usage(pub Vec<FilesystemUsage>);

impl Usage {
    /// Where the images lie. The kubelet asks the first of several disks too.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        let id = self.0.first()?.fs_id.as_ref()?;
        (!id.mountpoint.is_empty()).then(|| PathBuf::from(&id.mountpoint))
    }

    pub fn total(&self) -> Result<u64> {
        let used = self.0.iter().map(|disk| disk.used_bytes.as_ref().map(|used| used.value));
        let total = used.reduce(|one, two| Some(one?.saturating_add(two?))).flatten();
        total.ok_or_else(|| {
            Error::input("the runtime of the node does not say how much room images take")
                .hint("use --high and --low, or --max-age")
        })
    }

    /// Whether it says that it was measured before `moment`: a runtime looks only every few seconds.
    #[must_use]
    pub fn is_older_than(&self, moment: Timestamp) -> bool {
        let times = self.0.iter().filter_map(|disk| u64::try_from(disk.timestamp).ok()).filter(|time| *time > 0);
        times.map(|time| Timestamp::of(UNIX_EPOCH + Duration::from_nanos(time))).any(|measured| measured < moment)
    }

    /// How much has to go.
    pub fn excess(&self, room: Room) -> Result<u64> {
        let unasked = Disk { capacity: 0, available: 0 };
        let disk = |directory: &Path| {
            Disk::of(directory).map_err(|error| error.hint("say how large the images may be instead: --max-size"))
        };
        match (room, self.directory()) {
            // Down to 100 percent is how to say that nothing shall be collected.
            (Room::Any | Room::Disk { low: 100, .. }, _) => Ok(0),
            (Room::Size(_), _) => Ok(room.excess(self.total()?, unasked)),
            (Room::Disk { .. }, Some(directory)) => Ok(room.excess(0, disk(&directory)?)),
            (Room::Disk { .. }, None) => Err(Error::input("the runtime of the node does not say where its images lie")
                .hint("say how large the images may be instead: --max-size")),
        }
    }
}
