//! The folder and the shell in which a guide is followed.

use std::path::PathBuf;

use crate::bazel::without_coverage;
use crate::support::containerd::Node;
use crate::support::docker_registry::Outside;
use crate::support::invocation::{Run, Sandbox, binary};
use crate::support::programs::script_program;

/// Where the runtime of a node listens, in documents; in a test it is a socket of its own.
pub const SOCKET: &str = "/run/containerd/containerd.sock";

/// Before the output of each command in a transcript.
const MARK: char = '\u{1}';

/// One guide and the folder it is read in.
pub struct Session {
    sandbox: Sandbox,
    outside: Option<Outside>,
    node: Option<Node>,
}

impl Session {
    /// With `underpin` and `sample-images` on the path, as the guides have people install them.
    pub fn new(outside: Option<Outside>, node: Option<Node>) -> Self {
        let sandbox = Sandbox::new();
        // Nothing of podman or Bazel is to be seen outside, or to stay running.
        let at = |name: &str| sandbox.path(name).display().to_string();
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("graph"), at("run"));
        std::fs::write(at("storage.conf"), storage).unwrap();
        let coverage = without_coverage(&sandbox.path("coverage"));
        let bazel = format!("startup --batch --output_user_root={}\nbuild {coverage}\n", at("bazel"));
        std::fs::write(at("home/.bazelrc"), bazel).unwrap();
        let samples = script_program("sample-images");
        std::fs::create_dir(sandbox.path("bin")).unwrap();
        for (name, program) in [("underpin", PathBuf::from(binary())), ("sample-images", samples)] {
            std::os::unix::fs::symlink(program, sandbox.path("bin").join(name)).unwrap();
        }
        Self { sandbox, outside, node }
    }

    /// What the script prints, both streams in one; it must succeed.
    pub fn bash(&self, script: &str) -> String {
        self.run(&format!("exec 2>&1\nset -euo pipefail\n{script}")).ok().stdout
    }

    pub fn run(&self, script: &str) -> Run {
        let at = |name: &str| self.sandbox.path(name);
        let path = format!("{}:{}:/usr/sbin:/sbin", at("bin").display(), std::env::var("PATH").unwrap());
        let socket = self.node.as_ref().map_or_else(|| PathBuf::from(SOCKET), Node::socket);
        let script = script.replace(SOCKET, socket.to_str().unwrap());
        let run = self.sandbox.program("bash", ["-c", &script]).env("PATH", path);
        let run =
            run.env("UNDERPIN_CLONE", env!("CARGO_MANIFEST_DIR")).env("CONTAINERS_STORAGE_CONF", at("storage.conf"));
        let run = run.env("CONTAINERD_ADDRESS", socket).env("REGISTRY", "registry.example");
        let variables = self.outside.iter().flat_map(Outside::variables);
        let run = variables.fold(run, |run, (name, value)| run.env(name, value));
        // What GitHub Actions and prow give their jobs.
        let run = run
            .env("GITHUB_OUTPUT", at("github-output"))
            .env("GITHUB_STEP_SUMMARY", at("github-summary"))
            .env("ARTIFACTS", at("here"));
        run.limit(std::time::Duration::from_secs(600)).run()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let file = self.sandbox.path("here").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        if bytes.as_ref().starts_with(b"#!") {
            crate::support::tools::tool("chmod", &["755", file.to_str().unwrap()]);
        }
    }

    /// The transcript as it came out.
    pub fn console(&self, body: &str) -> Vec<Step> {
        let steps = steps(body);
        let mark = format!("{MARK}\n");
        let marked: Vec<String> = steps.iter().map(|step| format!("echo {mark}{}", step.command)).collect();
        let printed = self.bash(&marked.concat());
        let outputs = printed.split(&mark).skip(1).map(str::to_owned);
        steps.into_iter().zip(outputs).map(|(step, output)| Step { output, ..step }).collect()
    }
}

// A guide as the runner reads it: fences, the commands in them, and what each is said to print.

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
