//! `| tee [-a] FILE`, the one pipe that has an equivalent.

use super::fifo::Fifo;
use super::lexer::Operator;
use super::meaning::Copied;
use super::note::Note;
use super::outline::{Command, Outline};
use super::reason::{Fault, Reason};
use super::redirect::{Opening, Sink, Streams, Written};
use super::scope::{Scope, Use};
use super::value::Value;

pub(super) type Target = (Value, Opening, Written, Copied);

/// Where the program's output goes in the end.
pub(super) fn log(outline: &Outline, streams: &Streams, scope: &mut Scope<'_>) -> Result<Option<Target>, Fault> {
    match (&outline.tee, &outline.fifo) {
        (Some((operator, tee)), None) => {
            scope.note(Note::StatusOfTee);
            piped(*operator, tee, streams, scope).map(Some)
        }
        (None, Some(fifo)) => through_fifo(fifo, streams, scope).map(Some),
        (Some((_, tee)), Some(_)) => Err(Fault::new(Reason::Pipeline, "the output goes through two pipes", tee.span)),
        (None, None) => {
            let file = streams.file(scope)?;
            Ok(file.map(|(path, opening, written)| (path, opening, written, Copied::FileOnly)))
        }
    }
}

fn piped(operator: Operator, tee: &Command, streams: &Streams, scope: &mut Scope<'_>) -> Result<Target, Fault> {
    let written = match (&streams.stdout, &streams.stderr, operator) {
        (Sink::Stdout, Sink::Stdout, _) | (Sink::Stdout, _, Operator::PipeBoth) => Written::Both,
        (Sink::Stdout, Sink::Stderr, _) => Written::Stdout,
        _ => return Err(Fault::new(Reason::Pipeline, "not all of the output goes into the pipe", streams.span)),
    };
    let (path, opening) = file(tee, scope)?;
    Ok((path, opening, written, Copied::AlsoStdout))
}

fn through_fifo(fifo: &Fifo, streams: &Streams, scope: &mut Scope<'_>) -> Result<Target, Fault> {
    let leads_in = |sink: &Sink| match sink {
        Sink::File { path, .. } => path.literal().as_deref() == Some(fifo.path.as_str()),
        Sink::Stdout | Sink::Stderr => false,
    };
    if !(leads_in(&streams.stdout) && leads_in(&streams.stderr)) {
        let detail = "not all of the output goes into the pipe that tee reads";
        return Err(Fault::new(Reason::Pipeline, detail, fifo.tee.span));
    }
    let (path, opening) = file(&fifo.tee, scope)?;
    Ok((path, opening, Written::Both, Copied::AlsoStdout))
}

/// The one file of `tee`.
fn file(tee: &Command, scope: &mut Scope<'_>) -> Result<(Value, Opening), Fault> {
    let refuse = |detail: &str| Err(Fault::new(Reason::Pipeline, detail, tee.span));
    if !tee.redirects.is_empty() || !tee.assignments.is_empty() {
        return refuse("the output of tee is redirected again");
    }
    let mut opening = Opening::Truncates;
    let mut words = tee.words.iter().skip(1).peekable();
    while words.next_if(|word| word.is("-a") || word.is("--append")).is_some() {
        opening = Opening::Appends;
    }
    words.next_if(|word| word.is("--"));
    let (Some(word), None) = (words.next(), words.next()) else { return refuse("tee does not write to one file") };
    let path = scope.value(word, Use::Argument)?;
    let text = path.literal().unwrap_or_default();
    if text.starts_with('-')
        || text.ends_with('/')
        || (text.starts_with("/dev/") && text != "/dev/null")
        || text.starts_with("/proc/")
    {
        return refuse("tee does not write to a regular file");
    }
    Ok((path, opening))
}
