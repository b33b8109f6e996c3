//! Whether a program can start others, and whether it hands command lines to a shell.

use super::go_facts::GoFacts;
use super::program::{ProgramStrings, StartsOthers};
use super::strings::StringLanguage;
use super::tools;

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
}

impl StartEvidence<'_> {
    pub fn starts(&self) -> StartsOthers {
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

    /// A static program contains `system`, and that contains these three.
    fn has_shell_call(&self) -> bool {
        let has_path = self.strings.paths.iter().any(|path| path.text == "/bin/sh");
        let has_name = self.strings.words.binary_search_by(|word| word.as_str().cmp("sh")).is_ok();
        has_path && has_name && self.has_command_flag
    }
}

fn has(names: &[u8], name: &[u8]) -> bool {
    names.windows(name.len()).any(|window| window == name)
}
