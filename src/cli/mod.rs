//! The command line: flags in, settings out, one call, one report. One small file per command.

mod args;
mod batch;
mod cache;
mod check;
mod completions;
mod console;
mod elf;
mod environment;
mod exceptions;
mod explain;
mod help;
mod inspect;
mod interruption;
mod keys;
mod kube;
mod lock_file;
mod man;
mod outdated;
mod paint;
mod plan;
mod policy_args;
mod rebase;
mod report_file;
mod start;
mod transfers;
mod translate;
mod verify;

use std::process::ExitCode;

use args::{SayArgs, SessionArgs};
use clap::error::ContextKind;
use clap::{FromArgMatches as _, Parser, Subcommand};
use console::Console;
use paint::ColorChoice;

use crate::report::Grade;
use crate::store::disk::keep_apart;
use oci::error::{Error, redacted};

pub use interruption::say_interrupted;

/// Move a built container image to a new base image, reproducibly, and refuse if it would not start there
#[derive(Debug, Parser)]
#[command(name = "underpin", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
    /// When to use colours: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        help_heading = "Output",
        hide_default_value = true,
        hide_possible_values = true
    )]
    color: ColorChoice,
}

/// The release, the commit that it was built from, and the format of its results: with all three, anybody can make it,
/// and an image of it, again.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("UNDERPIN_COMMIT"), ", format 2)");

const EXIT_CODES: &str = "Exit codes: 0 done, or nothing to do; 1 refused: the image must not be moved as it is; \
    2 failed (wrong usage, network, damaged input).";

#[derive(Debug, Subcommand)]
enum CliCommand {
    Rebase(rebase::Rebase),
    Plan(plan::Plan),
    Inspect(inspect::Inspect),
    Elf(elf::Elf),
    Translate(translate::Translate),
    Batch(batch::Batch),
    Check(check::Check),
    Exceptions(exceptions::Exceptions),
    Explain(explain::Explain),
    Kube(kube::Kube),
    Verify(verify::Verify),
    Start(start::Start),
    Outdated(outdated::Outdated),
    Cache(cache::CacheArgs),
    Completions(completions::Completions),
    Man(man::Man),
}

/// What a command ended with, short of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Refused,
    /// Some of the work could not be done; what could be is reported.
    Failed,
}

impl From<Grade> for Ended {
    fn from(grade: Grade) -> Self {
        match grade {
            Grade::Good | Grade::Excepted => Self::Done,
            Grade::Refused => Self::Refused,
            Grade::Failed => Self::Failed,
        }
    }
}

/// Runs the command line and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let color = ColorChoice::among(std::env::args_os().map(|word| word.to_string_lossy().into_owned()));
    if std::env::args_os().len() < 2 {
        Console::new(SayArgs::default(), color).insist(help::FIRST_STEPS);
        return ExitCode::from(2);
    }
    let matches = help::command().color(color.into()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return misused(&error, color),
    };
    let console = Console::new(cli.command.say(), cli.color);
    interruption::announce(&console);
    keep_apart();
    if let Some(world) = cli.command.world() {
        world.note_files();
    }
    let result = cli.command.run(&console);
    if let Some(world) = cli.command.world() {
        world.collect_after(&console);
    }
    match result {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Refused) => ExitCode::from(1),
        Ok(Ended::Failed) => ExitCode::from(2),
        Err(error) => {
            console.error(&error);
            ExitCode::from(2)
        }
    }
}

/// A value that cannot be read is an error like any other, in the form that was asked for; everything
/// else about the words of a command line is clap's to say.
fn misused(error: &clap::Error, color: ColorChoice) -> ExitCode {
    let Some(ours) = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Error>()) else {
        let text = error.render().to_string();
        let shown = redacted(&text);
        if shown == text {
            error.exit()
        }
        Console::new(SayArgs::default(), color).say(&shown);
        return ExitCode::from(2);
    };
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let flag = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let named = flag.map_or_else(|| ours.clone(), |flag| ours.clone().fact("option", flag));
    Console::new(SayArgs { json, ..SayArgs::default() }, color).error(&named);
    ExitCode::from(2)
}

impl CliCommand {
    fn run(&self, console: &Console) -> oci::error::Result<Ended> {
        match self {
            Self::Rebase(rebase) => rebase.run(console),
            Self::Plan(plan) => plan.run(console),
            Self::Inspect(inspect) => inspect.run(console),
            Self::Elf(elf) => elf.run(console),
            Self::Translate(translate) => translate.run(console),
            Self::Batch(batch) => batch.run(console),
            Self::Check(check) => check.run(console),
            Self::Exceptions(exceptions) => exceptions.run(console),
            Self::Explain(explain) => explain.run(console),
            Self::Kube(kube) => kube.run(console),
            Self::Verify(verify) => verify.run(console),
            Self::Start(start) => start.run(console),
            Self::Outdated(outdated) => outdated.run(console),
            Self::Cache(cache) => cache.run(console),
            Self::Completions(completions) => Ok(completions.run(console, help::command())),
            Self::Man(man) => man.run(console, help::command()),
        }
    }

    /// How the command deals with registries and the cache, where it does.
    fn world(&self) -> Option<&SessionArgs> {
        match self {
            Self::Rebase(rebase) => Some(&rebase.world),
            Self::Plan(plan) => Some(&plan.world),
            Self::Inspect(inspect) => Some(&inspect.world),
            Self::Batch(batch) => Some(&batch.world),
            Self::Check(check) => Some(&check.world),
            Self::Kube(kube) => Some(&kube.world),
            Self::Verify(verify) => Some(&verify.world),
            Self::Start(start) => Some(&start.world),
            Self::Outdated(outdated) => Some(&outdated.world),
            Self::Elf(_)
            | Self::Translate(_)
            | Self::Exceptions(_)
            | Self::Explain(_)
            | Self::Cache(_)
            | Self::Completions(_)
            | Self::Man(_) => None,
        }
    }

    /// How much to say, where the command lets the user choose.
    fn say(&self) -> SayArgs {
        match self {
            Self::Rebase(rebase) => rebase.say,
            Self::Plan(plan) => plan.say,
            Self::Inspect(inspect) => inspect.say,
            Self::Elf(elf) => elf.say(),
            Self::Translate(translate) => translate.say(),
            Self::Batch(batch) => batch.say,
            Self::Check(check) => check.say,
            Self::Exceptions(exceptions) => exceptions.say(),
            Self::Explain(explain) => explain.say(),
            Self::Kube(kube) => kube.say,
            Self::Verify(verify) => verify.say,
            Self::Start(start) => start.say,
            Self::Outdated(outdated) => outdated.say,
            Self::Cache(cache) => cache.say(),
            Self::Completions(_) | Self::Man(_) => SayArgs::default(),
        }
    }
}
