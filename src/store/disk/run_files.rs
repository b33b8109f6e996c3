//! The files of one run of the command line: what it reads and what it will write, so that it never writes over what it
//! reads, or one file over another.
//!
//! The rule this file owns: whatever reads a file that a user named notes it here, and whatever writes one asks here first, when
//! the file is opened and again when it is written. Files are the same if they are one on disk, by whatever path, link or
//! hard link, or would be one once they are there. A process that has not called [`keep_apart`] notes nothing.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::atomic;
use super::layout_reader::{INDEX, MARKER};
use super::user_file::names_descriptor;
use oci::Location;
use oci::error::{Error, Result};

/// What a file is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FileKey {
    /// Its device and its number there.
    File(u64, u64),
    /// The directory that it is in, and its name there: it may not exist yet.
    Name(u64, u64, OsString),
}

impl FileKey {
    /// All keys of what is, or will be, at `path`. Only regular files have some: a terminal may be read and written.
    fn of(path: &Path) -> Vec<Self> {
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            return Vec::new();
        }
        let directory = fs::metadata(atomic::parent(path)).ok();
        let by_name = |directory: Metadata| {
            path.file_name().map(|name| Self::Name(directory.dev(), directory.ino(), name.to_owned()))
        };
        let file = there.map(|there| Self::File(there.dev(), there.ino()));
        file.into_iter().chain(directory.and_then(by_name)).collect()
    }
}

/// Which output a file is for: one that is written twice is not in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRole(u64);

impl OutputRole {
    /// A role that no other output has.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
struct RunFiles {
    inputs: HashMap<FileKey, PathBuf>,
    outputs: HashMap<FileKey, (OutputRole, PathBuf)>,
    /// Directories in which nothing else is written.
    trees: Vec<PathBuf>,
}

static RUN: Mutex<Option<RunFiles>> = Mutex::new(None);

fn run() -> MutexGuard<'static, Option<RunFiles>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to keep the files of this process apart.
pub fn keep_apart() {
    run().get_or_insert_default();
}

/// Notes a file that the run reads, or that something else than [`check_output`] answers for.
pub fn note_input(path: &Path) {
    if let Some(run) = run().as_mut() {
        run.note(path);
    }
}

/// Notes a directory in which only its owner writes.
pub fn note_tree(path: &Path) {
    if let Some(run) = run().as_mut() {
        run.trees.extend(fs::canonicalize(path));
    }
}

/// Notes the files of an image on disk.
pub fn note_location(location: &Location) {
    let Some(run) = &mut *run() else { return };
    match location {
        Location::Layout(layout) => {
            run.note(&layout.path.join(INDEX));
            run.note(&layout.path.join(MARKER));
            run.trees.extend(fs::canonicalize(layout.path.join("blobs")));
        }
        Location::OciArchive(archive) | Location::DockerArchive(archive) => run.note(&archive.path),
        Location::Registry(_) | Location::Engine(_) | Location::Cache(_) => {}
    }
}

/// Notes a file that the run will write, unless it reads it or writes something else there.
pub(super) fn check_output(path: &Path, role: OutputRole) -> Result<()> {
    run().as_mut().map_or(Ok(()), |run| run.claim(path, role))
}

impl RunFiles {
    fn note(&mut self, path: &Path) {
        for key in FileKey::of(path) {
            self.inputs.entry(key).or_insert_with(|| path.to_owned());
        }
    }

    fn claim(&mut self, path: &Path, role: OutputRole) -> Result<()> {
        let keys = FileKey::of(path);
        let wrong = |what: &str, other: &Path| {
            let error = Error::usage(format!("cannot write the file: {what}")).fact("path", path.display());
            let error = if other == path { error } else { error.fact("the same as", other.display()) };
            Err(error.hint("name another file"))
        };
        if let Some(input) = keys.iter().find_map(|key| self.inputs.get(key)) {
            return wrong("the run uses it for something else", input);
        }
        let is_other = |(claimed, _): &&(OutputRole, PathBuf)| *claimed != role;
        // What is added to an open file stays beside what others add.
        if names_descriptor(path) {
            return Ok(());
        }
        if let Some((_, output)) = keys.iter().find_map(|key| self.outputs.get(key).filter(is_other)) {
            return wrong("the run writes something else there", output);
        }
        let place = fs::canonicalize(atomic::parent(path)).unwrap_or_default();
        if let Some(tree) = self.trees.iter().find(|tree| !keys.is_empty() && place.starts_with(tree)) {
            return wrong("it would be among the files of an image or of the cache", tree);
        }
        for key in keys {
            self.outputs.insert(key, (role, path.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_the_same_by_every_path_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("batch.yaml"), "").unwrap();
        fs::hard_link(at("batch.yaml"), at("hard")).unwrap();
        symlink("batch.yaml", at("soft")).unwrap();
        symlink(dir.path(), at("round")).unwrap();
        let mut run = RunFiles::default();
        run.note(&at("soft"));
        for name in ["batch.yaml", "./batch.yaml", "sub/../batch.yaml", "hard", "soft", "round/batch.yaml"] {
            assert!(run.claim(&at(name), OutputRole::unique()).is_err(), "{name}");
        }
        for name in ["new", "sub/batch.yaml"] {
            run.claim(&at(name), OutputRole::unique()).unwrap();
        }
        for name in ["new", "sub/../new", "round/new"] {
            let error = run.claim(&at(name), OutputRole::unique()).unwrap_err().to_string();
            assert!(error.contains("something else there"), "{name}: {error}");
        }
    }

    #[test]
    fn an_output_is_not_in_its_own_way_and_streams_are_in_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let (mut run, role) = (RunFiles::default(), OutputRole::unique());
        run.claim(&dir.path().join("a"), role).unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        run.claim(&dir.path().join("a"), role).unwrap();
        for _ in 0..2 {
            run.note(Path::new("/dev/null"));
            run.claim(Path::new("/dev/null"), OutputRole::unique()).unwrap();
        }
    }

    #[test]
    fn nothing_is_written_among_the_files_of_a_layout() {
        let dir = tempfile::tempdir().unwrap();
        let layout = dir.path().join("layout");
        fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
        let mut run = RunFiles::default();
        run.note(&layout.join(INDEX));
        run.trees.push(fs::canonicalize(layout.join("blobs")).unwrap());
        for name in ["index.json", "blobs/x", "blobs/sha256/x"] {
            assert!(run.claim(&layout.join(name), OutputRole::unique()).is_err(), "{name}");
        }
        run.claim(&layout.join("report.html"), OutputRole::unique()).unwrap();
    }
}
