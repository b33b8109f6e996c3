//! `scripts/make/underpin.mk` with the real GNU make: what it moves, what it leaves alone, and what a failure leaves.

use std::path::{Path, PathBuf};

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox, binary};
use crate::support::proxy::Proxy;
use crate::support::published;
use crate::support::skip::{Part, need, or_skip};

const AMD64: &str = "linux/amd64";

/// A project whose Makefile moves images; every call of underpin is written to `calls`.
struct Project {
    sandbox: Sandbox,
}

impl Project {
    /// Skips where GNU make is not installed. The layouts are `build/`, `old` and `new base`.
    fn new(makefile: &str) -> Part<Self> {
        need(&["make"])?;
        let project = Self { sandbox: Sandbox::new() };
        fixtures::app(AMD64, 100).build().layout(&project.at("build"), "app");
        fixtures::old_base(AMD64).build().layout(&project.at("old"), "v1");
        fixtures::new_base(AMD64).build().layout(&project.at("new base"), "v1");
        let recorder = format!("#!/bin/sh\necho \"$@\" >>calls\nexec '{}' \"$@\"\n", binary());
        project.write("tool box/underpin", &recorder);
        crate::support::tools::tool("chmod", &["755", project.at("tool box/underpin").to_str().unwrap()]);
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/make/underpin.mk");
        let head = "UNDERPIN = ./tool box/underpin\nUNDERPIN_BASE = oci:new base:v1\n";
        project.write("Makefile", &format!("{head}{makefile}\ninclude {}\n", rules.display()));
        Ok(project)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.sandbox.path("here").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), text).unwrap();
    }

    fn make(&self, args: &[&str]) -> Run {
        let _ = std::fs::remove_file(self.at("calls"));
        self.sandbox.program("make", args).run()
    }

    /// How often the last `make` called `underpin COMMAND`.
    fn calls(&self, command: &str) -> usize {
        let calls = std::fs::read_to_string(self.at("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.split(' ').next() == Some(command)).count()
    }

    fn stamp(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.at(".underpin").join(format!("{name}.digest"))).ok()?;
        Some(text.trim_end().to_owned())
    }
}

const ONE: &str = "UNDERPIN_IMAGES = app\napp_SOURCE = oci:build:app # what was built\napp_OLD_BASE = oci:old:v1
app_TARGET = oci:release:app\napp_FLAGS = --no-cache $(MORE)\n";

#[test]
fn eight_jobs_move_twenty_images_into_one_layout_and_a_second_run_moves_none() {
    let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    let image = |name: &String| {
        format!("{name}_SOURCE = oci:build:app\n{name}_OLD_BASE = oci:old:v1\n{name}_TARGET = oci:release:{name}\n")
    };
    let images: Vec<String> = names.iter().map(image).collect();
    let makefile = format!("UNDERPIN_IMAGES = {}\n{}", names.join(" "), images.concat());
    let project = or_skip!(Project::new(&makefile));
    let first = project.make(&["-j8", "underpin-release"]).ok();
    assert_eq!((project.calls("rebase"), first.pinned().len()), (20, 20), "{first}");
    for name in &names {
        let published = published::layout(&project.at("release"), name).unwrap();
        assert_eq!(project.stamp(name), Some(published.digest));
    }
    let second = project.make(&["-j8", "underpin-release"]).ok();
    assert_eq!((project.calls("rebase"), second.stdout.as_str(), second.stderr.as_str()), (0, "", ""));
}

/// make, the command line and a registry: one digest.
#[test]
fn the_digest_is_that_of_the_command_line() {
    let names = "app_SOURCE_NAME = r.example/app\nUNDERPIN_BASE_NAME = gcr.io/distroless/static\n";
    let project = or_skip!(Project::new(&format!("{ONE}{names}")));
    project.make(&["underpin-release"]).ok();
    let by_hand = |source: &str, base: &str| {
        let words =
            ["rebase", source, "--base", base, "--old-base", "oci:old:v1", "--to", "oci:hand:app", "--no-cache"];
        let names = ["--source-name", "r.example/app", "--base-name", "gcr.io/distroless/static"];
        project.sandbox.underpin(words.iter().chain(&names)).run().ok().digest()
    };
    assert_eq!(project.stamp("app"), Some(by_hand("oci:build:app", "oci:new base:v1")));
    let registry = or_skip!(Registry::plain());
    fixtures::app(AMD64, 100).build().push(registry.host(), "app", "v1");
    fixtures::new_base(AMD64).build().push(registry.host(), "static", "v1");
    let at = |name: &str| format!("{}/{name}:v1", registry.host());
    assert_eq!(project.stamp("app"), Some(by_hand(&at("app"), &at("static"))));
}

#[test]
fn only_what_changed_is_moved_again() {
    let project = or_skip!(Project::new(&format!(
        "{ONE}UNDERPIN_IMAGES += two\ntwo_SOURCE = oci:odd:dir/build two:app\ntwo_TARGET = oci:odd:dir/re lease:two\ntwo_OLD_BASE = oci:old:v1\n"
    )));
    fixtures::app(AMD64, 200).build().layout(&project.at("odd:dir/build two"), "app");
    let release = |more: &[&str]| {
        project.make(&[&["underpin-release"], more].concat()).ok();
        project.calls("rebase")
    };
    assert_eq!((release(&[]), release(&[])), (2, 0));
    assert_eq!((release(&["MORE=--keep /srv"]), release(&["MORE=--keep /srv"])), (1, 0), "a flag");
    let would = |more: &[&str]| project.make(&[&["-n", "underpin-release"], more].concat()).ok().stdout;
    let moves = |printed: String| printed.matches(" rebase ").count();
    assert_eq!((moves(would(&["MORE=--keep /srv"])), moves(would(&["MORE=--keep /opt"]))), (0, 1), "make -n tells");
    assert_eq!((release(&["MORE=--keep /srv"]), release(&["MORE=--keep /srv"])), (1, 0), "as a flag it was and is not");
    let kept = project.stamp("app").unwrap();
    fixtures::app(AMD64, 300).build().layout(&project.at("build"), "app");
    assert_eq!((release(&["MORE=--keep /srv"]), release(&["MORE=--keep /srv"])), (1, 0), "a source");
    assert_ne!(project.stamp("app").unwrap(), kept);
    std::fs::remove_dir_all(project.at("odd:dir/re lease")).unwrap();
    assert_eq!((release(&["MORE=--keep /srv"]), release(&["MORE=--keep /srv"])), (1, 0), "a target that is gone");
    fixtures::new_base(AMD64).build().layout(&project.at("new base"), "v1");
    assert_eq!((release(&["MORE=--keep /srv"]), release(&["MORE=--keep /srv"])), (2, 0), "the base of both");
}

#[test]
fn the_file_of_a_docker_archive_with_a_whole_name_is_watched() {
    let archive = "docker-archive:sub dir/app.tar:localhost:5000/team/app:v1";
    let again = format!(
        "UNDERPIN_IMAGES += again\nagain_SOURCE = {archive}\nagain_OLD_BASE = $(UNDERPIN_BASE)\nagain_TARGET = oci:again:app\n"
    );
    let one = ONE.replace("oci:release:app", archive);
    let project = or_skip!(Project::new(&format!("{one}{again}sub\\ dir/app.tar: .underpin/app.digest ;\n")));
    std::fs::create_dir(project.at("sub dir")).unwrap();
    let release = || {
        project.make(&["-j4", "underpin-release"]).ok();
        project.calls("rebase")
    };
    assert_eq!((release(), release()), (2, 0));
    assert_eq!(project.stamp("app"), project.stamp("again"), "what is right already stays");
    std::fs::remove_file(project.at("sub dir/app.tar")).unwrap();
    assert_eq!((release(), release()), (2, 0));
}

#[test]
fn what_is_written_while_underpin_works_is_moved_next_time() {
    let project = or_skip!(Project::new(ONE));
    let slow = format!(
        "#!/bin/sh\necho \"$@\" >>calls\n'{}' \"$@\" && if [ \"$1$LATE\" = rebaseyes ]; then touch build/index.json; fi\n",
        binary()
    );
    project.write("tool box/underpin", &slow);
    for (late, calls) in [("yes", 1), ("no", 1), ("no", 0)] {
        let _ = std::fs::remove_file(project.at("calls"));
        project.sandbox.program("make", ["underpin-release"]).env("LATE", late).run().ok();
        assert_eq!(project.calls("rebase"), calls, "{late}");
    }
}

#[test]
fn a_failure_leaves_no_stamp_and_the_next_run_tries_again() {
    let project = or_skip!(Project::new(ONE));
    project.make(&["underpin-release"]).ok();
    let good = project.stamp("app");
    assert!(good.as_ref().is_some_and(|digest| digest.starts_with("sha256:") && digest.len() == 71), "{good:?}");
    let wrong = format!("MORE=--expect-digest sha256:{}", "0".repeat(64));
    for _ in 0..2 {
        let run = project.make(&["underpin-release", &wrong]);
        assert_eq!((run.code(), project.calls("rebase"), project.stamp("app")), (Some(2), 1, None), "{run}");
        assert!(run.stderr.contains("digest-unexpected"), "the refusal is shown\n{run}");
    }
    project.make(&["underpin-release"]).ok();
    assert_eq!((project.calls("rebase"), project.stamp("app")), (1, good));
}

#[test]
fn images_are_started_before_they_are_released_where_the_flags_say_so() {
    let project = or_skip!(Project::new(ONE));
    or_skip!(need(&["runc"]));
    project.make(&["underpin-release", "MORE=--start=1"]).ok();
    let report = std::fs::read(project.at(".underpin/app.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let started = &report["platforms"][0]["started"];
    assert_eq!((&started["source"]["status"], &started["result"]["status"]), (&0.into(), &0.into()), "{report:#}");
    let run = project.make(&["underpin-release", "MORE=--start=1 --runtime /no/such/runtime"]);
    assert_eq!((run.code(), project.stamp("app")), (Some(2), None), "{run}");
}

/// A tag can move without a file changing; the stamp's time then stays, so what depends on it is not made again.
#[test]
fn a_tag_in_a_registry_is_asked_for_every_time_and_a_digest_never() {
    let registry = or_skip!(Registry::plain());
    let host = registry.host();
    let app = fixtures::app(AMD64, 100).build();
    app.push(host, "a/app", "v1");
    let makefile = format!(
        "UNDERPIN_IMAGES = app\napp_SOURCE = {host}/a/app$(BY)\napp_OLD_BASE = layers:2\napp_TARGET = {host}/out/app:v1\n\
         BY = :v1\nnotes: .underpin/app.digest ; @echo made >>$@\n"
    );
    let project = or_skip!(Project::new(&makefile));
    for _ in 0..2 {
        project.make(&["underpin-release", "notes"]).ok();
        assert_eq!(project.calls("rebase"), 1);
    }
    assert_eq!(std::fs::read_to_string(project.at("notes")).unwrap(), "made\n");
    assert_eq!(registry.tag("out/app", "v1"), project.stamp("app"));
    fixtures::app(AMD64, 200).build().push(host, "a/app", "v1");
    project.make(&["underpin-release", "notes"]).ok();
    assert_eq!(std::fs::read_to_string(project.at("notes")).unwrap(), "made\nmade\n");
    assert_eq!(registry.tag("out/app", "v1"), project.stamp("app"));
    let pinned = format!("BY=@{}", app.digest());
    project.make(&["underpin-release", &pinned]).ok();
    project.make(&["underpin-release", &pinned]).ok();
    assert_eq!(project.calls("rebase"), 0);
}

#[test]
fn plans_and_the_static_check_are_steps_of_their_own() {
    let makefile = format!("{ONE}UNDERPIN_BINARIES = bin/app\nbin/app: ; @mkdir -p bin && cp '{}' $@\n", "/bin/sh");
    let project = or_skip!(Project::new(&makefile));
    let plan = project.make(&["underpin-plan"]).ok();
    assert!(plan.stdout.contains("would be  oci:release:app"), "{plan}");
    assert_eq!((project.stamp("app"), project.at("release").exists()), (None, false));
    let elf = project.make(&["underpin-elf"]);
    assert!(elf.code() == Some(2) && elf.stdout.contains("dynamic"), "it is built, looked at, and not static\n{elf}");
    std::fs::write(
        project.at("bin/app"),
        crate::support::programs::prints(crate::support::programs::Machine::Amd64, "x"),
    )
    .unwrap();
    project.make(&["underpin-elf"]).ok();
}

#[test]
fn the_policy_check_judges_what_would_be_released() {
    for (allowed, code) in [("oci:same:v1", 0), ("oci:old:v1", 2)] {
        // A list of bases cannot have one with a space in its name.
        let flags = "UNDERPIN_BASE = oci:same:v1\nUNDERPIN_CHECK_FLAGS = --offline --no-cache\n";
        let project = or_skip!(Project::new(&format!("{ONE}{flags}UNDERPIN_ALLOW_BASES = {allowed}\n")));
        fixtures::new_base(AMD64).build().layout(&project.at("same"), "v1");
        let run = project.make(&["underpin-check"]);
        assert_eq!(run.code(), Some(code), "{run}");
        let told = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(told.contains("base-not-allowed"), code != 0, "{run}");
        assert_eq!((project.stamp("app"), project.at("release").exists()), (None, false), "nothing is released");
    }
}

/// A presubmit runs it with the credentials of a release, or with none.
#[test]
fn the_policy_check_publishes_nothing() {
    let registry = or_skip!(Registry::plain());
    let host = registry.host();
    fixtures::app(AMD64, 100).build().push(host, "a/app", "v1");
    fixtures::new_base(AMD64).build().push(host, "bases/static", "v1");
    let proxy = Proxy::before(host);
    let front = proxy.host();
    let makefile = format!(
        "UNDERPIN_BASE = {front}/bases/static:v1\nUNDERPIN_ALLOW_BASES = {front}/bases/static\nUNDERPIN_IMAGES = app\n\
         app_SOURCE = {front}/a/app:v1\napp_OLD_BASE = layers:2\napp_TARGET = {front}/out/app:v1\n"
    );
    let project = or_skip!(Project::new(&makefile));
    project.make(&["underpin-check"]).ok();
    assert_eq!(registry.tag("out/app", "v1"), None);
    let seen = proxy.seen();
    let writes: Vec<_> = seen.iter().filter(|seen| !["GET", "HEAD"].contains(&seen.method.as_str())).collect();
    assert!(!seen.is_empty() && writes.is_empty(), "{writes:?}");
}

/// What `check` is given; the command itself has its own tests.
#[test]
fn the_policy_check_gets_the_moved_images_and_the_lists() {
    let makefile = format!(
        "{ONE}UNDERPIN_EXCEPTIONS = the list.md\nUNDERPIN_ALLOW_BASES = r.example/a r.example/b\n\
         UNDERPIN_CHECK_IMAGES = r.example/other:v1\n"
    );
    let project = or_skip!(Project::new(&makefile));
    let stub = format!("#!/bin/sh\n[ \"$1\" = check ] && exec printf '%s\\n' \"$@\"\nexec '{}' \"$@\"\n", binary());
    project.write("tool box/underpin", &stub);
    let run = project.make(&["-j4", "underpin-check"]).ok();
    let given = &run.stdout;
    let words = "check|oci:.underpin/check/app:checked|r.example/other:v1|--exceptions|the list.md|--allow-base|r.example/a|--allow-base|r.example/b";
    assert_eq!(given.lines().collect::<Vec<_>>().join("|"), words);
}

#[test]
fn what_cannot_work_is_said_at_once() {
    for (makefile, goal, said) in [
        ("UNDERPIN_IMAGES = app\napp_TARGET = oci:r:a", "other", "app_SOURCE is not set"),
        ("UNDERPIN_IMAGES = app\napp_SOURCE = oci:r:a", "other", "app_TARGET is not set"),
        ("UNDERPIN_IMAGES = a/b", "other", "'a/b' cannot name an image"),
        ("UNDERPIN_STAMPS = a b", "other", "one directory without spaces"),
        ("", "underpin-release", "UNDERPIN_IMAGES is empty"),
        ("", "underpin-elf", "UNDERPIN_BINARIES is empty"),
    ] {
        let project = or_skip!(Project::new(&format!("{makefile}\nother: ; @echo made")));
        let run = project.make(&[goal]).says(said);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(2), ""), "{run}");
    }
    // The twin, and nothing of the included rules is what a plain `make` makes.
    let project = or_skip!(Project::new(&format!("{ONE}last:")));
    let text = std::fs::read_to_string(project.at("Makefile")).unwrap().replace("last:", "");
    project.write("Makefile", &format!("{text}\nother: ; @echo made\n"));
    assert_eq!(project.make(&[]).ok().stdout, "made\n");
}
