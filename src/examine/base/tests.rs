//! The ladder, rung by rung, against a world of words.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::*;
use crate::examine::testing::entry;
use oci::error::Error;
use oci::testing::{TestImage, history, map};
use oci::{BASE_DIGEST, BASE_NAME, Compression, DiffId, Digest, Reference};

/// Images by name, and the files of each of the source's layers.
#[derive(Default)]
struct World {
    images: HashMap<String, Image>,
    statements: Vec<Value>,
    stored: Option<Image>,
    layers: Vec<Vec<&'static str>>,
}

impl World {
    fn with(mut self, name: &str, image: Image) -> Self {
        self.images.insert(name.to_owned(), image);
        self
    }
}

impl Lookup for World {
    fn image(&self, location: &Location) -> Result<Option<Image>> {
        Ok(self.images.get(&location.to_string()).cloned())
    }

    fn clue(&self, reference: &Reference) -> Result<std::result::Result<Image, String>> {
        Ok(self.image(&Location::Registry(reference.clone()))?.ok_or_else(|| "could not be found".to_owned()))
    }

    fn stored(&self, digest: Digest) -> Option<Image> {
        self.stored.clone().filter(|image| image.digest() == digest)
    }

    fn statements(&self) -> Result<Vec<Value>> {
        Ok(self.statements.clone())
    }

    fn layer(&self, at: usize) -> Result<Arc<LayerIndex>> {
        let files = self.layers.get(at).ok_or_else(|| Error::input("no such layer"))?;
        Ok(Arc::new(LayerIndex {
            digest: Digest::of(b""),
            size: 0,
            diff_id: DiffId(Digest::of(b"")),
            unpacked: 0,
            compression: Compression::None,
            entries: files.iter().map(|path| entry(path)).collect(),
            captured: Vec::new(),
            programs: Vec::new(),
            digests: None,
            notes: Vec::new(),
        }))
    }
}

fn detect(source: &Image, world: &World) -> Result<OldBase> {
    find(source, &Map::new(), None, &[], world)
}

fn named(name: &str, digest: Option<Digest>) -> Value {
    match digest {
        Some(digest) => json!({BASE_NAME: name, BASE_DIGEST: digest.to_string()}),
        None => json!({ BASE_NAME: name }),
    }
}

fn base() -> Image {
    TestImage::of(&["a", "b"]).image()
}

#[test]
fn annotations_of_the_manifest_come_first() {
    let source = TestImage { annotations: named("debian:12", None), ..TestImage::of(&["a", "b", "app"]) }.image();
    let world = World::default().with("docker.io/library/debian:12", base());
    let found = detect(&source, &world).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::Annotation, Sureness::Proven, 2));
    assert_eq!(found.reference, Some(format!("docker.io/library/debian:12@{}", base().digest())));
}

#[test]
fn the_digest_wins_over_a_tag_that_moved() {
    let digest = base().digest();
    let source =
        TestImage { annotations: named("debian:12", Some(digest)), ..TestImage::of(&["a", "b", "app"]) }.image();
    let world = World::default()
        .with("docker.io/library/debian:12", TestImage::of(&["z"]).image())
        .with(&format!("docker.io/library/debian:12@{digest}"), base());
    assert_eq!(detect(&source, &world).unwrap().layers, 2);
}

#[test]
fn annotations_of_the_index_and_labels_follow() {
    let world = World::default().with("docker.io/library/debian:12", base());
    let source = TestImage::of(&["a", "b", "app"]).image();
    let found = find(&source, &map(named("debian:12", None)), None, &[], &world).unwrap();
    assert_eq!((found.how, found.layers), (Rung::Annotation, 2));
    let labelled =
        TestImage { container: json!({"Labels": named("debian:12", None)}), ..TestImage::of(&["a", "b", "app"]) }
            .image();
    assert_eq!(detect(&labelled, &world).unwrap().how, Rung::Label);
}

#[test]
fn a_base_that_the_user_names_and_that_does_not_fit_is_an_error_that_says_where() {
    let source = TestImage::of(&["a", "x", "app"]).image();
    let world = World::default().with("docker.io/library/debian:12", base());
    let choice = OldBaseChoice::Image("debian:12".parse().unwrap());
    let error = find(&source, &Map::new(), Some(&choice), &[], &world).unwrap_err();
    assert_eq!(error.what(), "image is not built on the base that --old-base names");
    assert!(error.facts().iter().any(|(name, value)| *name == "differs at" && value == "layer 2 of 2"), "{error}");
}

#[test]
fn a_name_in_the_image_that_does_not_fit_or_leads_nowhere_is_passed_over_with_a_warning() {
    let digest = base().digest();
    for (annotations, layers, expected) in [
        (
            named("debian:12", None),
            ["a", "x", "app"],
            "the annotation names docker.io/library/debian:12, which is not under the image: it differs at layer 2 of 2"
                .to_owned(),
        ),
        (
            named("gone.example/x:1", None),
            ["a", "b", "app"],
            "the annotation names gone.example/x:1, which could not be found".to_owned(),
        ),
        (
            named("gone.example/x:1", Some(digest)),
            ["a", "b", "app"],
            format!(
                "the annotation names gone.example/x:1@{digest}, which could not be found; \
                 and gone.example/x:1, which could not be found"
            ),
        ),
    ] {
        let source = TestImage { annotations, ..TestImage::of(&layers) }.image();
        let world = World { layers: vec![vec!["conf"], vec!["conf"], vec!["app"]], ..World::default() };
        let world = world.with("docker.io/library/debian:12", base());
        let found = detect(&source, &world).unwrap();
        assert_eq!((found.how, found.layers, found.warnings), (Rung::Scratch, 0, vec![expected]));
    }
}

#[test]
fn a_name_that_is_passed_over_leaves_the_other_rungs_their_say() {
    let labels = json!({"Labels": named("debian:12", None)});
    let annotations = named("gone.example/x:1", None);
    let source = TestImage { annotations, container: labels, ..TestImage::of(&["a", "b", "app"]) }.image();
    let world = World::default().with("docker.io/library/debian:12", base());
    // Said once, though the index says it too.
    let found = find(&source, &map(named("gone.example/x:1", None)), None, &[], &world).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::Label, Sureness::Proven, 2));
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
}

/// Buildah writes the same name into an annotation and into the history.
#[test]
fn a_base_that_is_named_twice_and_gone_is_passed_over_once() {
    let lines = |comments: &[&str]| {
        json!(comments.iter().map(|text| json!({"created_by": "x", "comment": text})).collect::<Vec<_>>())
    };
    for (comments, expected) in [
        (&["FROM gone.example/x:1"][..], 1),
        (&["FROM gone.example/x:1", "FROM gone.example/x:1"], 1),
        (&["FROM gone.example/y:1"], 2),
    ] {
        let annotations = named("gone.example/x:1", Some(Digest::of(b"gone")));
        let source = TestImage { annotations, history: lines(comments), ..TestImage::of(&["app"]) }.image();
        let world = World { layers: vec![vec!["app"]], ..World::default() };
        let warnings = detect(&source, &world).unwrap().warnings;
        assert_eq!(warnings.len(), expected, "{warnings:?}");
        assert!(warnings[0].starts_with("the annotation names gone.example/x:1@sha256:"), "{warnings:?}");
    }
}

/// Of buildah's comments those that name an image, the nearest first.
#[test]
fn the_comment_of_a_builder_is_looked_up_and_proven_by_the_layers() {
    let entry = |comment: &str| json!({"created_by": "x", "comment": comment});
    let lines = json!([entry("FROM small:1"), entry("FROM debian:12"), entry("FROM 18097a3237d3")]);
    let source = || TestImage { history: lines.clone(), ..TestImage::of(&["a", "b", "app"]) }.image();
    let small = World::default().with("docker.io/library/small:1", TestImage::of(&["a"]).image());
    let found = detect(&source(), &small).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::History, Sureness::Proven, 1));
    let both = small.with("docker.io/library/debian:12", base());
    let found = detect(&source(), &both).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::History, Sureness::Proven, 2));
    assert!(found.reference.unwrap().starts_with("docker.io/library/debian:12@"));
}

#[test]
fn what_the_history_shows_the_base_to_have_set_is_the_old_container() {
    let lines = history(&[("ADD file:x in /", false), ("CMD [\"/bin/sh\"]", true), ("COPY app /app", false)]);
    let source = TestImage { history: lines, container: json!({"Cmd": ["/bin/sh"]}), ..TestImage::of(&["a", "app"]) };
    let world = World { layers: vec![vec!["etc/os-release"], vec!["app"]], ..World::default() };
    let cmd = |choice: Option<OldBaseChoice>| {
        let found = find(&source.image(), &Map::new(), choice.as_ref(), &[], &world).unwrap();
        found.container().and_then(|container| container.command.cmd)
    };
    let sh = Some(vec!["/bin/sh".to_owned()]);
    assert_eq!(cmd(None), sh);
    assert_eq!(cmd(Some(OldBaseChoice::Layers(1))), sh);
    assert_eq!(cmd(Some(OldBaseChoice::Scratch)), None);
    let named = OldBase::image(Rung::Known, &"debian:12".parse().unwrap(), base());
    assert!(named.container().is_some_and(|container| container.command.cmd.is_none()));
}

#[test]
fn buildpacks_name_their_top_layer_by_diff_id() {
    let top = TestImage::of(&["a", "b"]).image().diff_ids()[1];
    let label = json!({"runImage": {"topLayer": top.to_string(), "reference": "x"}}).to_string();
    let container = json!({"Labels": {"io.buildpacks.lifecycle.metadata": label}});
    let source = TestImage { container, ..TestImage::of(&["a", "b", "app"]) }.image();
    let found = detect(&source, &World::default()).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::Label, Sureness::Proven, 2));
}

#[test]
fn of_the_materials_the_one_under_the_image_counts() {
    let material = |name: &str| json!({"uri": format!("pkg:docker/{name}"), "digest": {}});
    let statement =
        json!({"predicate": {"materials": [material("golang@1"), material("debian@12"), material("small@1")]}});
    let world = World { statements: vec![statement], ..World::default() }
        .with("docker.io/library/golang:1", TestImage::of(&["g", "b", "c"]).image())
        .with("docker.io/library/debian:12", base())
        .with("docker.io/library/small:1", TestImage::of(&["a"]).image());
    let found = detect(&TestImage::of(&["a", "b", "app"]).image(), &world).unwrap();
    assert_eq!((found.how, found.layers, found.warnings.len()), (Rung::Provenance, 2, 0));
}

#[test]
fn a_material_that_cannot_be_had_is_told_of_and_there_is_an_end_to_materials() {
    let materials: Vec<Value> = (0..1000).map(|at| json!({"uri": format!("pkg:docker/gone{at}@1")})).collect();
    let statement = json!({"predicate": {"materials": materials}});
    let world = World { statements: vec![statement], layers: vec![vec!["app"]], ..World::default() };
    let found = detect(&TestImage::of(&["app"]).image(), &world).unwrap();
    assert_eq!(found.warnings.len(), 64);
    assert_eq!(found.warnings[0], "the provenance names docker.io/library/gone0:1, which could not be found");
}

#[test]
fn known_bases_are_compared_by_diff_ids_and_the_longest_wins() {
    let location: Location = "debian:12".parse().unwrap();
    let (short, long, other) = (TestImage::of(&["a"]).image(), base(), TestImage::of(&["z"]).image());
    let empty = TestImage::of(&[]).image();
    let known: Vec<Known<'_>> =
        [&short, &long, &other, &empty].map(|image| Known { location: &location, image }).into();
    let source = TestImage::of(&["a", "b", "app"]).image();
    let found = find(&source, &Map::new(), None, &known, &World::default()).unwrap();
    assert_eq!((found.how, found.layers), (Rung::Known, 2));
}

#[test]
fn a_look_alike_history_is_not_proof() {
    let lines = history(&[("ADD file:x in /", false), ("CMD [\"bash\"]", true), ("COPY app /app", false)]);
    let source =
        TestImage { history: lines, container: json!({"Entrypoint": ["/app"]}), ..TestImage::of(&["a", "app"]) }
            .image();
    let world = World { layers: vec![vec!["etc/os-release"], vec!["app"]], ..World::default() };
    let found = detect(&source, &world).unwrap();
    assert_eq!((found.how, found.sure, found.layers), (Rung::History, Sureness::Likely, 1));
}

#[test]
fn history_that_would_cut_off_the_program_is_not_followed() {
    let lines = history(&[
        ("ADD file:x in /", false),
        ("COPY app /app", false),
        ("CMD [\"x\"]", true),
        ("COPY conf /conf", false),
    ]);
    let source = TestImage {
        history: lines,
        container: json!({"Entrypoint": ["/app"]}),
        ..TestImage::of(&["a", "app", "conf"])
    }
    .image();
    let world = World { layers: vec![vec!["etc/os-release"], vec!["app"], vec!["conf"]], ..World::default() };
    let found = detect(&source, &world).unwrap();
    assert_eq!((found.how, found.layers), (Rung::Content, 1));
    assert!(found.notes[0].contains("/app is not above it"), "{:?}", found.notes);
}

/// Missing, short, long and null history: the same layers are kept.
#[test]
fn content_answers_where_history_does_not_fit() {
    for lines in
        [Value::Null, history(&[]), history(&[("x", false)]), history(&[("x", false); 5]), history(&[("x", true); 3])]
    {
        let source =
            TestImage { history: lines, container: json!({"Entrypoint": ["/app"]}), ..TestImage::of(&["a", "b", "c"]) }
                .image();
        let world =
            World { layers: vec![vec!["etc/os-release", "bin/sh"], vec!["conf"], vec!["app"]], ..World::default() };
        let found = detect(&source, &world).unwrap();
        assert_eq!((found.how, found.layers), (Rung::Content, 1));
    }
}

const PACKAGE: &[&str] = &["var/lib/dpkg/status.d/base", "usr/share/base/file"];
const CERTIFICATES: &[&str] = &["etc/", "etc/ssl/certs/ca-certificates.crt", "usr/share/doc/ca-certificates/copyright"];

#[test]
fn content_finds_the_seam_or_says_that_there_is_none() {
    let cases: [(&[&[&'static str]], Rung, Sureness, usize); 14] = [
        (&[&["app"]], Rung::Scratch, Sureness::Likely, 0),
        (&[&["etc/os-release"], &["app"]], Rung::Content, Sureness::Likely, 1),
        (&[&["etc/os-release", "app"]], Rung::Content, Sureness::Unknown, 0),
        (&[&["etc/"], &["lib/apk/db/installed"], &["app"]], Rung::Content, Sureness::Likely, 2),
        (
            &[&["var/lib/dpkg/status"], &["var/lib/dpkg/status", "usr/bin/curl"], &["app"]],
            Rung::Content,
            Sureness::Likely,
            1,
        ),
        (
            &[&["var/lib/dpkg/status.d/base"], &["var/lib/dpkg/status.d/tzdata"], &["app"]],
            Rung::Content,
            Sureness::Likely,
            2,
        ),
        // Distroless: packages, files that no package has, and certificates with their licence.
        (&[PACKAGE, &["etc/passwd"], CERTIFICATES, &["app"]], Rung::Content, Sureness::Likely, 3),
        (&[PACKAGE, &["home/nonroot/", "tmp/"], CERTIFICATES, &["app"]], Rung::Content, Sureness::Likely, 3),
        (&[&["etc/passwd"], PACKAGE, CERTIFICATES, &["app"]], Rung::Content, Sureness::Likely, 3),
        // What is there already, or lacks its licence, was put there by the application.
        (&[PACKAGE, &["etc/passwd"], &["etc/passwd"], &["app"]], Rung::Content, Sureness::Likely, 2),
        (&[PACKAGE, &["etc/ssl/certs/ca-certificates.crt"], &["app"]], Rung::Content, Sureness::Likely, 1),
        (&[&["lib/apk/db/installed"], &["etc/passwd"], &["app"]], Rung::Content, Sureness::Likely, 1),
        (&[&["conf"], &["etc/os-release"], &["app"]], Rung::Content, Sureness::Unknown, 0),
        (&[&["conf"], &["app"]], Rung::Scratch, Sureness::Likely, 0),
    ];
    for (layers, how, sure, count) in cases {
        let names = ["a", "b", "c", "d"];
        let source =
            TestImage { container: json!({"Entrypoint": ["/app"]}), ..TestImage::of(&names[..layers.len()]) }.image();
        let world = World { layers: layers.iter().map(|files| files.to_vec()).collect(), ..World::default() };
        let found = detect(&source, &world).unwrap();
        assert_eq!((found.how, found.sure, found.layers), (how, sure, count), "{layers:?}");
    }
}

#[test]
fn what_the_user_says_is_checked() {
    let source = TestImage::of(&["a", "b", "app"]).image();
    let world = World::default()
        .with("docker.io/library/debian:12", base())
        .with("docker.io/library/other:1", TestImage::of(&["z"]).image());
    let choose = |choice: OldBaseChoice| find(&source, &Map::new(), Some(&choice), &[], &world);
    assert_eq!(choose(OldBaseChoice::Scratch).unwrap().layers, 0);
    assert_eq!(choose(OldBaseChoice::Layers(3)).unwrap().layers, 3);
    assert!(choose(OldBaseChoice::Layers(4)).is_err());
    assert_eq!(choose(OldBaseChoice::Image("debian:12".parse().unwrap())).unwrap().layers, 2);
    assert!(choose(OldBaseChoice::Image("other:1".parse().unwrap())).is_err());
    assert!(choose(OldBaseChoice::Image("missing:1".parse().unwrap())).is_err());
}

#[test]
fn an_answer_is_recorded_in_one_way() {
    let proven = OldBase::image(Rung::Known, &"debian:12".parse().unwrap(), base());
    assert_eq!(proven.as_record(), base().digest().to_string(), "the same wherever it was read");
    assert_eq!(OldBase::layers(Rung::History, Sureness::Likely, 2).as_record(), "layers:2");
    assert_eq!(OldBase::layers(Rung::Scratch, Sureness::Likely, 0).as_record(), "scratch");
}

#[test]
fn a_base_by_digest_is_found_where_the_run_the_store_or_the_image_has_it() {
    let (digest, annotations) = (base().digest(), named("registry.example/debian:12", None));
    let source = TestImage { annotations, ..TestImage::of(&["a", "b", "app"]) }.image();
    let choice = OldBaseChoice::Digest(digest);
    let place = "mirror.example/other:1".parse().unwrap();
    let other = TestImage::of(&["x"]).image();
    let ask = |world: &World, known: &Image| {
        let known = [Known { location: &place, image: known }];
        find(&source, &Map::new(), Some(&choice), &known, world)
    };
    let at = |name: &str| World::default().with(&format!("{name}@{digest}"), base());
    for (why, world, known) in [
        ("known", World::default(), &base()),
        ("in the local store", World { stored: Some(base()), ..World::default() }, &other),
        ("named by the image", at("registry.example/debian"), &other),
        ("in a repository of the run", at("mirror.example/other"), &other),
    ] {
        assert_eq!(ask(&world, known).unwrap().as_record(), digest.to_string(), "{why}");
    }
    let error = ask(&at("elsewhere.example/debian"), &other).unwrap_err();
    assert!(error.to_string().contains(&digest.to_string()) && error.to_string().contains("--old-base"), "{error}");
    let changed = World::default().with(&format!("registry.example/debian@{digest}"), other.clone());
    assert!(ask(&changed, &other).is_err(), "another image under that digest");
}

#[test]
fn an_old_base_is_scratch_a_count_or_a_location() {
    assert_eq!("scratch".parse::<OldBaseChoice>().unwrap(), OldBaseChoice::Scratch);
    assert_eq!("layers:3".parse::<OldBaseChoice>().unwrap(), OldBaseChoice::Layers(3));
    assert!(matches!("debian:12".parse::<OldBaseChoice>().unwrap(), OldBaseChoice::Image(_)));
    for bad in ["layers:", "layers:-1", "layers:x", "", "NO"] {
        assert!(bad.parse::<OldBaseChoice>().is_err(), "{bad}");
    }
    let digest = Digest::of(b"").to_string();
    assert!(matches!(digest.parse::<OldBaseChoice>().unwrap(), OldBaseChoice::Digest(_)));
    for text in ["scratch", "layers:3", "docker.io/library/debian:12", &digest] {
        assert_eq!(text.parse::<OldBaseChoice>().unwrap().to_string(), text);
    }
}
