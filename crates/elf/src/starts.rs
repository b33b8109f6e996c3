//! Whether a program can start others, and whether it hands command lines to a shell.

use super::go_facts::GoFacts;
use super::program::{ProgramStrings, StartsOthers};
use super::strings::StringLanguage;
use super::tools;

/// Tools that busybox and toybox both are.
const TOOLS: [&str; 24] = [
    "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dirname", "echo", "env", "false", "head", "id", "kill",
    "ln", "ls", "mkdir", "mv", "rm", "sleep", "sort", "tail", "true", "wc",
];
/// Nothing else has the names of so many of them. Without them, the name of busybox is only text about it.
const FEWEST_TOOLS: usize = 12;

/// Functions of C that run a command line with `/bin/sh`, as the loader's table of names has them. A
/// linker may let one name be the end of another.
const SHELL_FUNCTIONS: [&[u8]; 2] = [b"system\0", b"popen\0"];

/// What a program shows of how it starts others.
pub(super) struct StartEvidence<'a> {
    pub go: Option<&'a GoFacts>,
    pub language: StringLanguage,
    pub strings: &'a ProgramStrings,
    /// The names of what it imports and exports.
    pub names: &'a [u8],
    /// Whether `-c` is one of its strings.
    pub has_command_flag: bool,
    /// Whether it names a program that is many tools.
    pub names_many_tools: bool,
}

impl StartEvidence<'_> {
    pub fn starts(&self) -> StartsOthers {
        if self.names_many_tools && self.is_many_tools() {
            return StartsOthers::Never;
        }
        let imports_shell = SHELL_FUNCTIONS.iter().any(|name| has(self.names, name));
        let is_c = self.go.is_none();
        if imports_shell || (is_c && self.has_shell_call()) {
            return StartsOthers::Shell;
        }
        match self.go {
            Some(go) if self.language == StringLanguage::Go && !tools::starts_others(go) => StartsOthers::Never,
            _ => StartsOthers::Able,
        }
    }

    /// It has the names of tools because it is all of them. Both such programs are written in C.
    fn is_many_tools(&self) -> bool {
        let has = |tool: &&&str| self.strings.words.binary_search_by(|word| word.as_str().cmp(tool)).is_ok();
        self.language == StringLanguage::Other && TOOLS.iter().filter(has).count() >= FEWEST_TOOLS
    }

    /// A static program contains `system`, and that contains these three.
    fn has_shell_call(&self) -> bool {
        let has_path = self.strings.paths.iter().any(|path| path.text == "/bin/sh");
        let has_name = self.strings.words.binary_search_by(|word| word.as_str().cmp("sh")).is_ok();
        has_path && has_name && self.has_command_flag
    }
}

fn has(names: &[u8], name: &[u8]) -> bool {
    memchr::memmem::find(names, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_many_tools_starts_none_and_one_that_speaks_of_them_may() {
        let starts = |words: &[&str], language: StringLanguage, names_many_tools: bool| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let strings = ProgramStrings { words, ..ProgramStrings::default() };
            let evidence = StartEvidence {
                go: None,
                language,
                strings: &strings,
                names: b"",
                has_command_flag: false,
                names_many_tools,
            };
            evidence.starts()
        };
        let few = TOOLS.get(..FEWEST_TOOLS - 1).unwrap();
        for (what, words, language, names_many_tools, expected) in [
            ("busybox", &TOOLS[..], StringLanguage::Other, true, StartsOthers::Never),
            ("text about busybox", &["cat", "busybox"], StringLanguage::Other, true, StartsOthers::Able),
            ("text about a few of its tools", few, StringLanguage::Other, true, StartsOthers::Able),
            ("text about tools", &TOOLS, StringLanguage::Other, false, StartsOthers::Able),
            ("Rust", &TOOLS, StringLanguage::Rust, true, StartsOthers::Able),
            ("Go", &TOOLS, StringLanguage::GoWithC, true, StartsOthers::Able),
        ] {
            assert_eq!(starts(words, language, names_many_tools), expected, "{what}");
        }
    }
}
