//! The command line: flags in, settings out, one call, one report. One small file per command.

mod args;
mod completions;
mod console;
mod elf;
mod inspect;
mod man;
mod plan;
mod rebase;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Moves a finished container image onto a new base, and always gives the same digest.
#[derive(Debug, Parser)]
#[command(name = "underpin", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, or already right; 1 refused: the image must not move as it is; \
    2 could not do the work (usage, network, damaged input).";

#[derive(Debug, Subcommand)]
enum Command {
    Rebase(rebase::Rebase),
    Plan(plan::Plan),
    Inspect(inspect::Inspect),
    Elf(elf::Elf),
    Verify(verify::Verify),
    Completions(completions::Completions),
    Man(man::Man),
}

/// What a command ended with, short of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Refused,
}

/// Runs the command line and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let (console, result) = match &cli.command {
        Command::Rebase(rebase) => rebase.run(),
        Command::Plan(plan) => plan.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Elf(elf) => elf.run(),
        Command::Verify(verify) => verify.run(),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    };
    match result {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Refused) => ExitCode::from(1),
        Err(error) => {
            console.error(&error);
            ExitCode::from(2)
        }
    }
}

/// The whole command line as clap knows it, for reference pages.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
