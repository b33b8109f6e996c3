//! Configs that lie, or that make runtimes do things.

use serde_json::{Value, json};

use super::{Setup, good};
use crate::support::http::Answer;
use crate::support::proxy::{Action, on};
use crate::support::recipe::Content;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::digest;

/// The good image with one field of the config's `config` set.
fn with(key: &str, value: &Value) -> Content {
    good().with_config(|config| config["config"][key] = value.clone())
}

#[test]
fn a_config_must_be_the_config_of_an_image() {
    let setup = Setup::new();
    let typed = |media_type: &str| good().with_manifest(|manifest| manifest["config"]["mediaType"] = media_type.into());
    for (why, content) in [
        ("an index", good().with_config_bytes(|_| good().top.bytes)),
        ("not JSON", good().with_config_bytes(|_| b"#!/bin/sh\n".to_vec())),
        ("5 MiB", good().with_config(|config| config["x"] = "y".repeat(5 << 20).into())),
        ("a list", good().with_config_bytes(|_| b"[]".to_vec())),
        ("helm", typed("application/vnd.cncf.helm.config.v1+json")),
        ("wasm", typed("application/vnd.wasm.config.v1+json")),
    ] {
        setup.refuses(why, &content, &["input"]);
    }
    setup.accepts("a large one", &good().with_config(|config| config["x"] = "y".repeat(1 << 20).into()));
}

#[test]
fn diff_ids_must_be_those_of_the_layers() {
    let setup = Setup::new();
    let ids = |change: &dyn Fn(&mut Vec<Value>)| {
        good().with_config(|config| change(config["rootfs"]["diff_ids"].as_array_mut().unwrap()))
    };
    setup.refuses("one less", &ids(&|ids| drop(ids.pop())), &["input"]);
    setup.refuses("one more", &ids(&|ids| ids.push(ids[0].clone())), &["input"]);
    setup.refuses("none", &ids(&|ids| ids.clear()), &["input"]);
    setup.refuses("a wrong one", &ids(&|ids| ids[2] = digest(b"x").into()), &["integrity"]);
    setup.refuses("no digest", &ids(&|ids| ids[2] = "x".into()), &["input"]);
    setup.refuses("one twice", &ids(&|ids| ids[2] = ids[1].clone()), &["integrity"]);
    setup.refuses("missing", &good().with_config(|config| config["rootfs"] = Value::Null), &["input"]);
}

#[test]
fn history_may_be_anything() {
    let setup = Setup::new();
    let history = |value: Value| good().with_config(|config| config["history"] = value);
    for (why, content) in [
        ("longer", history(json!([{}, {}, {}, {}, {}]))),
        ("shorter", history(json!([{}]))),
        ("null", history(Value::Null)),
        ("all empty", history(json!([{"empty_layer": true}, {"empty_layer": true}]))),
        ("a million entries", history(vec![json!({}); 1_000_000].into())),
    ] {
        let published = setup.accepts(why, &content);
        assert_eq!(published.only().layers.len(), 3, "{why}");
    }
}

#[test]
fn a_strange_user_is_carried_and_never_becomes_root() {
    let setup = Setup::new();
    for user in ["4294967296", "-1", " 0", "+0", "0x0", "٠", "4294967296:0"] {
        let run = setup.rebase_layout(&with("User", &user.into())).run();
        // A user that the new base does not know may be a reason to refuse.
        assert!(matches!(run.code(), Some(0 | 1)), "{user}\n{run}");
        if run.code() == Some(0) {
            let published = crate::support::published::layout(&setup.sandbox.path("out"), "v1").unwrap();
            assert_eq!(published.only().config["config"]["User"], user);
        }
    }
}

#[test]
fn strange_variables_are_carried_as_they_are() {
    let setup = Setup::new();
    let good_env = json!(["SECRET", "*", "", "A=1", "A=2", "LD_PRELOAD=/x.so", format!("BIG={}", "x".repeat(1 << 20))]);
    let published = setup.accepts("strange", &with("Env", &good_env));
    let env = published.only().config["config"]["Env"].as_array().unwrap();
    for kept in ["SECRET", "*", "LD_PRELOAD=/x.so"] {
        assert!(env.contains(&kept.into()), "{kept} is lost");
    }
    setup.refuses("NUL", &with("Env", &json!(["A=\0B"])), &["input"]);
    setup.refuses("not a list", &with("Env", &json!("A=B")), &["input"]);
}

#[test]
fn a_command_is_a_list_of_words() {
    let setup = Setup::new();
    for (why, wrong) in [("a string", json!("/app")), ("NUL", json!(["/app\0"])), ("numbers", json!([1]))] {
        setup.refuses(why, &with("Entrypoint", &wrong), &["input"]);
        setup.refuses(why, &with("Cmd", &wrong), &["input"]);
    }
    for (why, cmd) in [
        ("none", json!([])),
        ("null", Value::Null),
        ("100,000 words", vec![json!("x"); 100_000].into()),
        ("a line feed", json!(["a\nb"])),
        ("a dash", json!(["-x", "--", "-"])),
    ] {
        let published = setup.accepts(why, &with("Cmd", &cmd));
        let kept = &published.only().config["config"]["Cmd"];
        assert!(*kept == cmd || (kept.is_null() && cmd == json!([])), "{why}: {kept}");
    }
}

#[test]
fn labels_that_command_runtimes_are_dropped_and_named() {
    let setup = Setup::new();
    let dangerous = [
        "containerd.io/restart.loguri",
        "io.podman.annotations.checkpoint.runtime.name",
        "org.systemd.property.ExecStartPre",
        "cdi.k8s.io/gpu",
    ];
    let mut labels: serde_json::Map<String, Value> =
        dangerous.iter().map(|key| ((*key).to_owned(), "binary:///bin/sh".into())).collect();
    labels.insert("org.example.fine".to_owned(), "yes".into());
    let content = with("Labels", &labels.clone().into())
        .with_manifest(|manifest| manifest["annotations"] = labels.clone().into());
    let run = setup.rebase_layout(&content).arg("--json").run().ok();
    let published = crate::support::published::layout(&setup.sandbox.path("out"), "v1").unwrap();
    let image = published.only();
    for key in dangerous {
        assert!(image.config["config"]["Labels"][key].is_null(), "{key} is still a label");
        assert!(image.manifest["annotations"][key].is_null(), "{key} is still an annotation");
        assert!(run.stdout.contains(key), "{key} is not named\n{run}");
    }
    assert_eq!(image.config["config"]["Labels"]["org.example.fine"], "yes");
}

const ESCAPE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}";

#[test]
fn nothing_in_an_image_or_an_answer_moves_the_cursor() {
    let setup = Setup::new();
    let labels = json!({format!("org.example.{ESCAPE}"): ESCAPE, format!("containerd.io/restart.{ESCAPE}"): ESCAPE});
    let run = setup.rebase_layout(&with("Labels", &labels)).arg("-v").run().ok();
    assert!(!run.stderr.contains('\u{1b}') && !run.stdout.contains('\u{1b}'), "{run}");
    let run = setup.rebase_layout(&with("Entrypoint", &json!([format!("/{ESCAPE}")]))).arg("-v").run();
    assert!(!run.stderr.contains('\u{1b}') && !run.stdout.contains('\u{1b}'), "{run}");
    let registries = or_skip!(Registries::two(10));
    let trial = registries.trial();
    let rude = Answer::error(404, "MANIFEST_UNKNOWN", ESCAPE);
    registries.source.proxy.script([on("GET", "/in/app/manifests/").always().does(Action::Answer(rude))]);
    let run = trial.fails(trial.run(), "not-found");
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('\u{7}'), "{run}");
    trial.settle();
}
