//! The command that a container of the image runs, and whether a shell stands in front of it.

use crate::oci::Config;

/// Entrypoint and cmd as the config holds them. `None` is "not set", which is not the same as
/// an empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub entrypoint: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
}

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "mksh", "busybox"];

impl Command {
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let list =
            |key: &str| config.container().get(key).filter(|value| value.is_array()).map(|_| config.strings(key));
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

    /// Whether the first word is a shell, under any path: then it says nothing of the program.
    #[must_use]
    pub fn starts_shell(&self) -> bool {
        let first = self.program();
        first.is_some_and(|word| SHELLS.contains(&word.rsplit('/').next().unwrap_or(&word)))
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
        for (entrypoint, cmd, expected) in [
            (&["/bin/sh", "-c", "exec app"][..], &[][..], true),
            (&["bash", "-euo", "pipefail", "-c", "app"], &[], true),
            (&["/bin/busybox", "sh", "-ec", "app"], &[], true),
            (&[], &["/usr/bin/dash", "-c", "app"], true),
            (&["/bin/sh"], &["/run.sh"], true),
            (&["/app"], &["/bin/sh", "-c", "x"], false),
            (&["/usr/bin/shell"], &[], false),
            (&[], &[], false),
        ] {
            assert_eq!(command(entrypoint, cmd).starts_shell(), expected, "{entrypoint:?} {cmd:?}");
        }
    }
}
