//! `--extract`: the application out of an image in which it shares its layer with a system.

use serde_json::json;

use crate::support::debian::by_hand;
use crate::support::layouts::{Layouts, fates, findings};
use crate::support::programs::{Machine, prints};
use crate::support::published;
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, symlink};
use crate::support::{fixtures, tools};

fn squashed(files: &[Entry]) -> Layouts {
    let config = json!({"Entrypoint": ["/usr/bin/start"], "Env": [fixtures::PATH]});
    let app = Recipe { config, ..Recipe::new("linux/amd64", vec![Layer::of(Pack::Gzip, files)]) };
    Layouts::on(&fixtures::old_base("linux/amd64"), &app)
}

/// The program behind two links, and a file beside it.
fn application() -> [Entry; 5] {
    [
        folder("opt/v1/"),
        program("opt/v1/app", prints(Machine::Amd64, fixtures::LINE)),
        file("opt/v1/settings", "of the application\n"),
        symlink("opt/current", "v1"),
        symlink("usr/bin/start", "/opt/current/app"),
    ]
}

/// A system with a package database, and the application.
fn small_debian() -> Layouts {
    let files = [("usr/bin/ls", "ls"), ("bin/sh", "sh"), ("etc/os-release", "ID=debian\n")];
    let system = by_hand("base", &files).installed().into_iter();
    // No package has this one, but a runtime hides it.
    let device = [symlink("dev/stdout", "/proc/self/fd/1")];
    squashed(&system.chain(device).chain(application()).collect::<Vec<_>>())
}

/// The paths in the layers above the new base, one list for each.
fn above(layouts: &Layouts, out: &str) -> Vec<Vec<String>> {
    let published = published::layout(&layouts.layout(out), "v1").unwrap();
    let paths = |digest: &String| {
        let bytes = std::fs::read(layouts.layout(out).join(crate::support::recipe::blob_path(digest))).unwrap();
        let tar = crate::support::recipe::inflate(&bytes);
        let mut archive = tar::Archive::new(&tar[..]);
        let entries = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
        entries.map(|path| path.to_string_lossy().trim_end_matches('/').to_owned()).collect()
    };
    published.only().layers.iter().skip(2).map(paths).collect()
}

const TAKEN: [&str; 8] =
    ["opt", "opt/current", "opt/v1", "opt/v1/app", "opt/v1/settings", "usr", "usr/bin", "usr/bin/start"];

#[test]
fn a_squashed_image_is_refused_and_starts_when_extracted() {
    let layouts = small_debian();
    let report = layouts.rebase_unnamed("out").args(["--no-cache", "--json"]).run().refused().json();
    assert!(findings(&report["platforms"][0]).contains(&"refuse old-base-unknown".to_owned()), "{report}");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");

    let report = layouts.rebase_unnamed("out").args(["--no-cache", "--extract", "--json"]).run().ok().json();
    assert_eq!(fates(&report), ["dropped", "added"]);
    assert_eq!(above(&layouts, "out"), [TAKEN]);
    layouts.verify("oci:out:v1").run().ok().says("verified");
    or_skip!(need(&["umoci", "runc", "skopeo"]));
    let made = format!("oci:{}:v1", layouts.layout("out").display());
    tools::skopeo_to_layout(&made, &layouts.layout("copy"), "v1");
    assert_eq!(layouts.start("app"), fixtures::LINE);
    assert_eq!(layouts.start("copy"), fixtures::LINE);
}

#[test]
fn a_kept_path_comes_along_and_is_on_record() {
    let layouts = small_debian();
    let extract = |out: &str| layouts.rebase_unnamed(out).args(["--no-cache", "--extract"]);
    extract("kept").args(["--keep", "/usr/bin/ls"]).run().ok();
    let [layer] = &above(&layouts, "kept")[..] else { panic!("one layer") };
    let mut expected: Vec<&str> = TAKEN.to_vec();
    expected.insert(7, "usr/bin/ls");
    assert_eq!(layer, &expected);
    layouts.verify("oci:kept:v1").run().ok();
    let kept = published::layout(&layouts.layout("kept"), "v1").unwrap();
    let options = kept.only().manifest["annotations"]["dev.underpin.options"].as_str().unwrap();
    assert!(options.contains("/usr/bin/ls") && options.contains("extract"), "{options}");
    extract("out").args(["--keep", "/usr/bin/gone"]).run().refused().says("keep-missing");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
}

#[test]
fn without_a_package_database_what_would_be_left_behind_is_refused_and_named() {
    let busybox = program("bin/busybox", prints(Machine::Amd64, "BusyBox v1.35.0\n"));
    let system = [busybox, symlink("bin/sh", "busybox"), file("etc/os-release", "ID=none\n")];
    let layouts = squashed(&system.into_iter().chain(application()).collect::<Vec<_>>());
    let extract = |out: &str| layouts.rebase_unnamed(out).args(["--no-cache", "--extract"]);
    extract("out").run().refused().says("extract-incomplete").says("/opt/v1 (1 file)").says("--keep");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    extract("kept").args(["--keep", "/opt/v1"]).run().ok();
    assert_eq!(above(&layouts, "kept"), [TAKEN]);
    extract("allowed").args(["--allow", "extract-incomplete"]).run().ok().says("extract-incomplete");
    let program = ["opt", "opt/current", "opt/v1", "opt/v1/app", "usr", "usr/bin", "usr/bin/start"];
    assert_eq!(above(&layouts, "allowed"), [program]);
    for out in ["allowed", "kept"] {
        layouts.verify(&format!("oci:{out}:v1")).run().ok();
    }
    or_skip!(need(&["umoci", "runc"]));
    for out in ["allowed", "kept"] {
        assert_eq!(layouts.start(out), fixtures::LINE, "{out}");
    }
}

#[test]
fn an_image_that_is_based_on_nothing_is_extracted_whole() {
    let layouts = squashed(&application());
    layouts.rebase_unnamed("out").args(["--no-cache", "--extract"]).run().ok();
    assert_eq!(above(&layouts, "out"), [TAKEN]);
}

#[test]
fn an_extracted_image_has_the_same_digest_however_it_was_made() {
    let layouts = small_debian();
    let extract = |out: &str| layouts.rebase_unnamed(out).arg("--extract");
    let expected = extract("out").arg("--no-cache").run().ok().digest();
    for (out, flags) in [("cold", &["--jobs", "1"]), ("warm", &["--jobs", "8"])] {
        let run = extract(out).args(flags).arg("--cache").arg(layouts.sandbox.path("cache")).run().ok();
        assert_eq!(run.digest(), expected, "{out}");
    }
    assert_eq!(extract("out").arg("--json").run().ok().json()["outcome"], "unchanged");
}
