//! Arguments that name what only the old root had, in all the ways that arguments name files.

use super::bases::{debian, distroless};
use super::case::{Case, attack, ordinary};
use super::program::tagged;
use crate::support::tar_layer::{file, folder, program, symlink, whiteout};

pub fn cases() -> Vec<Case> {
    let app_conf = || [file("etc/app.conf", "x")];
    let mut cases = vec![
        attack("file-of-the-base/equals").cmd(["--config=/etc/base.conf"]),
        attack("file-of-the-base/next-word").cmd(["--cacert", "/etc/ssl/base.pem"]),
        attack("file-of-the-base/at").cmd(["@/etc/base.conf"]),
        attack("file-of-the-base/comma-list").files(app_conf()).cmd(["--files=/etc/app.conf,/etc/base.conf"]),
        attack("file-of-the-base/in-the-entrypoint").entrypoint(["/app", "--config=/etc/base.conf"]),
        attack("file-of-the-base/known-base").cmd(["--config=/etc/base.conf"]).known(),
        attack("file-of-the-base/no-dashes").cmd(["config=/etc/base.conf"]),
        attack("file-of-the-base/dots").cmd(["--config=/etc/../etc/./base.conf"]),
        attack("file-of-the-base/relative").workdir("/etc").cmd(["--config=base.conf"]),
        attack("file-of-the-base/link").files([symlink("app.conf", "/etc/base.conf")]).cmd(["--config=/app.conf"]),
        attack("file-of-the-base/shell-form")
            .cmd([])
            .set("Entrypoint", serde_json::json!(["/bin/sh", "-c", "exec /app --config=/etc/base.conf"])),
        ordinary("file-of-the-base/equals").files(app_conf()).cmd(["--config=/etc/app.conf"]),
        ordinary("file-of-the-base/next-word").files(app_conf()).cmd(["--cacert", "/etc/app.conf"]),
        ordinary("file-of-the-base/at").files(app_conf()).cmd(["@/etc/app.conf"]),
        ordinary("file-of-the-base/comma-list").files(app_conf()).cmd(["--files=/etc/app.conf,/etc/passwd"]),
        ordinary("file-of-the-base/relative").files(app_conf()).workdir("/etc").cmd(["--config=app.conf"]),
        ordinary("file-of-the-base/shell-form")
            .files(app_conf())
            .set("Entrypoint", serde_json::json!(["/bin/sh", "-c", "exec /app --config=/etc/app.conf"])),
        ordinary("file-of-the-base/on-both").cmd(["--config=/etc/ssl/certs/ca-certificates.crt"]),
        attack("directory-of-the-base").cmd(["--chdir=/usr/share/base"]),
        ordinary("directory-of-the-base").cmd(["--chdir=/usr/share"]),
        ordinary("word-that-is-no-file").cmd([
            "--path=/healthz",
            "--prefix=/etc",
            "--listen=:8080",
            "--url=http://x/usr/bin/id",
        ]),
        attack("hook-of-the-base/path").cmd(["--hook=/usr/bin/id"]),
        // Also words of other meanings: a warning that names them is all that can be said.
        attack("hook-of-the-base/name").cmd(["--hook=id"]).warned(["id"]),
        attack("hook-of-the-base/next-word").cmd(["--hook", "hostname"]).warned(["hostname"]),
        ordinary("hook-of-the-base/path")
            .files([program("usr/bin/hook", tagged("hook"))])
            .cmd(["--hook=/usr/bin/hook"]),
        ordinary("hook-of-the-base/name").files([program("usr/bin/hook", tagged("hook"))]).cmd(["--hook=hook"]),
        // The image itself took the base's file away and put its own there.
        ordinary("file-that-was-replaced").files([file("etc/base.conf", "own")]).cmd(["--config=/etc/base.conf"]),
        attack("file-removed-from-the-new-base")
            .files([whiteout("etc/hosts.conf")])
            .new_base(distroless().with([file("etc/hosts.conf", "new"), file("etc/common.conf", "new")]))
            .old(debian().with([file("etc/common.conf", "old")]))
            .layer([folder("etc/"), file("etc/.wh..wh..opq", "")])
            .layer([file("etc/passwd", super::bases::DEBIAN_PASSWD), file("etc/group", super::bases::DEBIAN_GROUP)]),
        ordinary("file-removed-from-the-new-base").files([whiteout("etc/hosts.conf")]),
    ];
    cases.push(
        attack("argument-file-of-the-base").old(debian().with([file("etc/app.args", "--v=2")])).cmd(["@/etc/app.args"]),
    );
    cases.push(ordinary("argument-file-of-the-base").files([file("etc/app.args", "--v=2")]).cmd(["@/etc/app.args"]));
    cases
}
