//! A guide as the runner reads it: fences, the commands in them, and what each is said to print.

#[derive(Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    pub info: &'a str,
    /// Where in the guide its body begins.
    pub at: usize,
    pub body: &'a str,
}

impl<'a> Fence<'a> {
    pub fn word(&self, key: &str) -> Option<&'a str> {
        self.info.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

pub fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (info, after) = after.split_once('\n').unwrap();
        let body = after.split_once("```").unwrap_or_else(|| panic!("a fence `{info}` has no end")).0;
        found.push(Fence { info, at: text.len() - after.len(), body });
        rest = &after[body.len() + "```".len()..];
    }
    found
}

/// A command, and the output that stands below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub output: String,
}

pub fn steps(body: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in body.split_inclusive('\n') {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), output: String::new() });
        } else {
            let last = steps.last_mut().unwrap_or_else(|| panic!("no command before `{line}`"));
            if goes_on { &mut last.command } else { &mut last.output }.push_str(line);
        }
        goes_on = line.ends_with("\\\n") && steps.last().is_some_and(|step| step.output.is_empty());
    }
    steps
}

/// The scripts of block scalars (`run: |`, `- |`), as a CI system would run them.
pub fn scripts(yaml: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = yaml.lines().collect();
    let opens = |line: &str| line.ends_with("run: |") || line.trim() == "- |";
    let starts = lines.iter().enumerate().filter(|(_, line)| opens(line));
    let script = |(at, line): (usize, &&str)| {
        let within = |next: &&&str| next.trim().is_empty() || indent(next) > indent(line);
        lines[at + 1..].iter().take_while(within).flat_map(|line| [line.trim_start(), "\n"]).collect()
    };
    starts.map(script).collect()
}

/// Whether what was printed is what is shown; a line `...` stands for any number of lines.
pub fn is_shown(shown: &str, printed: &str) -> bool {
    let mut rest = format!("\n{printed}");
    for (at, part) in format!("\n{shown}").split("\n...\n").enumerate() {
        let part = if at == 0 { part.to_owned() } else { format!("\n{part}") };
        match if at == 0 { rest.starts_with(&part).then_some(0) } else { rest.find(&part) } {
            Some(place) => rest = rest[place + part.len()..].to_owned(),
            None => return false,
        }
    }
    rest.is_empty() || shown.ends_with("...\n")
}

#[test]
fn a_guide_is_read_as_it_is_written() {
    let text = "# Guide\n\n```make file=Makefile\nall:\n```\nthen\n```console\n$ a \\\n    b\nout\n$ c\n```\n";
    let found = fences(text);
    let read: Vec<(&str, &str)> =
        found.iter().map(|fence| (fence.info, &text[fence.at..][..fence.body.len()])).collect();
    assert_eq!(read, [("make file=Makefile", "all:\n"), ("console", "$ a \\\n    b\nout\n$ c\n")]);
    assert_eq!(found[0].word("file"), Some("Makefile"));
    let step = |command: &str, output: &str| Step { command: command.to_owned(), output: output.to_owned() };
    assert_eq!(steps(found[1].body), [step("a \\\n    b\n", "out\n"), step("c\n", "")]);
    assert_eq!(
        scripts("a:\n  - run: |\n      one\n      two\n  - x: y\n    args:\n    - |\n      three\n"),
        ["one\ntwo\n", "three\n"]
    );
    for (shown, printed, same) in [
        ("a\n", "a\n", true),
        ("a\n", "b\n", false),
        ("a\n...\n", "a\nb\nc\n", true),
        ("...\nc\n", "a\nb\nc\n", true),
        ("a\n...\nc\n", "a\nb\nc\n", true),
        ("a\n...\nc\n", "a\nb\nc\nd\n", false),
        ("...\nx\n", "a\nb\nc\n", false),
    ] {
        assert_eq!(is_shown(shown, printed), same, "{shown:?} {printed:?}");
    }
}
