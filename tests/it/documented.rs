//! Every command in the guides is run, and says what the guide says it does.
//!
//! A guide is one session in one folder. A fence `console` is a transcript: `$ COMMAND`, then all that
//! it prints (a line `...` stands for any lines); its commands share one shell and must succeed. A
//! fence with `file=NAME` is that file; of YAML, every script in it is run too. `needs=PROGRAM` skips a
//! fence where the program is missing; `registry.example` is a registry of the session where it is used. There is no other kind of fence but `text`.
//! `UPDATE_DOCS=1` writes what the commands print into the guides.

use std::path::{Path, PathBuf};

use crate::rig::cli::{Sandbox, binary};
use crate::rig::need::need;
use crate::rig::node::Node;
use crate::rig::registry::Registry;

/// Before the output of each command in a transcript.
const MARK: char = '\u{1}';

#[derive(Debug, PartialEq, Eq)]
struct Fence<'a> {
    info: &'a str,
    body: &'a str,
}

impl<'a> Fence<'a> {
    fn word(&self, key: &str) -> Option<&'a str> {
        self.info.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (info, after) = after.split_once('\n').unwrap();
        let body = after.split_once("```").unwrap_or_else(|| panic!("a fence `{info}` has no end")).0;
        found.push(Fence { info, body });
        rest = &after[body.len() + "```".len()..];
    }
    found
}

/// A command, and the output that stands below it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    command: String,
    output: String,
}

fn steps(body: &str) -> Vec<Step> {
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
fn scripts(yaml: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = yaml.lines().collect();
    let opens = |line: &str| line.ends_with("run: |") || line.trim() == "- |";
    let starts = lines.iter().enumerate().filter(|(_, line)| opens(line));
    let script = |(at, line): (usize, &&str)| {
        let within = |next: &&&str| next.trim().is_empty() || indent(next) > indent(line);
        lines[at + 1..].iter().take_while(within).map(|line| format!("{}\n", line.trim_start())).collect()
    };
    starts.map(script).collect()
}

/// Whether what was printed is what is shown; a line `...` stands for any number of lines.
fn is_shown(shown: &str, printed: &str) -> bool {
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

/// One guide and the folder it is read in.
struct Session {
    sandbox: Sandbox,
    registry: Option<Registry>,
    node: Option<Node>,
}

impl Session {
    /// With `underpin` and `sample-images` on the path, as the guides have people install them.
    fn new(registry: Option<Registry>, node: Option<Node>) -> Self {
        let sandbox = Sandbox::new();
        // Nothing of podman or Bazel is to be seen outside, or to stay running.
        let at = |name: &str| sandbox.path(name).display().to_string();
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("graph"), at("run"));
        std::fs::write(at("storage.conf"), storage).unwrap();
        std::fs::write(at("home/.bazelrc"), format!("startup --batch --output_user_root={}\n", at("bazel"))).unwrap();
        let samples = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/sample-images");
        assert!(samples.exists(), "`cargo build --examples` makes {}", samples.display());
        std::fs::create_dir(sandbox.path("bin")).unwrap();
        for (name, program) in [("underpin", PathBuf::from(binary())), ("sample-images", samples)] {
            std::os::unix::fs::symlink(program, sandbox.path("bin").join(name)).unwrap();
        }
        Self { sandbox, registry, node }
    }

    /// What the script prints, both streams in one.
    fn bash(&self, script: &str) -> String {
        let path = format!("{}:{}:/usr/sbin:/sbin", self.sandbox.path("bin").display(), std::env::var("PATH").unwrap());
        let clone = env!("CARGO_MANIFEST_DIR");
        let script = self
            .registry
            .as_ref()
            .map_or_else(|| script.to_owned(), |to| script.replace("registry.example", to.host()));
        let script = format!("exec 2>&1\nset -euo pipefail\n{script}");
        let run = self.sandbox.program("bash", ["-c", &script]).env("PATH", path).env("UNDERPIN_CLONE", clone);
        let host = self.registry.as_ref().map_or("", Registry::host);
        let socket = self.node.as_ref().map_or_else(PathBuf::new, Node::socket);
        let run =
            run.env("CONTAINERS_STORAGE_CONF", self.sandbox.path("storage.conf")).env("CONTAINERD_ADDRESS", socket);
        // What GitHub Actions and prow give their jobs.
        let run =
            run.env("GITHUB_OUTPUT", self.sandbox.path("github-output")).env("ARTIFACTS", self.sandbox.path("here"));
        run.env("REGISTRY", host).limit(std::time::Duration::from_secs(600)).run().ok().stdout
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.sandbox.path("here").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        if text.starts_with("#!") {
            crate::rig::reader::tool("chmod", &["755", file.to_str().unwrap()]);
        }
    }

    /// The transcript as it came out.
    fn console(&self, body: &str) -> Vec<Step> {
        let steps = steps(body);
        let marked = steps.iter().map(|step| format!("echo {MARK}\n{}", step.command));
        let printed = self.bash(&marked.collect::<String>());
        let mark = format!("{MARK}\n");
        let outputs = printed.split(&mark).skip(1).map(|output| self.steady(output));
        steps.into_iter().zip(outputs).map(|(step, output)| Step { output, ..step }).collect()
    }

    /// Without what differs from run to run: the port of the registry.
    fn steady(&self, output: &str) -> String {
        self.registry
            .as_ref()
            .map_or_else(|| output.to_owned(), |registry| output.replace(registry.host(), "registry.example"))
    }
}

/// Runs a guide; gives its text with the transcripts as they came out.
fn follow(text: &str) -> Option<String> {
    let registry = if text.contains("$REGISTRY") || text.contains("docker://registry.example") {
        Some(Registry::plain()?)
    } else {
        None
    };
    let node = if text.contains("$ ctr ") { Node::start() } else { None };
    let session = Session::new(registry, node);
    let mut told = text.to_owned();
    for fence in fences(text) {
        if fence.word("needs").is_some_and(|program| !need(&[program])) {
            continue;
        }
        if let Some(name) = fence.word("file") {
            session.write(name, fence.body);
            if name.ends_with(".yaml") {
                scripts(fence.body).iter().for_each(|script| drop(session.bash(script)));
            }
        } else if fence.info.starts_with("console") {
            let shown = steps(fence.body);
            let mut ran = session.console(fence.body);
            for (shown, ran) in shown.into_iter().zip(&mut ran) {
                if shown.output.contains("...\n") {
                    assert!(is_shown(&shown.output, &ran.output), "{}prints\n{}", shown.command, ran.output);
                    ran.output = shown.output;
                }
            }
            let body: String = ran.iter().map(|step| format!("$ {}{}", step.command, step.output)).collect();
            told = told.replacen(fence.body, &body, 1);
        } else {
            assert!(fence.info.starts_with("text"), "nobody would run a fence `{}`:\n{}", fence.info, fence.body);
        }
    }
    Some(told)
}

/// The guide is what happens when it is followed.
fn holds(guide: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(guide);
    let kept = std::fs::read_to_string(&file).unwrap();
    let Some(told) = follow(&kept) else { return };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&file, &told).unwrap();
    }
    let differs = kept.lines().zip(told.lines()).find(|(kept, told)| kept != told);
    assert!(kept == told, "docs/{guide} shows one thing, and another happens: {differs:?}");
}

#[test]
fn one_image_in_five_minutes() {
    if need(&["skopeo", "umoci", "runc", "jq"]) {
        holds("five-minutes.md");
    }
}

#[test]
fn the_guide_to_the_rest() {
    if need(&["skopeo", "cc"]) {
        holds("guide.md");
    }
}

#[test]
fn a_whole_project_in_an_afternoon() {
    if need(&["make"]) {
        holds("project.md");
    }
}

#[test]
fn a_digest_is_checked_with_other_tools() {
    if need(&["skopeo", "jq"]) {
        holds("check-a-digest.md");
    }
}

#[test]
fn a_test_release_is_loaded_into_nodes() {
    if need(&["skopeo"]) {
        holds("test-release.md");
    }
}

#[test]
fn the_examples_for_ci_work() {
    holds("ci.md");
}

#[test]
fn the_example_for_bazel_works() {
    if need(&["bazel"]) {
        holds("bazel.md");
    }
}

#[test]
fn a_guide_is_read_as_it_is_written() {
    let text = "# Guide\n\n```make file=Makefile\nall:\n```\nthen\n```console\n$ a \\\n    b\nout\n$ c\n```\n";
    let found = fences(text);
    assert_eq!(
        found,
        [
            Fence { info: "make file=Makefile", body: "all:\n" },
            Fence { info: "console", body: "$ a \\\n    b\nout\n$ c\n" }
        ]
    );
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

#[test]
fn a_guide_that_says_something_else_is_found_out() {
    let text = "\n```console\n$ echo one; echo two >&2\none\nthree\n```\n";
    assert_eq!(follow(text).unwrap(), "\n```console\n$ echo one; echo two >&2\none\ntwo\n```\n");
    for wrong in ["\n```console\n$ false\n```\n", "\n```sh\nrm x\n```\n", "\n```console\n$ echo a\nb\n...\n```\n"] {
        let caught = std::panic::catch_unwind(|| follow(wrong));
        assert!(caught.is_err(), "{wrong}");
    }
}
