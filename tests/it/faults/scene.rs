//! A command on a small disk of its own, and what must hold of that disk whatever happens.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::faulty_disk::{Harm, Preload};
use crate::support::invocation::{Invocation, Run, Sandbox, files_under};
use crate::support::published;

pub type Found<T = ()> = Result<T, String>;
type Look = Box<dyn Fn(&Path) -> Found>;

/// Paths of the command line are relative to the disk, so that it says the same on each.
pub struct Scene {
    pub sandbox: Sandbox,
    pub args: Vec<String>,
    /// What the command was asked for is there, and right.
    pub done: Look,
    /// What is visible is as it was or as it should be.
    pub sound: Look,
}

/// Where a scene keeps what it may lose: the store, which is in a folder of its own.
pub const STORE: &str = "kept/store";

impl Scene {
    /// The disk as it is before the command; to be filled.
    pub fn template(&self) -> PathBuf {
        template(&self.sandbox)
    }

    /// A new disk.
    pub fn disk(&self, name: &str) -> PathBuf {
        let disk = self.sandbox.path(name);
        copy(&self.template(), &disk);
        disk
    }

    pub fn command(&self, disk: &Path) -> Invocation {
        self.sandbox.underpin(&self.args).current_dir(disk).hurried()
    }

    pub fn is_done(&self, disk: &Path, run: &Run) {
        (self.done)(disk).unwrap_or_else(|why| panic!("it is not done: {why}\n{run}"));
    }

    /// What holds after every run, however it ended.
    pub fn is_sound(&self, disk: &Path, run: &Run) {
        (self.sound)(disk).unwrap_or_else(|why| panic!("it does not hold: {why}\n{run}"));
        assert_eq!(published::lies_in_cache(disk), Vec::<PathBuf>::new(), "{run}");
    }

    /// The next run without faults does it, and leaves nothing lying about.
    pub fn is_done_by_the_next_run(&self, preload: &Preload, disk: &Path, before: &Run) {
        let run = preload.put(self.command(disk), disk, &self.sandbox.path("log"), Harm::None).run();
        assert_eq!(run.code(), Some(0), "{run}\nafter\n{before}");
        self.is_done(disk, &run);
        self.is_sound(disk, &run);
        assert_eq!(orphans(disk), Vec::<PathBuf>::new(), "{run}\nafter\n{before}");
    }
}

pub fn template(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("template")
}

/// Files of writers that are dead, and downloads that nobody will take up again.
pub fn orphans(disk: &Path) -> Vec<PathBuf> {
    let is_orphan = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(".underpin-") || path.parent().is_some_and(|folder| folder.ends_with("partial"))
    };
    files_under(disk).into_iter().filter(is_orphan).collect()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}
