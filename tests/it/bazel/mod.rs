//! `scripts/bazel/underpin.bzl` with the real Bazel, sandboxed: the same digest wherever it is built.

mod elsewhere;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::docker_registry::Registry;
use crate::support::invocation::{Run, Sandbox, binary};
use crate::support::skip::{Part, need, or_skip};
use crate::support::{fixtures, published};

const AMD64: &str = "linux/amd64";

/// A tree artifact, as rules_oci makes; and what moves it.
const RULES: &str = r#"
load("@underpin//:underpin.bzl", "underpin_check", "underpin_rebase")
def _tree_impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(command = "cp -RL build/* " + out.path, inputs = ctx.files.srcs, outputs = [out])
    return [DefaultInfo(files = depset([out]))]

def moved(name, image, **kwargs):
    underpin_rebase(
        name = name, image = image, image_tag = "app", base = ":new_files", base_tag = "v1",
        old_base = ":old_files", old_base_tag = "v1", underpin = "underpin", **kwargs
    )

def checked(name, image = ":build_files", base = None, old_base = None, **kwargs):
    underpin_check(
        name = name, image = image, image_tag = "app", base = base, base_tag = "v1" if base else "",
        old_base = old_base, old_base_tag = "v1" if old_base else "", underpin = "underpin", **kwargs
    )

tree = rule(implementation = _tree_impl, attrs = {"srcs": attr.label_list(allow_files = True)})
"#;

const TARGETS: &str = r#"
load("@underpin//:underpin.bzl", "underpin_push", "underpin_start")
load(":rules.bzl", "checked", "moved", "tree")

[filegroup(name = name + "_files", srcs = glob([name + "/**"])) for name in ["build", "old", "new"]]
tree(name = "tree", srcs = [":build_files"])

moved(name = "app", image = ":build_files")
moved(name = "app_of_tree", image = ":tree", logs = "stdout")
moved(name = "named", image = ":tree", source_name = "r.example/app", base_name = "gcr.io/distroless/static")
moved(name = "unexpected", image = ":tree", expect_digest = "sha256:" + 64 * "0")
moved(name = "not_a_layout", image = "BUILD")
underpin_push(name = "push", rebase = ":app", to = ["REGISTRY/out/app:v1"], underpin = "underpin")
underpin_start(name = "starts", rebase = ":app", seconds = 1, underpin = "underpin")
underpin_start(name = "needs_more", rebase = ":app", seconds = 1, flags = ["--start-mount", "/no/such/path:/x"], underpin = "underpin")

checked(name = "moved", image = ":app", base = ":new_files")
checked(name = "not_allowed", base = ":new_files")
checked(name = "no_exception", base = ":new_files", old_base = ":old_files", exceptions = "list.md")
checked(name = "excepted", base = ":new_files", old_base = ":old_files", exceptions = "list.md", component = "etcd")
checked(name = "allowed_by_name", allow_bases = ["REGISTRY/old:v1"])
"#;

const LIST: &str = "| Component | Base | Reason |\n|---|---|---|\n| etcd | registry.k8s.io/debian-base | its own |\n";

struct Workspace {
    sandbox: Sandbox,
    folder: PathBuf,
}

impl Workspace {
    /// Skips where Bazel is not installed.
    fn new(folder: &str, registry: &str) -> Part<Self> {
        need(&["bazel"])?;
        let sandbox = Sandbox::new();
        let workspace = Self { folder: sandbox.path(folder), sandbox };
        fixtures::app(AMD64, 100).build().layout(&workspace.folder.join("build"), "app");
        fixtures::old_base(AMD64).build().layout(&workspace.folder.join("old"), "v1");
        fixtures::new_base(AMD64).build().layout(&workspace.folder.join("new"), "v1");
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/bazel");
        let outer = format!("local_repository(name = \"underpin\", path = \"{}\")\n", rules.display());
        let targets = TARGETS.replace("REGISTRY", registry);
        for (name, text) in
            [("WORKSPACE", outer.as_str()), ("rules.bzl", RULES), ("BUILD", &targets), ("list.md", LIST)]
        {
            std::fs::write(workspace.folder.join(name), text).unwrap();
        }
        symlink(binary(), workspace.folder.join("underpin")).unwrap();
        Ok(workspace)
    }

    fn bazel(&self, words: &[&str]) -> Run {
        let root =
            format!("--output_user_root={}", self.sandbox.path("bazel root").display().to_string().replace(' ', "-"));
        let run = self.sandbox.program("bazel", ["--batch", &root]).args(words).current_dir(&self.folder);
        run.limit(Duration::from_secs(600)).run()
    }

    fn test(&self, words: &[&str]) -> Run {
        self.bazel(&[&["test", &without_coverage(&self.sandbox.path("coverage"))], words].concat())
    }

    fn output(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join("bazel-bin").join(name)).unwrap()
    }
}

/// Bazel 4 downloads its coverage tools before the first test; these stand for them. Gives the flag that says so.
pub fn without_coverage(tools: &Path) -> String {
    std::fs::create_dir_all(tools).unwrap();
    let targets = "[filegroup(name = name, srcs = [\"x.sh\"], visibility = [\"//visibility:public\"]) \
                   for name in [\"coverage_report_generator\", \"lcov_merger\"]]\n";
    for (name, text) in [("WORKSPACE", ""), ("BUILD", targets), ("x.sh", "#!/bin/sh\n")] {
        std::fs::write(tools.join(name), text).unwrap();
    }
    format!("--override_repository=remote_coverage_tools={}", tools.display())
}

/// The line in which Bazel says what it ran, as `3 processes: 1 internal, 2 linux-sandbox`.
fn processes(run: &Run) -> &str {
    run.stderr.lines().find(|line| line.contains(" process")).unwrap_or_else(|| panic!("{run}"))
}

#[test]
fn two_output_roots_give_one_digest_and_a_second_build_does_nothing() {
    let here = or_skip!(Workspace::new("one", "r.example"));
    let cache = tempfile::tempdir().unwrap();
    let cached = format!("--disk_cache={}", cache.path().display());
    let first = here.bazel(&["build", "//:app", "//:app_of_tree", &cached]).ok();
    assert!(processes(&first).contains("sandbox"), "{first}");
    let (digest, report) = (here.output("app.digest"), here.output("app.json"));
    let published = published::layout(&here.folder.join("bazel-bin/app"), "app").unwrap();
    assert_eq!(published.digest, digest.trim_end());
    assert_eq!(published.only().layers[..2], fixtures::new_base(AMD64).build().layers());
    assert!(report.contains("\"outcome\":\"rebased\"") || report.contains("\"outcome\": \"rebased\""), "{report}");
    // As the command line has it.
    let by_hand = |names: &[&str]| {
        let words =
            ["rebase", "oci:build:app", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", "oci:hand:app"];
        let run = here.sandbox.underpin(words.iter().chain(names)).current_dir(&here.folder);
        let digest = run.arg("--no-cache").run().ok().digest();
        std::fs::remove_dir_all(here.folder.join("hand")).unwrap();
        digest
    };
    assert_eq!(by_hand(&[]), digest.trim_end());
    here.bazel(&["build", "//:named"]).ok();
    let names = ["--source-name", "r.example/app", "--base-name", "gcr.io/distroless/static"];
    assert_eq!(by_hand(&names), here.output("named.digest").trim_end());
    let second = here.bazel(&["build", "//:app", "//:app_of_tree"]).ok();
    assert!(processes(&second).contains("1 process: 1 internal"), "{second}");

    // Another folder, another root, another configuration, and nothing kept: the same bytes.
    let there = Workspace::new("a/longer/path", "r.example").unwrap();
    let again = there.bazel(&["build", "-c", "opt", "//:app"]).ok();
    assert!(processes(&again).contains("sandbox"), "{again}");
    assert_eq!((there.output("app.digest"), there.output("app.json")), (digest, report));
    // With what the first has kept, nothing is run.
    let hit = there.bazel(&["build", "//:app", &cached]).ok();
    assert!(processes(&hit).contains("cache hit") && !processes(&hit).contains("sandbox"), "{hit}");
}

#[test]
fn a_refusal_and_what_is_no_layout_fail_the_build() {
    let here = or_skip!(Workspace::new("here", "r.example"));
    for (target, said) in [("//:unexpected", "digest-unexpected"), ("//:not_a_layout", "is not one OCI layout")] {
        let run = here.bazel(&["build", target]).says(said);
        assert_eq!(run.code(), Some(1), "{run}");
    }
    assert!(!here.folder.join("bazel-bin/unexpected.digest").exists());
}

#[test]
fn a_push_publishes_what_was_built() {
    let registry = or_skip!(Registry::plain());
    let here = or_skip!(Workspace::new("here", registry.host()));
    here.bazel(&["run", "//:push"]).ok();
    let built = here.output("app.digest");
    assert_eq!(registry.tag("out/app", "v1").as_deref(), Some(built.trim_end()));
    // Started by hand, from anywhere, with a flag of its own.
    let push = here.folder.join("bazel-bin/push");
    let by_hand = here.sandbox.program(push.to_str().unwrap(), ["--to", &format!("{}/out/app:v2", registry.host())]);
    by_hand.current_dir(Path::new("/")).run().ok();
    assert_eq!(registry.tag("out/app", "v2").as_deref(), Some(built.trim_end()));
}

#[test]
fn a_check_is_a_test() {
    let registry = or_skip!(Registry::plain());
    let here = or_skip!(Workspace::new("here", registry.host()));
    fixtures::old_base(AMD64).build().push(registry.host(), "old", "v1");
    here.test(&["--test_output=all", "//:moved", "//:excepted", "//:allowed_by_name"]).ok();
    let run = here.test(&["--test_output=all", "//:not_allowed", "//:no_exception", "--keep_going"]);
    assert_eq!(run.code(), Some(3), "Bazel's code for tests that failed\n{run}");
    for (target, rule) in [("not_allowed", "base-not-allowed"), ("no_exception", "exception-missing")] {
        let report = std::fs::read_to_string(here.folder.join("bazel-testlogs").join(target).join("test.xml")).unwrap();
        assert!(report.contains(rule) && run.stdout.contains(rule), "{target}\n{report}\n{run}");
    }
}

#[test]
fn a_start_is_a_local_test() {
    or_skip!(need(&["runc"]));
    let here = or_skip!(Workspace::new("here", "r.example"));
    let run = here.test(&["--test_output=all", "//:starts"]).ok();
    assert!(run.stdout.contains("result ended with status 0"), "{run}");
    assert_eq!(here.test(&["//:needs_more"]).code(), Some(3), "Bazel's code for tests that failed");
}
