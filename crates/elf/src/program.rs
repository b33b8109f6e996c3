//! What was found out about one file.
//!
//! It is kept in the index of a layer, so no field may be left out when it is written: `postcard`
//! knows fields by their order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::audit_scan::RustCrate;
use super::dynamic_facts::DynamicFacts;
use super::go_facts::GoFacts;

/// How a file is started, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Linkage {
    /// A program at a fixed address that needs nothing but the kernel.
    Static,
    /// The same at any address.
    StaticPie,
    /// A program that needs an interpreter or libraries.
    Dynamic,
    /// A library.
    SharedObject,
    /// Text that begins with `#!`.
    Script,
    /// Everything else: data, objects, other systems' programs, damaged files.
    Other,
}

impl Linkage {
    /// The word in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::StaticPie => "static-pie",
            Self::Dynamic => "dynamic",
            Self::SharedObject => "shared-object",
            Self::Script => "script",
            Self::Other => "other",
        }
    }

    /// Whether the kernel alone can start it.
    #[must_use]
    pub const fn is_static(self) -> bool {
        matches!(self, Self::Static | Self::StaticPie)
    }
}

/// The width of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    Bits32,
    Bits64,
}

impl Class {
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endian {
    Little,
    Big,
}

impl Endian {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
        }
    }
}

/// How floating-point arguments are passed, where the machine is ARM and its flags say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FloatAbi {
    Hard,
    Soft,
}

impl FloatAbi {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// The first line of a script, taken apart as Linux does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub interpreter: String,
    /// Everything after the interpreter is one argument.
    pub argument: Option<String>,
}

/// A program that a Go package is there to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// As it is found in `PATH`.
    pub name: String,
    /// The package, functions of which are linked in. A linker keeps methods that nobody calls.
    pub package: String,
}

/// What shows that a program uses a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferredBy {
    /// Instructions have its address, and its length or the NUL that ends it.
    Code,
    /// So has a pointer in data, or a pointer with a length.
    Data,
    /// It is a whole string of C: a NUL ends it, and another string or nothing precedes it.
    Terminated,
    /// The machine's code cannot be read: the string begins visibly, where it ends is not certain.
    Loose,
}

/// A string of a program, and what shows that it is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramString {
    pub text: String,
    /// Where in the file it is.
    pub offset: u64,
    pub by: ReferredBy,
}

/// Whole strings that a program refers to and that could name a file, a program, a variable or a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStrings {
    /// Absolute paths, sorted, each once; of a command line (`/sbin/x -L`) its first word.
    pub paths: Vec<ProgramString>,
    /// Bare words, such as the names of programs, variables and libraries. Sorted, each once.
    pub words: Vec<String>,
    /// The first words of command lines such as `iptables -w`. Sorted, each once.
    pub command_words: Vec<String>,
    /// The programs that a Go program names where it starts one: `exec.Command("git")`. Sorted, each once.
    pub calls: Vec<String>,
    /// False where a limit was reached, or where the machine's code cannot be read: then a string
    /// that is not here may still be used.
    pub complete: bool,
}

impl ProgramStrings {
    /// Names of libraries.
    pub fn libraries(&self) -> impl Iterator<Item = &String> {
        self.words.iter().filter(|word| word.starts_with("lib") && word.contains(".so"))
    }

    /// Bytes of all of them.
    pub fn byte_len(&self) -> usize {
        let paths = self.paths.iter().map(|path| path.text.len());
        let words = self.words.iter().chain(&self.command_words).map(String::len);
        paths.chain(words).sum()
    }
}

/// Whether a program can start others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartsOthers {
    /// A Go program without the functions that every way to start another one goes through, or a program
    /// that is many tools itself, such as busybox.
    Never,
    Able,
    /// It contains or imports what runs command lines with `/bin/sh`: `system`, `popen`.
    Shell,
}

/// What was found out about one file. Fields that do not apply are `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub linkage: Linkage,
    pub class: Option<Class>,
    pub endian: Option<Endian>,
    /// As in OCI platforms: `amd64`, `arm64`, ...; `unknown(N)` for others.
    pub machine: Option<String>,
    pub float_abi: Option<FloatAbi>,
    pub interpreter: Option<String>,
    /// Libraries by name; `?` where one is needed and its name could not be read.
    pub needed: Vec<String>,
    pub go: Option<GoFacts>,
    pub script: Option<Script>,
    /// What a person should know, one line each. A linkage of `Other` for an ELF file says here why.
    pub notes: Vec<String>,
    /// The names of klog's flags that an ELF file contains, also as a part of other words:
    /// Go and Rust put strings side by side without anything between them.
    pub mentions: Vec<String>,
    pub strings: ProgramStrings,
    pub starts: StartsOthers,
    /// Tools that a Go package which is linked in has the only purpose to run.
    pub runs: Vec<Tool>,
    /// What unpacks the real program out of this file, by name: then nothing else here is about that program.
    pub packed: Option<String>,
    /// What a loader reads of it. Shared: a program is passed around, its symbols are many.
    pub dynamic: Option<Arc<DynamicFacts>>,
    pub language: Language,
    /// The crates that a Rust program says it was built from.
    pub crates: Vec<RustCrate>,
}

/// What a program was built from, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    Go,
    Rust,
    /// C, C++ or another language whose compiler leaves nothing that tells.
    Other,
}

impl Program {
    pub fn of(linkage: Linkage) -> Self {
        Self {
            linkage,
            class: None,
            endian: None,
            machine: None,
            float_abi: None,
            interpreter: None,
            needed: Vec::new(),
            go: None,
            script: None,
            notes: Vec::new(),
            mentions: Vec::new(),
            strings: ProgramStrings::default(),
            starts: StartsOthers::Able,
            runs: Vec::new(),
            packed: None,
            dynamic: None,
            language: Language::Other,
            crates: Vec::new(),
        }
    }
}
