//! What `underpin` and `underpin --help` print: for somebody new three commands, then all of them by what they are for.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::Cli;

/// For somebody who typed the name and nothing else.
pub(super) const FIRST_STEPS: &str = "\
underpin moves a built container image to a new base image, and refuses if it would not start there.

  underpin plan IMAGE                see what would happen; nothing is written
  underpin rebase IMAGE --to TARGET  move it, by default to gcr.io/distroless/static
  underpin inspect IMAGE             see its layers, its base and its command

IMAGE is a reference such as registry.example/app:v1, oci:DIR:TAG, or an archive; `underpin --help` lists all commands.
";

/// The commands by what they are for; one that is in no group is listed behind them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Move images", &["plan", "rebase", "batch", "verify", "start"]),
    ("Look at things", &["inspect", "elf", "translate", "explain"]),
    ("Keep a fleet in order", &["outdated", "check", "exceptions", "kube"]),
    ("This machine", &["cache", "completions", "man"]),
];
const OTHERS: &str = "Other commands";

/// The command line, with its commands listed in groups.
pub(super) fn command() -> clap::Command {
    let command = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}\n",
        listed(&command)
    );
    command.help_template(template)
}

fn listed(command: &clap::Command) -> String {
    let mut out = String::new();
    let of_group = |names: &[&'static str]| {
        names.iter().filter_map(|name| command.find_subcommand(name)).collect::<Vec<&clap::Command>>()
    };
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others = command.get_subcommands().filter(|it| !is_grouped(it.get_name()) && !it.is_hide_set()).collect();
    let groups = GROUPS.into_iter().map(|(heading, names)| (heading, of_group(names))).chain([(OTHERS, others)]);
    for (heading, commands) in groups.filter(|(_, commands)| !commands.is_empty()) {
        let _ = writeln!(out, "\n{heading}:");
        for it in commands {
            let about = it.get_about().map(ToString::to_string).unwrap_or_default();
            // The rest of it is on the command's own page.
            let about = about.split([';', ':']).next().unwrap_or_default();
            let _ = writeln!(out, "  {:<11}  {about}", it.get_name());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        for name in command.get_subcommands().map(clap::Command::get_name) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
        }
        let named = GROUPS.iter().flat_map(|(_, names)| names.iter());
        assert!(named.clone().all(|name| command.find_subcommand(name).is_some()));
        assert!(!super::command().render_help().to_string().contains(OTHERS));
    }
}
