//! Many images from one file: read, pinned by a lock, rebased in parallel, each with its own outcome.
//!
//! The rules this module owns: a failed image does not stop the others; the lock pins what every
//! name resolved to, so the same file gives the same digests tomorrow; a shard is a fixed part of
//! the file, and all shards together are the whole file.

mod file;
mod lock;
mod outdated;
mod promoter;
mod run;
mod shard;
mod version_marker;

pub use file::{BatchEntry, BatchFile, LARGEST};
pub use lock::{Changes, Lock, Locked, LockedDigests};
pub use outdated::{AskedImage, BaseRule, OutdatedAnswer, OutdatedRun, outdated};
pub use promoter::{PromotedImage, Promotion, read_promoter};
pub use run::{BatchDone, BatchEffect, BatchRun, Locking, run};
pub use shard::Shard;

/// The JSON Schema of the batch file.
pub const SCHEMA: &str = include_str!("schema.json");
