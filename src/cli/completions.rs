//! `underpin completions`: for the shell.

use clap::Args;
use clap_complete::Shell;

use super::Ended;
use super::console::Console;

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// Shell
    shell: Shell,
}

const EXAMPLES: &str = "Examples:
  # for the current bash
  source <(underpin completions bash)

  # for every new bash
  underpin completions bash >~/.local/share/bash-completion/completions/underpin";

impl Completions {
    pub(super) fn run(&self, console: &Console, mut command: clap::Command) -> Ended {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "underpin", &mut script);
        console.data(&String::from_utf8_lossy(&script));
        Ended::Done
    }
}
