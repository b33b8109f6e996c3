//! Which program is started: whose ENTRYPOINT and CMD apply, where PATH and links lead, and what becomes of a
//! program that only the old base had.

use serde_json::json;

use super::bases::{PATH, debian, debug, distroless, split_debian, with_shell};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tagged};
use crate::support::tar_layer::{Entry, folder, program, symlink, whiteout};

pub fn cases() -> Vec<Case> {
    [inherited(), searched(), linked(), merged_usr()].concat()
}

fn base_with_program(path: &str) -> super::bases::BaseImage {
    debian().with([program(path, tagged("of the base"))])
}

fn inherited() -> Vec<Case> {
    let base = || base_with_program("usr/bin/server");
    let starts = |words: &[&str]| json!(words);
    vec![
        attack("entrypoint-of-the-base").old(base().set("Entrypoint", starts(&["/usr/bin/server"]))).no_entrypoint(),
        ordinary("entrypoint-of-the-base")
            .old(debian().set("Entrypoint", starts(&["/app"])))
            .no_entrypoint()
            .cmd(["--v=2"]),
        attack("cmd-of-the-base").old(base().set("Cmd", starts(&["server", "--one"]))).no_entrypoint(),
        ordinary("cmd-of-the-base").old(debian().set("Cmd", starts(&["/app", "--one"]))).no_entrypoint(),
        attack("entrypoint-of-the-base-with-own-cmd")
            .old(base().set("Entrypoint", starts(&["server"])))
            .no_entrypoint()
            .cmd(["/app"]),
        ordinary("entrypoint-of-the-base-with-own-cmd").no_entrypoint().cmd(["/app", "--v=2"]),
        // The base's entrypoint runs what follows it.
        attack("runner-of-the-base")
            .old(debian().set("Entrypoint", starts(&["/usr/bin/env", "MODE=x"])))
            .no_entrypoint()
            .cmd(["/app"])
            .noticed(["MODE"]),
        ordinary("runner-of-the-base").entrypoint(["/app"]).cmd(["--mode=x"]),
        // The new base's entrypoint applies, as after FROM, and would swallow the CMD.
        attack("entrypoint-of-the-new-base").no_entrypoint().cmd(["/app"]).new_base(debug()),
        ordinary("entrypoint-of-the-new-base").entrypoint(["/app"]).new_base(debug()),
        attack("cmd-of-the-new-base/appended").new_base(distroless().set("Cmd", starts(&["--config=/none"]))),
        ordinary("cmd-of-the-new-base").cmd(["--v=1"]).new_base(distroless().set("Cmd", starts(&["--config=/none"]))),
        ordinary("empty-lists").cmd([]),
        ordinary("empty-lists/entrypoint").entrypoint([]).cmd(["/app", "x"]),
        attack("empty-lists/of-the-base")
            .old(base().set("Entrypoint", json!([])).set("Cmd", starts(&["server"])))
            .no_entrypoint(),
        attack("shell-form-of-the-base")
            .old(base().set("Cmd", starts(&["/bin/sh", "-c", "exec server --x"])))
            .no_entrypoint(),
        ordinary("shell-form-of-the-base").old(base()).no_entrypoint().cmd(["/bin/sh", "-c", "exec /app --x"]),
    ]
}

fn searched() -> Vec<Case> {
    let opt = || [folder("opt/x/"), folder("opt/x/bin/"), program("opt/x/bin/tool", tagged("tool"))];
    let path = "PATH=/opt/x/bin:/usr/bin:/bin";
    vec![
        attack("path-of-the-base").old(debian().set("Env", json!([path]))).files(opt()).entrypoint(["tool"]),
        ordinary("path-of-the-base").files(opt()).env([path]).entrypoint(["tool"]),
        attack("path-of-the-base/for-a-hook").old(debian().set("Env", json!([path]))).files(opt()).cmd(["--hook=tool"]),
        ordinary("path-of-the-base/for-a-hook").files(opt()).env([path]).cmd(["--hook=tool"]),
        // Two programs of one name: which is found first changes.
        attack("path-order")
            .old(debian().set("Env", json!(["PATH=/opt/x/bin:/usr/local/bin:/usr/bin"])))
            .files(opt())
            .files([folder("usr/local/bin/"), program("usr/local/bin/tool", tagged("another"))])
            .entrypoint(["tool"]),
        ordinary("path-order")
            .files(opt())
            .files([folder("usr/local/bin/"), program("usr/local/bin/tool", tagged("another"))])
            .entrypoint(["/opt/x/bin/tool"]),
        attack("program-that-both-bases-have")
            .old(debian().with([program("usr/sbin/app", tagged("of the old base"))]))
            .new_base(distroless().with([program("usr/sbin/app", tagged("of the new base"))]))
            .entrypoint(["app"]),
        ordinary("program-that-both-bases-have")
            .old(debian().with([program("usr/sbin/app", tagged("of the old base"))]))
            .new_base(distroless().with([program("usr/sbin/app", tagged("of the new base"))]))
            .files([folder("usr/local/sbin/"), program("usr/local/sbin/app", tagged("own"))])
            .entrypoint(["app"]),
        attack("shadowed-in-path-by-the-new-base")
            .new_base(
                distroless().with([folder("usr/local/bin/"), program("usr/local/bin/tool", tagged("of the new base"))]),
            )
            .files([program("usr/bin/tool", tagged("own"))])
            .entrypoint(["tool"]),
        ordinary("shadowed-in-path-by-the-new-base")
            .new_base(
                distroless()
                    .with([folder("usr/local/bin/"), program("usr/local/bin/other", tagged("of the new base"))]),
            )
            .files([program("usr/bin/tool", tagged("own"))])
            .entrypoint(["tool"]),
        attack("relative-to-the-bases-workdir")
            .old(debian().with([folder("srv/base/")]).set("WorkingDir", json!("/srv/base")))
            .only([program("srv/base/run", observer())])
            .entrypoint(["./run"]),
        ordinary("relative-to-the-bases-workdir")
            .only([folder("srv/own/"), program("srv/own/run", observer())])
            .workdir("/srv/own")
            .entrypoint(["./run"]),
        ordinary("without-a-path")
            .old(debian().set("Env", json!([])))
            .files([program("usr/bin/tool", tagged("own"))])
            .entrypoint(["tool"]),
    ]
}

fn linked() -> Vec<Case> {
    let into_base = || symlink("usr/local/bin/app", "/opt/base/app");
    vec![
        attack("link-into-the-base").old(base_with_program("opt/base/app")).only([into_base()]).entrypoint(["app"]),
        ordinary("link-into-the-base").only([into_base(), program("opt/base/app", observer())]).entrypoint(["app"]),
        attack("alternatives")
            .old(
                debian().with([
                    symlink("etc/alternatives/tool", "/usr/bin/tool-2"),
                    program("usr/bin/tool-2", tagged("two")),
                ]),
            )
            .only([symlink("usr/local/bin/tool", "/etc/alternatives/tool")])
            .entrypoint(["tool"]),
        ordinary("alternatives")
            .only([
                symlink("usr/local/bin/tool", "/etc/alternatives/tool"),
                symlink("etc/alternatives/tool", "/usr/bin/tool-2"),
                program("usr/bin/tool-2", tagged("two")),
            ])
            .entrypoint(["tool"]),
        // The base's link leads to the application's program.
        attack("link-of-the-base")
            .old(debian().with([symlink("usr/bin/start", "/opt/start")]))
            .only([program("opt/start", observer())])
            .entrypoint(["start"]),
        ordinary("link-of-the-base")
            .only([symlink("usr/bin/start", "/opt/start"), program("opt/start", observer())])
            .entrypoint(["start"]),
        attack("directory-link-of-the-base")
            .old(debian().with([folder("opt/v1/"), symlink("opt/current", "v1")]))
            .only([program("opt/v1/app", observer())])
            .entrypoint(["/opt/current/app"]),
        ordinary("directory-link-of-the-base")
            .only([symlink("opt/current", "v1"), folder("opt/v1/"), program("opt/v1/app", observer())])
            .entrypoint(["/opt/current/app"]),
        attack("program-of-the-base")
            .old(base_with_program("usr/bin/server"))
            .only([folder("srv/data/")])
            .entrypoint(["server"]),
        ordinary("program-of-the-base").only([program("usr/bin/server", observer())]).entrypoint(["server"]),
        attack("removed-above")
            .old(base_with_program("usr/local/bin/tool"))
            .only([program("usr/bin/tool", observer()), whiteout("usr/local/bin/tool")])
            .new_base(
                distroless().with([folder("usr/local/bin/"), program("usr/local/bin/tool", tagged("of the new base"))]),
            )
            .entrypoint(["tool"]),
        ordinary("removed-above")
            .old(base_with_program("usr/local/bin/tool"))
            .only([program("usr/bin/tool", observer()), whiteout("usr/local/bin/tool")])
            .entrypoint(["tool"]),
    ]
}

/// Where `/bin` is a link to `usr/bin` on one side and a directory on the other.
fn merged_usr() -> Vec<Case> {
    let merged = || {
        let mut base = distroless();
        base.layers[0].retain(|entry| !["bin/", "sbin/", "lib/"].contains(&entry.path()));
        base.layers[0].extend(["bin", "sbin", "lib"].map(|name| symlink(name, &format!("usr/{name}"))));
        base
    };
    let own = |path: &str| -> [Entry; 1] { [program(path, observer())] };
    vec![
        // Written as usr/bin/app, started as /bin/app: the link made it so.
        attack("merged-usr").only(own("usr/bin/app")).entrypoint(["/bin/app"]),
        ordinary("merged-usr").only(own("usr/bin/app")).entrypoint(["/usr/bin/app"]),
        ordinary("merged-usr/both-merged").only(own("usr/bin/app")).entrypoint(["/bin/app"]).new_base(merged()),
        // Written through the link, so the layer has bin/app: upon a link, unpackers make what they like of it.
        attack("merged-usr/written-as-bin").only(own("bin/app")).entrypoint(["/usr/bin/app"]),
        ordinary("merged-usr/by-name").only(own("usr/bin/app")).entrypoint(["app"]),
        attack("split-usr").old(split_debian()).only(own("bin/app")).new_base(merged()).entrypoint(["/bin/app"]),
        ordinary("split-usr")
            .old(split_debian())
            .only(own("usr/bin/app"))
            .new_base(merged())
            .entrypoint(["/usr/bin/app"]),
        // A directory of the layer takes the place of the new base's link, and hides what is behind it.
        attack("directory-over-a-link")
            .old(split_debian().with([program("bin/tool", tagged("tool"))]))
            .only([folder("bin/"), program("bin/helper", tagged("helper")), program("opt/app", observer())])
            .new_base(merged().with([program("usr/bin/tool", tagged("tool"))]))
            .entrypoint(["/opt/app"])
            .cmd(["--hook=/bin/helper", "--hook=/bin/tool"]),
        ordinary("directory-over-a-link")
            .old(split_debian().with([program("bin/tool", tagged("tool"))]))
            .only([folder("usr/bin/"), program("usr/bin/helper", tagged("helper")), program("opt/app", observer())])
            .new_base(merged().with([program("usr/bin/tool", tagged("tool"))]))
            .entrypoint(["/opt/app"])
            .cmd(["--hook=/usr/bin/helper", "--hook=/bin/tool"]),
        attack("path-only-bin").only(own("usr/bin/app")).env(["PATH=/bin"]).entrypoint(["app"]),
        ordinary("path-only-bin").only(own("usr/bin/app")).env(["PATH=/usr/bin:/bin"]).entrypoint(["app"]),
        attack("shell-of-the-new-base-elsewhere")
            .new_base(with_shell())
            .only([program("run.sh", "#!/usr/bin/sh\nexec /app\n"), program("app", observer())])
            .entrypoint(["/run.sh"]),
        ordinary("shell-of-the-new-base-elsewhere")
            .new_base(with_shell())
            .only([program("run.sh", "#!/bin/sh\nexec /app\n"), program("app", observer())])
            .entrypoint(["/run.sh"]),
        ordinary("own-path").env([PATH]).only(own("usr/local/bin/app")).entrypoint(["app"]),
    ]
}
