//! What is remembered of a node from one collection to the next: since when each of its images is
//! known, and when it was last seen in use. A runtime does not say.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::atomic;
use super::cache_layout::{create_private, verify_command};
use super::checksummed_json::ChecksummedJson;
use super::private_access::is_own_file;
use super::regular_file::{self, Symlinks};
use super::timestamp::Timestamp;
use oci::Digest;
use oci::error::{Error, Result};

/// Where the records of nodes are, in the format that is written here.
pub const NODES: &str = "nodes/v1";
const FORMAT: ChecksummedJson = ChecksummedJson("underpin node v1\n");
/// A hundred thousand images.
const LIMIT: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub endpoint: String,
    /// When the node was first looked at: what was used before, nobody knows.
    pub since: Timestamp,
    /// When images were last removed: what was measured before does not count.
    pub collected: Option<Timestamp>,
    /// By the image's id.
    pub images: BTreeMap<Digest, ImageTimes>,
}

/// From when to when an image is known to have been wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageTimes {
    pub first_seen: Timestamp,
    pub last_use: Option<Timestamp>,
}

impl NodeRecord {
    /// The name of the record's file.
    #[must_use]
    pub fn file_name(endpoint: &str) -> String {
        Digest::of(endpoint.as_bytes()).hex()
    }

    /// The record of a node in the cache `root`, or `None` where there is none.
    pub fn find(endpoint: &str, root: &Path) -> Result<Option<Self>> {
        let found = Self::read(&root.join(NODES).join(Self::file_name(endpoint)))?;
        Ok(found.filter(|record| record.endpoint == endpoint))
    }

    pub fn read(path: &Path) -> Result<Option<Self>> {
        let Some(section) = regular_file::open(path, Symlinks::Refused)? else { return Ok(None) };
        let damaged = || {
            Error::integrity("the cache's record of a node is damaged")
                .fact("path", path.display())
                .hint(format!("{} removes it; the times of use of the node's images are lost", verify_command(path)))
        };
        if section.len() > LIMIT || !is_own_file(path, section.file())? {
            return Err(damaged());
        }
        FORMAT.decode(&section.bytes(LIMIT, "the record of a node")?).map(Some).ok_or_else(damaged)
    }

    /// Puts the record into the cache `root`, in place of what was there.
    pub fn write(&self, root: &Path) -> Result<()> {
        let directory = root.join(NODES);
        create_private(&directory)?;
        atomic::sweep(&directory);
        atomic::replace_in_cache(&directory.join(Self::file_name(&self.endpoint)), &FORMAT.encode(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_any_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let spell = ImageTimes { first_seen: Timestamp::from_seconds(5), last_use: Some(Timestamp::from_seconds(7)) };
        let record = NodeRecord {
            endpoint: "unix:///run/x.sock".to_owned(),
            since: Timestamp::from_seconds(3),
            collected: None,
            images: [(Digest::of(b"image"), spell)].into(),
        };
        assert_eq!(NodeRecord::find(&record.endpoint, dir.path()).unwrap(), None);
        record.write(dir.path()).unwrap();
        assert_eq!(NodeRecord::find(&record.endpoint, dir.path()).unwrap(), Some(record.clone()));
        assert_eq!(NodeRecord::find("unix:///run/y.sock", dir.path()).unwrap(), None);
        let path = dir.path().join(NODES).join(NodeRecord::file_name(&record.endpoint));
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            for harmed in [&bytes[..], &sound[..at]] {
                std::fs::write(&path, harmed).unwrap();
                assert!(NodeRecord::find(&record.endpoint, dir.path()).is_err(), "byte {at}");
            }
        }
    }
}
