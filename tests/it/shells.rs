//! Completions in the shells that they are for, and the manual as `man` shows it.

use crate::support::invocation::{Sandbox, binary};
use crate::support::skip::{Part, need, or_skip};

/// Fills the current word as bash does when somebody presses Tab.
const BASH: &str = r#"source <(underpin completions bash)
tab() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _underpin underpin "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"
}
tab underpin exc
tab underpin rebase --expe
tab underpin plan x --logs kl
tab underpin cache g"#;

/// A zsh of its own on a terminal of its own: the keys are pressed.
const ZSH: &str = r#"mkdir functions && underpin completions zsh >functions/_underpin
zmodload zsh/zpty
zpty z TERM=dumb zsh -f -i
zpty -w z 'PS1=; unsetopt zle_bracketed_paste; fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; echo rea""dy'
zpty -r z seen '*ready*'
zpty -w -n z $'underpin exc\t'
zpty -r z seen '*exceptions *'
zpty -w -n z $'\x15underpin rebase --expe\t'
zpty -r z seen '*--expect-digest*'
echo both"#;

const FISH: &str = "underpin completions fish | source
complete -C 'underpin exc'
complete -C 'underpin rebase --expe'
complete -C 'underpin plan x --logs kl'
complete -C 'underpin cache g'";

const FILLED: [&str; 4] = ["exceptions", "--expect-digest", "klog", "gc"];

/// What the shell prints; Skips where it is not installed.
fn run(shell: &str, flag: &str, script: &str) -> Part<String> {
    need(&[shell])?;
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    std::os::unix::fs::symlink(binary(), sandbox.path("bin/underpin")).unwrap();
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    Ok(sandbox.program(shell, [flag, "-c", script]).env("PATH", path).run().ok().stdout)
}

#[test]
fn bash_completes() {
    let filled = or_skip!(run("bash", "--norc", BASH));
    assert_eq!(filled.lines().collect::<Vec<_>>(), FILLED);
}

#[test]
fn zsh_completes() {
    let filled = or_skip!(run("zsh", "-f", ZSH));
    assert_eq!(filled, "both\n");
}

#[test]
fn fish_completes() {
    let filled = or_skip!(run("fish", "--no-config", FISH));
    let words: Vec<&str> = filled.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, FILLED);
}

#[test]
fn every_page_of_the_manual_is_shown_without_a_warning() {
    or_skip!(need(&["man"]));
    let sandbox = Sandbox::new();
    sandbox.underpin(["man", "--all", "man1"]).run().ok();
    for command in [""].iter().chain(&crate::reference::COMMANDS) {
        let name = format!("underpin {command}").trim().replace(' ', "-");
        let page = sandbox.program("man", ["--warnings", "-l", &format!("man1/{name}.1")]).run().ok();
        assert!(page.stdout.contains("SYNOPSIS") && page.stdout.contains(&format!("{name}(1)")), "{page}");
        assert_eq!(page.stderr, "", "{name}");
        let printed = sandbox.underpin(["man"].into_iter().chain(command.split_terminator(' '))).run().ok();
        let written = std::fs::read_to_string(sandbox.path("here/man1").join(format!("{name}.1"))).unwrap();
        assert_eq!(printed.stdout, written, "{name}");
    }
    sandbox.underpin(["man", "nothing"]).run().fails("usage");
}
