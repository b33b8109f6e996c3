//! Redirections, one after the other as the shell evaluates them: `2>&1 1>>f` is not `1>>f 2>&1`.

use super::interpreter::Dialect;
use super::lexer::Arrow;
use super::note::Note;
use super::outline::Redirect;
use super::reason::{Fault, Reason, Span};
use super::scope::{Scope, Use};
use super::value::{Bit, Value};

/// Whether a file keeps what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Appends,
    Truncates,
}

/// Where a stream leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sink {
    /// The container's stdout.
    Stdout,
    /// The container's stderr.
    Stderr,
    /// A file; equal numbers are one opening of it.
    File { path: Value, opening: Opening, number: usize },
}

impl Sink {
    /// One opening, or two that both append.
    fn is_same_file(&self, other: &Self) -> bool {
        let (
            Self::File { path, opening, number },
            Self::File { path: other_path, opening: other_opening, number: other_number },
        ) = (self, other)
        else {
            return false;
        };
        let both_append = [opening, other_opening].iter().all(|opening| **opening == Opening::Appends);
        number == other_number || (path == other_path && both_append)
    }
}

/// stdout and stderr of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Streams {
    pub stdout: Sink,
    pub stderr: Sink,
    opened: usize,
    /// The last redirection, to point at.
    pub span: Span,
}

impl Default for Streams {
    fn default() -> Self {
        Self { stdout: Sink::Stdout, stderr: Sink::Stderr, opened: 0, span: Span::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Which streams lead into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Both,
    Stdout,
    Stderr,
}

impl Streams {
    pub fn apply(&mut self, redirects: &[Redirect], scope: &mut Scope<'_>) -> Result<(), Fault> {
        redirects.iter().try_for_each(|redirect| self.step(redirect, scope))
    }

    fn step(&mut self, redirect: &Redirect, scope: &mut Scope<'_>) -> Result<(), Fault> {
        let Redirect { number, arrow, target, span } = redirect;
        self.span = *span;
        let value = scope.value(target, Use::Target)?;
        match arrow {
            Arrow::In => return input(number.as_deref(), &value, *span, scope),
            Arrow::InOut => return Err(descriptor(*span)),
            Arrow::CopyIn => return Err(Fault::new(Reason::InputRedirect, "stdin is another stream", *span)),
            Arrow::HereDocument => {
                return Err(Fault::new(Reason::HereDocument, "the script holds a text for stdin", *span));
            }
            Arrow::BothOut | Arrow::BothAppend => {
                let opening = if *arrow == Arrow::BothOut { Opening::Truncates } else { Opening::Appends };
                return self.both(value, opening, *span);
            }
            Arrow::Copy => return self.copy(number.as_deref(), &value, *span, scope.dialect),
            Arrow::Out | Arrow::Append => {}
        }
        let opening = if *arrow == Arrow::Out { Opening::Truncates } else { Opening::Appends };
        let stream = stream(number.as_deref(), *span)?;
        let sink = self.open(value, opening, *span)?;
        self.set(stream, sink, *span)
    }

    /// The sink for a file name. Names of the streams themselves open no file.
    fn open(&mut self, path: Value, opening: Opening, span: Span) -> Result<Sink, Fault> {
        let name = path.literal().unwrap_or_default();
        let special = |detail: &str| Err(Fault::new(Reason::SpecialFile, detail, span));
        match name.as_str() {
            "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => reopened(&self.stdout, span),
            "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => reopened(&self.stderr, span),
            "" if path.references().next().is_none() => special("the name of the file is empty"),
            _ if name.ends_with('/') => special("the name is that of a folder"),
            _ if name.starts_with("/dev/") && name != "/dev/null" => special("this file is a device"),
            _ if name.starts_with("/proc/") || name.starts_with("/sys/") => special("this file is part of the system"),
            _ => {
                self.opened += 1;
                Ok(Sink::File { path, opening, number: self.opened })
            }
        }
    }

    fn set(&mut self, stream: Stream, sink: Sink, span: Span) -> Result<(), Fault> {
        let before = match stream {
            Stream::Stdout => std::mem::replace(&mut self.stdout, sink),
            Stream::Stderr => std::mem::replace(&mut self.stderr, sink),
        };
        let is_used = [&self.stdout, &self.stderr].iter().any(|sink| before.is_same_file(sink));
        let is_nothing = matches!(&before, Sink::File { path, .. } if path.literal().as_deref() == Some("/dev/null"));
        if matches!(before, Sink::File { .. }) && !is_used && !is_nothing {
            let detail = "a file is opened that nothing is written to";
            return Err(Fault::new(Reason::PartialRedirect, detail, span));
        }
        Ok(())
    }

    fn both(&mut self, path: Value, opening: Opening, span: Span) -> Result<(), Fault> {
        if path.literal().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(Fault::new(Reason::Dialect, "the name of the file may be taken for a number", span));
        }
        let sink = self.open(path, opening, span)?;
        self.set(Stream::Stdout, sink.clone(), span)?;
        self.set(Stream::Stderr, sink, span)
    }

    /// `N>&M`.
    fn copy(&mut self, number: Option<&str>, target: &Value, span: Span, dialect: Dialect) -> Result<(), Fault> {
        let sink = match target.literal().as_deref() {
            Some("1") => self.stdout.clone(),
            Some("2") => self.stderr.clone(),
            Some(text) if text.ends_with('-') || text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(descriptor(span));
            }
            // Bash takes `>&FILE` for both streams.
            _ if dialect == Dialect::Bash && number.is_none() => {
                return self.both(target.clone(), Opening::Truncates, span);
            }
            _ => return Err(Fault::new(Reason::Dialect, "shells differ on `>&` before a file name", span)),
        };
        self.set(stream(number, span)?, sink, span)
    }

    /// Whether a file is open whose name means another one in another folder.
    pub fn names_relative_file(&self) -> bool {
        [&self.stdout, &self.stderr].iter().any(|sink| match sink {
            Sink::File { path, .. } => !matches!(path.0.first(), Some(Bit::Text(text)) if text.starts_with('/')),
            Sink::Stdout | Sink::Stderr => false,
        })
    }

    /// Which file, and what goes into it; `None` where the container's streams get everything.
    pub fn file(&self, scope: &mut Scope<'_>) -> Result<Option<(Value, Opening, Written)>, Fault> {
        let partial = |detail: &str| Err(Fault::new(Reason::PartialRedirect, detail, self.span));
        match (&self.stdout, &self.stderr) {
            (Sink::File { path, opening, .. }, other @ Sink::File { .. }) => {
                if !self.stdout.is_same_file(other) {
                    return partial("stdout and stderr go to two files, or to one that is opened twice");
                }
                Ok(Some((path.clone(), *opening, Written::Both)))
            }
            (Sink::File { path, opening, .. }, Sink::Stderr) => Ok(Some((path.clone(), *opening, Written::Stdout))),
            (Sink::Stdout, Sink::File { path, opening, .. }) => Ok(Some((path.clone(), *opening, Written::Stderr))),
            (Sink::File { .. }, Sink::Stdout) => {
                partial("stderr was sent to where stdout led before: only stdout goes to the file")
            }
            (Sink::Stderr, Sink::File { .. }) => {
                partial("stdout was sent to where stderr led before: only stderr goes to the file")
            }
            (Sink::Stdout, Sink::Stderr) => Ok(None),
            _ => {
                scope.note(Note::MergeDropped);
                Ok(None)
            }
        }
    }
}

fn stream(number: Option<&str>, span: Span) -> Result<Stream, Fault> {
    match number {
        None | Some("1") => Ok(Stream::Stdout),
        Some("2") => Ok(Stream::Stderr),
        Some(_) => Err(descriptor(span)),
    }
}

fn descriptor(span: Span) -> Fault {
    Fault::new(Reason::ExtraFd, "a file other than stdout and stderr is opened, or one of them is closed", span)
}

/// To open the name of a stream gives the stream, unless it is a file, which would be opened again.
fn reopened(sink: &Sink, span: Span) -> Result<Sink, Fault> {
    match sink {
        Sink::File { .. } => {
            Err(Fault::new(Reason::PartialRedirect, "the file is opened a second time, from its beginning", span))
        }
        other => Ok(other.clone()),
    }
}

fn input(number: Option<&str>, target: &Value, span: Span, scope: &mut Scope<'_>) -> Result<(), Fault> {
    match (number, target.literal().as_deref()) {
        (None | Some("0"), Some("/dev/null")) => {
            scope.note(Note::InputFromNothing);
            Ok(())
        }
        (None | Some("0"), _) => Err(Fault::new(Reason::InputRedirect, "stdin comes from a file", span)),
        _ => Err(descriptor(span)),
    }
}
