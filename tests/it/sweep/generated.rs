//! Images made by combination: one trait of each kind, by a seed. Each comes twice under one name: an attack, in
//! which one or two of the traits take something from the old base, and its twin, which brings the same itself.
//! Which of the two it is follows from how it is made.

use fastrand::Rng;
use serde_json::json;

use super::bases::{BaseImage, DEBIAN_GROUP, DEBIAN_PASSWD, debug, distroless, nonroot, with_shell};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tool};
use crate::support::skip::find;
use crate::support::tar_layer::{file, folder, program, symlink, whiteout};

const SEED: u64 = 0xba5e;
/// Pairs in each of the parts, which run side by side.
const COUNT: u64 = 20;
pub const PARTS: u64 = 4;

/// What a case is made of.
type Made = fn(Case) -> Case;

/// Traits of one kind: those that the image brings itself, and those that it takes from the old base.
struct Kinds {
    own: &'static [(&'static str, Made)],
    taken: &'static [(&'static str, Made)],
}

/// In this order they build on one another: the program, who runs it, what stands before it and behind it.
const TRAITS: [Kinds; 7] = [
    Kinds {
        own: &[("app", |case| case), ("in-path", in_path), ("own-link", own_link), ("deep", deep)],
        taken: &[("link-of-the-base", link_of_the_base), ("directory-link-of-the-base", directory_link_of_the_base)],
    },
    Kinds {
        own: &[
            ("root", |case| case.user("0")),
            ("number", |case| case.user("4711")),
            ("numbers", |case| case.user("4711:4712")),
            ("own-account", own_account),
        ],
        taken: &[("account-of-the-base", account_of_the_base), ("number-of-the-base", number_of_the_base)],
    },
    Kinds {
        own: &[("any-mode", |case| case), ("group-mode", group_mode), ("open-directory", open_directory)],
        taken: &[("group-of-the-base", group_of_the_base)],
    },
    Kinds {
        own: &[("root-directory", |case| case.workdir("/")), ("own-directory", own_directory), ("made", made)],
        taken: &[("directory-of-the-base", directory_of_the_base)],
    },
    Kinds {
        own: &[("alone", |case| case), ("own-tini", own_tini), ("own-nice", own_nice), ("tini-and-nice", nested)],
        taken: &[("tini-of-the-base", tini_of_the_base), ("env-of-the-base", env_of_the_base)],
    },
    Kinds {
        own: &[("no-variable", |case| case), ("own-variable", own_variable), ("own-file", own_file)],
        taken: &[("file-of-the-base", file_of_the_base), ("named-by-variable", named_by_variable)],
    },
    Kinds {
        own: &[("one-layer", |case| case), ("replaced", replaced), ("removed", removed), ("written", written)],
        taken: &[("data-link-of-the-base", data_link_of_the_base), ("written-in-the-base", written_in_the_base)],
    },
];

/// The same every time; one of [`PARTS`] parts.
pub fn cases(part: u64) -> Vec<Case> {
    (part * COUNT..(part + 1) * COUNT).flat_map(pair).collect()
}

pub fn all() -> Vec<Case> {
    (0..PARTS).flat_map(cases).collect()
}

fn pair(number: u64) -> [Case; 2] {
    let mut random = Rng::with_seed(SEED + number);
    let own: Vec<_> = TRAITS.iter().map(|kinds| kinds.own[random.usize(..kinds.own.len())]).collect();
    let mut taken = own.clone();
    for _ in 0..random.usize(1..3) {
        let at = random.usize(..TRAITS.len());
        taken[at] = TRAITS[at].taken[random.usize(..TRAITS[at].taken.len())];
    }
    let new = random.usize(..4);
    let name = |traits: &[(&str, Made)]| {
        let names: Vec<&str> = traits.iter().map(|(name, _)| *name).collect();
        format!("seed-{SEED:x}+{number}/{}", names.join("+"))
    };
    let built = |case: Case, traits: &[(&str, Made)]| {
        traits.iter().fold(case.new_base(new_base(new)), |case, (_, made)| made(case))
    };
    [built(attack(&name(&taken)), &taken), built(ordinary(&name(&own)), &own)]
}

fn new_base(number: usize) -> BaseImage {
    match number {
        0 => distroless(),
        1 => nonroot(),
        2 => with_shell(),
        _ => debug(),
    }
}

fn argument(mut case: Case, word: &str) -> Case {
    let words = case.own["Cmd"].as_array().cloned().unwrap_or_default();
    case.own["Cmd"] = words.into_iter().chain([json!(word)]).collect();
    case
}

/// Before the words that are there.
fn before(mut case: Case, words: &[&str]) -> Case {
    let there = case.own["Entrypoint"].as_array().cloned().unwrap_or_default();
    case.own["Entrypoint"] = words.iter().map(|word| json!(word)).chain(there).collect();
    case
}

fn variable(mut case: Case, text: &str) -> Case {
    let there = case.own["Env"].as_array().cloned().unwrap_or_default();
    case.own["Env"] = there.into_iter().chain([json!(text)]).collect();
    case
}

fn old_with<const N: usize>(mut case: Case, files: [crate::support::tar_layer::Entry; N]) -> Case {
    case.old.layers.push(files.into());
    case
}

fn installed(name: &str) -> Vec<u8> {
    std::fs::read(find(name).unwrap()).unwrap()
}

// The program.

fn in_path(case: Case) -> Case {
    case.only([program("usr/bin/server", observer())]).entrypoint(["server"])
}

fn own_link(case: Case) -> Case {
    case.files([folder("opt/own/"), symlink("opt/own/run", "../../app")]).entrypoint(["/opt/own/run"])
}

fn deep(case: Case) -> Case {
    let case = case.only([folder("opt/a/"), folder("opt/a/b/"), program("opt/a/b/server", observer())]);
    variable(case, "PATH=/opt/a/b:/usr/bin:/bin").entrypoint(["server"])
}

fn link_of_the_base(case: Case) -> Case {
    old_with(case, [folder("opt/base/"), symlink("opt/base/run", "/app")]).entrypoint(["/opt/base/run"])
}

fn directory_link_of_the_base(case: Case) -> Case {
    let case = old_with(case, [symlink("srv/now", "/opt/v1")]);
    case.only([folder("opt/v1/"), program("opt/v1/server", observer())]).entrypoint(["/srv/now/server"])
}

// Who runs it.

const APP: &str = "app:x:1000:1000:App:/srv:/bin/sh\n";
const APP_GROUPS: &str = "app:x:1000:\nmedia:x:997:app\n";

fn own_account(case: Case) -> Case {
    let passwd = file("etc/passwd", format!("{DEBIAN_PASSWD}{APP}"));
    case.files([passwd, file("etc/group", format!("{DEBIAN_GROUP}{APP_GROUPS}"))]).user("app")
}

fn known_to_the_base(mut case: Case) -> Case {
    case.old = case.old.accounts(APP, APP_GROUPS);
    case
}

fn account_of_the_base(case: Case) -> Case {
    known_to_the_base(case).user("app")
}

fn number_of_the_base(case: Case) -> Case {
    known_to_the_base(case).user("1000")
}

// What the program and the way to it allow.

fn group_mode(case: Case) -> Case {
    case.files([file("opt/open.conf", "x").mode(0o644), folder("opt/listed/").mode(0o711)])
}

fn open_directory(case: Case) -> Case {
    argument(case.files([folder("opt/open/").mode(0o1777)]), "--data-dir=/opt/open")
}

/// Only a member of a group of the old base may read it.
fn group_of_the_base(case: Case) -> Case {
    let case = known_to_the_base(case).user("1000");
    argument(case.files([file("opt/members.conf", "x").owned(0, 997).mode(0o640)]), "--config=/opt/members.conf")
}

// Where it starts.

fn own_directory(case: Case) -> Case {
    let case = case.files([folder("srv/own/"), file("srv/own/app.conf", "x")]).workdir("/srv/own");
    argument(case, "--config=app.conf")
}

fn made(case: Case) -> Case {
    case.workdir("/srv/made/by/the/runtime")
}

fn directory_of_the_base(case: Case) -> Case {
    let case = old_with(case, [folder("srv/base/"), file("srv/base/app.conf", "x")]);
    argument(case.workdir("/srv/base"), "--config=app.conf")
}

// What stands before it.

fn own_tini(case: Case) -> Case {
    before(case.files([program("tini", installed("tini-static"))]), &["/tini", "--"])
}

fn own_nice(case: Case) -> Case {
    before(case.files([program("usr/bin/nice", tool())]), &["/usr/bin/nice", "-n", "3"])
}

fn nested(case: Case) -> Case {
    own_tini(own_nice(case))
}

fn tini_of_the_base(case: Case) -> Case {
    before(old_with(case, [program("usr/bin/tini", installed("tini-static"))]), &["/usr/bin/tini", "--"])
}

fn env_of_the_base(case: Case) -> Case {
    before(case, &["/usr/bin/env", "MODE=x"]).noticed(["MODE"])
}

// What it is given.

fn own_variable(case: Case) -> Case {
    argument(variable(case, "MODE=own"), "--from-env=MODE")
}

fn own_file(case: Case) -> Case {
    argument(case.files([file("etc/app.conf", "x")]), "--config=/etc/app.conf")
}

fn file_of_the_base(case: Case) -> Case {
    argument(case, "--config=/etc/base.conf")
}

fn named_by_variable(case: Case) -> Case {
    argument(variable(case, "CONFIG=/etc/ssl/base.pem"), "--config-env=CONFIG")
}

// Between the layers.

fn replaced(case: Case) -> Case {
    argument(case.files([file("opt/data", "old")]).layer([file("opt/data", "new")]), "--config=/opt/data")
}

fn removed(case: Case) -> Case {
    case.files([folder("opt/cache/"), file("opt/cache/x", "x")]).layer([whiteout("opt/cache/x")])
}

fn written(case: Case) -> Case {
    argument(case, "--data-dir=/tmp")
}

fn data_link_of_the_base(case: Case) -> Case {
    argument(case.files([symlink("data", "/usr/share/base")]), "--config=/data/data")
}

fn written_in_the_base(case: Case) -> Case {
    argument(old_with(case, [folder("var/lib/base/").mode(0o1777)]), "--data-dir=/var/lib/base")
}
