//! `#!` lines, and scripts of a shell that is there.

use crate::pair::{Pair, pair};
use crate::program::tagged;
use crate::support::skip::find;
use crate::support::tar_layer::{Entry, file, folder, program, symlink};

pub fn pairs() -> Vec<Pair> {
    [lines(), nested(), shells(), env_lines()].concat()
}

pub fn busybox() -> Vec<u8> {
    std::fs::read(find("busybox").unwrap()).unwrap()
}

pub fn shell() -> Vec<Entry> {
    vec![
        folder("bin/"),
        program("bin/busybox", busybox()),
        symlink("bin/sh", "busybox"),
        symlink("bin/env", "busybox"),
        symlink("usr/bin/env", "../../bin/busybox"),
    ]
}

fn lines() -> Vec<Pair> {
    let lines = [
        "#!/app",
        "#!/app\n",
        "#! /app \t\n",
        "#!/app one argument\n",
        "#!app\n",
        "#!./app\n",
        "#!opt/tool\n",
        "#!/missing\n",
        "#!/app\r\n",
        "#!\n/app\n",
        "#!  \n",
        "#!",
        "#!/opt\n",
        "#!/opt/plain\n",
        "#!/opt/for-root\n",
        "#!/opt/shut/tool\n",
        "#!/opt/link x\n",
        "#!/opt/dangling\n",
        "#!/app\0junk\n",
        "# !/app\n",
        "\n#!/app\n",
        "#!/opt/text\n",
    ];
    let root = |pair: Pair| {
        pair.files([
            file("opt/plain", "x"),
            program("opt/text", "text"),
            program("opt/tool", tagged("tool")),
            program("opt/for-root", tagged("for-root")).mode(0o700),
            folder("opt/shut/").mode(0o700),
            program("opt/shut/tool", tagged("shut")),
            symlink("opt/link", "../app"),
            symlink("opt/dangling", "nowhere"),
        ])
    };
    let all = lines.iter().flat_map(|line| ["", "4242"].map(|user| (*line, user)));
    let plain = all.map(|(line, user)| {
        root(pair(format!("{line:?} as {user:?}"))).files([program("run", line)]).runs(["/run", "x"]).user(user)
    });
    let long = [200, 251, 252, 253, 254, 255, 256, 300].map(|length| {
        let line = format!("#!/{}app\n", "./".repeat((length - 6) / 2));
        pair(format!("a line of {} bytes", line.len())).files([program("run", line)]).runs(["/run"])
    });
    let elsewhere = ["#!app\n", "#!./app\n", "#!/app\n"]
        .map(|line| pair(format!("{line:?} from /srv")).files([program("run", line)]).workdir("/srv").runs(["/run"]));
    // A script need not be readable for the kernel, but for who interprets it; the observer does not read it.
    let modes = [0o755, 0o711, 0o111, 0o700, 0o644].map(|mode| {
        pair(format!("a script of mode {mode:o}"))
            .files([program("run", "#!/app\n").mode(mode)])
            .runs(["/run"])
            .user("4242")
    });
    plain.chain(long).chain(elsewhere).chain(modes).collect()
}

fn nested() -> Vec<Pair> {
    let deep = (1..=7).map(|depth| {
        let mut pair = pair(format!("{depth} scripts deep")).runs(["/s1"]);
        let next = |at: usize| if at == depth { "/app".to_owned() } else { format!("/s{}", at + 1) };
        pair.files.extend((1..=depth).map(|at| program(&format!("s{at}"), format!("#!{}\n", next(at)))));
        pair
    });
    let itself = pair("a script that interprets itself").files([program("s", "#!/s\n")]).runs(["/s"]);
    let closed = pair("a script behind a closed one")
        .files([program("s1", "#!/s2\n"), program("s2", "#!/app\n").mode(0o700)])
        .runs(["/s1"])
        .user("4242");
    deep.chain([itself, closed]).collect()
}

fn shells() -> Vec<Pair> {
    let scripts = [
        "#!/bin/sh\nexec /app\n",
        "#!/bin/sh\n/app\n",
        "#!/bin/sh\nset -e\nexec /app \"$@\"\n",
        "#!/bin/sh\nexec app\n",
        "#!/bin/sh\nexec /missing\n",
        "#!/bin/sh\nexec /closed\n",
        "#!/bin/sh -e\nexec /app\n",
        "#!/bin/busybox sh\nexec /app\n",
        "#!/bin/sh\nif true; then /app; fi\n",
        "#!/bin/sh\nexec /opt/script\n",
        "#!/bin/sh\nexec /opt/lost\n",
    ];
    let root = |pair: Pair| {
        let own = [program("opt/script", "#!/app\n"), program("opt/lost", "#!/missing\n")];
        pair.below(shell()).files(own).files([program("closed", tagged("closed")).mode(0o700)])
    };
    let files = scripts.iter().flat_map(|script| {
        ["", "4242"].map(|user| {
            let pair = root(pair(format!("{script:?} as {user:?}")))
                .files([program("run", *script)])
                .runs(["/run"])
                .user(user);
            pair.env(["PATH=/bin:/usr/bin:/opt"])
        })
    });
    let commands = [
        "/app",
        "exec /app x",
        "app",
        "exec app",
        "exec /missing",
        "/closed",
        "/opt/script",
        "/opt/lost",
        "true && /app",
        "cd /srv && exec /app",
        "A=b exec /app",
        "export A=b; exec /app",
    ];
    let inline = commands.iter().flat_map(|command| {
        let shells: [&[&str]; 2] = [&["/bin/sh", "-c"], &["busybox", "sh", "-c"]];
        shells.map(|shell| {
            let pair = root(pair(format!("{shell:?} {command:?}"))).env(["PATH=/bin:/:/usr/bin"]).user("4242");
            let pair = pair.runs([shell, &[command]].concat());
            match *command {
                "cd /srv && exec /app" => pair.goes_to("/srv"),
                "A=b exec /app" | "export A=b; exec /app" => pair.changes([("A", Some("b"))]),
                _ => pair,
            }
        })
    });
    let given = [
        pair("a file for the shell").runs(["sh", "/opt/plain.sh"]),
        pair("an executable file for the shell").runs(["sh", "/run"]).files([program("run", "#!/bin/sh\nexec /app\n")]),
        pair("a file that is not there for the shell").runs(["sh", "/opt/missing.sh"]),
        pair("a file that the shell may not read").runs(["sh", "/opt/secret.sh"]).user("4242"),
    ];
    let given = given.map(|pair| {
        root(pair).env(["PATH=/bin"]).files([
            file("opt/plain.sh", "#!/bin/sh\nexec /app\n"),
            file("opt/secret.sh", "#!/bin/sh\nexec /app\n").mode(0o600),
        ])
    });
    files.chain(inline).chain(given).collect()
}

fn env_lines() -> Vec<Pair> {
    let lines = [
        "#!/usr/bin/env app\n",
        "#!/usr/bin/env missing\n",
        "#!/usr/bin/env /app\n",
        "#!/usr/bin/env for-root\n",
        "#!/usr/bin/env local\n",
        "#!/bin/env app\n",
        "#!/usr/bin/env\n",
        "#!/usr/bin/env app argument\n",
    ];
    let all = lines.iter().flat_map(|line| ["", "4242"].map(|user| (*line, user)));
    all.map(|(line, user)| {
        let pair = pair(format!("{line:?} as {user:?}")).below(shell()).files([
            program("run", line),
            program("opt/for-root", tagged("for-root")).mode(0o700),
            program("srv/local", tagged("local")),
        ]);
        pair.runs(["/run"]).user(user).env(["PATH=/:/opt:"]).workdir("/srv")
    })
    .collect()
}
