//! What a program runs and loads besides itself, as far as its bytes show it.
//!
//! The rule it owns: every entry can be shown to a person as it is. A name that can mean something
//! else is none, and neither is one in a Go program that cannot start another program.

use super::go_facts::GoFacts;
use super::patterns::{GO_STARTERS, PatternMeaning, PatternSearch, Proof};
use super::program::{ShownBy, Tool};
use super::string_context::StringUses;

/// The tools that a program runs. Where a name and a package show the same, the name does.
pub(super) fn run_by(search: &PatternSearch, go: Option<&GoFacts>) -> Vec<Tool> {
    let runs_none = match go {
        Some(go) => !starts_others(go),
        None => search.found().any(|meaning| meaning == PatternMeaning::ManyTools),
    };
    if runs_none {
        return Vec::new();
    }
    let shown = |(name, proof, seen): (&str, Proof, StringUses)| {
        let shown_by = if go.is_some() { in_go(proof, seen) } else { in_c(proof, seen) };
        Some(Tool { name: name.to_owned(), shown_by: shown_by? })
    };
    let mut tools: Vec<Tool> = search.tools().filter_map(shown).collect();
    for meaning in search.found().filter(|_| go.is_some()) {
        if let PatternMeaning::Runs(&[name, ..], package) = meaning
            && tools.iter().all(|tool| tool.name != name)
        {
            tools.push(Tool { name: name.to_owned(), shown_by: ShownBy::Package(package.to_owned()) });
        }
    }
    tools
}

/// The tools that packages of a Go program run, each once, in the order of the table.
pub(super) fn run_by_packages(search: &PatternSearch, go: Option<&GoFacts>) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for meaning in search.found().filter(|_| go.is_some_and(starts_others)) {
        let PatternMeaning::Runs(names, package) = meaning else { continue };
        for name in names {
            if tools.iter().all(|tool| tool.name != *name) {
                tools.push(Tool { name: (*name).to_owned(), shown_by: ShownBy::Package(package.to_owned()) });
            }
        }
    }
    tools
}

/// Every way to start a program goes through one of these functions.
pub(super) fn starts_others(go: &GoFacts) -> bool {
    go.packages.iter().any(|package| GO_STARTERS.contains(&package.as_str()))
}

fn in_go(proof: Proof, seen: StringUses) -> Option<ShownBy> {
    shown(seen.loose_path, seen.loose_word && proof == Proof::Word)
}

/// The names of functions have an end, too, and the system call is called `mount`. But no function
/// has a slash or a blank in its name.
fn in_c(proof: Proof, seen: StringUses) -> Option<ShownBy> {
    shown(seen.ended_path || seen.ended_line, seen.ended_word && proof == Proof::Word)
}

fn shown(by_path: bool, by_word: bool) -> Option<ShownBy> {
    by_path.then_some(ShownBy::Path).or(by_word.then_some(ShownBy::Word))
}

/// The libraries that a program names without needing them at start. Without cgo, Go loads none.
pub(super) fn loaded_by(search: &PatternSearch, go: Option<&GoFacts>, needed: &[String]) -> Vec<String> {
    if go.is_some_and(GoFacts::is_without_cgo) {
        return Vec::new();
    }
    let is_needed = |name: &str| needed.iter().any(|needed| needed.starts_with(name));
    let library = |meaning| match meaning {
        PatternMeaning::Library(name) if !is_needed(name) => Some(name.to_owned()),
        _ => None,
    };
    search.found().filter_map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::testing::{EXEC, TestElf, probe};
    use crate::elf::{Linkage, Program};

    /// A static program with these words in a tail of 3 MiB, each at its place.
    fn with_words(words: &[(usize, &[u8])]) -> Program {
        let mut tail = vec![b'.'; 3 << 20];
        for (at, word) in words {
            tail[*at..at + word.len()].copy_from_slice(word);
        }
        probe(&TestElf { tail, ..TestElf::new(EXEC) }.build())
    }

    fn tools(program: &Program) -> Vec<(&str, &ShownBy)> {
        program.tools.iter().map(|tool| (tool.name.as_str(), &tool.shown_by)).collect()
    }

    #[test]
    fn words_are_found_wherever_they_stand() {
        let program = with_words(&[
            (9, b"\0iptables\0"),
            ((1 << 20) - 3, b"\0/usr/bin/kubectl\0"),
            (2_000_000, b"log_file_max_size"),
            ((3 << 20) - 7, b"\0umount"),
            ((3 << 20) - 30, b"\0mount -a\0"),
            ((3 << 20) - 50, b"libsystemd.so.0"),
        ]);
        assert_eq!(program.linkage, Linkage::Static);
        assert_eq!(program.mentions, ["log_file", "log_file_max_size"]);
        assert_eq!(
            tools(&program),
            [("iptables", &ShownBy::Word), ("kubectl", &ShownBy::Path), ("mount", &ShownBy::Path)],
            "umount alone is a function"
        );
        assert_eq!(program.libraries, ["libsystemd.so"]);
        assert_eq!(program.go, None);
    }

    #[test]
    fn a_go_program_runs_nothing_without_the_functions_that_do() {
        let words: &[(usize, &[u8])] = &[
            (100, b"\0runtime.goexit\0"),
            (200, b"deadlockiptablesno anode"),
            (300, b"k8s.io/mount-utils.(*Mounter).Mount\0"),
        ];
        let starter: &[(usize, &[u8])] = &[(400, b"\0syscall.forkExec\0"), (500, b"\0os/exec.(*Cmd).Start\0")];
        assert_eq!(with_words(words).tools, []);
        let program = with_words(&[words, starter].concat());
        let package = ShownBy::Package("k8s.io/mount-utils".to_owned());
        assert_eq!(tools(&program), [("iptables", &ShownBy::Word), ("mount", &package)]);
        assert_eq!(program.go.unwrap().packages, ["os/exec", "syscall.forkExec"]);
        let c_only = with_words(&[&words[1..], starter].concat());
        assert_eq!(c_only.tools, [], "without Go, a string has an end");
    }

    #[test]
    fn a_program_that_is_many_tools_needs_none_of_them() {
        let names: &[(usize, &[u8])] = &[(9, b"\0modprobe\0nsenter\0")];
        assert_eq!(with_words(names).tools.len(), 2);
        assert_eq!(with_words(&[names, &[(100, b"BusyBox v1.35.0")]].concat()).tools, []);
    }
}
