//! The commands of a script and how they are joined: what prepares, what runs, what follows.
//!
//! The first construct without an exec form decides the refusal; only where there is none are the
//! words themselves checked.

use super::builtins::{Reserved, reserved};
use super::kubelet::ExitStatusUse;
use super::lexer::{Lexer, Operator, RedirectOperator, Token};
use super::refusal::{Reason, Span, Unsupported};
use super::tee::{self, Fifo};
use super::word::Word;

/// A redirection with its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub number: Option<String>,
    pub operator: RedirectOperator,
    pub target: Word,
    pub span: Span,
}

impl Redirect {
    /// Whether a file other than stdin, stdout and stderr is meant.
    fn is_extra(&self) -> bool {
        self.number.as_deref().is_some_and(|number| !matches!(number, "0" | "1" | "2"))
    }
}

/// A simple command: assignments, words, redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub assignments: Vec<(String, Word)>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    pub span: Span,
    /// What joins it to the next one.
    pub joint: Option<(Operator, Span)>,
}

impl SimpleCommand {
    /// The first word, where it is known without the shell.
    pub fn name(&self) -> Option<String> {
        self.words.first().and_then(Word::literal)
    }

    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.words.is_empty() && self.redirects.is_empty()
    }

    /// Whether it only prepares the shell for what comes.
    fn prepares(&self) -> bool {
        match self.words.first().and_then(Word::bare) {
            Some("set" | "export" | "cd") => true,
            Some("exec") => self.words.len() == 1,
            Some(_) => false,
            None => self.words.is_empty(),
        }
    }
}

/// A script that runs one program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedScript {
    pub before: Vec<SimpleCommand>,
    pub program: SimpleCommand,
    /// `| tee`, and what joined it.
    pub tee: Option<(Operator, SimpleCommand)>,
    pub fifo: Option<Fifo>,
}

/// Reads the whole script.
pub(super) fn parse(mut lexer: Lexer<'_>, status: ExitStatusUse) -> Result<ParsedScript, Unsupported> {
    let mut reader = ScriptReader::default();
    while let Some(token) = lexer.token()? {
        reader.take(token, &mut lexer)?;
    }
    reader.close(None)?;
    arrange(reader.commands, reader.fifo, status)
}

#[derive(Default)]
struct ScriptReader {
    commands: Vec<SimpleCommand>,
    current: SimpleCommand,
    fifo: Option<Fifo>,
}

impl ScriptReader {
    fn take(&mut self, token: Token, lexer: &mut Lexer<'_>) -> Result<(), Unsupported> {
        match token {
            Token::Word(word) => self.word(word),
            Token::Redirect(number, operator, span) => {
                let redirect = redirect(number, operator, span, lexer)?;
                self.grow(redirect.span);
                self.current.redirects.push(redirect);
                Ok(())
            }
            Token::Operator(Operator::Open, span) => self.open(span, lexer),
            Token::Operator(Operator::Close, span) => {
                Err(Unsupported::new(Reason::SyntaxError, "this `)` has no matching `(`", span))
            }
            Token::Operator(operator, span) => self.close(Some((operator, span))),
        }
    }

    fn grow(&mut self, span: Span) {
        self.current.span = if self.current.is_empty() { span } else { self.current.span.to(span) };
    }

    fn word(&mut self, word: Word) -> Result<(), Unsupported> {
        self.grow(word.span);
        if !self.current.words.is_empty() {
            self.current.words.push(word);
            return Ok(());
        }
        if let Some((name, value)) = word.assignment() {
            self.current.assignments.push((name, value));
            return Ok(());
        }
        if let Some(detail) = word.unusual_assignment() {
            return Err(Unsupported::new(Reason::Assignment, detail, word.span));
        }
        self.check_first(&word)?;
        self.current.words.push(word);
        Ok(())
    }

    /// The first word of a command may be one of the shell's own.
    fn check_first(&self, word: &Word) -> Result<(), Unsupported> {
        let name = word.literal().unwrap_or_default();
        match reserved(&name) {
            // Quotes turn a keyword into a plain name, but not a builtin.
            Some(Reserved::Keyword(reason)) if word.bare().is_some() && self.current.assignments.is_empty() => {
                Err(Unsupported::new(reason, format!("`{name}` is shell syntax"), word.span))
            }
            Some(Reserved::ActsOnShell(reason)) => {
                Err(Unsupported::new(reason, format!("`{name}` changes the shell itself"), word.span))
            }
            _ if word.bare_text().starts_with('-') && self.follows_a_line() => {
                let detail =
                    "this line is a separate command, because the line before it does not end with a backslash";
                Err(Unsupported::new(Reason::NewlineSplitsCommand, detail, word.span))
            }
            _ => Ok(()),
        }
    }

    fn follows_a_line(&self) -> bool {
        self.commands.last().is_some_and(|last| matches!(last.joint, Some((Operator::Newline, _))))
    }

    fn open(&mut self, span: Span, lexer: &mut Lexer<'_>) -> Result<(), Unsupported> {
        match self.current.words.len() {
            0 if self.current.assignments.is_empty() => {
                self.fifo = Some(tee::read_fifo(&self.commands, span, lexer)?);
                Ok(())
            }
            0 => Err(Unsupported::new(Reason::Assignment, "arrays exist only in bash", span)),
            1 if matches!(lexer.token(), Ok(Some(Token::Operator(Operator::Close, _)))) => {
                Err(Unsupported::new(Reason::Function, "a function is defined here", self.current.span.to(span)))
            }
            _ => Err(Unsupported::new(Reason::SyntaxError, "this `(` is out of place", span)),
        }
    }

    /// Ends the current command.
    fn close(&mut self, joint: Option<(Operator, Span)>) -> Result<(), Unsupported> {
        if let Some((Operator::Background, span)) = joint {
            return Err(Unsupported::new(Reason::BackgroundJob, "`&` runs the command in the background", span));
        }
        if self.current.is_empty() {
            return self.close_empty(joint);
        }
        let command = SimpleCommand { joint, ..std::mem::take(&mut self.current) };
        if let (1, Some(kept)) = (command.words.len(), command.redirects.iter().find(|redirect| redirect.is_extra()))
            && command.words.iter().all(|word| word.is("exec"))
        {
            let detail = "`exec` without a program keeps the shell and opens another descriptor";
            return Err(Unsupported::new(Reason::ExtraFd, detail, kept.span));
        }
        self.commands.push(command);
        Ok(())
    }

    /// Only the end of a line may follow nothing.
    fn close_empty(&self, joint: Option<(Operator, Span)>) -> Result<(), Unsupported> {
        match joint {
            None => match self.commands.last().and_then(|last| last.joint) {
                Some((Operator::And | Operator::Or | Operator::Pipe | Operator::PipeBoth, span)) => {
                    Err(Unsupported::new(Reason::SyntaxError, "a command is missing after this", span))
                }
                _ => Ok(()),
            },
            Some((Operator::Newline, _)) => Ok(()),
            Some((_, span)) => Err(Unsupported::new(Reason::SyntaxError, "a command is missing before this", span)),
        }
    }
}

pub(super) fn redirect(
    number: Option<String>,
    operator: RedirectOperator,
    span: Span,
    lexer: &mut Lexer<'_>,
) -> Result<Redirect, Unsupported> {
    if operator == RedirectOperator::HereDocument {
        return Err(Unsupported::new(Reason::HereDocument, "the script contains text for stdin", span));
    }
    match lexer.token()? {
        Some(Token::Word(target)) => Ok(Redirect { number, operator, span: span.to(target.span), target }),
        Some(Token::Operator(Operator::Open, open)) => {
            Err(Unsupported::new(Reason::ProcessSubstitution, "bash runs a command here", span.to(open)))
        }
        Some(Token::Redirect(None, _, inner))
            if matches!(lexer.token(), Ok(Some(Token::Operator(Operator::Open, _)))) =>
        {
            Err(Unsupported::new(Reason::ProcessSubstitution, "bash runs a command here", inner))
        }
        _ => Err(Unsupported::new(Reason::SyntaxError, "this redirection has no target", span)),
    }
}

/// Finds the one program among the commands.
fn arrange(
    commands: Vec<SimpleCommand>,
    fifo: Option<Fifo>,
    status: ExitStatusUse,
) -> Result<ParsedScript, Unsupported> {
    let skipped = fifo.as_ref().map(|fifo| fifo.after - 1);
    let mut commands = commands.into_iter().enumerate().filter(|(index, _)| Some(*index) != skipped).map(|(_, c)| c);
    let mut before = Vec::new();
    let program = loop {
        let Some(command) = commands.next() else {
            let last = before.last().map_or(Span::default(), |last: &SimpleCommand| last.span);
            return Err(Unsupported::new(Reason::Incomplete, "the script starts no program", last));
        };
        if !command.prepares() {
            break command;
        }
        match command.joint {
            Some((Operator::Or, span)) => {
                return Err(Unsupported::new(
                    Reason::MultipleCommands,
                    "the command after `||` runs only if this one fails",
                    span,
                ));
            }
            Some((Operator::Pipe | Operator::PipeBoth, span)) => return Err(not_tee(span)),
            _ => before.push(command),
        }
    };
    let rest: Vec<SimpleCommand> = commands.collect();
    let tee = if only_fails(&program, &rest, status) { None } else { after(&program, rest)? };
    Ok(ParsedScript { before, program, tee, fifo })
}

fn not_tee(span: Span) -> Unsupported {
    Unsupported::new(Reason::Pipeline, "the output is piped into another program", span)
}

/// Whether all that follows is `|| exit 1` or `|| false`, and the status counts only as zero or not: then it is as if
/// nothing followed.
fn only_fails(program: &SimpleCommand, rest: &[SimpleCommand], status: ExitStatusUse) -> bool {
    let is_exec = program.words.first().is_some_and(|word| word.is("exec"));
    let is_or = matches!(program.joint, Some((Operator::Or, _)));
    let [last] = rest else { return false };
    let is_end = matches!(last.joint, None | Some((Operator::Newline | Operator::Semicolon, _)));
    let is_bare = last.assignments.is_empty() && last.redirects.is_empty();
    let words: Vec<&str> = last.words.iter().filter_map(Word::bare).collect();
    let fails = match words.as_slice() {
        // Without a number, the status of the program, which is not zero here.
        ["false" | "exit"] => true,
        // Only the last eight bits count.
        ["exit", number] => number.parse::<u32>().is_ok_and(|number| (1..=255).contains(&number)),
        _ => false,
    };
    status == ExitStatusUse::ZeroOrNot
        && is_or
        && !is_exec
        && is_end
        && is_bare
        && fails
        && words.len() == last.words.len()
}

/// What may follow the program: nothing, or `| tee` and then nothing.
fn after(program: &SimpleCommand, rest: Vec<SimpleCommand>) -> Result<Option<(Operator, SimpleCommand)>, Unsupported> {
    let Some((operator, span)) = program.joint else { return Ok(None) };
    let mut rest = rest.into_iter();
    let Some(next) = rest.next() else { return Ok(None) };
    let is_exec = program.words.first().is_some_and(|word| word.is("exec"));
    match operator {
        Operator::Pipe | Operator::PipeBoth if next.words.first().is_some_and(|word| word.is("tee")) => {
            match (rest.next(), next.joint) {
                (None, None | Some((Operator::Newline | Operator::Semicolon, _))) => Ok(Some((operator, next))),
                (_, joint) => Err(follows(Operator::Semicolon, joint.map_or(span, |(_, span)| span))),
            }
        }
        Operator::Pipe | Operator::PipeBoth => Err(not_tee(span)),
        _ if is_exec => {
            let detail = "nothing after `exec` runs, because the program has replaced the shell";
            Err(Unsupported::new(Reason::Unreachable, detail, span.to(next.span)))
        }
        Operator::Or if matches!(next.name().as_deref(), Some("true" | ":")) => {
            let detail = "the exit status of the program is ignored";
            Err(Unsupported::new(Reason::StatusMasking, detail, span.to(next.span)))
        }
        _ => Err(follows(operator, span)),
    }
}

fn follows(operator: Operator, span: Span) -> Unsupported {
    let detail = match operator {
        Operator::Or => "a second command runs when the first fails",
        Operator::And => "a second command runs when the first succeeds",
        _ => "a second command follows",
    };
    Unsupported::new(Reason::MultipleCommands, detail, span)
}
