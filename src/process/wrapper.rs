//! Programs whose only work is to start another one, and which of their words that one is.
//!
//! To know another wrapper, add a row to [`TABLE`]. An option that is not in its row is not guessed: then
//! it is not known what would be started.

use shell;

/// What a wrapper does before it starts the program behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Handover {
    /// The word of the program.
    pub(super) at: usize,
    pub(super) user: Option<UserChange>,
    pub(super) environment: EnvironmentChange,
    pub(super) working_dir: Option<String>,
    /// Words that take the place of all before `at`: `env -S`.
    pub(super) split: Vec<String>,
}

/// Whom a wrapper makes of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UserChange {
    /// An account with all that belongs to it, as it is written: `gosu`.
    Account(String),
    /// Each number on its own: `setpriv`.
    Ids(IdChange),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IdChange {
    pub(super) uid: Option<String>,
    pub(super) gid: Option<String>,
    pub(super) groups: GroupChange,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum GroupChange {
    #[default]
    Kept,
    Cleared,
    /// Those that list the user.
    OfAccount,
    Listed(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EnvironmentChange {
    pub(super) is_cleared: bool,
    pub(super) removed: Vec<String>,
    pub(super) set: Vec<(String, String)>,
}

/// What the words of a command are to a program of this name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrapped {
    /// It is no wrapper.
    No,
    /// A wrapper without a program behind it.
    Nothing,
    To(Handover),
    /// It has an option that is not known.
    Unreadable(String),
}

/// How a wrapper reads its words.
struct WrapperRow {
    names: &'static [&'static str],
    /// Options without a value.
    alone: &'static [&'static str],
    /// Options that take the next word, or what follows `=`, or, where they are one letter, what follows it.
    valued: &'static [&'static str],
    /// What the words between the options and the program are.
    positional: Positional,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Positional {
    None,
    /// An account to change to.
    User,
    /// Something that does not change who is started, such as a duration.
    Word,
    /// `NAME=VALUE`, any number.
    Assignments,
}

const TABLE: &[WrapperRow] = &[
    WrapperRow { names: &["gosu", "su-exec"], alone: &[], valued: &[], positional: Positional::User },
    WrapperRow {
        names: &["setpriv"],
        alone: &["--clear-groups", "--keep-groups", "--init-groups", "--no-new-privs", "--nnp", "--reset-env"],
        valued: &[
            "--reuid",
            "--regid",
            "--groups",
            "--inh-caps",
            "--ambient-caps",
            "--bounding-set",
            "--securebits",
            "--pdeathsig",
        ],
        positional: Positional::None,
    },
    WrapperRow {
        names: &["env"],
        alone: &["-i", "-", "--ignore-environment", "-v", "--debug"],
        valued: &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"],
        positional: Positional::Assignments,
    },
    WrapperRow { names: &["nice"], alone: &[], valued: &["-n", "--adjustment"], positional: Positional::None },
    WrapperRow { names: &["ionice"], alone: &["-t"], valued: &["-c", "-n"], positional: Positional::None },
    WrapperRow {
        names: &["timeout"],
        alone: &["--foreground", "--preserve-status", "-v", "--verbose"],
        valued: &["-k", "--kill-after", "-s", "--signal"],
        positional: Positional::Word,
    },
    WrapperRow {
        names: &["stdbuf"],
        alone: &[],
        valued: &["-i", "-o", "-e", "--input", "--output", "--error"],
        positional: Positional::None,
    },
    WrapperRow { names: &["nohup"], alone: &[], valued: &[], positional: Positional::None },
    WrapperRow {
        names: &["setsid"],
        alone: &["-c", "--ctty", "-f", "--fork", "-w", "--wait"],
        valued: &[],
        positional: Positional::None,
    },
    WrapperRow {
        names: &["go-runner", "kube-log-runner"],
        alone: &["-also-stdout", "--also-stdout", "-redirect-stderr", "--redirect-stderr"],
        valued: &[
            "-log-file",
            "--log-file",
            "-flush-interval",
            "--flush-interval",
            "-log-file-size",
            "--log-file-size",
            "-log-file-age",
            "--log-file-age",
        ],
        positional: Positional::None,
    },
];

fn row(name: &str) -> Option<&'static WrapperRow> {
    TABLE.iter().find(|row| row.names.contains(&name))
}

/// Options without which a wrapper does not start the program, or does not stay. The first process of a container
/// leads its group, and so does what an init starts: `setsid` forks there and ends, and with it the container.
fn needed_options(name: &str) -> &'static [&'static str] {
    match name {
        "setsid" => &["--wait", "-w"],
        "ionice" => &["-c", "-n"],
        _ => &[],
    }
}

fn lacks_option(name: &str, options: &[String]) -> bool {
    let needed = needed_options(name);
    !needed.is_empty() && !options.iter().any(|word| needed.iter().any(|option| word.starts_with(option)))
}

/// Reads the words of a command whose first starts the program `name`.
pub(super) fn read(name: &str, argv: &[String]) -> Wrapped {
    // Which programs are inits, `shell` knows.
    match shell::init_words(argv) {
        Some(Ok(at)) if argv.len() > at => return Wrapped::To(Handover { at, ..Handover::default() }),
        Some(Ok(_)) => return Wrapped::Nothing,
        Some(Err(option)) => return Wrapped::Unreadable(option),
        None => {}
    }
    let Some(row) = row(name) else { return Wrapped::No };
    let mut handover = Handover { at: 1, ..Handover::default() };
    if let Err(option) = row.options(argv, &mut handover) {
        return Wrapped::Unreadable(option);
    }
    if lacks_option(name, argv.get(1..handover.at).unwrap_or_default()) {
        return Wrapped::Unreadable(format!("{name} without {}", needed_options(name).join(" or ")));
    }
    row.positionals(argv, &mut handover);
    let has_program = argv.len() > handover.at || !handover.split.is_empty();
    if has_program { Wrapped::To(handover) } else { Wrapped::Nothing }
}

impl WrapperRow {
    fn options(&self, argv: &[String], handover: &mut Handover) -> Result<(), String> {
        while let Some(word) = argv.get(handover.at).map(String::as_str) {
            if word == "--" {
                handover.at += 1;
                return Ok(());
            }
            let is_option = word.starts_with('-') && (word.len() > 1 || self.alone.contains(&word));
            if !is_option {
                return Ok(());
            }
            let (option, value, taken) = self.option(word, argv.get(handover.at + 1)).ok_or(word)?;
            handover.at += taken;
            handover.apply(option, value.as_deref())?;
        }
        Ok(())
    }

    /// The option that a word is, its value, and how many words that took.
    fn option(&self, word: &str, next: Option<&String>) -> Option<(&'static str, Option<String>, usize)> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if let Some(alone) = self.alone.iter().find(|alone| **alone == name) {
            return Some((alone, value.map(str::to_owned), 1));
        }
        if let Some(valued) = self.valued.iter().find(|valued| **valued == name) {
            return match value {
                Some(value) => Some((valued, Some(value.to_owned()), 1)),
                None => Some((valued, next.cloned(), 2)),
            };
        }
        // `-n5`, and `nice -5`.
        let glued = self.valued.iter().find(|valued| valued.len() == 2 && word.starts_with(**valued));
        let digits = || word.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        match glued {
            Some(valued) => Some((valued, word.get(2..).map(str::to_owned), 1)),
            None if self.names.contains(&"nice") && digits() => Some(("-n", None, 1)),
            None => None,
        }
    }

    fn positionals(&self, argv: &[String], handover: &mut Handover) {
        match self.positional {
            Positional::None => {}
            Positional::User => {
                handover.user = argv.get(handover.at).cloned().map(UserChange::Account);
                handover.at += 1;
            }
            Positional::Word => handover.at += 1,
            Positional::Assignments => {
                while let Some((name, value)) = argv.get(handover.at).and_then(|word| word.split_once('=')) {
                    handover.environment.set.push((name.to_owned(), value.to_owned()));
                    handover.at += 1;
                }
            }
        }
    }
}

impl Handover {
    fn change_ids(&mut self, change: impl FnOnce(&mut IdChange)) {
        let mut ids = match self.user.take() {
            Some(UserChange::Ids(ids)) => ids,
            _ => IdChange::default(),
        };
        change(&mut ids);
        self.user = Some(UserChange::Ids(ids));
    }

    /// What an option changes about the program; most change nothing.
    fn apply(&mut self, option: &str, value: Option<&str>) -> Result<(), String> {
        let value = value.unwrap_or_default().to_owned();
        match option {
            "--reuid" => self.change_ids(|ids| ids.uid = Some(value)),
            "--regid" => self.change_ids(|ids| ids.gid = Some(value)),
            "--groups" => self.change_ids(|ids| ids.groups = GroupChange::Listed(value)),
            "--clear-groups" => self.change_ids(|ids| ids.groups = GroupChange::Cleared),
            "--init-groups" => self.change_ids(|ids| ids.groups = GroupChange::OfAccount),
            "-i" | "-" | "--ignore-environment" | "--reset-env" => self.environment.is_cleared = true,
            "-u" | "--unset" => self.environment.removed.push(value),
            "-C" | "--chdir" => self.working_dir = Some(value),
            "-S" | "--split-string" => self.split = split(&value).ok_or(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// The words of `env -S`, where nothing in them is special.
fn split(text: &str) -> Option<Vec<String>> {
    let is_plain = !text.contains(['\'', '"', '\\', '$', '#']);
    is_plain.then(|| text.split_ascii_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_program_is_found_behind_every_wrapper() {
        for (line, program) in [
            ("tini -s -- /app x", "/app"),
            ("tini -g /app", "/app"),
            ("dumb-init -r 15:3 --single-child /app", "/app"),
            ("catatonit -- /app", "/app"),
            ("gosu app /app", "/app"),
            ("su-exec app:app /app -v", "/app"),
            ("setpriv --reuid=1000 --clear-groups --regid 7 /app", "/app"),
            ("env -i -u A -C /srv B=1 C=2 app", "app"),
            ("env app", "app"),
            ("nice -n 5 /app", "/app"),
            ("nice -5 /app", "/app"),
            ("nice --adjustment=5 /app", "/app"),
            ("timeout -k 5 -s TERM 10 /app", "/app"),
            ("timeout 10 /app -s x", "/app"),
            ("stdbuf -oL -e0 /app", "/app"),
            ("setsid -w /app", "/app"),
            ("ionice -c3 /app", "/app"),
            ("go-runner --log-file=/x --also-stdout=false -redirect-stderr /app --v=2", "/app"),
            ("kube-log-runner -log-file /x /app", "/app"),
        ] {
            let argv = words(line);
            let Wrapped::To(handover) = read(&argv[0], &argv) else { panic!("{line}") };
            assert_eq!(argv[handover.at], program, "{line}");
        }
    }

    #[test]
    fn what_a_wrapper_changes_is_told() {
        let to = |line: &str| match read(words(line)[0].as_str(), &words(line)) {
            Wrapped::To(handover) => handover,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(to("gosu app:7 /app").user, Some(UserChange::Account("app:7".to_owned())));
        let ids = |uid: &str, gid: Option<&str>, groups| {
            Some(UserChange::Ids(IdChange { uid: Some(uid.to_owned()), gid: gid.map(str::to_owned), groups }))
        };
        for (line, expected) in [
            ("setpriv --reuid 5 /app", ids("5", None, GroupChange::Kept)),
            ("setpriv --reuid=5 --regid=6 --clear-groups /app", ids("5", Some("6"), GroupChange::Cleared)),
            ("setpriv --reuid=app --init-groups /app", ids("app", None, GroupChange::OfAccount)),
            ("setpriv --reuid=app --groups 1,2 /app", ids("app", None, GroupChange::Listed("1,2".to_owned()))),
        ] {
            assert_eq!(to(line).user, expected, "{line}");
        }
        let env = to("env -i -u A -C /srv B=1 app");
        assert_eq!(env.working_dir.as_deref(), Some("/srv"));
        assert_eq!((env.environment.is_cleared, env.environment.removed), (true, vec!["A".to_owned()]));
        assert_eq!(env.environment.set, [("B".to_owned(), "1".to_owned())]);
        let split = read("env", &["env".into(), "-S".into(), "python3 -u".into(), "/x.py".into()]);
        let Wrapped::To(split) = split else { panic!() };
        assert_eq!((split.split, split.at), (words("python3 -u"), 3));
    }

    #[test]
    fn nothing_is_guessed() {
        for (line, expected) in [
            ("app -x", Wrapped::No),
            ("tini --", Wrapped::Nothing),
            ("go-runner", Wrapped::Nothing),
            ("gosu app", Wrapped::Nothing),
            ("tini --unknown /app", Wrapped::Unreadable("--unknown".to_owned())),
            ("env -S", Wrapped::Nothing),
            ("setsid /app", Wrapped::Unreadable("setsid without --wait or -w".to_owned())),
            ("ionice /app", Wrapped::Unreadable("ionice without -c or -n".to_owned())),
        ] {
            assert_eq!(read(&words(line)[0], &words(line)), expected, "{line}");
        }
    }
}
