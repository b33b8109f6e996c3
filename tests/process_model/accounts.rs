//! `User` on account files of all kinds.

use crate::pair::{GROUP, PASSWD, Pair, pair};
use crate::support::tar_layer::{file, folder, symlink};

const USERS: [&str; 30] = [
    "",
    "0",
    "root",
    "app",
    "1000",
    "app:app",
    "app:0",
    "1000:extra",
    "app:29",
    "svc",
    "33",
    "33:33",
    "ghost",
    "ghost:0",
    "0:ghost",
    "4242",
    "4242:4242",
    "4242:audio",
    "-1",
    "2147483647",
    "2147483648",
    "99999999999999999999",
    "+1000",
    "01000",
    "1000:",
    ":1001",
    ":",
    "app ",
    "1e3",
    "app:-1",
];

fn named(kind: &str, users: &[&str], root: impl Fn(Pair) -> Pair) -> Vec<Pair> {
    users.iter().map(|user| root(pair(format!("user {user:?} {kind}")).user(user))).collect()
}

fn with(passwd: &str, group: &str) -> impl Fn(Pair) -> Pair {
    move |pair| pair.without(["etc/passwd", "etc/group"]).files([file("etc/passwd", passwd), file("etc/group", group)])
}

pub fn ordinary() -> Vec<Pair> {
    let few = ["", "app", "1000", "0:app", "4242:extra", "4242"];
    [
        named("", &USERS, |pair| pair),
        named("without files", &few, |pair| pair.without(["etc/passwd", "etc/group"])),
        named("without passwd", &few, |pair| pair.without(["etc/passwd"])),
        named("without group", &few, |pair| pair.without(["etc/group"])),
        named("with empty files", &few, with("", "")),
        named("without /etc", &few[..3], |pair| pair.without(["etc/", "etc/passwd", "etc/group"])),
        named("through links", &few, |pair| {
            // The index keeps what is at `/etc/passwd`, not what a link there leads to.
            let pair = pair.cautious("account files behind a link are not read");
            pair.without(["etc/passwd", "etc/group"]).files([
                symlink("etc/passwd", "../opt/passwd"),
                symlink("etc/group", "../opt/group"),
                file("opt/passwd", PASSWD),
                file("opt/group", GROUP),
            ])
        }),
    ]
    .concat()
}

const MALFORMED: &str = "  app:x:1000:1001::/srv/app:/bin/sh  \n\n# root:x:5:5::/comment:\nshort\nname-only:\nbad:x:none:1::/bad:\n\
    bad-group:x:41:none::/bad-group:\nno-home:x:42:6\nempty-home:x:43:6:::\nnegative:x:-1:0::/negative:\nhuge:x:99999999999999999999:0::/huge:\n\
    large:x:4294967295:0::/large:\nplus:x:+44:+7::/plus:\nzero:x:045:08::/zero:\nspaced:x: 46:7::/spaced:\nmany:x:47:7::/many:/bin/sh:more:fields\n\
    :x:48:48::/nameless:\nrelative:x:49:49::relative/home:\n1234:x:50:50::/digits:\nunder:x:5_1:1::/under:\n";
const MALFORMED_GROUP: &str = " app:x:1001:\n\nshort\nlist:x:60:app,,no-home\nbad:x:none:app\nspaces:x:61: app , no-home\nmore:x:62:app:x\n\
    negative:x:-1:negative\ntwice:x:63:app,app\ntwice:x:64:app\n:x:65:app\nno-number::: \n";

/// Lines that no tool writes, and lines that are there twice.
pub fn damaged() -> Vec<Pair> {
    let users = [
        "",
        "0",
        "app",
        "1000",
        "short",
        "name-only",
        "bad",
        "bad-group",
        "41",
        "no-home",
        "42",
        "empty-home",
        "43",
        "negative",
        "huge",
        "large",
        "plus",
        "44",
        "zero",
        "45",
        "spaced",
        "many",
        "48",
        "relative",
        "1234",
        "50",
        "under",
        "app:bad",
        "app:short",
        "app:negative",
        "app:spaces",
        "app:twice",
        "app:no-number",
        "root",
        "# root",
        "app:65",
    ];
    let twice = "app:x:1000:1001::/first:\nroot:x:7:7::/not-root:\napp:x:1000:1001::/second:\nother:x:7:8::/other:\nroot:x:0:0::/root:\nlate:x:0:5::/late:\n";
    let groups = "one:x:80:app\none:x:81:app\nroot:x:9:root,late\ntwo:x:80:app\n";
    let few = ["", "0", "root", "app", "1000", "7", "other", "late", "app:one", "7:two"];
    [
        named("of malformed lines", &users, with(MALFORMED, MALFORMED_GROUP)),
        named("of lines that are there twice", &few, with(twice, groups)),
        named("of lines that end as on Windows", &["", "app", "1000", "app:audio"], |pair| {
            with(&PASSWD.replace('\n', "\r\n"), &GROUP.replace('\n', "\r\n"))(pair)
        }),
        named("of files without a last newline", &["nobody", "0:nogroup"], |pair| {
            with(PASSWD.trim_end(), GROUP.trim_end())(pair)
        }),
        named("of files that only root may read", &["app", "1000"], |pair| {
            pair.without(["etc/passwd", "etc/group"])
                .files([file("etc/passwd", PASSWD).mode(0o600), file("etc/group", GROUP).mode(0)])
        }),
        named("of a directory", &["", "app", "1000"], |pair| {
            pair.without(["etc/passwd"]).files([folder("etc/passwd/")])
        }),
        named("of a link to nowhere", &["", "app", "1000"], |pair| {
            pair.without(["etc/passwd"]).files([symlink("etc/passwd", "nowhere")])
        }),
    ]
    .concat()
}
