//! The names that a shell takes for itself before it looks for a program.

use super::reason::Reason;

/// How the shell takes a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Starts or is part of a construct of the language.
    Keyword(Reason),
    /// Changes the process itself, so that nothing else stands for it.
    Act(Reason),
    /// A builtin that is also a program everywhere, by POSIX.
    AlsoProgram,
    /// A builtin only.
    Builtin,
}

/// What the shell makes of an unquoted first word; `None` for a program.
pub(super) fn taken(name: &str) -> Option<Taken> {
    Some(match name {
        "if" | "case" | "[[" => Taken::Keyword(Reason::Conditional),
        "for" | "while" | "until" | "select" => Taken::Keyword(Reason::Loop),
        "function" => Taken::Keyword(Reason::Function),
        "{" => Taken::Keyword(Reason::Subshell),
        "!" => Taken::Keyword(Reason::StatusMasking),
        "coproc" => Taken::Keyword(Reason::BackgroundJob),
        "time" => Taken::Keyword(Reason::Dialect),
        "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "in" | "}" | "]]" => {
            Taken::Keyword(Reason::SyntaxError)
        }
        "trap" => Taken::Act(Reason::Trap),
        "ulimit" => Taken::Act(Reason::Ulimit),
        "umask" => Taken::Act(Reason::Umask),
        "." | "source" => Taken::Act(Reason::Source),
        "true" | "false" | "echo" | "test" | "[" | "kill" | "printf" | "pwd" => Taken::AlsoProgram,
        _ if BUILTINS.contains(&name) => Taken::Builtin,
        _ => return None,
    })
}

/// Of dash, bash and busybox ash, without those named above and those that `outline` understands.
const BUILTINS: &[&str] = &[
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "suspend",
    "times",
    "type",
    "typeset",
    "unalias",
    "unset",
    "wait",
];

/// Whether the builtin and the program of this name do the same with these arguments.
pub(super) fn is_same_as_program(name: &str, arguments: &[String]) -> bool {
    // A reference to a variable could begin with a dash.
    let is_word = |word: &String| !word.starts_with(['-', '$']) && !word.contains('\\');
    match name {
        "true" | "false" => arguments.is_empty(),
        "echo" => arguments.iter().all(is_word),
        "test" => is_simple_test(arguments),
        "[" => arguments.split_last().is_some_and(|(last, rest)| last == "]" && is_simple_test(rest)),
        _ => false,
    }
}

/// The tests that POSIX defines for one and three arguments, without those on a shell's own state.
fn is_simple_test(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["-b" | "-c" | "-d" | "-e" | "-f" | "-g" | "-h" | "-L" | "-p" | "-S" | "-s" | "-u" | "-n" | "-z", _]
            | [_, "=" | "!=" | "-eq" | "-ne" | "-gt" | "-ge" | "-lt" | "-le", _]
    )
}

/// Variables that a shell sets, reads or protects itself: not for a command to set or to look up.
pub(super) fn is_shells_own(name: &str) -> bool {
    const OWN: &[&str] = &[
        "_",
        "CDPATH",
        "COMP_WORDS",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "HISTCMD",
        "IFS",
        "LINENO",
        "MAILCHECK",
        "OLDPWD",
        "OPTARG",
        "OPTERR",
        "OPTIND",
        "PIPESTATUS",
        "POSIXLY_CORRECT",
        "PPID",
        "PS1",
        "PS2",
        "PS4",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SHELLOPTS",
        "SHLVL",
        "SRANDOM",
        "UID",
        "GLOBIGNORE",
        "EXECIGNORE",
        "FIGNORE",
    ];
    OWN.contains(&name) || name.starts_with("BASH")
}
