//! The words of a script, in pieces that remember whether they were quoted.

use super::reason::{Fault, Span};

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
    Fault(Fault),
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

    /// What of the word the shell may still act on; quoted characters stand as a blank.
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
