//! Runs the binary as a person would, but with nothing of this machine's environment, and never
//! for ever.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The binary just built, or the one that `UNDERPIN_TEST_BINARY` names, so that a released one can
/// be put to the same test.
pub fn binary() -> String {
    std::env::var("UNDERPIN_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_underpin").to_owned())
}

/// All that the binary sees of the machine: a home, a directory for temporary files, a working directory.
pub struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "here"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `underpin` with these arguments.
    pub fn underpin<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Invocation {
        self.program(&binary(), args)
    }

    /// Another program in the same surroundings.
    pub fn program<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Invocation {
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(self.path("here"));
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("XDG_CACHE_HOME", self.path("xdg-cache"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The tests themselves may run under `nohup`.
        Invocation { command, limit: Duration::from_secs(120) }.upon(libc::SIGHUP, libc::SIG_DFL)
    }

    /// What was written where nothing should be: home, the current folder, temporary files.
    pub fn strays(&self) -> Vec<PathBuf> {
        ["home", "tmp", "here"].iter().flat_map(|name| files_under(&self.path(name))).collect()
    }
}

/// Every file below `folder`, links not followed.
pub fn files_under(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths
        .flat_map(|path| match path.symlink_metadata() {
            Ok(data) if data.is_dir() => files_under(&path),
            _ => vec![path],
        })
        .collect()
}

/// A command line that has not been started yet.
pub struct Invocation {
    pub(super) command: Command,
    limit: Duration,
}

impl Invocation {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub fn umask(mut self, mask: libc::mode_t) -> Self {
        // SAFETY: umask is safe to call between fork and exec, and touches only the child.
        unsafe {
            self.command.pre_exec(move || {
                libc::umask(mask);
                Ok(())
            });
        }
        self
    }

    /// As `nohup` starts it with `SIG_IGN` upon `SIGHUP`.
    pub fn upon(mut self, signal: libc::c_int, disposition: libc::sighandler_t) -> Self {
        // SAFETY: signal is safe to call between fork and exec, and touches only the child.
        unsafe {
            self.command.pre_exec(move || {
                libc::signal(signal, disposition);
                Ok(())
            });
        }
        self
    }

    /// Divides the client's own waits by 20; what a registry asks for is waited in full.
    pub fn hurried(self) -> Self {
        self.env("UNDERPIN_TEST_PACE", "20")
    }

    /// Killed after this long, which fails the test.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub fn start(mut self) -> Running {
        let mut child = die_with_us(&mut self.command).spawn().unwrap();
        let line = format!("{:?} # process {}", self.command, child.id());
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Running { child, stdout, stderr, started: Instant::now(), limit: self.limit, line }
    }

    pub fn run(self) -> Run {
        self.start().finish()
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub struct Running {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    started: Instant,
    limit: Duration,
    line: String,
}

impl Running {
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// Whether it has not ended yet; [`Self::finish`] can still be asked how it did.
    pub fn is_running(&self) -> bool {
        // SAFETY: siginfo is plain data, for which zero is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the pointer is to a live value of the right type.
        let done = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut info, options) };
        assert!(done == 0, "{}", std::io::Error::last_os_error());
        // SAFETY: after a successful call the number is set; zero says that nothing has happened.
        unsafe { info.si_pid() == 0 }
    }

    fn pid(&self) -> libc::pid_t {
        libc::pid_t::try_from(self.child.id()).unwrap()
    }

    pub fn finish(self) -> Run {
        let End { status, peak, processor } = self.wait();
        let elapsed = self.started.elapsed();
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        let run = Run { line: self.line, status, stdout, stderr, elapsed, peak, processor };
        assert!(!run.stderr.contains("panicked at"), "a panic is always a bug\n{run}");
        run
    }

    fn wait(&self) -> End {
        let mut killed = false;
        loop {
            if let Some(done) = poll(self.pid()) {
                assert!(!killed, "{} did not end within {:?}", self.line, self.limit);
                return done;
            }
            if self.started.elapsed() > self.limit {
                self.signal(libc::SIGKILL);
                killed = true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// How a child ended, how many KiB it held at most, and for how long it was at work.
struct End {
    status: ExitStatus,
    peak: u64,
    processor: Duration,
}

/// The end of the child, once it has come.
fn poll(pid: libc::pid_t) -> Option<End> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types.
    let done = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    assert!(done >= 0, "{}", std::io::Error::last_os_error());
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    (done == pid).then(|| End {
        status: ExitStatus::from_raw(status),
        peak: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        processor: time(usage.ru_utime) + time(usage.ru_stime),
    })
}

// What a run of the binary left behind, and what may be asked of it.

/// What a finished run left behind.
pub struct Run {
    /// The command line, as a person could repeat it.
    pub line: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
    /// The most memory it held, in KiB.
    pub peak: u64,
    /// What it cost, however busy the machine was.
    pub processor: Duration,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, status, stdout, stderr, elapsed, peak, processor } = self;
        write!(
            f,
            "$ {line}\n{status}, {elapsed:?}, {processor:?} of it at work, {peak} KiB\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )
    }
}

impl Run {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Exit 0.
    pub fn ok(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self}");
        self
    }

    /// Exit 1: the image must not move as it is.
    pub fn refused(self) -> Self {
        assert_eq!(self.code(), Some(1), "{self}");
        self
    }

    /// Exit 2 with an error of this kind, and no data on stdout.
    pub fn fails(self, kind: &str) -> Self {
        assert_eq!(self.code(), Some(2), "{self}");
        assert_eq!(self.kind().as_deref(), Some(kind), "{self}");
        assert_eq!(self.stdout, "", "stdout carries data only\n{self}");
        self
    }

    /// The word of the `kind` line of the error.
    pub fn kind(&self) -> Option<String> {
        self.stderr.lines().find_map(|line| line.trim().strip_prefix("kind ").map(|word| word.trim().to_owned()))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The pinned references on stdout.
    pub fn pinned(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// The one digest on stdout.
    pub fn digest(&self) -> String {
        let pinned = self.pinned();
        let found = pinned.first().and_then(|line| line.split_once('@')).map(|(_, digest)| digest.to_owned());
        assert_eq!(pinned.len(), 1, "one pinned reference\n{self}");
        found.unwrap_or_else(|| panic!("no digest on stdout\n{self}"))
    }

    /// The message on stderr has this word, in any case.
    pub fn says(self, word: &str) -> Self {
        assert!(self.stderr.to_lowercase().contains(&word.to_lowercase()), "nothing of `{word}`\n{self}");
        self
    }
}

/// A child that does not outlive a test that was killed.
pub fn die_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: prctl is safe to call between fork and exec, and touches only the child.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Invocation {
        Sandbox::new().program("/bin/sh", ["-c", script]).current_dir(Path::new("/"))
    }

    #[test]
    fn a_run_knows_how_it_ended_and_what_it_said() {
        let run = sh("echo r/n@sha256:1; printf 'error: x\\n  kind      network\\n' >&2; exit 2").run();
        assert_eq!((run.code(), run.digest().as_str()), (Some(2), "sha256:1"));
        assert_eq!(run.kind().as_deref(), Some("network"));
        assert!(run.peak > 100, "{run}");
        let running = sh("exec sleep 60").start();
        assert!(running.is_running());
        running.signal(libc::SIGKILL);
        while running.is_running() {}
        assert_eq!(running.finish().status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn nothing_of_this_machine_leaks_in() {
        let run = sh("env; umask").umask(0o77).env("TZ", "UTC").run();
        let mut names: Vec<&str> = run.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.retain(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name));
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "TMPDIR", "TZ", "XDG_CACHE_HOME"]);
        assert!(run.stdout.ends_with("0077\n"), "{run}");
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_run_that_hangs_fails() {
        sh("exec sleep 60").limit(Duration::from_millis(50)).run();
    }

    #[test]
    fn strays_are_found() {
        let sandbox = Sandbox::new();
        assert!(sandbox.strays().is_empty());
        sandbox.program("/bin/sh", ["-c", "mkdir $TMPDIR/a; touch $TMPDIR/a/b here"]).run();
        assert_eq!(sandbox.strays().len(), 2);
    }
}
