//! Images that mean harm: whatever they try, nothing outside the sandbox changes, the limits end them, nothing is left.

use std::path::Path;

use serde_json::json;

use super::{acting, assert_nothing_is_left, layouts, start_in, start_of};
use crate::support::invocation::files_under;
use crate::support::layouts::Layouts;
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, folder, hardlink, program, symlink};

#[test]
fn the_limits_end_what_does_not_end_by_itself() {
    or_skip!(need(&["runc", "cc"]));
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
}

#[test]
fn nothing_that_an_attack_needs_is_allowed() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["attack"]));
    let report = start_in(&layouts).run().ok().json();
    assert_eq!(start_of(&report)["stdout"], json!(["tried"]), "{report:#}");
    assert_nothing_is_left(&layouts);
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
