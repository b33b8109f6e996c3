//! Starts by a user who is not root: in a user namespace, with the numbers that `/etc/subuid` lends, or without any.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;

use serde_json::json;

use super::{acting, assert_nothing_is_left, leftovers, start_of};
use crate::support::invocation::{Invocation, binary};
use crate::support::layouts::{Layouts, findings};
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, missing, need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, folder};

const UID: u32 = 12_345;

/// Whether `/etc/subuid` and `/etc/subgid` lend the user numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lent {
    Yes,
    No,
}

/// What is special of the user's machine is mounted where nobody else sees it: the accounts, the numbers that are lent,
/// and the binary, which may be where the user cannot go.
const ENTER: &str = r#"
set -e
echo "$lent" > "$place/sub"
cp /etc/passwd "$place/passwd"
echo "tester:x:12345:12345::/nonexistent:/bin/sh" >> "$place/passwd"
touch "$place/underpin"
chmod 644 "$place/sub" "$place/passwd"
mount --bind "$place/sub" /etc/subuid
mount --bind "$place/sub" /etc/subgid
mount --bind "$place/passwd" /etc/passwd
mount --bind "$binary" "$place/underpin"
exec setpriv --reuid 12345 --regid 12345 --clear-groups "$place/underpin" "$@"
"#;

pub fn can_start() -> Part<()> {
    need(&["runc", "cc", "setpriv", "unshare", "newuidmap"])?;
    let tried = std::process::Command::new("setpriv")
        .args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "unshare", "--user", "true"])
        .output();
    if tried.is_ok_and(|ended| ended.status.success()) { Ok(()) } else { Err(missing("user namespaces for users")) }
}

/// Everything that the user reads, and one directory to write to.
pub fn layouts(app: &Recipe) -> Layouts {
    let layouts = super::layouts(app);
    open_to_user(&layouts);
    layouts
}

/// Makes layouts readable for the user, with directories of the user's own to write to.
pub fn open_to_user(layouts: &Layouts) {
    for name in ["", "here"] {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(layouts.sandbox.path(name), open).unwrap();
    }
    for name in ["tmp", "home", "here"] {
        chown(layouts.sandbox.path(name), Some(UID), Some(UID)).unwrap();
    }
}

pub fn as_user(layouts: &Layouts, lent: Lent, args: &[&str]) -> Invocation {
    let place = layouts.sandbox.path("machine");
    std::fs::create_dir_all(&place).unwrap();
    let numbers = if lent == Lent::Yes { "tester:200000:65536" } else { "" };
    let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", ENTER, "sh"]).args(args);
    unshare.env("place", place).env("lent", numbers).env("binary", binary())
}

/// A copy of the binary that the user can execute.
pub fn binary_for_users(layouts: &Layouts) -> PathBuf {
    let path = layouts.sandbox.path("underpin");
    std::fs::copy(binary(), &path).unwrap();
    path
}

const START: [&str; 6] = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json"];

/// The file is for one user only; so is the directory, which only that user can empty.
pub fn private(user: &str, command: &[&str]) -> Recipe {
    let mut app = acting(command);
    app.layers.push(Layer::of(
        Pack::Gzip,
        &[folder("shut/").mode(0o700).owned(1234, 77), file("shut/inside", "x").mode(0o600).owned(1234, 77)],
    ));
    app.config["User"] = user.into();
    app
}

#[test]
fn without_root_source_and_result_are_started_and_compared() {
    or_skip!(can_start());
    let rebase = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", "oci:out:v1"];
    let rebase = [rebase.as_slice(), &["--no-cache", "--start=1", "--json"]].concat();
    for lent in [Lent::Yes, Lent::No] {
        let good = layouts(&acting(&["serve"]));
        let report = as_user(&good, lent, &rebase).run().ok().json();
        let started = &report["platforms"][0]["started"];
        for which in ["source", "result"] {
            assert_eq!((&started[which]["outcome"], &started[which]["ports"]), (&json!("running"), &json!([8080])));
            assert_eq!(
                (&started[which]["opened"], &started[which]["not_watched"]),
                (&json!(null), &json!("that takes root's rights"))
            );
        }
        assert_nothing_is_left(&good);
        let bad = layouts(&acting(&["run-hidden"]));
        let report = as_user(&bad, lent, &rebase).run().refused().json();
        assert!(findings(&report["platforms"][0]).contains(&"refuse start-failed".to_owned()), "{report:#}");
        assert_nothing_is_left(&bad);
    }
}

#[test]
fn files_belong_to_whom_the_image_says_where_numbers_are_lent() {
    or_skip!(can_start());
    for (user, outcome) in [("1234:77", 0), ("1235:77", 4), ("0", 0)] {
        let layouts = layouts(&private(user, &["need", "/shut/inside"]));
        let report = as_user(&layouts, Lent::Yes, &START).run().json();
        assert_eq!(start_of(&report)["status"], outcome, "{user}: {report:#}");
        assert_eq!(start_of(&report)["left_out"], json!([]), "{report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn without_numbers_only_root_is_there_and_that_is_said() {
    or_skip!(can_start());
    let root = layouts(&private("0", &["need", "/shut/inside"]));
    let report = as_user(&root, Lent::No, &START).run().ok().json();
    let left_out = start_of(&report)["left_out"][0].as_str().unwrap();
    assert!(left_out.starts_with("the owners of 2 files") && left_out.contains("/etc/subuid"), "{left_out}");
    assert_nothing_is_left(&root);
    let other = layouts(&private("1234:77", &["need", "/shut/inside"]));
    let report = as_user(&other, Lent::No, &START).run().refused().json();
    assert_eq!(start_of(&report)["outcome"], "not-started", "{report:#}");
    let finding = &report["platforms"][0]["findings"][0];
    assert_eq!(finding["rule"], "start-unproven");
    assert!(finding["fix"].as_str().unwrap().contains("/etc/subuid"), "{finding:#}");
}

#[test]
fn without_root_too_the_limits_hold_and_nothing_that_an_attack_needs_is_allowed() {
    or_skip!(can_start());
    let attack = layouts(&acting(&["attack"]));
    let report = as_user(&attack, Lent::Yes, &START).run().ok().json();
    assert_eq!(start_of(&report)["stdout"], json!(["tried"]), "{report:#}");
    assert_nothing_is_left(&attack);
    for act in ["forks", "write", "deaf"] {
        let layouts = layouts(&acting(&[act]));
        let run = as_user(&layouts, Lent::Yes, &START).run();
        assert!(matches!(run.code(), Some(0 | 1)), "{act}: {run}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn without_root_too_what_a_killed_run_leaves_the_next_one_removes() {
    or_skip!(can_start());
    let layouts = layouts(&private("1234:77", &["deaf"]));
    let long = ["start", "oci:app:v1", "--no-cache", "--seconds", "60"];
    let seen = leftovers::killed(&layouts, 8, || as_user(&layouts, Lent::Yes, &long).start());
    as_user(&layouts, Lent::Yes, &START).run().ok();
    leftovers::assert_all_is_gone(&layouts, &seen);
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let running = as_user(&layouts, Lent::Yes, &long).start();
        leftovers::wait_for_program(&layouts);
        let seen = leftovers::runs(&layouts);
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.code(), Some(code), "{run}");
        leftovers::assert_all_is_gone(&layouts, &seen);
    }
}
