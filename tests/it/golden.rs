//! Golden results: the bytes that the same inputs have always given. A change here means another
//! number of the format and a line in the changelog; `UPDATE_GOLDEN=1` writes the new ones.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::support::debian::by_hand;
use crate::support::fixtures;
use crate::support::invocation::{Sandbox, binary};
use crate::support::layouts::upon;
use crate::support::programs::{Machine, prints};
use crate::support::recipe::{Content, Dialect, Recipe};
use crate::support::skip::{Part, missing, need, or_skip};
use crate::support::tar_layer::{CAPABILITY, Layer, Pack, file, folder, hardlink, noise, program, symlink, whiteout};

struct Case {
    name: &'static str,
    app: Content,
    old_base: &'static str,
    flags: &'static [&'static str],
    epoch: Option<&'static str>,
}

fn case(name: &'static str, app: Content) -> Case {
    Case { name, app, old_base: "oci:old:v1", flags: &[], epoch: None }
}

fn with_config(config: Value) -> Content {
    Recipe { config, ..fixtures::app("linux/amd64", 100) }.build()
}

fn packed(pack: Pack) -> Content {
    let mut app = fixtures::app("linux/amd64", 100);
    app.layers.pop();
    app.layers.push(Layer::of(pack, &[program("app", prints(Machine::of("linux/amd64"), "hello\n"))]));
    app.build()
}

/// An installation, another with the application among it, whiteouts of the old base, the application.
fn with_packages() -> Content {
    let mut app = fixtures::app("linux/amd64", 100);
    let own = [
        folder("opt/").owned(7, 8).mode(0o2750).at(3000),
        file("opt/long-enough-to-be-compressed", noise(1, 3000)).at(3000).xattr("security.capability", &CAPABILITY),
        file("opt/changed", "by the application\n").at(3000),
        hardlink("opt/second-name", "opt/changed"),
        symlink("usr/bin/link", "../../opt/changed"),
        whiteout("usr/share/notes"),
        whiteout("etc/group"),
    ];
    let curl = by_hand("curl", &[("usr/bin/curl", "curl"), ("opt/changed", "")]).installed();
    let layers = [
        Layer::of(Pack::Gzip, &by_hand("tool", &[("usr/bin/tool", "tool")]).installed()),
        Layer::of(Pack::Gzip, &[curl, own.to_vec()].concat()),
        Layer::of(Pack::Gzip, &[whiteout("etc/passwd-")]),
    ];
    app.layers.splice(2..2, layers);
    app.build()
}

/// Runs as a user, in a folder and with a log that only the old base of `old-with-app` has.
fn with_account() -> Content {
    let old = old_base_with_app("linux/amd64");
    let config = json!({
        "Entrypoint": ["/app"], "Cmd": ["--log-file=/var/log/app/x"], "User": "app:app", "WorkingDir": "/srv/app",
    });
    upon(&old, [fixtures::app_layer("linux/amd64", 100)], config).build()
}

fn old_base_with_app(platform: &str) -> Recipe {
    let mut old = fixtures::old_base(platform);
    old.layers.push(Layer::of(
        Pack::Gzip,
        &[
            file("etc/passwd", "root:x:0:0::/:\napp:x:1000:1001:App:/srv/app:/bin/sh\n"),
            file("etc/group", "audio:x:29:app,x\napp:x:1001:\n"),
            folder("srv/app/").owned(1000, 1001).mode(0o750),
            folder("var/log/app/").owned(1000, 1001),
        ],
    ));
    old
}

fn squashed() -> Content {
    let system = by_hand("base", &[("bin/sh", "sh"), ("etc/os-release", "ID=old\n")]).installed();
    let own = [
        program("opt/v1/app", prints(Machine::of("linux/amd64"), "hello\n")),
        symlink("opt/current", "v1"),
        file("opt/v1/settings", "x"),
    ];
    let config = json!({"Entrypoint": ["/opt/current/app"]});
    Recipe { config, ..Recipe::new("linux/amd64", vec![Layer::of(Pack::Gzip, &[system, own.to_vec()].concat())]) }
        .build()
}

fn cases() -> Vec<Case> {
    let plain = || fixtures::app("linux/amd64", 100);
    let lines = |lines: &[(&str, bool)]| -> Value {
        lines.iter().map(|(by, empty)| json!({"created_by": by, "empty_layer": empty})).collect()
    };
    let annotations = json!({"org.opencontainers.image.source": "https://src.example", "cdi.k8s.io/x": "y"});
    let Value::Object(annotations) = annotations else { unreachable!() };
    let own = json!({
        "User": "65532:65532", "ExposedPorts": {"80/tcp": {}}, "Env": ["A=1", fixtures::PATH, "B"], "Entrypoint": ["/app"],
        "Cmd": ["--x", "é \" \\ \u{1}"], "Volumes": {"/data": {}}, "WorkingDir": "/srv", "Labels": {"b": "2", "a": "1"},
        "StopSignal": "SIGQUIT", "Healthcheck": {"Test": ["CMD", "/app"], "Interval": 1}, "Shell": ["/bin/x"], "OnBuild": ["RUN y"], "Odd": {"z": 1.5, "a": null},
    });
    let history = lines(&[("a", false), ("b", false), ("CMD", true), ("c", false), ("ENTRYPOINT", true)]);
    vec![
        case("plain", plain().build()),
        case("docker-media-types", Recipe { dialect: Dialect::Docker, ..plain() }.build()),
        case("index-with-attestation", fixtures::attested_app(100)),
        Case { flags: &["--platform", "linux/arm64"], ..case("one-platform-of-an-index", fixtures::attested_app(100)) },
        case("every-member-set", with_config(own)),
        case("no-command", with_config(json!({}))),
        case("history-that-fits", Recipe { history: Some(history), ..plain() }.build()),
        case("history-missing", Recipe { history: Some(Value::Null), ..plain() }.build()),
        case("annotations", Recipe { annotations, ..plain() }.build()),
        Case { old_base: "layers:2", ..case("old-base-by-number", plain().build()) },
        Case { epoch: Some("1700000000"), ..case("source-date-epoch", plain().build()) },
        case("zstd-layer", packed(Pack::Zstd)),
        case("plain-layer", packed(Pack::Plain)),
        case("filtered-and-dropped-layers", with_packages()),
        Case { epoch: Some("1700000000"), ..case("filtered-at-a-source-date", with_packages()) },
        Case { old_base: "oci:old-with-app:v1", ..case("added-layer", with_account()) },
        Case { old_base: "scratch", flags: &["--extract", "--keep", "/bin/sh"], ..case("extracted", squashed()) },
    ]
}

/// The inputs of a case as layouts, in the current directory of the sandbox.
fn inputs(case: &Case) -> Sandbox {
    let sandbox = Sandbox::new();
    let here = |name: &str| sandbox.path("here").join(name);
    case.app.layout(&here("build"), "app");
    fixtures::on_three(Dialect::Oci, fixtures::old_base).layout(&here("old"), "v1");
    fixtures::on_three(Dialect::Oci, fixtures::new_base).layout(&here("new"), "v1");
    old_base_with_app("linux/amd64").build().layout(&here("old-with-app"), "v1");
    sandbox
}

/// The result: its digest, and every document of it as text.
fn result(case: &Case, program: &[String]) -> Value {
    let sandbox = inputs(case);
    let here = |name: &str| sandbox.path("here").join(name);
    let fixed = [
        "rebase",
        "oci:build:app",
        "--base",
        "oci:new:v1",
        "--to",
        "oci:out:app",
        "--no-cache",
        "--old-base",
        case.old_base,
    ];
    let words = program[1..].iter().map(String::as_str).chain(fixed).chain(case.flags.iter().copied());
    let mut run = sandbox.program(&program[0], words);
    if let Some(epoch) = case.epoch {
        run = run.env("SOURCE_DATE_EPOCH", epoch);
    }
    let digest = run.run().ok().digest();
    let mut documents = Map::new();
    collect(&here("out"), &digest, &mut documents);
    json!({"digest": digest, "documents": documents})
}

fn collect(layout: &std::path::Path, digest: &str, into: &mut Map<String, Value>) {
    let text = std::fs::read_to_string(layout.join("blobs/sha256").join(&digest[7..])).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    into.insert(digest.to_owned(), text.into());
    let children = value["manifests"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(value.get("config").filter(|c| c.get("digest").is_some()));
    for child in children {
        collect(layout, child["digest"].as_str().unwrap(), into);
    }
}

#[test]
fn the_same_inputs_give_the_bytes_they_always_gave() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden.json");
    let got: Map<String, Value> = results(&[binary()]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&got).unwrap();
        std::fs::write(&path, text + "\n").unwrap();
    }
    compare(&got, "this build");
}

/// What a program gives for every case.
fn results(program: &[String]) -> Map<String, Value> {
    cases().iter().map(|case| (case.name.to_owned(), result(case, program))).collect()
}

fn compare(got: &Map<String, Value>, by: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden.json");
    let golden: Map<String, Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(got.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, result) in got {
        assert_eq!(result, &golden[name], "{name}, by {by}");
    }
}

fn built(path: &str, by: &str) -> Part<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if path.exists() { Ok(path.display().to_string()) } else { Err(missing(&format!("the binary of {by}"))) }
}

/// Another C library, another optimisation.
#[test]
fn the_static_release_gives_the_same_bytes() {
    let released = or_skip!(built("target/dist/underpin", "scripts/release"));
    compare(&results(&[released]), "the static release");
}

/// Another machine, another compiler.
#[test]
fn a_build_for_arm64_gives_the_same_bytes() {
    or_skip!(need(&["qemu-aarch64-static"]));
    let cross = or_skip!(built("target/cross/underpin-arm64", "scripts/cross"));
    compare(&results(&["qemu-aarch64-static".to_owned(), cross]), "the build for arm64");
}
