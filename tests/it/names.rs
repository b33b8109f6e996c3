//! One registry, repository or file in many spellings is one; and a password in a name is never repeated.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

const SECRET: &str = "CANARY-pa55word";

/// The same registry, written otherwise. It is at `127.0.0.1:PORT`.
fn spellings(host: &str) -> Vec<String> {
    let port = host.strip_prefix("127.0.0.1:").unwrap();
    vec![
        format!("127.0.0.1:0{port}"),
        format!("127.0.0.1:0000{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::FFFF:7f00:1]:0{port}"),
    ]
}

#[test]
fn signed_by_holds_however_the_registry_is_written() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.source.proxy.host();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/attest/cosign.pub");
    let policy = registries.sandbox.path("policy.yaml");
    let plan = |base_host: &str| {
        let words = ["plan", &registries.source.name("in/app:v1"), "--base", &format!("{base_host}/base/new:v1")];
        registries.sandbox.underpin(words).arg("--policy").arg(&policy).run()
    };
    let all: Vec<String> = std::iter::once(host.clone()).chain(spellings(&host)).collect();
    for pattern in &all {
        std::fs::write(&policy, format!("signed_by:\n- images: ['{pattern}/base/*']\n  keys: ['{key}']\n")).unwrap();
        for base in &all {
            let run = plan(base).refused();
            assert!(run.stdout.contains("signature-missing"), "{pattern} {base}\n{run}");
        }
    }
    let other = host.replace("127.0.0.1", "localhost");
    std::fs::write(&policy, format!("signed_by:\n- images: ['{other}/base/*']\n  keys: ['{key}']\n")).unwrap();
    for base in &all {
        plan(base).ok();
    }
    std::fs::write(&policy, format!("signed_by:\n- images: ['127.1/base/*']\n  keys: ['{key}']\n")).unwrap();
    plan(&host).fails("usage").says("four decimal numbers");
}

#[test]
fn signed_by_holds_however_a_path_is_written() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    std::fs::create_dir_all(here.join("deep")).unwrap();
    fixtures::old_base("linux/amd64").build().layout(&here.join("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&here.join("bases"), "v1");
    fixtures::app("linux/amd64", 10).build().layout(&here.join("app"), "v1");
    symlink("bases", here.join("link")).unwrap();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/attest/cosign.pub");
    let plan = |pattern: &str, base: &str| {
        let policy = format!("signed_by:\n- images: ['{pattern}']\n  keys: ['{key}']\n");
        std::fs::write(here.join("policy.yaml"), policy).unwrap();
        let words = ["plan", "oci:app:v1", "--old-base", "oci:old:v1", "--base", base, "--policy", "policy.yaml"];
        sandbox.underpin(words).arg("--no-cache").run()
    };
    let absolute = format!("oci:{}/bases:v1", here.display());
    for pattern in ["oci:bases*", "oci:./bases:*", "oci:link:v1", "oci:deep/../bases:v?", &absolute] {
        for base in ["oci:bases:v1", "oci:./bases/:v1", "oci:deep/../bases:v1", "oci:link:v1", &absolute] {
            let run = plan(pattern, base).refused();
            assert!(run.stdout.contains("signature-missing"), "{pattern} {base}\n{run}");
        }
    }
    plan("oci:base", "oci:bases:v1").ok();
}

#[test]
fn the_result_is_the_same_however_its_inputs_are_written() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.source.proxy.host();
    for (at, spelled) in spellings(&host).iter().enumerate() {
        let name = |rest: &str| format!("{spelled}/{rest}");
        let words = ["rebase", &name("in/app:v1"), "--base", &name("base/new:v1"), "--old-base", &name("base/old:v1")];
        let run = registries.sandbox.underpin(words).args(["--to", &name(&format!("out/app{at}:v1"))]).run().ok();
        assert_eq!(run.digest(), registries.expected(), "{run}");
        assert!(run.pinned()[0].starts_with(&format!("{host}/out/app{at}@")), "{run}");
    }
    let error = registries.sandbox.underpin(["inspect", "127.1:5000/in/app:v1"]).run().fails("input");
    error.says("an IPv4 address is four decimal numbers");
}

#[test]
fn two_images_with_one_target_in_two_spellings_are_refused() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    std::fs::create_dir_all(here.join("deep")).unwrap();
    symlink("out", here.join("link")).unwrap();
    fixtures::old_base("linux/amd64").build().layout(&here.join("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&here.join("new"), "v1");
    fixtures::app("linux/amd64", 10).build().layout(&here.join("app"), "v1");
    let file = |one: &str, other: &str| {
        let images = [one, other].map(|target| format!("- {{source: 'oci:app:v1', target: '{target}'}}\n")).concat();
        format!("defaults: {{base: 'oci:new:v1', old_base: 'oci:old:v1'}}\nimages:\n{images}")
    };
    let batch = |one: &str, other: &str| {
        std::fs::write(here.join("batch.yaml"), file(one, other)).unwrap();
        sandbox.underpin(["batch", "batch.yaml", "--no-cache"]).current_dir(&here).run()
    };
    let absolute = format!("oci:{}/out:t", here.display());
    for (one, other) in [
        ("oci:out:t", "oci:./out:t"),
        ("oci:out:t", "oci:out/:t"),
        ("oci:out:t", "oci:deep/../out:t"),
        ("oci:out:t", "oci:not-there/../out:t"),
        ("oci:out:t", "oci:link:t"),
        ("oci:link:t", "oci:deep/..//./out:t"),
        ("oci:out:t", &absolute),
        ("oci-archive:out.tar:t", "oci-archive:./out.tar:t"),
        ("docker-archive:out.tar:t", "docker-archive:deep/../out.tar:underpin:t"),
        ("docker-archive:out.tar:a.example/b:t", "docker-archive:out.tar:A.example:443/b:t"),
        ("r.example/out:t", "R.Example:0443/out:t"),
        ("r.example/out", "docker://r.example/out:latest"),
        ("out:t", "index.docker.io/library/out:t"),
    ] {
        let run = batch(one, other).fails("usage").says("two images have the same target");
        assert!(!here.join("out").exists() && !here.join("out.tar").exists(), "{one} {other}\n{run}");
    }
    batch("oci:out:t", "oci:./out:u").ok();
}

#[test]
fn a_target_that_is_given_twice_is_written_once() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    fixtures::old_base("linux/amd64").build().layout(&here.join("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&here.join("new"), "v1");
    fixtures::app("linux/amd64", 10).build().layout(&here.join("app"), "v1");
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache"];
    let targets = ["--to", "oci-archive:out.tar:t", "--to", "oci-archive:./out.tar:t"];
    let run = sandbox.underpin(words).args(targets).current_dir(&here).run().ok();
    assert_eq!(run.pinned().len(), 1, "{run}");
}

/// No part of the secret, on either stream.
fn is_silent(run: &Run) {
    assert!(!run.stdout.contains("CANARY") && !run.stderr.contains("CANARY"), "a password was repeated\n{run}");
}

#[test]
fn a_password_in_a_name_on_the_command_line_is_not_repeated() {
    let sandbox = Sandbox::new();
    let long = "CANARY".repeat(100);
    for name in [
        format!("user:{SECRET}@r.invalid/app:v1"),
        format!("user:{SECRET}@r.invalid"),
        format!("user:{SECRET}@r.invalid:5000/app"),
        format!("https://user:{SECRET}@r.invalid/app"),
        format!("docker://user:{SECRET}@r.invalid/app"),
        format!("https://{SECRET}@r.invalid/app"),
        format!("user:CANARY/a@b#{SECRET}@r.invalid/app"),
        format!("user:a@{SECRET}@r.invalid/app"),
        format!("user:{long}@r.invalid/app"),
        format!("dir:user:{SECRET}@r.invalid/app"),
        format!("docker-tarfile:user:{SECRET}@r.invalid/app"),
    ] {
        for words in [
            &["rebase", &name, "--to", "oci:out"][..],
            &["rebase", "oci:app", "--to", &name],
            &["plan", "oci:app", "--base", &name],
            &["plan", "oci:app", "--old-base", &name],
            &["plan", "oci:app", "--known-base", &name],
            &["plan", "oci:app", "--base-candidate", &name, "--base", "auto"],
            &["plan", "oci:app", "--source-name", &name],
            &["plan", "oci:app", "--base-name", &name],
            &["plan", "oci:app", "--log-runner", &name],
            &["plan", "oci:app", "--insecure", &name],
            &["plan", "oci:app", &format!("--no-such-flag={name}")],
            &["plan", "oci:app", &name],
            &["inspect", &name],
            &["check", &name],
            &["verify", &name],
            &["start", &name],
            &["outdated", &name],
            &["requires", &name],
            &["impact", &name, "oci:app"],
            &["kube", "-", "--image", &format!("app={name}")],
            &["cache", "gc", "--protect", &name],
            &["batch", &name],
        ] {
            let run = sandbox.underpin(words).run();
            assert_eq!(run.code(), Some(2), "{run}");
            is_silent(&run);
            is_silent(&sandbox.underpin(words).arg("--json").run());
        }
    }
}

#[test]
fn a_password_in_a_file_or_a_proxy_is_not_repeated() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    let name = format!("user:{SECRET}@r.invalid/app:v1");
    let write = |file: &str, text: &str| std::fs::write(here.join(file), text).unwrap();
    let run = |words: &[&str]| sandbox.underpin(words).current_dir(&here).run();
    for (key, value) in [("source", &*name), ("target", &name), ("base", &name), ("old_base", &name), (&name, "x")] {
        let source = if key == "source" { "" } else { "source: 'oci:app', " };
        write("batch.yaml", &format!("images:\n- {{{source}'{key}': '{value}'}}\n"));
        let run = run(&["batch", "batch.yaml"]);
        assert_eq!(run.code(), Some(2), "{key}\n{run}");
        is_silent(&run);
    }
    for policy in [
        format!("allow_bases: ['{name}']\n"),
        format!("exception_bases: ['{name}']\n"),
        format!("base_candidates: ['{name}']\n"),
        format!("signed_by:\n- images: ['{name}']\n  keys: [k]\n"),
        format!("exceptions: 'https://{name}'\n"),
        format!("'{name}': x\n"),
    ] {
        write("policy.yaml", &policy);
        let run = run(&["check", "oci:app", "--policy", "policy.yaml"]);
        assert_eq!(run.code(), Some(2), "{policy}\n{run}");
        is_silent(&run);
    }
    let digest = format!("sha256:{}", "0".repeat(64));
    let locked = json!({"version": 1, "images": [{"source": name, "targets": [name], "recipe": {}, "pins":
        {"source": name, "base": digest, "old_base": {"linux/amd64": name}}, "result": digest, "before": 1, "after": 1}]});
    write("batch.yaml", "images:\n- {source: 'oci:app', target: 'oci:out'}\n");
    write("underpin.lock", &locked.to_string());
    is_silent(&run(&["batch", "batch.yaml", "--locked"]));
    write("list.md", &format!("| Component | Base | Reason |\n| --- | --- | --- |\n| {name} | {name} | x |\n"));
    is_silent(&run(&["exceptions", "list.md", "--remove", &name]));
    write("protect", &format!("{name}\n"));
    is_silent(&run(&["cache", "gc", "--protect-file", "protect"]));
    let pod =
        format!("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {{name: a, image: '{name}', command: 7}}\n");
    write("pod.yaml", &pod);
    is_silent(&run(&["kube", "--check", "pod.yaml"]));
    let proxy = format!("http://user:{SECRET}@127.0.0.1:1");
    let asked = sandbox.underpin(["inspect", "r.invalid/app:v1", "-v"]).env("HTTPS_PROXY", &proxy).hurried().run();
    is_silent(&asked.fails("network"));
}
