//! Hints about the old base: one that does not fit, cannot be reached, cannot be told from the application, is gone.

use serde_json::json;

use super::{advice, again};
use crate::support::debian::by_hand;
use crate::support::fixtures;
use crate::support::layouts::Layouts;
use crate::support::programs::{Machine, prints};
use crate::support::recipe::{CREATED, Recipe};
use crate::support::tar_layer::{Layer, Pack, file, folder, program};

const AMD64: &str = "linux/amd64";

/// An application on a base that has a file no package owns.
fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base(AMD64), &fixtures::app(AMD64, 10))
}

#[test]
fn of_a_base_that_does_not_fit() {
    let layouts = layouts();
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache");
    let run = move_it().args(["--old-base", "oci:new:v1"]).run().fails("input");
    let other = "pass --old-base with the digest it was built from, or leave --old-base out: underpin looks for it";
    let digest = fixtures::old_base(AMD64).build().digest();
    advice(&run, other).by_hand("pass --old-base with the digest it was built from");
    let by_digest = || move_it().args(["--old-base", &format!("oci:old@{digest}")]);
    by_digest().run().ok().says("by flag, proven");

    let count = "or say how many layers are the base's with --old-base layers:N: `underpin inspect IMAGE` lists them";
    let inspected = layouts.sandbox.underpin(advice(&run, count).command(&[("IMAGE", "oci:app:v1")])).run().ok();
    assert_eq!(inspected.stdout.matches("  rig\n").count(), 3, "all layers, with what made them\n{inspected}");
    let flags = advice(&run, count).flags("--old-base layers:N", &[("N", "2")]);
    again(move_it, &flags).ok().says("by flag, given");
}

/// Left out, the base is looked for. What is found in the contents is not proven, and the next hint says how to go on.
#[test]
fn of_a_base_that_is_looked_for_and_may_hold_files_of_the_application() {
    let line = |by: &str, is_empty: bool| json!({"created": CREATED, "created_by": by, "empty_layer": is_empty});
    let add = line("/bin/sh -c #(nop) ADD file:0123 in / ", false);
    let base = [add, line("/bin/sh -c #(nop)  COPY file:4 in /data", false), line("CMD [\"bash\"]", true)];
    let own = [line("COPY app /app # buildkit", false), line("ENTRYPOINT [\"/app\"]", true)];
    let data = [folder("data/"), file("data/model", "whose?\n")];
    let system = [folder("etc/"), file("etc/os-release", "ID=oldian\n"), file("etc/passwd", "root:x:0:0:::\n")];
    let layers = vec![Layer::of(Pack::Gzip, &system), Layer::of(Pack::Gzip, &data)];
    let old = Recipe { history: Some(json!(base)), ..Recipe::new(AMD64, layers) };
    let history = Some(base.iter().chain(&own).cloned().collect());
    let mut app = Recipe { history, config: fixtures::app_config(), ..old.clone() };
    app.layers.push(fixtures::app_layer(AMD64, 10));
    let layouts = Layouts::on(&old, &app);
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache");
    let run = move_it().run().refused().says("base-unproven-files");
    let ways = "pass --old-base REF with the image it was built on, or --old-base layers:{} if these files are the base's{keep}";
    again(move_it, &advice(&run, ways).flags("--old-base REF", &[("REF", "oci:old:v1")])).ok().says("proven");
    let confirmed = again(move_it, &advice(&run, ways).flags("--old-base layers:2", &[])).ok();
    assert!(!confirmed.stderr.contains("old-base-unproven"), "{confirmed}");
    again(move_it, &advice(&run, ways).flags("--old-base layers:1", &[])).ok().says("2 kept");
}

#[test]
fn of_a_base_that_is_likely() {
    let old =
        Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &by_hand("base", &[("etc/os-release", "ID=x\n")]).installed())]);
    let mut app = Recipe { config: fixtures::app_config(), ..old.clone() };
    app.layers.push(fixtures::app_layer(AMD64, 10));
    let layouts = Layouts::on(&old, &app);
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache");
    let run = move_it().run().ok().says("old-base-unproven");
    let written = "check with `underpin inspect IMAGE`, then pass --old-base REF, or --old-base layers:{} to confirm";
    layouts.sandbox.underpin(advice(&run, written).command(&[("IMAGE", "oci:app:v1")])).run().ok();
    for flags in [
        advice(&run, written).flags("--old-base REF", &[("REF", "oci:old:v1")]),
        advice(&run, written).flags("--old-base layers:1", &[]),
    ] {
        let run = again(move_it, &flags).ok();
        assert!(!run.stderr.contains("old-base-unproven"), "{run}");
    }
}

#[test]
fn of_a_base_that_cannot_be_read() {
    let layouts = layouts();
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache").hurried();
    let written = "pass --old-base with the image it was built on, or leave --old-base out: underpin looks for it";
    for (gone, kind) in [("oci:gone:v1", "not-found"), ("oci:old:v2", "not-found"), ("127.0.0.1:1/old:v1", "network")] {
        let run = move_it().args(["--old-base", gone]).run().fails(kind);
        assert!(run.stderr.contains("\n  old base  "), "which image it was\n{run}");
        advice(&run, written).by_hand("leave --old-base out");
    }
    move_it().args(["--old-base", "oci:old:v1"]).run().ok().says("proven");
    move_it().run().ok().says("by content, likely");
}

#[test]
fn of_more_layers_than_there_are() {
    let layouts = layouts();
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache");
    let run = move_it().args(["--old-base", "layers:9"]).run().fails("usage");
    let written = "`underpin inspect IMAGE` lists the layers: pass --old-base layers:N with as many as are the base's";
    layouts.sandbox.underpin(advice(&run, written).command(&[("IMAGE", "oci:app:v1")])).run().ok();
    again(move_it, &advice(&run, written).flags("--old-base layers:N", &[("N", "2")])).ok();
}

/// A squashed image whose annotation names a base that nobody can reach: `inspect` works, and so does what it is told.
#[test]
fn of_an_image_whose_base_cannot_be_told_and_that_names_one_out_of_reach() {
    let mut files = by_hand("base", &[("bin/sh", "sh"), ("etc/os-release", "ID=debian\n")]).installed();
    files.push(program("opt/app", prints(Machine::Amd64, fixtures::LINE)));
    files.push(file("opt/settings", "x\n"));
    let config = json!({"Entrypoint": ["/opt/app"], "Env": [fixtures::PATH]});
    let mut app = Recipe { config, ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) };
    app.annotations.insert("org.opencontainers.image.base.name".to_owned(), json!("127.0.0.1:1/debian:12"));
    let layouts = Layouts::on(&fixtures::old_base(AMD64), &app);
    layouts.underpin(&["inspect", "oci:app:v1"]).hurried().run().ok();
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache").hurried();
    let run = move_it().run().refused().says("old-base-unknown").says("base-name-ignored");
    let written = "take only the program and its data out of it with --extract, or pass --old-base with the image it was built on, or --old-base layers:N";
    again(move_it, &advice(&run, written).flags("--extract", &[])).ok();
    // A base that is known from elsewhere helps although the annotation names another.
    let on_new = Recipe { annotations: app.annotations.clone(), ..fixtures::app(AMD64, 10) };
    on_new.build().layout(&layouts.layout("app"), "known");
    let known =
        ["rebase", "oci:app:known", "--base", "oci:new:v1", "--to", "oci:known:v1", "--known-base", "oci:old:v1"];
    layouts.underpin(&known).hurried().run().ok().says("by known, proven");
}

/// What `verify` lacks it asks for, one place after the other.
#[test]
fn of_inputs_that_a_result_records_and_that_are_elsewhere() {
    let layouts = layouts();
    layouts.rebase("out").run().ok();
    let mut flags: Vec<String> = Vec::new();
    let verify = |flags: &[String]| layouts.underpin(&["verify", "oci:out:v1", "--no-cache"]).args(flags).run();
    for (flag, place) in [("--source", "oci:app:v1"), ("--base", "oci:new:v1")] {
        let run = verify(&flags).fails("not-found");
        let written = format!("{flag} REF");
        flags.extend(advice(&run, "name a place that has it: {flag} REF").flags(&written, &[("REF", place)]));
    }
    let run = verify(&flags).fails("not-found");
    let old =
        advice(&run, "name a place that has it: --old-base REF").flags("--old-base REF", &[("REF", "oci:old:v1")]);
    flags.extend(old);
    verify(&flags).ok().says("verified");
}
