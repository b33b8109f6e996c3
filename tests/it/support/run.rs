//! What a run of the binary left behind, and what may be asked of it.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

/// What a finished run left behind.
pub struct Run {
    /// The command line, as a person could repeat it.
    pub line: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
    /// The most memory it held, in KiB.
    pub peak: u64,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, status, stdout, stderr, elapsed, peak } = self;
        write!(f, "$ {line}\n{status}, {elapsed:?}, {peak} KiB\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

impl Run {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Exit 0.
    pub fn ok(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self}");
        self
    }

    /// Exit 1: the image must not move as it is.
    pub fn refused(self) -> Self {
        assert_eq!(self.code(), Some(1), "{self}");
        self
    }

    /// Exit 2 with an error of this kind, and no data on stdout.
    pub fn fails(self, kind: &str) -> Self {
        assert_eq!(self.code(), Some(2), "{self}");
        assert_eq!(self.kind().as_deref(), Some(kind), "{self}");
        assert_eq!(self.stdout, "", "stdout carries data only\n{self}");
        self
    }

    /// The word of the `kind` line of the error.
    pub fn kind(&self) -> Option<String> {
        self.stderr.lines().find_map(|line| line.trim().strip_prefix("kind ").map(|word| word.trim().to_owned()))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The pinned references on stdout.
    pub fn pinned(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// The one digest on stdout.
    pub fn digest(&self) -> String {
        let pinned = self.pinned();
        let found = pinned.first().and_then(|line| line.split_once('@')).map(|(_, digest)| digest.to_owned());
        assert_eq!(pinned.len(), 1, "one pinned reference\n{self}");
        found.unwrap_or_else(|| panic!("no digest on stdout\n{self}"))
    }

    /// The message on stderr has this word, in any case.
    pub fn says(self, word: &str) -> Self {
        assert!(self.stderr.to_lowercase().contains(&word.to_lowercase()), "nothing of `{word}`\n{self}");
        self
    }
}
