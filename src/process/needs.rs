//! What the programs of an application use that only the old root had, and what shows it.
//!
//! The rule it owns: only a whole string that the program refers to counts, and it counts for what it
//! is. A path to a program is a call where the program can start others; a bare word is one where the code
//! passes it to what starts programs, or together with a package that the image's own layers installed, or
//! with a Go package that is there to run the tool. A path to anything else is a file that may be read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::container::{Container, DEFAULT_PATH};
use super::named_paths::{LostPath, MoveView};
use super::program::library_directories;
use elf::{Program, StartsOthers, Tool};
use layer::RootPath;
use shell::UsedCommands;
use start::link::{Linker, LoaderEnvironment};
use start::rootfs::Root;

/// Something that a program uses and that goes missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The program that uses it.
    pub program: String,
    /// As the program has it.
    pub name: String,
    pub kind: AbsentKind,
    pub shown_by: Evidence,
    /// Where the source has it.
    pub path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AbsentKind {
    Tool,
    Library,
    File,
}

/// What shows that it is used, the strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A path to it is a string of the program, at this offset of the file.
    Path(u64),
    /// The code passes its name to a function that starts programs.
    Call,
    /// A script of the image has it where a command begins, or reads it.
    Script,
    /// A word of the command is its name.
    Argument,
    /// The program has what runs command lines with a shell.
    SystemCall,
    /// Its name is a string of the program, and this package with it was installed by the image's own layers.
    Installed(String),
    /// This Go package is linked in, and its only purpose is to run it.
    Package(String),
    /// The same, but a linker keeps it where nobody calls it.
    UnusedPackage(String),
    /// Its name is a string of the program.
    Word,
    /// The program calls this function of glibc, which opens it.
    LibcFunction(String),
}

impl Evidence {
    /// For reports.
    #[must_use]
    pub fn words(&self, name: &str) -> String {
        match self {
            Self::Path(offset) => format!("the string {name} is at offset {offset:#x}, and code refers to it"),
            Self::Call => format!("its code starts `{name}`"),
            Self::Script => format!("the script names {name}"),
            Self::Argument => format!("`{name}` is a word of the command"),
            Self::SystemCall => "it contains `system` or `popen`, which run /bin/sh".to_owned(),
            Self::Installed(package) => {
                format!("it names `{name}`, and a layer of the image installed package {package}")
            }
            Self::Package(package) | Self::UnusedPackage(package) => format!("it contains the package {package}"),
            Self::Word => format!("`{name}` is one of its strings"),
            Self::LibcFunction(function) => format!("it calls `{function}`, for which glibc opens {name}"),
        }
    }
}

/// A package that the image's own layers installed and that stays behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingPackage {
    pub name: String,
    pub version: String,
    /// Its files that the result does not have.
    pub files: Vec<RootPath>,
}

/// Where needs are looked up.
pub(super) struct NeedsSearch<'a> {
    view: &'a MoveView<'a>,
    source: &'a Root<'a>,
    rebased: &'a Root<'a>,
    paths: String,
    /// The files of leaving packages, and whose they are.
    left: BTreeMap<&'a RootPath, &'a str>,
    /// The programs of leaving packages by name: the package, and where it is.
    installed: BTreeMap<&'a [u8], (&'a str, &'a RootPath)>,
    /// What libraries are loaded with, and by what, on either side.
    environment: LoaderEnvironment,
    source_linker: RefCell<Linker<'a>>,
    rebased_linker: RefCell<Linker<'a>>,
}

/// Packages that are linked into programs which never run the tool: kube-controller-manager has the code
/// for mounts of every kind of volume, and mounts none.
const OFTEN_UNUSED: [&str; 4] = [
    "k8s.io/mount-utils",
    "k8s.io/utils/mount",
    "k8s.io/kubernetes/pkg/util/mount",
    "k8s.io/kubernetes/pkg/volume/util/volumepathhandler",
];

/// Shells. A Go program that has such a path often gives it to somebody else: kube-controller-manager has it in the
/// command of a pod. Where its own code starts one, that is seen as a call.
const SHELLS: [&str; 6] = ["/bin/ash", "/bin/bash", "/bin/dash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"];
/// Values of options that are no names.
const ANSWERS: [&str; 3] = ["false", "true", "yes"];

/// Names of programs that are words of other meanings, or strings of Go's own library (`gzip` is an encoding,
/// `telnet` a port, `readlink` a call of the system): alone they show nothing.
const COMMON_WORDS: [&str; 99] = [
    "apropos", "arch", "arp", "awk", "base64", "basename", "bash", "cal", "cat", "chmod", "chown", "clear", "cmp",
    "comm", "cut", "date", "delta", "diff", "dir", "dirname", "echo", "env", "expand", "expiry", "expr", "factor",
    "false", "file", "find", "fmt", "fold", "free", "ftp", "grep", "groups", "gzip", "head", "host", "hostid",
    "hostname", "id", "install", "join", "kill", "last", "link", "logger", "login", "look", "man", "mkdir", "more",
    "mount", "nice", "passwd", "paste", "patch", "print", "printf", "pwd", "readlink", "reset", "resume", "rev",
    "rmdir", "run", "script", "sed", "select", "seq", "service", "sleep", "sort", "split", "stat", "strings", "sum",
    "svc", "sync", "tac", "tail", "tee", "telnet", "test", "time", "timeout", "top", "touch", "true", "truncate",
    "tty", "unlink", "users", "watch", "which", "who", "whoami", "write", "yes",
];
/// Shorter names are parts of everything.
const SHORTEST_WORD: usize = 3;

/// What libc looks for of its own accord, and does without.
const OF_LIBC: [&str; 14] = [
    "etc/ld.so.cache",
    "etc/ld.so.preload",
    "etc/suid-debug",
    "etc/gai.conf",
    "etc/host.conf",
    "etc/nsswitch.conf",
    "lib",
    "lib64",
    "usr/lib",
    "usr/lib64",
    "usr/share/locale",
    "usr/lib/locale",
    "var/tmp",
    "var/run/nscd",
];
/// Lists that Go's library goes through: one that is there is enough.
const ALTERNATIVES: [&[&str]; 4] = [
    &[
        "etc/ssl/certs/ca-certificates.crt",
        "etc/pki/tls/certs/ca-bundle.crt",
        "etc/ssl/ca-bundle.pem",
        "etc/pki/tls/cacert.pem",
        "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "etc/ssl/cert.pem",
        "etc/ssl/certs",
        "etc/pki/tls/certs",
    ],
    &["usr/share/zoneinfo", "usr/share/lib/zoneinfo", "usr/lib/locale/TZ", "etc/zoneinfo"],
    &["etc/mime.types", "etc/apache2/mime.types", "etc/apache/mime.types", "etc/httpd/conf/mime.types"],
    &["etc/protocols", "etc/services"],
];
/// Whether it is on a list that Go's library goes through, in every program.
fn is_tried_by_go(path: &RootPath) -> bool {
    ALTERNATIVES.iter().any(|list| list.iter().any(|other| is_path(path, other)))
}

fn is_path(path: &RootPath, other: &str) -> bool {
    RootPath::new(other).is_ok_and(|other| other == *path)
}

/// Loaded by every C library, whoever calls it.
const LIBRARIES_OF_LIBC: [&str; 8] =
    ["libc.so", "libgcc_s.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libnss_", "ld-linux"];

/// What glibc opens when one of these functions is called, and does not need before. Since 2.34 what names
/// are looked up with is in libc itself.
const OPENED_BY_LIBC: [(&[&str], &[&str]); 2] = [
    (
        &["getaddrinfo", "gethostbyname", "gethostbyname_r", "gethostbyname2", "getnameinfo", "gethostbyaddr"],
        &["libnss_dns.so.2", "libnss_files.so.2"],
    ),
    (&["getpwnam", "getpwnam_r", "getpwuid", "getpwuid_r", "getgrnam", "getgrgid"], &["libnss_files.so.2"]),
];
const HAS_NAME_SERVICES: &str = "GLIBC_2.34";
/// What it converts text with.
const CONVERSION: (&str, &str) = ("iconv_open", "gconv");

impl<'a> NeedsSearch<'a> {
    pub(super) fn new(
        container: &Container,
        view: &'a MoveView<'a>,
        leaving: &'a [LeavingPackage],
        environment: LoaderEnvironment,
    ) -> Self {
        let installed = leaving.iter().flat_map(|package| {
            let programs = package.files.iter().filter(|path| is_in_program_directory(path));
            programs.filter_map(|path| Some((path.name()?, (package.name.as_str(), path))))
        });
        let paths = format!("{}:{}", container.search_path(), DEFAULT_PATH);
        let (source, rebased) = (view.before.root, view.after.root);
        let linker = |root| RefCell::new(Linker::new(root));
        let (source_linker, rebased_linker) = (linker(source), linker(rebased));
        let installed = installed.collect();
        let left = leaving.iter().flat_map(|package| package.files.iter().map(|path| (path, package.name.as_str())));
        let left = left.collect();
        Self { view, source, rebased, paths, left, installed, environment, source_linker, rebased_linker }
    }

    /// Everything that one program uses and only the source has.
    pub(super) fn of_program(&self, path: &RootPath, program: &Program) -> Vec<Absent> {
        let shown = path.to_string();
        let mut found = self.paths(&shown, program);
        if program.starts != StartsOthers::Never {
            found.extend(self.tools(&shown, program, &found));
        }
        found.extend(self.libraries(path, program));
        found
    }

    /// What a script runs and reads.
    pub(super) fn of_script(&self, path: &str, used: &UsedCommands) -> Vec<Absent> {
        let tool = |name: &String| {
            let at = self.lost_tool(name)?;
            Some(absent(path, name, AbsentKind::Tool, Evidence::Script, at))
        };
        let file = |name: &String| {
            let lost = self.view.lost(name).filter(|lost| lost.is_gone() && *lost != LostPath::EmptyDirectory)?;
            let kind = if lost == LostPath::Program { AbsentKind::Tool } else { AbsentKind::File };
            Some(absent(path, name, kind, Evidence::Script, self.view.place(name)?.to_string()))
        };
        used.commands.iter().filter_map(tool).chain(used.paths.iter().filter_map(file)).collect()
    }

    /// A word of the command that is the name of a program, and of nothing else.
    pub(super) fn of_word(&self, word: &str) -> Option<Absent> {
        let at = self.lost_tool(word).filter(|_| !ANSWERS.contains(&word))?;
        let evidence = match self.installed.get(word.as_bytes()) {
            Some((package, _)) => Evidence::Installed((*package).to_owned()),
            None if is_telling(word) => Evidence::Argument,
            None => Evidence::Word,
        };
        Some(absent("the command", word, AbsentKind::Tool, evidence, at))
    }

    fn paths(&self, shown: &str, program: &Program) -> Vec<Absent> {
        let mut found = Vec::new();
        for string in &program.strings.paths {
            let Ok(path) = RootPath::new(&string.text) else { continue };
            // Every `exec` of a C library has it, for files that are no programs: only `system` and `popen`
            // count, below.
            let is_of_libc = program.go.is_none() && string.text == "/bin/sh";
            let Some(lost) = self.view.lost(&string.text).filter(|_| !is_of_libc) else { continue };
            let is_call = lost == LostPath::Program && program.starts != StartsOthers::Never;
            let kind = match lost {
                _ if is_call => AbsentKind::Tool,
                LostPath::EmptyDirectory => continue,
                LostPath::NotWritable if self.is_other_user() => continue,
                _ if self.is_done_without(&path) => continue,
                _ => AbsentKind::File,
            };
            let evidence = match self.left.get(&path) {
                _ if kind == AbsentKind::Tool && is_of_others(&string.text, program) => Evidence::Word,
                Some(package) if lost == LostPath::File && !is_tried_by_go(&path) => {
                    Evidence::Installed((*package).to_owned())
                }
                _ => Evidence::Path(string.offset),
            };
            found.push(absent(shown, &string.text, kind, evidence, path.to_string()));
        }
        found
    }

    /// Whether the process runs as somebody else, which is said for all files at once.
    fn is_other_user(&self) -> bool {
        self.view.before.who.uid != self.view.after.who.uid
    }

    /// Whether a library does without the path, or has another one to go to.
    fn is_done_without(&self, path: &RootPath) -> bool {
        let is_same = |other: &&str| is_path(path, other);
        let is_there = |other: &&str| RootPath::new(other).is_ok_and(|other| self.rebased.resolve(&other).is_ok());
        let is_utc = || path.as_bytes() == b"etc/localtime" && self.has_default_zone(path);
        let is_directory = || self.source.resolve(path).is_ok_and(|found| found.node.is_directory());
        OF_LIBC.iter().any(is_same)
            || (is_directory() && (path.as_bytes().starts_with(b"usr/lib/") || path.as_bytes().starts_with(b"lib/")))
            || ALTERNATIVES.iter().any(|list| list.iter().any(is_same) && list.iter().any(is_there))
            || is_utc()
    }

    /// Whether `/etc/localtime` says what is so without it.
    fn has_default_zone(&self, path: &RootPath) -> bool {
        let zone = self.source.resolve(path).ok();
        zone.is_some_and(|zone| matches!(zone.path.name(), Some(b"UTC" | b"UCT" | b"Universal" | b"Zulu")))
    }

    fn tools(&self, shown: &str, program: &Program, known: &[Absent]) -> Vec<Absent> {
        let mut found: Vec<Absent> = Vec::new();
        let mut names = BTreeSet::new();
        let mut add = |name: &str, evidence: Evidence, at: String| {
            let is_known = known.iter().any(|absent| absent.kind == AbsentKind::Tool && absent.path == at);
            if !is_known && names.insert(name.to_owned()) {
                found.push(absent(shown, name, AbsentKind::Tool, evidence, at));
            }
        };
        if program.starts == StartsOthers::Shell
            && let Some(at) = self.lost_tool("/bin/sh")
        {
            add("/bin/sh", Evidence::SystemCall, at);
        }
        let is_often_unused = |tool: &&Tool| OFTEN_UNUSED.contains(&tool.package.as_str());
        let unused: BTreeSet<&str> =
            program.runs.iter().filter(is_often_unused).map(|tool| tool.name.as_str()).collect();
        // The call is in the package.
        for name in program.strings.calls.iter().filter(|name| !unused.contains(name.as_str())) {
            if let Some(at) = self.lost_tool(name) {
                add(name, Evidence::Call, at);
            }
        }
        let words = || program.strings.words.iter().chain(&program.strings.command_words);
        for word in words() {
            if let Some((package, path)) = self.installed.get(word.as_bytes()) {
                add(word, Evidence::Installed((*package).to_owned()), path.to_string());
            }
        }
        for tool in &program.runs {
            if let Some(at) = self.lost_tool(&tool.name) {
                let evidence = if is_often_unused(&tool) { Evidence::UnusedPackage } else { Evidence::Package };
                add(&tool.name, evidence(tool.package.clone()), at);
            }
        }
        for word in words().filter(|word| is_telling(word)) {
            if let Some(at) = self.lost_tool(word) {
                add(word, Evidence::Word, at);
            }
        }
        found
    }

    /// Where the source has a program that the result does not have.
    fn lost_tool(&self, name: &str) -> Option<String> {
        let find = |root: &Root<'_>| {
            root.search(name, &self.paths, &RootPath::root()).ok().map(|found| found.file.path.to_string())
        };
        let before = find(self.source)?;
        find(self.rebased).is_none().then_some(before)
    }

    /// Libraries that the program opens by name and only the source can load for it.
    fn libraries(&self, path: &RootPath, program: &Program) -> Vec<Absent> {
        let names = program.strings.libraries().filter(|name| !is_of_libc(name));
        let is_needed = |name: &str| program.needed.iter().any(|needed| needed.starts_with(name));
        let loads = program.go.as_ref().is_none_or(|go| !go.is_without_cgo());
        let names = names.filter(|name| loads && !is_needed(name));
        let shown = path.to_string();
        let absent = |name: &String| {
            let at = self.lost_library(path, name)?;
            Some(absent(&shown, name, AbsentKind::Library, Evidence::Word, at))
        };
        names.filter_map(absent).chain(self.opened_by_libc(path, program)).collect()
    }

    /// What glibc itself opens for the program, and only the source has.
    fn opened_by_libc(&self, path: &RootPath, program: &Program) -> Vec<Absent> {
        let Some(facts) = &program.dynamic else { return Vec::new() };
        let used = |names: &[&str]| {
            let found = facts.uses.iter().find(|symbol| names.contains(&symbol.name.as_str()));
            found.map(|symbol| symbol.name.clone())
        };
        let shown = path.to_string();
        let absent = |name: &str, function: String, at: String| {
            absent(&shown, name, AbsentKind::Library, Evidence::LibcFunction(function), at)
        };
        let services = OPENED_BY_LIBC.iter().filter_map(|(functions, libraries)| {
            let (function, library) = (used(functions)?, libraries.iter().find(|name| !self.is_opened(path, name))?);
            Some(absent(library, function, self.lost_library(path, library)?))
        });
        let (function, directory) = CONVERSION;
        let tables = used(&[function]).and_then(|function| {
            let at = find_library(directory, self.source)?;
            find_library(directory, self.rebased).is_none().then(|| absent(directory, function, at))
        });
        let mut found: Vec<Absent> = services.chain(tables).collect();
        found.dedup_by(|one, other| one.name == other.name);
        found
    }

    /// Whether the result's libc has what it would otherwise open, or can open it.
    fn is_opened(&self, program: &RootPath, name: &str) -> bool {
        let linked = self.rebased_linker.borrow_mut().closure(program, &self.environment);
        let files = linked.files.iter().filter_map(|file| self.rebased.get(&file.path));
        let mut facts = files.filter_map(|node| self.rebased.program(node)?.dynamic.as_ref());
        let has_all = facts.any(|facts| facts.version_definitions.iter().any(|known| known.name == HAS_NAME_SERVICES));
        has_all || linked.missing.is_some() || self.lost_library(program, name).is_none()
    }

    /// Where the source has a library that the result does not have, or cannot load.
    fn lost_library(&self, program: &RootPath, name: &str) -> Option<String> {
        let opened = |linker: &RefCell<Linker<'_>>| {
            let linked = linker.borrow_mut().closure_with(program, &[name], &self.environment);
            let file = linked.files.into_iter().find(|file| file.name == name);
            file.filter(|_| linked.missing.is_none()).map(|file| file.path.to_string())
        };
        if let Some(at) = opened(&self.source_linker) {
            return opened(&self.rebased_linker).is_none().then_some(at);
        }
        let at = find_library(name, self.source)?;
        find_library(name, self.rebased).is_none().then_some(at)
    }
}

fn absent(program: &str, name: &str, kind: AbsentKind, shown_by: Evidence, path: String) -> Absent {
    Absent { program: program.to_owned(), name: name.to_owned(), kind, shown_by, path }
}

/// Whether a Go program has the path of a shell, and does not start it itself.
fn is_of_others(path: &str, program: &Program) -> bool {
    let is_call = || program.strings.calls.iter().any(|call| call == path);
    program.go.is_some() && SHELLS.contains(&path) && !is_call()
}

fn is_telling(word: &str) -> bool {
    word.len() >= SHORTEST_WORD && COMMON_WORDS.binary_search(&word).is_err()
}

fn is_in_program_directory(path: &RootPath) -> bool {
    path.parent().is_some_and(|parent| matches!(parent.name(), Some(b"bin" | b"sbin")))
}

fn is_of_libc(library: &str) -> bool {
    LIBRARIES_OF_LIBC.iter().any(|known| library.starts_with(known))
}

/// A library by the beginning of its name: `libsystemd.so` is there as `libsystemd.so.0`.
fn find_library(name: &str, root: &Root<'_>) -> Option<String> {
    library_directories(root).iter().find_map(|directory| {
        let mut files = root.directory(directory).filter(|(file, _)| file.starts_with(name.as_bytes()));
        let file = files.next().and_then(|(file, _)| directory.join(file).ok());
        file.map(|path| path.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_words_are_sorted_so_that_they_are_found() {
        assert!(COMMON_WORDS.is_sorted());
        for (word, expected) in
            [("iptables", true), ("git", true), ("ssh", true), ("mount", false), ("gzip", false), ("ls", false)]
        {
            assert_eq!(is_telling(word), expected, "{word}");
        }
    }
}
