//! Where the directory for temporary files is not what it should be: a start works there, or says why it does not.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use serde_json::json;

use super::rootless::{Lent, as_user, can_start};
use super::{acting, assert_nothing_is_left, layouts, rootless, start_of};
use crate::support::invocation::Invocation;
use crate::support::layouts::Layouts;
use crate::support::skip::{need, or_skip};

const START: [&str; 6] = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json"];

/// A start with a tmpfs as its directory for temporary files, mounted with these options.
fn on_tmpfs(layouts: &Layouts, options: &str) -> Invocation {
    let enter = r#"mount -t tmpfs -o "$options" tmpfs "$TMPDIR" && exec "$@""#;
    let binary = crate::support::invocation::binary();
    let unshare = layouts.sandbox.program("unshare", ["--mount", "sh", "-c", enter, "sh", &binary]);
    unshare.args(&START[..START.len() - 1]).env("options", options)
}

#[test]
fn a_start_works_on_every_kind_of_file_system_that_can_be_written() {
    or_skip!(need(&["runc", "cc", "unshare"]));
    for options in
        ["size=64m,noexec", "size=64m,nosuid,nodev,noexec,noatime", "size=64m,nr_inodes=200", "size=64m,mode=700"]
    {
        let layouts = layouts(&acting(&["stay"]));
        let run = on_tmpfs(&layouts, options).arg("--json").run().ok();
        assert_eq!(start_of(&run.json())["outcome"], "running", "{options}: {run}");
    }
}

#[test]
fn a_file_system_that_is_read_only_or_full_is_named() {
    or_skip!(need(&["runc", "cc", "unshare"]));
    for (options, words) in [
        ("ro", "ead-only file system"),
        ("size=16k", "o space left on device"),
        ("size=256k", "o space left on device"),
        ("size=64m,nr_inodes=2", "o space left on device"),
        ("size=64m,nr_inodes=9", "o space left on device"),
        ("size=64m,nr_inodes=14", "o space left on device"),
    ] {
        let layouts = layouts(&acting(&["stay"]));
        let tmp = layouts.sandbox.path("tmp").display().to_string();
        on_tmpfs(&layouts, options).run().fails("local-io").says(words).says(&tmp);
        assert_nothing_is_left(&layouts);
    }
}

/// Whoever can rename the directory of a run can put another in its place, which root would then write to.
#[test]
fn a_directory_that_others_can_replace_is_not_used() {
    or_skip!(need(&["runc", "cc"]));
    let app = acting(&["stay"]);
    for (mode, owner, is_used) in [
        (0o777, 0, false),
        (0o1777, 0, true),
        (0o755, 0, true),
        (0o700, 0, true),
        (0o755, 1234, false),
        (0o1777, 1234, false),
    ] {
        for place in ["tmp", "tmp/below/it"] {
            let layouts = layouts(&app);
            let tmp = layouts.sandbox.path("tmp");
            std::fs::create_dir_all(layouts.sandbox.path(place)).unwrap();
            chown(&tmp, Some(owner), Some(owner)).unwrap();
            std::fs::set_permissions(&tmp, std::fs::Permissions::from_mode(mode)).unwrap();
            let start = layouts.underpin(&START[..START.len() - 1]).env("TMPDIR", layouts.sandbox.path(place));
            if is_used {
                start.run().ok();
            } else {
                start.run().fails("usage").says(tmp.to_str().unwrap()).says("TMPDIR");
            }
            assert_nothing_is_left(&layouts);
        }
    }
}

#[test]
fn a_link_a_strange_name_and_a_relative_path_lead_to_the_same() {
    or_skip!(need(&["runc", "cc"]));
    for (name, to) in [
        ("link", Some("tmp")),
        ("with spaces, commas: and \"quotes\" \\ é", None),
        ("upperdir=x,lowerdir=y:z", None),
        ("line\nfeed", None),
    ] {
        let layouts = layouts(&acting(&["open", "/app"]));
        let place = layouts.sandbox.path(name);
        match to {
            Some(to) => symlink(to, &place).unwrap(),
            None => std::fs::create_dir(&place).unwrap(),
        }
        let report = layouts.underpin(&START).env("TMPDIR", &place).run().ok().json();
        let start = start_of(&report);
        assert_eq!((&start["outcome"], &start["opened"]), (&json!("running"), &json!(1)), "{name}: {report:#}");
        let left: Vec<_> = crate::support::invocation::files_under(&place);
        assert!(left.iter().all(|path| path.ends_with("lock")), "{left:?}");
    }
    let layouts = layouts(&acting(&["stay"]));
    layouts.underpin(&START).env("TMPDIR", "../tmp").run().ok();
    assert_nothing_is_left(&layouts);
}

#[test]
fn a_directory_that_is_not_there_or_a_file_is_named() {
    or_skip!(need(&["runc", "cc"]));
    let layouts = layouts(&acting(&["stay"]));
    std::fs::write(layouts.sandbox.path("file"), "x").unwrap();
    symlink("nowhere", layouts.sandbox.path("dangling")).unwrap();
    for name in ["not-there", "file", "dangling"] {
        let place = layouts.sandbox.path(name);
        let start = layouts.underpin(&START[..START.len() - 1]).env("TMPDIR", &place);
        start.run().fails("local-io").says(place.to_str().unwrap());
    }
    assert!(!layouts.sandbox.path("not-there").exists() && !layouts.sandbox.path("nowhere").exists());
}

#[test]
fn without_root_a_directory_that_cannot_be_written_is_named() {
    or_skip!(can_start());
    let layouts = rootless::layouts(&acting(&["stay"]));
    let tmp = layouts.sandbox.path("tmp");
    chown(&tmp, Some(0), Some(0)).unwrap();
    as_user(&layouts, Lent::Yes, &START[..START.len() - 1]).run().fails("local-io").says(tmp.to_str().unwrap());
    assert_nothing_is_left(&layouts);
}
