//! `| tee [-a] FILE`, the one pipe that has an equivalent, and its form with a named pipe.
//!
//! `mkfifo P; (tee -a F < P & ); exec app > P 2>&1` is how kops wrote a log to a file and to stdout
//! without keeping the shell. It means `app 2>&1 | tee -a F`, with the program's own exit status.

use super::exec_command::LogCopy;
use super::expansion::{Expander, WordRole, WordValue};
use super::lexer::{Lexer, Operator, RedirectOperator, Token};
use super::note::Note;
use super::parser::{ParsedScript, SimpleCommand, redirect};
use super::redirect::{Destination, LogStreams, OpenMode, Streams};
use super::refusal::{Reason, Span, Unsupported};

pub(super) type LogTarget = (WordValue, OpenMode, LogStreams, LogCopy);

/// Where the program's output goes in the end.
pub(super) fn log(
    outline: &ParsedScript,
    streams: &Streams,
    expander: &mut Expander<'_>,
) -> Result<Option<LogTarget>, Unsupported> {
    match (&outline.tee, &outline.fifo) {
        (Some((operator, tee)), None) => {
            expander.note(Note::StatusOfTee);
            piped(*operator, tee, streams, expander).map(Some)
        }
        (None, Some(fifo)) => through_fifo(fifo, streams, expander).map(Some),
        (Some((_, tee)), Some(_)) => {
            Err(Unsupported::new(Reason::Pipeline, "the output goes through two pipes", tee.span))
        }
        (None, None) => {
            let file = streams.file(expander)?;
            Ok(file.map(|(path, open_mode, streams)| (path, open_mode, streams, LogCopy::FileOnly)))
        }
    }
}

fn piped(
    operator: Operator,
    tee: &SimpleCommand,
    streams: &Streams,
    expander: &mut Expander<'_>,
) -> Result<LogTarget, Unsupported> {
    let logged = match (&streams.stdout, &streams.stderr, operator) {
        (Destination::Stdout, Destination::Stdout, _) | (Destination::Stdout, _, Operator::PipeBoth) => {
            LogStreams::Both
        }
        (Destination::Stdout, Destination::Stderr, _) => LogStreams::Stdout,
        _ => return Err(Unsupported::new(Reason::Pipeline, "not all of the output goes into the pipe", streams.span)),
    };
    let (path, open_mode) = file(tee, expander)?;
    Ok((path, open_mode, logged, LogCopy::AlsoStdout))
}

fn through_fifo(fifo: &Fifo, streams: &Streams, expander: &mut Expander<'_>) -> Result<LogTarget, Unsupported> {
    let leads_in = |sink: &Destination| match sink {
        Destination::File { path, .. } => path.literal().as_deref() == Some(fifo.path.as_str()),
        Destination::Stdout | Destination::Stderr => false,
    };
    if !(leads_in(&streams.stdout) && leads_in(&streams.stderr)) {
        let detail = "not all of the output goes into the pipe that tee reads";
        return Err(Unsupported::new(Reason::Pipeline, detail, fifo.tee.span));
    }
    let (path, open_mode) = file(&fifo.tee, expander)?;
    Ok((path, open_mode, LogStreams::Both, LogCopy::AlsoStdout))
}

/// The one file of `tee`.
fn file(tee: &SimpleCommand, expander: &mut Expander<'_>) -> Result<(WordValue, OpenMode), Unsupported> {
    let refuse = |detail: &str| Err(Unsupported::new(Reason::Pipeline, detail, tee.span));
    if !tee.redirects.is_empty() || !tee.assignments.is_empty() {
        return refuse("the output of tee is redirected again");
    }
    let mut open_mode = OpenMode::Truncate;
    let mut words = tee.words.iter().skip(1).peekable();
    while words.next_if(|word| word.is("-a") || word.is("--append")).is_some() {
        open_mode = OpenMode::Append;
    }
    words.next_if(|word| word.is("--"));
    let (Some(word), None) = (words.next(), words.next()) else {
        return refuse("tee does not write to exactly one file");
    };
    let path = expander.value(word, WordRole::Single)?;
    let text = path.literal().unwrap_or_default();
    if text.starts_with('-')
        || text.ends_with('/')
        || (text.starts_with("/dev/") && text != "/dev/null")
        || text.starts_with("/proc/")
    {
        return refuse("tee does not write to a regular file");
    }
    Ok((path, open_mode))
}

/// The reader of the pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fifo {
    pub path: String,
    pub tee: SimpleCommand,
    /// The number of commands before it; the last of them made the pipe.
    pub after: usize,
}

/// Reads from an opening bracket on. Anything else in brackets is a subshell.
pub(super) fn read_fifo(commands: &[SimpleCommand], open: Span, lexer: &mut Lexer<'_>) -> Result<Fifo, Unsupported> {
    let subshell = || Unsupported::new(Reason::Subshell, "the commands in parentheses run in a subshell", open);
    let path = commands.last().and_then(made).ok_or_else(subshell)?;
    let mut tee = SimpleCommand { span: open, ..SimpleCommand::default() };
    loop {
        match lexer.token()? {
            Some(Token::Word(word)) => tee.words.push(word),
            Some(Token::Redirect(number, operator, span)) => {
                tee.redirects.push(redirect(number, operator, span, lexer)?);
            }
            Some(Token::Operator(Operator::Background, _)) => break,
            _ => return Err(subshell()),
        }
    }
    let ends = matches!(lexer.token()?, Some(Token::Operator(Operator::Close, _)))
        && matches!(lexer.token()?, Some(Token::Operator(Operator::Semicolon | Operator::Newline, _)));
    let reads_pipe = match tee.redirects.as_slice() {
        [input] => input.number.is_none() && input.operator == RedirectOperator::In && input.target.is(&path),
        _ => false,
    };
    tee.redirects.clear();
    if ends && reads_pipe && tee.name().as_deref() == Some("tee") {
        return Ok(Fifo { path, tee, after: commands.len() });
    }
    Err(subshell())
}

/// The path, where the command is `mkfifo PATH` and nothing else.
fn made(command: &SimpleCommand) -> Option<String> {
    let joined = matches!(command.joint, Some((Operator::Semicolon | Operator::Newline | Operator::And, _)));
    match command.words.as_slice() {
        [name, path]
            if name.is("mkfifo") && joined && command.redirects.is_empty() && command.assignments.is_empty() =>
        {
            path.literal().filter(|path| path.starts_with('/'))
        }
        _ => None,
    }
}
