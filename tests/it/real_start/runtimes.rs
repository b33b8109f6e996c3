//! Runtimes other than runc, and those that fail by themselves: their failure is none of the image.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::places::{Outside, image};
use super::system_calls::trying_calls;
use super::{acting, assert_nothing_is_left, layouts, start_in, start_of};
use crate::support::invocation::{Invocation, binary};
use crate::support::layouts::Layouts;
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Layer, Pack, folder, program, symlink};
use crate::support::tools::{newer, newer_directory};

fn script(layouts: &Layouts, name: &str, mode: u32, text: &str) -> PathBuf {
    let path = layouts.sandbox.path(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_runtime_that_fails_is_named_with_its_words_and_says_nothing_of_the_image() {
    or_skip!(need(&["cc"]));
    let layouts = layouts(&acting(&["stay"]));
    for (name, mode, text, words) in [
        ("failing", 0o755, "echo 'no room for control groups' >&2; exit 1", "no room for control groups"),
        ("silent", 0o755, "exit 7", "status   7"),
        ("forbidden", 0o644, "exit 0", "permission denied"),
        ("logging", 0o755, r#"echo '{"level":"error","msg":"seccomp is old"}' > "$4"; exit 1"#, "seccomp is old"),
        // It ends without having made anything: that is no image that ended well.
        ("idle", 0o755, "exit 0", "could not start the image"),
        // It hangs when it shall run something; what it is asked later it answers.
        ("hanging", 0o755, "case \"$*\" in *' run '*) exec sleep 600;; esac", "in time"),
    ] {
        let runtime = script(&layouts, name, mode, text);
        let start = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--runtime"];
        layouts.underpin(&start).arg(&runtime).run().fails("local-io").says(name).says(words);
        assert_nothing_is_left(&layouts);
    }
    let rebase = layouts.rebase("out").args(["--start=1", "--runtime"]);
    rebase.arg(script(&layouts, "failing", 0o755, "echo no >&2; exit 1")).run().fails("local-io");
    assert!(!layouts.layout("out").exists(), "nothing is published");
}

#[test]
fn a_runtime_is_found_by_its_name_and_from_anywhere() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["stay"]));
    start_in(&layouts).args(["--runtime", "runc"]).run().ok();
    let runc = crate::support::skip::find("runc").unwrap();
    std::os::unix::fs::symlink(runc, layouts.layout("linked")).unwrap();
    start_in(&layouts).args(["--runtime", "./linked"]).run().ok();
    let unknown = ["start", "oci:app:v1", "--no-cache", "--runtime", "no-such-runtime"];
    layouts.underpin(&unknown).run().fails("usage").says("no-such-runtime");
}

/// crun of a package, with the library that it needs.
fn crun(layouts: &Layouts) -> Part<PathBuf> {
    let program = newer("bookworm/crun", "crun")?;
    let library = program.ancestors().nth(4).unwrap().join("libyajl2/usr/lib/x86_64-linux-gnu");
    let text = format!("LD_LIBRARY_PATH={} exec {} \"$@\"", library.display(), program.display());
    Ok(script(layouts, "crun", 0o755, &text))
}

/// crun does not work with control groups of both versions at once; those of the second are taken away, for it alone.
fn start_with_crun(layouts: &Layouts, crun: &Path) -> Invocation {
    let enter = r#"mountpoint -q /sys/fs/cgroup/unified && umount /sys/fs/cgroup/unified; exec "$@""#;
    let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", enter, "sh", &binary()]);
    let unshare = unshare.args(["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json", "--runtime"]);
    unshare.arg(crun)
}

#[test]
fn crun_starts_images_and_names_what_it_could_not_execute() {
    or_skip!(need(&["cc", "unshare"]));
    let mut app = acting(&["serve"]);
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "end", "0"]});
    let served = layouts(&app);
    let crun_program = or_skip!(crun(&served));
    let report = start_with_crun(&served, &crun_program).run().ok().json();
    let start = start_of(&report);
    assert_eq!((&start["ports"], &start["health"]["status"]), (&json!([8080]), &json!(0)), "{report:#}");
    assert!(start["opened"].as_u64().is_some(), "{report:#}");
    assert_nothing_is_left(&served);
    for (name, content, words) in [
        ("none", None, "no such file"),
        ("garbage", Some(("garbage", 0o755)), "exec format error"),
        ("script", Some(("#!/no/such/shell\n", 0o755)), "no such file"),
        ("closed", Some(("x", 0o600)), "permission denied"),
    ] {
        let mut app = acting(&[]);
        app.layers.extend(content.map(|(text, mode)| Layer::of(Pack::Gzip, &[program(name, text).mode(mode)])));
        app.config = json!({"Entrypoint": [format!("/{name}")]});
        let layouts = layouts(&app);
        let report = start_with_crun(&layouts, &crun_program).run().refused().json();
        let start = start_of(&report);
        assert_eq!(start["outcome"], "not-executed", "{name}: {report:#}");
        let reason = start["reason"].as_str().unwrap().to_lowercase();
        assert!(reason.contains(name) && reason.contains(words), "{name}: {reason}");
        assert_nothing_is_left(&layouts);
    }
}

/// Where the machine has control groups of both versions, crun says so, and that is no word about the image.
#[test]
fn crun_that_does_not_work_here_says_why() {
    or_skip!(need(&["cc"]));
    let layouts = layouts(&acting(&["stay"]));
    let crun = or_skip!(crun(&layouts));
    let start = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--runtime"];
    let run = layouts.underpin(&start).arg(&crun).run();
    match std::fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers") {
        Ok(controllers) if !controllers.trim().is_empty() => {
            run.fails("local-io").says("crun").says("cgroups in hybrid mode not supported");
        }
        _ => {
            run.ok();
        }
    }
    assert_nothing_is_left(&layouts);
}

/// What `runc` of Debian's next release needs of a newer libc is mounted over this machine's, for it alone. busybox is
/// linked statically: between the two mounts nothing else starts.
const WITH_NEWER_LIBC: &str = r#"
for name in ld-linux-x86-64.so.2 libc.so.6; do
    at=$(busybox readlink -f "/usr/lib/x86_64-linux-gnu/$name") || exit 125
    busybox mount --bind "$libc/usr/lib/x86_64-linux-gnu/$name" "$at" || exit 125
done
exec "$@"
"#;

/// runc 1.2 or newer, which opens everything in a root itself, with checks of its own.
fn start_with_newer_runc(layouts: &Layouts) -> Part<Invocation> {
    let (runc, libc) = (newer_directory("sid/runc")?, newer_directory("trixie/libc6")?);
    let unshare =
        layouts.sandbox.program("unshare", ["--mount", "busybox", "sh", "-c", WITH_NEWER_LIBC, "sh", &binary()]);
    let start = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json", "--runtime"];
    Ok(unshare.args(start).arg(runc.join("usr/sbin/runc")).env("libc", libc))
}

/// The sandbox is the same under every runtime: what an image must not reach it does not, and what it needs is there.
fn holds_under(places: &[&str], start: impl Fn(&Layouts) -> Part<Invocation>) -> Part<()> {
    let mut app = acting(&["serve"]);
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "end", "0"]});
    let served = layouts(&app);
    let report = start(&served)?.run().ok().json();
    assert_eq!(start_of(&report)["ports"], json!([8080]), "{report:#}");
    assert_eq!(start_of(&report)["health"]["status"], 0, "{report:#}");
    assert_nothing_is_left(&served);
    let outside = Outside::new();
    let before = outside.state();
    for place in places {
        let parent = place.split_once('/').map(|(parent, _)| folder(&format!("{parent}/")));
        let files: Vec<_> = parent.into_iter().chain([symlink(place, outside.path())]).collect();
        let layouts = image(
            &files,
            &json!({"WorkingDir": "/work-2"}),
            "echo started; cat /given/x /dev/given/x; echo x > /dev/given/x",
        );
        let mounts = ["/given/x", "/dev/given/x"].map(|to| format!("{}/ptmx:{to}", outside.path()));
        let run = start(&layouts)?.args(["--start-mount", &mounts[0], "--start-mount", &mounts[1]]).run();
        assert_eq!(outside.state(), before, "{place}: {run}");
        assert_eq!(start_of(&run.json())["stdout"], json!(["started", "as it wasas it was"]), "{place}: {run}");
        assert_nothing_is_left(&layouts);
    }
    for user in ["0", "1234"] {
        let layouts = trying_calls(user);
        let report = start(&layouts)?.run().ok().json();
        assert_eq!(start_of(&report)["stdout"], json!(["tried"]), "{report:#}");
        assert_nothing_is_left(&layouts);
    }
    Ok(())
}

#[test]
fn the_sandbox_holds_under_runc_of_today() {
    or_skip!(need(&["cc", "unshare", "busybox"]));
    let places = ["dev", "proc", "sys", "etc", "dev/shm", "dev/ptmx", "etc/resolv.conf", "given", "work"];
    or_skip!(holds_under(&places, start_with_newer_runc));
}

#[test]
fn the_sandbox_holds_under_crun() {
    or_skip!(need(&["cc", "unshare", "busybox"]));
    // It takes seconds to end a container here.
    or_skip!(holds_under(&["dev", "etc", "proc"], |layouts| Ok(start_with_crun(layouts, &crun(layouts)?))));
}
