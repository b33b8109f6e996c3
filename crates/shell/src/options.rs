//! The options of a shell, on its command line and in `set`.
//!
//! Only options that change nothing about a single command are accepted; the others are refused.

use super::interpreter::Dialect;
use super::note::Note;
use super::refusal::Reason;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Globbing {
    #[default]
    On,
    Off,
}

/// Whether an option is switched on (`-x`) or off (`+x`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
}

/// What the options so far amount to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellOptions {
    pub globbing: Globbing,
    pub notes: Vec<Note>,
}

/// Why an option cannot be left out.
pub(super) type Objection = (Reason, String);

impl ShellOptions {
    /// One letter.
    pub fn letter(&mut self, letter: char, switch: Switch) -> Result<(), Objection> {
        let name = match letter {
            'e' => "errexit",
            'u' => "nounset",
            'x' => "xtrace",
            'v' => "verbose",
            'f' => "noglob",
            'h' => "hashall",
            'i' => return Err(objection("-i makes the shell interactive: it reads startup files and handles signals")),
            'l' => {
                return Err(objection("-l makes it a login shell, whose profile may change PATH and other variables"));
            }
            'n' => return Err(objection("-n reads the script without running it")),
            's' => return Err(objection("-s reads commands from stdin")),
            _ => return Err(objection(&format!("the option -{letter} may change how the command runs"))),
        };
        self.name(name, switch, Dialect::Bash)
    }

    /// The name after `-o`.
    pub fn name(&mut self, name: &str, switch: Switch, dialect: Dialect) -> Result<(), Objection> {
        match name {
            "errexit" | "nounset" | "hashall" => {}
            "pipefail" => match dialect {
                Dialect::Dash => return Err(objection("dash does not support pipefail and stops here")),
                Dialect::Posix => self.note(Note::PipefailAssumed),
                Dialect::Ash | Dialect::Bash => {}
            },
            "xtrace" | "verbose" => self.note(Note::TraceDropped),
            "noglob" => self.globbing = if switch == Switch::On { Globbing::Off } else { Globbing::On },
            _ => return Err(objection(&format!("the option {name} may change how the command runs"))),
        }
        Ok(())
    }

    fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn objection(detail: &str) -> Objection {
    (Reason::ShellOption, detail.to_owned())
}

/// Reads words like `-eu`, `-o pipefail`, `+x` up to the first that is none. `extra` gets the
/// letters first, and tells whether it handled one. Returns the number of words read.
pub(super) fn read<S: AsRef<str>>(
    words: &[S],
    dialect: Dialect,
    options: &mut ShellOptions,
    mut extra: impl FnMut(char, Switch) -> Option<Result<(), Objection>>,
) -> Result<usize, Objection> {
    let mut next = 0;
    while let Some(word) = words.get(next).map(AsRef::as_ref) {
        let (switch, letters) = match word.split_at_checked(1) {
            Some(("-", "-")) => return Ok(next + 1),
            Some(("-", letters)) if !letters.is_empty() => (Switch::On, letters),
            Some(("+", letters)) if !letters.is_empty() => (Switch::Off, letters),
            _ => break,
        };
        next += 1;
        if matches!(letters, "-norc" | "-noprofile") && dialect == Dialect::Bash {
            continue;
        }
        for letter in letters.chars() {
            if letter == 'o' {
                let name = words.get(next).ok_or_else(|| (Reason::Incomplete, "-o without a name".to_owned()))?;
                next += 1;
                options.name(name.as_ref(), switch, dialect)?;
            } else if let Some(own) = extra(letter, switch) {
                own?;
            } else {
                options.letter(letter, switch)?;
            }
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, dialect: Dialect) -> Result<usize, Reason> {
        let words: Vec<&str> = text.split(' ').collect();
        read(&words, dialect, &mut ShellOptions::default(), |_, _| None).map_err(|(reason, _)| reason)
    }

    #[test]
    fn only_options_that_change_nothing_pass() {
        for (text, dialect, expected) in [
            ("-e", Dialect::Posix, Ok(1)),
            ("-eux +x a", Dialect::Posix, Ok(2)),
            ("-euo pipefail -e -- -x", Dialect::Bash, Ok(4)),
            ("-o pipefail", Dialect::Posix, Ok(2)),
            ("-o pipefail", Dialect::Ash, Ok(2)),
            ("-o pipefail", Dialect::Dash, Err(Reason::ShellOption)),
            ("--norc --noprofile", Dialect::Bash, Ok(2)),
            ("--norc", Dialect::Dash, Err(Reason::ShellOption)),
            ("--posix", Dialect::Bash, Err(Reason::ShellOption)),
            ("-o", Dialect::Bash, Err(Reason::Incomplete)),
            ("-i", Dialect::Bash, Err(Reason::ShellOption)),
            ("-l", Dialect::Bash, Err(Reason::ShellOption)),
            ("-n", Dialect::Posix, Err(Reason::ShellOption)),
            ("-a", Dialect::Posix, Err(Reason::ShellOption)),
            ("-o posix", Dialect::Bash, Err(Reason::ShellOption)),
            ("- a", Dialect::Posix, Ok(0)),
            ("a -i", Dialect::Posix, Ok(0)),
        ] {
            assert_eq!(outcome(text, dialect), expected, "{text} {dialect:?}");
        }
    }

    #[test]
    fn noglob_is_remembered_and_traces_are_noted_once() {
        let mut options = ShellOptions::default();
        read(&["-fxx"], Dialect::Posix, &mut options, |_, _| None).unwrap();
        assert_eq!((options.globbing, options.notes.as_slice()), (Globbing::Off, &[Note::TraceDropped][..]));
        read(&["+f"], Dialect::Posix, &mut options, |_, _| None).unwrap();
        assert_eq!(options.globbing, Globbing::On);
    }
}
