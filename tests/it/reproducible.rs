//! The digest is a function of the images, their names and the options. Nothing else.

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::published;
use crate::support::recipe::CREATED;
use crate::support::skip::or_skip;

/// The fixture images as layouts; every run writes to a place of its own.
fn setup() -> Sandbox {
    let sandbox = Sandbox::new();
    fixtures::app("linux/amd64", 50_000).build().layout(&sandbox.path("app"), "v1");
    fixtures::old_base("linux/amd64").build().layout(&sandbox.path("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&sandbox.path("new"), "v1");
    sandbox
}

fn rebase(sandbox: &Sandbox, out: &str) -> Invocation {
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    sandbox.underpin(["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at(out)])
}

#[test]
fn nothing_around_a_run_changes_the_digest() {
    let sandbox = setup();
    let expected = rebase(&sandbox, "out").arg("--no-cache").run().ok().digest();
    let elsewhere = sandbox.path("else where");
    std::fs::create_dir(&elsewhere).unwrap();
    let cached = |out: &str| rebase(&sandbox, out).arg("--cache").arg(sandbox.path("cache"));
    for (name, invocation) in [
        ("cold", cached("cold")),
        ("warm", cached("warm")),
        ("one-job", cached("one-job").args(["--jobs", "1"])),
        ("eight-jobs", cached("eight-jobs").args(["--jobs", "8"])),
        ("cwd", cached("cwd").current_dir(&elsewhere)),
        ("tmpdir", cached("tmpdir").env("TMPDIR", &elsewhere)),
        ("zone", cached("zone").env("TZ", "Asia/Kathmandu")),
        ("language", cached("language").env("LANG", "tr_TR.UTF-8").env("LC_ALL", "tr_TR.UTF-8")),
        ("umask-000", cached("umask-000").umask(0)),
        ("umask-077", cached("umask-077").umask(0o77)),
        ("quiet", cached("quiet").arg("-q")),
        ("loud", cached("loud").arg("-v")),
    ] {
        let run = invocation.run().ok();
        assert_eq!(run.digest(), expected, "{name}\n{run}");
        assert_eq!(published::layout(&sandbox.path(name), "v1").unwrap().digest, expected, "{name}");
    }
}

#[test]
fn runs_side_by_side_agree() {
    let sandbox = setup();
    let expected = rebase(&sandbox, "out").arg("--no-cache").run().ok().digest();
    for round in 0..10 {
        let start = |number: usize| {
            let run = rebase(&sandbox, &format!("out-{round}-{number}"));
            run.arg("--cache").arg(sandbox.path(&format!("cache-{round}"))).start()
        };
        let running: Vec<_> = (0..4).map(start).collect();
        for run in running {
            assert_eq!(run.finish().ok().digest(), expected);
        }
    }
}

#[test]
fn the_time_of_the_result_is_the_sources_or_the_one_that_was_set() {
    let sandbox = setup();
    let created = |out: &str, epoch: Option<&str>| {
        let run = rebase(&sandbox, out).arg("--no-cache");
        let run = epoch.into_iter().fold(run, |run, epoch| run.env("SOURCE_DATE_EPOCH", epoch)).run().ok();
        let published = published::layout(&sandbox.path(out), "v1").unwrap();
        (run.digest(), published.only().config["created"].as_str().unwrap().to_owned())
    };
    let (plain, own) = created("plain", None);
    assert_eq!(own, CREATED);
    let (set, when) = created("set", Some("1234567890"));
    assert_eq!(when, "2009-02-13T23:31:30Z");
    assert_eq!(created("again", Some("1234567890")), (set.clone(), when));
    assert_ne!(plain, set);
}

#[test]
fn a_source_date_that_is_no_number_is_an_error() {
    let sandbox = setup();
    rebase(&sandbox, "out").env("SOURCE_DATE_EPOCH", "yesterday").run().fails("usage").says("SOURCE_DATE_EPOCH");
    assert!(!sandbox.path("out").exists());
}

#[test]
fn layers_and_config_are_the_same_from_every_place() {
    let registry = or_skip!(Registry::plain());
    let sandbox = setup();
    let mut found = Vec::new();
    let images = [
        ("app", fixtures::app("linux/amd64", 50_000).build()),
        ("old", fixtures::old_base("linux/amd64").build()),
        ("new", fixtures::new_base("linux/amd64").build()),
    ];
    for (name, image) in &images {
        image.push(registry.host(), name, "v1");
        image.oci_archive(&sandbox.path(&format!("{name}.tar")), "v1");
    }
    for place in ["registry", "layout", "archive"] {
        let at = |name: &str| match place {
            "registry" => format!("{}/{name}:v1", registry.host()),
            "layout" => format!("oci:{}:v1", sandbox.path(name).display()),
            _ => format!("oci-archive:{}:v1", sandbox.path(&format!("{name}.tar")).display()),
        };
        let to = format!("oci:{}:v1", sandbox.path(&format!("out-{place}")).display());
        let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &to, "--no-cache"];
        sandbox.underpin(args).run().ok();
        let published = published::layout(&sandbox.path(&format!("out-{place}")), "v1").unwrap();
        let image = published.only();
        found.push((image.config_digest.clone(), image.layers.clone()));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}
