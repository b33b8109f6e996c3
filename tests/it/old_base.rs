//! Where the old base ends: each rung of the ladder, and what history may never do.

use serde_json::{Value, json};

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::published;
use crate::support::recipe::{Content, Dialect, Recipe, attest, index};
use crate::support::skip::{Part, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, folder};

const NAME: &str = "org.opencontainers.image.base.name";
const DIGEST: &str = "org.opencontainers.image.base.digest";

/// A registry with the bases, and images pushed as they come.
struct Setup {
    registry: Registry,
    sandbox: Sandbox,
}

impl Setup {
    fn new() -> Part<Self> {
        let registry = Registry::plain()?;
        fixtures::old_base("linux/amd64").build().push(registry.host(), "base/old", "v1");
        fixtures::new_base("linux/amd64").build().push(registry.host(), "base/new", "v1");
        Ok(Self { registry, sandbox: Sandbox::new() })
    }

    fn old_base(&self) -> (String, String) {
        (format!("{}/base/old:v1", self.registry.host()), fixtures::old_base("linux/amd64").build().digest())
    }

    /// `underpin COMMAND` of `image` to the new base, without a cache that might know the old one.
    fn underpin(&self, command: &str, image: &Content) -> Invocation {
        image.push(self.registry.host(), "in/app", "v1");
        let base = format!("{}/base/new:v1", self.registry.host());
        let source = format!("{}/in/app:v1", self.registry.host());
        self.sandbox.underpin([command, &source, "--base", &base, "--no-cache"])
    }

    /// The plan for the only platform.
    fn plan(&self, image: &Content, more: &[&str]) -> Value {
        let report = self.underpin("plan", image).args(more).arg("--json").run().ok().json();
        report["platforms"][0].clone()
    }

    /// The plan finds two layers of old base on this rung, and keeps the application's.
    fn finds(&self, image: &Content, how: &str) {
        let plan = self.plan(image, &[]);
        assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!(how), &json!(2)), "{plan}");
        assert_eq!(fates(&plan, "kept"), [fixtures::app_layer("linux/amd64", 1000).digest()]);
        assert_eq!(fates(&plan, "stripped").len(), 2);
    }
}

fn fates(plan: &Value, fate: &str) -> Vec<String> {
    let layers = plan["layers"].as_array().unwrap().iter().filter(|layer| layer["fate"] == fate);
    layers.map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

fn app() -> Recipe {
    fixtures::app("linux/amd64", 1000)
}

#[test]
fn the_annotations_of_the_manifest_name_it() {
    let setup = or_skip!(Setup::new());
    let (name, digest) = setup.old_base();
    let mut app = app();
    app.annotations.insert(NAME.to_owned(), name.clone().into());
    setup.finds(&app.build(), "annotation");
    app.annotations.insert(DIGEST.to_owned(), digest.into());
    setup.finds(&app.build(), "annotation");
    let plan = setup.plan(&app.build(), &[]);
    assert!(plan["old_base"]["reference"].as_str().unwrap().contains("/base/old"), "{plan}");
}

#[test]
fn the_annotations_of_the_index_name_it() {
    let setup = or_skip!(Setup::new());
    let (name, digest) = setup.old_base();
    let plain = index(Dialect::Oci, &[("linux/amd64", app().build())]);
    let annotated = plain.with_manifest(|index| index["annotations"] = json!({NAME: name, DIGEST: digest}));
    setup.finds(&annotated, "annotation");
}

#[test]
fn the_labels_name_it() {
    let setup = or_skip!(Setup::new());
    let (name, digest) = setup.old_base();
    let mut app = app();
    app.config["Labels"] = json!({NAME: name, DIGEST: digest});
    setup.finds(&app.build(), "label");
}

#[test]
fn the_label_of_a_buildpack_names_its_top_layer() {
    let setup = or_skip!(Setup::new());
    let top = &fixtures::old_base_layers()[1].diff_id;
    let metadata = json!({"runImage": {"topLayer": top, "reference": "x"}, "stack": {"runImage": {"image": "run"}}});
    let mut app = app();
    app.config["Labels"] = json!({"io.buildpacks.lifecycle.metadata": metadata.to_string()});
    setup.finds(&app.build(), "label");
}

#[test]
fn the_provenance_of_buildkit_names_it() {
    let setup = or_skip!(Setup::new());
    let (name, digest) = setup.old_base();
    let name = name.trim_end_matches(":v1").replace(':', "%3A");
    let material = json!({
        "uri": format!("pkg:docker/{name}@v1?platform=linux%2Famd64"),
        "digest": {"sha256": digest["sha256:".len()..].to_owned()},
    });
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v0.1", "predicateType": "https://slsa.dev/provenance/v0.2",
        "subject": [], "predicate": {"buildType": "https://mobyproject.org/buildkit@v1", "materials": [material]},
    });
    let app = app().build();
    let attested = attest(&index(Dialect::Oci, &[("linux/amd64", app.clone())]), &app.digest(), &statement);
    setup.finds(&attested, "provenance");
}

#[test]
fn a_base_that_was_named_as_known_is_recognised() {
    let setup = or_skip!(Setup::new());
    let (name, _) = setup.old_base();
    let other = format!("{}/base/new:v1", setup.registry.host());
    let plan = setup.plan(&app().build(), &["--known-base", &other, "--known-base", &name]);
    assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("known"), &json!(2)), "{plan}");
}

#[test]
fn what_the_cache_has_seen_does_not_change_the_answer() {
    let setup = or_skip!(Setup::new());
    let (name, _) = setup.old_base();
    app().build().push(setup.registry.host(), "in/app", "v1");
    let plan = |more: &[&str]| {
        let host = setup.registry.host();
        let (source, base) = (format!("{host}/in/app:v1"), format!("{host}/base/new:v1"));
        let invocation = setup.sandbox.underpin(["plan", &source, "--base", &base, "--json", "--cache"]);
        invocation.arg(setup.sandbox.path("cache")).args(more).run().ok().json()["platforms"].clone()
    };
    let cold = plan(&[]);
    assert_eq!(plan(&["--old-base", &name])[0]["old_base"]["how"], "flag");
    assert_eq!(plan(&[]), cold);
}

#[test]
fn history_shows_where_the_base_ends() {
    let setup = or_skip!(Setup::new());
    let history = json!([
        {"created": "2019-01-01T00:00:00Z", "created_by": "/bin/sh -c #(nop) ADD file:0123 in / "},
        {"created": "2019-01-01T00:00:00Z", "created_by": "/bin/sh -c set -xe; echo notes > /usr/share/notes"},
        {"created": "2019-01-01T00:00:01Z", "created_by": "/bin/sh -c #(nop)  CMD [\"bash\"]", "empty_layer": true},
        {"created": "2020-01-02T03:04:05Z", "created_by": "COPY app /app # buildkit", "comment": "buildkit.dockerfile.v0"},
        {"created": "2020-01-02T03:04:05Z", "created_by": "ENTRYPOINT [\"/app\"]", "empty_layer": true},
    ]);
    setup.finds(&Recipe { history: Some(history), ..app() }.build(), "history");
}

#[test]
fn content_shows_what_an_operating_system_is() {
    let setup = or_skip!(Setup::new());
    let system = Layer::of(
        Pack::Gzip,
        &[
            folder("etc/"),
            file("etc/os-release", "ID=debian\nVERSION_ID=12\n"),
            file("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
            folder("var/"),
            folder("var/lib/"),
            folder("var/lib/dpkg/"),
            file("var/lib/dpkg/status", "Package: base-files\nStatus: install ok installed\nVersion: 12\n\n"),
        ],
    );
    let layers = vec![system.clone(), fixtures::app_layer("linux/amd64", 1000)];
    let image = Recipe { layers, history: Some(json!([])), ..app() }.build();
    let plan = setup.plan(&image, &[]);
    assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("content"), &json!(1)), "{plan}");
    assert_eq!(fates(&plan, "stripped"), [system.digest()]);
}

#[test]
fn an_application_alone_stands_on_nothing() {
    let setup = or_skip!(Setup::new());
    let image = Recipe { layers: vec![fixtures::app_layer("linux/amd64", 1000)], ..app() }.build();
    let plan = setup.plan(&image, &[]);
    assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("scratch"), &json!(0)), "{plan}");
    assert_eq!(fates(&plan, "kept"), image.layers());
}

#[test]
fn the_flag_decides_in_all_its_forms() {
    let setup = or_skip!(Setup::new());
    let (name, digest) = setup.old_base();
    let pinned = format!("{name}@{digest}");
    let all = app().build().layers();
    for (flag, stripped) in [(name.as_str(), 2), (&pinned, 2), ("scratch", 0), ("layers:1", 1), ("layers:2", 2)] {
        let plan = setup.plan(&app().build(), &["--old-base", flag]);
        assert_eq!(
            (&plan["old_base"]["how"], &plan["old_base"]["layers"]),
            (&json!("flag"), &json!(stripped)),
            "{flag}"
        );
        assert_eq!(fates(&plan, "stripped"), all[..stripped], "{flag}");
        assert_eq!(fates(&plan, "kept"), all[stripped..], "{flag}");
    }
}

#[test]
fn a_flag_that_cannot_be_is_an_error() {
    let setup = or_skip!(Setup::new());
    for flag in ["layers:4", "layers:x", "layers:-1", "layers:"] {
        let run = setup.underpin("plan", &app().build()).args(["--old-base", flag]).run();
        assert_eq!(run.code(), Some(2), "{flag}\n{run}");
    }
}

#[test]
fn a_base_that_the_image_does_not_stand_on_is_an_error() {
    let setup = or_skip!(Setup::new());
    let new_base = format!("{}/base/new:v1", setup.registry.host());
    setup.underpin("plan", &app().build()).args(["--old-base", &new_base]).run().fails("input").says("/base/new");
    let mut wrong = app();
    wrong.annotations.insert(NAME.to_owned(), new_base.into());
    wrong.annotations.insert(DIGEST.to_owned(), fixtures::new_base("linux/amd64").build().digest().into());
    setup.underpin("plan", &wrong.build()).run().fails("input").says("/base/new");
}

#[test]
fn a_base_is_recognised_though_its_layers_were_packed_again() {
    let setup = or_skip!(Setup::new());
    let mut layers = app().layers;
    for layer in &mut layers[..2] {
        *layer = Layer::packed(Pack::Zstd, &crate::support::recipe::inflate(&layer.bytes));
    }
    let image = Recipe { layers, ..app() }.build();
    let (name, _) = setup.old_base();
    let plan = setup.plan(&image, &["--old-base", &name]);
    assert_eq!(fates(&plan, "stripped"), image.layers()[..2]);
}

/// A well-known tool drops the first layer of the application, or keeps the old base, here.
#[test]
fn history_never_decides_over_layers() {
    let setup = or_skip!(Setup::new());
    let (name, _) = setup.old_base();
    let entry = json!({"created_by": "x"});
    let empty = json!({"created_by": "x", "empty_layer": true});
    let many: Vec<Value> = (0..50).map(|_| entry.clone()).collect();
    let mut expected = fixtures::new_base("linux/amd64").build().layers();
    expected.push(fixtures::app_layer("linux/amd64", 1000).digest());
    for (why, history) in [
        ("missing", None),
        ("null", Some(Value::Null)),
        ("no entries", Some(json!([]))),
        ("too short", Some(json!([entry]))),
        ("too long", Some(json!(many))),
        ("all empty", Some(json!([empty, empty, empty]))),
    ] {
        let image = app().build().with_config(|config| match history {
            Some(history) => config["history"] = history,
            None => drop(config.as_object_mut().unwrap().remove("history")),
        });
        let plan = setup.plan(&image, &["--old-base", &name]);
        assert_eq!(fates(&plan, "kept"), expected[2..], "{why}");
        let to = format!("oci:{}:v1", setup.sandbox.path(why).display());
        setup.underpin("rebase", &image).args(["--old-base", &name, "--to", &to]).run().ok();
        // The check holds history against the layers.
        let published =
            published::layout(&setup.sandbox.path(why), "v1").unwrap_or_else(|found| panic!("{why}: {found}"));
        assert_eq!(published.only().layers, expected, "{why}");
    }
}
