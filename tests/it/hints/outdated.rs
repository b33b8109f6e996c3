//! What `outdated` tells to do where it cannot say whether an image is on the newest build of its base.

use super::{advice, again};
use crate::outdated::claims::{DIGEST, NAME, built, digest_of};
use crate::outdated::{AMD64, Fleet, TAG, base};
use crate::support::fixtures;
use crate::support::http::dead_host;
use crate::support::invocation::{Invocation, Run};
use crate::support::skip::or_skip;

/// Asks, and is not told.
fn unknown(run: Run) -> Run {
    assert!(run.code() == Some(2) && run.stdout.starts_with("unknown"), "{run}");
    run
}

fn asking<'a>(fleet: &'a Fleet, image: &'a str) -> impl Fn() -> Invocation + 'a {
    move || fleet.underpin(&["outdated", image, "--no-cache"])
}

/// What is built on the base, with these annotations, and pushed.
fn pushed(fleet: &Fleet, annotations: &[(&str, &str)]) -> String {
    fleet.push(&built(&base("1"), annotations).build(), "out/app", "v1");
    fleet.push_base(&base("1"));
    fleet.name("out/app:v1")
}

#[test]
fn of_an_image_that_does_not_name_its_base() {
    let fleet = or_skip!(Fleet::new());
    let image = pushed(&fleet, &[]);
    let ask = asking(&fleet, &image);
    let written = "name the base that it may be on: --base REF, or --known-base REF";
    let name = fleet.base_name();
    let ways = ["--base REF", "--known-base REF"];
    let run = unknown(ask().run());
    for way in ways {
        again(&ask, &advice(&run, written).flags(way, &[("REF", &name)])).ok();
    }
    // Once the base was built again, it takes the build that the image is on.
    fleet.push_base(&base("2"));
    let run = unknown(ask().run());
    for way in ways {
        let flags = advice(&run, written).flags(way, &[("REF", &name)]);
        let ask = || ask().args(&flags);
        let run = unknown(ask().run());
        let build = format!("{name}@{}", digest_of(&base("1")));
        let known = advice(&run, "name the build that it is on: --known-base NAME:TAG@DIGEST")
            .flags("--known-base NAME:TAG@DIGEST", &[("NAME:TAG@DIGEST", &build)]);
        let run = again(ask, &known).refused();
        assert!(run.stdout.contains("libc6 1 → 2"), "{run}");
    }
}

#[test]
fn of_a_base_that_is_not_where_the_image_says() {
    let fleet = or_skip!(Fleet::new());
    let gone = format!("{}/base/static:{TAG}", dead_host());
    let image = pushed(&fleet, &[(NAME, &gone), (DIGEST, &digest_of(&base("1")))]);
    let ask = asking(&fleet, &image);
    let run = unknown(ask().run());
    let written = "pass --base [NAME=]REF with a reference that can be reached";
    let name = gone.strip_suffix(&format!(":{TAG}")).unwrap();
    let filled = [("[NAME=]", &*format!("{name}=")), ("REF", &fleet.base_name())];
    let moved = advice(&run, written).flags("--base [NAME=]REF", &filled);
    again(&ask, &moved).ok();
    fleet.push_base(&base("2"));
    again(&ask, &moved).refused();
}

#[test]
fn of_a_base_whose_tag_is_not_recorded() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    let ask = asking(&fleet, &image);
    let run = unknown(ask().run());
    let tagged = [("TAG", TAG)];
    let name = fleet.name("base/static:TAG");
    let flags = advice(&run, "underpin records a base without its tag: pass --base {name}:TAG")
        .flags(&format!("--base {name}"), &tagged);
    again(&ask, &flags).ok();

    // There is a `latest`, and it is something else.
    fleet.push(&base("3").build(), "base/static", "latest");
    let run = unknown(ask().run());
    let written = "say which tag it was made with: --base {name}:TAG, or --batch FILE";
    again(&ask, &advice(&run, written).flags(&format!("--base {name}"), &tagged)).ok();
    let entry = format!(
        "images:\n- {{source: '{}', target: '{image}', base: '{}', old_base: '{}'}}\n",
        fleet.name("in/app:v1"),
        fleet.base_name(),
        fleet.name("base/old:v1")
    );
    fleet.write("batch.yaml", &entry);
    let batch = advice(&run, written).flags("--batch FILE", &[("FILE", "batch.yaml")]);
    fleet.underpin(&["outdated"]).args(&batch).run().ok();
}

#[test]
fn of_several_references_of_one_base() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    fleet.push(&base("4").build(), "base/static", "nonroot");
    fleet.push_base(&base("5"));
    let (made_with, other) = (fleet.base_name(), fleet.name("base/static:nonroot"));
    let run = unknown(asking(&fleet, &image)().args(["--base", &made_with, "--base", &other]).run());
    advice(&run, "ask about it alone, with the one --base that it was made with").by_hand("with the one --base");
    asking(&fleet, &image)().args(["--base", &made_with]).run().refused();
}

#[test]
fn of_layers_that_are_not_those_of_the_base_that_is_named() {
    let fleet = or_skip!(Fleet::new());
    let liar = built(&fixtures::old_base(AMD64), &[(NAME, &fleet.base_name()), (DIGEST, &digest_of(&base("1")))]);
    fleet.push_base(&base("1"));
    fleet.push_base(&base("2"));
    fleet.push(&liar.build(), "out/app", "v1");
    let image = fleet.name("out/app:v1");
    let ask = asking(&fleet, &image);
    let run = unknown(ask().run());
    let written = "`underpin inspect IMAGE` shows its layers; name the base with --known-base";
    let shown = fleet.underpin(&[]).args(advice(&run, written).command(&[("IMAGE", &image)])).run().ok();
    assert!(shown.stdout.contains("layer"), "{shown}");
    advice(&run, written).by_hand("name the base with --known-base");
    ask().args(["--known-base", &fleet.name("base/old:v1")]).run().ok();
}
