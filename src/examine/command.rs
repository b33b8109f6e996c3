//! The command that a container of the image runs, and whether a shell stands in front of it.

use crate::oci::Config;

/// Entrypoint and cmd as the config holds them. `None` is "not set", which is not the same as
/// an empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub entrypoint: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
}

/// A command that starts a shell which then interprets a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellForm {
    pub shell: String,
    /// The script where it is given with `-c`.
    pub script: Option<String>,
}

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "mksh", "busybox"];

impl Command {
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let list = |key: &str| config.container().get(key).filter(|value| value.is_array()).map(|_| config.words(key));
        Self { entrypoint: list("Entrypoint"), cmd: list("Cmd") }
    }

    /// The words a runtime executes: the entrypoint followed by the cmd.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).flatten().cloned().collect()
    }

    #[must_use]
    pub fn program(&self) -> Option<String> {
        self.argv().into_iter().next()
    }

    /// Whether the first word is a shell, under any path.
    #[must_use]
    pub fn shell_form(&self) -> Option<ShellForm> {
        let argv = self.argv();
        let shell = argv.first()?;
        let name = shell.rsplit('/').next().unwrap_or(shell);
        if !SHELLS.contains(&name) {
            return None;
        }
        let flag = argv.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'));
        let script = flag.and_then(|at| argv.get(at + 1)).cloned();
        Some(ShellForm { shell: shell.clone(), script })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(entrypoint: &[&str], cmd: &[&str]) -> Command {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        Command { entrypoint: words(entrypoint), cmd: words(cmd) }
    }

    #[test]
    fn finds_a_shell_under_any_path() {
        for (entrypoint, cmd, script) in [
            (&["/bin/sh", "-c", "exec app"][..], &[][..], Some("exec app")),
            (&["bash", "-euo", "pipefail", "-c", "app"], &[], Some("app")),
            (&["/bin/busybox", "sh", "-ec", "app"], &[], Some("app")),
            (&[], &["/usr/bin/dash", "-c", "app"], Some("app")),
            (&["/bin/sh"], &["/run.sh"], None),
        ] {
            let found = command(entrypoint, cmd).shell_form().unwrap();
            assert_eq!(found.script.as_deref(), script, "{entrypoint:?} {cmd:?}");
        }
    }

    #[test]
    fn a_program_that_takes_a_shell_as_argument_is_not_a_shell() {
        assert_eq!(command(&["/app"], &["/bin/sh", "-c", "x"]).shell_form(), None);
        assert_eq!(command(&["/usr/bin/shell"], &[]).shell_form(), None);
        assert_eq!(Command::default().shell_form(), None);
    }
}
