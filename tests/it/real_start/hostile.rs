//! Images that mean harm: whatever they try, nothing outside the sandbox changes, the limits end them, nothing is left.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{acting, assert_nothing_is_left, layouts, start_in, start_of};
use crate::support::invocation::files_under;
use crate::support::layouts::Layouts;
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{CAPABILITY, Layer, Pack, file, folder, hardlink, program, symlink};

/// What an image could change of the machine: its settings, its programs, its mounts, its devices.
fn host() -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let places = ["/etc", "/dev", "/boot", "/home", "/mnt", "/opt", "/srv", "/usr/local", "/usr/bin", "/usr/sbin"];
    let mut paths: Vec<PathBuf> = places.iter().flat_map(|place| files_under(Path::new(place))).collect();
    // Terminals and shared memory are of whoever else works here.
    paths.retain(|path| !path.starts_with("/dev/pts") && !path.starts_with("/dev/shm"));
    paths.sort();
    let described = |path: &PathBuf| {
        let found = path.symlink_metadata().ok()?;
        let changed = if path.starts_with("/dev") { 0 } else { found.mtime() };
        Some(format!(
            "{} {} {:o} {} {changed} {}",
            path.display(),
            found.ino(),
            found.mode(),
            found.uid(),
            found.rdev()
        ))
    };
    let mut all: Vec<String> = paths.iter().filter_map(described).collect();
    for name in ["sys/kernel/core_pattern", "sys/kernel/hostname", "sys/kernel/modprobe", "self/mountinfo", "swaps"] {
        all.push(std::fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default());
    }
    let top = std::fs::read_dir("/").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut top: Vec<String> = top.collect();
    top.sort();
    all.extend(top);
    all
}

#[test]
fn the_limits_end_what_does_not_end_by_itself() {
    or_skip!(need(&["runc", "cc"]));
    let before = host();
    for (act, outcomes) in [
        ("forks", ["running", "exited"].as_slice()),
        ("memory", &["exited", "running"]),
        ("output", &["too-much-output", "running"]),
        ("deaf", &["running"]),
        ("write", &["exited", "running"]),
    ] {
        let layouts = layouts(&acting(&[act]));
        let run = start_in(&layouts).run();
        let report = run.json();
        let outcome = start_of(&report)["outcome"].as_str().unwrap().to_owned();
        assert!(outcomes.contains(&outcome.as_str()), "{act}: {run}");
        assert!(run.elapsed < std::time::Duration::from_secs(20), "{act}: {run}");
        // The peak counts what was started, too, wherever that is what takes memory.
        assert!(act == "memory" || run.peak < 128 << 10, "{act}: {run}");
        assert_nothing_is_left(&layouts);
    }
    assert_eq!(host(), before);
}

/// Programs that behave oddly rather than badly: each is told for what it is.
#[test]
fn odd_programs_are_told_for_what_they_are() {
    or_skip!(need(&["runc", "cc"]));
    for (act, outcome, stdout) in [
        // What it left behind ends with it.
        ("daemon", "exited", json!([])),
        ("closed", "running", json!([])),
        ("zombies", "running", json!(["running"])),
        ("busy", "running", json!(["running"])),
        ("unended", "running", json!(["x".repeat(16 << 10)])),
    ] {
        let layouts = layouts(&acting(&[act]));
        let report = start_in(&layouts).run().ok().json();
        let start = start_of(&report);
        assert_eq!((&start["outcome"], &start["stdout"]), (&json!(outcome), &stdout), "{act}: {report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn what_a_program_writes_cannot_command_a_terminal() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["escapes"]));
    let run = layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "1"]).run().ok();
    let is_plain = |c: char| c == '\n' || !c.is_control();
    assert!(run.stdout.chars().all(is_plain) && run.stderr.chars().all(is_plain), "{run}");
    assert!(run.stdout.contains("\\u{1b}[2J") || run.stdout.contains("\\x1b[2J"), "{run}");
    assert!(run.stdout.contains("end"), "{run}");
}

#[test]
fn a_health_check_that_hangs_is_ended() {
    or_skip!(need(&["runc", "cc"]));
    let mut app = acting(&["stay"]);
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "deaf"], "Timeout": 500_000_000});
    let layouts = layouts(&app);
    let report = start_in(&layouts).run().refused().json();
    assert_eq!(start_of(&report)["health"]["status"], json!(null), "{report:#}");
    assert!(report.to_string().contains("its health check did not end"), "{report:#}");
    assert_nothing_is_left(&layouts);
}

/// A set-user-ID program and one with capabilities give nobody more, neither does a root that is closed to others.
#[test]
fn odd_files_are_started_as_a_runtime_would() {
    or_skip!(need(&["runc", "cc"]));
    let actor = super::actor();
    let config = |user: &str, words: &[&str]| json!({"Entrypoint": words, "User": user, "Env": ["GIVEN=x"]});
    let many = (0..2000).map(|number| format!("VARIABLE_{number}={}", "v".repeat(100)));
    let many: Vec<String> = many.chain(["GIVEN=x".to_owned()]).collect();
    let long = "a".repeat(100_000);
    for (files, config, line) in [
        (vec![program("app", actor.clone()).mode(0o4755)], config("1234:77", &["/app", "who"]), "1234 77 x"),
        (
            vec![program("app", actor.clone()).xattr("security.capability", &CAPABILITY)],
            config("1234:77", &["/app", "who"]),
            "1234 77 x",
        ),
        (vec![program("app", actor.clone())], config("0", &["/app", "who", &long, &long]), "0 0 x"),
        (vec![program("app", actor.clone())], json!({"Entrypoint": ["/app", "who"], "Env": many}), "0 0 x"),
    ] {
        let app = Recipe { config, ..Recipe::new("linux/amd64", vec![Layer::of(Pack::Gzip, &files)]) }.build();
        let layouts = Layouts::new(&app, &app, &app);
        let report = start_in(&layouts).run().ok().json();
        assert_eq!(start_of(&report)["stdout"], json!([line]));
        assert_nothing_is_left(&layouts);
    }
    // Nobody but root can enter the root.
    let closed = [folder("./").mode(0o700), program("app", actor)];
    for (user, outcome) in [("0", "exited"), ("1234", "not-executed")] {
        let config = config(user, &["/app", "who"]);
        let app = Recipe { config, ..Recipe::new("linux/amd64", vec![Layer::of(Pack::Gzip, &closed)]) }.build();
        let layouts = Layouts::new(&app, &app, &app);
        let report = start_in(&layouts).run().json();
        assert_eq!(start_of(&report)["outcome"], outcome, "{user}: {report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn nothing_that_an_attack_needs_is_allowed() {
    or_skip!(need(&["runc", "cc"]));
    let before = host();
    let layouts = layouts(&acting(&["attack"]));
    let report = start_in(&layouts).run().ok().json();
    assert_eq!(start_of(&report)["stdout"], json!(["tried"]), "{report:#}");
    assert_nothing_is_left(&layouts);
    assert_eq!(host(), before);
}

#[test]
fn links_of_an_image_lead_nowhere_outside() {
    or_skip!(need(&["runc", "cc"]));
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "as it was").unwrap();
    let target = outside.path().to_str().unwrap();
    let up = format!("../../../../../../../../..{target}");
    let below = [
        symlink("link", target),
        symlink("up", &up),
        symlink("file", &format!("{target}/file")),
        symlink("etc", target),
        symlink("proc", target),
    ];
    let above = [
        file("link/new", "through a link"),
        file("up/new", "through a link"),
        file("etc/new", "through a link"),
        hardlink("hard", "file"),
        folder("link/"),
        program("app", super::actor()),
    ];
    let layers = vec![Layer::of(Pack::Gzip, &below), Layer::of(Pack::Gzip, &above)];
    for act in ["write", "attack"] {
        let config = json!({"Entrypoint": ["/app", act]});
        let app = Recipe { config, ..Recipe::new("linux/amd64", layers.clone()) }.build();
        let layouts = Layouts::new(&app, &app, &app);
        let run = start_in(&layouts).run();
        assert!(matches!(run.code(), Some(0 | 1)), "{run}");
        assert_eq!(files_under(outside.path()), [outside.path().join("file")], "{run}");
        assert_eq!(std::fs::read_to_string(outside.path().join("file")).unwrap(), "as it was");
        assert_nothing_is_left(&layouts);
    }
    assert!(!Path::new("/written-by-the-image").exists() && !Path::new("/tmp/written-by-the-image").exists());
}

#[test]
fn a_tar_that_leads_upwards_is_refused_before_anything_is_written() {
    or_skip!(need(&["runc"]));
    let mut header = tar::Header::new_ustar();
    header.set_size(1);
    header.set_mode(0o644);
    let name = b"../../outside";
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend([b'x'; 512]);
    bytes.extend([0; 1024]);
    let layer = Layer::packed(Pack::Gzip, &bytes);
    let app = Recipe { config: json!({"Cmd": ["/app"]}), ..Recipe::new("linux/amd64", vec![layer]) }.build();
    let layouts = Layouts::new(&app, &app, &app);
    layouts.underpin(&["start", "oci:app:v1", "--no-cache"]).run().fails("input").says("`..`");
    assert_nothing_is_left(&layouts);
}

#[test]
fn the_deepest_directory_is_removed() {
    or_skip!(need(&["runc", "cc"]));
    let deep = "d/".repeat(1000);
    let mut app = acting(&["stay"]);
    app.layers.push(Layer::of(Pack::Gzip, &[file(&format!("{deep}x"), "x")]));
    let layouts = layouts(&app);
    start_in(&layouts).run().ok();
    assert_nothing_is_left(&layouts);
}
