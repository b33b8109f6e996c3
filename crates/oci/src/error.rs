//! What went wrong, in the user's words, with the facts and what to do next.
//!
//! An [`Error`] means "underpin could not do the work" (exit 2). That an image must not
//! move is a result, not an error: see `policy`. The shape is the one of `docs/reports.md`:
//! one sentence, aligned facts, causes, at most two hints.

mod command_line;
mod printable;
mod redacted;

pub use command_line::{CommandLine, typed_word};

use std::fmt;
use std::io;

pub use printable::{ascii_json, printable, printable_lines};
pub use redacted::{excerpt, redacted};

/// The class of a failure. Stable: the word is shown in messages and in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line or a settings file does not make sense.
    Usage,
    /// A registry could not be reached or answered with an error.
    Network,
    /// There is no such image.
    Missing,
    /// A registry rejected our credentials.
    Auth,
    /// Bytes do not match their digest.
    Integrity,
    /// The input arrived intact but cannot be accepted.
    Input,
    /// A local file or directory could not be read or written.
    Io,
    /// Another process holds what we need.
    Lock,
    /// The target tag may not be changed.
    Conflict,
}

impl Kind {
    /// The word shown to people and scripts.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Network => "network",
            Self::Missing => "not-found",
            Self::Auth => "authentication",
            Self::Integrity => "integrity",
            Self::Input => "input",
            Self::Io => "local-io",
            Self::Lock => "lock",
            Self::Conflict => "tag-conflict",
        }
    }

    /// The class number of the failure, for scripts that prefer numbers. Not the exit code.
    #[must_use]
    pub const fn class(self) -> u8 {
        match self {
            Self::Usage => 2,
            // To a script, what is not there is a registry's answer like any other.
            Self::Network | Self::Missing => 3,
            Self::Auth => 4,
            Self::Integrity => 5,
            Self::Input => 6,
            Self::Io => 7,
            Self::Lock => 8,
            Self::Conflict => 9,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure with everything a person needs to act on it. It holds no password of a URL or reference, whoever put one
/// there: all text is redacted on its way in, so that neither a message nor a report can show it.
///
/// Boxed inside, so that `Result<T>` stays one word wider than `T`.
#[derive(Clone)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: Kind,
    what: String,
    facts: Vec<(&'static str, String)>,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl Error {
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        let what = redacted(&what.into());
        Self(Box::new(ErrorParts { kind, what, facts: Vec::new(), causes: Vec::new(), hints: Vec::new() }))
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    pub fn input(what: impl Into<String>) -> Self {
        Self::new(Kind::Input, what)
    }

    pub fn missing(what: impl Into<String>) -> Self {
        Self::new(Kind::Missing, what)
    }

    pub fn integrity(what: impl Into<String>) -> Self {
        Self::new(Kind::Integrity, what)
    }

    /// A local I/O failure. Every one names its path.
    pub fn io(what: impl Into<String>, path: &std::path::Path, cause: &io::Error) -> Self {
        Self::new(Kind::Io, what).fact("path", path.display().to_string()).cause(cause.to_string())
    }

    /// The error that a stream carried, or a plain one where the stream itself failed.
    ///
    /// `Read` can only fail with an `io::Error`, so our errors travel inside one (see `From`).
    #[must_use]
    pub fn from_stream(error: io::Error, what: &str) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => Self::new(Kind::Io, what).cause(other),
        }
    }

    /// One aligned line `name  value` under the sentence. Repeated facts are dropped.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        let fact = (name, redacted(&value.to_string()));
        if !self.0.facts.contains(&fact) {
            self.0.facts.push(fact);
        }
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.0.causes.push(redacted(&cause.to_string()));
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(redacted(&hint.into()));
        self
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }

    #[must_use]
    pub fn facts(&self) -> &[(&'static str, String)] {
        &self.0.facts
    }

    #[must_use]
    pub fn causes(&self) -> &[String] {
        &self.0.causes
    }

    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }
}

/// The text form, without the leading `error: `. The only printer of errors.
///
/// Values may come from an image or a registry, so control characters are escaped here.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.0.what))?;
        let width = self.0.facts.iter().map(|(name, _)| name.len()).chain([4]).max().unwrap_or(4);
        for (name, value) in &self.0.facts {
            write!(f, "\n  {name:width$}  {}", printable(value))?;
        }
        write!(f, "\n  {:width$}  {}", "kind", self.0.kind.word())?;
        for cause in &self.0.causes {
            write!(f, "\ncause: {}", printable(cause))?;
        }
        for hint in &self.0.hints {
            write!(f, "\nhint: {}", printable(hint))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_sentence_facts_causes_and_hints_in_this_order() {
        let error = Error::integrity("blob does not match its digest")
            .fact("expected", "sha256:aa")
            .fact("got", "sha256:bb")
            .cause("connection was cut")
            .hint("run again");
        assert_eq!(
            error.to_string(),
            "blob does not match its digest\n  expected  sha256:aa\n  got       sha256:bb\n  kind      integrity\ncause: connection was cut\nhint: run again"
        );
    }

    #[test]
    fn no_part_of_it_holds_a_password() {
        let url = "https://user:secret@host/x";
        let error = Error::input(format!("cannot ask {url}")).fact("url", url).cause(url).hint(format!("not {url}"));
        let parts = [error.what(), &error.facts()[0].1, &error.causes()[0], &error.hints()[0], &error.to_string()];
        assert!(parts.iter().all(|part| part.contains("***@host/x") && !part.contains("secret")), "{error}");
    }

    #[test]
    fn escapes_what_would_move_the_cursor() {
        let error = Error::input("bad\u{1b}[2Jtag").fact("tag", "a\nb\u{202e}c");
        let text = error.to_string();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
        assert!(text.contains("a\\nb\\u{202e}c"), "{text}");
    }
}
