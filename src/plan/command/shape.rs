//! How the words of a command are shared out between ENTRYPOINT and CMD, so that whoever overrides
//! CMD still overrides the same words.

use crate::plan::options::{CommandWords, RebaseOptions};
use crate::process::{Command, Container};
use crate::shell::Trailing;

fn words(words: Vec<String>) -> Option<Vec<String>> {
    (!words.is_empty()).then_some(words)
}

/// `--entrypoint` and `--cmd` take the place of what the image has.
pub(super) fn overridden(mut container: Container, options: &RebaseOptions) -> Container {
    if !options.overrides_command() {
        return container;
    }
    let Command { entrypoint, cmd } = container.command.clone();
    let given = |given: &Option<CommandWords>, there| given.as_ref().map_or(there, |given| words(given.0.clone()));
    let entrypoint = given(&options.entrypoint, entrypoint);
    let cmd = given(&options.cmd, cmd);
    container.set_command(Command { entrypoint, cmd });
    container
}

/// The command without its first words.
pub(super) fn without_first(command: &Command, count: usize) -> Command {
    let entrypoint = command.entrypoint.clone().unwrap_or_default();
    let rest = count.saturating_sub(entrypoint.len());
    let cmd = command.cmd.clone().unwrap_or_default();
    Command {
        entrypoint: words(entrypoint.into_iter().skip(count).collect()),
        cmd: words(cmd.into_iter().skip(rest).collect()),
    }
}

/// Where the words go. Where only CMD was there, only CMD is there again.
pub(super) fn split(before: &Command, argv: Vec<String>, passed: &[String], trailing: Trailing) -> Command {
    if before.entrypoint.as_ref().is_none_or(Vec::is_empty) {
        return Command { entrypoint: None, cmd: words(argv.into_iter().chain(passed.iter().cloned()).collect()) };
    }
    let cmd = match trailing {
        Trailing::Passed => words(passed.to_vec()),
        Trailing::Ignored => None,
    };
    Command { entrypoint: words(argv), cmd }
}

/// CMD, where it was there and its words are part of the command no more.
pub(super) fn cleared(before: &Command, after: &Command) -> Option<Vec<String>> {
    let had = before.entrypoint.is_some() && after.cmd.is_none();
    before.cmd.clone().filter(|cmd| had && !cmd.is_empty())
}
