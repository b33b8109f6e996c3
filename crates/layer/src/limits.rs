//! How much a layer may ask of us. A layer over a limit is refused, and the message names it.

use std::fmt;

use super::index::FileDigests;
use oci::error::{Error, Result};

/// The limits of one layer. The defaults are far above what real images need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the tar stream once decompressed.
    pub unpacked: u64,
    /// How much larger than itself a layer may become, counted for what is over `unpacked_free`.
    /// Programs and text stay below 20. Only files that are nearly all zeros reach gzip's 1032.
    pub ratio: u64,
    /// Bytes that a layer of any size may unpack to.
    pub unpacked_free: u64,
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
    /// Bytes of the strings of all programs. Those of further programs are left out, and that is said.
    pub strings: usize,
    /// Bytes of the symbols and versions of all programs and shared objects: 450 libraries of a Debian system
    /// take 3 MiB. Those of further files are left out, and nothing is proven by them.
    pub symbols: usize,
    /// Bytes of one file that a loader reads to find libraries: a cache of a thousand takes 100 KiB.
    pub loader_file: u64,
    /// Bytes of all such files.
    pub loader_files: u64,
    /// Bytes of one file that says of which version an interpreter is, and of all of them.
    pub interpreter_file: u64,
    pub interpreter_files: u64,
    /// Whether the digest of each file is taken, too.
    pub file_digests: FileDigests,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked: 64 << 30,
            ratio: 100,
            unpacked_free: 1 << 30,
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
            strings: 8 << 20,
            symbols: 48 << 20,
            loader_file: 4 << 20,
            loader_files: 8 << 20,
            interpreter_file: 16 << 10,
            interpreter_files: 1 << 20,
            file_digests: FileDigests::LeftOut,
        }
    }
}

impl Limits {
    /// The check of what a layer of `packed` bytes has unpacked to so far.
    pub(super) fn check_unpacked(&self, unpacked: u64, packed: u64) -> Result<()> {
        if unpacked > self.unpacked {
            return Err(over("uncompressed layer is", format!("{} bytes", self.unpacked)));
        }
        let limit = self.unpacked_free.saturating_add(self.ratio.saturating_mul(packed));
        if unpacked > limit {
            return Err(Error::input(format!("layer decompresses to more than {} times its size", self.ratio))
                .fact("layer", format!("{packed} bytes"))
                .fact("limit", format!("{limit} bytes: {} plus {} per compressed byte", self.unpacked_free, self.ratio))
                .hint("only zeros compress this well: build the image without large files of zeros"));
        }
        Ok(())
    }
}

/// The refusal of something larger than its limit; `what` reads as the subject of a sentence.
pub(super) fn over(what: &str, limit: impl fmt::Display) -> Error {
    Error::input(format!("{what} over the limit")).fact("limit", limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_may_grow_only_so_far() {
        let limits = Limits { unpacked: 10_000, ratio: 100, unpacked_free: 1000, ..Limits::default() };
        for (unpacked, packed, expected) in [
            (1000, 0, None),
            (1001, 0, Some("100 times")),
            (2000, 10, None),
            (2001, 10, Some("100 times")),
            (10_000, 5000, None),
            (10_001, 5000, Some("over the limit")),
            (10_001, u64::MAX, Some("over the limit")),
        ] {
            let error = limits.check_unpacked(unpacked, packed).err();
            let what = error.map(|error| error.what().to_owned());
            assert_eq!(what.is_some(), expected.is_some(), "{unpacked} of {packed}");
            assert!(what.unwrap_or_default().contains(expected.unwrap_or_default()), "{unpacked} of {packed}");
        }
    }
}
