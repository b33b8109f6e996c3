//! Who the process is: names and numbers, groups that list the user, homes, and who it becomes when only the
//! old base said who it is.

use serde_json::json;

use super::bases::{
    BaseImage, DEBIAN_GROUP, DEBIAN_PASSWD, DISTROLESS_GROUP, DISTROLESS_PASSWD, debian, distroless, nonroot,
};
use super::case::{Case, attack, ordinary};
use super::program::with_accounts;
use crate::support::tar_layer::{Entry, file, folder, program};

pub fn cases() -> Vec<Case> {
    [named(), numbered(), implied(), looked_up()].concat()
}

const APP: &str = "app:x:1000:1000:App:/srv/app:/bin/sh\n";
const APP_GROUP: &str = "app:x:1000:\n";

/// A base with the account `app`, its home, and groups that list it.
fn base() -> BaseImage {
    let groups = format!("{APP_GROUP}docker:x:998:app\nmedia:x:997:other,app\n");
    debian().accounts(APP, &groups).with([folder("srv/app/").owned(1000, 1000).mode(0o750)])
}

fn accounts(passwd: &str, group: &str) -> [Entry; 2] {
    [file("etc/passwd", format!("{DEBIAN_PASSWD}{passwd}")), file("etc/group", format!("{DEBIAN_GROUP}{group}"))]
}

fn new_with(passwd: &str, group: &str) -> BaseImage {
    let users = format!("{DISTROLESS_PASSWD}{passwd}");
    distroless().with([file("etc/passwd", users), file("etc/group", format!("{DISTROLESS_GROUP}{group}"))])
}

fn named() -> Vec<Case> {
    vec![
        attack("name-of-the-base").old(base()).user("app"),
        ordinary("name-of-the-base").files(accounts(APP, APP_GROUP)).user("app"),
        attack("name-and-group-of-the-base").old(base()).user("app:docker"),
        ordinary("name-and-group-of-the-base").files(accounts(APP, APP_GROUP)).user("app:app"),
        attack("number-and-group-name-of-the-base").old(base()).user("1000:docker"),
        ordinary("number-and-group-name-of-the-base").user("1000:staff"),
        attack("name-and-group-number").old(base()).user("app:998"),
        ordinary("name-and-group-number").files(accounts(APP, APP_GROUP)).user("app:0"),
        // Both bases know the name, with other numbers.
        attack("name-with-another-number")
            .old(base())
            .new_base(new_with("app:x:2000:2000::/home/app:/x\n", "app:x:2000:\n"))
            .user("app"),
        ordinary("name-with-another-number")
            .old(base())
            .new_base(new_with(APP, "app:x:1000:\ndocker:x:998:app\nmedia:x:997:app\n"))
            .user("app"),
        attack("name-with-another-home")
            .old(base())
            .new_base(new_with("app:x:1000:1000::/home/app:/x\n", APP_GROUP))
            .user("app"),
        ordinary("name-with-another-home")
            .old(debian().accounts(APP, APP_GROUP))
            .new_base(new_with(APP, APP_GROUP))
            .user("app"),
        attack("nobody-with-another-group").old(debian().accounts("svc:x:1500:33::/var/www:\n", "")).user("svc"),
        ordinary("nobody-with-another-group").user("nobody"),
        // The first of two lines counts.
        attack("two-lines-of-one-name")
            .files(accounts(&format!("{APP}app:x:0:0::/root:/bin/sh\n"), APP_GROUP))
            .user("app"),
        ordinary("two-lines-of-one-name")
            .files(accounts(&format!("{APP}other:x:1001:1001::/:/bin/sh\n"), APP_GROUP))
            .user("app"),
        ordinary("root-by-name").user("root"),
        ordinary("root-by-name/and-group").user("root:root"),
        ordinary("group-by-number").user("1234:5678"),
    ]
}

fn numbered() -> Vec<Case> {
    vec![
        // The account file decides the group and HOME of a number, too.
        attack("number-known-to-the-base").old(base()).user("1000"),
        ordinary("number-known-to-the-base").user("4711"),
        ordinary("number-known-to-the-base/with-group").user("4711:4711"),
        attack("number-known-to-the-base/with-group").old(base()).user("1000:1000"),
        attack("number-taken-on-the-new-base")
            .user("1000")
            .new_base(new_with("other:x:1000:50::/home/other:/x\n", "other:x:1000:\n")),
        ordinary("number-taken-on-the-new-base")
            .user("1000")
            .new_base(new_with("other:x:1001:50::/home/other:/x\n", "")),
        attack("groups-that-list-a-number")
            .old(base())
            .user("1000")
            .files([folder("data/").owned(0, 998).mode(0o770)])
            .cmd(["--data-dir=/data"]),
        ordinary("groups-that-list-a-number")
            .user("1000")
            .files([folder("data/").owned(1000, 0).mode(0o770)])
            .cmd(["--data-dir=/data"]),
        attack("number-becomes-a-member-of-a-group")
            .user("1000")
            .old(debian().accounts(APP, APP_GROUP))
            .new_base(new_with(APP, "app:x:1000:\nshadow:x:42:app\n")),
        ordinary("number-becomes-a-member-of-a-group")
            .user("1000")
            .old(debian().accounts(APP, APP_GROUP))
            .new_base(new_with(APP, "app:x:1000:\nshadow:x:42:other\n")),
        attack("nobody-by-number").old(debian().accounts("", "")).user("33"),
        ordinary("nobody-by-number").user("65534:65534"),
        attack("home-of-root").old(
            debian().with([file("etc/passwd", DEBIAN_PASSWD.replace(":/root:", ":/home/root:")), folder("home/root/")]),
        ),
        ordinary("home-of-root").env(["HOME=/srv"]).files([folder("srv/")]),
        ordinary("own-home").old(base()).user("1000:1000").env(["HOME=/tmp"]),
    ]
}

fn implied() -> Vec<Case> {
    vec![
        attack("user-of-the-base").old(base().set("User", json!("app"))),
        attack("user-of-the-base/number").old(debian().set("User", json!("1000:1000"))),
        attack("user-of-the-base/known-base").old(base().set("User", json!("1000"))).known(),
        ordinary("user-of-the-base").old(debian().set("User", json!("app"))).user("0"),
        ordinary("user-of-the-base/own").old(base().set("User", json!("app"))).user("4711:4711"),
        // Without a USER the source is root; the new base says otherwise.
        attack("new-base-is-not-root").new_base(nonroot()).files([folder("data/")]).cmd(["--data-dir=/data"]),
        attack("new-base-is-not-root/silently").new_base(nonroot()),
        ordinary("new-base-is-not-root")
            .new_base(nonroot())
            .user("0:0")
            .workdir("/")
            .files([folder("data/")])
            .cmd(["--data-dir=/data"]),
        ordinary("new-base-is-not-root/same").new_base(nonroot()).user("65532:65532").workdir("/"),
        attack("group-root-by-default").old(debian().set("User", json!("1000"))).new_base(nonroot()),
        ordinary("group-root-by-default").user("1000").workdir("/").new_base(nonroot()),
    ]
}

/// Accounts that the program asks for when it runs.
fn looked_up() -> Vec<Case> {
    let asks = || [program("app", with_accounts()), folder("srv/app/").owned(1000, 1000)];
    let own = || accounts(APP, "app:x:1000:\ndocker:x:998:app\n");
    vec![
        attack("account-looked-up/of-the-base").old(base()).only(asks()).cmd(["--account=app"]),
        attack("account-looked-up/other-base-account").only(asks()).cmd(["--account", "www-data"]),
        ordinary("account-looked-up").only(asks()).cmd(["--account=nobody"]),
        ordinary("account-looked-up/own-layer").only(asks()).files(own()).cmd(["--account=app"]),
        attack("drops-to-an-account/of-the-base").old(base()).only(asks()).cmd(["--run-as=app"]),
        attack("drops-to-an-account/www-data").only(asks()).cmd(["--run-as=www-data"]),
        ordinary("drops-to-an-account/own-layer")
            .only(asks())
            .layer(own())
            .cmd(["--run-as=app", "--data-dir=/srv/app"]),
        ordinary("drops-to-an-account").only(asks()).cmd(["--run-as=nobody"]),
        attack("group-looked-up").old(base()).only(asks()).cmd(["--group=docker"]),
        ordinary("group-looked-up").only(asks()).cmd(["--group=tty"]),
        ordinary("group-looked-up/own-layer").only(asks()).files(own()).cmd(["--group=docker"]),
        // A useradd layer above the program's own, for a user that USER does not name.
        ordinary("useradd-and-not-used").layer(accounts(APP, APP_GROUP)),
    ]
}
