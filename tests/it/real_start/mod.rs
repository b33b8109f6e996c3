//! Starting it for real: what `underpin start` and `--start` say of programs that run, and of those that do not.

mod hostile;
mod leftovers;
pub mod only_a_run;
mod places;
pub mod rootless;
mod runtimes;
mod system_calls;
mod temporary;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{Machine, c, prints};
use crate::support::recipe::{Content, Dialect, Recipe, index};
use crate::support::skip::{need, or_skip};
use crate::support::starting::Bundle;
use crate::support::tar_layer::{CAPABILITY, Entry, Layer, Pack, file, folder, hardlink, program, symlink, whiteout};

const ACTOR: &str = include_str!("actor.c");

/// The program, compiled once for each test.
fn actor() -> Vec<u8> {
    c("cc", &["-static", "-O1", "-w"], ACTOR)
}

/// An image of the program that starts with these words, on an old base with a tool of its own.
pub fn acting(words: &[&str]) -> Recipe {
    let actor = actor();
    let old = old_base(&[folder("usr/bin/"), program("usr/bin/tool", prints(Machine::Amd64, "tool\n"))]);
    let own = [program("app", actor), program("own-tool", prints(Machine::Amd64, "own\n"))];
    let command: Vec<&str> = ["/app"].into_iter().chain(words.iter().copied()).collect();
    upon(&old, [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": command}))
}

pub fn layouts(app: &Recipe) -> Layouts {
    let old = old_base(&[folder("usr/bin/"), program("usr/bin/tool", prints(Machine::Amd64, "tool\n"))]);
    Layouts::on(&old, app)
}

fn started(words: &[&str]) -> Run {
    let layouts = layouts(&acting(words));
    let run = start_in(&layouts).run();
    assert_nothing_is_left(&layouts);
    run
}

fn start_in(layouts: &Layouts) -> Invocation {
    layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json"])
}

/// Nothing but the lock that all runs share.
fn assert_nothing_is_left(layouts: &Layouts) {
    let strays = crate::support::invocation::files_under(&layouts.sandbox.path("tmp"));
    let names: Vec<_> = strays.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert!(names.iter().all(|name| *name == "lock") && names.len() <= 1, "{strays:?}");
}

fn start_of(report: &Value) -> &Value {
    &report["platforms"][0]["started"]
}

#[test]
fn a_program_that_keeps_running_is_started() {
    or_skip!(need(&["runc", "cc"]));
    let report = started(&["stay"]).ok().json();
    let start = start_of(&report);
    assert_eq!((&report["outcome"], &start["outcome"]), (&json!("started"), &json!("running")), "{report:#}");
    assert_eq!(start["stdout"], json!(["running"]));
}

#[test]
fn a_program_that_fails_is_refused_with_what_it_said() {
    or_skip!(need(&["runc", "cc"]));
    let report = started(&["say", "no configuration", "5"]).refused().json();
    let start = start_of(&report);
    assert_eq!((&start["outcome"], &start["status"]), (&json!("exited"), &json!(5)), "{report:#}");
    assert_eq!(start["stderr"], json!(["no configuration"]));
    assert_eq!(findings(&report["platforms"][0]), ["refuse start-failed"]);
    started(&["end", "0"]).ok();
}

#[test]
fn what_the_kernel_does_not_execute_is_named() {
    or_skip!(need(&["runc", "cc"]));
    for (name, content, words) in [
        ("none", None, "no such file"),
        ("garbage", Some(b"garbage".to_vec()), "exec format error"),
        ("script", Some(b"#!/no/such/shell\n".to_vec()), "no such file"),
    ] {
        let mut app = acting(&[]);
        app.layers.extend(content.map(|content| Layer::of(Pack::Gzip, &[program(name, content)])));
        app.config = json!({"Entrypoint": [format!("/{name}")]});
        let report = start_in(&layouts(&app)).run().refused().json();
        let start = start_of(&report);
        assert_eq!(start["outcome"], "not-executed", "{name}: {report:#}");
        let reason = start["reason"].as_str().unwrap();
        assert!(reason.contains(name) && reason.contains(words), "{name}: {reason}");
    }
}

#[test]
fn ports_health_and_user_are_those_of_the_image() {
    or_skip!(need(&["runc", "cc"]));
    let mut app = acting(&["serve"]);
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "end", "0"]});
    let report = start_in(&layouts(&app)).run().ok().json();
    let start = start_of(&report);
    assert_eq!((&start["ports"], &start["health"]["status"]), (&json!([8080]), &json!(0)), "{report:#}");
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "end", "6"]});
    let report = start_in(&layouts(&app)).run().refused().json();
    assert_eq!(start_of(&report)["health"]["status"], 6, "{report:#}");
    let mut app = acting(&["who"]);
    app.config["User"] = "1234:77".into();
    let report = start_in(&layouts(&app)).arg("--start-env").arg("GIVEN=/given").run().ok().json();
    assert_eq!(start_of(&report)["stdout"], json!(["1234 77 /given"]), "{report:#}");
}

/// Each with its twin, which must pass: what no file of the image shows, and a start does.
#[test]
fn what_only_a_run_can_decide_is_refused() {
    or_skip!(need(&["runc", "cc"]));
    for (words, arguments, rule) in [
        // A program that runs what its argument names.
        (&["run"], ["/usr/bin/tool"].as_slice(), Some("start-failed")),
        (&["run"], &["/own-tool"], None),
        // One that opens what its argument names.
        (&["need"], &["/usr/share/notes"], Some("start-failed")),
        (&["need"], &["/own-tool"], None),
        (&["open"], &["/usr/share/notes"], Some("opened-but-missing")),
        (&["open"], &["/own-tool"], None),
        // One whose strings say nothing, as those of a packed program.
        (&["run-hidden"], &[], Some("start-failed")),
        (&["open-hidden"], &[], Some("opened-but-missing")),
        (&["serve-if-hidden"], &[], Some("start-differs")),
        (&["serve"], &[], None),
    ] {
        let layouts = layouts(&acting(words));
        let rebase = arguments.iter().fold(layouts.rebase("out").args(["--start=1", "--json"]), |rebase, argument| {
            rebase.args(["--start-arg", argument])
        });
        let run = rebase.run();
        let refused = run.code() == Some(1);
        let report = run.json();
        let found = findings(&report["platforms"][0]);
        assert_eq!(refused, rule.is_some(), "{words:?} {arguments:?}: {report:#}");
        let named = rule.map(|rule| format!("refuse {rule}"));
        assert!(named.is_none_or(|named| found.contains(&named)), "{words:?} {arguments:?}: {found:?}");
        assert_eq!(layouts.layout("out").exists(), !refused, "{words:?}: what is refused is not published");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn what_is_missing_can_be_brought_or_allowed_and_the_digest_says_nothing_of_a_start() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["open-hidden"]));
    let run = layouts.rebase("out").args(["--start=1", "--json"]).run().refused();
    let report = run.json();
    let mut all = report["platforms"][0]["findings"].as_array().unwrap().iter();
    let finding = all.find(|finding| finding["rule"] == "opened-but-missing").unwrap();
    assert!(finding["fix"].as_str().unwrap().starts_with("pass --bring /usr/share/notes"), "{finding:#}");
    layouts.rebase("brought").args(["--start=1", "--bring", "/usr/share/notes"]).run().ok();
    let allow = ["--start=1", "--allow", "opened-but-missing=/usr/share/notes"];
    let allowed = layouts.rebase("allowed").args(allow).run().ok();
    assert_eq!(allowed.digest(), layouts.rebase("plain").run().ok().digest());
    layouts.verify("oci:allowed:v1").run().ok();
    let needless = layouts.rebase("twice").args(allow).args(["--bring", "/usr/share/notes", "--json"]).run().ok();
    assert!(findings(&needless.json()["platforms"][0]).contains(&"warn allow-unneeded".to_owned()), "{needless}");
}

#[test]
fn a_source_that_fails_by_itself_proves_nothing() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["say", "no configuration", "5"]));
    let report = layouts.rebase("out").args(["--start=1", "--json"]).run().ok().json();
    assert!(findings(&report["platforms"][0]).contains(&"warn start-unproven".to_owned()), "{report:#}");
    let started = &report["platforms"][0]["started"];
    assert_eq!((&started["source"]["status"], &started["result"]["status"]), (&json!(5), &json!(5)));
}

#[test]
fn plan_check_and_batch_start_where_they_are_asked_to() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["run-hidden"]));
    layouts.plan().run().ok();
    let report = layouts.plan().args(["--start=1", "--json"]).run().refused().json();
    assert!(findings(&report["platforms"][0]).contains(&"refuse start-failed".to_owned()), "{report:#}");
    let file = "defaults: {base: 'oci:new:v1', old_base: 'oci:old:v1'}\nimages:\n- {source: 'oci:app:v1', target: 'oci:out:v1', start: 1}\n";
    std::fs::write(layouts.layout("batch.yaml"), file).unwrap();
    let batch = layouts.underpin(&["batch", "batch.yaml", "--no-cache", "--json"]).run().refused().json();
    assert!(batch.to_string().contains("start-failed"), "{batch:#}");
    let check =
        layouts.underpin(&["check", "--batch", "batch.yaml", "--allow-base", "oci:new:v1", "--no-cache", "--json"]);
    let check = check.run().refused().json();
    assert!(check.to_string().contains("start-failed"), "{check:#}");
    let reports = ["--start=1", "--report", "html=r.html", "--report", "junit=r.xml", "--report", "sarif=r.sarif"];
    let html = layouts.plan().args(reports).run().refused();
    let sarif: Value = serde_json::from_slice(&std::fs::read(layouts.layout("r.sarif")).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let failed = results.iter().find(|result| result["ruleId"] == "start-failed").unwrap();
    assert_eq!(failed["level"], "error", "{failed:#}");
    for name in ["r.html", "r.xml"] {
        let text = std::fs::read_to_string(layouts.layout(name)).unwrap();
        assert!(text.contains("start: source ended with status 0"), "{name}: {html}");
    }
}

#[test]
fn arguments_for_a_start_need_one() {
    let layouts = layouts_of_prints();
    for flags in
        [["--start-arg", "x"], ["--start-env", "A=1"], ["--start-mount", "/etc:/x"], ["--runtime", "/bin/true"]]
    {
        layouts.rebase("out").args(flags).run().fails("usage").says("pass --start");
    }
    for flags in [["--start=0", "-q"], ["--start=601", "-q"], ["--start=1", "--runtime=/no/such/runtime"]] {
        layouts.rebase("out").args(flags).run().fails("usage");
    }
}

fn layouts_of_prints() -> Layouts {
    let (app, new) = (fixtures::app("linux/amd64", 10), fixtures::new_base("linux/amd64"));
    Layouts::new(&app.build(), &fixtures::old_base("linux/amd64").build(), &new.build())
}

#[test]
fn a_path_of_the_host_is_seen_where_it_was_named_and_cannot_be_written() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["need", "/given/file"]));
    let given = layouts.sandbox.path("given");
    std::fs::create_dir(&given).unwrap();
    std::fs::write(given.join("file"), "x").unwrap();
    start_in(&layouts).run().refused();
    start_in(&layouts).arg("--start-mount").arg(format!("{}:/given", given.display())).run().ok();
    let missing = ["start", "oci:app:v1", "--no-cache", "--start-mount", "/no/such/path:/given"];
    layouts.underpin(&missing).run().fails("local-io").says("/no/such/path");
}

/// Ownership, modes, capabilities, links and whiteouts are those that another tool unpacks.
#[test]
fn the_root_is_the_one_that_umoci_unpacks() {
    or_skip!(need(&["runc", "umoci", "busybox"]));
    let first: Vec<Entry> = vec![
        folder("d/"),
        file("d/gone", "x"),
        file("d/kept", "kept").owned(7, 8).mode(0o6750).at(1_000_000),
        hardlink("d/second", "d/kept"),
        folder("opaque/"),
        file("opaque/gone", "x"),
        symlink("link", "d"),
        program("capable", prints(Machine::Amd64, "x")).xattr("security.capability", &CAPABILITY),
        folder("closed/").mode(0o500).owned(9, 9),
        file("closed/inside", ""),
    ];
    let second =
        [whiteout("d/gone"), file("opaque/.wh..wh..opq", ""), file("opaque/new", "n"), file("link/through", "t")];
    let busybox = std::fs::read(crate::support::skip::find("busybox").unwrap()).unwrap();
    let mut layers = vec![Layer::of(Pack::Gzip, &first), Layer::of(Pack::Gzip, &second)];
    layers.push(Layer::of(Pack::Gzip, &[program("busybox", busybox)]));
    let list = "cd /; for f in $(/busybox find d opaque link capable closed | /busybox sort); do \
        echo $(/busybox stat -c '%n %a %u %g %F %h %Y' $f) $(/busybox readlink $f) $(/busybox md5sum $f 2>&1); done";
    let config = json!({"Entrypoint": ["/busybox", "sh", "-c", list]});
    let app = Recipe { config, ..Recipe::new("linux/amd64", layers) }.build();
    let layouts = Layouts::new(&app, &app, &app);
    let ours = start_in(&layouts).run().ok().json();
    let bundle = Bundle::unpack(&layouts.layout("app"), &layouts.bundle("app")).unwrap();
    let theirs = bundle.start(&bundle.command()).stdout;
    let ours = start_of(&ours)["stdout"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    assert_eq!(ours.collect::<Vec<_>>(), theirs.lines().collect::<Vec<_>>());
    assert!(theirs.lines().count() >= 10, "{theirs}");
}

#[test]
fn programs_of_other_machines_need_an_emulator_or_are_not_started() {
    or_skip!(need(&["runc", "qemu-aarch64-static"]));
    let on = |platform: &str| fixtures::app(platform, 10).build();
    let (amd64, arm64) = (on("linux/amd64"), on("linux/arm64"));
    let app: Content = index(Dialect::Oci, &[("linux/amd64", amd64), ("linux/arm64", arm64)]);
    let layouts = Layouts::new(&app, &app, &app);
    let report = start_in(&layouts).run().ok().json();
    let emulated = &report["platforms"][1]["started"];
    assert_eq!(emulated["stdout"], json!([fixtures::LINE.trim()]), "{report:#}");
    assert!(emulated["emulator"].as_str().unwrap().ends_with("qemu-aarch64-static"));
    let runc = crate::support::skip::find("runc").unwrap();
    let without = |layouts: &Layouts| start_in(layouts).env("PATH", "/nowhere").arg("--runtime").arg(&runc);
    let report = without(&layouts).run().ok().json();
    let foreign = &report["platforms"][1];
    assert_eq!(
        (&foreign["started"]["outcome"], findings(foreign)),
        (&json!("not-started"), vec!["warn start-unproven".to_owned()])
    );
    without(&layouts).arg("--require-all-platforms").run().refused();
}
