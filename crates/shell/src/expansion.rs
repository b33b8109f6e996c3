//! Words to values: the variables, wildcards and arguments that a command may use, and the variables
//! that the script itself sets.
//!
//! A value is either known exactly before the container starts, or refused.

use std::collections::BTreeMap;

use super::builtins::is_shells_own;
use super::glob::{self, Glob, GlobUnit};
use super::interpreter::Dialect;
use super::kubelet::{CommandContext, Declared, Kubelet, is_plain};
use super::note::{Note, Notes};
use super::options::{Globbing, ShellOptions};
use super::refusal::{Reason, Span, Unsupported};
use super::word::{Piece, Quoting, Word};

/// What the shell does to a word after its variables are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordRole {
    /// Splits it and matches file names: an argument of the program.
    Argument,
    /// The same for an argument of a builtin or of `tee`, which must be one word.
    Single,
    /// Takes it as it is: the value of an assignment.
    Assigned,
    /// The target of a redirection, where shells differ.
    Target,
}

/// Everything that decides what a word expands to.
pub(super) struct Expander<'a> {
    pub context: &'a CommandContext,
    pub dialect: Dialect,
    pub options: ShellOptions,
    pub variables: Variables,
    pub arguments: &'a [String],
    pub notes: Notes,
    /// Words with wildcards that must match no file.
    pub globs: Vec<Glob>,
    /// How much more expansions may make.
    pub room: usize,
}

/// How much all expansions of a script may make, beside its arguments once. A few variables that double each other would make more than any
/// machine can hold; and a manifest may have thousands of such scripts.
pub(super) fn most_expanded(text: &str, arguments: &[String], context: &CommandContext) -> usize {
    // The kernel starts no program with more than 6 MiB of arguments and variables.
    const MOST: usize = 8 << 20;
    let given = text.len().saturating_add(context.frozen_len());
    let passed = arguments.iter().map(|word| word.len() + OF_PART).sum();
    given.saturating_mul(16).saturating_add(16 << 10).min(MOST).saturating_add(passed)
}

impl Expander<'_> {
    pub fn note(&mut self, note: Note) {
        self.notes.add(note);
    }

    /// The words that one word of the script becomes: one, or the arguments for `"$@"`.
    pub fn arguments(&mut self, word: &Word) -> Result<Vec<WordValue>, Unsupported> {
        let Some(quoting) = sole_arguments(word) else { return Ok(vec![self.value(word, WordRole::Argument)?]) };
        if quoting == Quoting::Bare && !self.arguments.is_empty() {
            let detail = "$@ is not quoted, so the shell splits the arguments again";
            return Err(Unsupported::new(Reason::PositionalParameters, detail, word.span));
        }
        let wrap = |word: &String| match self.context.kubelet() {
            Kubelet::Expands => WordValue(vec![ValuePart::Raw(word.clone())]),
            Kubelet::Keeps => WordValue::text(word),
        };
        let values: Vec<WordValue> = self.arguments.iter().map(wrap).collect();
        values.iter().try_for_each(|value| self.spend(value, word.span))?;
        Ok(values)
    }

    /// Counts what an expansion made.
    fn spend(&mut self, value: &WordValue, span: Span) -> Result<(), Unsupported> {
        let detail = "its variables expand to more than a program can be given";
        let left = self.room.checked_sub(value.cost());
        self.room = left.ok_or_else(|| Unsupported::new(Reason::TooLong, detail, span))?;
        Ok(())
    }

    /// The one value of a word.
    pub fn value(&mut self, word: &Word, usage: WordRole) -> Result<WordValue, Unsupported> {
        self.check_spelling(word)?;
        self.check_wildcards(word, usage)?;
        let mut value = WordValue::default();
        for (piece, span) in &word.pieces {
            match piece {
                Piece::Text(text, _) => value.0.push(ValuePart::Text(text.clone())),
                Piece::Wildcard(c) => value.0.push(ValuePart::Text(c.to_string())),
                Piece::Reference(name) => {
                    self.reference(name);
                    value.0.push(ValuePart::Reference(name.clone()));
                }
                Piece::Variable(name, quoting) => {
                    let expansion = self.variable(name, *quoting, usage, *span)?;
                    self.spend(&expansion, *span)?;
                    value.0.extend(expansion.0);
                }
                Piece::Arguments(_) => {
                    let detail = "$@ must be a word of its own";
                    return Err(Unsupported::new(Reason::PositionalParameters, detail, *span));
                }
                Piece::Unsupported(fault) => return Err(fault.clone()),
            }
        }
        Ok(value)
    }

    fn reference(&mut self, name: &str) {
        if self.context.declared(name) == Some(&Declared::OneWord) {
            self.note(Note::OneWordAssumed(name.to_owned()));
        }
    }

    /// What shells do to unquoted characters before anything else.
    fn check_spelling(&self, word: &Word) -> Result<(), Unsupported> {
        let bare = word.bare_text();
        if bare.starts_with('~') || bare.contains("=~") || bare.contains(":~") {
            return Err(Unsupported::new(
                Reason::TildeExpansion,
                "the shell replaces ~ with a home directory",
                word.span,
            ));
        }
        let may_expand = !matches!(self.dialect, Dialect::Dash | Dialect::Ash);
        let is_list = bare.contains('{') && bare.contains('}') && (bare.contains(',') || bare.contains(".."));
        if may_expand && is_list {
            return Err(Unsupported::new(
                Reason::BraceExpansion,
                "bash expands the braces to several words",
                word.span,
            ));
        }
        Ok(())
    }

    /// A wildcard stays only where it matches nothing. Where no image is at hand, that is in a URL and in the value of
    /// a flag; where one is, its files decide.
    fn check_wildcards(&mut self, word: &Word, usage: WordRole) -> Result<(), Unsupported> {
        let first = word.pieces.iter().position(|(piece, _)| matches!(piece, Piece::Wildcard(_)));
        let Some((front, [(_, span), ..])) = first.and_then(|first| word.pieces.split_at_checked(first)) else {
            return Ok(());
        };
        if usage == WordRole::Assigned || (self.options.globbing == Globbing::Off && usage != WordRole::Target) {
            return Ok(());
        }
        let texts = front.iter().map_while(|(piece, _)| match piece {
            Piece::Text(text, _) => Some(text.as_str()),
            _ => None,
        });
        let front: String = texts.collect();
        let is_flag = front.starts_with('-') && front.contains('=');
        let is_harmless = usage != WordRole::Target && (is_flag || front.contains("://"));
        let is_looked_up = usage == WordRole::Argument && self.context.working_dir().is_some();
        let glob = match is_looked_up.then(|| self.glob(word, *span)) {
            Some(Ok(glob)) => Some(glob),
            Some(Err(_)) | None if is_harmless => None,
            Some(Err(odd)) => return Err(odd),
            None => {
                let detail = "the shell replaces this word with the file names that match";
                return Err(Unsupported::new(Reason::Glob, detail, *span));
            }
        };
        self.note(match &glob {
            Some(glob) if !is_harmless => Note::WildcardUnmatched(glob.text.clone()),
            _ => Note::WildcardKept(front),
        });
        self.globs.extend(glob);
        Ok(())
    }

    /// The word as a pattern, with the values of its variables, none of which the shell acts on. Its first wildcard is
    /// at `first`.
    fn glob(&mut self, word: &Word, first: Span) -> Result<Glob, Unsupported> {
        let mut units = Vec::new();
        for (piece, span) in &word.pieces {
            match piece {
                Piece::Text(text, quoting) => units.extend(text.chars().map(|c| GlobUnit::Plain(c, *quoting))),
                Piece::Wildcard(c) => units.push(GlobUnit::Wildcard(*c)),
                Piece::Variable(name, quoting) => {
                    let value = self.variable(name, *quoting, WordRole::Argument, *span)?;
                    self.spend(&value, *span)?;
                    let text = value.literal().unwrap_or_default();
                    units.extend(text.chars().map(|c| GlobUnit::Plain(c, Quoting::Quoted)));
                }
                Piece::Unsupported(fault) => return Err(fault.clone()),
                Piece::Reference(_) | Piece::Arguments(_) => {
                    let detail = "what stands beside the wildcard is not known";
                    return Err(Unsupported::new(Reason::Glob, detail, *span));
                }
            }
        }
        glob::read(&units, first)
    }

    fn variable(
        &mut self,
        name: &str,
        quoting: Quoting,
        usage: WordRole,
        span: Span,
    ) -> Result<WordValue, Unsupported> {
        let splits = quoting == Quoting::Bare && usage != WordRole::Assigned;
        if let Some(value) = self.variables.get(name) {
            if splits && !value.is_plain() {
                return Err(split(name, span));
            }
            return Ok(value.clone());
        }
        if is_shells_own(name) {
            let detail = format!("${name} is set by the shell itself");
            return Err(Unsupported::new(Reason::RuntimeVariable, detail, span));
        }
        match self.context.declared(name).cloned() {
            Some(declared) => self.declared(name, &declared, splits, span),
            None => self.frozen(name, splits, span),
        }
    }

    fn declared(
        &mut self,
        name: &str,
        declared: &Declared,
        splits: bool,
        span: Span,
    ) -> Result<WordValue, Unsupported> {
        if matches!(self.context, CommandContext::Probe { .. }) && !matches!(declared, Declared::Literal(_)) {
            return Err(probe(name, span));
        }
        match declared {
            Declared::Literal(value) if splits && !is_plain(value) => return Err(split(name, span)),
            Declared::Unknown if splits => return Err(split(name, span)),
            Declared::OneWord if splits => self.note(Note::OneWordAssumed(name.to_owned())),
            _ => {}
        }
        Ok(WordValue(vec![ValuePart::Reference(name.to_owned())]))
    }

    fn frozen(&mut self, name: &str, splits: bool, span: Span) -> Result<WordValue, Unsupported> {
        let Some(value) = self.context.frozen(name) else {
            return Err(match self.context {
                CommandContext::Probe { .. } => probe(name, span),
                CommandContext::Container { .. } => unknown(&format!("the container does not declare ${name}"), span),
                CommandContext::Image(_) | CommandContext::Hook => {
                    unknown(&format!("the value of ${name} is known only at run time"), span)
                }
            });
        };
        if splits && !is_plain(value) {
            return Err(split(name, span));
        }
        let value = WordValue::text(value);
        self.note(Note::Frozen(name.to_owned()));
        Ok(value)
    }
}

/// How `$@` is quoted, where it is all of the word. Empty quotes beside it would leave an empty word.
fn sole_arguments(word: &Word) -> Option<Quoting> {
    match word.pieces.as_slice() {
        [(Piece::Arguments(Quoting::Bare), _)] => Some(Quoting::Bare),
        // The first piece is the opening quote.
        [(Piece::Text(text, Quoting::Quoted), _), (Piece::Arguments(Quoting::Quoted), _)] if text.is_empty() => {
            Some(Quoting::Quoted)
        }
        _ => None,
    }
}

fn split(name: &str, span: Span) -> Unsupported {
    let detail = format!("${name} is not quoted, so the shell splits its value and expands wildcards in it");
    Unsupported::new(Reason::RuntimeVariable, detail, span)
}

fn probe(name: &str, span: Span) -> Unsupported {
    let detail = format!("in a probe the kubelet knows only literal values, and ${name} does not have one");
    Unsupported::new(Reason::ProbeVariable, detail, span)
}

fn unknown(detail: &str, span: Span) -> Unsupported {
    Unsupported::new(Reason::RuntimeVariable, detail, span)
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValuePart {
    Text(String),
    /// A variable of the container, by name.
    Reference(String),
    /// A word of the manifest, passed on as it is written.
    Raw(String),
}

/// What a part takes in memory beside its text.
const OF_PART: usize = 48;

/// A value in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WordValue(pub Vec<ValuePart>);

impl WordValue {
    pub fn text(text: &str) -> Self {
        Self(vec![ValuePart::Text(text.to_owned())])
    }

    /// How much memory it takes.
    fn cost(&self) -> usize {
        let cost = |part: &ValuePart| match part {
            ValuePart::Text(text) | ValuePart::Reference(text) | ValuePart::Raw(text) => text.len() + OF_PART,
        };
        self.0.iter().map(cost).sum()
    }

    /// The text, where no variable is in it.
    pub fn literal(&self) -> Option<String> {
        let texts = self.0.iter().map(|bit| match bit {
            ValuePart::Text(text) => Some(text.as_str()),
            ValuePart::Reference(_) | ValuePart::Raw(_) => None,
        });
        texts.collect()
    }

    /// Whether a shell would keep it as one word if it were not quoted.
    pub fn is_plain(&self) -> bool {
        self.literal().is_some_and(|text| is_plain(&text))
    }

    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|bit| match bit {
            ValuePart::Reference(name) => Some(name.as_str()),
            ValuePart::Text(_) | ValuePart::Raw(_) => None,
        })
    }

    /// As it must be written so that the program gets this value.
    pub fn write(&self, kubelet: Kubelet) -> String {
        let mut out = String::new();
        let mut bits = self.0.iter().peekable();
        while let Some(bit) = bits.next() {
            match bit {
                ValuePart::Text(text) if kubelet == Kubelet::Keeps => out.push_str(text),
                ValuePart::Text(text) => escape(&mut out, text, bits.peek().is_some()),
                ValuePart::Reference(name) => out.extend(["$(", name, ")"]),
                ValuePart::Raw(word) => out.push_str(word),
            }
        }
        out
    }
}

/// Doubles a `$` wherever the kubelet would otherwise act on it.
fn escape(out: &mut String, text: &str, more: bool) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_read = match chars.peek() {
            Some(next) => matches!(next, '$' | '(') || !next.is_ascii(),
            None => more,
        };
        out.push(c);
        if c == '$' && is_read {
            out.push('$');
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssignmentReach {
    /// Known to the shell; in the program's environment only if it was there before.
    Shell,
    Program,
}

/// Set by the script, in the order of first mention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Variables {
    list: Vec<(String, WordValue, AssignmentReach, Span)>,
    places: BTreeMap<String, usize>,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&WordValue> {
        self.list.get(*self.places.get(name)?).map(|(_, value, ..)| value)
    }

    /// `NAME=value` as a command of its own.
    pub fn assign(&mut self, name: &str, value: WordValue, span: Span) -> Result<(), Unsupported> {
        self.set(name, value, AssignmentReach::Shell, span)
    }

    /// `export NAME=value`, or `NAME=value program`.
    pub fn export(&mut self, name: &str, value: WordValue, span: Span) -> Result<(), Unsupported> {
        self.set(name, value, AssignmentReach::Program, span)
    }

    /// `export NAME`: nothing to do where the script has not set it.
    pub fn publish(&mut self, name: &str) {
        if let Some((.., reach, _)) = self.places.get(name).and_then(|place| self.list.get_mut(*place)) {
            *reach = AssignmentReach::Program;
        }
    }

    fn set(&mut self, name: &str, value: WordValue, reach: AssignmentReach, span: Span) -> Result<(), Unsupported> {
        if is_shells_own(name) {
            let detail = format!("{name} is a variable that the shell itself uses");
            return Err(Unsupported::new(Reason::Assignment, detail, span));
        }
        if let Some(known) = self.places.get(name).and_then(|place| self.list.get_mut(*place)) {
            known.1 = value;
            // Once exported, always exported.
            if reach == AssignmentReach::Program {
                known.2 = reach;
            }
        } else {
            self.places.insert(name.to_owned(), self.list.len());
            self.list.push((name.to_owned(), value, reach, span));
        }
        Ok(())
    }

    /// What the program gets. Whether it gets a variable that was not exported depends on whether
    /// the container has one of this name.
    pub fn environment(self) -> Result<Vec<(String, WordValue)>, Unsupported> {
        let exported = |(name, value, reach, span): (String, WordValue, AssignmentReach, Span)| match reach {
            AssignmentReach::Program => Ok((name, value)),
            AssignmentReach::Shell => {
                let detail =
                    format!("{name} is set but not exported: the program gets it only if the container already has it");
                Err(Unsupported::new(Reason::Assignment, detail, span))
            }
        };
        self.list.into_iter().map(exported).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_survive_the_kubelet() {
        for (text, expected) in [
            ("a", "a"),
            ("$", "$"),
            ("s/$/x/", "s/$/x/"),
            ("$(A)", "$$(A)"),
            ("$$", "$$$"),
            ("$$(A)", "$$$$(A)"),
            ("$é", "$$é"),
        ] {
            assert_eq!(WordValue::text(text).write(Kubelet::Expands), expected);
            assert_eq!(WordValue::text(text).write(Kubelet::Keeps), text);
        }
        let mixed = WordValue(vec![
            ValuePart::Text("a$".into()),
            ValuePart::Reference("N".into()),
            ValuePart::Text("$".into()),
        ]);
        assert_eq!(mixed.write(Kubelet::Expands), "a$$$(N)$");
    }
}
