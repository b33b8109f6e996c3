//! A root on disk in which loaders run: as nobody, without a network, and never further than the loader goes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What the library in front of a program ends it with.
const LOADED: i32 = 42;
const NOBODY: u32 = 65534;

/// Ends the process before anything of the program or its libraries runs.
const EXIT: &str = "__attribute__((constructor)) static void leave(void) {\n\
    long status = 42;\n\
    __asm__ volatile(\"syscall\" :: \"a\"(231L), \"D\"(status));\n\
}\n";

pub struct Chroot {
    directory: TempDir,
}

/// What came of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The loader bound everything.
    Loaded,
    /// What it said instead.
    Failed(String),
    /// The user may not execute it.
    NotStarted,
}

impl Chroot {
    /// With the library that ends every program before it runs.
    pub fn new() -> Self {
        let root = Self::empty();
        let source = root.at("tmp/exit.c");
        fs::write(&source, EXIT).unwrap();
        let flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-z,initfirst", "-o"];
        let made = Command::new("gcc").args(flags).arg(root.at("exit.so")).arg(&source).status().unwrap();
        assert!(made.success());
        root
    }

    /// With the directories of a system whose `/lib` is in `/usr`, and nothing in them.
    pub fn empty() -> Self {
        let root = Self::bare();
        for made in ["usr/bin", "usr/lib", "usr/lib64"] {
            fs::create_dir_all(root.at(made)).unwrap();
        }
        for link in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), root.at(link)).unwrap();
        }
        root
    }

    /// With next to nothing.
    pub fn bare() -> Self {
        let directory = tempfile::Builder::new().prefix("link").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = Self { directory };
        for made in ["proc", "etc", "tmp"] {
            fs::create_dir_all(root.at(made)).unwrap();
        }
        root
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    /// Puts what the machine has there into the root, without a copy of it.
    pub fn bring(&self, path: &Path) {
        let to = self.at(path.to_str().unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if path.is_symlink() {
            symlink(fs::read_link(path).unwrap(), &to).unwrap();
        } else {
            fs::hard_link(path, &to).unwrap();
        }
    }

    /// Puts a copy of what a path of the machine leads to there.
    pub fn copy(&self, path: &str) {
        self.copy_to(path, path);
    }

    pub fn copy_to(&self, from: &str, to: &str) {
        let to = self.at(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }

    /// Asks the loader of a program what it would load; what it says where it misses something.
    pub fn traced(&self, emulator: &str, program: &str, variables: &[(&str, &str)]) -> Result<(), String> {
        let mut command = Command::new(emulator);
        for (name, value) in variables {
            command.args(["-E", &format!("{name}={value}")]);
        }
        let output = self.enter_with(command.arg(program).env_clear()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).trim().to_owned();
        let is_missing =
            ["not found", "undefined symbol", "error", "Inconsistency"].iter().any(|word| said.contains(word));
        if output.status.success() && !is_missing { Ok(()) } else { Err(format!("{:?} {said}", output.status)) }
    }

    /// Starts a program with everything bound at once, up to its first instruction.
    pub fn load(&self, program: &str, variables: &[(&str, &str)]) -> Outcome {
        assert!(self.at("exit.so").is_file(), "without it programs would run");
        let mut command = Command::new(program);
        command.env_clear().envs(variables.iter().copied()).env("LD_PRELOAD", "/exit.so").env("LD_BIND_NOW", "1");
        self.run(&mut command)
    }

    /// Runs a program that is meant to run.
    pub fn start(&self, program: &str, variables: &[(&str, &str)]) -> Outcome {
        let mut command = Command::new(program);
        command.env_clear().envs(variables.iter().copied());
        self.run(&mut command)
    }

    fn run(&self, command: &mut Command) -> Outcome {
        let output = match self.enter_with(command).output() {
            Ok(output) => output,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Outcome::NotStarted,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        match output.status.code() {
            Some(LOADED) => Outcome::Loaded,
            code => {
                let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).trim().to_owned();
                Outcome::Failed(format!("{code:?} {:?} {said}", output.status.signal()))
            }
        }
    }

    fn enter_with<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let root = std::ffi::CString::new(self.path().to_str().unwrap()).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: only calls to the kernel, between fork and exec.
        unsafe { command.pre_exec(move || enter(&root)) }
    }

    /// Writes the loader's cache, as an installation does.
    pub fn write_cache(&self) {
        let made = Command::new("ldconfig").arg("-r").arg(self.path()).stderr(Stdio::null()).status().unwrap();
        assert!(made.success());
    }
}

/// Changes the root, and gives up every right.
fn enter(root: &std::ffi::CStr) -> std::io::Result<()> {
    let done = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let (none, proc) = (std::ptr::null(), c"proc".as_ptr());
    // SAFETY: the pointers are to constants and to `root`, which outlive the calls.
    unsafe {
        done(libc::unshare(spaces))?;
        done(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
        done(libc::chroot(root.as_ptr()))?;
        done(libc::chdir(c"/".as_ptr()))?;
        // `$ORIGIN` of a program is what `/proc/self/exe` says.
        done(libc::mount(proc, c"/proc".as_ptr(), proc, 0, none.cast()))?;
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setgid(NOBODY))?;
        done(libc::setuid(NOBODY))?;
        // A loader that was put in the place of another may let the program run.
        libc::alarm(20);
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    }
}
