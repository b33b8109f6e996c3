//! Golden results: the bytes that the same inputs have always given. A change here means another
//! number of the format and a line in the changelog; `UPDATE_GOLDEN=1` writes the new ones.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::rig::cli::Sandbox;
use crate::rig::image::{Content, Dialect, Recipe};
use crate::rig::layer::{Layer, Pack, program};
use crate::rig::program::{Machine, prints};
use crate::rig::stock;

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
    Recipe { config, ..stock::app("linux/amd64", 100) }.build()
}

fn packed(pack: Pack) -> Content {
    let mut app = stock::app("linux/amd64", 100);
    app.layers.pop();
    app.layers.push(Layer::of(pack, &[program("app", prints(Machine::of("linux/amd64"), "hello\n"))]));
    app.build()
}

fn cases() -> Vec<Case> {
    let plain = || stock::app("linux/amd64", 100);
    let lines = |lines: &[(&str, bool)]| -> Value {
        lines.iter().map(|(by, empty)| json!({"created_by": by, "empty_layer": empty})).collect()
    };
    let annotations = json!({"org.opencontainers.image.source": "https://src.example", "cdi.k8s.io/x": "y"});
    let Value::Object(annotations) = annotations else { unreachable!() };
    let own = json!({
        "User": "65532:65532", "ExposedPorts": {"80/tcp": {}}, "Env": ["A=1", stock::PATH, "B"], "Entrypoint": ["/app"],
        "Cmd": ["--x", "é \" \\ \u{1}"], "Volumes": {"/data": {}}, "WorkingDir": "/srv", "Labels": {"b": "2", "a": "1"},
        "StopSignal": "SIGQUIT", "Healthcheck": {"Test": ["CMD", "/app"], "Interval": 1}, "Shell": ["/bin/x"], "OnBuild": ["RUN y"], "Odd": {"z": 1.5, "a": null},
    });
    let history = lines(&[("a", false), ("b", false), ("CMD", true), ("c", false), ("ENTRYPOINT", true)]);
    vec![
        case("plain", plain().build()),
        case("docker-media-types", Recipe { dialect: Dialect::Docker, ..plain() }.build()),
        case("index-with-attestation", stock::attested_app(100)),
        Case { flags: &["--platform", "linux/arm64"], ..case("one-platform-of-an-index", stock::attested_app(100)) },
        case("every-member-set", with_config(own)),
        case("no-command", with_config(json!({}))),
        case("history-that-fits", Recipe { history: Some(history), ..plain() }.build()),
        case("history-missing", Recipe { history: Some(Value::Null), ..plain() }.build()),
        case("annotations", Recipe { annotations, ..plain() }.build()),
        Case { old_base: "layers:2", ..case("old-base-by-number", plain().build()) },
        Case { epoch: Some("1700000000"), ..case("source-date-epoch", plain().build()) },
        case("zstd-layer", packed(Pack::Zstd)),
        case("plain-layer", packed(Pack::Plain)),
    ]
}

/// The result: its digest, and every document of it as text.
fn result(case: &Case) -> Value {
    let sandbox = Sandbox::new();
    let here = |name: &str| sandbox.path("here").join(name);
    case.app.layout(&here("build"), "app");
    stock::on_three(Dialect::Oci, stock::old_base).layout(&here("old"), "v1");
    stock::on_three(Dialect::Oci, stock::new_base).layout(&here("new"), "v1");
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
    let mut run = sandbox.underpin(fixed.iter().chain(case.flags));
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
    let got: Map<String, Value> = cases().iter().map(|case| (case.name.to_owned(), result(case))).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&got).unwrap();
        std::fs::write(&path, text + "\n").unwrap();
    }
    let golden: Map<String, Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(got.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, result) in &got {
        assert_eq!(result, &golden[name], "{name}");
    }
}
