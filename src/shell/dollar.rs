//! What begins with `$` or a backtick inside a word.

use super::lexer::Lexer;
use super::reason::{Fault, Reason};
use super::source::Seen;
use super::word::{Piece, Quoting, Word};

impl Lexer<'_> {
    pub(super) fn dollar(&mut self, word: &mut Word, quoting: Quoting) -> Result<(), Fault> {
        let start = self.next;
        self.next += 1;
        match self.source.get(self.next) {
            Some(Seen::Char('\\')) if self.continues() => self.broken(word, start),
            Some(Seen::Char('{')) => return self.braced(word, quoting, start),
            Some(Seen::Char('(')) => return self.substitution(word, start),
            Some(Seen::Char(c)) if c.is_ascii_alphabetic() || c == '_' => self.variable(word, quoting, start),
            Some(Seen::Char('@')) => {
                self.next += 1;
                word.pieces.push((Piece::Arguments(quoting), self.span(start)));
            }
            Some(Seen::Char(c @ ('*' | '#' | '0'..='9'))) => {
                self.next += 1;
                self.fault(word, Reason::PositionalParameters, format!("${c} is one of the script's arguments"), start);
            }
            Some(Seen::Char(c @ ('?' | '!' | '-' | '$'))) => {
                self.next += 1;
                self.fault(word, Reason::RuntimeVariable, format!("${c} is known only to the running shell"), start);
            }
            Some(Seen::Char('\'' | '"')) if quoting == Quoting::Bare => {
                self.fault(word, Reason::Dialect, "shells differ on a quote after `$`", start);
            }
            Some(Seen::Char('[')) => return self.old_arithmetic(word, start),
            Some(Seen::Reference(_)) => {
                let detail = "a `$` stands before a value that the kubelet puts in";
                self.fault(word, Reason::RuntimeVariable, detail, start);
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
        if matches!(self.source.get(self.next), Some(Seen::Reference(_))) {
            let detail = format!("the kubelet puts a value right behind ${name}, which makes another name of it");
            self.fault(word, Reason::RuntimeVariable, detail, start);
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
        self.fault(word, Reason::Dialect, "the name of a variable is broken by the end of a line", start);
    }

    /// After `${`.
    fn braced(&mut self, word: &mut Word, quoting: Quoting, start: usize) -> Result<(), Fault> {
        self.next += 1;
        let inside = self.next;
        let name = self.name();
        if self.peek() == Some('}') && !name.is_empty() {
            self.next += 1;
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                let detail = format!("${{{name}}} is one of the script's arguments");
                self.fault(word, Reason::PositionalParameters, detail, start);
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
        self.fault(word, Reason::ParameterExpansion, "the shell computes the value of this expansion", start);
        Ok(())
    }

    /// At the bracket of `$(`.
    fn substitution(&mut self, word: &mut Word, start: usize) -> Result<(), Fault> {
        let is_arithmetic = self.source.char(self.next + 1) == Some('(');
        self.next += 1;
        self.step_over('(', ')', start)?;
        if is_arithmetic {
            self.fault(word, Reason::Arithmetic, "the shell computes this value", start);
        } else {
            self.fault(word, Reason::CommandSubstitution, "the shell runs a command here and uses its output", start);
        }
        Ok(())
    }

    /// At the bracket of `$[`.
    fn old_arithmetic(&mut self, word: &mut Word, start: usize) -> Result<(), Fault> {
        self.next += 1;
        self.step_over('[', ']', start)?;
        self.fault(word, Reason::Arithmetic, "bash computes this value, other shells do not", start);
        Ok(())
    }

    pub(super) fn backtick(&mut self, word: &mut Word) -> Result<(), Fault> {
        let start = self.next;
        self.next += 1;
        loop {
            match self.source.get(self.next) {
                Some(Seen::Char('`')) => break,
                Some(Seen::Char('\\')) => self.next += 2,
                Some(_) => self.next += 1,
                None => return Err(self.unclosed('`', start)),
            }
        }
        self.next += 1;
        self.fault(word, Reason::CommandSubstitution, "the shell runs a command here and uses its output", start);
        Ok(())
    }

    /// Past the bracket that closes the one just read. Quotes hide brackets; nothing else is understood.
    fn step_over(&mut self, open: char, close: char, start: usize) -> Result<(), Fault> {
        let mut depth = 1_usize;
        let mut quoting = Quoting::Bare;
        while depth > 0 {
            let Some(seen) = self.source.get(self.next) else { return Err(self.unclosed(open, start)) };
            self.next += 1;
            match seen {
                Seen::Char('\\') => self.next += 1,
                Seen::Char('"') => quoting = if quoting == Quoting::Bare { Quoting::Quoted } else { Quoting::Bare },
                Seen::Char('\'') if quoting == Quoting::Bare => self.skip_past('\''),
                Seen::Char(c) if c == open => depth += 1,
                Seen::Char(c) if c == close => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_past(&mut self, quote: char) {
        while self.source.get(self.next).is_some_and(|seen| seen != Seen::Char(quote)) {
            self.next += 1;
        }
        self.next += 1;
    }
}
