//! What a start tells to do: bring what was missing, give it time, another runtime, other rights.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::{advice, again, computed_advice};
use crate::real_start::rootless::{Lent, as_user, can_start, private};
use crate::real_start::{acting, layouts, rootless};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run, binary};
use crate::support::layouts::{Layouts, old_base, upon};
use crate::support::programs::c;
use crate::support::recipe::{Dialect, Recipe, index};
use crate::support::skip::{find, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};
use crate::support::tools::tool;

/// A program that takes its time: its health is good after two seconds; and where the notes of its old base are
/// missing, so long passes before it listens.
const SLOW: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int count, char **word) {
    const char *act = count > 1 ? word[1] : "";
    if (!strcmp(act, "check")) return access("/ready", F_OK);
    if (strcmp(act, "serve") || open("/usr/share/notes", O_RDONLY) < 0) sleep(2);
    creat("/ready", 0644);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(8080)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    bind(s, (void *)&at, sizeof at);
    listen(s, 1);
    puts("listening");
    fflush(stdout);
    for (;;) pause();
}
"#;

/// Opens as many files as there are, beginning with /usr/share/many/0.
const OPENS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char path[100];
    for (int at = 0; at < 100; at++) {
        snprintf(path, sizeof path, "/usr/sha%s/many/%d", "re", at);
        close(open(path, O_RDONLY));
    }
    for (;;) pause();
}
"#;

/// The program, with these words, on an old base with these files.
fn of_c(source: &str, words: &[&str], old: &[Entry]) -> (Recipe, Layouts) {
    let old = old_base(&[&[folder("usr/share/")], old].concat());
    let own = [program("app", c("cc", &["-static", "-O1"], source))];
    let command: Vec<&str> = ["/app"].into_iter().chain(words.iter().copied()).collect();
    let app = upon(&old, [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": command}));
    let layouts = Layouts::on(&old, &app);
    (app, layouts)
}

/// `start` of the image.
fn starting<'a>(layouts: &'a Layouts, flags: &'a [&'a str]) -> impl Fn() -> Invocation + 'a {
    move || layouts.underpin(&["start", "oci:app:v1", "--no-cache"]).args(flags)
}

#[test]
fn of_a_program_that_needs_more_time() {
    or_skip!(need(&["runc", "cc"]));
    let (mut app, layouts) = of_c(SLOW, &[], &[]);
    app.config["Healthcheck"] = json!({"Test": ["CMD", "/app", "check"]});
    app.build().layout(&layouts.layout("app"), "v1");
    let run = starting(&layouts, &["--seconds", "1"])().run().refused();
    advice(&run, "a longer --seconds gives the program more time").by_hand("a longer --seconds");
    starting(&layouts, &["--seconds", "4"])().run().ok();

    let (_, layouts) = of_c(SLOW, &["serve"], &[]);
    let rebase = |start: &str| layouts.rebase("out").args([start, "--allow", "opened-but-missing"]).run();
    let run = rebase("--start=1").refused().says("start-differs").says("listens on port 8080");
    let written = "see what both wrote in the report; give a slow program more time with --start=SECONDS";
    computed_advice(&run, written, "src/sandbox/compare.rs: Rule::StartDiffers.fix()").by_hand("--start=SECONDS");
    rebase("--start=4").ok();
}

#[test]
fn of_a_result_that_fails_where_the_source_does_not() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["run"]));
    let move_it = || layouts.rebase("out").args(["--start=1", "--start-arg", "/usr/bin/tool"]);
    let run = move_it().run().refused().says("start-failed").says("cannot run /usr/bin/tool");
    let written = "see what it wrote, and bring what is missing with --bring, or choose a base that has it";
    let told =
        |part: &str| computed_advice(&run, written, "src/sandbox/compare.rs: Rule::StartFailed.fix()").by_hand(part);
    told("bring what is missing with --bring");
    move_it().args(["--bring", "/usr/bin/tool"]).run().ok();
    told("choose a base that has it");
    std::fs::remove_dir_all(layouts.layout("new")).unwrap();
    std::fs::rename(layouts.layout("old"), layouts.layout("new")).unwrap();
    let words = ["rebase", "oci:app:v1", "--old-base", "oci:new:v1", "--base", "oci:new:v1", "--to", "oci:same:v1"];
    layouts.underpin(&words).args(["--no-cache", "--start=1", "--start-arg", "/usr/bin/tool"]).run().ok();
}

#[test]
fn of_more_files_than_are_named() {
    or_skip!(need(&["runc", "cc"]));
    let many: Vec<Entry> = (0..30).map(|at| file(&format!("usr/share/many/{at}"), "x")).collect();
    let (_, layouts) = of_c(OPENS, &[], &[vec![folder("usr/share/many/")], many].concat());
    let move_it = || layouts.rebase("out").arg("--start=1");
    let run = move_it().run().refused().says("10 more files");
    let written = "bring the files above and run again: then these are named; if the program does without all of them, pass --allow opened-but-missing";
    again(move_it, &advice(&run, written).flags("--allow opened-but-missing", &[])).ok();
    advice(&run, written).by_hand("bring the files above and run again");
    let bring = |run: &Run| -> Vec<String> {
        let named = run.stderr.lines().filter_map(|line| line.trim().strip_prefix("fix: pass --bring "));
        named.flat_map(|rest| ["--bring".to_owned(), rest.split([',', ';']).next().unwrap().to_owned()]).collect()
    };
    let first = bring(&run);
    let run = again(move_it, &first).refused();
    assert!(!run.stderr.contains("more files"), "{run}");
    again(move_it, &[first, bring(&run)].concat()).ok();
}

#[test]
fn of_a_runtime_that_fails() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["stay"]));
    let runtime = layouts.layout("failing");
    std::fs::write(&runtime, "#!/bin/sh\necho 'no room for control groups' >&2\nexit 1\n").unwrap();
    tool("chmod", &["755", runtime.to_str().unwrap()]);
    let run = starting(&layouts, &["--seconds", "1", "--runtime", "./failing"])().run().fails("local-io");
    let other = advice(&run, "try it with another runtime: --runtime PATH")
        .flags("--runtime PATH", &[("PATH", find("runc").unwrap().to_str().unwrap())]);
    again(starting(&layouts, &["--seconds", "1"]), &other).ok();
}

#[test]
fn of_what_was_not_started() {
    or_skip!(need(&["runc", "qemu-aarch64-static"]));
    let key = "src/sandbox/compare.rs: why.fix";
    let on = |platform: &str| (platform.to_owned(), fixtures::app(platform, 10).build());
    let both = ["linux/amd64", "linux/arm64"].map(on);
    let both = index(Dialect::Oci, &both.each_ref().map(|(platform, image)| (platform.as_str(), image.clone())));
    let layouts = Layouts::new(&both, &both, &both);
    let start = starting(&layouts, &["--seconds", "1", "--require-all-platforms"]);
    let runc = find("runc").unwrap();
    let run = start().env("PATH", "/nowhere").arg("--runtime").arg(&runc).run().refused();
    let written = "start it on a machine of this platform, or install qemu-user-static";
    computed_advice(&run, written, key).by_hand("install qemu-user-static");
    start().run().ok();
}

#[test]
fn of_an_image_without_a_command() {
    or_skip!(need(&["runc", "cc"]));
    let mut app = acting(&[]);
    app.config = json!({});
    let layouts = layouts(&app);
    let start = starting(&layouts, &["--seconds", "1", "--require-all-platforms"]);
    let run = start().run().refused();
    let key = "src/sandbox/compare.rs: why.fix";
    let told = computed_advice(&run, "name the program to start with --start-arg", key);
    told.by_hand("--start-arg");
    start().args(["--start-arg", "/app"]).run().ok();
}

/// By a user to whom no numbers are lent.
#[test]
fn of_a_user_whose_namespace_does_not_have_that_of_the_image() {
    or_skip!(can_start());
    let layouts = rootless::layouts(&private("1234:77", &["need", "/shut/inside"]));
    let words = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--require-all-platforms"];
    let run = as_user(&layouts, Lent::No, &words).run().refused();
    let written = "run underpin as root, or lend its user numbers in /etc/subuid and /etc/subgid and install uidmap";
    let told = |part: &str| computed_advice(&run, written, "src/sandbox/compare.rs: why.fix").by_hand(part);
    told("lend its user numbers in /etc/subuid and /etc/subgid");
    as_user(&layouts, Lent::Yes, &words).run().ok();
    told("run underpin as root");
    // Root writes to no directory of the user's.
    let own = layouts.sandbox.path("roots");
    std::fs::create_dir(&own).unwrap();
    layouts.underpin(&words).env("TMPDIR", own).run().ok();
}

/// In a user namespace within one that allows so many.
const NESTED: &str = r#"
echo "$namespaces" > /proc/sys/user/max_user_namespaces
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"#;

#[test]
fn of_a_machine_without_user_namespaces() {
    or_skip!(can_start());
    let layouts = layouts(&acting(&["stay"]));
    let words = ["start", "oci:app:v1", "--no-cache", "--seconds", "1"];
    let start = |namespaces: &str| {
        let shell = ["--user", "--map-root-user", "sh", "-ec", NESTED, "sh"];
        let unshare = layouts.sandbox.program("unshare", shell).arg(binary()).args(words);
        unshare.env("namespaces", namespaces).run()
    };
    let run = start("1").fails("local-io");
    let written = "run underpin as root, or allow user namespaces to users on this machine";
    advice(&run, written).by_hand("allow user namespaces to users");
    start("100").ok();
    advice(&run, written).by_hand("run underpin as root");
    layouts.underpin(&words).run().ok();
}

/// Executes its arguments on a kernel that mounts no overlay, as those before 5.11 do for users: what else is mounted has
/// other flags.
const NO_OVERLAY: &str = r"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **word) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MS_NODEV, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    execvp(word[1], word + 1);
    return 1;
}
";

#[test]
fn of_a_kernel_that_mounts_no_overlay_for_users() {
    or_skip!(can_start());
    let layouts = layouts(&acting(&["stay"]));
    let old_kernel = layouts.sandbox.path("old-kernel");
    std::fs::write(&old_kernel, c("cc", &["-O1"], NO_OVERLAY)).unwrap();
    tool("chmod", &["755", old_kernel.to_str().unwrap()]);
    let start = ["start", "oci:app:v1", "--no-cache", "--seconds", "1"];
    let as_user = |kernel: &str| {
        let user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];
        layouts.sandbox.program(kernel, user).arg(binary()).args(start).run()
    };
    let run = as_user(old_kernel.to_str().unwrap()).fails("local-io");
    let written = "run underpin as root, or on Linux 5.11 or newer";
    advice(&run, written).by_hand("on Linux 5.11 or newer");
    as_user("env").ok();
    advice(&run, written).by_hand("run underpin as root");
    layouts.underpin(&start).run().ok();
}

/// Without `mount_setattr` nothing makes the mounts below a directory read-only; below a file there are none.
#[test]
fn of_a_kernel_that_cannot_make_mounts_read_only_with_those_below() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["serve"]));
    let old_kernel = layouts.sandbox.path("old-kernel");
    std::fs::write(&old_kernel, c("cc", &["-static", "-O1"], include_str!("before_5_12.c"))).unwrap();
    std::fs::set_permissions(&old_kernel, std::fs::Permissions::from_mode(0o755)).unwrap();
    let given = layouts.sandbox.path("given");
    std::fs::create_dir(&given).unwrap();
    std::fs::write(given.join("file"), "given").unwrap();
    let start = |from: &Path| {
        let mount = format!("{}:/given", from.display());
        let words = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--start-mount", &mount];
        layouts.sandbox.program(old_kernel.to_str().unwrap(), [&binary()]).args(words)
    };
    let run = start(&given).run().fails("local-io");
    let written = "mount single files with --start-mount, or run underpin on Linux 5.12 or newer";
    advice(&run, written).by_hand("mount single files with --start-mount");
    start(&given.join("file")).run().ok();
}
