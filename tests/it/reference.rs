//! Documents that must agree with the program: the reference page and the README.

use std::path::PathBuf;

use crate::rig::cli::Sandbox;

const COMMANDS: [&str; 17] = [
    "rebase",
    "plan",
    "inspect",
    "elf",
    "translate",
    "kube",
    "check",
    "exceptions",
    "batch",
    "verify",
    "cache",
    "cache ls",
    "cache match",
    "cache gc",
    "cache verify",
    "completions",
    "man",
];

fn project(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

fn help(sandbox: &Sandbox, command: &[&str]) -> String {
    let run = sandbox.underpin(command.iter().copied().chain(["--help"])).run().ok();
    format!(
        "```\n$ underpin {}\n\n{}```\n",
        command.iter().copied().chain(["--help"]).collect::<Vec<_>>().join(" "),
        run.stdout
    )
}

#[test]
fn the_reference_page_is_what_the_program_says() {
    let sandbox = Sandbox::new();
    let mut page =
        "# Command line\n\nGenerated from the program: `UPDATE_DOCS=1 cargo test --test it reference`.\n\n".to_owned();
    page += &help(&sandbox, &[]);
    for command in COMMANDS {
        page += &["\n## ", command, "\n\n", &help(&sandbox, &words(command))].concat();
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(project("docs/cli.md"), &page).unwrap();
    }
    let kept = std::fs::read_to_string(project("docs/cli.md")).unwrap();
    assert!(kept == page, "docs/cli.md differs from the program; see its first line");
}

#[test]
fn every_command_has_examples_and_completions_know_all_of_them() {
    let sandbox = Sandbox::new();
    let completions = sandbox.underpin(["completions", "bash"]).run().ok().stdout;
    let manual = sandbox.underpin(["man"]).run().ok().stdout;
    for command in COMMANDS {
        assert!(help(&sandbox, &words(command)).contains("Examples:"), "{command}");
        let (first, last) = (words(command)[0], words(command).pop().unwrap());
        assert!(completions.contains(last) && manual.contains(first), "{command}");
    }
}

/// The transcript in the README is the one that the demo's images give, to the last byte.
#[test]
fn the_readme_shows_what_happens() {
    let readme = std::fs::read_to_string(project("README.md")).unwrap();
    assert!(readme.lines().count() <= 150);
    let transcript = readme.split("```\n").nth(1).unwrap();
    let (command, shown) = transcript.split_once('\n').unwrap();
    let sandbox = Sandbox::new();
    // Built beside the tests by `cargo test` and `cargo nextest run`, as `scripts/test` calls them.
    let samples = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/sample-images");
    let made = std::process::Command::new(&samples).arg(sandbox.path("here")).status();
    assert!(made.is_ok_and(|status| status.success()), "`cargo build --examples` makes {}", samples.display());
    let args = command.strip_prefix("$ underpin ").unwrap().split(' ');
    let run = sandbox.underpin(args).run().ok();
    assert_eq!(format!("{}{}", run.stderr, run.stdout), shown);
    for path in readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(project(path).exists(), "{path}");
    }
}
