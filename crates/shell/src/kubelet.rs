//! What the kubelet does to a command before any shell starts, and what it knows of the variables.
//!
//! It expands `$(NAME)` and `$$`, even inside single quotes: in the command of a container from every
//! declared variable, in a probe from literal values only, in a hook from none. An image's command
//! is never expanded (k/k `third_party/forked/golang/expansion/expand.go`,
//! `ExpandContainerCommandAndArgs`, `ExpandContainerCommandOnlyStatic`).

use std::collections::{BTreeMap, BTreeSet};

use super::refusal::{Reason, Span, Unsupported};

/// What is known about the value of a variable that a container declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// `value:` in the manifest.
    Literal(String),
    /// One word without blanks or characters that a shell would act on: a `fieldRef` to a name or an address.
    OneWord,
    /// Anything: a secret, a config map.
    Unknown,
}

/// The variables of an image that may be written into its command.
pub type Frozen = BTreeMap<String, String>;

/// Where the command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandContext {
    /// The config of an image, or a command without anything around it.
    Image(ImageContext),
    /// `command` and `args` of a container. Of the image's own variables only `frozen` are known.
    Container { declared: BTreeMap<String, Declared>, frozen: Frozen, programs: Programs },
    /// An exec probe.
    Probe { declared: BTreeMap<String, Declared> },
    /// A lifecycle hook.
    Hook,
}

/// What is known where the command of an image is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageContext {
    pub frozen: Frozen,
    pub surroundings: Surroundings,
    pub status: ExitStatusUse,
}

/// The image around a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Surroundings {
    #[default]
    Unknown,
    /// The caller has the image: it looks up [`super::ExecCommand::globs`] in it, and the script that the
    /// command may start.
    Known {
        /// The directory that the command starts in.
        working_dir: String,
        /// The names of all variables that the image sets.
        variables: BTreeSet<String>,
    },
}

/// Whether the caller has the image of a container, and looks into it for the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Programs {
    /// A name has to tell whether it is a script.
    #[default]
    Unknown,
    LookedUp,
}

/// Who reads the exit status of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExitStatusUse {
    /// Anybody: it must stay the same.
    #[default]
    Exact,
    /// A health check or a probe: zero is healthy, and every other status is not. Docker calls 2 reserved, but
    /// compares with zero only (moby `daemon/health.go`), and so does the kubelet
    /// (k/k `pkg/probe/exec/exec.go`).
    ZeroOrNot,
}

/// Whether the kubelet replaces `$(NAME)` and `$$`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kubelet {
    Expands,
    Keeps,
}

impl CommandContext {
    pub(super) fn kubelet(&self) -> Kubelet {
        match self {
            Self::Image(_) | Self::Hook => Kubelet::Keeps,
            Self::Container { .. } | Self::Probe { .. } => Kubelet::Expands,
        }
    }

    pub(super) fn declared(&self, name: &str) -> Option<&Declared> {
        match self {
            Self::Container { declared, .. } | Self::Probe { declared } => declared.get(name),
            Self::Image(_) | Self::Hook => None,
        }
    }

    pub(super) fn frozen(&self, name: &str) -> Option<&str> {
        match self {
            Self::Image(image) => image.frozen.get(name).map(String::as_str),
            Self::Container { frozen, .. } => frozen.get(name).map(String::as_str),
            Self::Probe { .. } | Self::Hook => None,
        }
    }

    /// How much text the values hold that may be written in.
    pub(super) fn frozen_len(&self) -> usize {
        match self {
            Self::Image(ImageContext { frozen, .. }) | Self::Container { frozen, .. } => {
                frozen.values().map(String::len).sum()
            }
            Self::Probe { .. } | Self::Hook => 0,
        }
    }

    /// The variables that the shell is known to be started with.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        let (declared, frozen, others) = match self {
            Self::Image(ImageContext { frozen, surroundings, .. }) => (None, Some(frozen), surroundings.variables()),
            Self::Container { declared, frozen, .. } => (Some(declared), Some(frozen), None),
            Self::Probe { declared } => (Some(declared), None, None),
            Self::Hook => (None, None, None),
        };
        let declared = declared.into_iter().flat_map(BTreeMap::keys);
        let names = declared.chain(frozen.into_iter().flat_map(BTreeMap::keys)).chain(others.into_iter().flatten());
        names.map(String::as_str)
    }

    pub(super) fn status(&self) -> ExitStatusUse {
        match self {
            Self::Image(image) => image.status,
            Self::Probe { .. } => ExitStatusUse::ZeroOrNot,
            Self::Container { .. } | Self::Hook => ExitStatusUse::Exact,
        }
    }

    /// Whether the caller looks at the file that is started, whatever its name.
    pub(super) fn looks_up_programs(&self) -> bool {
        matches!(self, Self::Container { programs: Programs::LookedUp, .. }) || self.working_dir().is_some()
    }

    /// The directory that the shell is started in, where the image is at hand.
    pub(super) fn working_dir(&self) -> Option<&str> {
        match self {
            Self::Image(ImageContext { surroundings: Surroundings::Known { working_dir, .. }, .. }) => {
                Some(working_dir)
            }
            _ => None,
        }
    }

    /// The same after `cd` to this directory.
    pub(super) fn within(&self, directory: Option<&str>) -> Self {
        let mut inner = self.clone();
        if let (
            Self::Image(ImageContext { surroundings: Surroundings::Known { working_dir, .. }, .. }),
            Some(directory),
        ) = (&mut inner, directory)
        {
            directory.clone_into(working_dir);
        }
        inner
    }

    /// Whether `{{...}}` may be a template's placeholder: a manifest is often a template, an image never is.
    pub(super) fn may_be_template(&self) -> bool {
        !matches!(self, Self::Image(_))
    }
}

impl Surroundings {
    fn variables(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::Known { variables, .. } => Some(variables),
            Self::Unknown => None,
        }
    }
}

/// Whether a shell reads `value`, unquoted, as exactly this one word.
pub(super) fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c))
}

/// Longer scripts are not read. Linux takes no argument of more than 128 KiB.
pub(super) const LONGEST: usize = 256 << 10;

/// A word of `command` or `args`, or a variable's value, as the kubelet passes it on. What is known only when the pod
/// starts stays as it is written.
#[must_use]
pub fn expanded(text: &str, values: &BTreeMap<String, Option<String>>) -> String {
    let declared = values.keys().map(|name| (name.clone(), Declared::OneWord)).collect();
    let context = CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown };
    let Ok(script) = ExpandedScript::new(text, &context) else { return text.to_owned() };
    let show = |(unit, _): &(KubeletUnit, usize)| match unit {
        KubeletUnit::Char(c) => c.to_string(),
        KubeletUnit::Reference(number) => {
            let name = script.name(*number);
            values.get(&name).cloned().flatten().unwrap_or_else(|| format!("$({name})"))
        }
    };
    script.units.iter().map(show).collect()
}

/// One thing the shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KubeletUnit {
    Char(char),
    /// The value of a variable, put in by the kubelet: a plain word. The number is that of its name.
    Reference(usize),
}

/// The script in units, each with its place.
#[derive(Debug, Default)]
pub(super) struct ExpandedScript {
    units: Vec<(KubeletUnit, usize)>,
    names: Vec<String>,
    end: usize,
}

impl ExpandedScript {
    pub fn new(text: &str, context: &CommandContext) -> Result<Self, Unsupported> {
        if text.len() > LONGEST {
            return Err(Unsupported::of_words(Reason::TooLong, format!("the script is longer than {LONGEST} bytes")));
        }
        if let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control() && !"\n\t\r".contains(*c)) {
            let detail = format!("the script contains the character {}", found.escape_unicode());
            return Err(Unsupported::new(Reason::ControlCharacter, detail, Span::new(at, at + found.len_utf8())));
        }
        let mut source = Self { end: text.len(), ..Self::default() };
        match context.kubelet() {
            Kubelet::Keeps => source.keep(text, 0),
            Kubelet::Expands => source.expand(text, context)?,
        }
        Ok(source)
    }

    pub fn get(&self, index: usize) -> Option<KubeletUnit> {
        self.units.get(index).map(|(seen, _)| *seen)
    }

    pub fn char(&self, index: usize) -> Option<char> {
        match self.get(index) {
            Some(KubeletUnit::Char(c)) => Some(c),
            _ => None,
        }
    }

    pub fn name(&self, number: usize) -> String {
        self.names.get(number).cloned().unwrap_or_default()
    }

    /// The place of a unit in the text.
    pub fn at(&self, index: usize) -> usize {
        self.units.get(index).map_or(self.end, |(_, at)| *at)
    }

    pub fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.at(start), self.at(end))
    }

    fn keep(&mut self, text: &str, at: usize) {
        self.units.extend(text.char_indices().map(|(index, c)| (KubeletUnit::Char(c), at + index)));
    }

    fn expand(&mut self, text: &str, context: &CommandContext) -> Result<(), Unsupported> {
        let mut at = 0;
        // Looked up once: a search for each `$(` would read the script over and over.
        let last = text.rfind(')').unwrap_or(0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.find('$').unwrap_or(rest.len());
            let (before, dollar) = rest.split_at_checked(plain).unwrap_or((rest, ""));
            self.keep(before, at);
            at += plain + self.dollar(dollar, at + plain, last, context)?;
        }
        Ok(())
    }

    /// Reads what begins at a `$`, and returns its length in bytes.
    fn dollar(&mut self, text: &str, at: usize, last: usize, context: &CommandContext) -> Result<usize, Unsupported> {
        let mut chars = text.chars().skip(1);
        let taken = match chars.next() {
            None => text.len(),
            Some('$') => {
                self.keep("$", at);
                return Ok(2);
            }
            Some('(') => match (at < last).then(|| text.find(')')).flatten() {
                Some(close) => return self.reference(text.get(..=close).unwrap_or(text), at, context),
                None => 2,
            },
            Some(next) if next.is_ascii() => 2,
            Some(_) => {
                let detail = "the kubelet garbles a non-ASCII character after `$`";
                return Err(Unsupported::new(Reason::ControlCharacter, detail, Span::new(at, at + 1)));
            }
        };
        self.keep(text.get(..taken).unwrap_or(text), at);
        Ok(taken)
    }

    fn reference(&mut self, whole: &str, at: usize, context: &CommandContext) -> Result<usize, Unsupported> {
        let name = whole.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')).unwrap_or_default();
        let span = Span::new(at, at + whole.len());
        match context.declared(name) {
            // Unknown names stay: the shell will see a command substitution.
            None => self.keep(whole, at),
            Some(value) => {
                check_value(name, value, context, span)?;
                self.units.push((KubeletUnit::Reference(self.names.len()), at));
                self.names.push(name.to_owned());
            }
        }
        Ok(whole.len())
    }
}

/// The kubelet puts the value into the script's text, where it may become code.
fn check_value(name: &str, value: &Declared, context: &CommandContext, span: Span) -> Result<(), Unsupported> {
    match (value, context) {
        (Declared::Literal(value), _) if is_plain(value) => Ok(()),
        (Declared::OneWord, CommandContext::Container { .. }) => Ok(()),
        (Declared::OneWord | Declared::Unknown, CommandContext::Probe { .. }) => {
            let detail =
                format!("in a probe the kubelet expands $({name}) to nothing, because its value is not a literal");
            Err(Unsupported::new(Reason::ProbeVariable, detail, span))
        }
        _ => {
            let detail = format!(
                "the kubelet inserts the value of $({name}) into the script, where the shell would read it as code"
            );
            Err(Unsupported::new(Reason::RuntimeVariable, detail, span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(names: &[(&str, Declared)]) -> CommandContext {
        let declared = names.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown }
    }

    fn seen(source: &ExpandedScript) -> String {
        let show = |(seen, _): &(KubeletUnit, usize)| match seen {
            KubeletUnit::Char(c) => c.to_string(),
            KubeletUnit::Reference(number) => format!("<{}>", source.name(*number)),
        };
        source.units.iter().map(show).collect()
    }

    #[test]
    fn dollars_are_replaced_as_the_kubelet_does() {
        let context = container(&[("A", Declared::OneWord)]);
        for (text, expected) in [
            ("x", "x"),
            ("$(A)", "<A>"),
            ("'$(A)'", "'<A>'"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$<A>"),
            ("$$$/", "$$/"),
            ("$A ${A}", "$A ${A}"),
            ("$(A", "$(A"),
            ("a$", "a$"),
            ("$(B$$)$(A)", "$(B$$)<A>"),
            ("$x$(A)", "$x<A>"),
        ] {
            assert_eq!(seen(&ExpandedScript::new(text, &context).unwrap()), expected, "{text}");
        }
        let image = CommandContext::Image(ImageContext::default());
        assert_eq!(seen(&ExpandedScript::new("$$(A)", &image).unwrap()), "$$(A)");
    }

    #[test]
    fn words_get_the_values_that_are_known() {
        let values = [("A", Some("x y")), ("B", None), ("E", Some(""))];
        let values = values.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).into();
        for (text, expected) in [
            ("--a=$(A)", "--a=x y"),
            ("$(B)/$(A)", "$(B)/x y"),
            ("$(C)", "$(C)"),
            ("[$(E)]", "[]"),
            ("$$(A) $A $$", "$(A) $A $"),
            ("$é", "$é"),
        ] {
            assert_eq!(expanded(text, &values), expected, "{text}");
        }
    }

    #[test]
    fn places_are_those_of_the_written_text() {
        let source = ExpandedScript::new("é$$$(A)z", &container(&[("A", Declared::OneWord)])).unwrap();
        let places: Vec<usize> = source.units.iter().map(|(_, at)| *at).collect();
        assert_eq!(places, [0, 2, 4, 8]);
        assert_eq!(source.at(99), 9);
    }

    #[test]
    fn values_that_could_become_code_are_refused() {
        let literal = |value: &str| Declared::Literal(value.to_owned());
        for (value, fine) in [
            (literal("10.0.0.1"), true),
            (literal("a b"), false),
            (literal("$(B)"), false),
            (literal("a;b"), false),
            (literal(""), false),
            (Declared::OneWord, true),
            (Declared::Unknown, false),
        ] {
            let context = container(&[("A", value.clone())]);
            assert_eq!(ExpandedScript::new("app $(A)", &context).is_ok(), fine, "{value:?}");
            let probe = CommandContext::Probe { declared: [("A".to_owned(), value.clone())].into() };
            let literal = matches!(value, Declared::Literal(_));
            assert_eq!(ExpandedScript::new("app $(A)", &probe).is_ok(), fine && literal, "{value:?}");
        }
        let fault = ExpandedScript::new("$é", &container(&[])).unwrap_err();
        assert_eq!(fault.reason, Reason::ControlCharacter);
    }

    #[test]
    fn control_characters_and_long_scripts_are_refused() {
        let image = CommandContext::Image(ImageContext::default());
        for text in ["a\0b", "a\u{1b}b", "a\u{7f}", "a\u{85}"] {
            assert_eq!(ExpandedScript::new(text, &image).unwrap_err().reason, Reason::ControlCharacter, "{text:?}");
        }
        assert!(ExpandedScript::new("a\tb\r\n", &image).is_ok());
        assert!(ExpandedScript::new(&"a".repeat(LONGEST), &image).is_ok());
        assert_eq!(ExpandedScript::new(&"a".repeat(LONGEST + 1), &image).unwrap_err().reason, Reason::TooLong);
    }
}
