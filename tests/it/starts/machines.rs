//! One index for five machines, with a Go program for each.

use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings, upon};
use crate::support::programs::go;
use crate::support::published;
use crate::support::recipe::{Content, Dialect, index};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};

const GO: &str = "package main\nfunc main() { println(\"hello\") }\n";
/// Platform, and the words that Go and the report have for its machine.
const FIVE: [(&str, &str); 5] = [
    ("linux/amd64", "amd64"),
    ("linux/arm64", "arm64"),
    ("linux/arm/v7", "arm"),
    ("linux/ppc64le", "ppc64le"),
    ("linux/s390x", "s390x"),
];

fn layer_for(machine: &str) -> Layer {
    let bytes = go(GO, &[("GOARCH", machine), ("GOARM", "7")]);
    Layer::of(Pack::Gzip, &[program("app", bytes)])
}

fn app(platform: &str, layer: &Layer) -> Content {
    upon(&fixtures::old_base(platform), [layer.clone()], fixtures::app_config()).build()
}

fn on_five(image: impl Fn(&str) -> Content) -> Content {
    index(Dialect::Oci, &FIVE.map(|(platform, _)| (platform, image(platform))))
}

#[test]
fn an_index_of_five_machines_moves_and_one_wrong_program_stops_it() {
    or_skip!(need(&["go"]));
    let layers = FIVE.map(|(_, machine)| layer_for(machine));
    let place = |platform: &str| FIVE.iter().position(|(name, _)| *name == platform).unwrap();
    let stage_of = |choose: &dyn Fn(&str) -> usize| {
        let apps = on_five(|platform| app(platform, &layers[choose(platform)]));
        let (old, new) = (on_five(|on| fixtures::old_base(on).build()), on_five(|on| fixtures::new_base(on).build()));
        Layouts::new(&apps, &old, &new)
    };

    let layouts = stage_of(&place);
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    let published = published::layout(&layouts.layout("out"), "v1").unwrap();
    for (at, (platform, machine)) in FIVE.into_iter().enumerate() {
        let (told, image) = (&report["platforms"][at], &published.images[at]);
        assert_eq!((told["platform"].as_str(), image.platform.as_str()), (Some(platform), platform));
        assert_eq!(told["binaries"][0]["machine"], machine);
        assert_eq!(image.layers[..2], fixtures::new_base(platform).build().layers());
        assert_eq!(image.layers[2..], [layers[at].digest()]);
    }

    // The program of ppc64le where that of s390x should be.
    let layouts = stage_of(&|platform| if platform == "linux/s390x" { 3 } else { place(platform) });
    let report = layouts.rebase("out").arg("--json").run().refused().json();
    let said: Vec<Vec<String>> = report["platforms"].as_array().unwrap().iter().map(findings).collect();
    let expected: [&[&str]; 5] = [&[], &[], &[], &[], &["refuse wrong-machine"]];
    assert_eq!(said, expected);
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
}
