//! Images whose mount points, working directory or parents of them are links out: nothing of the host is touched, and
//! what is mounted is seen where it was named.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::rootless::{self, Lent, as_user, can_start};
use super::{assert_nothing_is_left, start_in, start_of};
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, old_base, upon};
use crate::support::recipe::Recipe;
use crate::support::skip::{find, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, hardlink, program, symlink};

/// A directory of the host that anybody may write to, with files that a runtime would replace or write to.
pub(super) struct Outside(tempfile::TempDir);

impl Outside {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["", "below", "shm", "pts", "mqueue"] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        for name in ["ptmx", "hosts", "hostname", "resolv.conf", "console", "null", "below/file"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "as it was").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        }
        Self(directory)
    }

    pub(super) fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Everything in it, with what could be changed of it.
    pub(super) fn state(&self) -> Vec<String> {
        let found = Command::new("find").arg(self.0.path()).args(["-printf", "%P %y %m %U %G %T@ %s %l\n"]).output();
        let text = String::from_utf8(found.unwrap().stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Root,
    User(Lent),
}

const START: [&str; 6] = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json"];

fn invocation(layouts: &Layouts, by: By) -> Invocation {
    match by {
        By::Root => start_in(layouts),
        By::User(lent) => {
            rootless::open_to_user(layouts);
            as_user(layouts, lent, &START)
        }
    }
}

/// An image of these files, with busybox, that runs this script.
pub(super) fn image(files: &[Entry], config: &Value, script: &str) -> Layouts {
    let busybox = std::fs::read(find("busybox").unwrap()).unwrap();
    let tools = [program("busybox", busybox)];
    let mut config = config.clone();
    config["Entrypoint"] = json!(["/busybox", "sh", "-c", script]);
    let layers = vec![Layer::of(Pack::Gzip, files), Layer::of(Pack::Gzip, &tools)];
    Layouts::on(&Recipe::new("linux/amd64", layers.clone()), &Recipe { config, ..Recipe::new("linux/amd64", layers) })
}

/// Links that lead to a directory of the host if a path of the image is followed there.
fn ways_out(to: &str) -> Vec<String> {
    vec![
        to.to_owned(),
        format!("../../../../../../../../../../..{to}"),
        "hop".to_owned(),
        format!("/proc/self/root{to}"),
        format!("/proc/1/root{to}"),
        format!("/proc/self/cwd/../../../../../../../..{to}"),
        format!("{to}/below"),
        format!("{to}/not-there"),
        format!("{to}/ptmx"),
        "itself".to_owned(),
    ]
}

/// The places that a runtime, or underpin, writes to or mounts on.
const PLACES: [&str; 9] =
    ["dev", "proc", "sys", "etc", "dev/shm", "dev/pts", "dev/ptmx", "etc/resolv.conf", "etc/hosts"];

fn attack(by: By, place: &str, target: &str, outside: &Outside) -> Run {
    let mut files: Vec<Entry> =
        place.split_once('/').map(|(parent, _)| folder(&format!("{parent}/"))).into_iter().collect();
    files.push(symlink("hop", "hop-2"));
    files.push(symlink("hop-2", outside.path()));
    files.push(symlink(place, if target == "itself" { place } else { target }));
    let layouts =
        image(&files, &json!({}), "echo started; ls /dev >/dev/null; echo x > /etc/hosts; echo y > /dev/shm/x");
    let run = invocation(&layouts, by).run();
    assert_nothing_is_left(&layouts);
    run
}

fn no_place_of_an_image_leads_to_the_host(by: By) {
    for place in PLACES {
        let outside = Outside::new();
        let before = outside.state();
        // All ways out where a runtime goes furthest, some of them elsewhere: the code is one.
        let step = if by == By::Root && matches!(place, "dev" | "etc") { 1 } else { 4 };
        for target in ways_out(outside.path()).into_iter().step_by(step) {
            let run = attack(by, place, &target, &outside);
            assert_eq!(outside.state(), before, "/{place} -> {target}: {run}");
            let report = run.json();
            let start = start_of(&report);
            // A parent that leads to what is the kernel's, or nowhere, keeps every runtime from mounting below it.
            let is_blocked = place == "etc" && start["outcome"] == "not-executed";
            let leads_on = target == "itself" || target.starts_with("/proc");
            assert_eq!(is_blocked, place == "etc" && leads_on, "/{place} -> {target}: {report:#}");
            assert!(is_blocked || start["stdout"] == json!(["started"]), "/{place} -> {target}: {report:#}");
        }
    }
}

#[test]
fn no_place_of_an_image_leads_root_to_the_host() {
    or_skip!(need(&["runc", "cc", "busybox"]));
    no_place_of_an_image_leads_to_the_host(By::Root);
}

#[test]
fn no_place_of_an_image_leads_a_user_to_the_host() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    no_place_of_an_image_leads_to_the_host(By::User(Lent::Yes));
}

#[test]
fn no_place_of_an_image_leads_a_user_without_numbers_to_the_host() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    let outside = Outside::new();
    let before = outside.state();
    for place in ["dev", "etc"] {
        let run = attack(By::User(Lent::No), place, outside.path(), &outside);
        assert_eq!(outside.state(), before, "/{place}: {run}");
    }
}

/// What is in the place of a mount and is no directory, or no file, is replaced for the start, and that is said.
#[test]
fn whatever_is_in_the_place_of_a_mount_is_replaced_and_named() {
    or_skip!(need(&["runc", "cc", "busybox"]));
    let original = file("original", "of the image");
    let cases: Vec<(Vec<Entry>, &str)> = vec![
        (vec![file("dev", "a file")], "/dev (a file"),
        (vec![original.clone(), hardlink("proc", "original")], "/proc (a file"),
        (vec![symlink("sys", "/no/such/directory")], "/sys (a symbolic link"),
        (vec![folder("etc/"), symlink("etc/hostname", "/proc/self/fd/1")], "/etc/hostname (a symbolic link"),
        (vec![file("etc", "a file")], "/etc (a file"),
    ];
    for (files, words) in cases {
        let layouts = image(
            &files,
            &json!({}),
            "echo started; cat /etc/hostname; /busybox test -c /dev/null && /busybox cat /original",
        );
        let report = invocation(&layouts, By::Root).run().json();
        let start = start_of(&report);
        assert_eq!(start["stdout"][0], "started", "{words}: {report:#}");
        let said = start["left_out"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().starts_with(words));
        assert!(said, "{words}: {report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn a_mount_is_seen_through_the_links_of_an_image_and_never_made_outside() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    for by in [By::Root, By::User(Lent::Yes)] {
        for (link, to) in
            [("var/run", "/run"), ("var/run", "../run"), ("var", "private/var"), ("var/run", "/nowhere/yet")]
        {
            let files = [folder("run/"), folder("private/"), folder("private/var/"), symlink(link, to)];
            let layouts = image(&files, &json!({}), "cat /var/run/x/below/file; cat /var/run/y");
            let outside = Outside::new();
            let before = outside.state();
            let mounts = [format!("{}:/var/run/x", outside.path()), format!("{}/ptmx:/var/run/y", outside.path())];
            let run =
                invocation(&layouts, by).args(["--start-mount", &mounts[0], "--start-mount", &mounts[1]]).run().ok();
            let stdout = start_of(&run.json())["stdout"].clone();
            assert_eq!(stdout, json!(["as it wasas it was"]), "{by:?} {link} -> {to}: {run}");
            assert_eq!(outside.state(), before);
            assert_nothing_is_left(&layouts);
        }
    }
}

#[test]
fn the_target_of_a_mount_and_the_working_directory_are_not_made_outside() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    for by in [By::Root, By::User(Lent::Yes)] {
        let outside = Outside::new();
        let before = outside.state();
        for target in ways_out(outside.path()).into_iter().step_by(if by == By::Root { 1 } else { 3 }) {
            let to = if target == "itself" { "given" } else { &target };
            let files = [symlink("hop", "hop-2"), symlink("hop-2", outside.path()), symlink("given", to)];
            for place in ["/given", "/given/new/deeper"] {
                let layouts = image(&files, &json!({}), "echo started");
                let run = invocation(&layouts, by).args(["--start-mount", &format!("/etc/passwd:{place}")]).run();
                assert_eq!(outside.state(), before, "{by:?} {place} -> {to}: {run}");
                assert_nothing_is_left(&layouts);
                let layouts = image(&files, &json!({"WorkingDir": place}), "echo x > written-by-the-image");
                let run = invocation(&layouts, by).run();
                assert_eq!(outside.state(), before, "{by:?} {place} -> {to}: {run}");
                assert_nothing_is_left(&layouts);
            }
        }
    }
}

/// The descriptors that a runtime has open are no way out.
#[test]
fn a_working_directory_below_proc_is_not_entered() {
    or_skip!(need(&["runc", "cc", "busybox"]));
    let link = [symlink("innocent", "/proc/self/fd/7")];
    for (files, place) in [
        (&[][..], "/proc/self/fd/7"),
        (&[], "/proc/self/fd/8/../../.."),
        (&[], "/proc/1/cwd"),
        (&[], "/dev/fd/7"),
        (&link, "/innocent"),
        (&link, "/innocent/../../.."),
    ] {
        let layouts = image(files, &json!({"WorkingDir": place}), "echo started; cat etc/shadow");
        let report = invocation(&layouts, By::Root).run().refused().json();
        let start = start_of(&report);
        assert_eq!((&start["outcome"], &start["stdout"]), (&json!("not-executed"), &json!([])), "{place}: {report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn an_ordinary_working_directory_is_where_the_program_starts() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    let files = [
        folder("run/"),
        folder("var/"),
        symlink("var/run", "../run"),
        symlink("data", "/srv/data"),
        folder("srv/"),
        folder("srv/data/"),
        folder("shut/").owned(7, 7),
    ];
    for by in [By::Root, By::User(Lent::Yes)] {
        for (place, seen) in [
            ("/var/run/made", "/run/made"),
            ("/data/x", "/srv/data/x"),
            ("/dev", "/dev"),
            ("/proc", "/proc"),
            ("/dev/shm/x", "/dev/shm/x"),
            ("/shut", "/shut"),
            ("/", "/"),
            ("/run/../run/./", "/run"),
        ] {
            let layouts = image(&files, &json!({"WorkingDir": place}), "/busybox pwd -P");
            let report = invocation(&layouts, by).run().ok().json();
            assert_eq!(start_of(&report)["stdout"], json!([seen]), "{by:?} {place}: {report:#}");
            assert_nothing_is_left(&layouts);
        }
    }
}

/// The files of source and result are shared: what the one's program writes, the other's never sees.
#[test]
fn what_a_source_writes_to_its_files_the_result_does_not_see() {
    or_skip!(need(&["runc", "cc", "busybox"]));
    let files = [folder("data/"), file("data/a", "first").mode(0o666), hardlink("data/b", "data/a")];
    let script =
        "cat /data/a /data/b; echo changed > /data/a; echo more >> /data/b; chmod 777 /data/b; touch -d @1 /app";
    let busybox = std::fs::read(find("busybox").unwrap()).unwrap();
    let old = old_base(&[program("usr/bin/tool", "x")]);
    let own = [&files[..], &[program("app", "x"), program("busybox", busybox)]].concat();
    let app = upon(&old, [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": ["/busybox", "sh", "-c", script]}));
    let layouts = Layouts::on(&old, &app);
    let report = layouts.rebase("out").args(["--start=1", "--json"]).run().json();
    let started = &report["platforms"][0]["started"];
    for which in ["source", "result"] {
        assert_eq!(started[which]["stdout"], json!(["firstfirst"]), "{report:#}");
    }
    assert_nothing_is_left(&layouts);
}

/// A tmpfs below a directory, in mounts that nobody else sees.
fn with_a_mount_below(layouts: &Layouts, given: &Path, by: By) -> Invocation {
    let enter = r#"mount -t tmpfs tmpfs "$given/mounted" && echo inside > "$given/mounted/file" && chmod -R 777 "$given" && exec "$@""#;
    let inner = match by {
        By::Root => vec![crate::support::invocation::binary()],
        By::User(_) => {
            ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"].map(str::to_owned).to_vec()
        }
    };
    let binary: Vec<PathBuf> = match by {
        By::Root => Vec::new(),
        By::User(_) => {
            rootless::open_to_user(layouts);
            vec![rootless::binary_for_users(layouts)]
        }
    };
    let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", enter, "sh"]).env("given", given);
    unshare.args(inner).args(binary).args(START)
}

#[test]
fn what_is_mounted_below_a_mount_is_read_and_not_written() {
    or_skip!(need(&["busybox"]).and_then(|()| can_start()));
    for by in [By::Root, By::User(Lent::No)] {
        let script = "cat /given/mounted/file; for at in /given/new /given/mounted/new /given/mounted/file; do echo x 2>/dev/null > $at && echo wrote $at; done";
        for to in ["/given", "/dev/given"] {
            let layouts = image(&[], &json!({}), &script.replace("/given", to));
            let given = layouts.sandbox.path("given");
            std::fs::create_dir_all(given.join("mounted")).unwrap();
            let run = with_a_mount_below(&layouts, &given, by)
                .args(["--start-mount", &format!("{}:{to}", given.display())])
                .run();
            let stdout = start_of(&run.json())["stdout"].clone();
            assert_eq!(stdout, json!(["inside"]), "{by:?} {to}: {run}");
            assert_nothing_is_left(&layouts);
        }
    }
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: main\n    image: x\n    \
    volumeMounts: [{name: a, mountPath: PLACE/directory}, {name: b, mountPath: PLACE/file}]\n  \
    volumes: [{name: a, emptyDir: {}}, {name: b, hostPath: {path: /x, type: File}}]\n";

/// The volumes of a pod are where it says, also behind a link of the image, and never outside.
#[test]
fn the_volumes_of_a_pod_are_not_made_outside() {
    or_skip!(need(&["runc", "busybox"]));
    let outside = Outside::new();
    let before = outside.state();
    let busybox = std::fs::read(find("busybox").unwrap()).unwrap();
    for (to, place) in [
        (outside.path(), "/vol"),
        ("../../../../../../tmp", "/vol"),
        ("usr", "/vol"),
        ("/proc/self/root/tmp", "/tmp/vol"),
    ] {
        let old = old_base(&[program("usr/bin/tool", "x")]);
        let script = format!(
            "test -d {place}/directory && echo x > {place}/directory/new && echo x > {place}/file && echo wrote"
        );
        let own = [program("busybox", busybox.clone()), symlink("vol", to)];
        let app = upon(&old, [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": ["/busybox", "sh", "-c", script]}));
        let layouts = Layouts::on(&old, &app);
        std::fs::write(layouts.layout("pod.yaml"), POD.replace("PLACE", place)).unwrap();
        let run = layouts.rebase("out").args(["--command-from", "pod.yaml#main", "--start=1", "--json"]).run();
        let started = run.json()["platforms"][0]["started"].clone();
        assert_eq!(outside.state(), before, "{to}: {run}");
        assert!(!Path::new("/tmp/directory").exists() && !Path::new("/tmp/vol").exists(), "{to}: {run}");
        assert_eq!(started["source"]["stdout"], json!(["wrote"]), "{to}: {run}");
        assert_nothing_is_left(&layouts);
    }
}
