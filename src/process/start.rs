//! What a runtime starts from a config on a root: user, working directory, environment, and the chain of
//! programs down to the last.
//!
//! The same function answers for the source on its own root and for the result on the new one; whatever
//! differs is for `policy` to judge.

use std::collections::BTreeSet;

use super::accounts::{Accounts, Identity, UnknownAccount, identify};
use super::chain::{ChainEnd, ChainWalk, Executed, ProcessState, Role};
use super::container::{Container, DEFAULT_PATH};
use layer::RootPath;
use start::rootfs::{Credentials, NotFound, Root};

/// A start, as far as it goes.
#[derive(Debug, Clone)]
pub struct Start {
    pub argv: Vec<String>,
    /// Whom the first process runs as.
    pub user: Result<Identity, UnknownAccount>,
    /// Whom the last program of the chain runs as: a wrapper may have changed it.
    pub last_user: Option<Identity>,
    pub working_dir: StartDirectory,
    /// Where the last program of the chain is: a wrapper or a shell may have changed it.
    pub last_directory: RootPath,
    /// With what a runtime adds: `PATH`, and `HOME` where that is unset or empty.
    pub environment: Vec<(String, String)>,
    /// A variable without a name or without a `=`: runc starts nothing with it, other runtimes do.
    pub bad_variable: Option<String>,
    pub chain: Vec<Executed>,
    pub end: ChainEnd,
}

/// The directory that the process begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartDirectory {
    /// As the config has it; the root where it has none.
    pub written: String,
    pub state: StartDirectoryState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDirectoryState {
    There,
    /// A runtime makes it, for root.
    Missing,
    /// A file is in the way, a link leads nowhere, or it is no absolute path, which runtimes refuse.
    Blocked(String),
}

impl Start {
    /// The program that stays.
    #[must_use]
    pub fn program(&self) -> Option<&Executed> {
        let is_last = |executed: &&Executed| !matches!(executed.role, Role::Called | Role::Script);
        self.chain.iter().rfind(is_last).or_else(|| self.chain.last())
    }

    /// Whether nothing keeps the process from running.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self.end, ChainEnd::Runs | ChainEnd::Shell(_)) && self.user.is_ok()
    }

    /// What the kernel checks of the first process; those of root where the user is not known.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        self.user.as_ref().map(|user| user.credentials.clone()).unwrap_or_default()
    }

    /// The value of a variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// What a runtime starts.
#[must_use]
pub fn start(container: &Container, root: &Root<'_>) -> Start {
    start_of(container, &container.command.argv(), root)
}

/// What it starts with this command in the place of the image's own.
#[must_use]
pub fn start_of(container: &Container, argv: &[String], root: &Root<'_>) -> Start {
    let accounts = Accounts::of(root);
    let user = identify(container.text("User"), &accounts).map(|user| with_groups(user, &container.pod.groups));
    let environment = environment(container, user.as_ref().ok());
    let working_dir = working_dir(container, root);
    let identity = user.clone().unwrap_or_else(|_| nobody());
    let state = ProcessState {
        argv: argv.to_vec(),
        environment: environment.clone(),
        working_dir: entered(container, root),
        identity,
    };
    let mut walk = ChainWalk::new((root, &container.pod), &accounts, state);
    let end = walk.follow();
    let bad_variable = container.bad_variable().map(str::to_owned);
    let last_user = user.is_ok().then(|| walk.state.identity.clone());
    let last_directory = walk.state.working_dir.clone();
    Start {
        argv: argv.to_vec(),
        last_user,
        user,
        working_dir,
        last_directory,
        environment,
        bad_variable,
        chain: walk.chain,
        end,
    }
}

/// The groups that a pod adds.
fn with_groups(mut user: Identity, groups: &[u64]) -> Identity {
    let there = &mut user.credentials.groups;
    there.extend(groups);
    let mut seen = BTreeSet::new();
    there.retain(|group| seen.insert(*group));
    user
}

/// Somebody without any right, in the place of a user that is not known.
fn nobody() -> Identity {
    let credentials = Credentials { uid: u64::MAX, gid: u64::MAX, groups: Vec::new() };
    Identity { name: None, credentials, home: "/".to_owned() }
}

/// Of several values of a name, the last counts.
fn environment(container: &Container, user: Option<&Identity>) -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = Vec::new();
    for (name, value) in container.environment() {
        environment.retain(|(other, _)| other != name);
        environment.push((name.to_owned(), value.to_owned()));
    }
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".to_owned(), DEFAULT_PATH.to_owned()));
    }
    let has_home = environment.iter().any(|(name, value)| name == "HOME" && !value.is_empty());
    if let Some(user) = user.filter(|_| !has_home) {
        environment.retain(|(name, _)| name != "HOME");
        environment.push(("HOME".to_owned(), user.home.clone()));
    }
    environment
}

/// Where the process is, links followed before any `..`, as the kernel does.
fn entered(container: &Container, root: &Root<'_>) -> RootPath {
    let from = RootPath::root();
    let found = root.resolve_as(container.text("WorkingDir"), &from, &Credentials::default());
    found.map_or_else(|_| container.working_dir(), |found| found.path)
}

fn working_dir(container: &Container, root: &Root<'_>) -> StartDirectory {
    let written = match container.text("WorkingDir") {
        "" => "/".to_owned(),
        text => text.to_owned(),
    };
    let state = match root.resolve(&entered(container, root)) {
        _ if !written.starts_with('/') => StartDirectoryState::Blocked(format!("{written} is not an absolute path")),
        Ok(found) if found.node.is_directory() => StartDirectoryState::There,
        Ok(_) => StartDirectoryState::Blocked(format!("{written} is not a directory")),
        Err(lost) => missing(&lost),
    };
    StartDirectory { written, state }
}

fn missing(lost: &NotFound) -> StartDirectoryState {
    use start::rootfs::NotFoundReason::Missing;
    let is_missing = lost.candidates.iter().all(|tried| matches!(tried.reason, Missing(_)));
    if is_missing { StartDirectoryState::Missing } else { StartDirectoryState::Blocked(lost.to_string()) }
}
