//! One start under an OCI runtime: it is started, watched for the given time, and killed.
//!
//! The runtime is a program of the host that the user trusts; what it starts is not. Nothing that the image writes is
//! kept in memory beyond the last lines, and nothing it does keeps the run from ending.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::run_directory::{end_processes, start_process};
use crate::error::{Error, Kind, Result};

/// The runtime's own directory in that of the run.
pub(super) const STATE: &str = "runtime";
/// Bytes of a stream that are kept: the last ones.
const KEPT: usize = 16 << 10;
/// Bytes that a start may write to both streams.
const OUTPUT: u64 = 64 << 20;
const STEP: Duration = Duration::from_millis(4);
/// How long the runtime may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The runtimes that are looked for, in this order.
const KNOWN: [&str; 3] = ["runc", "crun", "youki"];

/// The program that was named, or the first known one on `PATH`.
pub(super) fn find_runtime(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        let is_file = fs::metadata(named).is_ok_and(|found| found.is_file());
        return if is_file { Ok(named.to_owned()) } else { Err(no_runtime().fact("runtime", named.display())) };
    }
    KNOWN.iter().find_map(|name| find_program(name)).ok_or_else(no_runtime)
}

fn no_runtime() -> Error {
    Error::usage("there is no OCI runtime to start the image with")
        .hint("install runc, or name a runtime with --runtime PATH")
}

/// A program on `PATH`.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let places = std::env::split_paths(&path).chain(usual).map(|directory| directory.join(name));
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    places.filter(|path| path.is_absolute()).find(is_program)
}

/// How a start went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartEnd {
    /// The program was not executed: in the words of the runtime.
    NotExecuted(String),
    /// It ended by itself: its exit status, or 128 and the number of a signal.
    Exited(i32),
    /// It was still running when its time was over.
    Running,
    /// It wrote more than it may.
    TooMuchOutput,
}

/// The last lines of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputTail {
    pub bytes: Vec<u8>,
    /// Whether there was more before them.
    pub is_cut: bool,
}

impl OutputTail {
    /// The last lines as text, at most this many.
    #[must_use]
    pub fn lines(&self, most: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let from = lines.len().saturating_sub(most);
        lines.iter().skip(from).map(|line| crate::error::printable(line)).collect()
    }
}

/// What a health check did, run once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthRun {
    pub argv: Vec<String>,
    /// `None` where it had to be ended.
    pub status: Option<i32>,
    pub output: OutputTail,
}

/// What came of one start.
#[derive(Debug, Clone)]
pub(super) struct RunOutcome {
    pub(super) end: StartEnd,
    pub(super) stdout: OutputTail,
    pub(super) stderr: OutputTail,
    pub(super) ports: BTreeSet<u16>,
    pub(super) health: Option<HealthRun>,
}

/// A health check to run where the program is still running.
pub(super) struct HealthCheck {
    pub(super) argv: Vec<String>,
    /// The process, as the runtime takes it.
    pub(super) process: Value,
    pub(super) patience: Duration,
}

/// A container of one run.
pub(super) struct Container<'a> {
    pub(super) runtime: &'a Path,
    /// The directory of the run.
    pub(super) run: &'a Path,
    pub(super) bundle: &'a Path,
    pub(super) id: &'a str,
}

impl Container<'_> {
    /// Starts it, and waits.
    pub(super) fn run(&self, seconds: Duration, health: Option<&HealthCheck>) -> Result<RunOutcome> {
        let (log, pid) = (self.bundle.join("runtime.log"), self.bundle.join("pid"));
        let mut command = self.command(Some(&log));
        command.arg("run").arg("--bundle").arg(self.bundle).arg("--pid-file").arg(&pid).arg(self.id);
        let mut child = spawn(&mut command)?;
        let written = Arc::new(AtomicU64::new(0));
        let stdout = child.stdout.take().map(|stream| follow(stream, Arc::clone(&written)));
        let stderr = child.stderr.take().map(|stream| follow(stream, Arc::clone(&written)));
        let (mut end, mut ports, mut checked) =
            (self.wait(&mut child, seconds, &pid, &written)?, BTreeSet::new(), None);
        if end == StartEnd::Running {
            ports = pid_of(&pid).map(listening).unwrap_or_default();
            checked = health.map(|check| self.check_health(check)).transpose()?;
        }
        self.kill(&mut child);
        let (stdout, stderr) = (tail(stdout), tail(stderr));
        if let StartEnd::Exited(status) = end
            && let Some(reason) = not_executed(status, &log, &stdout, &stderr)
        {
            end = StartEnd::NotExecuted(reason);
        }
        Ok(RunOutcome { end, stdout, stderr, ports, health: checked })
    }

    fn command(&self, log: Option<&Path>) -> Command {
        let mut command = Command::new(self.runtime);
        command.arg("--root").arg(self.run.join(STATE));
        if let Some(log) = log {
            command.arg("--log").arg(log).args(["--log-format", "json"]);
        }
        command.env_clear().env("PATH", crate::process::DEFAULT_PATH);
        if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR") {
            command.env("XDG_RUNTIME_DIR", directory);
        }
        command
    }

    /// The time counts from when the runtime has made the container.
    fn wait(&self, child: &mut Child, seconds: Duration, pid: &Path, written: &AtomicU64) -> Result<StartEnd> {
        let begun = Instant::now();
        let mut started = None;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| self.lost(&error))? {
                return Ok(StartEnd::Exited(exit_status(status)));
            }
            if written.load(Ordering::Relaxed) > OUTPUT {
                return Ok(StartEnd::TooMuchOutput);
            }
            if started.is_none() && pid_of(pid).is_some() {
                started = Some(Instant::now());
            }
            match started {
                Some(since) if since.elapsed() >= seconds => return Ok(StartEnd::Running),
                None if begun.elapsed() > PATIENCE + seconds => {
                    return Err(Error::new(Kind::Io, "the runtime did not start the image")
                        .fact("runtime", self.runtime.display()));
                }
                _ => std::thread::sleep(STEP),
            }
        }
    }

    fn check_health(&self, check: &HealthCheck) -> Result<HealthRun> {
        let file = self.bundle.join("health.json");
        let written = File::create(&file)
            .and_then(|mut file| io::Write::write_all(&mut file, check.process.to_string().as_bytes()));
        written.map_err(|error| Error::io("could not write a file for the run", &file, &error))?;
        let mut command = self.command(None);
        command.arg("exec").arg("--process").arg(&file).arg(self.id);
        let mut child = spawn(&mut command)?;
        let count = Arc::new(AtomicU64::new(0));
        let stdout = child.stdout.take().map(|stream| follow(stream, Arc::clone(&count)));
        let stderr = child.stderr.take().map(|stream| follow(stream, Arc::clone(&count)));
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|error| self.lost(&error))? {
                Some(status) => break Some(exit_status(status)),
                None if begun.elapsed() > check.patience || count.load(Ordering::Relaxed) > OUTPUT => break None,
                None => std::thread::sleep(STEP),
            }
        };
        if status.is_none() {
            // Its streams stay open until the container is killed.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(HealthRun { argv: check.argv.clone(), status, output: OutputTail::default() });
        }
        let (mut output, errors) = (tail(stdout), tail(stderr));
        output.bytes.extend(errors.bytes);
        Ok(HealthRun { argv: check.argv.clone(), status, output })
    }

    /// Kills the first process, and with its namespace all others; then the container is deleted.
    fn kill(&self, child: &mut Child) {
        let quiet = |command: &mut Command| {
            let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = start_process(command).and_then(|mut child| child.wait());
        };
        let until = Instant::now() + PATIENCE;
        if !matches!(child.try_wait(), Ok(Some(_))) {
            quiet(self.command(None).args(["kill", self.id, "KILL"]));
        }
        while !matches!(child.try_wait(), Ok(Some(_))) {
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(STEP);
        }
        if self.run.join(STATE).join(self.id).exists() {
            quiet(self.command(None).args(["delete", "--force", self.id]));
            // Whatever the runtime thinks of it: nobody may hold the streams open.
            end_processes(self.run);
        }
    }

    fn lost(&self, error: &io::Error) -> Error {
        Error::io("could not wait for the runtime", self.runtime, error)
    }
}

fn spawn(command: &mut Command) -> Result<Child> {
    let program = PathBuf::from(command.get_program());
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    start_process(command).map_err(|error| Error::io("could not start the runtime", &program, &error))
}

fn exit_status(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// The process that the runtime wrote down.
fn pid_of(file: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(file).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Keeps the last bytes of a stream, and reads it to its end.
fn follow(mut stream: impl Read + Send + 'static, written: Arc<AtomicU64>) -> JoinHandle<OutputTail> {
    std::thread::spawn(move || {
        let mut kept = OutputTail::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match stream.read(&mut buffer) {
                Ok(0) => return kept,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return kept,
            };
            written.fetch_add(read as u64, Ordering::Relaxed);
            kept.bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
            let over = kept.bytes.len().saturating_sub(KEPT);
            kept.is_cut |= over > 0;
            kept.bytes.drain(..over);
        }
    })
}

fn tail(reader: Option<JoinHandle<OutputTail>>) -> OutputTail {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

/// Why the program was not executed: what the runtime logged, or all that its last step wrote before it gave up.
fn not_executed(status: i32, log: &Path, stdout: &OutputTail, stderr: &OutputTail) -> Option<String> {
    let mut logged = String::new();
    if let Ok(file) = File::open(log) {
        let _ = file.take(64 << 10).read_to_string(&mut logged);
    }
    let errors = logged.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut errors = errors.filter(|entry| entry.get("level").and_then(Value::as_str) == Some("error"));
    if let Some(message) = errors.find_map(|entry| entry.get("msg").and_then(Value::as_str).map(str::to_owned)) {
        return Some(short(&message));
    }
    let lines = stderr.lines(2);
    match lines.as_slice() {
        [line] if matches!(status, 1 | 255) && stdout.bytes.is_empty() && line.starts_with("exec /") => {
            Some(short(line))
        }
        _ => None,
    }
}

/// Without what every message of the runtime begins with.
fn short(message: &str) -> String {
    let known = ["runc run failed: ", "unable to start container process: "];
    let rest = known.iter().fold(message, |rest, prefix| rest.strip_prefix(prefix).unwrap_or(rest));
    crate::error::printable(rest)
}

/// The TCP ports that are listened on in the network of a process.
fn listening(pid: u32) -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    const LIMIT: u64 = 4 << 20;
    let mut ports = BTreeSet::new();
    for name in ["tcp", "tcp6"] {
        let mut text = String::new();
        if let Ok(file) = File::open(format!("/proc/{pid}/net/{name}")) {
            let _ = file.take(LIMIT).read_to_string(&mut text);
        }
        for line in text.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
            let port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
            ports.extend(port.filter(|_| state == LISTEN));
        }
    }
    ports
}
