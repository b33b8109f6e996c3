//! The words of a script, in pieces that remember whether they were quoted: quotes, backslashes and
//! what begins with `$` or a backtick (POSIX.1-2024, XCU 2.2 and 2.6).

use super::kubelet::KubeletUnit;
use super::lexer::Lexer;
use super::refusal::{Reason, Span, Unsupported};

/// Whether the shell may still act on a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    Bare,
    Quoted,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String, Quoting),
    /// `*`, `?` or `[`, unquoted.
    Wildcard(char),
    /// `$NAME` or `${NAME}`.
    Variable(String, Quoting),
    /// `$(NAME)` that the kubelet has replaced with a plain word.
    Reference(String),
    /// `$@`.
    Arguments(Quoting),
    /// What no exec form can express.
    Unsupported(Unsupported),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub pieces: Vec<(Piece, Span)>,
    pub span: Span,
}

impl Word {
    pub fn push_text(&mut self, c: char, quoting: Quoting, span: Span) {
        if let Some((Piece::Text(text, last), place)) = self.pieces.last_mut()
            && *last == quoting
        {
            text.push(c);
            place.end = span.end;
            return;
        }
        self.pieces.push((Piece::Text(c.to_string(), quoting), span));
    }

    /// A `[` without its `]` is a plain character.
    pub fn settle_brackets(&mut self) {
        let last = self.pieces.iter().rposition(|(piece, _)| match piece {
            Piece::Text(text, Quoting::Bare) => text.contains(']'),
            _ => false,
        });
        for (index, (piece, span)) in std::mem::take(&mut self.pieces).into_iter().enumerate() {
            match piece {
                Piece::Wildcard('[') if last.is_none_or(|last| last < index) => {
                    self.push_text('[', Quoting::Bare, span);
                }
                Piece::Text(text, Quoting::Bare) => text.chars().for_each(|c| self.push_text(c, Quoting::Bare, span)),
                other => self.pieces.push((other, span)),
            }
        }
    }

    /// The text, where nothing of it was quoted or is to be expanded: the only form of a keyword.
    pub fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [(Piece::Text(text, Quoting::Bare), _)] => Some(text),
            _ => None,
        }
    }

    /// The text, where it is known without the shell, quoted or not.
    pub fn literal(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|(piece, _)| match piece {
            Piece::Text(text, _) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub fn is(&self, text: &str) -> bool {
        self.literal().is_some_and(|literal| literal == text)
    }

    /// Splits `NAME=value`, where the shell would take it for an assignment.
    pub fn assignment(&self) -> Option<(String, Self)> {
        let (Piece::Text(text, Quoting::Bare), span) = self.pieces.first()? else { return None };
        let (name, value) = text.split_once('=').filter(|(name, _)| is_name(name))?;
        let mut rest = Self { pieces: Vec::new(), span: self.span };
        if !value.is_empty() {
            rest.pieces.push((Piece::Text(value.to_owned(), Quoting::Bare), *span));
        }
        rest.pieces.extend(self.pieces.iter().skip(1).cloned());
        Some((name.to_owned(), rest))
    }

    /// What is odd about a word that some shells take for an assignment and others for a command.
    pub fn unusual_assignment(&self) -> Option<&'static str> {
        let text = self.bare_text();
        let name = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|end| *end > 0)?;
        let (name, rest) = text.split_at(name);
        match rest {
            _ if !is_name(name) => None,
            rest if rest.starts_with("+=") => Some("bash appends to a variable here, and other shells run a command"),
            rest if rest.starts_with('[') && (rest.contains("]=") || rest.contains("]+=")) => {
                Some("bash sets an element of an array here, and other shells run a command")
            }
            _ => None,
        }
    }

    /// What of the word the shell may still act on; quoted characters become a blank.
    pub fn bare_text(&self) -> String {
        let shown = self.pieces.iter().map(|(piece, _)| match piece {
            Piece::Text(text, Quoting::Bare) => text.clone(),
            Piece::Wildcard(c) => c.to_string(),
            _ => " ".to_owned(),
        });
        shown.collect()
    }
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Lexer<'_> {
    pub(super) fn word(&mut self) -> Result<Word, Unsupported> {
        let start = self.next;
        let mut word = Word::default();
        while let Some(seen) = self.source.get(self.next) {
            let at = self.next;
            match seen {
                KubeletUnit::Char(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                KubeletUnit::Char('\'') => self.single(&mut word)?,
                KubeletUnit::Char('"') => self.double(&mut word)?,
                KubeletUnit::Char('\\') => self.backslash(&mut word)?,
                KubeletUnit::Char('$') => self.dollar(&mut word, Quoting::Bare)?,
                KubeletUnit::Char('`') => self.backtick(&mut word)?,
                KubeletUnit::Char('\r') => {
                    self.next += 1;
                    let detail = "a carriage return becomes part of the word";
                    self.unsupported(&mut word, Reason::ControlCharacter, detail, at);
                }
                KubeletUnit::Char(c @ ('*' | '?' | '[')) => {
                    self.next += 1;
                    word.pieces.push((Piece::Wildcard(c), self.span(at)));
                }
                other => self.take(&mut word, other, Quoting::Bare),
            }
        }
        word.span = self.span(start);
        word.settle_brackets();
        Ok(word)
    }

    pub(super) fn unsupported(&self, word: &mut Word, reason: Reason, detail: impl Into<String>, start: usize) {
        let span = self.span(start);
        word.pieces.push((Piece::Unsupported(Unsupported::new(reason, detail, span)), span));
    }

    /// One unit that is taken literally.
    fn take(&mut self, word: &mut Word, seen: KubeletUnit, quoting: Quoting) {
        let start = self.next;
        self.next += 1;
        let span = self.span(start);
        match seen {
            KubeletUnit::Char(c) => word.push_text(c, quoting, span),
            KubeletUnit::Reference(number) => word.pieces.push((Piece::Reference(self.source.name(number)), span)),
        }
    }

    fn backslash(&mut self, word: &mut Word) -> Result<(), Unsupported> {
        let start = self.next;
        self.next += 1;
        match self.source.get(self.next) {
            Some(KubeletUnit::Char('\n')) => self.next += 1,
            Some(seen @ KubeletUnit::Char(_)) => self.take(word, seen, Quoting::Quoted),
            Some(KubeletUnit::Reference(_)) => {
                self.next += 1;
                let detail = "a backslash comes right before a value that the kubelet inserts";
                self.unsupported(word, Reason::RuntimeVariable, detail, start);
            }
            None => {
                return Err(Unsupported::new(
                    Reason::SyntaxError,
                    "the script ends with a backslash",
                    self.span(start),
                ));
            }
        }
        Ok(())
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Unsupported> {
        let start = self.next;
        self.next += 1;
        word.pieces.push((Piece::Text(String::new(), Quoting::Quoted), self.span(start)));
        loop {
            match self.source.get(self.next) {
                Some(KubeletUnit::Char('\'')) => break,
                Some(seen) => self.take(word, seen, Quoting::Quoted),
                None => return Err(self.unclosed('\'', start)),
            }
        }
        self.next += 1;
        Ok(())
    }

    fn double(&mut self, word: &mut Word) -> Result<(), Unsupported> {
        let start = self.next;
        self.next += 1;
        word.pieces.push((Piece::Text(String::new(), Quoting::Quoted), self.span(start)));
        loop {
            match self.source.get(self.next) {
                Some(KubeletUnit::Char('"')) => break,
                Some(KubeletUnit::Char('$')) => self.dollar(word, Quoting::Quoted)?,
                Some(KubeletUnit::Char('`')) => self.backtick(word)?,
                Some(KubeletUnit::Char('\\')) => self.backslash_in_double(word, start)?,
                Some(seen) => self.take(word, seen, Quoting::Quoted),
                None => return Err(self.unclosed('"', start)),
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Between double quotes a backslash is itself, except before these five.
    fn backslash_in_double(&mut self, word: &mut Word, start: usize) -> Result<(), Unsupported> {
        match self.source.get(self.next + 1) {
            Some(KubeletUnit::Char('\n')) => self.next += 2,
            Some(seen @ KubeletUnit::Char('$' | '`' | '"' | '\\')) => {
                self.next += 1;
                self.take(word, seen, Quoting::Quoted);
            }
            Some(_) => self.take(word, KubeletUnit::Char('\\'), Quoting::Quoted),
            None => return Err(self.unclosed('"', start)),
        }
        Ok(())
    }

    fn unclosed(&self, quote: char, start: usize) -> Unsupported {
        let span = self.source.span(start, start + 1);
        Unsupported::new(Reason::SyntaxError, format!("this {quote} is never closed"), span)
    }
}

/// What begins with `$` or a backtick.
impl Lexer<'_> {
    fn dollar(&mut self, word: &mut Word, quoting: Quoting) -> Result<(), Unsupported> {
        let start = self.next;
        self.next += 1;
        match self.source.get(self.next) {
            Some(KubeletUnit::Char('\\')) if self.continues() => self.broken(word, start),
            Some(KubeletUnit::Char('{')) => return self.braced(word, quoting, start),
            Some(KubeletUnit::Char('(')) => return self.substitution(word, start),
            Some(KubeletUnit::Char(c)) if c.is_ascii_alphabetic() || c == '_' => self.variable(word, quoting, start),
            Some(KubeletUnit::Char('@')) => {
                self.next += 1;
                word.pieces.push((Piece::Arguments(quoting), self.span(start)));
            }
            Some(KubeletUnit::Char(c @ ('*' | '#' | '0'..='9'))) => {
                self.next += 1;
                self.unsupported(
                    word,
                    Reason::PositionalParameters,
                    format!("${c} is one of the script's arguments"),
                    start,
                );
            }
            Some(KubeletUnit::Char(c @ ('?' | '!' | '-' | '$'))) => {
                self.next += 1;
                self.unsupported(
                    word,
                    Reason::RuntimeVariable,
                    format!("${c} is known only to the running shell"),
                    start,
                );
            }
            Some(KubeletUnit::Char('\'' | '"')) if quoting == Quoting::Bare => {
                self.unsupported(word, Reason::Dialect, "shells treat a quote after `$` differently", start);
            }
            Some(KubeletUnit::Char('[')) => return self.old_arithmetic(word, start),
            Some(KubeletUnit::Reference(_)) => {
                let detail = "a `$` comes right before a value that the kubelet inserts";
                self.unsupported(word, Reason::RuntimeVariable, detail, start);
            }
            _ => word.push_text('$', quoting, self.span(start)),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.next += 1;
        }
        name
    }

    fn variable(&mut self, word: &mut Word, quoting: Quoting, start: usize) {
        let name = self.name();
        if matches!(self.source.get(self.next), Some(KubeletUnit::Reference(_))) {
            let detail = format!("the kubelet inserts a value right after ${name}, which changes the variable's name");
            self.unsupported(word, Reason::RuntimeVariable, detail, start);
        } else if self.continues() {
            self.broken(word, start);
        } else {
            word.pieces.push((Piece::Variable(name, quoting), self.span(start)));
        }
    }

    /// A line that goes on: the name may go on with it.
    fn continues(&self) -> bool {
        self.peek() == Some('\\') && self.source.char(self.next + 1) == Some('\n')
    }

    fn broken(&mut self, word: &mut Word, start: usize) {
        self.next += 2;
        self.unsupported(word, Reason::Dialect, "a variable's name is split across two lines", start);
    }

    /// After `${`.
    fn braced(&mut self, word: &mut Word, quoting: Quoting, start: usize) -> Result<(), Unsupported> {
        self.next += 1;
        let inside = self.next;
        let name = self.name();
        if self.peek() == Some('}') && !name.is_empty() {
            self.next += 1;
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                let detail = format!("${{{name}}} is one of the script's arguments");
                self.unsupported(word, Reason::PositionalParameters, detail, start);
            } else {
                word.pieces.push((Piece::Variable(name, quoting), self.span(start)));
            }
            return Ok(());
        }
        if self.peek() == Some('@') && self.source.char(self.next + 1) == Some('}') && name.is_empty() {
            self.next += 2;
            word.pieces.push((Piece::Arguments(quoting), self.span(start)));
            return Ok(());
        }
        self.next = inside;
        self.step_over('{', '}', start)?;
        self.unsupported(word, Reason::ParameterExpansion, "the shell computes the value of this expansion", start);
        Ok(())
    }

    /// At the bracket of `$(`.
    fn substitution(&mut self, word: &mut Word, start: usize) -> Result<(), Unsupported> {
        let is_arithmetic = self.source.char(self.next + 1) == Some('(');
        self.next += 1;
        self.step_over('(', ')', start)?;
        if is_arithmetic {
            self.unsupported(word, Reason::Arithmetic, "the shell computes this value", start);
        } else {
            self.unsupported(
                word,
                Reason::CommandSubstitution,
                "the shell runs a command here and uses its output",
                start,
            );
        }
        Ok(())
    }

    /// At the bracket of `$[`.
    fn old_arithmetic(&mut self, word: &mut Word, start: usize) -> Result<(), Unsupported> {
        self.next += 1;
        self.step_over('[', ']', start)?;
        self.unsupported(word, Reason::Arithmetic, "bash computes this value, other shells do not", start);
        Ok(())
    }

    fn backtick(&mut self, word: &mut Word) -> Result<(), Unsupported> {
        let start = self.next;
        self.next += 1;
        loop {
            match self.source.get(self.next) {
                Some(KubeletUnit::Char('`')) => break,
                Some(KubeletUnit::Char('\\')) => self.next += 2,
                Some(_) => self.next += 1,
                None => return Err(self.unclosed('`', start)),
            }
        }
        self.next += 1;
        self.unsupported(word, Reason::CommandSubstitution, "the shell runs a command here and uses its output", start);
        Ok(())
    }

    /// Past the bracket that closes the one just read. Quotes hide brackets; nothing else is understood.
    fn step_over(&mut self, open: char, close: char, start: usize) -> Result<(), Unsupported> {
        let mut depth = 1_usize;
        let mut quoting = Quoting::Bare;
        while depth > 0 {
            let Some(seen) = self.source.get(self.next) else { return Err(self.unclosed(open, start)) };
            self.next += 1;
            match seen {
                KubeletUnit::Char('\\') => self.next += 1,
                KubeletUnit::Char('"') => {
                    quoting = if quoting == Quoting::Bare { Quoting::Quoted } else { Quoting::Bare }
                }
                KubeletUnit::Char('\'') if quoting == Quoting::Bare => self.skip_past('\''),
                KubeletUnit::Char(c) if c == open => depth += 1,
                KubeletUnit::Char(c) if c == close => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_past(&mut self, quote: char) {
        while self.source.get(self.next).is_some_and(|seen| seen != KubeletUnit::Char(quote)) {
            self.next += 1;
        }
        self.next += 1;
    }
}
