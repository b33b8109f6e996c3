//! How much a layer may ask of us. A layer over a limit is refused, and the message names it.

use std::fmt;

use crate::error::Error;

/// The limits of one layer. The defaults are far above what honest images need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the tar stream once inflated.
    pub unpacked: u64,
    /// Bytes after the tar's end marker; they carry nothing, but must be hashed.
    pub trailer: u64,
    /// Binary logarithm of the window that a zstd frame may ask for.
    pub zstd_window_log: u32,
    /// Entries of the tar. With usual names `index` is reached first, at about a million.
    pub entries: usize,
    /// Bytes that the index of the layer takes in memory.
    pub index: usize,
    /// Bytes of PAX records, long names and sparse maps before one entry.
    pub metadata: u64,
    /// Bytes of a path or of a link's target.
    pub path: usize,
    /// Components of a path.
    pub depth: usize,
    /// Bytes of an extended attribute's name.
    pub xattr_name: usize,
    /// Bytes of an extended attribute's value.
    pub xattr_value: usize,
    /// Bytes of one small file that is captured.
    pub captured_file: u64,
    /// Bytes of all small files that are captured.
    pub captured: u64,
    /// Bytes of one file of a package database. Debian needs about 1 KiB a package for its status,
    /// and 4 MiB for the longest list of files that is known.
    pub database_file: u64,
    /// Bytes of all files of package databases. A thousand packages take about 10 MiB.
    pub database: u64,
    /// Bytes of one script that is captured.
    pub script_file: u64,
    /// Bytes of all scripts that are captured.
    pub scripts: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked: 64 << 30,
            trailer: 64 << 20,
            zstd_window_log: 27,
            entries: 5_000_000,
            index: 128 << 20,
            metadata: 1 << 20,
            path: 4096,
            depth: 1024,
            xattr_name: 255,
            xattr_value: 64 << 10,
            captured_file: 256 << 10,
            captured: 4 << 20,
            database_file: 8 << 20,
            database: 24 << 20,
            script_file: 64 << 10,
            scripts: 4 << 20,
        }
    }
}

/// The refusal of something larger than its limit; `what` reads as the subject of a sentence.
pub(super) fn over(what: &str, limit: impl fmt::Display) -> Error {
    Error::input(format!("{what} over the limit")).fact("limit", limit)
}
