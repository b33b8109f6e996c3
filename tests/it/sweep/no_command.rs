//! Images without a command: the pod gives it. Every program that they bring is one that may be started.

use serde_json::Value;

use super::bases::{BaseImage, debian, with_shell};
use super::case::{self, Case};
use super::program::{doing, dynamic, observer, tagged};
use crate::support::programs::libraries;
use crate::support::tar_layer::{Entry, folder, program, symlink};

/// On a base with the C library of this machine, and without a command.
fn base() -> BaseImage {
    let mut base = debian().set("Cmd", Value::Null);
    let moved = |entry: Entry| entry.moved(|path| format!("usr/{}", path.trim_start_matches("usr/")));
    base.layers.push(libraries(&dynamic()).into_iter().map(moved).collect());
    base
}

fn attack(name: &str) -> Case {
    case::attack(name).no_entrypoint().old(base())
}

fn ordinary(name: &str) -> Case {
    case::ordinary(name).no_entrypoint().old(base())
}

pub fn cases() -> Vec<Case> {
    let server = |bytes: Vec<u8>| [folder("usr/local/bin/"), program("usr/local/bin/kube-server", bytes)];
    vec![
        ordinary("copied-program").only(server(observer())).given(["kube-server", "--v=2"]),
        attack("copied-program/dynamic").only(server(dynamic())).given(["kube-server", "--v=2"]),
        attack("copied-program/one-of-two-dynamic")
            .only(server(observer()))
            .files([program("usr/local/bin/kube-second", dynamic())])
            .given(["kube-second"]),
        ordinary("copied-program/two")
            .only(server(observer()))
            .files([program("usr/local/bin/kube-second", tagged("second"))])
            .given(["kube-second"]),
        attack("copied-program/calls-a-tool")
            .only(server(doing("act(\"hook\", \"/usr/bin/id\")")))
            .given(["kube-server"]),
        ordinary("copied-program/calls-its-own")
            .only(server(doing("act(\"hook\", \"/usr/local/bin/own\")")))
            .files([program("usr/local/bin/own", tagged("own"))])
            .given(["kube-server"]),
        attack("copied-script")
            .only([program("run.sh", "#!/bin/sh\nexec /app\n"), program("app", observer())])
            .given(["/run.sh"]),
        ordinary("copied-script")
            .only([program("run.sh", "#!/bin/sh\nexec /app\n"), program("app", observer())])
            .given(["/run.sh"])
            .new_base(with_shell()),
        attack("copied-link")
            .only([program("app", observer())])
            .old(base().with([program("usr/bin/server-2", observer())]))
            .files([symlink("usr/local/bin/second", "/usr/bin/server-2")])
            .given(["second"]),
        ordinary("copied-link")
            .only([symlink("usr/local/bin/server", "/opt/server"), program("opt/server", observer())])
            .given(["server"]),
        attack("uses-an-account").only(server(observer())).given(["kube-server"]).user("www-data"),
        ordinary("uses-an-account").only(server(observer())).given(["kube-server"]).user("nobody"),
        attack("variable-of-the-base")
            .old(base().env("KUBE_MODE=x"))
            .only(server(doing("act(\"from-env\", \"KUBE_MODE\")")))
            .given(["kube-server"]),
        ordinary("variable-of-the-base")
            .only(server(doing("act(\"from-env\", \"KUBE_MODE\")")))
            .env(["KUBE_MODE=x"])
            .given(["kube-server"]),
    ]
}
