//! Many images from one file, against a real registry: outcomes, the lock, shards, requests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Sandbox, binary};
use crate::support::layouts::upon;
use crate::support::programs::{Machine, prints};
use crate::support::proxy::{Action, Proxy, on};
use crate::support::published;
use crate::support::skip::{Part, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};

/// A registry with `count` applications on one base, and a file that moves them all.
pub struct Setup {
    registry: Registry,
    pub proxy: Proxy,
    sandbox: Sandbox,
    count: usize,
}

impl Setup {
    pub fn new(count: usize) -> Part<Self> {
        let registry = Registry::plain()?;
        let proxy = Proxy::before(registry.host());
        let setup = Self { registry, proxy, sandbox: Sandbox::new(), count };
        for at in 0..count {
            setup.push_app(at, "hello\n");
        }
        fixtures::old_base("linux/amd64").build().push(setup.registry.host(), "base/old", "v1");
        fixtures::new_base("linux/amd64").build().push(setup.registry.host(), "base/new", "v1");
        setup.write("batch.yaml", &setup.file());
        Ok(setup)
    }

    fn push_app(&self, at: usize, line: &str) {
        let line = format!("{at}: {line}");
        let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, &line))])];
        let app = upon(&fixtures::old_base("linux/amd64"), layer, fixtures::app_config());
        app.build().push(self.registry.host(), &format!("in/app{at}"), "v1");
    }

    fn file(&self) -> String {
        let host = self.proxy.host();
        let mut file = format!("defaults:\n  base: {host}/base/new:v1\n  old_base: {host}/base/old:v1\nimages:\n");
        for at in 0..self.count {
            let _ = writeln!(file, "  - source: {host}/in/app{at}:v1\n    target: {host}/out/app{at}:v1");
        }
        file
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sandbox.path("here").join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.sandbox.path("here").join(name)).unwrap()
    }

    pub fn batch(&self, flags: &[&str]) -> Invocation {
        self.proxy.calm();
        self.sandbox.underpin(["batch", "batch.yaml"].iter().chain(flags)).hurried()
    }

    /// The registry itself.
    pub fn host(&self) -> String {
        self.registry.host().to_owned()
    }

    fn digest(&self, at: usize) -> Option<String> {
        self.registry.tag(&format!("out/app{at}"), "v1")
    }

    fn digests(&self) -> Vec<Option<String>> {
        (0..self.count).map(|at| self.digest(at)).collect()
    }
}

pub fn outcomes(report: &Value) -> Vec<&str> {
    report["images"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect()
}

#[test]
fn a_batch_gives_what_single_runs_give_and_asks_for_its_base_once() {
    let setup = or_skip!(Setup::new(6));
    let run = setup.batch(&["--no-cache"]).run().ok().says("6 images: 6 rebased");
    assert_eq!(run.pinned().len(), 6);
    for base in ["base/new", "base/old"] {
        let manifests = setup.proxy.matching("GET", &format!("{base}/manifests/"));
        assert_eq!(manifests.len(), 1, "{base}: {manifests:?}");
    }
    for (at, pinned) in run.pinned().iter().enumerate() {
        let published = published::registry(setup.registry.host(), &format!("out/app{at}"), "v1").unwrap();
        assert!(pinned.ends_with(&format!("out/app{at}@{}", published.digest)), "{pinned}");
        let host = setup.proxy.host();
        let single =
            setup.sandbox.underpin(["rebase", &format!("{host}/in/app{at}:v1"), "--to", "oci:single:v1", "-q"]);
        let single =
            single.args(["--base", &format!("{host}/base/new:v1"), "--old-base", &format!("{host}/base/old:v1")]);
        assert_eq!(single.run().ok().digest(), published.digest);
    }
}

#[test]
fn a_finished_target_costs_one_head_request_and_one_for_each_blob() {
    let setup = or_skip!(Setup::new(4));
    setup.batch(&[]).run().ok();
    let (lock, digests) = (setup.read("underpin.lock"), setup.digests());
    let parts = published::registry(setup.registry.host(), "out/app0", "v1").unwrap().only().layers.len() + 1;
    // Without a cache, the manifest that lists the blobs is read, too.
    for (flags, gets) in [(&["--json"][..], 0), (&["--no-cache", "--json"], 4)] {
        let report = setup.batch(flags).run().ok().json();
        assert_eq!(outcomes(&report), ["unchanged"; 4]);
        let seen = setup.proxy.seen();
        let seen: Vec<String> = seen.iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect();
        let count =
            |start: &str, part: &str| seen.iter().filter(|line| line.starts_with(start) && line.contains(part)).count();
        assert_eq!(count("HEAD /v2/out/app", "/manifests/v1"), 4, "{seen:?}");
        assert_eq!(count("HEAD /v2/out/app", "/blobs/"), 4 * parts, "{seen:?}");
        assert_eq!((count("GET /v2/out/app", "/manifests/"), seen.len()), (gets, 4 + 4 * parts + gets), "{seen:?}");
    }
    let report = setup.batch(&["--no-cache", "--json"]).run().ok().json();
    assert!(report["images"][0]["size"]["before"].as_u64().unwrap() > 0);
    assert_eq!((setup.read("underpin.lock"), setup.digests()), (lock, digests));
}

#[test]
fn each_image_has_its_own_outcome() {
    let setup = or_skip!(Setup::new(2));
    let host = setup.proxy.host();
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", "/app | grep x"]});
    let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, "x"))])];
    upon(&fixtures::old_base("linux/amd64"), layer, piped).build().push(setup.registry.host(), "in/piped", "v1");
    let entry = |name: &str| format!("  - source: {host}/in/{name}:v1\n    target: {host}/out/{name}:v1\n");
    setup.write("batch.yaml", &(setup.file() + &entry("piped")));
    let report = setup.batch(&["--json"]).run().refused().json();
    assert_eq!((outcomes(&report), &report["outcome"]), (vec!["rebased", "rebased", "refused"], &json!("refused")));
    assert!(setup.read("underpin.lock").lines().count() == 4, "only results are in the lock");

    setup.write("list.md", "|Component|Base|Reason|\n|-|-|-|\n|piped|k8s.gcr.io/debian-base|Requires a shell|\n");
    setup.write("batch.yaml", &(setup.file().replace("images:", "  exceptions: list.md\nimages:") + &entry("piped")));
    let report = setup.batch(&["--json"]).run().ok().json();
    assert_eq!(outcomes(&report), ["unchanged", "unchanged", "excepted"]);
    assert_eq!(setup.registry.tag("out/piped", "v1"), None, "it stays where it is");

    setup.write("batch.yaml", &(setup.file() + &entry("none") + &entry("piped")));
    let run = setup.batch(&["--json", "--update-lock"]).run();
    assert_eq!((run.code(), outcomes(&run.json())), (Some(2), vec!["unchanged", "unchanged", "failed", "refused"]));
}

#[test]
fn the_lock_pins_what_names_led_to() {
    let setup = or_skip!(Setup::new(2));
    setup.batch(&["--locked"]).run().fails("usage").says("no underpin.lock");
    setup.batch(&[]).run().ok();
    let before = setup.digests();
    setup.batch(&["--locked"]).run().ok();

    setup.push_app(1, "changed\n");
    let report = setup.batch(&["--locked", "--json"]).run().refused().json();
    assert_eq!(outcomes(&report), ["unchanged", "refused"]);
    assert_eq!(report["images"][1]["findings"][0]["rule"], "lock-drift");
    assert_eq!(setup.digests(), before, "nothing was written");

    let moved = setup.file().replace("out/app", "elsewhere/app");
    setup.write("batch.yaml", &moved);
    setup.batch(&["--locked"]).run().refused();
    setup.write("batch.yaml", &setup.file());

    setup.batch(&[]).run().ok();
    assert_eq!(setup.digests(), before, "the pinned source, whatever the tag says");
    setup.batch(&["--update-lock"]).run().ok();
    assert_eq!(setup.digest(0), before[0]);
    assert_ne!(setup.digest(1), before[1], "looked up anew");
    setup.batch(&["--locked"]).run().ok();
}

#[test]
fn a_lost_target_is_made_again_from_the_lock() {
    let setup = or_skip!(Setup::new(1));
    setup.batch(&[]).run().ok();
    let before = setup.digests();
    fixtures::app("linux/amd64", 5).build().push(setup.registry.host(), "out/app0", "v1");
    setup.push_app(0, "changed\n");
    assert_eq!(outcomes(&setup.batch(&["--json"]).run().ok().json()), ["rebased"]);
    assert_eq!(setup.digests(), before);
}

#[test]
fn shards_are_the_whole_together_and_nothing_twice() {
    let setup = or_skip!(Setup::new(5));
    let mut seen = BTreeSet::new();
    for index in 0..3 {
        let run = if index == 2 {
            setup.batch(&["--shard", "/3"]).env("JOB_COMPLETION_INDEX", "2").run().ok()
        } else {
            setup.batch(&["--shard", &format!("{index}/3")]).run().ok()
        };
        assert!(run.pinned().iter().all(|line| seen.insert((*line).to_owned())), "{run}");
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(setup.read("underpin.lock").lines().count(), 7, "all shards are in the lock");
    let report = setup.batch(&["--locked", "--json"]).run().ok().json();
    assert_eq!(outcomes(&report), ["unchanged"; 5]);
    setup.batch(&["--shard", "3/3"]).run().fails("usage");
}

#[test]
fn a_batch_that_was_killed_goes_on_where_it_was() {
    let setup = or_skip!(Setup::new(8));
    let expected = {
        setup.batch(&["--no-cache"]).run().ok();
        std::fs::remove_file(setup.sandbox.path("here").join("underpin.lock")).unwrap();
        setup.digests()
    };
    setup.write("batch.yaml", &setup.file().replace("/out/", "/again/"));
    let running = setup.batch(&["--jobs", "1"]).start();
    assert!(setup.proxy.wait_for("PUT", "again/app4/manifests", Duration::from_secs(60)));
    running.signal(libc::SIGKILL);
    assert_eq!(running.finish().code(), None);
    let run = setup.batch(&["--json"]).run().ok();
    // What was on its way may have arrived.
    let unchanged = outcomes(&run.json()).iter().filter(|outcome| **outcome == "unchanged").count();
    assert!((4..=5).contains(&unchanged), "{run}");
    let seen = setup.proxy.seen();
    for at in 0..4 {
        let of_image = seen.iter().filter(|seen| seen.target.contains(&format!("/app{at}/")));
        let of_image: Vec<&str> = of_image.map(|seen| seen.method.as_str()).collect();
        assert!(of_image.iter().all(|method| *method == "HEAD"), "image {at} was finished: {of_image:?}");
    }
    let again: Vec<_> = (0..8).map(|at| setup.registry.tag(&format!("again/app{at}"), "v1")).collect();
    assert_eq!(again, expected);
    assert!(!setup.sandbox.path("here/underpin.lock.journal").exists(), "all of it is in the lock");
    assert_eq!(setup.read("underpin.lock").lines().count(), 10);
}

#[test]
fn what_a_killed_run_left_counts_beside_its_own_lock_only() {
    let setup = or_skip!(Setup::new(2));
    setup.batch(&[]).run().ok();
    let before = setup.read("underpin.lock");
    // As if a run that updates the lock had been killed when it was done with an image.
    let line = before.lines().nth(1).unwrap().trim_end_matches(',');
    let (source, target) =
        (format!("{}/in/app0:v1", setup.proxy.host()), format!("{}/out/app0:v1", setup.proxy.host()));
    let result = setup.digest(1).unwrap();
    let digest = setup.digest(0).unwrap();
    let journal = |lock: &str| {
        let line = line.replace(&format!("\"result\":\"{digest}\""), &format!("\"result\":\"{result}\""));
        let entry = format!("[\"{source} {target}\",{line}]\n");
        format!("{}\n{entry}[\"cut off", oci::Digest::of(lock.as_bytes()))
    };
    setup.write("underpin.lock.journal", &journal("another lock"));
    assert_eq!(outcomes(&setup.batch(&["--json"]).run().ok().json()), ["unchanged"; 2]);
    assert!(!setup.sandbox.path("here/underpin.lock.journal").exists());

    setup.write("underpin.lock.journal", &journal(&before));
    setup.batch(&["--locked"]).run().ok();
    assert_eq!(setup.read("underpin.lock"), before);
    let report = setup.batch(&["--json"]).run().ok().json();
    assert_eq!(
        outcomes(&report),
        ["unchanged"; 2],
        "the result that the journal has is not there, so it is made again"
    );
    assert_eq!(setup.proxy.count("GET", "in/app0/manifests"), 1);
}

#[test]
fn a_repository_that_has_the_base_needs_no_mounts_of_it() {
    let setup = or_skip!(Setup::new(6));
    setup.batch(&["--jobs", "1"]).run().ok();
    // Nothing is there: the second image finds out that the registry names what it lacks, and what it says about three
    // more is enough.
    assert_eq!(setup.proxy.count("POST", "?mount="), 18);
    assert_eq!(setup.proxy.count("PUT", "/manifests/"), 6 + 3);
    for at in 0..6 {
        setup.push_app(at, "changed\n");
    }
    setup.batch(&["--update-lock", "--jobs", "1"]).run().ok();
    assert_eq!(setup.proxy.count("POST", "?mount="), 3 + 5, "the first image, and a layer of each other one");
    assert_eq!(setup.proxy.count("PUT", "/manifests/"), 6 + 5, "a tag that is moved may have all but the config");
    for at in 0..6 {
        setup.push_app(at, "changed again\n");
    }
    let file = setup.file();
    setup.write(
        "batch.yaml",
        &(0..6).fold(file, |file, at| file.replace(&format!("out/app{at}:v1"), &format!("out/app{at}:v2"))),
    );
    setup.batch(&["--update-lock", "--jobs", "1"]).run().ok();
    assert_eq!(setup.proxy.count("POST", "?mount="), 3 + 5);
    assert_eq!(setup.proxy.count("PUT", "/manifests/"), 6 + 1, "what is new went before: only the probe is refused");
    for (at, tag) in (0..6).flat_map(|at| [(at, "v1"), (at, "v2")]) {
        published::registry(setup.registry.host(), &format!("out/app{at}"), tag).unwrap();
    }
}

#[test]
fn images_that_go_to_one_repository_mount_their_base_once() {
    let setup = or_skip!(Setup::new(4));
    let file = setup.file();
    let file = (0..4).fold(file, |file, at| file.replace(&format!("out/app{at}:v1"), &format!("out/all:app{at}")));
    setup.write("batch.yaml", &file);
    setup.batch(&["--jobs", "1"]).run().ok();
    assert_eq!(setup.proxy.count("POST", "?mount="), 2 + 4);
    for at in 0..4 {
        published::registry(setup.registry.host(), "out/all", &format!("app{at}")).unwrap();
    }
}

#[test]
fn what_failed_comes_first_and_each_image_has_a_line_when_it_is_done() {
    let setup = or_skip!(Setup::new(2));
    let host = setup.proxy.host();
    setup.write(
        "batch.yaml",
        &(setup.file() + &format!("  - source: {host}/in/none:v1\n    target: {host}/out/none:v1\n")),
    );
    let run = setup.batch(&["--jobs", "1"]).run();
    assert_eq!(run.code(), Some(2), "{run}");
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines[0].starts_with(&format!("1 of 3  rebased {host}/in/app0:v1  {host}/out/app0@sha256:")), "{run}");
    assert!(lines[2].starts_with(&format!("3 of 3  failed {host}/in/none:v1  the registry does not have")), "{run}");
    assert!(lines[3].starts_with(&format!("failed: {host}/in/none:v1")), "{run}");
    let table = lines.iter().position(|line| line.contains("outcome")).unwrap();
    assert!(lines[table + 1].contains("in/none:v1") && lines[table + 2].contains("in/app0:v1"), "{run}");
    let report = setup.batch(&["--json", "-q"]).run().json();
    assert_eq!(outcomes(&report), ["unchanged", "unchanged", "failed"], "in the order of the file");
}

#[test]
fn on_a_terminal_it_shows_how_many_are_done_and_how_long_the_rest_takes() {
    let setup = or_skip!(Setup::new(3));
    let words = [binary(), "batch".to_owned(), "batch.yaml".to_owned(), "--jobs".to_owned(), "1".to_owned()];
    let spawn = "import os, pty, sys; code = pty.spawn(sys.argv[1:]); sys.exit(os.waitstatus_to_exitcode(code))";
    let python = ["-c", spawn].map(str::to_owned).into_iter().chain(words);
    setup.proxy.script([on("PUT", "/manifests/")
        .always()
        .does(Action::then(|| std::thread::sleep(Duration::from_millis(400))))]);
    let run = setup.sandbox.program("python3", python).env("TERM", "xterm").env("COLUMNS", "120").run().ok();
    for shown in ["1 of 3 images", "2 of 3 images", " left"] {
        assert!(run.stdout.contains(shown), "{shown}\n{run}");
    }
    assert!(!run.stdout.contains("1 of 3  rebased"), "lines are for pipes\n{run}");
}

#[test]
fn the_file_is_checked_before_anything_is_asked() {
    let setup = or_skip!(Setup::new(1));
    setup.write("batch.yaml", &setup.file().replace("target:", "taget:"));
    setup.batch(&[]).run().fails("usage").says("unknown key `taget`").says("line 6, column 5").says("batch.yaml");
    setup.write("batch.yaml", "images:\n  - source: a.io/b\n");
    setup.batch(&[]).run().fails("usage").says("no `target`").says("line 2");
    assert!(setup.proxy.seen().is_empty());
    let schema: Value = serde_json::from_str(&setup.sandbox.underpin(["batch", "--schema"]).run().ok().stdout).unwrap();
    assert_eq!(schema["required"], json!(["images"]));
}

#[test]
fn the_results_can_be_promoted() {
    let setup = or_skip!(Setup::new(2));
    setup.batch(&["--promoter", "images.yaml"]).run().ok();
    let digest = setup.digest(1).unwrap();
    let expected = format!("- name: out/app1\n  dmap:\n    \"{digest}\": [\"v1\"]\n");
    assert!(setup.read("images.yaml").ends_with(&expected), "{}", setup.read("images.yaml"));
    setup.batch(&["--promoter", "again.yaml"]).run().ok();
    assert_eq!(setup.read("again.yaml"), setup.read("images.yaml"), "also of targets that were there");
    // Into a manifest with images of its own.
    let other = format!("# by hand\n- name: aaa\n  dmap:\n    \"{digest}\": [\"v0\"]\n");
    setup.write("grown.yaml", &other);
    let prefix = format!("{}/out", setup.proxy.host());
    let grow = ["--promoter", "grown.yaml", "--promoter-prefix", &prefix];
    setup.batch(&grow).run().ok();
    let grown = setup.read("grown.yaml");
    assert!(grown.starts_with(&other) && grown.ends_with(&expected.replace("out/", "")), "{grown}");
    setup.batch(&grow).run().ok();
    assert_eq!(setup.read("grown.yaml"), grown, "a second time");
    setup.write("grown.yaml", "- name: app1\n  dmap: {}\n");
    assert_eq!(setup.batch(&grow).run().kind().as_deref(), Some("input"));
    setup.write("grown.yaml", "- name: [\n");
    assert_eq!(setup.batch(&grow).run().code(), Some(2));
}

#[test]
fn a_promoter_manifest_and_a_version_marker_name_the_images() {
    let setup = or_skip!(Setup::new(2));
    let host = setup.proxy.host();
    let (zero, one) = (setup.registry.tag("in/app0", "v1").unwrap(), setup.registry.tag("in/app1", "v1").unwrap());
    let manifest = format!(
        "- name: app0\n  dmap:\n    \"{zero}\": [\"v1.30.0-rc.0_abc\"]\n- name: app1\n  dmap:\n    \"{one}\": [\"v9\", \"v1.30.0-rc.0_abc\"]\n"
    );
    setup.write("images.yaml", &manifest);
    setup.write("latest.txt", "v1.30.0-rc.0+abc\n");
    let text = format!(
        "defaults: {{base: '{host}/base/new:v1', old_base: '{host}/base/old:v1', version_marker: latest.txt}}\nimages:\n- {{promoter: images.yaml, source: {host}/in, target: {host}/promoted, tags: ['{{version}}']}}\n"
    );
    setup.write("batch.yaml", &text);
    let run = setup.batch(&["--promoter", "out.yaml", "--promoter-prefix", &format!("{host}/promoted")]).run().ok();
    assert_eq!(run.pinned().len(), 2, "{run}");
    let out = setup.read("out.yaml");
    assert!(out.starts_with("- name: app0\n") && out.matches("[\"v1.30.0-rc.0_abc\"]").count() == 2, "{out}");
    let policy = format!("{host}/base/new");
    let check = setup.sandbox.underpin(["check", "--batch", "batch.yaml", "--allow-base", &policy]).run();
    assert!(check.stdout.contains("/in/app0\n") && check.stdout.contains("/in/app1\n"), "{check}");
}

#[test]
fn the_presubmit_looks_at_a_whole_batch() {
    let setup = or_skip!(Setup::new(2));
    let host = setup.proxy.host();
    setup.write("list.md", &format!("|Component|Base|Reason|\n|-|-|-|\n|app0|{host}/base/old|x|\n|gone|b|y|\n"));
    let flags = [
        "--exceptions",
        "list.md",
        "--json",
        "--allow-base",
        &format!("{host}/base/new"),
        "--exception-base",
        "a.io/b",
    ];
    let run = setup.sandbox.underpin(["check", "--batch", "batch.yaml"].iter().chain(&flags)).hurried().run().refused();
    let report = run.json();
    let verdicts: Vec<&Value> = report["images"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!((verdicts, &report["unmatched"]), (vec![&json!("passed"), &json!("refused")], &json!(["gone"])));
}

#[test]
fn only_the_lock_is_written_and_a_locked_run_follows_it() {
    let setup = or_skip!(Setup::new(3));
    let run = setup.batch(&["--lock-only"]).run().ok();
    assert_eq!((run.stdout.as_str(), setup.digests()), ("", vec![None; 3]), "{run}");
    assert_eq!(setup.proxy.count("PUT", "") + setup.proxy.count("POST", ""), 0, "{run}");
    let lock = setup.read("underpin.lock");
    setup.push_app(0, "moved on\n");
    setup.batch(&["--lock-only"]).run().ok();
    assert_eq!(setup.read("underpin.lock"), lock, "what is in the lock stays");
    assert_eq!(setup.proxy.seen().len(), 0, "and nobody is asked");
    setup.batch(&["--lock-only", "--update-lock"]).run().ok();
    assert_ne!(setup.read("underpin.lock"), lock);
    let run = setup.batch(&["--locked"]).run().ok();
    assert_eq!(run.pinned().len(), 3, "{run}");
    setup.batch(&["--lock-only", "--locked"]).run().says("cannot be used with");
}

#[test]
fn some_of_the_images_are_chosen_by_pattern() {
    let setup = or_skip!(Setup::new(3));
    setup.batch(&["--only", "*/in/app1:*", "--only", "*/out/app2:v1"]).run().ok().says("2 images: 2 rebased");
    let there: Vec<bool> = setup.digests().iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, true]);
    setup.batch(&["--only", "*/app0:v1"]).run().ok();
    assert_eq!(setup.read("underpin.lock").matches("\"recipe\"").count(), 3, "the others stay in the lock");
    setup.batch(&["--only", "nothing"]).run().fails("usage").says("no image matches");
    setup.batch(&["--only", "a[", "-q"]).run().fails("usage").says("pattern is not valid");
}
