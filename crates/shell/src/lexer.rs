//! A script to words, redirections and operators (POSIX.1-2024, XCU 2.3), without recursion.
//!
//! Nothing nested has an exec form, so a nested construct is marked as unsupported inside its word and is
//! stepped over; where stepping over goes wrong, only the reason for the refusal changes.

use super::interpreter::Dialect;
use super::kubelet::{ExpandedScript, KubeletUnit};
use super::refusal::{Reason, Span, Unsupported};
use super::word::{Piece, Quoting, Word};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Newline,
    Semicolon,
    And,
    Or,
    Pipe,
    /// `|&` of bash.
    PipeBoth,
    Background,
    Open,
    Close,
}

/// The operator of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectOperator {
    Out,
    Append,
    In,
    InOut,
    /// `>&`.
    Copy,
    /// `<&`.
    CopyIn,
    /// `&>` of bash.
    BothOut,
    /// `&>>` of bash.
    BothAppend,
    HereDocument,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    Operator(Operator, Span),
    /// The number in front, where there is one; the target is the next word.
    Redirect(Option<String>, RedirectOperator, Span),
}

pub(super) struct Lexer<'a> {
    pub(super) source: &'a ExpandedScript,
    dialect: Dialect,
    pub(super) next: usize,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("\n", Operator::Newline),
    ("&&", Operator::And),
    ("||", Operator::Or),
    ("|&", Operator::PipeBoth),
    (";", Operator::Semicolon),
    ("|", Operator::Pipe),
    ("&", Operator::Background),
    ("(", Operator::Open),
    (")", Operator::Close),
];

const REDIRECT_OPERATORS: &[(&str, RedirectOperator)] = &[
    ("&>>", RedirectOperator::BothAppend),
    ("&>", RedirectOperator::BothOut),
    ("<<", RedirectOperator::HereDocument),
    (">>", RedirectOperator::Append),
    (">|", RedirectOperator::Out),
    (">&", RedirectOperator::Copy),
    ("<&", RedirectOperator::CopyIn),
    ("<>", RedirectOperator::InOut),
    (">", RedirectOperator::Out),
    ("<", RedirectOperator::In),
];

impl<'a> Lexer<'a> {
    pub fn new(source: &'a ExpandedScript, dialect: Dialect) -> Self {
        Self { source, dialect, next: 0 }
    }

    /// The next token; `None` at the end.
    pub fn token(&mut self) -> Result<Option<Token>, Unsupported> {
        self.skip_blanks();
        let start = self.next;
        if self.source.get(start).is_none() {
            return Ok(None);
        }
        if let Some(operator) = self.redirect_operator() {
            return Ok(Some(Token::Redirect(None, operator, self.span(start))));
        }
        if let Some(operator) = self.operator() {
            return Ok(Some(Token::Operator(operator, self.span(start))));
        }
        let mut word = self.word()?;
        self.check_reference(&mut word, start);
        // A number counts as a descriptor only where the arrow follows at once.
        let number = word.bare().filter(|text| is_descriptor(text)).map(str::to_owned);
        if number.is_some()
            && matches!(self.source.char(self.next), Some('<' | '>'))
            && let Some(operator) = self.redirect_operator()
        {
            return Ok(Some(Token::Redirect(number, operator, self.span(start))));
        }
        Ok(Some(Token::Word(word)))
    }

    /// A value before an arrow may be a number, and then it is a descriptor.
    fn check_reference(&self, word: &mut Word, start: usize) {
        let is_number = |piece: &Piece| match piece {
            Piece::Text(text, quoting) => *quoting == Quoting::Bare && text.bytes().all(|byte| byte.is_ascii_digit()),
            piece => matches!(piece, Piece::Reference(_)),
        };
        let has_reference = word.pieces.iter().any(|(piece, _)| matches!(piece, Piece::Reference(_)));
        let before_arrow = matches!(self.peek(), Some('<' | '>'));
        if before_arrow && has_reference && word.pieces.iter().all(|(piece, _)| is_number(piece)) {
            let detail = "a value that the kubelet inserts comes right before a redirection";
            self.unsupported(word, Reason::RuntimeVariable, detail, start);
        }
    }

    pub(super) fn span(&self, start: usize) -> Span {
        self.source.span(start, self.next)
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.source.char(self.next)
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, c)| self.source.char(self.next + offset) == Some(c))
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.next += 1,
                Some('\\') if self.starts_with("\\\n") => self.next += 2,
                Some('#') => self.skip_comment(),
                _ => return,
            }
        }
    }

    /// To the end of the line, past what the kubelet put in; the newline still counts.
    fn skip_comment(&mut self) {
        while self.source.get(self.next).is_some_and(|seen| seen != KubeletUnit::Char('\n')) {
            self.next += 1;
        }
    }

    fn redirect_operator(&mut self) -> Option<RedirectOperator> {
        let found = REDIRECT_OPERATORS.iter().find(|(text, operator)| {
            let is_bash_only = matches!(operator, RedirectOperator::BothOut | RedirectOperator::BothAppend);
            self.starts_with(text) && (self.dialect == Dialect::Bash || !is_bash_only)
        });
        found.map(|(text, operator)| {
            self.next += text.len();
            *operator
        })
    }

    fn operator(&mut self) -> Option<Operator> {
        let found = OPERATORS.iter().find(|(text, operator)| {
            self.starts_with(text) && (self.dialect == Dialect::Bash || *operator != Operator::PipeBoth)
        });
        found.map(|(text, operator)| {
            self.next += text.len();
            *operator
        })
    }
}

/// A number, or bash's `{name}`.
fn is_descriptor(text: &str) -> bool {
    let braced = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    text.bytes().all(|byte| byte.is_ascii_digit()) || braced.is_some_and(super::word::is_name)
}

#[cfg(test)]
mod tests {
    use super::super::kubelet::{CommandContext, ImageContext};
    use super::*;

    /// Words in brackets, quoted text in `<>`, operators and arrows by name.
    fn show(text: &str, dialect: Dialect) -> String {
        let source = ExpandedScript::new(text, &CommandContext::Image(ImageContext::default())).unwrap();
        let mut lexer = Lexer::new(&source, dialect);
        let mut out = Vec::new();
        loop {
            match lexer.token() {
                Ok(None) => return out.join(" "),
                Ok(Some(Token::Word(word))) => {
                    out.push(word.pieces.iter().map(|(piece, _)| piece_text(piece)).collect());
                }
                Ok(Some(Token::Operator(operator, _))) => out.push(format!("{operator:?}")),
                Ok(Some(Token::Redirect(number, operator, _))) => {
                    out.push(format!("{}{operator:?}", number.unwrap_or_default()));
                }
                Err(fault) => return format!("{} at {}", fault.reason.word(), fault.span.start),
            }
        }
    }

    fn piece_text(piece: &Piece) -> String {
        match piece {
            Piece::Text(text, Quoting::Bare) => text.clone(),
            Piece::Text(text, Quoting::Quoted) => format!("<{text}>"),
            Piece::Wildcard(c) => format!("glob{c}"),
            Piece::Variable(name, quoting) => format!("var{name}{quoting:?}"),
            Piece::Reference(name) => format!("ref{name}"),
            Piece::Arguments(quoting) => format!("args{quoting:?}"),
            Piece::Unsupported(fault) => format!("!{}", fault.reason.word()),
        }
    }

    #[test]
    fn words_are_read_as_shells_read_them() {
        for (text, expected) in [
            ("a  b\tc", "a b c"),
            ("a\\\nb", "ab"),
            ("a \\\n b", "a b"),
            ("a # b\nc", "a Newline c"),
            ("a#b", "a#b"),
            (r"a\ b", "a< >b"),
            (r"'a b'c", "<a b>c"),
            (r#""a\b\$\"""#, r#"<a\b$">"#),
            ("\"a\\\nb\"", "<ab>"),
            ("''", "<>"),
            ("a'\"'b", "a<\">b"),
            ("$A ${A}b \"$A\"", "varABare varABareb <>varAQuoted"),
            ("$@ \"$@\" \"${@}\"", "argsBare <>argsQuoted <>argsQuoted"),
            (
                "$1 ${10} $# \"$*\"",
                "!positional-parameters !positional-parameters !positional-parameters <>!positional-parameters",
            ),
            ("$(a 'b)' $(c)) d", "!command-substitution d"),
            ("`a \\` b` c", "!command-substitution c"),
            ("$((1+2)) $[1]", "!arithmetic !arithmetic"),
            ("${A:-b} ${#A} ${A}", "!parameter-expansion !parameter-expansion varABare"),
            ("$? $$ $!", "!runtime-variable !runtime-variable !runtime-variable"),
            ("$'a' $\"a\"", "!dialect<a> !dialect<a>"),
            ("a$ $/ \"$\" \"$'\" $.", "a$ $/ <$> <$'> $."),
            ("a* [b] c?", "aglob* glob[b] cglob?"),
            ("[ a ] [[ x[", "[ a ] [[ x["),
            ("a\rb", "a!control-characterb"),
            ("'a\rb'", "<a\rb>"),
        ] {
            assert_eq!(show(text, Dialect::Bash), expected, "{text:?}");
        }
    }

    #[test]
    fn operators_and_arrows_are_those_of_the_dialect() {
        for (text, bash, dash) in [
            ("a&&b||c|d;e&f", "a And b Or c Pipe d Semicolon e Background f", ""),
            ("a 1>>f 2>&1", "a 1Append f 2Copy 1", ""),
            ("a1>f a 1 >f", "a1 Out f a 1 Out f", ""),
            ("a '1'>f \\1>f", "a <1> Out f <1> Out f", ""),
            ("a &>f", "a BothOut f", "a Background Out f"),
            ("a &>>f", "a BothAppend f", "a Background Append f"),
            ("a|&b", "a PipeBoth b", "a Pipe Background b"),
            ("a {x}>f", "a {x}Out f", ""),
            ("a <<E", "a HereDocument E", ""),
            ("a 3<>f >|g", "a 3InOut f Out g", ""),
            ("(a)", "Open a Close", ""),
        ] {
            assert_eq!(show(text, Dialect::Bash), bash, "{text}");
            assert_eq!(show(text, Dialect::Dash), if dash.is_empty() { bash } else { dash }, "{text}");
        }
    }

    #[test]
    fn what_is_not_closed_is_pointed_at() {
        for (text, expected) in [
            ("a 'b", "syntax-error at 2"),
            ("a \"b", "syntax-error at 2"),
            ("a \"b\\", "syntax-error at 2"),
            ("a $(b", "syntax-error at 2"),
            ("a `b", "syntax-error at 2"),
            ("a ${b", "syntax-error at 2"),
            ("a\\", "syntax-error at 1"),
        ] {
            assert_eq!(show(text, Dialect::Bash), expected, "{text}");
        }
    }
}
