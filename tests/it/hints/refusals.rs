//! What findings tell to do: each refusal is made, and what its `fix` says is done.

use serde_json::{Value, json};

use super::{advice, again, computed_advice};
use crate::support::debian::by_hand;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, old_base, upon};
use crate::support::programs::{Machine, c, prints};
use crate::support::recipe::{Dialect, Recipe};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, symlink};

const AMD64: &str = "linux/amd64";

pub fn hello() -> Entry {
    program("app", prints(Machine::Amd64, fixtures::LINE))
}

/// The application with these files and members of its config, on an old base with those.
pub fn image(old_files: &[Entry], files: &[Entry], members: &Value) -> Layouts {
    let old = old_base(old_files);
    on(&old, files, members)
}

pub fn on(old: &Recipe, files: &[Entry], members: &Value) -> Layouts {
    let mut config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]});
    config.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let files: Vec<Entry> = [hello()].into_iter().chain(files.iter().cloned()).collect();
    Layouts::on(old, &upon(old, [Layer::of(Pack::Gzip, &files)], config))
}

/// Moves it with these flags.
pub fn moving<'a>(layouts: &'a Layouts, flags: &'a [&'a str]) -> impl Fn() -> Invocation + 'a {
    move || layouts.rebase("out").args(flags)
}

/// It moves, and the rule has nothing to say any more.
pub fn is_quiet(run: &Run, rule: &str) {
    assert!(!run.stderr.contains(&format!("[{rule}]")), "{run}");
}

#[test]
fn of_a_command_that_needs_its_shell() {
    let layouts = image(&[], &[], &json!({"Entrypoint": ["/bin/sh", "-c", "exec /app | cat"]}));
    let run = moving(&layouts, &[])().run().refused().says("needs-shell");
    assert!(
        run.stderr.contains("exec /app | cat\n") && !run.stderr.contains("\\n"),
        "the mark has a line of its own\n{run}"
    );
    let written = "{}; or override the command, such as --entrypoint '[\"/app\", \"--flag\"]'";
    let flags = advice(&run, written).flags("--entrypoint '[\"/app\", \"--flag\"]'", &[]);
    again(moving(&layouts, &[]), &flags).ok();
    let explained = advice(&run, "`underpin explain {rule}` says more").command(&[]);
    assert!(layouts.sandbox.underpin(explained).run().ok().stdout.contains("needs-shell"));
    advice(&run, "fix each `refuse` above, then run again").by_hand("fix each `refuse` above");
}

#[test]
fn of_a_health_check_without_its_program_or_its_shell() {
    let curl = [program("usr/bin/curl", prints(Machine::Amd64, "ok\n"))];
    for test in [json!(["CMD", "/usr/bin/curl", "-f"]), json!(["CMD-SHELL", "curl -f x || exit 1"])] {
        let layouts = image(&curl, &[], &json!({"Healthcheck": {"Test": test}}));
        let run = moving(&layouts, &[])().run().refused().says("healthcheck-shell");
        let written = "write HEALTHCHECK in exec form with a program of the image, or pass it as --healthcheck '[\"/app\", \"health\"]', or drop it with --healthcheck none";
        for flags in ["--healthcheck '[\"/app\", \"health\"]'", "--healthcheck none"] {
            let run = again(moving(&layouts, &[]), &advice(&run, written).flags(flags, &[])).ok();
            is_quiet(&run, "healthcheck-shell");
        }
    }
}

#[test]
fn of_a_user_that_is_missing_changes_or_is_named() {
    let layouts = image(&[], &[], &json!({"User": "nobody"}));
    let run = moving(&layouts, &[])().run().refused().says("user-missing");
    let missing = "set USER to a number, or pass --user 65532:65532 (Kubernetes' runAsNonRoot requires a number)";
    let run = again(moving(&layouts, &[]), &advice(&run, missing).flags("--user 65532:65532", &[])).ok();
    is_quiet(&run, "user-by-name");

    let layouts = image(&[], &[], &json!({"User": "nonroot"}));
    let run = moving(&layouts, &[])().run().ok().says("user-by-name");
    let by_name = "set USER to a number where the image is built, or pass --user {number}";
    let run = again(moving(&layouts, &[]), &advice(&run, by_name).flag("--user")).ok();
    is_quiet(&run, "user-by-name");

    let layouts = image(&[], &[], &json!({"User": "65532"}));
    let run = moving(&layouts, &[])().run().ok().says("user-changed");
    let changed = advice(&run, "set USER in the image itself, or pass --user {}:{}").flag("--user");
    is_quiet(&again(moving(&layouts, &[]), &changed).ok(), "user-changed");

    let named = [file("etc/passwd", "root:x:0:0::/:\nnonroot:x:1000:1000::/:\n")];
    let layouts = image(&named, &[], &json!({"User": "nonroot"}));
    let run = moving(&layouts, &[])().run().ok().says("account-number");
    advice(&run, "files owned by the old number no longer belong to the user: set USER to a number")
        .by_hand("set USER to a number");
    is_quiet(&moving(&layouts, &["--user", "1000:1000"])().run().ok(), "account-number");
}

#[test]
fn of_a_working_directory_that_cannot_be() {
    let layouts = image(&[], &[file("srv", "")], &json!({"WorkingDir": "/srv/app"}));
    let run = moving(&layouts, &[])().run().refused().says("workdir-missing");
    let written = "set WORKDIR to a directory that the image contains, or pass --workdir DIR";
    again(moving(&layouts, &[]), &advice(&run, written).flags("--workdir DIR", &[("DIR", "/tmp")])).ok();
}

#[test]
fn of_a_command_that_came_with_the_old_base() {
    let mut old = fixtures::old_base(AMD64);
    old.config["Cmd"] = json!(["/usr/bin/server"]);
    let layouts = on(&old, &[], &json!({"Entrypoint": null, "Cmd": ["/usr/bin/server"]}));
    let run = moving(&layouts, &[])().run().refused().says("command-lost");
    let written = "set ENTRYPOINT in the image itself, or pass it, such as --entrypoint '[\"/app\"]'";
    again(moving(&layouts, &[]), &advice(&run, written).flags("--entrypoint '[\"/app\"]'", &[])).ok();
}

#[test]
fn of_what_the_command_names_and_the_old_base_had() {
    let rules = [symlink("etc/rules", "/usr/share/rules/v1"), file("usr/share/rules/v1", "x\n")];
    let layouts = image(&rules, &[], &json!({"Cmd": ["--rules=/etc/rules"]}));
    let run = moving(&layouts, &[])().run().refused().says("needs-file");
    let written = "{fix}; pass --allow needs-file={path} if it is mounted or not used";
    let bring = advice(&run, written).flag("--bring");
    is_quiet(&again(moving(&layouts, &[]), &bring).ok(), "needs-file");
    let allow = advice(&run, written).flag("--allow");
    again(moving(&layouts, &[]), &allow).ok().says("excepted [needs-file]");
}

#[test]
fn of_a_program_that_only_the_old_base_had() {
    let server = [program("usr/bin/server", prints(Machine::Amd64, "served\n"))];
    let layouts = image(&server, &[], &json!({"Entrypoint": ["server"]}));
    let run = moving(&layouts, &[])().run().refused().says("entrypoint-missing");
    let bring = advice(&run, "pass {offer}, or add it to the image itself").flag("--bring");
    again(moving(&layouts, &[]), &bring).ok();
}

#[test]
fn of_a_dynamic_program() {
    or_skip!(need(&["gcc"]));
    let bytes = c("gcc", &[], "int main(void) { return 0; }\n");
    let libraries = crate::support::programs::libraries(&bytes);
    let old = old_base(&libraries);
    let layouts = on(&old, &[program("dynamic", bytes)], &json!({"Entrypoint": ["/dynamic"]}));
    let run = moving(&layouts, &[])().run().refused().says("dynamic-binary");
    // Three ways, made of what is missing: built otherwise, another base, or brought along.
    let key = "src/policy/program.rs: fixes.into_iter().flatten().collect::<Vec<_>>().join(\", or \")";
    let bring = computed_advice(&run, "link it with -static-pie, or choose a --base that has {}, or pass {}", key)
        .flag("--bring");
    again(moving(&layouts, &[]), &bring).ok();
    let other_base = ["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--base", "oci:old:v1", "--to", "oci:o:v1"];
    is_quiet(&layouts.underpin(&other_base).run().ok(), "dynamic-binary");
    let built = c("gcc", &["-static-pie"], "int main(void) { return 0; }\n");
    let layouts = on(&old, &[program("dynamic", built)], &json!({"Entrypoint": ["/dynamic"]}));
    moving(&layouts, &[])().run().ok();
}

#[test]
fn of_helpers_that_cannot_start() {
    or_skip!(need(&["gcc"]));
    let bytes = c("gcc", &[], "int main(void) { return 0; }\n");
    let old = old_base(&crate::support::programs::libraries(&bytes));
    let layouts = on(&old, &[program("opt/helper", bytes.clone())], &json!({}));
    let run = moving(&layouts, &[])().run().ok().says("dynamic-helper");
    let drop = advice(&run, "leave them out of the image, or take them out with --drop PATH")
        .flags("--drop PATH", &[("PATH", "/opt/helper")]);
    is_quiet(&again(moving(&layouts, &[]), &drop).ok(), "dynamic-helper");

    let layouts = on(&old, &[program("opt/helper", bytes)], &json!({"Cmd": ["--run=/opt/helper"]}));
    let run = moving(&layouts, &[])().run().refused().says("dynamic-helper");
    let written =
        "{bring}leave it out or build it statically, or pass --allow dynamic-helper={path} if it is never run";
    again(moving(&layouts, &[]), &advice(&run, written).flag("--bring")).ok();
    let allow = advice(&run, written).flags("--allow dynamic-helper=/opt/helper", &[]);
    again(moving(&layouts, &[]), &allow).ok();
}

#[test]
fn of_paths_and_names_that_the_image_does_not_have() {
    let tool = by_hand("tool", &[("usr/bin/tool", "x"), ("etc/os-release", "ID=other!\n")]).installed();
    let layouts = image(&tool, &[file("srv/x", "x")], &json!({}));
    for (wrong, right, rule) in [
        (["--keep", "/usr/bin/tol"], ["--keep", "/usr/bin/tool"], "keep-missing"),
        (["--drop", "/srv/y"], ["--drop", "/srv/x"], "drop-missing"),
        (["--bring", "tol"], ["--bring", "/usr/bin/tool"], "bring-missing"),
    ] {
        let run = moving(&layouts, &wrong)().run().refused().says(rule);
        computed_advice(&run, "correct the {}", "src/policy/layers.rs: fix").by_hand("correct the ");
        moving(&layouts, &right)().run().ok();
    }
    let run = moving(&layouts, &["--bring", "tool"])().run().refused().says("bring-conflict");
    let written = "pass --allow bring-conflict={path} to go on with the new base's, or --keep {path} to replace it";
    for flags in ["--allow bring-conflict=/etc/os-release", "--keep /etc/os-release"] {
        let flags = advice(&run, written).flags(flags, &[]);
        again(moving(&layouts, &["--bring", "tool"]), &flags).ok();
    }
}

#[test]
fn of_packages_that_stay_behind() {
    let base = by_hand("base", &[("etc/os-release", "ID=debian\n")]).installed();
    let old =
        Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &base)]) };
    let tool = by_hand("tool", &[("usr/bin/tool", "x")]);
    let layouts = on(&old, &tool.installed(), &json!({}));
    let run = moving(&layouts, &[])().run().ok().says("packages-left");
    assert!(!run.stderr.contains("from its old base"), "the image's own layer brought it\n{run}");
    let bring =
        advice(&run, "bring those that the application needs: --bring NAME").flags("--bring NAME", &[("NAME", "tool")]);
    is_quiet(&again(moving(&layouts, &[]), &bring).ok(), "packages-left");
}

#[test]
fn of_a_log_that_nothing_would_write() {
    let shell = ["/bin/sh", "-c", "exec /app >>/var/log/app.log 2>&1"];
    let layouts = image(&[], &[], &json!({"Entrypoint": shell}));
    let run = moving(&layouts, &[])().run().refused().says("log-flag-unknown");
    let choices = "choose: --logs klog with a program that takes klog's flags; --logs runner with --log-runner REF, such as registry.k8s.io/build-image/go-runner; --logs stdout, and let the container runtime keep the log";
    let stdout = advice(&run, choices).flags("--logs stdout", &[]);
    again(moving(&layouts, &[]), &stdout).ok();

    let klog = moving(&layouts, &["--logs", "klog"])().run().refused();
    let allow = advice(&klog, "pass --allow {} if you know better, or {CHOICES}").flag("--allow");
    again(moving(&layouts, &["--logs", "klog"]), &allow).ok();

    let plan = || layouts.plan().args(["--logs", "stdout"]);
    let run = plan().run().ok();
    let others = advice(&run, "the alternatives are {others}").flags("--logs klog", &[]);
    let run = layouts.plan().args(&others).run().refused();
    assert!(run.stdout.contains("--allow log-flag-unknown"), "the next step\n{run}");
}

#[test]
fn of_a_log_directory_that_the_user_may_not_write_to() {
    let logs = json!({"User": "1000:1000", "Cmd": ["--log-file", "/var/log/app/x.log"]});
    let layouts = image(&[], &[folder("var/log/app/")], &logs);
    let run = moving(&layouts, &[])().run().refused().says("log-dir-missing");
    advice(&run, "declare the directory as a VOLUME, or create it in the image for the user it runs as")
        .by_hand("declare the directory as a VOLUME");
    let mut volume = logs.clone();
    volume["Volumes"] = json!({"/var/log/app": {}});
    moving(&image(&[], &[folder("var/log/app/")], &volume), &[])().run().ok();
    moving(&image(&[], &[folder("var/log/app/").owned(1000, 1000)], &logs), &[])().run().ok();
}

#[test]
fn of_a_platform_that_the_new_base_does_not_have() {
    let layouts = Layouts::new(
        &fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::new_base(AMD64).build(),
    );
    let run = moving(&layouts, &[])().run().refused().says("platform-missing");
    let written = "choose platforms with --platform, or leave it out with --on-missing-platform skip";
    let skip = computed_advice(&run, written, "src/policy/judge.rs: fix").flags("--on-missing-platform skip", &[]);
    again(moving(&layouts, &[]), &skip).ok();
    moving(&layouts, &["--platform", AMD64])().run().ok();
}

#[test]
fn of_a_digest_that_is_not_the_expected_one() {
    let layouts = image(&[], &[], &json!({}));
    let other = fixtures::app(AMD64, 10).build().digest();
    let run = moving(&layouts, &["--expect-digest", &other])().run().refused().says("digest-unexpected");
    let written =
        "compare source, base and options with those of the expected image (`underpin inspect` shows its annotations)";
    advice(&run, written).by_hand("`underpin inspect` shows its annotations");
    let digest = moving(&layouts, &[])().run().ok().digest();
    let annotations = layouts.underpin(&["inspect", "oci:out:v1", "--json"]).run().ok();
    assert!(
        annotations.stdout.contains("dev.underpin.source.digest") || annotations.stdout.contains("dev.underpin."),
        "{annotations}"
    );
    moving(&layouts, &["--expect-digest", &digest])().run().ok();
}

/// What `check` advises makes the move that it tried, with the base that it tried.
#[test]
fn of_an_image_on_a_base_that_is_not_allowed() {
    let layouts = image(&[], &[], &json!({}));
    let policy = ["--base", "oci:new:v1", "--allow-base", "oci:new:v1"];
    let check = |more: &[&str]| layouts.underpin(&["check", "oci:app:v1"]).args(policy).args(more).run();
    let run = check(&["--known-base", "oci:old:v1"]).refused();
    let key = "src/policy/base_rules.rs: way_out(current, tried)";
    let moved = computed_advice(&run, "rebase it: {command}", key).command(&[("TARGET", "oci:moved:v1")]);
    layouts.sandbox.underpin(moved).run().ok().says("by known, proven");
    layouts.underpin(&["check", "oci:moved:v1"]).args(policy).run().ok();

    let unnamed = check(&["--old-base", "layers:3"]).refused();
    let written = "name the base that it may be on with --known-base REF, or rebase it: {command}";
    let moved = computed_advice(&unnamed, written, key).command(&[("TARGET", "oci:counted:v1")]);
    layouts.sandbox.underpin(moved).run().ok().says("by flag, given");
    let known = computed_advice(&unnamed, written, key).flags("--known-base REF", &[("REF", "oci:old:v1")]);
    let run = check(&known.iter().map(String::as_str).collect::<Vec<_>>()).refused();
    assert!(run.stdout.contains("is based on oci:old:v1, which is not an allowed base"), "{run}");
}

/// An image that cannot move gets an exception, which is recorded as it is advised, and taken off again.
#[test]
fn of_an_image_that_needs_an_exception_and_of_one_that_does_not_any_more() {
    let layouts = image(&[], &[], &json!({"Entrypoint": ["/bin/sh", "-c", "/app | cat 'it''s'"]}));
    let policy =
        ["--base", "oci:new:v1", "--allow-base", "oci:new:v1", "--known-base", "oci:old:v1", "--exceptions", "list.md"];
    let check = || layouts.underpin(&["check", "oci:app:v1"]).args(policy).run();
    let list = check().fails("local-io");
    let begin = advice(&list, "begin a list: {begin}").command(&[]);
    layouts.sandbox.underpin(begin).run().ok();
    let run = check().refused();
    let written = "fix what stops it, or record an exception: {add}";
    let add = computed_advice(&run, written, "src/policy/base_rules.rs: way_out(current, tried)")
        .command(&[("FILE", "list.md")]);
    layouts.sandbox.underpin(add).run().ok();
    check().ok();

    // The image has moved since.
    layouts.rebase("moved").args(["--entrypoint", "[\"/app\"]"]).run().ok();
    std::fs::rename(layouts.layout("app"), layouts.layout("before")).unwrap();
    std::fs::rename(layouts.layout("moved"), layouts.layout("app")).unwrap();
    let run = check().refused();
    let removed = advice(&run, "remove line {line} of the list: {}").command(&[("FILE", "list.md")]);
    layouts.sandbox.underpin(removed).run().ok();
    check().ok();
}

#[test]
fn of_an_exception_that_names_another_base_or_is_not_needed() {
    let layouts = image(&[], &[], &json!({"Entrypoint": ["/bin/sh", "-c", "/app | cat"]}));
    let list = |base: &str| {
        let page = format!("|Component|Base|Reason|\n|-|-|-|\n|app|{base}|r|\n");
        std::fs::write(layouts.layout("list.md"), page).unwrap();
    };
    let policy =
        ["--base", "oci:new:v1", "--allow-base", "oci:new:v1", "--known-base", "oci:old:v1", "--exceptions", "list.md"];
    let check = || layouts.underpin(&["check", "oci:app:v1"]).args(policy).run();
    list("a.io/other");
    let run = check().refused();
    advice(&run, "rebase it to an allowed base, or correct the list").by_hand("correct the list");
    list("oci:old:v1");
    check().ok();
    list("");
    let run = check().ok();
    computed_advice(&run, "correct the base in the list", "src/policy/base_rules.rs: fix").by_hand("correct the base");
    list("oci:old:v1");
    assert!(!check().ok().stdout.contains("warn ["));

    // It can move with another command: then its row is to go.
    let words = ["--exceptions", "list.md", "--entrypoint", "[\"/app\"]"];
    let run = moving(&layouts, &words)().run().ok();
    let removed = advice(&run, "once it has moved, remove its row: {}").command(&[("FILE", "list.md")]);
    layouts.sandbox.underpin(removed).run().ok();
    assert!(!moving(&layouts, &words)().run().ok().stderr.contains("remove its row"));
}

#[test]
fn of_a_script_that_is_inlined() {
    let script = program("start.sh", "#!/bin/sh\nexec /app --now\n");
    let layouts = image(&[], &[script], &json!({"Entrypoint": ["/start.sh"]}));
    let run = moving(&layouts, &[])().run().ok().says("cannot run");
    let written = "where a manifest names {script} as its command, remove that or name the program; --drop {script} leaves the file out";
    let drop = advice(&run, written).flag("--drop");
    assert!(!again(moving(&layouts, &[]), &drop).ok().stderr.contains("cannot run"));
}

#[test]
fn of_what_cannot_be_started() {
    let entrypoint = |words: Value| json!({"Entrypoint": words});
    let text = image(&[], &[program("notes", "no program\n")], &entrypoint(json!(["/notes"])));
    let run = moving(&text, &[])().run().refused().says("not-a-binary");
    advice(&run, "set ENTRYPOINT to a statically linked program in the image")
        .by_hand("set ENTRYPOINT to a statically linked program");
    moving(&text, &["--entrypoint", "[\"/app\"]"])().run().ok();

    let gone = image(&[], &[], &entrypoint(json!(["/nowhere"])));
    let run = moving(&gone, &[])().run().refused().says("entrypoint-missing");
    let written = "the source does not start it either: correct ENTRYPOINT or CMD, or check --old-base";
    computed_advice(&run, written, "src/policy/program.rs: fix").by_hand("correct ENTRYPOINT");
    moving(&gone, &["--entrypoint", "[\"/app\"]"])().run().ok();

    let other = image(&[], &[program("arm", prints(Machine::of("linux/arm64"), "x\n"))], &entrypoint(json!(["/arm"])));
    let run = moving(&other, &[])().run().refused().says("wrong-machine");
    advice(&run, "build the program for this platform, or correct the platform of the image")
        .by_hand("build the program for this platform");
    let built = image(&[], &[program("arm", prints(Machine::Amd64, "x\n"))], &entrypoint(json!(["/arm"])));
    moving(&built, &[])().run().ok();

    let wrapped = image(
        &[],
        &[program("sbin/tini", prints(Machine::Amd64, "x\n"))],
        &entrypoint(json!(["/sbin/tini", "--odd", "--", "/app"])),
    );
    let run = moving(&wrapped, &[])().run().refused().says("start-unknown");
    let written = "start the program without a shell: set ENTRYPOINT in exec form, or pass --entrypoint";
    advice(&run, written).by_hand("pass --entrypoint");
    moving(&wrapped, &["--entrypoint", "[\"/app\"]"])().run().ok();
    moving(&wrapped, &["--entrypoint", "[\"/sbin/tini\", \"--\", \"/app\"]"])().run().ok();
}

#[test]
fn of_oddities_that_are_carried_over_or_left_behind() {
    let odd = image(&[], &[], &json!({"Env": [fixtures::PATH, "DEBUG"]}));
    let run = moving(&odd, &[])().run().ok().says("config-odd");
    advice(&run, "fix it where the image is built").by_hand("where the image is built");
    is_quiet(&moving(&image(&[], &[], &json!({"Env": [fixtures::PATH, "DEBUG="]})), &[])().run().ok(), "config-odd");

    let label = image(&[], &[], &json!({"Labels": {"io.containers.autoupdate": "registry"}}));
    let run = moving(&label, &[])().run().ok().says("label-dropped");
    advice(&run, "remove it where the image is built").by_hand("remove it");
    is_quiet(&moving(&image(&[], &[], &json!({"Labels": {}})), &[])().run().ok(), "label-dropped");

    let run = moving(&label, &["--allow", "needs-shell"])().run().ok().says("allow-unneeded");
    assert!(run.stderr.contains("fix: "), "{run}");
    let fix = run
        .stderr
        .lines()
        .find(|line| line.contains("fix: ") && line.contains("--allow"))
        .unwrap_or_default()
        .trim()
        .to_owned();
    computed_advice(&run, fix.trim_start_matches("fix: "), "src/run.rs: Rule::AllowUnneeded.fix()").by_hand("--allow");
    is_quiet(&moving(&label, &[])().run().ok(), "allow-unneeded");
}

#[test]
fn of_statements_about_the_source() {
    let layouts = Layouts::new(
        &fixtures::attested_app(10),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::on_three(Dialect::Oci, fixtures::new_base),
    );
    let run = moving(&layouts, &[])().run().ok().says("attestation-dropped");
    advice(&run, "sign and attest the rebased image anew").by_hand("attest the rebased image anew");
    moving(&layouts, &["--attest", "provenance"])().run().ok().says("attached");
}

#[test]
fn of_a_base_name_that_leads_nowhere_and_of_an_extract_that_leaves_files() {
    let mut app = fixtures::app(AMD64, 10);
    app.annotations.insert("org.opencontainers.image.base.name".to_owned(), json!("127.0.0.1:1/debian:12"));
    let layouts = Layouts::on(&fixtures::old_base(AMD64), &app);
    let move_it = || layouts.rebase_unnamed("out").arg("--no-cache").hurried();
    let run = move_it().run().ok().says("base-name-ignored");
    let written = "pass --old-base with the image it was built on, or correct the name where the image is built";
    computed_advice(&run, written, "src/policy/judge.rs: Rule::BaseNameIgnored.fix()").by_hand("pass --old-base");
    is_quiet(&move_it().args(["--old-base", "oci:old:v1"]).run().ok(), "base-name-ignored");

    let files = [program("bin/sh", "sh"), hello(), file("srv/data/x", "x")];
    let config = json!({"Entrypoint": ["/app"], "Env": [fixtures::PATH]});
    let squashed = Recipe { config, ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) };
    let layouts = Layouts::on(&fixtures::old_base(AMD64), &squashed);
    let extract = || layouts.rebase_unnamed("out").args(["--no-cache", "--extract"]);
    let run = extract().run().refused().says("extract-incomplete");
    let written = "pass --keep for each directory that the application needs; once nothing of the rest is needed, pass --allow extract-incomplete";
    let key = "src/policy/judge.rs: Rule::ExtractIncomplete.fix()";
    let allow = computed_advice(&run, written, key).flags("--allow extract-incomplete", &[]);
    again(|| extract().args(["--keep", "/srv"]), &allow).ok();
}

#[test]
fn of_what_was_brought_in_part_and_of_another_program_of_the_new_base() {
    let tool = by_hand("tool", &[("usr/bin/tool", "x"), ("usr/lib/tool/plugin.so", "y")]).installed();
    let layouts = image(&tool, &[], &json!({}));
    let run = moving(&layouts, &["--bring", "/usr/bin/tool"])().run().ok();
    advice(&run, "bring more of it with --bring if the application needs it").by_hand("bring more of it with --bring");
    assert!(run.stderr.contains("--bring tool"), "which\n{run}");
    is_quiet(&moving(&layouts, &["--bring", "tool"])().run().ok(), "brought-partly");

    let server = |line: &str| program("usr/bin/server", prints(Machine::Amd64, line));
    let old = old_base(&[server("old\n")]);
    let mut new = fixtures::new_base(AMD64);
    new.layers.push(Layer::of(Pack::Gzip, &[server("new\n")]));
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["server"]});
    let app = upon(&old, [Layer::of(Pack::Gzip, &[hello()])], config);
    let layouts = Layouts::new(&app.build(), &old.build(), &new.build());
    let run = moving(&layouts, &[])().run().ok().says("program-changed");
    let written = "write the program with its full path, or override the command with --entrypoint and --cmd";
    advice(&run, written).by_hand("--entrypoint");
    is_quiet(&moving(&layouts, &["--entrypoint", "[\"/app\"]"])().run().ok(), "program-changed");
}

/// Tools and files that a program names: what is refused has an offer, what is only likely a way to look.
#[test]
fn of_tools_and_files_that_a_program_names() {
    or_skip!(need(&["gcc"]));
    let source =
        "#include <unistd.h>\nint main(void) { return execl(\"/usr/sbin/iptables\", \"iptables\", (char *)0); }\n";
    let runs = c("gcc", &["-static"], source);
    let iptables = program("usr/sbin/iptables", prints(Machine::Amd64, "rules\n"));
    let layouts = image(&[iptables], &[program("runs", runs)], &json!({"Entrypoint": ["/runs"]}));
    let run = moving(&layouts, &[])().run().refused().says("needs-tool");
    let written = "{bring}, or pass --allow {id}={name} if it is never used";
    again(moving(&layouts, &[]), &advice(&run, written).flag("--bring")).ok();
    again(moving(&layouts, &[]), &advice(&run, written).flag("--allow")).ok();
    let names = c(
        "gcc",
        &["-static"],
        "#include <stdio.h>\nint main(void) { puts(\"/usr/share/notes\"); puts(\"curl\"); return 0; }\n",
    );
    let curl = program("usr/bin/curl", prints(Machine::Amd64, "ok\n"));
    let layouts = image(&[curl], &[program("names", names)], &json!({"Entrypoint": ["/names"]}));
    let run = moving(&layouts, &[])().run().ok();
    advice(&run, "bring along with --bring what they need").by_hand("bring along with --bring");
    let quiet = moving(&layouts, &["--bring", "/usr/share/notes"])().run().ok();
    assert!(!quiet.stderr.contains("name files"), "{quiet}");
    advice(&run, "check whether it runs them; choose a --base that has them if it does")
        .by_hand("choose a --base that has them");
    let words = ["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--base", "oci:old:v1", "--to", "oci:o:v1"];
    is_quiet(&layouts.underpin(&words).run().ok(), "needs-tool");
}

#[test]
fn of_a_program_that_needs_more_to_start() {
    or_skip!(need(&["gcc", "runc"]));
    let fails = c("gcc", &["-static"], "int main(int argc, char **argv) { return argc < 2; }\n");
    let layouts = image(&[], &[program("fails", fails)], &json!({"Entrypoint": ["/fails"]}));
    let start = || layouts.underpin(&["start", "oci:app:v1"]);
    let run = start().run().refused();
    let written = "if the program needs something to start, give it with --start-arg, --start-env or --start-mount";
    computed_advice(&run, written, "src/sandbox/compare.rs: fix").by_hand("--start-arg");
    start().args(["--start-arg", "x"]).run().ok();
}
