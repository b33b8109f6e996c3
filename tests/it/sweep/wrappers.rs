//! What stands before the program and hands over to it: inits, `env`, `nice`, tools that change the user.

use serde_json::json;

use super::bases::{BaseImage, debian, distroless, with_shell};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tool};
use crate::support::skip::find;
use crate::support::tar_layer::{Entry, file, folder, program, symlink};

pub fn cases() -> Vec<Case> {
    [inits(), tools(), users(), nested()].concat()
}

/// A program of this machine.
fn installed(name: &str) -> Vec<u8> {
    std::fs::read(find(name).unwrap()).unwrap()
}

fn own(path: &str, name: &str) -> [Entry; 1] {
    [program(path, installed(name))]
}

fn base_with(path: &str, name: &str) -> BaseImage {
    debian().with([program(path, installed(name))])
}

fn inits() -> Vec<Case> {
    vec![
        attack("init-of-the-base/tini")
            .old(base_with("usr/bin/tini", "tini-static"))
            .entrypoint(["tini", "--", "/app"]),
        attack("init-of-the-base/catatonit").old(base_with("usr/bin/catatonit", "catatonit")).entrypoint([
            "/usr/bin/catatonit",
            "--",
            "/app",
        ]),
        attack("init-of-the-base/inherited")
            .old(base_with("usr/bin/tini", "tini-static").set("Entrypoint", json!(["/usr/bin/tini", "--"])))
            .no_entrypoint()
            .cmd(["/app", "x"]),
        ordinary("init-of-the-base/tini").files(own("tini", "tini-static")).entrypoint(["/tini", "--", "/app"]),
        ordinary("init-of-the-base/catatonit")
            .files(own("usr/bin/catatonit", "catatonit"))
            .entrypoint(["catatonit", "--", "/app"])
            .cmd(["x"]),
        ordinary("init-of-the-base/of-the-new-base")
            .new_base(distroless().with([program("usr/bin/tini", installed("tini-static"))]))
            .old(base_with("usr/bin/tini", "tini-static"))
            .entrypoint(["/usr/bin/tini", "--", "/app"]),
        attack("init-before-a-program-of-the-base")
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "--", "id"])
            .ends_with(0)
            .old(debian().with([program("usr/local/bin/id", super::program::tagged("id"))])),
        ordinary("init-before-a-program-of-the-base")
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "-g", "--", "/app"]),
        attack("init-before-a-dynamic-program")
            .files(own("tini", "tini-static"))
            .files([program("dynamic", super::program::dynamic())])
            .old(dynamic_base())
            .entrypoint(["/tini", "--", "/dynamic"]),
        ordinary("init-before-a-dynamic-program")
            .files(own("tini", "tini-static"))
            .old(dynamic_base())
            .entrypoint(["/tini", "--", "/app"]),
        attack("init-before-a-script")
            .files(own("tini", "tini-static"))
            .files([program("run.sh", "#!/bin/sh\nid >/dev/null; exec /app\n")])
            .entrypoint(["/tini", "--", "/run.sh"]),
        ordinary("init-before-a-script")
            .files(own("tini", "tini-static"))
            .files([program("run.sh", "#!/bin/sh\nexec /app\n")])
            .entrypoint(["/tini", "--", "/run.sh"])
            .new_base(with_shell()),
        attack("init-that-is-dynamic")
            .old(dynamic_base())
            .files(own("usr/bin/dumb-init", "dumb-init"))
            .entrypoint(["dumb-init", "/app"]),
        ordinary("init-that-is-dynamic")
            .files(own("usr/bin/dumb-init", "tini-static"))
            .entrypoint(["dumb-init", "/app"]),
    ]
}

/// A Debian with the C library of this machine.
fn dynamic_base() -> BaseImage {
    let mut base = debian();
    let libraries = crate::support::programs::libraries(&super::program::dynamic());
    // Below the merged /usr, as the base's own files are.
    base.layers.push(
        libraries
            .into_iter()
            .map(|entry| entry.moved(|path| format!("usr/{}", path.trim_start_matches("usr/"))))
            .collect(),
    );
    base
}

fn tools() -> Vec<Case> {
    let busybox = || program("opt/busybox", installed("busybox"));
    let own_env = || program("opt/env", tool());
    vec![
        attack("env-of-the-base").entrypoint(["/usr/bin/env", "MODE=x", "/app"]).noticed(["MODE"]),
        attack("env-of-the-base/unset").entrypoint(["env", "-u", "MODE", "/app"]).env(["MODE=x"]),
        ordinary("env-of-the-base").files([own_env()]).entrypoint(["/opt/env", "MODE=x", "/app"]).noticed(["MODE"]),
        attack("nice-of-the-base")
            .old(debian().with([program("usr/bin/nice", tool())]))
            .entrypoint(["nice", "-n", "5", "/app"]),
        ordinary("nice-of-the-base").files([program("usr/bin/nice", tool())]).entrypoint(["nice", "-n", "5", "/app"]),
        attack("nice-before-a-program-of-the-base")
            .files([program("usr/bin/nice", tool())])
            .old(debian().with([program("usr/bin/server", observer())]))
            .entrypoint(["nice", "server"]),
        ordinary("nice-before-a-program-of-the-base")
            .files([program("usr/bin/nice", tool())])
            .files([program("usr/bin/server", observer())])
            .entrypoint(["nice", "server"]),
        attack("timeout-of-the-base").entrypoint(["timeout", "5", "/app"]),
        ordinary("timeout-of-the-base").files([program("opt/timeout", tool())]).entrypoint([
            "/opt/timeout",
            "5",
            "/app",
        ]),
        attack("nohup-of-the-base")
            .old(debian().with([program("usr/bin/nohup", tool())]))
            .entrypoint(["nohup", "/app"]),
        ordinary("nohup-of-the-base").files([program("usr/bin/nohup", tool())]).entrypoint(["nohup", "/app"]),
        attack("env-before-a-program-of-the-base")
            .files([own_env()])
            .old(debian().with([program("usr/bin/server", observer())]))
            .entrypoint(["/opt/env", "A=b", "server"]),
        ordinary("env-before-a-program-of-the-base")
            .files([own_env(), program("usr/bin/server", observer())])
            .entrypoint(["/opt/env", "A=b", "server"]),
        attack("env-with-another-path")
            .files([own_env(), program("opt/bin/server", super::program::tagged("own"))])
            .old(debian().with([program("usr/bin/server", super::program::tagged("of the base"))]))
            .entrypoint(["/opt/env", "PATH=/usr/bin:/opt/bin", "server"]),
        ordinary("env-with-another-path")
            .files([own_env(), folder("opt/bin/"), program("opt/bin/server", super::program::tagged("own"))])
            .entrypoint(["/opt/env", "PATH=/usr/bin:/opt/bin", "server"]),
        attack("busybox-of-the-base").old(base_with("usr/bin/busybox", "busybox")).entrypoint([
            "/bin/busybox",
            "timeout",
            "9",
            "/app",
        ]),
        ordinary("busybox-of-the-base").files([busybox()]).entrypoint(["/opt/busybox", "timeout", "9", "/app"]),
        attack("busybox-linked-into-the-base")
            .old(base_with("usr/bin/busybox", "busybox"))
            .files([symlink("opt/timeout", "/bin/busybox")])
            .entrypoint(["/opt/timeout", "9", "/app"]),
        ordinary("busybox-linked-into-the-base")
            .files([busybox(), symlink("opt/timeout", "/opt/busybox")])
            .entrypoint(["/opt/timeout", "9", "/app"]),
    ]
}

fn users() -> Vec<Case> {
    let gosu = || own("usr/local/bin/gosu", "gosu");
    let account = || {
        [
            file("etc/passwd", format!("{}app:x:1000:1000::/srv/app:/x\n", super::bases::DEBIAN_PASSWD)),
            file("etc/group", format!("{}app:x:1000:\n", super::bases::DEBIAN_GROUP)),
        ]
    };
    let base = || debian().accounts("app:x:1000:1000::/srv/app:/x\n", "app:x:1000:\n");
    vec![
        attack("gosu-to-an-account-of-the-base").old(base()).files(gosu()).entrypoint(["gosu", "app", "/app"]),
        attack("gosu-to-an-account-of-the-base/group")
            .old(base())
            .files(gosu())
            .entrypoint(["gosu", "app:app", "/app"]),
        attack("gosu-to-an-account-of-the-base/number").old(base()).files(gosu()).entrypoint(["gosu", "1000", "/app"]),
        ordinary("gosu-to-an-account-of-the-base").files(gosu()).files(account()).entrypoint(["gosu", "app", "/app"]),
        ordinary("gosu-to-an-account-of-the-base/number").files(gosu()).entrypoint(["gosu", "4711:4711", "/app"]),
        ordinary("gosu-to-an-account-of-the-base/nobody").files(gosu()).entrypoint(["gosu", "nobody", "/app"]),
        attack("su-exec-to-an-account-of-the-base")
            .old(base())
            .files([program("sbin/su-exec", tool())])
            .entrypoint(["su-exec", "app", "/app"]),
        ordinary("su-exec-to-an-account-of-the-base")
            .files(account())
            .files([program("usr/sbin/su-exec", tool())])
            .entrypoint(["su-exec", "app", "/app"]),
        ordinary("su-exec-to-an-account-of-the-base/number").files([program("usr/sbin/su-exec", tool())]).entrypoint([
            "su-exec",
            "4711:4711",
            "/app",
        ]),
        attack("setpriv-and-a-closed-directory")
            .only([
                folder("srv/own/").owned(1000, 1000).mode(0o700),
                program("srv/own/app", observer()),
                program("usr/bin/setpriv", tool()),
            ])
            .entrypoint(["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "/srv/own/app"])
            .old(debian().with([folder("srv/").mode(0o755)]))
            .new_base(distroless().with([folder("srv/").mode(0o700)])),
        ordinary("setpriv-and-a-closed-directory")
            .only([
                folder("srv/own/").owned(1000, 1000).mode(0o700),
                program("srv/own/app", observer()),
                program("usr/bin/setpriv", tool()),
            ])
            .entrypoint(["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "/srv/own/app"]),
        attack("gosu-of-the-base").old(base_with("usr/local/bin/gosu", "gosu")).entrypoint(["gosu", "nobody", "/app"]),
        ordinary("gosu-of-the-base").files(gosu()).entrypoint(["gosu", "nobody:root", "/app"]),
        attack("gosu-and-a-closed-program")
            .only([program("app", observer()).owned(1000, 1000).mode(0o700)])
            .files(gosu())
            .old(base())
            .entrypoint(["gosu", "app", "/app"]),
        ordinary("gosu-and-a-closed-program")
            .only([program("app", observer()).owned(4711, 0).mode(0o700)])
            .files(gosu())
            .entrypoint(["gosu", "4711", "/app"]),
        // gosu must be root, and the new base's user is not.
        attack("gosu-without-root")
            .files(gosu())
            .entrypoint(["gosu", "4711:4711", "/app"])
            .new_base(super::bases::nonroot()),
        ordinary("gosu-without-root")
            .files(gosu())
            .entrypoint(["gosu", "4711:4711", "/app"])
            .user("root")
            .workdir("/")
            .new_base(super::bases::nonroot()),
    ]
}

fn nested() -> Vec<Case> {
    let parts = || [program("tini", installed("tini-static")), program("gosu", installed("gosu"))];
    vec![
        attack("nested/last-of-the-base")
            .old(debian().with([program("usr/bin/server", observer())]))
            .only(parts())
            .entrypoint(["/tini", "--", "/gosu", "nobody", "server"]),
        attack("nested/middle-of-the-base")
            .old(base_with("usr/bin/gosu", "gosu"))
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "--", "gosu", "nobody", "/app"]),
        ordinary("nested").files(parts()).entrypoint(["/tini", "--", "/gosu", "nobody", "/app"]),
        attack("runner-and-cmd-of-the-base")
            .old(debian().set("Cmd", json!(["server"])).with([program("usr/bin/server", observer())]))
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "--"])
            .cmd(["server"]),
        ordinary("runner-and-cmd-of-the-base")
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "--"])
            .cmd(["/app"]),
        // An init with nothing behind it: the pod says what.
        attack("runner-without-a-program")
            .files(own("tini", "tini-static"))
            .files([program("usr/bin/tool", super::program::dynamic())])
            .old(dynamic_base())
            .entrypoint(["/tini", "--"])
            .given(["/tini", "--", "tool"]),
        ordinary("runner-without-a-program")
            .files(own("tini", "tini-static"))
            .entrypoint(["/tini", "--"])
            .given(["/tini", "--", "/app", "x"]),
    ]
}
