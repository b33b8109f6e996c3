//! All hints of the sources, and which of them are tried.
//!
//! A hint is what `Error::hint` and `Finding::fix` are given, and what is printed after `hint: `. Its key is its text as
//! the sources have it, with `{}` for what is filled in; where the text is made elsewhere, the file and the expression.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::invocation::files_under;

const CLONE: &str = env!("CARGO_MANIFEST_DIR");

/// Hints that no test follows, each for a reason: what they tell to do is outside of what a test can do, or the
/// situation needs a part that a test cannot have. A new hint does not go here: it gets a test in this directory.
const NOT_TRIED: &str = include_str!("not-tried.txt");

/// A text with blanks.
pub struct Pattern(Vec<String>);

impl Pattern {
    /// The text as a format string of Rust, or as it is.
    pub fn of(written: &str) -> Self {
        let mut parts = vec![String::new()];
        let mut chars = written.chars().peekable();
        while let Some(c) = chars.next() {
            let last = parts.last_mut().unwrap();
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    chars.next();
                    last.push(c);
                }
                '{' => {
                    chars.by_ref().find(|c| *c == '}');
                    parts.push(String::new());
                }
                _ => last.push(c),
            }
        }
        Self(parts)
    }

    pub fn matches(&self, text: &str) -> bool {
        let [first, rest @ ..] = &self.0[..] else { return false };
        let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for part in middle {
            let Some(at) = left.find(part.as_str()) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(last.as_str())
    }
}

/// The flags that a text names.
pub fn flags_of(text: &str) -> impl Iterator<Item = &str> {
    let is_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts = text.match_indices("--").filter(move |(at, _)| !text[..*at].ends_with(is_flag));
    starts.filter_map(move |(at, _)| {
        let flag = &text[at..];
        let end = flag.find(|c| !is_flag(c)).unwrap_or(flag.len());
        Some(flag[..end].trim_end_matches('-')).filter(|flag| flag.len() > 2)
    })
}

/// The argument that begins behind `at`, up to its closing parenthesis.
fn argument(text: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (0_i32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The string literals of an expression, as the compiler reads them but for format arguments.
fn literals(expression: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), expression);
    while let Some((_, literal)) = rest.split_once('"') {
        let (mut text, mut chars) = (String::new(), literal.chars());
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match chars.next() {
                    // A line that goes on: what indents the next one is no part of it.
                    Some('\n') => {
                        let indented = chars.as_str();
                        chars = indented.trim_start().chars();
                    }
                    Some('n') => text.push('\n'),
                    other => text.extend(other),
                },
                c => text.push(c),
            }
        }
        found.push(text);
        rest = chars.as_str();
    }
    found
}

/// Where tests are not, and without comments.
fn sources() -> Vec<(String, String)> {
    let name = |file: &Path| file.strip_prefix(CLONE).unwrap().to_str().unwrap().to_owned();
    let is_source = |file: &PathBuf| {
        let name = name(file);
        file.extension().is_some_and(|end| end == "rs")
            && !["/tests/", "tests.rs", "testing.rs"].iter().any(|test| name.contains(test))
    };
    let text = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap().to_owned();
        text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
    };
    let files: Vec<PathBuf> =
        ["src", "crates"].iter().flat_map(|top| files_under(&Path::new(CLONE).join(top))).collect();
    files.iter().filter(|file| is_source(file)).map(|file| (name(file), text(file))).collect()
}

/// The text of a constant of the same file.
fn constant(text: &str, name: &str) -> Option<String> {
    literals(text.split(&format!("const {name}: &str =")).nth(1)?).into_iter().next()
}

/// The keys of one file.
fn keys(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for call in [".hint(", ".fix("] {
        for (at, _) in text.match_indices(call) {
            let argument = argument(&text[at + call.len()..]);
            let expression = argument.split_whitespace().collect::<Vec<_>>().join(" ");
            let texts: Vec<String> = literals(argument).into_iter().filter(|text| text.len() > 5).collect();
            match constant(text, &expression) {
                _ if expression.is_empty() => {}
                Some(text) => found.push(text),
                None if texts.is_empty() => found.push(format!("{name}: {expression}")),
                None => found.extend(texts),
            }
        }
    }
    let printed = literals(text).into_iter().filter_map(|literal| {
        let (_, hint) = literal.split_once("hint: ")?;
        Some(hint.trim_end().to_owned())
    });
    found.extend(printed.filter(|hint| hint.len() > 5 && name != "crates/oci/src/error.rs"));
    found
}

fn all() -> BTreeSet<String> {
    sources().iter().flat_map(|(name, text)| keys(name, text)).collect()
}

/// What the tests of this directory quote; `Advice` sees to it that whoever finds a hint follows it. Hints that only a
/// start gives are followed where images are started.
fn tried() -> BTreeSet<String> {
    let starts = Path::new(CLONE).join("tests/it/real_start/only_a_run.rs");
    let files = files_under(&Path::new(CLONE).join("tests/it/hints")).into_iter().chain([starts]);
    let files = files.filter(|file| file.extension().is_some_and(|end| end == "rs") && !file.ends_with("inventory.rs"));
    files.flat_map(|file| literals(&std::fs::read_to_string(file).unwrap())).collect()
}

#[test]
fn every_hint_is_followed_by_a_test_or_listed_as_one_that_is_not() {
    let (all, tried) = (all(), tried());
    assert!(all.len() > 120, "{} hints: the scan finds too few", all.len());
    let listed: Vec<&str> = NOT_TRIED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let open: Vec<&String> =
        all.iter().filter(|key| !tried.contains(*key) && !listed.contains(&key.as_str())).collect();
    assert!(open.is_empty(), "nobody follows these hints; write a test in tests/it/hints:\n{open:#?}");
    let needless: Vec<&&str> = listed.iter().filter(|key| tried.contains(**key) || !all.contains(**key)).collect();
    assert!(needless.is_empty(), "these are tried, or gone: take them off not-tried.txt:\n{needless:#?}");
    println!("{} hints, {} followed, {} not", all.len(), all.len() - listed.len(), listed.len());
}

/// Every rule says what to do, too, and so do kube's refusals: whatever they name is there.
#[test]
fn every_flag_and_command_that_a_hint_names_is_there() {
    let page = std::fs::read_to_string(Path::new(CLONE).join("docs/cli.md")).unwrap();
    // Flags of other programs, which a text names beside theirs.
    let foreign = ["--key", "--sparse", "--log-file", "--flag", "--chown", "--stderrthreshold"];
    let rules = std::fs::read_to_string(Path::new(CLONE).join("docs/rules.md")).unwrap();
    let fixes = rules.lines().filter(|line| line.starts_with("**Fix:**"));
    let texts: Vec<String> = all().into_iter().chain(fixes.map(str::to_owned)).collect();
    assert!(texts.len() > 200, "{}", texts.len());
    for text in &texts {
        for flag in flags_of(text).filter(|flag| !foreign.contains(flag)) {
            let is_there = [" ", "\n", "["].iter().any(|end| page.contains(&format!("{flag}{end}")));
            assert!(is_there, "{flag} is no flag: {text}");
        }
        for command in text.split("`underpin ").skip(1).filter_map(|rest| rest.split(['`', ' ']).next()) {
            let is_there = page.contains(&format!("\n## {command}\n")) || command.starts_with(['-', '{']);
            assert!(is_there, "{command} is no command: {text}");
        }
    }
}

#[test]
fn hints_are_found_wherever_they_are_written() {
    let text = "fn a() { e.hint(\"one \\\n    line\").hint(format!(\"two {x} {{y}}\", f(1))).fix(WAYS).fix(other(x)) }\n\
        const WAYS: &str = \"by \\\"constant\\\"\";\nfn b() { line(\"refused\\nhint: by hand\\n\"); e.hint() }";
    let expected = ["one line", "two {x} {{y}}", "by \"constant\"", "src/x.rs: other(x)", "by hand"];
    assert_eq!(keys("src/x.rs", text), expected);
    assert!(Pattern::of("two {x} {{y}}").matches("two 1 2 {y}") && !Pattern::of("two {x}.").matches("two 1"));
    assert!(Pattern::of("plain").matches("plain") && !Pattern::of("plain").matches("plainer"));
    assert_eq!(flags_of("pass --old-base REF, or --user--x; a--b").collect::<Vec<_>>(), ["--old-base", "--user--x"]);
}
