//! Words to values: the variables, wildcards and arguments that a command may use.
//!
//! A value is either known exactly or refused.

use super::builtin::is_shells_own;
use super::interpreter::Dialect;
use super::note::{Note, Notes};
use super::option::{Globbing, Options};
use super::place::{Declared, Kubelet, Place, is_plain};
use super::reason::{Fault, Reason, Span};
use super::value::{Bit, Value};
use super::variables::Variables;
use super::word::{Piece, Quoting, Word};

/// What the shell does to a word after its variables are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Splits it and matches file names.
    Argument,
    /// Takes it as it is: the value of an assignment.
    Assigned,
    /// The target of a redirection, where shells differ.
    Target,
}

/// Everything that decides what a word comes to.
pub(super) struct Scope<'a> {
    pub place: &'a Place,
    pub dialect: Dialect,
    pub options: Options,
    pub variables: Variables,
    pub arguments: &'a [String],
    pub notes: Notes,
}

impl Scope<'_> {
    pub fn note(&mut self, note: Note) {
        self.notes.add(note);
    }

    /// The words that one word of the script becomes: one, or the arguments for `"$@"`.
    pub fn arguments(&mut self, word: &Word) -> Result<Vec<Value>, Fault> {
        let Some(quoting) = sole_arguments(word) else { return Ok(vec![self.value(word, Use::Argument)?]) };
        if quoting == Quoting::Bare && !self.arguments.is_empty() {
            let detail = "$@ without quotes: the shell splits the arguments again";
            return Err(Fault::new(Reason::PositionalParameters, detail, word.span));
        }
        let wrap = |word: &String| match self.place.kubelet() {
            Kubelet::Expands => Value(vec![Bit::Raw(word.clone())]),
            Kubelet::Keeps => Value::text(word),
        };
        Ok(self.arguments.iter().map(wrap).collect())
    }

    /// The one value of a word.
    pub fn value(&mut self, word: &Word, usage: Use) -> Result<Value, Fault> {
        self.check_spelling(word)?;
        self.check_wildcards(word, usage)?;
        let mut value = Value::default();
        for (piece, span) in &word.pieces {
            match piece {
                Piece::Text(text, _) => value.0.push(Bit::Text(text.clone())),
                Piece::Wildcard(c) => value.0.push(Bit::Text(c.to_string())),
                Piece::Reference(name) => {
                    self.reference(name);
                    value.0.push(Bit::Reference(name.clone()));
                }
                Piece::Variable(name, quoting) => value.0.extend(self.variable(name, *quoting, usage, *span)?.0),
                Piece::Arguments(_) => {
                    let detail = "$@ must be a word of its own";
                    return Err(Fault::new(Reason::PositionalParameters, detail, *span));
                }
                Piece::Fault(fault) => return Err(fault.clone()),
            }
        }
        Ok(value)
    }

    fn reference(&mut self, name: &str) {
        if self.place.declared(name) == Some(&Declared::OneWord) {
            self.note(Note::OneWordAssumed(name.to_owned()));
        }
    }

    /// What shells do to unquoted characters before anything else.
    fn check_spelling(&self, word: &Word) -> Result<(), Fault> {
        let bare = word.bare_text();
        if bare.starts_with('~') || bare.contains("=~") || bare.contains(":~") {
            return Err(Fault::new(Reason::TildeExpansion, "the shell replaces ~ with a folder", word.span));
        }
        let may_expand = !matches!(self.dialect, Dialect::Dash | Dialect::Ash);
        let is_list = bare.contains('{') && bare.contains('}') && (bare.contains(',') || bare.contains(".."));
        if may_expand && is_list {
            return Err(Fault::new(Reason::BraceExpansion, "bash makes several words of the braces", word.span));
        }
        Ok(())
    }

    /// A wildcard stays only where it can match nothing: in a URL, or in the value of a flag.
    fn check_wildcards(&mut self, word: &Word, usage: Use) -> Result<(), Fault> {
        let first = word.pieces.iter().position(|(piece, _)| matches!(piece, Piece::Wildcard(_)));
        let Some((front, [(_, span), ..])) = first.and_then(|first| word.pieces.split_at_checked(first)) else {
            return Ok(());
        };
        if usage == Use::Assigned || (self.options.globbing == Globbing::Off && usage == Use::Argument) {
            return Ok(());
        }
        let texts = front.iter().map_while(|(piece, _)| match piece {
            Piece::Text(text, _) => Some(text.as_str()),
            _ => None,
        });
        let front: String = texts.collect();
        let is_flag = front.starts_with('-') && front.contains('=');
        if usage == Use::Argument && (is_flag || front.contains("://")) {
            self.note(Note::WildcardKept(front));
            return Ok(());
        }
        Err(Fault::new(Reason::Glob, "the shell replaces the word with the file names that match", *span))
    }

    fn variable(&mut self, name: &str, quoting: Quoting, usage: Use, span: Span) -> Result<Value, Fault> {
        let splits = quoting == Quoting::Bare && usage != Use::Assigned;
        if let Some(value) = self.variables.get(name) {
            if splits && !value.is_plain() {
                return Err(split(name, span));
            }
            return Ok(value.clone());
        }
        if is_shells_own(name) {
            let detail = format!("${name} is set by the shell itself");
            return Err(Fault::new(Reason::RuntimeVariable, detail, span));
        }
        match self.place.declared(name).cloned() {
            Some(declared) => self.declared(name, &declared, splits, span),
            None => self.frozen(name, splits, span),
        }
    }

    fn declared(&mut self, name: &str, declared: &Declared, splits: bool, span: Span) -> Result<Value, Fault> {
        if matches!(self.place, Place::Probe { .. }) && !matches!(declared, Declared::Literal(_)) {
            return Err(probe(name, span));
        }
        match declared {
            Declared::Literal(value) if splits && !is_plain(value) => return Err(split(name, span)),
            Declared::Unknown if splits => return Err(split(name, span)),
            Declared::OneWord if splits => self.note(Note::OneWordAssumed(name.to_owned())),
            _ => {}
        }
        Ok(Value(vec![Bit::Reference(name.to_owned())]))
    }

    fn frozen(&mut self, name: &str, splits: bool, span: Span) -> Result<Value, Fault> {
        let Some(value) = self.place.frozen(name) else {
            return Err(match self.place {
                Place::Probe { .. } => probe(name, span),
                Place::Container { .. } => unknown(&format!("${name} is not declared by the container"), span),
                Place::Image { .. } | Place::Hook => unknown(&format!("${name} is known only when it runs"), span),
            });
        };
        if splits && !is_plain(value) {
            return Err(split(name, span));
        }
        let value = Value::text(value);
        self.note(Note::Frozen(name.to_owned()));
        Ok(value)
    }
}

/// How `$@` is quoted, where it is all of the word. Empty quotes beside it would leave an empty word.
fn sole_arguments(word: &Word) -> Option<Quoting> {
    match word.pieces.as_slice() {
        [(Piece::Arguments(Quoting::Bare), _)] => Some(Quoting::Bare),
        // The first piece stands for the opening quote.
        [(Piece::Text(text, Quoting::Quoted), _), (Piece::Arguments(Quoting::Quoted), _)] if text.is_empty() => {
            Some(Quoting::Quoted)
        }
        _ => None,
    }
}

fn split(name: &str, span: Span) -> Fault {
    let detail = format!("${name} is not quoted: the shell splits its value and matches file names");
    Fault::new(Reason::RuntimeVariable, detail, span)
}

fn probe(name: &str, span: Span) -> Fault {
    let detail = format!("in a probe the kubelet knows only literal values, and ${name} has none");
    Fault::new(Reason::ProbeVariable, detail, span)
}

fn unknown(detail: &str, span: Span) -> Fault {
    Fault::new(Reason::RuntimeVariable, detail, span)
}
