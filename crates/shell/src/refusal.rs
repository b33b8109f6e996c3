//! Why a command cannot do without its shell: the reasons, their hints, and the line of the script
//! with a caret under the construct.
//!
//! The ids of the reasons are stable: they are in JSON and in `testdata/commands.jsonl`.

use oci::error::printable;

/// A range of bytes of the text a fault is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the beginning of this one to the end of `last`.
    #[must_use]
    pub const fn to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end }
    }
}

macro_rules! reasons {
    ($($name:ident $word:literal),* $(,)?) => {
        /// The construct that needs a shell, one case for each kind. `rules::Rule` explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $(#[doc = $word] $name),* }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

reasons! {
    Arithmetic "arithmetic",
    Assignment "assignment",
    BackgroundJob "background-job",
    BraceExpansion "brace-expansion",
    CommandSubstitution "command-substitution",
    Conditional "conditional",
    ControlCharacter "control-character",
    DeadArguments "dead-arguments",
    Dialect "dialect",
    ExtraFd "extra-fd",
    Function "function",
    Glob "glob",
    HereDocument "here-document",
    Incomplete "incomplete",
    InputRedirect "input-redirect",
    LogFlags "log-flags",
    Loop "loop",
    MultipleCommands "multiple-commands",
    NestedShell "nested-shell",
    NewlineSplitsCommand "newline-splits-command",
    NotText "not-text",
    ParameterExpansion "parameter-expansion",
    PartialRedirect "partial-redirect",
    Pipeline "pipeline",
    PositionalParameters "positional-parameters",
    ProbeVariable "probe-variable",
    ProcessSubstitution "process-substitution",
    RelativeDirectory "relative-directory",
    RuntimeVariable "runtime-variable",
    ShellBuiltin "shell-builtin",
    ShellOption "shell-option",
    Source "source",
    SpecialFile "special-file",
    StatusMasking "status-masking",
    Subshell "subshell",
    SyntaxError "syntax-error",
    TargetIsShellScript "target-is-shell-script",
    TildeExpansion "tilde-expansion",
    TooLong "too-long",
    Trap "trap",
    Ulimit "ulimit",
    Umask "umask",
    UnknownShell "unknown-shell",
    Unreachable "unreachable",
    UnrenderedTemplate "unrendered-template",
}

/// A reason at a place of the text that is being read. Becomes a [`Refusal`] with that text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported {
    pub reason: Reason,
    pub detail: String,
    pub span: Span,
}

impl Unsupported {
    pub fn new(reason: Reason, detail: impl Into<String>, span: Span) -> Self {
        Self { reason, detail: detail.into(), span }
    }

    /// About the words of the command rather than its script.
    pub fn of_words(reason: Reason, detail: impl Into<String>) -> Self {
        Self::new(reason, detail, Span::default())
    }

    /// In this text, which is word number `word` of the command.
    pub fn within(self, word: usize, text: &str) -> Refusal {
        let Self { reason, detail, span } = self;
        Refusal { reason, detail, word, span, text: text.to_owned() }
    }
}

/// A command that cannot be translated, and the construct that prevents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    /// One sentence about this command.
    pub detail: String,
    /// Which word of the command the construct is in; for a script file, the word that names it.
    pub word: usize,
    /// Where in `text` the construct is.
    pub span: Span,
    /// The script, or the word.
    pub text: String,
}

/// How much of a long line is shown before and after the construct.
const BEFORE: usize = 50;
const BEHIND: usize = 40;
const LONGEST_MARK: usize = 30;

/// Two lines: the text, and the mark. `None` where there is nothing to point at.
#[must_use]
pub fn caret(refusal: &Refusal) -> Option<[String; 2]> {
    let (text, span) = (refusal.text.as_str(), refusal.span);
    if span.end <= span.start {
        return None;
    }
    let before = text.get(..span.start)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let end = text.get(span.start..)?.find('\n').map_or(text.len(), |at| span.start + at);
    let front: Vec<char> = text.get(line..span.start)?.chars().collect();
    let marked = text.get(span.start..span.end.min(end))?;
    let rest: Vec<char> = text.get(span.start..end)?.chars().collect();
    let cut = front.len().saturating_sub(BEFORE);
    let front = shown(if cut > 0 { "..." } else { "" }, front.get(cut..)?);
    let kept = rest.get(..BEHIND.min(rest.len()))?;
    let tail = if kept.len() < rest.len() { "..." } else { "" };
    let width = printable(marked).chars().count().clamp(1, LONGEST_MARK);
    let mark = format!("{}{}", " ".repeat(front.chars().count()), "^".repeat(width));
    Some([format!("{front}{}{tail}", shown("", kept)), mark])
}

fn shown(start: &str, text: &[char]) -> String {
    format!("{start}{}", printable(&text.iter().collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_sorted_as_their_names_are() {
        let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        let mut sorted = words.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(words, sorted);
    }

    fn drawn(text: &str, start: usize, end: usize) -> Option<String> {
        let refusal = Refusal {
            reason: Reason::Glob,
            detail: String::new(),
            word: 0,
            span: Span::new(start, end),
            text: text.to_owned(),
        };
        caret(&refusal).map(|lines| lines.join("\n"))
    }

    #[test]
    fn the_mark_stands_under_the_construct() {
        for (text, start, end, expected) in [
            ("cp a* b", 4, 5, "cp a* b\n    ^"),
            ("x\ncp a* b\ny", 6, 7, "cp a* b\n    ^"),
            ("é | b", 3, 4, "é | b\n  ^"),
            ("a\tb|c", 3, 4, "a\\tb|c\n    ^"),
            ("a; b\nc", 3, 6, "a; b\n   ^"),
            ("a $(b)", 2, 6, "a $(b)\n  ^^^^"),
        ] {
            assert_eq!(drawn(text, start, end).as_deref(), Some(expected), "{text:?}");
        }
        let long = format!("{}|{}", "a".repeat(500), "b".repeat(500));
        let lines = drawn(&long, 500, 501).unwrap();
        assert!(lines.len() < 200 && lines.starts_with("...aaa") && lines.contains("b..."), "{lines}");
    }

    #[test]
    fn nothing_is_pointed_at_where_there_is_nothing() {
        assert_eq!(drawn("abc", 0, 0), None);
        assert_eq!(drawn("é", 1, 2), None);
        assert_eq!(drawn("a", 5, 9), None);
    }
}
