//! `mkfifo P; (tee -a F < P & ); exec app > P 2>&1`: how kops wrote a log to a file and to stdout
//! without the shell staying. It means `app 2>&1 | tee -a F`, with the program's own exit status.

use super::lexer::{Arrow, Lexer, Operator, Token};
use super::outline::{Command, redirect};
use super::reason::{Fault, Reason, Span};

/// The reader of the pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fifo {
    pub path: String,
    pub tee: Command,
    /// The number of commands before it; the last of them made the pipe.
    pub after: usize,
}

/// Reads from an opening bracket on. Anything else in brackets is a subshell.
pub(super) fn read(commands: &[Command], open: Span, lexer: &mut Lexer<'_>) -> Result<Fifo, Fault> {
    let subshell = || Fault::new(Reason::Subshell, "the commands in brackets run in another shell", open);
    let path = commands.last().and_then(made).ok_or_else(subshell)?;
    let mut tee = Command { span: open, ..Command::default() };
    loop {
        match lexer.token()? {
            Some(Token::Word(word)) => tee.words.push(word),
            Some(Token::Redirect(number, arrow, span)) => tee.redirects.push(redirect(number, arrow, span, lexer)?),
            Some(Token::Operator(Operator::Background, _)) => break,
            _ => return Err(subshell()),
        }
    }
    let ends = matches!(lexer.token()?, Some(Token::Operator(Operator::Close, _)))
        && matches!(lexer.token()?, Some(Token::Operator(Operator::Semicolon | Operator::Newline, _)));
    let reads_pipe = match tee.redirects.as_slice() {
        [input] => input.number.is_none() && input.arrow == Arrow::In && input.target.is(&path),
        _ => false,
    };
    tee.redirects.clear();
    if ends && reads_pipe && tee.name().as_deref() == Some("tee") {
        return Ok(Fifo { path, tee, after: commands.len() });
    }
    Err(subshell())
}

/// The path, where the command is `mkfifo PATH` and nothing else.
fn made(command: &Command) -> Option<String> {
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
