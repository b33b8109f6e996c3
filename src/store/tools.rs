//! What fetching and publishing work with.

use super::disk::Cache;
use super::{Notices, Places, Progress};

pub struct Tools {
    pub places: Places,
    pub cache: Cache,
    pub notices: Notices,
    pub progress: Progress,
    /// How many transfers at once.
    pub jobs: usize,
}
