//! Documents that must agree with the program: the reference page and the README.

use std::path::PathBuf;

use crate::support::invocation::{Sandbox, files_under};

pub const COMMANDS: [&str; 20] = [
    "rebase",
    "plan",
    "inspect",
    "elf",
    "translate",
    "kube",
    "check",
    "exceptions",
    "explain",
    "batch",
    "verify",
    "start",
    "outdated",
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

pub fn words(command: &str) -> Vec<&str> {
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
    agrees("docs/cli.md", &page);
}

/// The page is the one that the program gives; `UPDATE_DOCS` makes it so.
fn agrees(path: &str, page: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(project(path), page).unwrap();
    }
    let kept = std::fs::read_to_string(project(path)).unwrap_or_default();
    assert!(kept == page, "{path} differs from the program; see its first lines");
}

const RULES: &str = "# Rules

Generated from the program: `UPDATE_DOCS=1 cargo test --test it reference`.

Everything that underpin finds is named by a rule with a stable id: `[log-flag-unknown]` in text, `rule`, `reason` or `note`
in JSON. `underpin explain RULE` prints a section of this page.

| level | what it does |
| --- | --- |
| `refuse` | exit 1, and nothing is written |
| `excepted` | would refuse, but was allowed with `--allow`, or is in the exception list |
| `warn` | goes on; somebody should look at it |
| `note` | goes on; worth knowing |

`--allow RULE` or `--allow RULE=PATH` (repeatable) turns a refusal into an exception. It stays in the report, and the
annotations of the result record it.
";

#[test]
fn the_page_of_rules_is_what_the_program_says() {
    let run = Sandbox::new().underpin(["explain", "--json"]).run().ok();
    let rules = run.json();
    let mut families: Vec<(&str, Vec<&serde_json::Value>)> = Vec::new();
    for rule in rules["rules"].as_array().unwrap() {
        let title = rule["title"].as_str().unwrap();
        match families.iter_mut().find(|(family, _)| *family == title) {
            Some((_, members)) => members.push(rule),
            None => families.push((title, vec![rule])),
        }
    }
    let link = |rule: &&serde_json::Value| format!("[{0}](#{0})", rule["rule"].as_str().unwrap());
    let mut page = RULES.to_owned();
    for (title, members) in &families {
        let links: Vec<String> = members.iter().map(link).collect();
        page += &["\n**", title, ":** ", &links.join(" · "), "\n"].concat();
    }
    for (title, members) in &families {
        page += &["\n## ", title, "\n"].concat();
        for rule in members {
            page += &rule_section(rule);
        }
    }
    agrees("docs/rules.md", &page);
}

fn rule_section(rule: &serde_json::Value) -> String {
    let text = |key: &str| rule[key].as_str().unwrap();
    let levels: Vec<String> =
        rule["levels"].as_array().unwrap().iter().map(|level| format!("`{}`", level.as_str().unwrap())).collect();
    let allow = if rule["allow"] == true { format!("; `--allow {}`", text("rule")) } else { String::new() };
    format!(
        "\n### {}\n\n{}{allow}\n\n{}\n\n**Why:** {}\n\n**Example:**\n\n```text\n{}\n```\n\n**Fix:** {}\n",
        text("rule"),
        levels.join(", "),
        text("means"),
        text("why"),
        text("example"),
        text("fix")
    )
}

#[test]
fn a_rule_is_explained_and_an_unknown_one_is_an_error() {
    let sandbox = Sandbox::new();
    let run = sandbox.underpin(["explain", "[log-flag-unknown]"]).run().ok();
    for part in ["log-flag-unknown (refuse; can be allowed", "\nWhy      ", "\nExample  ", "\nFix      "] {
        assert!(run.stdout.contains(part), "{run}");
    }
    assert!(run.stdout.lines().count() <= 20, "{run}");
    let listed = sandbox.underpin(["explain"]).run().ok().stdout;
    assert!(listed.contains("\n  needs-shell ") && listed.contains("\n  pipeline "), "{listed}");
    let run = sandbox.underpin(["explain", "log-flag-unkown"]).run().fails("usage");
    assert!(run.stderr.contains("log-flag-unknown"), "{run}");
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

#[test]
fn no_command_is_forgotten() {
    let sandbox = Sandbox::new();
    for above in ["", "cache"] {
        let run = sandbox.underpin(above.split_terminator(' ').chain(["--help"])).run().ok();
        let (listed, _) =
            run.stdout.split_once("\nOptions:\n").or_else(|| run.stdout.split_once("\nOutput:\n")).unwrap();
        let listed = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let listed = listed.filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help");
        let listed: Vec<String> = listed.map(|command| format!("{above} {command}").trim().to_owned()).collect();
        assert!(listed.len() >= 4, "{run}");
        for command in listed {
            assert!(COMMANDS.contains(&command.as_str()), "{command}");
        }
    }
}

#[test]
fn the_readme_is_short_and_names_every_command() {
    let readme = std::fs::read_to_string(project("README.md")).unwrap();
    assert!(readme.lines().count() <= 150);
    for command in COMMANDS.iter().filter(|command| !command.contains(' ')) {
        assert_eq!(readme.matches(&format!("\nunderpin {command} ")).count(), 1, "{command}");
    }
}

/// What a page says in passing, as `underpin COMMAND --flag`, has a command and flags that there are.
#[test]
fn commands_in_passing_have_flags_that_exist() {
    let sandbox = Sandbox::new();
    let pages = files_under(&project("docs")).into_iter().chain([project("README.md")]);
    let mut seen = 0;
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        // Fences have three of them, so that every second piece still is code.
        for code in text.split('`').filter_map(|piece| piece.strip_prefix("underpin ")).filter(|it| !it.contains('\n'))
        {
            let is_ours = |command: &&&str| format!("{code} ").starts_with(&format!("{command} "));
            let Some(command) = COMMANDS.iter().filter(is_ours).max_by_key(|command| command.len()) else {
                assert!(code.starts_with('-') || !code.contains(' '), "{}: {code}", page.display());
                continue;
            };
            let help = help(&sandbox, &words(command));
            let own = code.split(" -- ").next().unwrap();
            for flag in
                own.split([' ', '=', '[', ']', '|', ',']).filter(|word| word.starts_with("--") && word.len() > 2)
            {
                assert!(
                    help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                    "{}: {code}",
                    page.display()
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
