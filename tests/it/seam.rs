//! Where the application meets its new base: each rule through the binary, each with a twin that
//! differs in one thing and is silent.

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{Machine, c, go_compilers, prints};
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, hardlink, program, symlink, whiteout};

fn hello() -> Entry {
    program("app", prints(Machine::Amd64, "hello\n"))
}

/// What a plan says of an application with these files and this config.
fn planned(old: &Recipe, files: &[Entry], config: Value, flags: &[&str]) -> Vec<String> {
    let layouts = Layouts::on(old, &upon(old, [Layer::of(Pack::Gzip, files)], config));
    let run = layouts.plan().args(flags).arg("--json").run();
    let report = run.json();
    let said = findings(&report["platforms"][0]);
    let is_refused = said.iter().any(|finding| finding.starts_with("refuse "));
    assert_eq!(run.code(), Some(i32::from(is_refused)), "{run}");
    assert_eq!(report["outcome"], if is_refused { "refused" } else { "planned" });
    said
}

/// The same for the small program and these files.
fn with(files: &[Entry], flags: &[&str]) -> Vec<String> {
    let files: Vec<Entry> = [hello()].into_iter().chain(files.iter().cloned()).collect();
    planned(&fixtures::old_base("linux/amd64"), &files, fixtures::app_config(), flags)
}

/// The same for the small program and these members of the config.
fn configured(old: &Recipe, files: &[Entry], members: &Value) -> Vec<String> {
    let mut config = fixtures::app_config();
    for (name, value) in members.as_object().unwrap() {
        config[name.as_str()] = value.clone();
    }
    let files: Vec<Entry> = [hello()].into_iter().chain(files.iter().cloned()).collect();
    planned(old, &files, config, &[])
}

const NOTHING: [&str; 0] = [];

#[test]
fn files_that_touch_the_new_bases_are_told() {
    for (entry, said) in [
        (file("etc/os-release", "ID=mine\n"), &["warn shadows-base"][..]),
        (file("etc/app-release", "ID=mine\n"), &[]),
        (whiteout("etc/os-release"), &["warn removes-base"]),
        (whiteout("usr/share/notes"), &[]),
        (file("etc/.wh..wh..opq", ""), &["warn removes-base"]),
        (file("srv/.wh..wh..opq", ""), &[]),
        (symlink("srv/notes", "/usr/share/notes"), &["warn link-dangling"]),
        (symlink("srv/release", "/etc/os-release"), &[]),
        (symlink("srv/never", "/usr/share/never"), &[]),
        (hardlink("srv/notes", "usr/share/notes"), &["refuse layer-broken"]),
        (hardlink("srv/app", "app"), &[]),
    ] {
        assert_eq!(with(std::slice::from_ref(&entry), &[]), said, "{entry:?}");
    }
}

#[test]
fn a_kept_path_must_be_in_the_source() {
    assert_eq!(with(&[], &["--keep", "/no/such"]), ["refuse keep-missing"]);
    assert_eq!(with(&[], &["--keep", "/usr/share/notes"]), NOTHING);
    // What is kept, a link may lead to.
    let link = symlink("srv/notes", "/usr/share/notes");
    assert_eq!(with(&[link], &["--keep", "/usr/share/notes"]), NOTHING);
}

#[test]
fn users_by_name_and_changed_numbers_are_told() {
    let old = old_base(&[file("etc/passwd", "root:x:0:0::/:\nnonroot:x:1000:1000::/:\n")]);
    for (user, old, said) in [
        // Without a line its group is 0; the new base has one.
        ("65532", &fixtures::old_base("linux/amd64"), &["warn user-changed"][..]),
        ("65532:65532", &fixtures::old_base("linux/amd64"), &[]),
        ("nonroot", &fixtures::old_base("linux/amd64"), &["warn user-by-name"]),
        ("nobody", &fixtures::old_base("linux/amd64"), &["refuse user-missing", "warn user-by-name"]),
        ("65532:65532", &old, &[]),
        ("nonroot", &old, &["warn user-changed", "warn account-number", "warn user-by-name"]),
        ("root", &old, &["warn user-by-name"]),
    ] {
        assert_eq!(configured(old, &[], &json!({"User": user})), said, "{user}");
    }
}

#[test]
fn a_working_directory_that_the_old_base_set_stays_and_one_of_the_new_base_is_told() {
    let mut old = fixtures::old_base("linux/amd64");
    old.config["WorkingDir"] = "/srv".into();
    let both = [folder("srv/"), program("srv/app", prints(Machine::Amd64, "hello\n"))];
    for (program, folder) in [("./app", "/srv"), ("/app", "/srv"), ("./app", "/srv/"), ("./app", "/")] {
        let members = json!({"Entrypoint": [program], "WorkingDir": folder});
        assert_eq!(configured(&old, &both, &members), NOTHING, "{members}");
    }
}

#[test]
fn folders_that_a_process_cannot_use_are_refused() {
    let old = fixtures::old_base("linux/amd64");
    let log = |uid: u64| [folder("var/log/app/").owned(uid, 0)];
    let logs = json!({"User": "1000", "Cmd": ["--log-file", "/var/log/app/x.log"]});
    let mut volume = logs.clone();
    volume["Volumes"] = json!({"/var/log": {}});
    for (files, members, said) in [
        (vec![file("srv", "")], json!({"WorkingDir": "/srv/app"}), &["refuse workdir-missing"][..]),
        (vec![folder("srv/")], json!({"WorkingDir": "/srv/app"}), &[]),
        (log(0).to_vec(), logs.clone(), &["refuse log-dir-missing"]),
        (log(1000).to_vec(), logs.clone(), &[]),
        (vec![], logs, &[]),
        (log(0).to_vec(), volume, &[]),
    ] {
        assert_eq!(configured(&old, &files, &members), said, "{members}");
    }
    // A folder that comes from the old base is no better.
    for (uid, said) in [(0, &["refuse log-dir-missing"][..]), (1000, &[])] {
        let members = json!({"User": "1000", "Cmd": ["--log-file", "/var/log/app/x.log"]});
        assert_eq!(configured(&old_base(&log(uid)), &[], &members), said, "{uid}");
    }
}

#[test]
fn a_health_check_must_find_its_program() {
    let old = old_base(&[program("usr/bin/curl", prints(Machine::Amd64, "ok\n"))]);
    for (test, said) in [
        (json!(["CMD", "/usr/bin/curl", "-f"]), &["refuse healthcheck-shell"][..]),
        (json!(["CMD", "curl", "-f"]), &["refuse healthcheck-shell"]),
        (json!(["CMD", "/app", "health"]), &[]),
        (json!(["NONE"]), &[]),
    ] {
        assert_eq!(configured(&old, &[], &json!({"Healthcheck": {"Test": test}})), said, "{test}");
    }
}

#[test]
fn other_programs_of_the_application_must_start_too_where_something_names_them() {
    let dynamic = std::fs::read("/bin/bash").unwrap();
    let old = fixtures::old_base("linux/amd64");
    for (entry, is_named, flags, said) in [
        (program("opt/tool", dynamic.clone()), true, &[][..], &["refuse dynamic-helper"][..]),
        (program("opt/tool", dynamic.clone()), false, &[], &["warn dynamic-helper"]),
        (
            program("opt/tool", dynamic.clone()),
            true,
            &["--allow", "dynamic-helper=/opt/tool"],
            &["excepted dynamic-helper"],
        ),
        (
            program("opt/tool", dynamic.clone()),
            true,
            &["--allow", "dynamic-helper=/opt"],
            &["refuse dynamic-helper", "warn allow-unneeded"],
        ),
        (program("opt/tool", "#!/bin/sh\n"), true, &[], &["refuse dynamic-helper"]),
        (program("opt/debug.sh", "#!/bin/sh\n"), false, &[], &["warn dynamic-helper"]),
        (program("opt/debug.sh", "#!/bin/sh\n"), false, &["--drop", "/opt/debug.sh"], &[]),
        (program("opt/tool", "#!/app\n"), true, &[], &[]),
        (program("opt/tool", prints(Machine::Amd64, "x")), true, &[], &[]),
        (file("opt/tool", dynamic), true, &[], &[]),
    ] {
        let mut config = fixtures::app_config();
        if is_named {
            config["Cmd"] = json!(["--tool=/opt/tool"]);
        }
        let files = [program("app", prints(Machine::Amd64, "hello\n")), entry];
        assert_eq!(planned(&old, &files, config, flags), said, "{flags:?}");
    }
}

#[test]
fn a_tool_that_only_the_old_base_has_is_refused() {
    or_skip!(need(&["go"]));
    let runs = "package main\nimport \"os/exec\"\nfunc main() { exec.Command(\"iptables\", \"-L\").Run() }\n";
    let names =
        "package main\nimport (\"os\"; \"os/exec\")\nfunc main() { exec.Command(os.Args[1], \"iptables\").Run() }\n";
    let speaks = "package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"iptables\") }\n";
    let iptables = program("usr/sbin/iptables", prints(Machine::Amd64, "rules\n"));
    for compiler in or_skip!(go_compilers()) {
        a_tool_is_refused(&[runs, speaks, names].map(|source| compiler.build(source, &[], &[])), &iptables);
    }
}

fn a_tool_is_refused([runs, speaks, names]: &[Vec<u8>; 3], iptables: &Entry) {
    let (with, without) = (old_base(std::slice::from_ref(iptables)), fixtures::old_base("linux/amd64"));
    let app = |bytes: &Vec<u8>| program("app", bytes.clone());
    for (old, files, flags, said) in [
        (&with, vec![app(runs)], &[][..], &["refuse needs-tool"][..]),
        (&with, vec![app(speaks)], &[], &[]),
        (&with, vec![app(names)], &[], &["warn needs-tool"]),
        (&without, vec![app(runs)], &[], &[]),
        (&with, vec![app(runs), iptables.clone()], &[], &[]),
        (&with, vec![app(runs)], &["--keep", "/usr/sbin/iptables"], &[]),
        (&with, vec![app(runs)], &["--allow", "needs-tool=iptables"], &["excepted needs-tool"]),
        (&with, vec![app(runs)], &["--allow", "needs-tool=ipset"], &["refuse needs-tool", "warn allow-unneeded"]),
    ] {
        assert_eq!(planned(old, &files, fixtures::app_config(), flags), said, "{flags:?}");
    }
}

#[test]
fn a_library_that_only_the_old_base_has_is_refused() {
    or_skip!(need(&["gcc"]));
    let source = "#include <stdio.h>\nint main(void) { puts(\"libsystemd.so.0\"); }\n";
    let app = program("app", c("gcc", &["-static"], source));
    let with = old_base(&[file("usr/lib/x86_64-linux-gnu/libsystemd.so.0", "\u{7f}ELF")]);
    let planned = |old: &Recipe| planned(old, std::slice::from_ref(&app), fixtures::app_config(), &[]);
    assert_eq!(planned(&with), ["refuse needs-library"]);
    assert_eq!(planned(&fixtures::old_base("linux/amd64")), NOTHING);
}

#[test]
fn a_quiet_move_still_says_what_was_lost() {
    let old = old_base(&[file("usr/share/notes", "x")]);
    let link = symlink("srv/notes", "/usr/share/notes");
    let files = [program("app", prints(Machine::Amd64, "hello\n")), link];
    let layouts = Layouts::on(&old, &upon(&old, [Layer::of(Pack::Gzip, &files)], fixtures::app_config()));
    let run = layouts.rebase("out").arg("-q").run().ok();
    assert!(run.stderr.contains("link-dangling") && run.stderr.lines().count() == 1, "{run}");
    let twin = [program("app", prints(Machine::Amd64, "hello\n"))];
    let layouts = Layouts::on(&old, &upon(&old, [Layer::of(Pack::Gzip, &twin)], fixtures::app_config()));
    assert_eq!(layouts.rebase("out").arg("-q").run().ok().stderr, "");
}
