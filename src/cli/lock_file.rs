//! `underpin.lock` on disk, and the journal beside it: what a run has finished is added there image by image, and goes
//! into the lock at the end, or in the next run where this one is killed.
//!
//! A journal belongs to the bytes of the lock that it was begun with: beside another lock it means nothing.

use std::path::{Path, PathBuf};

use super::policy_args::text_of;
use crate::batch::{BatchEntry, Changes, LARGEST, Lock, Locking};
use crate::store::Notices;
use crate::store::disk::{
    LockMode, LockWait, OutputFile, add_line, edit_file, lock_directory, note_input, read_edited, remove_file,
    sync_directory,
};
use oci::Digest;
use oci::error::{Error, Kind, Result};

/// The lock of a batch file.
pub(super) struct LockFile {
    path: PathBuf,
    journal: PathBuf,
    locking: Locking,
}

impl LockFile {
    pub fn beside(batch: &Path, locking: Locking) -> Self {
        let (path, journal) = (batch.with_file_name("underpin.lock"), batch.with_file_name("underpin.lock.journal"));
        Self { path, journal, locking }
    }

    /// Proves that it can be written, where it will be, and keeps other files of the run away from it.
    pub fn open(&self) -> Result<()> {
        if self.locking == Locking::Strict {
            note_input(&self.path);
            return Ok(());
        }
        OutputFile::open(&self.path).and_then(|_| OutputFile::open(&self.journal)).map(drop)
    }

    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// What is pinned: a missing lock is empty, and one that will be rewritten need not be readable. What a killed run
    /// has finished counts, unless nothing but the lock may.
    pub fn read(&self) -> Result<Lock> {
        let lock = match (self.path.exists(), self.locking) {
            (true, Locking::Update) => read_lock(&self.path).unwrap_or_default(),
            (true, _) => read_lock(&self.path)?,
            (false, Locking::Strict) => {
                return Err(Error::usage("there is no underpin.lock, which --locked needs")
                    .fact("path", self.path.display())
                    .hint("run once without --locked, and commit the file"));
            }
            (false, _) => Lock::default(),
        };
        if self.locking == Locking::Strict {
            return Ok(lock);
        }
        let mut lock = lock;
        match self.finished()? {
            Some(finished) => lock.apply(&finished),
            None => self.remove_journal(),
        }
        Ok(lock)
    }

    /// Adds what became of an image.
    pub fn note(&self, line: &str) -> Result<()> {
        let heading = || Ok(format!("{}\n", self.state()?));
        add_line(&self.journal, line, &heading)
    }

    /// Writes the lock where it changed. Another shard may have written since: its images stay.
    pub fn save(&self, changes: &Changes, entries: &[BatchEntry], notices: &Notices) -> Result<()> {
        let directory = self.path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let _held = lock_directory(directory, LockMode::Exclusive, LockWait::default(), notices)?;
        let there = match self.path.exists().then(|| read_lock(&self.path)).transpose() {
            Ok(there) => there,
            // A damaged lock is rewritten; one that cannot be read now may have images of other shards.
            Err(error) if error.kind() == Kind::Input => None,
            Err(error) => return Err(error),
        };
        let mut merged = there.clone().unwrap_or_default();
        merged.apply(&self.finished()?.unwrap_or_default());
        merged.apply(changes);
        merged.retain(entries);
        if there.is_some_and(|there| there == merged) {
            // Its writer may have been killed before the rename was durable.
            sync_directory(directory)?;
        } else {
            edit_file(&self.path, merged.to_text().as_bytes())?;
        }
        self.remove_journal();
        Ok(())
    }

    /// What runs have finished that have not ended, beside the lock as it is now. `None` where the journal, if there is
    /// one, belongs to another lock.
    fn finished(&self) -> Result<Option<Changes>> {
        if !self.journal.exists() {
            return Ok(Some(Changes::default()));
        }
        let text = read_own(&self.journal, 4 * LARGEST)?;
        let (heading, lines) = text.split_once('\n').unwrap_or_default();
        Ok((heading == self.state()?.to_string()).then(|| Changes::from_journal(lines)))
    }

    /// What the lock is now.
    fn state(&self) -> Result<Digest> {
        let text = if self.path.exists() { read_own(&self.path, 4 * LARGEST)? } else { String::new() };
        Ok(Digest::of(text.as_bytes()))
    }

    /// One that stays belongs to a lock that is no more.
    fn remove_journal(&self) {
        let _ = remove_file(&self.journal);
    }
}

fn read_lock(path: &Path) -> Result<Lock> {
    Lock::read(&read_own(path, 4 * LARGEST)?).map_err(|error| error.fact("path", path.display()))
}

/// The text of a file that the run itself writes.
fn read_own(path: &Path, limit: u64) -> Result<String> {
    text_of(path, read_edited(path, limit))
}
