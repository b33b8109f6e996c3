//! Many images from one file, against a real registry: outcomes, the lock, shards, requests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::check;
use crate::support::cli::{Invocation, Sandbox};
use crate::support::layer::{Layer, Pack, program};
use crate::support::program::{Machine, prints};
use crate::support::proxy::Proxy;
use crate::support::registry::Registry;
use crate::support::stage::upon;
use crate::support::stock;

/// A registry with `count` applications on one base, and a file that moves them all.
struct Rig {
    registry: Registry,
    proxy: Proxy,
    sandbox: Sandbox,
    count: usize,
}

impl Rig {
    fn new(count: usize) -> Option<Self> {
        let registry = Registry::plain()?;
        let proxy = Proxy::before(registry.host());
        let rig = Self { registry, proxy, sandbox: Sandbox::new(), count };
        for at in 0..count {
            rig.push_app(at, "hello\n");
        }
        stock::old_base("linux/amd64").build().push(rig.registry.host(), "base/old", "v1");
        stock::new_base("linux/amd64").build().push(rig.registry.host(), "base/new", "v1");
        rig.write("batch.yaml", &rig.file());
        Some(rig)
    }

    fn push_app(&self, at: usize, line: &str) {
        let line = format!("{at}: {line}");
        let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, &line))])];
        let app = upon(&stock::old_base("linux/amd64"), layer, stock::app_config());
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

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sandbox.path("here").join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.sandbox.path("here").join(name)).unwrap()
    }

    fn batch(&self, flags: &[&str]) -> Invocation {
        self.proxy.calm();
        self.sandbox.underpin(["batch", "batch.yaml"].iter().chain(flags)).hurried()
    }

    fn digest(&self, at: usize) -> Option<String> {
        self.registry.tag(&format!("out/app{at}"), "v1")
    }

    fn digests(&self) -> Vec<Option<String>> {
        (0..self.count).map(|at| self.digest(at)).collect()
    }
}

fn outcomes(report: &Value) -> Vec<&str> {
    report["images"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect()
}

#[test]
fn a_batch_gives_what_single_runs_give_and_asks_for_its_base_once() {
    let Some(rig) = Rig::new(6) else { return };
    let run = rig.batch(&["--no-cache"]).run().ok().says("6 images: 6 rebased");
    assert_eq!(run.pinned().len(), 6);
    for base in ["base/new", "base/old"] {
        let manifests = rig.proxy.matching("GET", &format!("{base}/manifests/"));
        assert_eq!(manifests.len(), 1, "{base}: {manifests:?}");
    }
    for (at, pinned) in run.pinned().iter().enumerate() {
        let published = check::registry(rig.registry.host(), &format!("out/app{at}"), "v1").unwrap();
        assert!(pinned.ends_with(&format!("out/app{at}@{}", published.digest)), "{pinned}");
        let host = rig.proxy.host();
        let single = rig.sandbox.underpin(["rebase", &format!("{host}/in/app{at}:v1"), "--to", "oci:single:v1", "-q"]);
        let single =
            single.args(["--base", &format!("{host}/base/new:v1"), "--old-base", &format!("{host}/base/old:v1")]);
        assert_eq!(single.run().ok().digest(), published.digest);
    }
}

#[test]
fn a_finished_target_costs_one_head_request() {
    let Some(rig) = Rig::new(4) else { return };
    rig.batch(&[]).run().ok();
    let (lock, digests) = (rig.read("underpin.lock"), rig.digests());
    let report = rig.batch(&["--no-cache", "--json"]).run().ok().json();
    assert_eq!(outcomes(&report), ["unchanged"; 4]);
    let seen: Vec<String> = rig.proxy.seen().iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|line| line.starts_with("HEAD /v2/out/app")), "{seen:?}");
    assert!(report["images"][0]["size"]["before"].as_u64().unwrap() > 0);
    assert_eq!((rig.read("underpin.lock"), rig.digests()), (lock, digests));
}

#[test]
fn each_image_has_its_own_outcome() {
    let Some(rig) = Rig::new(2) else { return };
    let host = rig.proxy.host();
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", "/app | grep x"]});
    let layer = [Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, "x"))])];
    upon(&stock::old_base("linux/amd64"), layer, piped).build().push(rig.registry.host(), "in/piped", "v1");
    let entry = |name: &str| format!("  - source: {host}/in/{name}:v1\n    target: {host}/out/{name}:v1\n");
    rig.write("batch.yaml", &(rig.file() + &entry("piped")));
    let report = rig.batch(&["--json"]).run().refused().json();
    assert_eq!((outcomes(&report), &report["outcome"]), (vec!["rebased", "rebased", "refused"], &json!("refused")));
    assert!(rig.read("underpin.lock").lines().count() == 4, "only results are in the lock");

    rig.write("list.md", "|Component|Base|Reason|\n|-|-|-|\n|piped|k8s.gcr.io/debian-base|Requires a shell|\n");
    rig.write("batch.yaml", &(rig.file().replace("images:", "  exceptions: list.md\nimages:") + &entry("piped")));
    let report = rig.batch(&["--json"]).run().ok().json();
    assert_eq!(outcomes(&report), ["unchanged", "unchanged", "excepted"]);
    assert_eq!(rig.registry.tag("out/piped", "v1"), None, "it stays where it is");

    rig.write("batch.yaml", &(rig.file() + &entry("none") + &entry("piped")));
    let run = rig.batch(&["--json", "--update-lock"]).run();
    assert_eq!((run.code(), outcomes(&run.json())), (Some(2), vec!["unchanged", "unchanged", "failed", "refused"]));
}

#[test]
fn the_lock_pins_what_names_led_to() {
    let Some(rig) = Rig::new(2) else { return };
    rig.batch(&["--locked"]).run().fails("usage").says("no underpin.lock");
    rig.batch(&[]).run().ok();
    let before = rig.digests();
    rig.batch(&["--locked"]).run().ok();

    rig.push_app(1, "changed\n");
    let report = rig.batch(&["--locked", "--json"]).run().refused().json();
    assert_eq!(outcomes(&report), ["unchanged", "refused"]);
    assert_eq!(report["images"][1]["findings"][0]["rule"], "lock-drift");
    assert_eq!(rig.digests(), before, "nothing was written");

    let moved = rig.file().replace("out/app", "elsewhere/app");
    rig.write("batch.yaml", &moved);
    rig.batch(&["--locked"]).run().refused();
    rig.write("batch.yaml", &rig.file());

    rig.batch(&[]).run().ok();
    assert_eq!(rig.digests(), before, "the pinned source, whatever the tag says");
    rig.batch(&["--update-lock"]).run().ok();
    assert_eq!(rig.digest(0), before[0]);
    assert_ne!(rig.digest(1), before[1], "looked up anew");
    rig.batch(&["--locked"]).run().ok();
}

#[test]
fn a_lost_target_is_made_again_from_the_lock() {
    let Some(rig) = Rig::new(1) else { return };
    rig.batch(&[]).run().ok();
    let before = rig.digests();
    stock::app("linux/amd64", 5).build().push(rig.registry.host(), "out/app0", "v1");
    rig.push_app(0, "changed\n");
    assert_eq!(outcomes(&rig.batch(&["--json"]).run().ok().json()), ["rebased"]);
    assert_eq!(rig.digests(), before);
}

#[test]
fn shards_are_the_whole_together_and_nothing_twice() {
    let Some(rig) = Rig::new(5) else { return };
    let mut seen = BTreeSet::new();
    for index in 0..3 {
        let run = if index == 2 {
            rig.batch(&["--shard", "/3"]).env("JOB_COMPLETION_INDEX", "2").run().ok()
        } else {
            rig.batch(&["--shard", &format!("{index}/3")]).run().ok()
        };
        assert!(run.pinned().iter().all(|line| seen.insert((*line).to_owned())), "{run}");
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(rig.read("underpin.lock").lines().count(), 7, "all shards are in the lock");
    let report = rig.batch(&["--locked", "--json"]).run().ok().json();
    assert_eq!(outcomes(&report), ["unchanged"; 5]);
    rig.batch(&["--shard", "3/3"]).run().fails("usage");
}

#[test]
fn a_batch_that_was_killed_goes_on_where_it_was() {
    let Some(rig) = Rig::new(8) else { return };
    let expected = {
        rig.batch(&["--no-cache"]).run().ok();
        std::fs::remove_file(rig.sandbox.path("here").join("underpin.lock")).unwrap();
        rig.digests()
    };
    rig.write("batch.yaml", &rig.file().replace("/out/", "/again/"));
    let running = rig.batch(&["--jobs", "1"]).start();
    assert!(rig.proxy.wait_for("PUT", "again/app4/manifests", Duration::from_secs(60)));
    running.signal(libc::SIGKILL);
    assert_eq!(running.finish().code(), None);
    let done = Lines::of(&rig.read("underpin.lock"));
    assert!(done.0 >= 3, "what was done is in the lock");
    let report = rig.batch(&["--json"]).run().ok().json();
    assert!(outcomes(&report).iter().filter(|outcome| **outcome == "unchanged").count() >= done.0);
    let again: Vec<_> = (0..8).map(|at| rig.registry.tag(&format!("again/app{at}"), "v1")).collect();
    assert_eq!(again, expected);
}

/// The images of a lock: all of its lines but two.
struct Lines(usize);

impl Lines {
    fn of(lock: &str) -> Self {
        Self(lock.lines().count().saturating_sub(2))
    }
}

#[test]
fn the_file_is_checked_before_anything_is_asked() {
    let Some(rig) = Rig::new(1) else { return };
    rig.write("batch.yaml", &rig.file().replace("target:", "taget:"));
    rig.batch(&[]).run().fails("usage").says("unknown key `taget`").says("line 6, column 5").says("batch.yaml");
    rig.write("batch.yaml", "images:\n  - source: a.io/b\n");
    rig.batch(&[]).run().fails("usage").says("no `target`").says("line 2");
    assert!(rig.proxy.seen().is_empty());
    let schema: Value = serde_json::from_str(&rig.sandbox.underpin(["batch", "--schema"]).run().ok().stdout).unwrap();
    assert_eq!(schema["required"], json!(["images"]));
}

#[test]
fn the_results_can_be_promoted() {
    let Some(rig) = Rig::new(2) else { return };
    rig.batch(&["--promoter", "images.yaml"]).run().ok();
    let digest = rig.digest(1).unwrap();
    let expected = format!("- name: \"out/app1\"\n  dmap:\n    \"{digest}\": [\"v1\"]\n");
    assert!(rig.read("images.yaml").ends_with(&expected), "{}", rig.read("images.yaml"));
    rig.batch(&["--promoter", "again.yaml"]).run().ok();
    assert_eq!(rig.read("again.yaml"), rig.read("images.yaml"), "also of targets that were there");
}

#[test]
fn the_presubmit_looks_at_a_whole_batch() {
    let Some(rig) = Rig::new(2) else { return };
    let host = rig.proxy.host();
    rig.write("list.md", &format!("|Component|Base|Reason|\n|-|-|-|\n|app0|{host}/base/old|x|\n|gone|b|y|\n"));
    let flags = [
        "--exceptions",
        "list.md",
        "--json",
        "--allow-base",
        &format!("{host}/base/new"),
        "--exception-base",
        "a.io/b",
    ];
    let run = rig.sandbox.underpin(["check", "--batch", "batch.yaml"].iter().chain(&flags)).hurried().run().refused();
    let report = run.json();
    let verdicts: Vec<&Value> = report["images"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!((verdicts, &report["unmatched"]), (vec![&json!("passed"), &json!("refused")], &json!(["gone"])));
}
