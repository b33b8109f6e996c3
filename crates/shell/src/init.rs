//! Init wrappers and `env` in front of a command. They are kept: the process tree stays the same.

use super::interpreter::{InitPrefix, base_name, shell_of};
use super::refusal::{Reason, Refusal, Unsupported};
use super::word::is_name;

/// The options of a wrapper: those without a value, and those that take the next word.
struct Wrapper {
    alone: &'static [&'static str],
    valued: &'static [&'static str],
}

const TINI: Wrapper = Wrapper { alone: &["-s", "-v", "-vv", "-vvv", "-w", "-g"], valued: &["-p", "-e"] };
const DUMB_INIT: Wrapper =
    Wrapper { alone: &["-c", "--single-child", "-v", "--verbose"], valued: &["-r", "--rewrite"] };

const CATATONIT: Wrapper = Wrapper { alone: &["-g"], valued: &[] };

fn wrapper(word: &str) -> Option<Wrapper> {
    match base_name(word) {
        // Releases of tini are called tini-amd64, tini-static-arm64, tini-muslc-amd64.
        "tini" | "docker-init" => Some(TINI),
        name if name.starts_with("tini-") => Some(TINI),
        "dumb-init" => Some(DUMB_INIT),
        // Also what podman puts into a container as its init.
        "catatonit" | "podman-init" => Some(CATATONIT),
        _ => None,
    }
}

/// How many words an init and its options are, or the option that is not known; `None` for what is no init.
pub(super) fn words(argv: &[String]) -> Option<Result<usize, Refusal>> {
    let wrapper = argv.first().and_then(|word| wrapper(word))?;
    Some(wrapped(argv, &wrapper))
}

/// What comes before the program or the shell.
pub(super) fn read(argv: &[String]) -> Result<InitPrefix, Refusal> {
    let mut lead = InitPrefix::default();
    if let Some(wrapper) = argv.first().and_then(|word| wrapper(word)) {
        lead.words = wrapped(argv, &wrapper)?;
        lead.init = argv.iter().take(lead.words).cloned().collect();
    }
    let words = argv.get(lead.words..).unwrap_or_default();
    let Some((environment, taken)) = env(words, lead.words)? else { return Ok(lead) };
    Ok(InitPrefix { environment, words: lead.words + taken, ..lead })
}

/// How many words the wrapper and its options are.
fn wrapped(argv: &[String], wrapper: &Wrapper) -> Result<usize, Refusal> {
    let mut next = 1;
    while let Some(word) = argv.get(next).map(String::as_str) {
        match word {
            "--" => return Ok(next + 1),
            _ if !word.starts_with('-') => break,
            _ if wrapper.alone.contains(&word) => next += 1,
            _ if wrapper.valued.contains(&word) => next += 2,
            _ => {
                let fault =
                    Unsupported::of_words(Reason::ShellOption, format!("the init wrapper's option {word} is unknown"));
                return Err(fault.within(next, word));
            }
        }
    }
    Ok(next)
}

type Environment = Vec<(String, String)>;

/// `env [NAME=VALUE...]`, where a shell follows; before a program it is left alone.
fn env(words: &[String], first: usize) -> Result<Option<(Environment, usize)>, Refusal> {
    if words.first().is_none_or(|word| base_name(word) != "env") {
        return Ok(None);
    }
    let assignments = words.iter().skip(1).map_while(|word| word.split_once('='));
    let environment: Environment = assignments.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let taken = 1 + environment.len();
    let rest = words.get(taken..).unwrap_or_default();
    if shell_of(rest).is_some() && environment.iter().all(|(name, value)| is_name(name) && !value.contains('$')) {
        return Ok(Some((environment, taken)));
    }
    let hides_shell = (1..words.len()).any(|start| words.get(start..).and_then(shell_of).is_some());
    if hides_shell && words.get(1).is_some_and(|word| word.starts_with('-') || word.contains('=')) {
        let fault = Unsupported::of_words(Reason::ShellOption, "`env` does more here than start the shell");
        return Err(fault.within(first, words.first().map_or("", String::as_str)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_end_where_the_program_begins() {
        for (text, words) in [
            ("tini -- app", Some(2)),
            ("/usr/bin/tini-static-amd64 -g -- app", Some(3)),
            ("/sbin/docker-init -e 143 app", Some(3)),
            ("dumb-init -r 15:2 app -v", Some(3)),
            ("/usr/bin/catatonit -- app", Some(2)),
            ("catatonit -g app", Some(2)),
            ("catatonit -P", None),
            ("catatonit app -g", Some(1)),
            ("tinier -- app", Some(0)),
        ] {
            let argv: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert_eq!(read(&argv).ok().map(|lead| lead.words), words, "{text}");
        }
    }
}
