//! The seam between the old base's layers and the image's own: what a layer says about files below it.

use super::bases::{debian, distroless};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tagged};
use crate::support::tar_layer::{file, folder, hardlink, program, symlink, whiteout};

pub fn cases() -> Vec<Case> {
    vec![
        attack("hard-link-into-the-base")
            .old(debian().with([program("opt/base/app", observer())]))
            .only([hardlink("usr/bin/app", "opt/base/app")])
            .entrypoint(["app"]),
        ordinary("hard-link-into-the-base")
            .only([folder("opt/own/"), program("opt/own/app", observer()), hardlink("usr/bin/app", "opt/own/app")])
            .entrypoint(["app"]),
        attack("hard-link-to-data-of-the-base")
            .files([hardlink("app.conf", "etc/base.conf")])
            .cmd(["--config=/app.conf"]),
        ordinary("hard-link-to-data-of-the-base")
            .files([file("etc/own.conf", "x"), hardlink("app.conf", "etc/own.conf")])
            .cmd(["--config=/app.conf"]),
        attack("link-to-data-of-the-base")
            .old(debian().with([folder("var/lib/base/"), file("var/lib/base/x", "x")]))
            .files([symlink("data", "/var/lib/base")])
            .cmd(["--config=/data/x"]),
        ordinary("link-to-data-of-the-base")
            .files([folder("var/lib/own/"), file("var/lib/own/x", "x"), symlink("data", "/var/lib/own")])
            .cmd(["--config=/data/x"]),
        // In the old base /data is a link; the layer wrote through it.
        attack("below-a-link-of-the-base")
            .old(debian().with([folder("srv/data/"), symlink("data", "srv/data")]))
            .files([file("srv/data/x", "x")])
            .cmd(["--config=/data/x"]),
        ordinary("below-a-link-of-the-base")
            .files([folder("srv/data/"), symlink("data", "srv/data"), file("srv/data/x", "x")])
            .cmd(["--config=/data/x"]),
        attack("below-a-link-of-the-base/as-written")
            .old(debian().with([folder("srv/data/"), symlink("data", "srv/data")]))
            .files([file("data/x", "x")])
            .cmd(["--config=/srv/data/x"]),
        attack("opaque-directory")
            .old(debian().with([folder("etc/app/"), file("etc/app/a", "x")]))
            .files([folder("etc/app/"), file("etc/app/.wh..wh..opq", ""), file("etc/app/b", "x")])
            .cmd(["--files=/etc/app/b,/etc/ssl/base.pem"]),
        ordinary("opaque-directory")
            .old(debian().with([folder("etc/app/"), file("etc/app/a", "x")]))
            .files([folder("etc/app/"), file("etc/app/.wh..wh..opq", ""), file("etc/app/b", "x")])
            .cmd(["--files=/etc/app/b"]),
        attack("opaque-over-the-new-base")
            .files([
                folder("etc/ssl/"),
                file("etc/ssl/.wh..wh..opq", ""),
                folder("etc/ssl/certs/"),
                file("etc/ssl/certs/own", "x"),
            ])
            .cmd(["--files=/etc/ssl/certs/own,/etc/base.conf"]),
        ordinary("opaque-over-the-new-base")
            .files([
                folder("etc/ssl/"),
                file("etc/ssl/.wh..wh..opq", ""),
                folder("etc/ssl/certs/"),
                file("etc/ssl/certs/own", "x"),
            ])
            .cmd(["--files=/etc/ssl/certs/own"]),
        // The image took the base's file away; the new base has it again.
        attack("whiteout-of-what-the-new-base-has")
            .old(debian().with([program("usr/local/sbin/tool", tagged("of the old base"))]))
            .files([program("usr/bin/tool", tagged("own"))])
            .layer([whiteout("usr/local/sbin/tool")])
            .new_base(
                distroless()
                    .with([folder("usr/local/sbin/"), program("usr/local/sbin/tool", tagged("of the new base"))]),
            )
            .entrypoint(["tool"]),
        ordinary("whiteout-of-what-the-new-base-has")
            .old(debian().with([program("usr/local/sbin/tool", tagged("of the old base"))]))
            .files([program("usr/bin/tool", tagged("own"))])
            .layer([whiteout("usr/local/sbin/tool")])
            .entrypoint(["tool"]),
        attack("whiteout-of-an-account-file")
            .files([whiteout("etc/group")])
            .user("0:0")
            .cmd(["--config=/etc/base.conf"]),
        ordinary("whiteout-of-an-account-file").files([whiteout("etc/base.conf")]).user("0:0"),
        // The application's account file hides the new base's accounts.
        attack("own-account-file")
            .files([file("etc/passwd", "root:x:0:0::/root:/x\n"), file("etc/group", "root:x:0:\n")])
            .new_base(distroless().set("User", serde_json::json!("nonroot"))),
        ordinary("own-account-file")
            .files([file("etc/passwd", "root:x:0:0::/root:/x\n"), file("etc/group", "root:x:0:\n")])
            .user("0"),
        attack("file-over-a-directory")
            .old(debian().with([file("srv/x", "a file")]))
            .files([file("srv/y", "x")])
            .new_base(distroless().with([folder("srv/x/")]))
            .cmd(["--files=/srv/y,/srv/x"]),
        ordinary("file-over-a-directory")
            .files([file("srv/x", "own")])
            .new_base(distroless().with([folder("srv/x/")]))
            .cmd(["--files=/srv/x"]),
        // What was a directory of the old base is a link to nowhere on the new one.
        attack("link-of-the-new-base-on-the-way")
            .only([program("opt/tools/app", observer())])
            .old(debian().with([folder("opt/tools/")]))
            .new_base(distroless().with([symlink("opt/tools", "/nowhere")]))
            .entrypoint(["/opt/tools/app"]),
        ordinary("link-of-the-new-base-on-the-way")
            .only([folder("opt/tools/"), program("opt/tools/app", observer())])
            .new_base(distroless().with([symlink("opt/tools", "/nowhere")]))
            .entrypoint(["/opt/tools/app"]),
        attack("removed-and-made-again")
            .only([program("opt/app", observer())])
            .layer([whiteout("opt/app")])
            .layer([symlink("opt/app", "/usr/bin/server")])
            .old(debian().with([program("usr/bin/server", observer())]))
            .entrypoint(["/opt/app"]),
        ordinary("removed-and-made-again")
            .only([program("opt/app", tagged("first"))])
            .layer([whiteout("opt/app")])
            .layer([program("opt/app", tagged("second"))])
            .entrypoint(["/opt/app"]),
        attack("only-the-mode-changed")
            .old(debian().with([file("opt/server", observer())]))
            .only([folder("srv/own/")])
            .layer([hardlink("srv/own/app", "opt/server")])
            .entrypoint(["/bin/sh", "-c", "exec /srv/own/app"])
            .old(debian().with([program("opt/server", observer())])),
        ordinary("only-the-mode-changed")
            .only([file("opt/server", observer())])
            .layer([program("opt/server", observer())])
            .entrypoint(["/bin/sh", "-c", "exec /opt/server"]),
    ]
}
