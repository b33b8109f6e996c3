//! Where the old base ends: each rung of the ladder, and what history may never do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::debian::of_this_machine;
use crate::support::docker_registry::Registry;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::programs::{Machine, prints};
use crate::support::published;
use crate::support::recipe::{Content, Dialect, Recipe, attest, index};
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, folder};
use crate::support::{fixtures, tools};

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

    /// The image that was pushed last, as it is.
    fn inspect(&self) -> Invocation {
        self.sandbox.underpin(["inspect", &format!("{}/in/app:v1", self.registry.host()), "--no-cache"])
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

/// The lines of a distribution's image, and those of a build upon it.
fn lines(own: &[(&str, bool)]) -> Value {
    let base = [("/bin/sh -c #(nop) ADD file:0123 in / ", false), ("/bin/sh -c #(nop)  CMD [\"bash\"]", true)];
    let entry =
        |(by, empty): &(&str, bool)| json!({"created": "2020-01-02T03:04:05Z", "created_by": by, "empty_layer": empty});
    base.iter().chain(own).map(entry).collect()
}

const COPY_APP: (&str, bool) = ("COPY app /app # buildkit", false);
const START: (&str, bool) = ("ENTRYPOINT [\"/app\"]", true);

fn system() -> Layer {
    Layer::of(
        Pack::Gzip,
        &[folder("etc/"), file("etc/os-release", "ID=oldian\n"), file("etc/passwd", "root:x:0:0:::\n")],
    )
}

fn data() -> Layer {
    Layer::of(Pack::Gzip, &[folder("data/"), file("data/model", "of the application\n")])
}

/// The system, these layers, and the application's; with this history.
fn upon_system(more: &[Layer], history: Value) -> Recipe {
    let own = fixtures::app_layer("linux/amd64", 1000);
    let layers = [system()].into_iter().chain(more.iter().cloned()).chain([own]).collect();
    Recipe { layers, history: Some(history), ..app() }
}

#[test]
fn history_shows_where_the_base_ends() {
    let setup = or_skip!(Setup::new());
    let image = upon_system(&[], lines(&[COPY_APP, START])).build();
    let plan = setup.plan(&image, &[]);
    assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("history"), &json!(1)), "{plan}");
    assert_eq!(fates(&plan, "kept"), image.layers()[1..]);
    let shown = setup.inspect().arg("--json").run().ok().json()["platforms"][0].clone();
    assert_eq!((&shown["old_base"]["layers"], &shown["unproven_files"]), (&json!(1), &Value::Null), "{shown}");
}

/// As in a Dockerfile that copies data, sets a command, copies more and sets the command again.
#[test]
fn a_guess_that_would_remove_data_is_refused_with_its_name_and_both_fixes_work() {
    let setup = or_skip!(Setup::new());
    let history = lines(&[("COPY data /data # buildkit", false), ("CMD [\"sh\"]", true), COPY_APP, START]);
    let image = upon_system(&[data()], history).build();
    let to = format!("oci:{}:v1", setup.sandbox.path("out").display());
    let run = setup.underpin("rebase", &image).args(["--to", &to]).run().refused();
    let run = run
        .says("base-unproven-files")
        .says("/data/model")
        .says("--old-base layers:2")
        .says("--old-base layers:1 to keep");
    assert!(!setup.sandbox.path("out").exists(), "a refusal writes nothing\n{run}");
    let shown = setup.inspect().run().ok().stdout;
    assert!(shown.contains("that no package owns") && shown.contains("/data/model"), "{shown}");
    assert_eq!(
        setup.inspect().arg("--json").run().ok().json()["platforms"][0]["unproven_files"],
        json!(["/data/model"])
    );
    setup.underpin("rebase", &image).args(["--to", &to, "--allow", "base-unproven-files"]).run().fails("usage");
    assert_eq!(fates(&setup.plan(&image, &["--old-base", "layers:2"]), "stripped"), image.layers()[..2]);
    assert_eq!(fates(&setup.plan(&image, &["--old-base", "layers:1"]), "kept"), image.layers()[1..]);
    // Brought along, the file is not lost either.
    setup.plan(&image, &["--keep", "/data"]);
}

#[test]
fn data_that_is_copied_before_the_images_own_command_is_kept() {
    let setup = or_skip!(Setup::new());
    let data_line = ("COPY data /data # buildkit", false);
    for own in [[data_line, START, COPY_APP], [data_line, COPY_APP, START]] {
        let image = upon_system(&[data()], lines(&own)).build();
        let plan = setup.plan(&image, &[]);
        assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("history"), &json!(1)), "{plan}");
        assert_eq!(fates(&plan, "kept"), image.layers()[1..], "{own:?}");
    }
}

#[test]
fn a_command_of_the_base_leaves_with_it_though_the_base_has_no_name() {
    let setup = or_skip!(Setup::new());
    let recipe = upon_system(&[], lines(&[COPY_APP]));
    let plan = |cmd: Value| {
        let image = Recipe { config: json!({"Env": [fixtures::PATH], "Cmd": cmd}), ..recipe.clone() }.build();
        setup.underpin("plan", &image).arg("--json").run().json()["platforms"][0]["cmd"].clone()
    };
    assert_eq!(plan(json!(["bash"])), json!({"before": ["bash"], "after": []}));
    assert_eq!(plan(json!(["/app"])), json!({"before": ["/app"], "after": ["/app"]}));
}

/// Packages of this machine as distroless has them, then what no package has.
fn distroless(certificates: &str) -> Part<Vec<Layer>> {
    let mut layers = Vec::new();
    for name in ["base-files", "netbase", "tzdata", "media-types"] {
        layers.push(of_this_machine(name)?.unpacked());
    }
    let passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n";
    let bundle = file("etc/ssl/certs/ca-certificates.crt", certificates);
    let licence = file("usr/share/doc/ca-certificates/copyright", "of the certificates\n");
    layers.extend([
        vec![folder("./")],
        vec![folder("etc/"), file("etc/passwd", passwd)],
        vec![folder("home/"), folder("home/nonroot/").owned(65532, 65532).mode(0o700)],
        vec![folder("etc/"), file("etc/group", "root:x:0:\nnonroot:x:65532:\n")],
        vec![folder("tmp/").mode(0o1777)],
        vec![folder("etc/"), file("etc/nsswitch.conf", "hosts: files dns\n")],
        vec![folder("usr/"), folder("usr/lib/"), file("usr/lib/os-release", "PRETTY_NAME=\"Distroless\"\nID=debian\n")],
        vec![folder("etc/"), folder("etc/ssl/"), folder("etc/ssl/certs/"), bundle, licence],
    ]);
    Ok(layers.iter().map(|entries| Layer::of(Pack::Gzip, entries)).collect())
}

#[test]
fn every_layer_of_a_distroless_image_is_its_base_with_and_without_history() {
    let setup = or_skip!(Setup::new());
    let (old, new) = (or_skip!(distroless("outdated\n")), or_skip!(distroless("renewed\n")));
    let (count, platform) = (old.len(), "linux/amd64");
    Recipe::new(platform, new).build().push(setup.registry.host(), "base/new", "v1");
    let bazel = json!({"created": "1970-01-01T00:00:00Z", "created_by": "bazel build @debian"});
    let with_history: Value = vec![bazel; count].into_iter().chain([json!({"created_by": "COPY app /app"})]).collect();
    let own = fixtures::app_layer(platform, 1000);
    for (how, history) in [("history", Some(with_history)), ("content", Some(json!([])))] {
        let layers = old.iter().cloned().chain([own.clone()]).collect();
        let image = Recipe { layers, history, ..app() }.build();
        let plan = setup.plan(&image, &[]);
        assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!(how), &json!(count)), "{plan}");
        assert_eq!(fates(&plan, "kept"), [own.digest()], "{how}");
        let rules: Vec<&Value> = plan["findings"].as_array().unwrap().iter().map(|found| &found["rule"]).collect();
        assert_eq!(rules, ["old-base-unproven"], "{how}");
    }
    // A bundle that somebody put there is kept.
    let bundle = Layer::of(Pack::Gzip, &[file("etc/ssl/certs/ca-certificates.crt", "of the company\n")]);
    let layers = old[..count - 1].iter().cloned().chain([bundle.clone(), own.clone()]).collect();
    let plan = setup.plan(&Recipe { layers, history: Some(json!([])), ..app() }.build(), &[]);
    assert_eq!(fates(&plan, "kept"), [bundle.digest(), own.digest()]);
}

/// Real images of buildah, with one layer for a step and with one for all steps.
#[test]
fn the_base_that_buildah_names_in_the_history_is_looked_up() {
    or_skip!(need(&["buildah"]));
    let setup = or_skip!(Setup::new());
    let build = Buildah::new(setup.sandbox.path("buildah"));
    let base = format!("{}/base/built:v1", setup.registry.host());
    build.image(&base, "FROM scratch\nCOPY os-release /etc/os-release\nCMD [\"/bin/sh\"]\n", &[]);
    let gone = "localhost/gone:v1";
    build.tag(&base, gone);
    let new = format!("{}/base/new:v1", setup.registry.host());
    for (named, mode) in
        [(base.as_str(), "--layers"), (&base, "--layers=false"), (gone, "--layers"), (gone, "--layers=false")]
    {
        let image = format!("{}/in/built:v1", setup.registry.host());
        build.image(&image, &format!("FROM {named}\nCOPY app /app\nENTRYPOINT [\"/app\"]\n"), &[mode]);
        let plan = setup.sandbox.underpin(["plan", &image, "--base", &new, "--no-cache", "--json"]).hurried();
        let plan = plan.run().ok().json()["platforms"][0].clone();
        let found = &plan["old_base"];
        assert_eq!((&found["how"], &found["layers"]), (&json!("history"), &json!(1)), "{named} {mode}: {plan}");
        let is_proven = found["reference"].as_str().is_some_and(|name| name.contains("/base/built"));
        assert_eq!(is_proven, named == base, "{named} {mode}: {plan}");
        assert_eq!(plan.to_string().contains("base-name-ignored"), named == gone, "{named} {mode}: {plan}");
    }
}

/// Builds with buildah in storage of its own, and pushes what it built without annotations.
struct Buildah {
    folder: PathBuf,
}

impl Buildah {
    fn new(folder: PathBuf) -> Self {
        std::fs::create_dir_all(folder.join("context")).unwrap();
        std::fs::write(folder.join("context/os-release"), "ID=oldian\n").unwrap();
        std::fs::write(folder.join("context/app"), prints(Machine::Amd64, fixtures::LINE)).unwrap();
        let app = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("context/app"), app).unwrap();
        Self { folder }
    }

    fn run(&self, args: &[&str]) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let storage = ["--storage-driver", "vfs", "--root", &at("root"), "--runroot", &at("run")];
        tools::tool("buildah", &[&storage[..], args].concat());
    }

    fn tag(&self, name: &str, other: &str) {
        self.run(&["tag", name, other]);
    }

    fn image(&self, name: &str, dockerfile: &str, flags: &[&str]) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        std::fs::write(self.folder.join("Dockerfile"), dockerfile).unwrap();
        let (file, context) = (at("Dockerfile"), at("context"));
        let build = [
            "bud",
            "--isolation",
            "chroot",
            "--format",
            "docker",
            "--pull-never",
            "--no-cache",
            "-t",
            name,
            "-f",
            &file,
        ];
        self.run(&[&build[..], flags, &[&context]].concat());
        self.run(&["push", "--tls-verify=false", name, &format!("docker://{name}")]);
    }
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
fn a_base_that_the_image_does_not_stand_on_is_an_error_where_the_user_names_it() {
    let setup = or_skip!(Setup::new());
    let new_base = format!("{}/base/new:v1", setup.registry.host());
    setup.underpin("plan", &app().build()).args(["--old-base", &new_base]).run().fails("input").says("/base/new");
}

/// A name that does not fit, one that is not there, and a registry that does not answer.
#[test]
fn a_name_in_the_image_that_leads_nowhere_is_passed_over_with_a_warning() {
    let setup = or_skip!(Setup::new());
    let host = setup.registry.host();
    for (name, why) in [
        (format!("{host}/base/new:v1"), "is not under the image: it differs at layer 1 of 2"),
        (format!("{host}/base/gone:v1"), "could not be found"),
        ("127.0.0.1:1/base/old:v1".to_owned(), "could not be reached"),
    ] {
        let mut wrong = upon_system(&[], lines(&[COPY_APP, START]));
        wrong.annotations.insert(NAME.to_owned(), name.clone().into());
        let image = wrong.build();
        let to = format!("oci:{}:v1", setup.sandbox.path("out").display());
        let rebase = || setup.underpin("rebase", &image).hurried().args(["--to", &to]);
        rebase().run().ok().says("base-name-ignored").says(&name).says(why);
        let plan = rebase().args(["--dry-run", "--json"]).run().ok().json()["platforms"][0].clone();
        assert_eq!((&plan["old_base"]["how"], &plan["old_base"]["layers"]), (&json!("history"), &json!(1)), "{plan}");
        // The result records the old base as it was found, and so can be made again.
        setup.sandbox.underpin(["verify", &to, "--no-cache"]).run().ok().says("verified");
        let source = format!("{host}/in/app:v1");
        let shown = setup.sandbox.underpin(["inspect", &source, "--no-cache"]).hurried().run().ok().stdout;
        assert!(shown.contains(&name) && shown.contains(why) && shown.contains("by history, likely"), "{shown}");
    }
}

#[test]
fn inspect_and_check_compare_with_known_bases() {
    let setup = or_skip!(Setup::new());
    let (name, _) = setup.old_base();
    app().build().push(setup.registry.host(), "in/app", "v1");
    let source = format!("{}/in/app:v1", setup.registry.host());
    let base = format!("{}/base/new:v1", setup.registry.host());
    let inspect = setup.sandbox.underpin(["inspect", &source, "--json", "--no-cache", "--known-base", &name]);
    let shown = inspect.run().ok().json()["platforms"][0]["old_base"].clone();
    assert_eq!((&shown["how"], &shown["layers"]), (&json!("known"), &json!(2)), "{shown}");
    let check = ["check", &source, "--json", "--no-cache", "--allow-base", &base, "--known-base", &name];
    let report = setup.sandbox.underpin(check).run().refused().json();
    assert!(report.to_string().contains("\"how\":\"known\""), "{report}");
    setup.sandbox.underpin(["inspect", &source, "--no-cache", "--known-base", "NOT A NAME"]).run().fails("input");
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
