//! The list of protected images, from flags, files and settings.
//!
//! It is read as a whole before anything else is done. A list that is missing, unreadable, broken,
//! empty or cut off is an error: nobody can know what it would have protected.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::inventory::StoredImage;
use crate::error::{Error, Result};
use crate::store::disk::read_file;

const LIST_LIMIT: u64 = 4 << 20;
const MOST_ENTRIES: usize = 10_000;
/// Each is compiled, so there are fewer of them.
const MOST_PATTERNS: usize = 500;

#[derive(Debug, Clone, Default)]
pub struct Protection {
    entries: Vec<Entry>,
    written: HashSet<String>,
    patterns: usize,
}

impl Protection {
    /// Reads all entries; those that are written twice count once.
    pub fn read(written: &[String], files: &[PathBuf]) -> Result<Self> {
        let mut protection = Self::default();
        for text in written {
            protection.add(text.parse()?)?;
        }
        for file in files {
            protection.add_file(file).map_err(|error| error.fact("list", file.display()))?;
        }
        Ok(protection)
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries that protect this image.
    #[must_use]
    pub fn of(&self, image: &StoredImage) -> Vec<String> {
        self.entries.iter().filter(|entry| entry.protects(image)).map(Entry::to_string).collect()
    }

    #[must_use]
    pub fn covers(&self, image: &StoredImage) -> bool {
        self.entries.iter().any(|entry| entry.protects(image))
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let unreadable = |error| Error::input("the list of protected images cannot be read").cause(error);
        let bytes = read_file(path, LIST_LIMIT).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::input("the list of protected images is not text"))?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(Error::input("the last line of the list has no end: it may be cut off")
                .hint("end the last line of the list with a newline"));
        }
        let mut found = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            found += 1;
            self.add(line.parse().map_err(|error: Error| error.fact("line", number + 1))?)?;
        }
        if found == 0 {
            return Err(Error::input("the list of protected images has no entry")
                .hint("write an entry into it, or do without the list"));
        }
        Ok(())
    }

    fn add(&mut self, entry: Entry) -> Result<()> {
        if !self.written.insert(entry.to_string()) {
            return Ok(());
        }
        self.patterns += usize::from(entry.is_pattern());
        self.entries.push(entry);
        if self.entries.len() > MOST_ENTRIES || self.patterns > MOST_PATTERNS {
            return Err(Error::input("there are too many entries of protected images")
                .fact("most", format_args!("{MOST_ENTRIES}, of them {MOST_PATTERNS} with regex:")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Protection> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        std::fs::write(&file, text).unwrap();
        Protection::read(&["gcr.io/a/b".to_owned()], &[file])
    }

    #[test]
    fn entries_of_flags_and_files_add_up() {
        let protection = read("# bases\nhost:gcr.io\n\n  prefix:gcr.io/a/ \nhost:gcr.io\n").unwrap();
        let entries: Vec<String> = protection.entries().iter().map(Entry::to_string).collect();
        assert_eq!(entries, ["gcr.io/a/b", "host:gcr.io", "prefix:gcr.io/a/"]);
    }

    #[test]
    fn a_list_that_may_not_be_whole_is_an_error() {
        for (text, why) in [
            ("", "no entry"),
            ("# only words\n", "no entry"),
            ("host:gcr.io\nprefix:gcr.io/distrol", "cut off"),
            ("host:gcr.io\nregex:(\n", "line"),
            ("\0\0\0\0\n", "entry"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(why), "{text:?}: {error}");
            assert_eq!(error.kind(), crate::error::Kind::Input);
        }
        let many =
            |count: usize, what: &str| (0..count).map(|at| format!("{what}{at}")).collect::<Vec<_>>().join("\n") + "\n";
        assert!(read(&many(10_000, "gcr.io/a/b:")).is_err() && read(&many(501, "regex:a")).is_err(), "too many");
        assert!(read(&many(9_000, "gcr.io/a/b:")).is_ok() && read(&many(500, "regex:a")).is_ok());
        assert!(Protection::read(&[], &["/no/such/list".into()]).is_err());
        assert!(Protection::read(&[], &["/".into()]).is_err());
    }
}
