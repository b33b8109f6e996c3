//! What is proven of the program before anything is pushed: each rule on a real file, each with a
//! twin that passes.

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::programs::{Machine, prints};
use crate::support::recipe::{Content, Recipe};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program, symlink};

fn hello(platform: &str) -> Vec<u8> {
    prints(Machine::of(platform), "hello\n")
}

/// The application with these files in its own layer, and this command.
fn app(files: &[Entry], config: Value) -> Content {
    let mut recipe = fixtures::app("linux/amd64", 1);
    recipe.layers.pop();
    recipe.layers.push(Layer::of(Pack::Gzip, files));
    Recipe { config, ..recipe }.build()
}

/// Runs a rebase and gives the rules that refused; checks that a refusal wrote nothing.
fn refusals(app: &Content, flags: &[&str]) -> Vec<String> {
    let sandbox = Sandbox::new();
    let here = |name: &str| sandbox.path("here").join(name);
    app.layout(&here("build"), "app");
    fixtures::old_base("linux/amd64").build().layout(&here("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&here("new"), "v1");
    let fixed = ["rebase", "oci:build:app", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", "oci:out:v1"];
    let run = sandbox.underpin(fixed.iter().chain(flags).chain(&["--json", "--no-cache"])).run();
    let report = run.json();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    let refused: Vec<String> = findings
        .filter(|finding| finding["level"] == "refuse")
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(run.code(), Some(i32::from(!refused.is_empty())), "{run}");
    assert_eq!(here("out").exists(), refused.is_empty(), "a refusal writes nothing\n{run}");
    refused
}

#[test]
fn a_static_program_is_found_through_path_links_and_folders() {
    let files = [
        program("usr/bin/real", hello("linux/amd64")),
        symlink("usr/bin/app", "../../opt/app"),
        symlink("opt", "usr/share/opt"),
        symlink("usr/share/opt/app", "/usr/bin/real"),
    ];
    for config in [
        json!({"Entrypoint": ["/usr/bin/app"], "Env": [fixtures::PATH]}),
        json!({"Entrypoint": ["app"], "Env": [fixtures::PATH]}),
        json!({"Cmd": ["real", "--flag"], "Env": [fixtures::PATH]}),
        json!({"Entrypoint": ["./real"], "WorkingDir": "/usr/bin"}),
        json!({"Entrypoint": ["/opt/app"]}),
    ] {
        assert_eq!(refusals(&app(&files, config.clone()), &[]), [""; 0], "{config}");
    }
}

#[test]
fn a_program_that_is_not_there_is_refused() {
    let here = || program("app", hello("linux/amd64"));
    for (why, files, command) in [
        ("missing", vec![here()], "/other"),
        ("not in PATH", vec![here()], "app"),
        ("of the old base", vec![here()], "/usr/share/notes"),
        ("not executable", vec![file("app", hello("linux/amd64"))], "/app"),
        ("whited out", vec![file(".wh.app", "")], "/app"),
        ("dangling link", vec![symlink("app", "/usr/bin/gone")], "/app"),
        ("a circle", vec![symlink("app", "/b"), symlink("b", "/app")], "/app"),
    ] {
        let config = json!({"Entrypoint": [command], "Env": [fixtures::PATH]});
        assert_eq!(refusals(&app(&files, config), &[]), ["entrypoint-missing"], "{why}");
    }
}

#[test]
fn what_the_kernel_alone_cannot_start_is_refused() {
    // A dynamic program that every amd64 machine has.
    let dynamic = std::fs::read("/bin/bash").unwrap();
    let script = |line: &str| program("app", format!("{line}\nexit 0\n"));
    let start = || json!({"Entrypoint": ["/app"]});
    for (why, item, expected) in [
        ("static", program("app", hello("linux/amd64")), vec![]),
        ("dynamic", program("app", dynamic), vec!["dynamic-binary"]),
        ("another machine", program("app", hello("linux/arm64")), vec!["wrong-machine"]),
        ("a script", script("#!/bin/sh"), vec!["needs-shell"]),
        ("a script of another kind", script("#!/usr/bin/python3"), vec!["not-a-binary"]),
        ("text", program("app", "hello\n"), vec!["not-a-binary"]),
        ("cut off", program("app", hello("linux/amd64")[..80].to_vec()), vec!["not-a-binary"]),
    ] {
        assert_eq!(refusals(&app(&[item], start()), &[]), expected, "{why}");
    }
}

#[test]
fn a_script_starts_where_its_interpreter_is_in_the_image() {
    let interpreter = program("bin/run", hello("linux/amd64"));
    let script = program("app", "#!/bin/run --fast\n");
    assert_eq!(refusals(&app(&[interpreter, script], json!({"Entrypoint": ["/app"]})), &[]), [""; 0]);
}

#[test]
fn accounts_by_name_must_be_in_the_rebased_image() {
    let runs_as = |user: &str| {
        let config = json!({"Entrypoint": ["/app"], "User": user});
        refusals(&app(&[program("app", hello("linux/amd64"))], config), &[])
    };
    // The new base has root and nonroot; `nobody` was the old base's at best.
    for user in ["", "0", "65532:65532", "nonroot", "nonroot:nonroot"] {
        assert_eq!(runs_as(user), [""; 0], "{user}");
    }
    assert_eq!(runs_as("nobody"), ["user-missing"]);
    assert_eq!(runs_as("nonroot:nogroup"), ["user-missing"]);
}

#[test]
fn a_health_check_in_shell_form_is_refused() {
    let checked = |test: Value| {
        let config = json!({"Entrypoint": ["/app"], "Healthcheck": {"Test": test}});
        refusals(&app(&[program("app", hello("linux/amd64"))], config), &[])
    };
    assert_eq!(checked(json!(["CMD-SHELL", "true"])), ["healthcheck-shell"]);
    assert_eq!(checked(json!(["CMD", "/app"])), [""; 0]);
}

#[test]
fn what_is_allowed_is_on_record() {
    let text = app(&[program("app", "hello\n")], json!({"Entrypoint": ["/app"]}));
    assert_eq!(refusals(&text, &["--allow", "not-a-binary=/other"]), ["not-a-binary"]);
    assert_eq!(refusals(&text, &["--allow", "not-a-binary=/app"]), [""; 0]);
    assert_eq!(refusals(&text, &["--allow", "not-a-binary"]), [""; 0]);
}
