//! `underpin cache`: the local store and its collector, which works on a node too.

mod gc;
mod ls;
mod matches;
mod node;
mod verify;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use super::environment::{cache_directory, settings_file};
use crate::error::{Error, Result};
use crate::report::to_json;
use crate::settings::SettingsFile;
use crate::store::disk::{LockMode, LockWait};
use crate::store::gc::{Inventory, LockedCache, Protection};

/// List, verify and garbage-collect the local cache, or the images of a node
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Cache {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  # what is in the cache, how large it is, and when it was last used
  underpin cache ls

  # shrink the cache to 20 GiB, but keep the images of our own registry
  underpin cache gc --max-size 20GiB --protect host:registry.example";

#[derive(Debug, Subcommand)]
enum Command {
    Ls(ls::Ls),
    Match(matches::Match),
    Gc(gc::Gc),
    Verify(verify::Verify),
}

impl Cache {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        match &self.command {
            Command::Ls(ls) => ls.run(console),
            Command::Match(matches) => matches.run(console),
            Command::Gc(gc) => gc.run(console),
            Command::Verify(verify) => verify.run(console),
        }
    }

    pub(super) fn say(&self) -> SayArgs {
        match &self.command {
            Command::Ls(ls) => ls.store.say,
            Command::Match(matches) => matches.store.say,
            Command::Gc(gc) => gc.store.say,
            Command::Verify(verify) => verify.store.say,
        }
    }
}

/// What was found out is what was asked for, so it is data.
fn show<R: Serialize>(console: &Console, report: &R, to_text: impl FnOnce(&R) -> String) {
    console.data(&match console.form {
        Form::Json => format!("{}\n", to_json(report)),
        Form::Text => to_text(report),
    });
}

/// The same for a collection, which may fall short of what was wanted.
fn show_collection<R: Serialize>(
    console: &Console,
    report: &R,
    to_text: impl FnOnce(&R) -> String,
    short: Option<String>,
) {
    show(console, report, to_text);
    if let Some(short) = short {
        console.say(&format!("warning: {short}\n"));
    }
}

const CACHE_HELP: &str = "Cache directory [default: $UNDERPIN_CACHE, or underpin in the user's cache directory]";

/// Which store, and what is protected in it.
#[derive(Debug, Args)]
struct StoreArgs {
    #[arg(long, value_name = "DIR", help = CACHE_HELP)]
    cache: Option<PathBuf>,
    /// Never remove these images: a reference, host:HOST[:PORT], prefix:HOST/REPO..., or regex:PATTERN (repeatable)
    #[arg(long, value_name = "ENTRY")]
    protect: Vec<String>,
    /// Never remove the images in this file, one --protect entry per line (repeatable)
    #[arg(long, value_name = "FILE")]
    protect_file: Vec<PathBuf>,
    #[command(flatten)]
    say: SayArgs,
}

impl StoreArgs {
    fn folder(&self) -> Result<PathBuf> {
        let missing = || Error::usage("there is no cache directory").hint("pass --cache DIR");
        cache_directory(self.cache.as_ref()).ok_or_else(missing)
    }

    /// The store for looking at it, or `None`, and said, where there is none.
    fn look(&self, console: &Console) -> Result<Option<LockedCache>> {
        self.open(console, LockMode::Shared, LockWait::default().stop)
    }

    fn open(&self, console: &Console, mode: LockMode, wait: Duration) -> Result<Option<LockedCache>> {
        let folder = self.folder()?;
        let patience = LockWait { stop: wait, ..LockWait::default() };
        let store = LockedCache::open(&folder, mode, patience, &console.notices())?;
        if store.is_none() {
            console.say(&format!("there is no cache in {}\n", folder.display()));
        }
        Ok(store)
    }

    /// What the flags and the settings file protect.
    fn protection(&self, settings: &SettingsFile) -> Result<Protection> {
        let entries: Vec<String> = settings.protect.iter().chain(&self.protect).cloned().collect();
        let files: Vec<PathBuf> = settings.protect_files.iter().chain(&self.protect_file).cloned().collect();
        Protection::read(&entries, &files)
    }

    /// The protection, and the contents of the store with a warning for each record that is not to be read.
    fn inventory(&self, console: &Console) -> Result<(Protection, Inventory)> {
        let protection = self.protection(&settings_file()?)?;
        let inventory = self.look(console)?.map(|store| store.inventory()).transpose()?.unwrap_or_default();
        for error in &inventory.unreadable {
            console.notices().warn(crate::store::disk::line(error));
        }
        Ok((protection, inventory))
    }
}
