//! The command of the result.
//!
//! The rule: what the source says runs, runs. Only a word list that the source took over from its
//! old base gives way to the new base's, as if the image had been built there.

use crate::process::Command;

/// The command as if the source had been built on the new base.
pub(super) fn three_way(old: &Command, source: &Command, new: &Command) -> Command {
    if source.argv().is_empty() {
        return new.clone();
    }
    let inherited = |source: &Option<Vec<String>>, old: &Option<Vec<String>>| {
        source.as_ref().is_some_and(|words| !words.is_empty()) && source == old
    };
    let entrypoint_inherited = inherited(&source.entrypoint, &old.entrypoint);
    let own_entrypoint = source.entrypoint.as_ref().is_some_and(|words| !words.is_empty()) && !entrypoint_inherited;
    let cmd_inherited = inherited(&source.cmd, &old.cmd) && !own_entrypoint;
    Command {
        entrypoint: if entrypoint_inherited { new.entrypoint.clone() } else { source.entrypoint.clone() },
        cmd: if cmd_inherited { new.cmd.clone() } else { source.cmd.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(entrypoint: Option<&[&str]>, cmd: Option<&[&str]>) -> Command {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Command { entrypoint: entrypoint.map(words), cmd: cmd.map(words) }
    }

    #[test]
    fn what_the_source_says_runs() {
        let none = command(None, None);
        let bash = command(None, Some(&["bash"]));
        let tini = command(Some(&["/tini", "--"]), None);
        let debug = command(Some(&["/busybox/sh"]), None);
        let app = command(Some(&["/app"]), None);
        for (why, old, source, new, expected) in [
            ("own entrypoint stays", &bash, app.clone(), &none, app.clone()),
            ("own entrypoint takes no cmd of the new base", &bash, app.clone(), &bash, app.clone()),
            (
                "own cmd takes no entrypoint of the new base",
                &none,
                command(None, Some(&["/app"])),
                &debug,
                command(None, Some(&["/app"])),
            ),
            (
                "inherited entrypoint gives way",
                &tini,
                command(Some(&["/tini", "--"]), Some(&["/app"])),
                &none,
                command(None, Some(&["/app"])),
            ),
            ("inherited cmd gives way", &bash, bash.clone(), &none, none.clone()),
            ("no command is the new base's", &none, none.clone(), &debug, debug.clone()),
            (
                "own entrypoint keeps an equal cmd",
                &bash,
                command(Some(&["/app"]), Some(&["bash"])),
                &none,
                command(Some(&["/app"]), Some(&["bash"])),
            ),
        ] {
            assert_eq!(three_way(old, &source, new), expected, "{why}");
        }
    }
}
