//! The words of a command to the shell that they start, its options, its script and its arguments.
//!
//! After `-c` only the first word is the script; the next is `$0` and the rest are `"$@"`.

use super::init;
use super::option::{self, Options, Switch};
use super::reason::{Fault, Reason, Refusal};

/// The language of a script. `sh` may be any of them, so it gets only what all read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Posix,
    Dash,
    Ash,
    Bash,
}

/// What comes before the program and stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lead {
    /// The init wrapper and its options.
    pub init: Vec<String>,
    /// `env NAME=VALUE` before the shell.
    pub environment: Vec<(String, String)>,
    /// How many words of the command these are.
    pub words: usize,
}

/// Where the script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptAt {
    /// This word of the command is the text.
    Word(usize),
    /// This word of the command names a file.
    File(usize),
}

/// A shell that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation<'a> {
    pub lead: Lead,
    pub dialect: Dialect,
    pub options: Options,
    /// An option that only matters if nothing else is wrong.
    pub objection: Option<Fault>,
    pub script: ScriptAt,
    /// `$0`, where it was given.
    pub zero: Option<&'a str>,
    pub arguments: &'a [String],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Started<'a> {
    /// No shell: the words are a program and its arguments.
    Program(Lead),
    Shell(Box<Invocation<'a>>),
}

/// What the runtime would start.
pub(super) fn read(argv: &[String]) -> Result<Started<'_>, Refusal> {
    let lead = init::read(argv)?;
    let words = argv.get(lead.words..).unwrap_or_default();
    let Some((dialect, taken)) = shell_of(words) else {
        return match words.first().map(|word| base_name(word)) {
            Some("ksh" | "mksh" | "zsh" | "fish" | "csh" | "tcsh" | "rbash" | "yash" | "hush" | "posh") => {
                let name = words.first().cloned().unwrap_or_default();
                let fault = Fault::of_words(Reason::UnknownShell, format!("{name} is a shell of another kind"));
                Err(fault.within(lead.words, &name))
            }
            _ => Ok(Started::Program(lead)),
        };
    };
    let first = lead.words + taken;
    invocation(lead, dialect, argv, first).map(|shell| Started::Shell(Box::new(shell)))
}

/// The shell that these words start, and how many of them name it.
pub(super) fn shell_of(words: &[String]) -> Option<(Dialect, usize)> {
    match (base_name(words.first()?), words.get(1).map(String::as_str)) {
        ("busybox", Some("sh" | "ash")) => Some((Dialect::Ash, 2)),
        ("sh", _) => Some((Dialect::Posix, 1)),
        ("dash", _) => Some((Dialect::Dash, 1)),
        ("ash", _) => Some((Dialect::Ash, 1)),
        ("bash", _) => Some((Dialect::Bash, 1)),
        _ => None,
    }
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn invocation(lead: Lead, dialect: Dialect, argv: &[String], first: usize) -> Result<Invocation<'_>, Refusal> {
    let words = argv.get(first..).unwrap_or_default();
    let mut options = Options::default();
    let mut is_command = false;
    let mut objection = None;
    let extra = |letter: char, switch: Switch| match (letter, switch) {
        ('c', Switch::On) => {
            is_command = true;
            Some(Ok(()))
        }
        // What the script does is worth more to know.
        ('i' | 'l', _) => {
            objection = Options::default().letter(letter, switch).err();
            Some(Ok(()))
        }
        _ => None,
    };
    let text = words.first().map_or("", String::as_str);
    let refuse = |(reason, detail): option::Objection| Fault::of_words(reason, detail).within(first, text);
    let read = option::read(words, dialect, &mut options, extra).map_err(refuse)?;
    let at = first + read;
    let rest = argv.get(at..).unwrap_or_default();
    let Some((_, rest)) = rest.split_first() else {
        let detail = if is_command { "-c without a script" } else { "the shell would read commands from stdin" };
        return Err(Fault::of_words(Reason::Incomplete, detail).within(at.saturating_sub(1), text));
    };
    let objection = objection.map(|(reason, detail)| Fault::of_words(reason, detail));
    let script = if is_command { ScriptAt::Word(at) } else { ScriptAt::File(at) };
    let (zero, arguments) = match (script, rest.split_first()) {
        (ScriptAt::Word(_), Some((zero, rest))) => (Some(zero.as_str()), rest),
        _ => (None, rest),
    };
    Ok(Invocation { lead, dialect, options, objection, script, zero, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_script_is_found_in_every_form() {
        for (text, dialect, script, zero, arguments) in [
            ("sh -c S", Dialect::Posix, 2, None, 0),
            ("/bin/sh -ec S", Dialect::Posix, 2, None, 0),
            ("sh -xec S", Dialect::Posix, 2, None, 0),
            ("/usr/local/bin/bash -euo pipefail -c S", Dialect::Bash, 4, None, 0),
            ("bash -ceuo pipefail S", Dialect::Bash, 3, None, 0),
            ("sh -e -c S", Dialect::Posix, 3, None, 0),
            ("bash -c -- S", Dialect::Bash, 3, None, 0),
            ("sh -c -e S", Dialect::Posix, 3, None, 0),
            ("dash -c S", Dialect::Dash, 2, None, 0),
            ("/bin/busybox sh -c S", Dialect::Ash, 3, None, 0),
            ("/busybox/sh -c S", Dialect::Posix, 2, None, 0),
            ("env sh -c S", Dialect::Posix, 3, None, 0),
            ("/usr/bin/env A=b C=d bash -c S", Dialect::Bash, 5, None, 0),
            ("/sbin/tini -- sh -c S", Dialect::Posix, 4, None, 0),
            ("tini -g -e 143 -- /bin/sh -c S", Dialect::Posix, 7, None, 0),
            ("dumb-init env dash -c S", Dialect::Dash, 4, None, 0),
            ("sh -c S zero a b", Dialect::Posix, 2, Some("zero"), 2),
            ("bash -c S --", Dialect::Bash, 2, Some("--"), 0),
        ] {
            let argv = words(text);
            let Ok(Started::Shell(shell)) = read(&argv) else { panic!("{text}") };
            assert_eq!((shell.dialect, shell.script), (dialect, ScriptAt::Word(script)), "{text}");
            assert_eq!((shell.zero, shell.arguments.len()), (zero, arguments), "{text}");
        }
        let argv = words("sh -e run.sh a b");
        let Ok(Started::Shell(shell)) = read(&argv) else { panic!() };
        assert_eq!((shell.script, shell.zero, shell.arguments.len()), (ScriptAt::File(2), None, 2));
    }

    #[test]
    fn programs_are_not_taken_for_shells() {
        for text in ["/app --sh", "tini -- /app", "env A=b /app", "busybox httpd -f", "/bin/shfmt -c x", "bashful -c x"]
        {
            assert!(matches!(read(&words(text)), Ok(Started::Program(_))), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_command_is_refused() {
        for (text, reason) in [
            ("sh", Reason::Incomplete),
            ("bash -c", Reason::Incomplete),
            ("bash -o pipefail -euc", Reason::Incomplete),
            ("sh -c -x", Reason::Incomplete),
            ("bash -c --", Reason::Incomplete),
            ("sh -nc S", Reason::ShellOption),
            ("sh -sc S", Reason::ShellOption),
            ("zsh -c S", Reason::UnknownShell),
            ("tini -z -- sh -c S", Reason::ShellOption),
            ("env -i sh -c S", Reason::ShellOption),
        ] {
            assert_eq!(read(&words(text)).unwrap_err().reason, reason, "{text}");
        }
    }

    #[test]
    fn login_and_interactive_shells_are_objected_to_at_the_end() {
        for (text, objects) in
            [("bash -lc S", true), ("bash -ic S", true), ("bash -i -c S", true), ("bash -ec S", false)]
        {
            let argv = words(text);
            let Ok(Started::Shell(shell)) = read(&argv) else { panic!("{text}") };
            assert_eq!(shell.objection.is_some(), objects, "{text}");
        }
    }
}
