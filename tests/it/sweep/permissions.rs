//! What the process may do: execute its program, enter its directories, write where it wrote.

use serde_json::json;

use super::bases::{BaseImage, debian, distroless, nonroot};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tagged};
use crate::support::tar_layer::{file, folder, program, symlink};

pub fn cases() -> Vec<Case> {
    [executed(), written(), entered()].concat()
}

const APP: &str = "app:x:1000:1000:App:/home/app:/bin/sh\n";

fn base() -> BaseImage {
    debian().accounts(APP, "app:x:1000:\nrunners:x:990:app\n").with([folder("home/app/").owned(1000, 1000).mode(0o700)])
}

fn executed() -> Vec<Case> {
    let for_group = |gid: u64| [folder("opt/x/"), program("opt/x/app", observer()).owned(0, gid).mode(0o750)];
    vec![
        attack("program-of-another-user")
            .only([program("app", observer()).owned(1000, 1000).mode(0o700)])
            .new_base(nonroot()),
        ordinary("program-of-another-user")
            .only([program("app", observer()).owned(1000, 1000).mode(0o700)])
            .user("1000:1000"),
        attack("program-for-a-group-of-the-base")
            .old(base())
            .only(for_group(990))
            .entrypoint(["/opt/x/app"])
            .user("app"),
        attack("program-for-a-group-of-the-base/number")
            .old(base())
            .only(for_group(990))
            .entrypoint(["/opt/x/app"])
            .user("1000"),
        ordinary("program-for-a-group-of-the-base").only(for_group(1000)).entrypoint(["/opt/x/app"]).user("4711:1000"),
        attack("directory-for-a-group-of-the-base")
            .old(base())
            .only([folder("opt/x/").owned(0, 990).mode(0o750), program("opt/x/app", observer())])
            .entrypoint(["/opt/x/app"])
            .user("app"),
        ordinary("directory-for-a-group-of-the-base")
            .only([folder("opt/x/").owned(0, 4711).mode(0o750), program("opt/x/app", observer())])
            .entrypoint(["/opt/x/app"])
            .user("1000:4711"),
        // The new base's directory on the way is closed.
        attack("directory-of-the-new-base-is-closed")
            .only([program("opt/app", observer())])
            .entrypoint(["/opt/app"])
            .user("1000")
            .new_base(distroless().with([folder("opt/").mode(0o700)])),
        ordinary("directory-of-the-new-base-is-closed")
            .only([folder("opt/"), program("opt/app", observer())])
            .entrypoint(["/opt/app"])
            .user("1000")
            .new_base(distroless().with([folder("opt/").mode(0o700)])),
        attack("hook-in-roots-home")
            .old(debian().with([folder("root/").mode(0o755)]))
            .files([program("root/hook", tagged("hook"))])
            .user("1000")
            .cmd(["--hook=/root/hook"]),
        ordinary("hook-in-roots-home")
            .files([program("opt/hook", tagged("hook"))])
            .user("1000")
            .cmd(["--hook=/opt/hook"]),
        attack("program-in-roots-home")
            .old(debian().with([folder("root/").mode(0o755)]))
            .only([program("root/app", observer())])
            .entrypoint(["/root/app"])
            .user("1000"),
        ordinary("program-in-roots-home").only([program("root/app", observer())]).entrypoint(["/root/app"]),
        attack("config-of-another-user")
            .files([file("etc/app.conf", "x").owned(1000, 1000).mode(0o600)])
            .cmd(["--config=/etc/app.conf"])
            .new_base(nonroot()),
        ordinary("config-of-another-user")
            .files([file("etc/app.conf", "x").owned(1000, 1000).mode(0o600)])
            .cmd(["--config=/etc/app.conf"])
            .user("1000"),
        ordinary("set-user-id").only([program("app", observer()).mode(0o4755)]).user("1000"),
        attack("set-user-id/new-base-not-root").only([program("app", observer()).mode(0o4711)]).new_base(nonroot()),
    ]
}

fn written() -> Vec<Case> {
    let logs = || [folder("var/log/app/").owned(1000, 1000)];
    let without_tmp = || {
        let mut base = distroless();
        base.layers[0].retain(|entry| entry.path() != "tmp/");
        base
    };
    vec![
        attack("log-directory-of-the-base").old(base().with(logs())).user("1000:1000").cmd(["--log-dir=/var/log/app"]),
        attack("log-directory-of-the-base/file")
            .old(base().with(logs()))
            .user("1000:1000")
            .cmd(["--log-file=/var/log/app/x.log"]),
        ordinary("log-directory-of-the-base").files(logs()).user("1000:1000").cmd(["--log-dir=/var/log/app"]),
        ordinary("log-directory-of-the-base/file")
            .files(logs())
            .user("1000:1000")
            .cmd(["--log-file=/var/log/app/x.log"]),
        attack("data-directory-of-the-base")
            .old(debian().with([folder("var/lib/app/").owned(1000, 1000)]))
            .user("1000:1000")
            .cmd(["--data-dir", "/var/lib/app"]),
        ordinary("data-directory-of-the-base")
            .files([folder("var/lib/app/").owned(1000, 1000)])
            .user("1000:1000")
            .cmd(["--data-dir", "/var/lib/app"]),
        attack("directory-by-variable")
            .old(debian().with([folder("var/cache/app/").owned(1000, 1000)]))
            .user("1000:1000")
            .env(["CACHE_DIR=/var/cache/app"])
            .cmd(["--chdir=/var/cache/app"]),
        ordinary("directory-by-variable")
            .files([folder("var/cache/app/").owned(1000, 1000)])
            .user("1000:1000")
            .env(["CACHE_DIR=/var/cache/app"])
            .cmd(["--chdir=/var/cache/app"]),
        attack("tmp-is-gone").new_base(without_tmp()).cmd(["--data-dir=/tmp"]),
        attack("tmp-is-closed")
            .new_base(distroless().with([folder("tmp/").mode(0o755)]))
            .user("1000")
            .cmd(["--data-dir=/tmp"]),
        ordinary("tmp-is-gone").cmd(["--data-dir=/tmp"]).user("1000"),
        ordinary("tmp-is-closed").new_base(distroless().with([folder("tmp/").mode(0o755)])).cmd(["--data-dir=/tmp"]),
        attack("tmp-is-closed/own-sticky")
            .old(debian())
            .new_base(distroless().with([folder("tmp/").mode(0o700)]))
            .user("1000")
            .cmd(["--log-file=/tmp/x.log"]),
        attack("var-tmp")
            .new_base(distroless().with([folder("var/tmp/").mode(0o755)]))
            .user("1000")
            .cmd(["--data-dir=/var/tmp"]),
        ordinary("var-tmp").user("1000").cmd(["--data-dir=/var/tmp"]),
        attack("run-of-the-base")
            .old(debian().with([folder("run/app/").owned(1000, 1000)]))
            .user("1000")
            .cmd(["--log-file=/run/app/app.pid"]),
        ordinary("run-of-the-base")
            .files([folder("run/app/").owned(1000, 1000)])
            .user("1000")
            .cmd(["--log-file=/run/app/app.pid"]),
        attack("home-of-the-base").old(base()).user("app").cmd(["--data-dir=/home/app"]),
        ordinary("home-of-the-base")
            .files([folder("home/app/").owned(1000, 1000)])
            .user("1000:1000")
            .env(["HOME=/home/app"])
            .cmd(["--data-dir=/home/app"]),
        // The base opened a directory for a group.
        attack("directory-with-other-owner")
            .old(debian().with([folder("srv/").owned(0, 1000).mode(0o775)]))
            .user("1000:1000")
            .cmd(["--data-dir=/srv"]),
        ordinary("directory-with-other-owner")
            .files([folder("srv/").owned(0, 1000).mode(0o775)])
            .user("1000:1000")
            .cmd(["--data-dir=/srv"]),
        attack("writes-as-root-no-more").new_base(nonroot()).cmd(["--log-file=/var/log/app.log"]),
        ordinary("writes-as-root-no-more")
            .new_base(nonroot())
            .user("root")
            .workdir("/")
            .cmd(["--log-file=/var/log/app.log"]),
        attack("var-run-link")
            .old(debian().with([folder("run/app/").owned(1000, 1000)]))
            .user("1000")
            .cmd(["--data-dir=/var/run/app"]),
        ordinary("var-run-link")
            .files([folder("run/app/").owned(1000, 1000)])
            .user("1000")
            .cmd(["--data-dir=/var/run/app"]),
        attack("volume-of-the-base")
            .old(debian().with([folder("data/").owned(1000, 1000)]).set("Volumes", json!({"/data": {}})))
            .user("1000")
            .cmd(["--chdir=/data"]),
        ordinary("volume-of-the-base")
            .files([folder("data/").owned(1000, 1000)])
            .set("Volumes", json!({"/data": {}}))
            .user("1000")
            .cmd(["--chdir=/data"]),
    ]
}

fn entered() -> Vec<Case> {
    vec![
        attack("workdir-of-the-base").old(debian().with([folder("srv/base/")]).set("WorkingDir", json!("/srv/base"))),
        attack("workdir-of-the-base/written")
            .old(debian().with([folder("srv/base/").owned(1000, 1000)]).set("WorkingDir", json!("/srv/base")))
            .user("1000")
            .cmd(["--data-dir=."]),
        ordinary("workdir-of-the-base")
            .files([folder("srv/own/").owned(1000, 1000)])
            .user("1000")
            .workdir("/srv/own")
            .cmd(["--data-dir=."]),
        attack("workdir-owned-in-the-base")
            .old(debian().with([folder("srv/base/").owned(1000, 1000)]))
            .user("1000")
            .workdir("/srv/base")
            .cmd(["--data-dir=."]),
        ordinary("workdir-owned-in-the-base")
            .old(debian().with([folder("srv/base/")]))
            .workdir("/srv/base")
            .cmd(["--data-dir=."]),
        attack("workdir-of-the-new-base").new_base(nonroot()).user("0"),
        ordinary("workdir-of-the-new-base").new_base(nonroot()).user("0").workdir("/"),
        // runc enters the directory before it gives up root; what is in it is out of reach all the same.
        attack("workdir-is-closed/relative-file")
            .user("1000")
            .workdir("/home/nonroot")
            .files([file("home/nonroot/app.conf", "x")])
            .old(debian().with([folder("home/nonroot/")]))
            .cmd(["--config=app.conf"]),
        attack("workdir-is-closed").user("1000").workdir("/home/nonroot").old(debian().with([folder("home/nonroot/")])),
        ordinary("workdir-is-closed")
            .user("65532")
            .workdir("/home/nonroot")
            .old(debian().with([folder("home/nonroot/")])),
        attack("workdir-is-closed/root-home")
            .user("1000")
            .workdir("/root")
            .old(debian().with([folder("root/").mode(0o755)])),
        ordinary("workdir-is-closed/tmp").user("1000").workdir("/tmp"),
        attack("workdir-through-a-link")
            .old(debian().with([folder("srv/v1/"), symlink("srv/now", "v1")]))
            .files([file("srv/v1/app.conf", "x")])
            .workdir("/srv/now")
            .cmd(["--config=app.conf"]),
        ordinary("workdir-through-a-link")
            .files([folder("srv/v1/"), symlink("srv/now", "v1"), file("srv/v1/app.conf", "x")])
            .workdir("/srv/now")
            .cmd(["--config=app.conf"]),
        ordinary("workdir-that-nobody-made").workdir("/srv/made/by/the/runtime"),
        attack("relative-file-of-the-base")
            .old(debian().with([folder("srv/base/"), file("srv/base/app.conf", "x")]))
            .workdir("/srv/base")
            .cmd(["--config", "app.conf"]),
        ordinary("relative-file-of-the-base")
            .files([folder("srv/own/"), file("srv/own/app.conf", "x")])
            .workdir("/srv/own")
            .cmd(["--config", "app.conf"]),
    ]
}
