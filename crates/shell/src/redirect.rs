//! Redirections, one after the other as the shell evaluates them: `2>&1 1>>f` is not `1>>f 2>&1`.

use super::expansion::{Expander, ValuePart, WordRole, WordValue};
use super::interpreter::Dialect;
use super::lexer::RedirectOperator;
use super::note::Note;
use super::parser::Redirect;
use super::refusal::{Reason, Span, Unsupported};

/// Whether a file keeps what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    Append,
    Truncate,
}

/// Where a stream leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// The container's stdout.
    Stdout,
    /// The container's stderr.
    Stderr,
    /// A file; equal numbers are one opening of it.
    File { path: WordValue, open_mode: OpenMode, number: usize },
}

impl Destination {
    /// One opening, or two that both append.
    fn is_same_file(&self, other: &Self) -> bool {
        let (
            Self::File { path, open_mode, number },
            Self::File { path: other_path, open_mode: other_mode, number: other_number },
        ) = (self, other)
        else {
            return false;
        };
        let both_append = [open_mode, other_mode].iter().all(|open_mode| **open_mode == OpenMode::Append);
        number == other_number || (path == other_path && both_append)
    }
}

/// stdout and stderr of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Streams {
    pub stdout: Destination,
    pub stderr: Destination,
    opened: usize,
    /// The last redirection, to point at.
    pub span: Span,
}

impl Default for Streams {
    fn default() -> Self {
        Self { stdout: Destination::Stdout, stderr: Destination::Stderr, opened: 0, span: Span::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Which streams lead into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStreams {
    Both,
    Stdout,
    Stderr,
}

impl Streams {
    pub fn apply(&mut self, redirects: &[Redirect], expander: &mut Expander<'_>) -> Result<(), Unsupported> {
        redirects.iter().try_for_each(|redirect| self.step(redirect, expander))
    }

    fn step(&mut self, redirect: &Redirect, expander: &mut Expander<'_>) -> Result<(), Unsupported> {
        let Redirect { number, operator, target, span } = redirect;
        self.span = *span;
        let value = expander.value(target, WordRole::Target)?;
        match operator {
            RedirectOperator::In => return input(number.as_deref(), &value, *span, expander),
            RedirectOperator::InOut => return Err(descriptor(*span)),
            RedirectOperator::CopyIn => {
                return Err(Unsupported::new(Reason::InputRedirect, "stdin is redirected from another stream", *span));
            }
            RedirectOperator::HereDocument => {
                return Err(Unsupported::new(Reason::HereDocument, "the script contains text for stdin", *span));
            }
            RedirectOperator::BothOut | RedirectOperator::BothAppend => {
                let open_mode =
                    if *operator == RedirectOperator::BothOut { OpenMode::Truncate } else { OpenMode::Append };
                return self.both(value, open_mode, *span);
            }
            RedirectOperator::Copy => return self.copy(number.as_deref(), &value, *span, expander.dialect),
            RedirectOperator::Out | RedirectOperator::Append => {}
        }
        let open_mode = if *operator == RedirectOperator::Out { OpenMode::Truncate } else { OpenMode::Append };
        let stream = stream(number.as_deref(), *span)?;
        let sink = self.open(value, open_mode, *span)?;
        self.set(stream, sink, *span)
    }

    /// The sink for a file name. Names of the streams themselves open no file.
    fn open(&mut self, path: WordValue, open_mode: OpenMode, span: Span) -> Result<Destination, Unsupported> {
        let name = path.literal().unwrap_or_default();
        let special = |detail: &str| Err(Unsupported::new(Reason::SpecialFile, detail, span));
        match name.as_str() {
            "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => reopened(&self.stdout, span),
            "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => reopened(&self.stderr, span),
            "" if path.references().next().is_none() => special("the file name is empty"),
            _ if name.ends_with('/') => special("the file name is that of a directory"),
            _ if name.starts_with("/dev/") && name != "/dev/null" => special("this file is a device"),
            _ if name.starts_with("/proc/") || name.starts_with("/sys/") => {
                special("this file is part of /proc or /sys")
            }
            _ => {
                self.opened += 1;
                Ok(Destination::File { path, open_mode, number: self.opened })
            }
        }
    }

    fn set(&mut self, stream: Stream, sink: Destination, span: Span) -> Result<(), Unsupported> {
        let before = match stream {
            Stream::Stdout => std::mem::replace(&mut self.stdout, sink),
            Stream::Stderr => std::mem::replace(&mut self.stderr, sink),
        };
        let is_used = [&self.stdout, &self.stderr].iter().any(|sink| before.is_same_file(sink));
        let is_nothing =
            matches!(&before, Destination::File { path, .. } if path.literal().as_deref() == Some("/dev/null"));
        if matches!(before, Destination::File { .. }) && !is_used && !is_nothing {
            let detail = "a file is opened but never written to";
            return Err(Unsupported::new(Reason::PartialRedirect, detail, span));
        }
        Ok(())
    }

    fn both(&mut self, path: WordValue, open_mode: OpenMode, span: Span) -> Result<(), Unsupported> {
        if path.literal().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(Unsupported::new(Reason::Dialect, "the file name could be read as a descriptor number", span));
        }
        let sink = self.open(path, open_mode, span)?;
        self.set(Stream::Stdout, sink.clone(), span)?;
        self.set(Stream::Stderr, sink, span)
    }

    /// `N>&M`.
    fn copy(
        &mut self,
        number: Option<&str>,
        target: &WordValue,
        span: Span,
        dialect: Dialect,
    ) -> Result<(), Unsupported> {
        let sink = match target.literal().as_deref() {
            Some("1") => self.stdout.clone(),
            Some("2") => self.stderr.clone(),
            Some(text) if text.ends_with('-') || text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(descriptor(span));
            }
            // Bash takes `>&FILE` for both streams.
            _ if dialect == Dialect::Bash && number.is_none() => {
                return self.both(target.clone(), OpenMode::Truncate, span);
            }
            _ => {
                return Err(Unsupported::new(
                    Reason::Dialect,
                    "shells treat `>&` before a file name differently",
                    span,
                ));
            }
        };
        self.set(stream(number, span)?, sink, span)
    }

    /// Whether a file was opened by a relative path, which means another file after `cd`.
    pub fn names_relative_file(&self) -> bool {
        [&self.stdout, &self.stderr].iter().any(|sink| match sink {
            Destination::File { path, .. } => {
                !matches!(path.0.first(), Some(ValuePart::Text(text)) if text.starts_with('/'))
            }
            Destination::Stdout | Destination::Stderr => false,
        })
    }

    /// Which file, and what goes into it; `None` where the container's streams get everything.
    pub fn file(&self, expander: &mut Expander<'_>) -> Result<Option<(WordValue, OpenMode, LogStreams)>, Unsupported> {
        let partial = |detail: &str| Err(Unsupported::new(Reason::PartialRedirect, detail, self.span));
        match (&self.stdout, &self.stderr) {
            (Destination::File { path, open_mode, .. }, other @ Destination::File { .. }) => {
                if !self.stdout.is_same_file(other) {
                    return partial("stdout and stderr go to two files, or to one file that is opened twice");
                }
                Ok(Some((path.clone(), *open_mode, LogStreams::Both)))
            }
            (Destination::File { path, open_mode, .. }, Destination::Stderr) => {
                Ok(Some((path.clone(), *open_mode, LogStreams::Stdout)))
            }
            (Destination::Stdout, Destination::File { path, open_mode, .. }) => {
                Ok(Some((path.clone(), *open_mode, LogStreams::Stderr)))
            }
            (Destination::File { .. }, Destination::Stdout) => {
                partial("stderr was redirected before stdout was, so only stdout goes to the file")
            }
            (Destination::Stderr, Destination::File { .. }) => {
                partial("stdout was redirected before stderr was, so only stderr goes to the file")
            }
            (Destination::Stdout, Destination::Stderr) => Ok(None),
            _ => {
                expander.note(Note::MergeDropped);
                Ok(None)
            }
        }
    }
}

fn stream(number: Option<&str>, span: Span) -> Result<Stream, Unsupported> {
    match number {
        None | Some("1") => Ok(Stream::Stdout),
        Some("2") => Ok(Stream::Stderr),
        Some(_) => Err(descriptor(span)),
    }
}

fn descriptor(span: Span) -> Unsupported {
    Unsupported::new(
        Reason::ExtraFd,
        "a descriptor other than stdout and stderr is opened, or one of them is closed",
        span,
    )
}

/// To open the name of a stream gives the stream, unless it is a file, which would be opened again.
fn reopened(sink: &Destination, span: Span) -> Result<Destination, Unsupported> {
    match sink {
        Destination::File { .. } => {
            Err(Unsupported::new(Reason::PartialRedirect, "the file is opened a second time, from the start", span))
        }
        other => Ok(other.clone()),
    }
}

fn input(number: Option<&str>, target: &WordValue, span: Span, expander: &mut Expander<'_>) -> Result<(), Unsupported> {
    match (number, target.literal().as_deref()) {
        (None | Some("0"), Some("/dev/null")) => {
            expander.note(Note::InputFromNothing);
            Ok(())
        }
        (None | Some("0"), _) => Err(Unsupported::new(Reason::InputRedirect, "stdin is read from a file", span)),
        _ => Err(descriptor(span)),
    }
}
