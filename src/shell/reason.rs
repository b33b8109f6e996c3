//! Why a command cannot do without its shell.
//!
//! The words are stable: they stand in JSON and in `testdata/commands.jsonl`.

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
    ($($name:ident $word:literal $hint:literal),* $(,)?) => {
        /// What stands in the way, one case for each kind of construct.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason { $(#[doc = $hint] $name),* }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// What a person could do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint),* }
            }
        }
    };
}

reasons! {
    Arithmetic "arithmetic" "compute the value beforehand and write it in",
    Assignment "assignment" "write `export NAME=value`, or set the variable in the image or the manifest",
    BackgroundJob "background-job" "run one program per container; give the other one a container of its own",
    BraceExpansion "brace-expansion" "quote the braces, or write the words out",
    CommandSubstitution "command-substitution" "let the program find the value, or pass it in as a variable of the container",
    Conditional "conditional" "move the decision into the program or into an init container",
    ControlCharacter "control-character" "remove the character, or put it in quotes",
    DeadArguments "dead-arguments" "after -c only the first word is the script; remove the others, or write \"$@\" in it",
    Dialect "dialect" "write it in a way that every shell reads alike",
    ExtraFd "extra-fd" "open files in the program; only stdout and stderr can be redirected",
    Function "function" "move the function into the program",
    Glob "glob" "quote the character, or write the file names out",
    HereDocument "here-document" "put the text into a file of the image",
    Incomplete "incomplete" "give the whole command, with the script and a program in it",
    InputRedirect "input-redirect" "let the program open the file itself",
    LogFlags "log-flags" "remove the program's own log flags, or use --logs runner or --logs stdout",
    Loop "loop" "move the loop into the program or into an init container",
    MultipleCommands "multiple-commands" "keep one program; what comes before it belongs in the image or in an init container",
    NestedShell "nested-shell" "remove the outer shell, then translate the inner command",
    NewlineSplitsCommand "newline-splits-command" "end the line before it with a backslash, or fold the lines",
    NotText "not-text" "give the command as UTF-8 text",
    ParameterExpansion "parameter-expansion" "give the variable its final value outside the command",
    PartialRedirect "partial-redirect" "send stdout and stderr to one file: `>>FILE 2>&1`, in this order",
    Pipeline "pipeline" "only `| tee [-a] FILE` has an equivalent; filter where the log is read",
    PositionalParameters "positional-parameters" "write \"$@\" in quotes at the end of the command",
    ProbeVariable "probe-variable" "write the value in: in a probe the kubelet knows only literal values",
    ProcessSubstitution "process-substitution" "write the output to a file beforehand",
    RelativeDirectory "relative-directory" "write the folder as an absolute path without `..`",
    RuntimeVariable "runtime-variable" "let the program read the variable, or fix its value with --image-env NAME=VALUE, or declare it with --kube --env NAME",
    ShellBuiltin "shell-builtin" "start a program; a builtin of the shell is none",
    ShellOption "shell-option" "remove the option if the command does not need it",
    Source "source" "put the variables of the sourced file into the image or the manifest",
    SpecialFile "special-file" "write to a regular file, or to stdout",
    StatusMasking "status-masking" "drop it if the exit status of the program is wanted",
    Subshell "subshell" "write the commands without brackets",
    SyntaxError "syntax-error" "correct the command; a shell would not accept it either",
    TargetIsShellScript "target-is-shell-script" "give the script's text with --script FILE, or start the program that it starts",
    TildeExpansion "tilde-expansion" "write the folder out",
    TooLong "too-long" "start the program directly",
    Trap "trap" "handle the signal in the program",
    Ulimit "ulimit" "set the limit where the container is started",
    Umask "umask" "set file modes in the program",
    UnknownShell "unknown-shell" "only sh, dash, ash and bash are understood",
    Unreachable "unreachable" "remove what follows `exec`: it never runs",
    UnrenderedTemplate "unrendered-template" "render the template first and translate the result",
}

/// A reason at a place of the text that is being read. Becomes a [`Refusal`] with that text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub reason: Reason,
    pub detail: String,
    pub span: Span,
}

impl Fault {
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

/// A command that must stay as it is, and the construct that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    /// One sentence about this command.
    pub detail: String,
    /// Which word of the command the construct is in; for a script file, the word that names it.
    pub word: usize,
    /// Where in `text` the construct stands.
    pub span: Span,
    /// The script, or the word.
    pub text: String,
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

    #[test]
    fn every_reason_is_in_the_manual() {
        let manual = include_str!("../../docs/reports.md");
        for reason in Reason::ALL {
            let row = format!("| `{}` | {} |", reason.word(), reason.hint().replace('|', "\\|"));
            assert!(manual.contains(&row), "{row}");
        }
    }
}
