//! A start where underpin is not root: done by a process of its own, which is root in a user namespace.
//!
//! The process is underpin itself, executed again under another name. It enters the namespace before it has a second
//! thread, because the kernel allows it only then; the process that started it maps the users of the namespace, says
//! what is to be done, and reads what came of it. It ends with the one that started it.

use std::fs::OpenOptions;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::bundle::Bundle;
use super::runtime::{Container, HealthCheck, RunOutcome, STATE};
use super::subordinate::{IdRange, UserNamespace};
use super::unpack::{OwnedNode, set_owners};
use super::{in_own_mounts, syscalls};
use crate::store::child_process::{self, ChildKind};
use crate::store::disk::start_process;
use oci::error::{Error, Kind, Result};

/// What the process is called, and known by.
const NAME: &str = "underpin-sandbox";
/// A job has an entry for each file that is not root's, an answer the last lines of two streams.
const LIMIT: u64 = 256 << 20;
const ENTERED: u8 = b'+';

/// A start of which everything is prepared.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartJob {
    pub(super) container: Container,
    pub(super) bundle: Bundle,
    pub(super) seconds: std::time::Duration,
    pub(super) health: Option<HealthCheck>,
    /// Whom the files belong to that are not root's.
    pub(super) owners: Vec<OwnedNode>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Task {
    Start(Box<StartJob>),
    Remove(PathBuf),
}

/// What is to be done, and whether the process maps its own user, and nobody else.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    own: Option<(IdRange, IdRange)>,
    task: Task,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Started(Box<RunOutcome>),
    Removed,
    Failed(Failure),
}

/// An error that has crossed from one process to another.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    what: String,
    facts: Vec<(String, String)>,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    fn new(error: &Error) -> Self {
        let facts = error.facts().iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Self {
            what: error.what().to_owned(),
            facts: facts.collect(),
            causes: error.causes().to_vec(),
            hints: error.hints().to_vec(),
        }
    }

    fn into_error(self) -> Error {
        const NAMES: [&str; 4] = ["path", "directory", "runtime", "status"];
        let mut error = Error::new(Kind::Io, self.what);
        for (name, value) in self.facts {
            let known = NAMES.iter().copied().find(|known| *known == name);
            error = error.fact(known.unwrap_or("about"), value);
        }
        let error = self.causes.into_iter().fold(error, Error::cause);
        self.hints.into_iter().fold(error, Error::hint)
    }
}

/// Starts an image in the namespace.
pub(super) fn start(namespace: &UserNamespace, job: StartJob) -> Result<RunOutcome> {
    let run = job.container.run.clone();
    let task = Task::Start(Box::new(job));
    match ask(namespace, &run, task, start_process)? {
        Answer::Started(outcome) => Ok(*outcome),
        Answer::Failed(failure) => Err(failure.into_error()),
        Answer::Removed => Err(lost("it answered another question")),
    }
}

/// Removes a run with files that belong to users of the namespace.
pub(super) fn remove(run: &Path) {
    // Also while a signal is ending this process, when nothing else is started any more.
    let _ = ask(&UserNamespace::of_this_user(), run, Task::Remove(run.to_owned()), Command::spawn);
}

fn ask(
    namespace: &UserNamespace,
    run: &Path,
    task: Task,
    spawn: fn(&mut Command) -> io::Result<Child>,
) -> Result<Answer> {
    let mut command = child_process::command("/proc/self/exe", ChildKind::Worker);
    // Its arguments are what a process of this run is known by.
    command.arg0(NAME).arg("--root").arg(run.join(STATE)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(&mut command).map_err(lost)?;
    let answered = converse(&mut child, namespace, task);
    if answered.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    answered
}

fn converse(child: &mut Child, namespace: &UserNamespace, task: Task) -> Result<Answer> {
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(lost("it has no streams"));
    };
    let mut entered = [0];
    output.read_exact(&mut entered).map_err(lost)?;
    if entered != [ENTERED] {
        let mut words = String::new();
        output.take(LIMIT).read_to_string(&mut words).map_err(lost)?;
        return Err(not_allowed(&words));
    }
    namespace.map(child.id())?;
    let order = Order { own: namespace.own_only(), task };
    input.write_all(&postcard::to_stdvec(&order).map_err(lost)?).map_err(lost)?;
    drop(input);
    let mut answer = Vec::new();
    output.take(LIMIT).read_to_end(&mut answer).map_err(lost)?;
    postcard::from_bytes(&answer).map_err(lost)
}

fn lost(cause: impl std::fmt::Display) -> Error {
    Error::new(Kind::Io, "the process that starts images in a user namespace was lost").cause(cause)
}

fn not_allowed(cause: &str) -> Error {
    Error::new(Kind::Io, "could not get a user namespace to start the image in")
        .cause(cause)
        .hint("run underpin as root, or allow user namespaces to users on this machine")
}

/// Whether this process is one that was executed to work in a namespace.
#[must_use]
pub fn is_worker() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Does what it is told on stdin, and answers on stdout. Called before there is a second thread.
#[must_use]
pub fn work() -> ExitCode {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut output = io::stdout();
    let users = (geteuid().as_raw(), getegid().as_raw());
    if let Err(error) = syscalls::unshare_users() {
        let _ = write!(output, "-{error}");
        return ExitCode::FAILURE;
    }
    let done = output.write_all(&[ENTERED]).and_then(|()| output.flush()).map_err(lost).and_then(|()| obey(users));
    let answer = done.unwrap_or_else(|error| Answer::Failed(Failure::new(&error)));
    let sent = postcard::to_stdvec(&answer).map(|bytes| output.write_all(&bytes).and_then(|()| output.flush()));
    if matches!(sent, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn obey(users: (u32, u32)) -> Result<Answer> {
    let mut bytes = Vec::new();
    io::stdin().take(LIMIT).read_to_end(&mut bytes).map_err(lost)?;
    let order: Order = postcard::from_bytes(&bytes).map_err(lost)?;
    if order.own.is_some() {
        map_own(users).map_err(|error| not_allowed(&error.to_string()))?;
    }
    match order.task {
        Task::Start(job) => start_here(&job).map(|outcome| Answer::Started(Box::new(outcome))),
        Task::Remove(run) => std::fs::remove_dir_all(&run)
            .map(|()| Answer::Removed)
            .map_err(|error| Error::io("could not remove the directory of a run", &run, &error)),
    }
}

/// Only root, who is the user outside.
fn map_own((uid, gid): (u32, u32)) -> io::Result<()> {
    let write = |name: &str, text: String| {
        OpenOptions::new().write(true).open(format!("/proc/self/{name}"))?.write_all(text.as_bytes())
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {uid} 1\n"))?;
    write("gid_map", format!("0 {gid} 1\n"))
}

fn start_here(job: &StartJob) -> Result<RunOutcome> {
    set_owners(&job.container.bundle.join(super::LOWER), &job.owners)?;
    in_own_mounts(|| job.run(|| ()))
}
