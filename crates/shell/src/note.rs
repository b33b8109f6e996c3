//! What a translation changes or assumes, in words that a person can check.

use std::collections::BTreeSet;

/// A note on a translation. None of them is a guess about what runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// The shell was between the runtime and the program.
    BecomesFirstProcess,
    /// `$NAME` became the value that it has in the image.
    Frozen(String),
    /// `$NAME` was not quoted.
    OneWordAssumed(String),
    /// A variable set by the command refers to another one of the container.
    EnvironmentOrder(String),
    /// A wildcard that can match nothing.
    WildcardKept(String),
    /// A wildcard that matches no file of the image.
    WildcardUnmatched(String),
    TraceDropped,
    PipefailAssumed,
    /// stderr went into stdout, or the other way round.
    MergeDropped,
    InputFromNothing,
    /// The exit status was that of `tee`.
    StatusOfTee,
    DirectoryMustExist(String),
    /// Words given after the command reach the program now; the shell ignored them.
    ArgumentsReachProgram,
    /// The program's name suggests that it is a script.
    LooksLikeScript(String),
    /// A builtin was run, and there is a program of this name.
    BuiltinBecomesProgram(String),
    /// The file was truncated at every start.
    Appends,
    /// How the program spells its flags was not looked up.
    SpellingAssumed,
    /// What klog cannot catch.
    KlogOnly,
    /// What klog writes late.
    KlogBuffers,
    /// What klog writes to stderr as well.
    KlogErrorsTwice,
    RunnerLimits,
    LogToContainer(String),
}

/// Notes in the order in which they came up, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    list: Vec<Note>,
    seen: BTreeSet<Note>,
}

impl Notes {
    pub fn add(&mut self, note: Note) {
        if self.seen.insert(note.clone()) {
            self.list.push(note);
        }
    }

    pub fn take(self) -> Vec<Note> {
        self.list
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BecomesFirstProcess => {
                f.write_str("the program runs as PID 1 and gets signals itself, without a shell in between")
            }
            Self::Frozen(name) => {
                write!(f, "${name} is fixed to its value in the image; setting it at run time has no effect")
            }
            Self::OneWordAssumed(name) => write!(f, "${name} was not quoted; its value is assumed to be a single word"),
            Self::EnvironmentOrder(name) => {
                write!(f, "{name} refers to variables that must come before it in the list")
            }
            Self::WildcardKept(word) => {
                write!(f, "the wildcard in {word} cannot match a file name and is kept as it is")
            }
            Self::WildcardUnmatched(word) => {
                write!(
                    f,
                    "the wildcard in {word} matches no file of the image and is kept as it is; a shell would have replaced it if a file that matches were mounted"
                )
            }
            Self::TraceDropped => f.write_str("the shell no longer prints the command before it runs"),
            Self::PipefailAssumed => f.write_str("sh is assumed to support pipefail; old versions of dash do not"),
            Self::MergeDropped => f.write_str("stdout and stderr reach the container's log as two separate streams"),
            Self::InputFromNothing => f.write_str("stdin is no longer /dev/null if the container is given one"),
            Self::StatusOfTee => f.write_str("the exit status is now that of the program, not that of tee"),
            Self::DirectoryMustExist(directory) => write!(f, "{directory} must exist when the container starts"),
            Self::ArgumentsReachProgram => {
                f.write_str("arguments given to the container now reach the program; the shell ignored them")
            }
            Self::LooksLikeScript(name) => write!(f, "{name} looks like a shell script, which needs a shell"),
            Self::BuiltinBecomesProgram(name) => {
                write!(f, "{name} was a shell builtin; now the image needs a program of that name")
            }
            Self::Appends => f.write_str("the log file was truncated at every start; now it is appended to"),
            Self::SpellingAssumed => {
                f.write_str("flags are assumed to be spelled with dashes; no program was examined")
            }
            Self::KlogOnly => {
                f.write_str("only klog's lines reach the file; panics and plain prints go to the container's log")
            }
            Self::KlogBuffers => {
                f.write_str("klog writes to the file every 5 seconds; if the program crashes, its last lines are lost")
            }
            Self::KlogErrorsTwice => {
                f.write_str("klog's errors go to the container's log as well; pass --stderrthreshold to change that")
            }
            Self::RunnerLimits => f.write_str(
                "the runner turns any failure into exit status 1, passes no stdin, and prints the command line",
            ),
            Self::LogToContainer(path) if path == "/dev/null" => {
                f.write_str("output that was discarded now reaches the container's log")
            }
            Self::LogToContainer(path) => write!(f, "output that went to {path} now goes to the container's log"),
        }
    }
}
