//! The main job, from every place to every place, and what it promises on the command line.

mod places;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{fates, old_base, upon};
use crate::support::programs::{Machine, prints};
use crate::support::proxy::on;
use crate::support::recipe::Recipe;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, file, noise, program, symlink, whiteout};

// What a rebase promises: few requests, no surprise, nothing pushed unless all is well.

#[test]
fn a_warm_rebase_needs_few_requests_and_sends_no_layer() {
    let registries = or_skip!(Registries::one(100_000));
    registries.rebase(&registries.target.name("out/first:v1"), "cache").run().ok();
    registries.calm();
    let report = registries.rebase(&registries.target.name("out/second:v1"), "cache").arg("--json").run().ok().json();
    let seen = registries.target.proxy.seen();
    let list: Vec<String> = seen.iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect();
    assert!(seen.len() <= 14, "{} requests:\n{}", seen.len(), list.join("\n"));
    assert_eq!(report["traffic"]["requests"], seen.len(), "the report counts right\n{}", list.join("\n"));
    assert_eq!(report["traffic"]["mounted"], 3);
    let sent: u64 = seen.iter().filter(|seen| seen.target.contains("/blobs/")).map(|seen| seen.up).sum();
    assert!(sent < 64 * 1024, "only the config is sent, not {sent} bytes");
    let layers = |seen: &&crate::support::proxy::Seen| seen.method == "GET" && seen.target.contains("/blobs/sha256:");
    let fetched: u64 = seen.iter().filter(layers).map(|seen| seen.down).sum();
    assert!(fetched < 64 * 1024, "no layer is fetched twice, not {fetched} bytes");
}

#[test]
fn a_cold_rebase_in_one_registry_fetches_every_layer_once() {
    let registries = or_skip!(Registries::one(100_000));
    let trial = registries.trial();
    trial.gives_the_expected_image(trial.run());
    let fetched = |digest: &str| registries.source.proxy.count("GET", &format!("/blobs/{digest}"));
    for layer in registries.new_base.layers().iter().chain(&registries.old_base.layers()) {
        assert_eq!(fetched(layer), 1, "nothing is proven without both roots");
    }
    assert_eq!(fetched(&registries.app_layer()), 1);
    trial.settle();
}

#[test]
fn a_tag_is_resolved_once() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    trial.gives_the_expected_image(trial.run());
    for name in ["in/app", "base/new", "base/old"] {
        assert_eq!(registries.source.proxy.count("*", &format!("/{name}/manifests/v1")), 1, "{name}");
    }
}

#[test]
fn a_second_run_changes_nothing() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let first = trial.invocation().arg("--json").run().ok().json();
    registries.calm();
    let second = trial.invocation().arg("--json").run().ok().json();
    assert_eq!((&first["outcome"], &second["outcome"]), (&json!("rebased"), &json!("unchanged")));
    assert_eq!(first["targets"][0]["digest"], second["targets"][0]["digest"]);
    for method in ["POST", "PUT", "PATCH"] {
        assert_eq!(registries.target.proxy.count(method, ""), 0, "{method}");
    }
    trial.settle();
}

#[test]
fn the_report_tells_what_was_done() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let report = trial.invocation().arg("--json").run().ok().json();
    assert_eq!(report["schema"], "underpin.report/v1");
    assert_eq!(report["source"]["digest"], registries.app.digest());
    assert_eq!(report["base"]["digest"], registries.new_base.digest());
    assert_eq!(report["targets"][0]["digest"], registries.expected());
    let platform = &report["platforms"][0];
    assert_eq!((&platform["platform"], &platform["old_base"]["how"]), (&json!("linux/amd64"), &json!("flag")));
    assert_eq!(platform["old_base"]["layers"], 2);
    let fates = |fate: &str| -> Vec<&str> {
        let layers = platform["layers"].as_array().unwrap().iter();
        layers.filter(|layer| layer["fate"] == fate).map(|layer| layer["digest"].as_str().unwrap()).collect()
    };
    assert_eq!(fates("stripped"), registries.old_base.layers());
    assert_eq!(fates("base"), registries.new_base.layers());
    assert_eq!(fates("kept"), [registries.app_layer()]);
    assert_eq!(platform["entrypoint"], json!({"before": ["/app"], "after": ["/app"]}));
}

#[test]
fn a_plan_writes_nothing_and_says_the_same() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let name = |rest: &str| registries.source.name(rest);
    let args = ["plan", &name("in/app:v1"), "--base", &name("base/new:v1"), "--old-base", &name("base/old:v1")];
    let cache = registries.sandbox.path("cache-plan");
    let plan = || registries.sandbox.underpin(args).arg("--cache").arg(&cache);
    let report = plan().arg("--json").run().ok().json();
    assert_eq!(report["outcome"], "planned");
    assert_eq!(report["platforms"][0]["layers"].as_array().unwrap().len(), 5, "{}", report["platforms"][0]["layers"]);
    assert!(!plan().run().ok().stdout.is_empty(), "the plan is what was asked for");
    let dry = trial.invocation().args(["--dry-run", "--json"]).run().ok().json();
    assert_eq!((&dry["outcome"], &dry["platforms"]), (&report["outcome"], &report["platforms"]));
    assert_eq!(trial.target(), None);
    for method in ["POST", "PUT", "PATCH"] {
        assert_eq!(
            registries.target.proxy.count(method, "") + registries.source.proxy.count(method, ""),
            0,
            "{method}"
        );
    }
}

#[test]
fn the_source_is_never_touched_and_a_target_must_be_named() {
    let registries = or_skip!(Registries::one(1000));
    let trial = registries.trial();
    trial.gives_the_expected_image(trial.run());
    assert_eq!(registries.source.registry.tag("in/app", "v1"), Some(registries.app.digest()));
    let args = ["rebase", &registries.source.name("in/app:v1"), "--base", &registries.source.name("base/new:v1")];
    let run = registries.sandbox.underpin(args).run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(registries.source.registry.tag("in/app", "v1"), Some(registries.app.digest()));
}

#[test]
fn layers_are_passed_on_byte_for_byte_however_they_are_packed() {
    let registries = or_skip!(Registries::two(1000));
    let mut app = fixtures::app("linux/amd64", 1000);
    let more = |pack, name: &str| Layer::of(pack, &[file(name, noise(3, 2000))]);
    app.layers.extend([more(Pack::Plain, "plain"), more(Pack::Zstd, "zstd"), more(Pack::Gzip, "gzip")]);
    // The same content in another packing is another layer.
    app.layers.push(more(Pack::Zstd, "gzip"));
    let image = app.build();
    image.push(registries.source.registry.host(), "in/packs", "v1");
    let name = |rest: &str| registries.source.name(rest);
    let (base, old, to) = (name("base/new:v1"), name("base/old:v1"), registries.target.name("out/packs:v1"));
    let args = ["rebase", &name("in/packs:v1"), "--base", &base, "--old-base", &old, "--to", &to, "--no-cache"];
    registries.sandbox.underpin(args).run().ok();
    let published = registries.published("out/packs", "v1");
    assert_eq!(published.only().layers[2..], image.layers()[2..]);
}

#[test]
fn an_expected_digest_is_compared_before_anything_is_pushed() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let expect = |digest: &str| trial.invocation().args(["--expect-digest", digest]).run();
    let run = expect(&registries.app.digest());
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    assert_eq!(trial.target(), None, "{run}");
    assert_eq!(registries.target.proxy.count("PUT", ""), 0, "{run}");
    run.says(&registries.app.digest()).says(registries.expected());
    trial.gives_the_expected_image(expect(registries.expected()));
    trial.settle();
}

#[test]
fn the_digest_is_written_where_it_was_asked_for() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let file = registries.sandbox.path("digest");
    trial.gives_the_expected_image(trial.invocation().arg("--digest-file").arg(&file).run());
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), registries.expected());
    trial.settle();
}

#[test]
fn a_command_that_needs_a_shell_is_refused_and_nothing_is_pushed() {
    let registries = or_skip!(Registries::two(1000));
    let mut config = fixtures::app_config();
    config["Entrypoint"] = json!(["/bin/sh", "-c", "/app --v=2 | grep -v probe"]);
    let shell = Recipe { config, ..fixtures::app("linux/amd64", 1000) }.build();
    shell.push(registries.source.registry.host(), "in/shell", "v1");
    let name = |rest: &str| registries.source.name(rest);
    let to = registries.target.name("out/shell:v1");
    let bases = [name("base/new:v1"), name("base/old:v1")];
    let args =
        ["rebase", &name("in/shell:v1"), "--base", &bases[0], "--old-base", &bases[1], "--to", &to, "--no-cache"];
    registries.sandbox.underpin(args).run().refused();
    let report = registries.sandbox.underpin(args).arg("--json").run().refused().json();
    assert_eq!(report["outcome"], "refused");
    let findings = report["platforms"][0]["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|finding| finding["rule"] == "needs-shell" && finding["level"] == "refuse"),
        "{report}"
    );
    assert_eq!(registries.target.registry.tag("out/shell", "v1"), None);
    assert_eq!(registries.target.proxy.count("POST", "") + registries.target.proxy.count("PUT", ""), 0);
}

/// Without a cache, a layer that is written anew is read twice: once for its index, once for its files.
#[test]
fn a_refused_image_and_one_that_is_only_checked_are_not_assembled() {
    let registries = or_skip!(Registries::two(1000));
    let mut config = fixtures::app_config();
    config["Entrypoint"] = json!(["/bin/sh", "-c", "/app --v=2 | grep -v probe"]);
    let entries = [program("app", prints(Machine::Amd64, "hello\n")), whiteout("usr/share/notes")];
    let image = upon(&fixtures::old_base("linux/amd64"), [Layer::of(Pack::Gzip, &entries)], config).build();
    image.push(registries.source.registry.host(), "in/filtered", "v1");
    let own = image.layers().last().unwrap().clone();
    let name = |rest: &str| registries.source.name(rest);
    let (source, base, old) = (name("in/filtered:v1"), name("base/new:v1"), name("base/old:v1"));
    let reads = |args: &[&str]| {
        registries.calm();
        let run = registries.sandbox.underpin(args).args(["--old-base", &old, "--no-cache", "--json"]).run();
        (run.json(), registries.source.proxy.count("GET", &format!("/blobs/{own}")))
    };
    let plan = ["plan", &source, "--base", &base];

    let (report, read) = reads(&plan);
    assert_eq!((&report["outcome"], &report["digest"], read), (&json!("refused"), &Value::Null, 1), "{report}");
    assert_eq!(fates(&report), ["filtered"], "what would become of it is said all the same");
    assert_eq!(report["platforms"][0]["size"]["after"], 0);
    let (report, read) = reads(&["check", &source, "--allow-base", &base]);
    assert_eq!((&report["images"][0]["plan"]["digest"], read), (&Value::Null, 1), "{report}");

    let (report, read) = reads(&[&plan[..], &["--allow", "needs-shell"]].concat());
    assert_eq!((&report["outcome"], read), (&json!("planned"), 2), "{report}");
    assert!(report["digest"].is_string());
}

#[test]
fn a_value_that_cannot_be_read_is_an_error_like_any_other() {
    let sandbox = crate::support::invocation::Sandbox::new();
    for (flag, value) in [
        ("--base", "NOT A NAME"),
        ("--old-base", "layers:x"),
        ("--platform", "linux"),
        ("--keep", "../x"),
        ("--entrypoint", "/app"),
        ("--allow", "no-such-rule"),
        ("--expect-digest", "sha256:1"),
    ] {
        let args = ["rebase", "oci:nowhere:app", "--to", "oci:out:app", flag, value];
        let error = sandbox.underpin(args).arg("--json").run();
        assert_eq!(error.code(), Some(2), "{error}");
        let json = error.json();
        assert_eq!(json["schema"], "underpin.error/v1", "{flag}");
        assert!(json["facts"]["option"].as_str().unwrap().starts_with(flag), "{json}");
        sandbox.underpin(args).run().says(value);
    }
}

#[test]
fn an_error_is_json_where_json_was_asked_for() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    let missing = on("GET", "/in/app/manifests/").always().does(crate::support::proxy::Action::status(404));
    registries.source.proxy.script([missing]);
    let run = trial.invocation().arg("--json").run();
    assert_eq!(run.code(), Some(2), "{run}");
    let error = run.json();
    assert_eq!(error["schema"], "underpin.error/v1");
    assert_eq!((&error["kind"], &error["class"]), (&json!("not-found"), &json!(3)));
    assert!(error["message"].is_string() && error["facts"].is_object() && error["hints"].is_array(), "{error}");
    trial.settle();
}

// When the old base's layers are looked into: only for an answer that nothing else has.

/// How often the layers of old base, new base and application were fetched.
fn fetched(registries: &Registries, digests: &[String]) -> Vec<usize> {
    digests.iter().map(|digest| registries.source.proxy.count("GET", &format!("/blobs/{digest}"))).collect()
}

#[test]
fn layers_of_both_bases_are_fetched_once_whatever_the_image_asks() {
    let registries = or_skip!(Registries::one(1000));
    let old = old_base(&[
        file("etc/passwd", "root:x:0:0::/:\napp:x:1000:1000::/:\n"),
        file("etc/group", "root:x:0:\napp:x:1000:\n"),
    ]);
    let old_image = old.build();
    old_image.push(registries.source.registry.host(), "base/app", "v1");
    let hello = || program("app", prints(Machine::Amd64, "hello\n"));
    let own = |members: Value, more| (members, Layer::of(Pack::Gzip, &[vec![hello()], more].concat()));
    let cases = [
        ("number", own(json!({"User": "1000:1000"}), vec![]), &["kept", "added"][..]),
        ("root", own(json!({"User": "root"}), vec![]), &["kept"]),
        ("name", own(json!({"User": "app"}), vec![]), &["kept", "added"]),
        ("folder", own(json!({"WorkingDir": "/srv/app"}), vec![]), &["kept", "added"]),
        ("own-file", own(json!({}), vec![file("opt/app/x", "")]), &["kept"]),
        ("base-file", own(json!({}), vec![file("etc/app.conf", "")]), &["kept"]),
        ("link", own(json!({}), vec![symlink("opt/notes", "/usr/share/notes")]), &["kept"]),
        ("whiteout", own(json!({}), vec![whiteout("usr/share/notes")]), &["filtered"]),
    ];
    for (name, (members, layer), expected) in cases {
        let mut config = fixtures::app_config();
        for (key, value) in members.as_object().unwrap() {
            config[key.as_str()] = value.clone();
        }
        let own = layer.digest();
        upon(&old, [layer], config).build().push(registries.source.registry.host(), &format!("in/{name}"), "v1");
        registries.calm();
        let at = |rest: &str| registries.source.name(rest);
        let (source, base, old) = (at(&format!("in/{name}:v1")), at("base/new:v1"), at("base/app:v1"));
        let to = registries.target.name(&format!("out/{name}:v1"));
        let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--json", "--cache"];
        let report = registries.sandbox.underpin(args).arg(registries.sandbox.path(name)).hurried().run().ok().json();
        assert_eq!(fates(&report), expected, "{name}");
        assert_eq!(fetched(&registries, &registries.new_base.layers()), [1; 2], "{name}: new base");
        assert_eq!(fetched(&registries, &old_image.layers()), [1; 3], "{name}: old base");
        assert_eq!(fetched(&registries, &[own]), [1], "{name}: the application");
        registries.published(&format!("out/{name}"), "v1");
    }
}
