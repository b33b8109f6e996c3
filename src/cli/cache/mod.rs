//! `underpin cache`: the local store and its collector, which works on a node too.

mod gc;
mod node;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use super::environment::{CacheDirectory, cache_directory, settings_file};
use crate::report::{CacheCheck, CacheListing, EntryMatches, NodeListing, to_json};
use crate::settings::SettingsFile;
use crate::store::disk::{LockMode, LockWait};
use crate::store::gc::{Inventory, LockedCache, Protection};
use node::NodeArgs;
use oci::error::{Error, Result, printable};

/// List, verify and garbage-collect the local cache, or the images of a node
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

const EXAMPLES: &str = "Examples:
  # what is in the cache, how large it is, and when it was last used
  underpin cache ls

  # shrink the cache to 20 GiB, but keep the images of our own registry
  underpin cache gc --max-size 20GiB --protect host:registry.example";

#[derive(Debug, Subcommand)]
enum CacheCommand {
    Ls(Ls),
    Match(Match),
    Gc(gc::Gc),
    Verify(VerifyCache),
}

impl CacheArgs {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        match &self.command {
            CacheCommand::Ls(ls) => ls.run(console),
            CacheCommand::Match(matches) => matches.run(console),
            CacheCommand::Gc(gc) => gc.run(console),
            CacheCommand::Verify(verify) => verify.run(console),
        }
    }

    pub(super) fn say(&self) -> SayArgs {
        match &self.command {
            CacheCommand::Ls(ls) => ls.store.say,
            CacheCommand::Match(matches) => matches.store.say,
            CacheCommand::Gc(gc) => gc.store.say,
            CacheCommand::Verify(verify) => verify.store.say,
        }
    }
}

/// What was found out is what was asked for, so it is data.
fn show<R: Serialize>(console: &Console, report: &R, to_text: impl FnOnce(&R) -> String) {
    match console.form {
        Form::Json => console.json(&to_json(report)),
        Form::Text => console.show(&to_text(report)),
    }
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
        cache_directory(self.cache.as_ref()).map(CacheDirectory::into_path).ok_or_else(missing)
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

/// List cached images: shared and own size, age, last use, and what protects them
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES, disable_help_flag = true)]
pub struct Ls {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    store: StoreArgs,
}

const LS_EXAMPLES: &str = "Examples:
  # what is in the cache
  underpin cache ls

  # the images of this node, and what protects them
  underpin cache ls --cri unix:///run/containerd/containerd.sock --protect-file protected.txt

  # unprotected images, for scripts
  underpin cache ls --json | jq '.images[] | select(.protected_by == [])'";

impl Ls {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        if let Some(node) = self.node.connect(&self.store, console)? {
            let protection = self.store.protection(&settings_file()?)?;
            let listing = NodeListing::new(&node, &node.survey()?, node.used()?, &protection);
            show(console, &listing, NodeListing::to_text);
        } else {
            let (protection, inventory) = self.store.inventory(console)?;
            let listing = CacheListing::new(&self.store.folder()?, &inventory, &protection);
            show(console, &listing, CacheListing::to_text);
        }
        Ok(Ended::Done)
    }
}

/// Show which images each --protect entry matches, and warn if it matches none
#[derive(Debug, Args)]
#[command(after_help = MATCH_EXAMPLES, disable_help_flag = true)]
pub struct Match {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    store: StoreArgs,
}

const MATCH_EXAMPLES: &str = "Examples:
  # does the list protect what it should?
  underpin cache match --protect-file protected.txt

  # what would it protect on this node?
  underpin cache match --cri unix:///run/containerd/containerd.sock --protect-file protected.txt

  # try a pattern
  underpin cache match --protect 'regex:^registry\\.example/base/.*:v[0-9]+$'";

impl Match {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let node = self.node.connect(&self.store, console)?;
        let (protection, inventory) = match &node {
            Some(node) => (self.store.protection(&settings_file()?)?, node.survey()?.inventory),
            None => self.store.inventory(console)?,
        };
        let place = if node.is_some() { "on the node" } else { "in the cache" };
        let matched = EntryMatches::all(&inventory, &protection);
        show(console, &matched, |all| all.iter().map(EntryMatches::to_text).collect());
        if matched.is_empty() {
            console.say("no --protect entry was given, so nothing is protected\n");
        }
        for one in matched.iter().filter(|one| one.images.is_empty()) {
            console.say(&format!("warning: {} protects no image {place}\n", printable(&one.entry)));
        }
        Ok(Ended::Done)
    }
}

/// Check the hash of everything in the cache, and remove what is damaged; exit 1 if anything was
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES, disable_help_flag = true)]
pub struct VerifyCache {
    #[command(flatten)]
    store: StoreArgs,
}

const VERIFY_EXAMPLES: &str = "Examples:
  # after a machine crash or disk errors
  underpin cache verify

  # which images must be fetched again
  underpin cache verify --json | jq -r '.damaged[].images[]'";

impl VerifyCache {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        // Not used here; but who verifies with a list wants to know that the list is sound.
        self.store.protection(&settings_file()?)?;
        let store = self.store.look(console)?;
        let checked = store.map(|store| store.verify(&console.notices())).transpose()?.unwrap_or_default();
        let check = CacheCheck::new(&self.store.folder()?, &checked);
        show(console, &check, CacheCheck::to_text);
        Ok(if check.damaged.is_empty() { Ended::Done } else { Ended::Refused })
    }
}
