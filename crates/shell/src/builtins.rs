//! The names that a shell takes for itself before it looks for a program, and what the few builtins
//! do that may come before the program: `set`, `export`, `cd`, and `exec` with redirections only.

use super::expansion::{Expander, WordRole};
use super::kubelet::CommandContext;
use super::note::Note;
use super::options;
use super::parser::SimpleCommand;
use super::redirect::Streams;
use super::refusal::{Reason, Span, Unsupported};
use super::word::{Word, is_name};

/// How the shell takes a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    /// Starts or is part of a construct of the language.
    Keyword(Reason),
    /// Changes the shell process itself, which no other program can do.
    ActsOnShell(Reason),
    /// A builtin that is also a program everywhere, by POSIX.
    AlsoProgram,
    /// A builtin only.
    Builtin,
}

/// What the shell makes of an unquoted first word; `None` for a program.
pub(super) fn reserved(name: &str) -> Option<Reserved> {
    Some(match name {
        "if" | "case" | "[[" => Reserved::Keyword(Reason::Conditional),
        "for" | "while" | "until" | "select" => Reserved::Keyword(Reason::Loop),
        "function" => Reserved::Keyword(Reason::Function),
        "{" => Reserved::Keyword(Reason::Subshell),
        "!" => Reserved::Keyword(Reason::StatusMasking),
        "coproc" => Reserved::Keyword(Reason::BackgroundJob),
        "time" => Reserved::Keyword(Reason::Dialect),
        "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "in" | "}" | "]]" => {
            Reserved::Keyword(Reason::SyntaxError)
        }
        "trap" => Reserved::ActsOnShell(Reason::Trap),
        "ulimit" => Reserved::ActsOnShell(Reason::Ulimit),
        "umask" => Reserved::ActsOnShell(Reason::Umask),
        "." | "source" => Reserved::ActsOnShell(Reason::Source),
        "true" | "false" | "echo" | "test" | "[" | "kill" | "printf" | "pwd" => Reserved::AlsoProgram,
        _ if BUILTINS.contains(&name) => Reserved::Builtin,
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

/// Applies what the command does to the shell: options and variables, working directory, redirections.
pub(super) fn run(
    command: &SimpleCommand,
    expander: &mut Expander<'_>,
    directory: &mut WorkingDir,
    streams: &mut Streams,
) -> Result<(), Unsupported> {
    let Some((name, words)) = command.words.split_first() else {
        for (name, word) in &command.assignments {
            let value = expander.value(word, WordRole::Assigned)?;
            expander.variables.assign(name, value, word.span)?;
        }
        return no_redirects(command);
    };
    if let Some((_, word)) = command.assignments.first() {
        return Err(Unsupported::new(Reason::Assignment, "a variable is set for a shell builtin", word.span));
    }
    match name.bare() {
        Some("exec") => return streams.apply(&command.redirects, expander),
        Some("export") if words.is_empty() => {
            return Err(Unsupported::new(
                Reason::ShellBuiltin,
                "`export` without arguments prints the variables",
                command.span,
            ));
        }
        Some("export") => export(words, expander)?,
        Some("cd") if streams.names_relative_file() => {
            let detail = "a file was opened by a relative path before `cd`";
            return Err(Unsupported::new(Reason::RelativeDirectory, detail, command.span));
        }
        Some("cd") => {
            *directory = WorkingDir::Changed(change_directory(words, expander, directory.path(), command.span)?);
        }
        _ => set(words, expander, command.span)?,
    }
    no_redirects(command)
}

fn no_redirects(command: &SimpleCommand) -> Result<(), Unsupported> {
    match command.redirects.first() {
        None => Ok(()),
        Some(redirect) => {
            let detail = "the output of a command that runs before the program is redirected";
            Err(Unsupported::new(Reason::PartialRedirect, detail, redirect.span))
        }
    }
}

/// Every shell expands all words of the command before it sets the first variable: in
/// `export A=1 B=$A`, B gets what A was before.
fn export(words: &[Word], expander: &mut Expander<'_>) -> Result<(), Unsupported> {
    let mut assigned = Vec::new();
    for word in words {
        if let Some((name, value)) = word.assignment() {
            // Old shells split the value here.
            assigned.push((name, expander.value(&value, WordRole::Single)?, word.span));
        }
    }
    for (name, value, span) in assigned {
        expander.variables.export(&name, value, span)?;
    }
    for word in words.iter().filter(|word| word.assignment().is_none()) {
        if let Some(name) = word.bare().filter(|name| is_name(name)) {
            expander.variables.publish(name);
        } else {
            let detail = "only NAME=value and NAME can be exported";
            return Err(Unsupported::new(Reason::Assignment, detail, word.span));
        }
    }
    Ok(())
}

fn set(words: &[Word], expander: &mut Expander<'_>, span: Span) -> Result<(), Unsupported> {
    let texts: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    let texts = texts.ok_or_else(|| Unsupported::new(Reason::ShellOption, "an option comes from a variable", span))?;
    let refuse = |(reason, detail): options::Objection| Unsupported::new(reason, detail, span);
    let read = options::read(&texts, expander.dialect, &mut expander.options, |_, _| None).map_err(refuse)?;
    let is_list = read < texts.len() || texts.iter().any(|text| text == "--");
    match texts.is_empty() {
        true => Err(Unsupported::new(Reason::ShellBuiltin, "`set` without arguments prints the variables", span)),
        false if is_list => {
            Err(Unsupported::new(Reason::PositionalParameters, "`set` changes the script's arguments", span))
        }
        false => Ok(()),
    }
}

fn change_directory(
    words: &[Word],
    expander: &mut Expander<'_>,
    from: Option<&str>,
    span: Span,
) -> Result<String, Unsupported> {
    let relative = |detail: &str| Unsupported::new(Reason::RelativeDirectory, detail, span);
    let [word] = words else { return Err(relative("`cd` is not given exactly one directory")) };
    let value = expander.value(word, WordRole::Single)?;
    let unknown =
        || Unsupported::new(Reason::RuntimeVariable, "the working directory cannot contain a variable", word.span);
    let directory = value.literal().ok_or_else(unknown)?;
    if directory.split('/').any(|part| part == "..") {
        return Err(relative("the shell and the kernel may resolve `..` differently"));
    }
    if directory.is_empty() || directory.starts_with('-') {
        return Err(relative("shells treat this argument of `cd` differently"));
    }
    if directory.starts_with('/') {
        expander.note(Note::DirectoryMustExist(directory.clone()));
        return bounded(directory, span);
    }
    let own = directory.strip_prefix("./").or_else(|| directory.strip_prefix('.').filter(|rest| rest.is_empty()));
    if own.is_none() && expander.context.variables().any(|name| name == "CDPATH") {
        return Err(relative("CDPATH is set, so `cd` searches other directories first"));
    }
    let from = from.ok_or_else(|| relative("a relative directory depends on where the container starts"))?;
    bounded(join(from, own.unwrap_or(&directory).trim_start_matches('/')), span)
}

/// No system takes a longer path.
fn bounded(directory: String, span: Span) -> Result<String, Unsupported> {
    const LONGEST: usize = 4096;
    if directory.len() > LONGEST {
        let detail = format!("the working directory is longer than {LONGEST} bytes");
        return Err(Unsupported::new(Reason::TooLong, detail, span));
    }
    Ok(directory)
}

fn join(directory: &str, name: &str) -> String {
    match name {
        "" => directory.to_owned(),
        _ => format!("{}/{name}", directory.trim_end_matches('/')),
    }
}

/// Where the shell is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkingDir {
    /// Where it was started; known only if the image is.
    Start(Option<String>),
    Changed(String),
}

impl WorkingDir {
    pub fn started_in(context: &CommandContext) -> Self {
        Self::Start(context.working_dir().map(str::to_owned))
    }

    fn path(&self) -> Option<&str> {
        match self {
            Self::Start(path) => path.as_deref(),
            Self::Changed(path) => Some(path),
        }
    }

    /// Where `cd` led, if there was any.
    pub fn changed(self) -> Option<String> {
        match self {
            Self::Start(_) => None,
            Self::Changed(path) => Some(path),
        }
    }
}
