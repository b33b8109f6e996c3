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

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run_directory::end_run;
use crate::store::child_process::{self, ChildKind};
use crate::store::disk::start_process;
use oci::error::{Error, Kind, Result};

/// The runtime's own directory in that of the run.
pub(super) const STATE: &str = "runtime";
/// Bytes of a stream that are kept: the last ones.
const KEPT: usize = 16 << 10;
/// Bytes that a start may write to both streams.
const OUTPUT: u64 = 64 << 20;
const STEP: Duration = Duration::from_millis(4);
/// How long the runtime may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process of a health check, as the runtime takes it.
pub(super) const HEALTH_FILE: &str = "health.json";

/// The runtimes that are looked for, in this order.
const KNOWN: [&str; 3] = ["runc", "crun", "youki"];

/// The program that was named, or the first known one on `PATH`.
pub(super) fn find_runtime(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return named_runtime(named).ok_or_else(|| no_runtime().fact("runtime", named.display()));
    }
    KNOWN.iter().find_map(|name| find_program(name)).ok_or_else(no_runtime)
}

/// A file, from wherever it is executed; or, without a slash, a program on `PATH`.
fn named_runtime(named: &Path) -> Option<PathBuf> {
    match named.to_str() {
        Some(name) if !name.contains('/') => find_program(name),
        _ => std::path::absolute(named).ok().filter(|path| fs::metadata(path).is_ok_and(|found| found.is_file())),
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        lines.iter().skip(from).map(|line| oci::error::printable(line)).collect()
    }
}

/// What a health check did, run once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthRun {
    pub argv: Vec<String>,
    /// `None` where it had to be ended.
    pub status: Option<i32>,
    pub output: OutputTail,
}

/// What came of one start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunOutcome {
    pub(super) end: StartEnd,
    pub(super) stdout: OutputTail,
    pub(super) stderr: OutputTail,
    pub(super) ports: BTreeSet<u16>,
    pub(super) health: Option<HealthRun>,
    /// What of the image was replaced in the places of mounts.
    pub(super) replaced: Vec<String>,
}

impl RunOutcome {
    /// That of an image that no runtime was asked to start.
    pub(super) fn not_executed(reason: String, replaced: Vec<String>) -> Self {
        let (stdout, stderr) = (OutputTail::default(), OutputTail::default());
        let end = StartEnd::NotExecuted(reason);
        Self { end, stdout, stderr, ports: BTreeSet::new(), health: None, replaced }
    }
}

/// A health check to run where the program is still running. Its process is in `HEALTH_FILE`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HealthCheck {
    pub(super) argv: Vec<String>,
    pub(super) patience: Duration,
}

/// A container of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Container {
    pub(super) runtime: PathBuf,
    /// The directory of the run.
    pub(super) run: PathBuf,
    pub(super) bundle: PathBuf,
    pub(super) id: String,
    /// What it executes, as its command has it.
    pub(super) program: String,
}

/// What was seen while it ran.
type Watched = (StartEnd, BTreeSet<u16>, Option<HealthRun>);

impl Container {
    /// Starts it, and waits. That the runtime failed is an error, and nothing that is to be said of the image.
    pub(super) fn run(&self, seconds: Duration, health: Option<&HealthCheck>) -> Result<RunOutcome> {
        let mut command = self.command(Some(&self.log()));
        command.arg("run").arg("--bundle").arg(&self.bundle).arg("--pid-file").arg(self.pid_file()).arg(&self.id);
        let mut child = spawn(&mut command)?;
        let written = Arc::new(AtomicU64::new(0));
        let stdout = child.stdout.take().map(|stream| follow(stream, Arc::clone(&written)));
        let stderr = child.stderr.take().map(|stream| follow(stream, Arc::clone(&written)));
        let watched = self.watch(&mut child, (seconds, health), &written);
        self.kill(&mut child);
        let (stdout, stderr) = (tail(stdout), tail(stderr));
        let (end, ports, health) = watched?;
        let end = match end {
            StartEnd::Exited(status) => self.judge_exit(status, &stdout, &stderr)?,
            end => end,
        };
        Ok(RunOutcome { end, stdout, stderr, ports, health, replaced: Vec::new() })
    }

    /// Writes a document that the runtime reads.
    pub(super) fn write(&self, name: &str, document: &Value) -> Result<()> {
        let path = self.bundle.join(name);
        let written = File::create_new(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, document.to_string().as_bytes()));
        written.map_err(|error| Error::io("could not write a file for the run", &path, &error))
    }

    fn log(&self) -> PathBuf {
        self.bundle.join("runtime.log")
    }

    fn pid_file(&self) -> PathBuf {
        self.bundle.join("pid")
    }

    fn watch(
        &self,
        child: &mut Child,
        (seconds, health): (Duration, Option<&HealthCheck>),
        written: &AtomicU64,
    ) -> Result<Watched> {
        let pid = self.pid_file();
        let end = self.wait(child, seconds, &pid, written)?;
        if end != StartEnd::Running {
            return Ok((end, BTreeSet::new(), None));
        }
        let ports = pid_of(&pid).map(listening).unwrap_or_default();
        Ok((end, ports, health.map(|check| self.check_health(check)).transpose()?))
    }

    /// Whose exit status it is: that of the program, of the runtime's last step, which did not become the program, or
    /// of a runtime that never came so far as to write down a process.
    fn judge_exit(&self, status: i32, stdout: &OutputTail, stderr: &OutputTail) -> Result<StartEnd> {
        let said = |words: &str| program_error(words).map(|words| StartEnd::NotExecuted(self.naming_program(&words)));
        let lines = stderr.lines(2);
        if pid_of(&self.pid_file()).is_some() {
            let last_step = match lines.as_slice() {
                [line] if matches!(status, 1 | 255) && stdout.bytes.is_empty() => said(&message_of(line)),
                _ => None,
            };
            return Ok(last_step.unwrap_or(StartEnd::Exited(status)));
        }
        let words = logged_error(&self.log()).or_else(|| lines.last().cloned()).unwrap_or_default();
        said(&words).ok_or_else(|| {
            let error = Error::new(Kind::Io, "the runtime could not start the image")
                .fact("runtime", self.runtime.display())
                .fact("status", status);
            let error = if words.is_empty() { error } else { error.cause(words) };
            error.hint("try it with another runtime: --runtime PATH")
        })
    }

    /// The runtime does not always say what it could not execute.
    fn naming_program(&self, words: &str) -> String {
        let name = oci::error::printable(&self.program);
        if words.contains(name.as_str()) { words.to_owned() } else { format!("{name}: {words}") }
    }

    fn command(&self, log: Option<&Path>) -> Command {
        let mut command = child_process::command(&self.runtime, ChildKind::Runtime);
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
                    return Err(Error::new(Kind::Io, "the runtime did not start the image in time")
                        .fact("runtime", self.runtime.display())
                        .hint("try it with another runtime: --runtime PATH"));
                }
                _ => std::thread::sleep(STEP),
            }
        }
    }

    fn check_health(&self, check: &HealthCheck) -> Result<HealthRun> {
        let file = self.bundle.join(HEALTH_FILE);
        let mut command = self.command(None);
        command.arg("exec").arg("--process").arg(&file).arg(&self.id);
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

    /// Kills the first process, and with its namespace all others; then the container is deleted. Whatever the runtime
    /// thinks of it: nobody may hold the streams open.
    fn kill(&self, child: &mut Child) {
        let until = Instant::now() + PATIENCE;
        if !has_ended(child, Instant::now()) {
            self.ask_runtime(&["kill", &self.id, "KILL"], until);
        }
        if !has_ended(child, until) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.run.join(STATE).join(&self.id).exists() {
            self.ask_runtime(&["delete", "--force", &self.id], Instant::now() + PATIENCE);
            end_run(&self.run);
        }
    }

    /// One more command of the runtime, which may hang like any other.
    fn ask_runtime(&self, arguments: &[&str], until: Instant) {
        let mut command = self.command(None);
        let command = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = start_process(command) else { return };
        if !has_ended(&mut child, until) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn lost(&self, error: &io::Error) -> Error {
        Error::io("could not wait for the runtime", &self.runtime, error)
    }
}

/// Whether it has, once it has or the time is over.
fn has_ended(child: &mut Child, until: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            _ if Instant::now() >= until => return false,
            _ => std::thread::sleep(STEP),
        }
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

/// The end of a stream; nothing, where somebody holds it open for longer than the container lives.
fn tail(reader: Option<JoinHandle<OutputTail>>) -> OutputTail {
    let until = Instant::now() + PATIENCE;
    while reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
        std::thread::sleep(STEP);
    }
    reader.filter(JoinHandle::is_finished).and_then(|reader| reader.join().ok()).unwrap_or_default()
}

/// The first error that the runtime logged.
fn logged_error(log: &Path) -> Option<String> {
    let mut logged = String::new();
    let _ = File::open(log).ok()?.take(64 << 10).read_to_string(&mut logged);
    logged.lines().find_map(error_message)
}

/// The message of a line of the log, where it is one of an error.
fn error_message(line: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(line).ok()?;
    (entry.get("level").and_then(Value::as_str) == Some("error")).then_some(())?;
    entry.get("msg").and_then(Value::as_str).map(str::to_owned)
}

/// The message of a line on stderr, which may be one of the log: crun has no other place for it at its last step.
fn message_of(line: &str) -> String {
    error_message(line).unwrap_or_else(|| line.to_owned())
}

/// What the runtimes say of a program that they could not execute, without what all their messages begin with. Any
/// other message is about themselves.
fn program_error(message: &str) -> Option<String> {
    // runc
    const LEADS: [&str; 3] =
        ["runc run failed: ", "unable to start container process: ", "error during container init: "];
    const OF_RUNC: [&str; 3] = ["exec: \"", "exec /", "chdir to cwd ("];
    const OF_CRUN: [&str; 4] = ["executable file `", "open executable: ", "exec container process ", "chdir `"];
    let rest = LEADS.iter().fold(message, |rest, lead| rest.strip_prefix(lead).unwrap_or(rest));
    let is_known = OF_RUNC.iter().chain(&OF_CRUN).any(|known| rest.starts_with(known));
    is_known.then(|| oci::error::printable(rest))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_program_is_told_from_what_a_runtime_says_of_itself() {
        for (message, expected) in [
            (
                r#"runc run failed: unable to start container process: exec: "/none": stat /none: no such file or directory"#,
                Some(r#"exec: "/none": stat /none: no such file or directory"#),
            ),
            ("exec /garbage: exec format error", Some("exec /garbage: exec format error")),
            (
                "executable file `/none` not found in $PATH: No such file",
                Some("executable file `/none` not found in $PATH: No such file"),
            ),
            ("open executable: Permission denied", Some("open executable: Permission denied")),
            ("exec container process `/x`: Exec format error", Some("exec container process `/x`: Exec format error")),
            (r#"error mounting "proc" to rootfs at "/proc": operation not permitted"#, None),
            ("cgroups in hybrid mode not supported, drop all controllers from cgroupv2", None),
            ("runc run failed: unable to start container process: unable to apply cgroup configuration: x", None),
            ("", None),
        ] {
            assert_eq!(program_error(message).as_deref(), expected, "{message}");
        }
    }

    #[test]
    fn a_line_of_the_log_is_read_wherever_it_is_written() {
        let line = r#"{"msg":"exec container process `/x`: Exec format error","level":"error","time":"t"}"#;
        assert_eq!(message_of(line), "exec container process `/x`: Exec format error");
        assert_eq!(message_of(r#"{"msg":"x","level":"warning"}"#), r#"{"msg":"x","level":"warning"}"#);
        assert_eq!(message_of("plain"), "plain");
    }
}
