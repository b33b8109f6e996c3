//! The file that is executed: its kind, its mode, its owner, and the way to it.

use crate::pair::{Pair, pair};
use crate::program::observer;
use crate::support::tar_layer::{Entry, file, folder, hardlink, program, symlink};

pub fn pairs() -> Vec<Pair> {
    [kinds(), modes(), links()].concat()
}

fn kinds() -> Vec<Pair> {
    let elf = observer();
    let other_machine = [&elf[..18], &[183, 0], &elf[20..]].concat();
    let kinds: [(&str, Entry); 10] = [
        ("text", program("opt/x", "echo hello\n")),
        ("nothing", program("opt/x", "")),
        ("half a program", program("opt/x", &elf[..40])),
        ("four bytes of one", program("opt/x", &elf[..4])),
        ("for another machine", program("opt/x", other_machine)),
        ("a directory", folder("opt/x/")),
        ("not executable", file("opt/x", elf.clone())),
        ("another name", hardlink("opt/x", "app")),
        ("a program", program("opt/x", elf.clone())),
        ("a program with an appendix", program("opt/x", [&elf[..], b"more"].concat())),
    ];
    let words = ["/opt/x", "x"];
    let all = kinds.into_iter().flat_map(|(kind, entry)| {
        words.map(|word| pair(format!("{word} is {kind}")).files([entry.clone()]).runs([word]).env(["PATH=/opt"]))
    });
    let odd =
        [("no word", ""), ("a slash", "/"), ("a slash behind", "/app/"), ("dots", "/opt/../app"), ("above", "/../app")];
    all.chain(odd.map(|(name, word)| pair(name).runs([word]))).collect()
}

fn modes() -> Vec<Pair> {
    let modes = [0o755, 0o750, 0o705, 0o700, 0o711, 0o100, 0o010, 0o001, 0o644, 0o4755, 0o2755, 0o000];
    let owners = [(0, 0), (1000, 0), (0, 1001), (0, 29), (4242, 1001)];
    let users = ["", "app", "app:app", "4242"];
    let all =
        modes.iter().flat_map(|mode| owners.iter().flat_map(move |owner| users.map(|user| (*mode, *owner, user))));
    // A part of all that can be combined, the same every time.
    let some = all.enumerate().filter(|(at, _)| at % 4 == 1 || at % 7 == 0);
    some.map(|(at, (mode, (uid, gid), user))| {
        let name = format!("mode {mode:o} of {uid}:{gid} as {user:?}");
        // By turns of the program and of the directory that it is in.
        let entries = match at % 2 {
            0 => [folder("opt/d/"), program("opt/d/x", observer()).owned(uid, gid).mode(mode)],
            _ => [folder("opt/d/").owned(uid, gid).mode(mode & 0o777), program("opt/d/x", observer())],
        };
        pair(format!("{} {name}", if at % 2 == 0 { "program" } else { "directory" }))
            .files(entries)
            .runs(["/opt/d/x"])
            .user(user)
    })
    .collect()
}

fn links() -> Vec<Pair> {
    let root = |pair: Pair| {
        pair.files([
            folder("opt/v1/"),
            folder("opt/shut/").mode(0o700),
            program("opt/v1/x", observer()),
            program("opt/shut/x", observer()),
            symlink("opt/relative", "v1/x"),
            symlink("opt/absolute", "/opt/v1/x"),
            symlink("opt/now", "v1"),
            symlink("opt/twice", "now/x"),
            symlink("opt/up", "../opt/v1/../now/x"),
            symlink("opt/above", "../../../opt/v1/x"),
            symlink("opt/dangling", "v2/x"),
            symlink("opt/loop", "loop"),
            symlink("opt/ping", "pong"),
            symlink("opt/pong", "ping"),
            symlink("opt/into-shut", "shut/x"),
            symlink("opt/through-shut", "shut/../v1/x"),
            symlink("opt/to-directory", "v1"),
            symlink("opt/slashed", "v1/x/"),
            symlink("opt/closed-link", "/opt/shut/back"),
            symlink("opt/shut/back", "/opt/v1/x"),
        ])
    };
    let names = [
        "relative",
        "absolute",
        "now/x",
        "twice",
        "up",
        "above",
        "dangling",
        "loop",
        "ping",
        "into-shut",
        "through-shut",
        "to-directory",
        "slashed",
        "closed-link",
        "shut/back",
        "v1/../shut/x",
        "now/../v1/x",
        "missing/../v1/x",
        "v1/x/../x",
    ];
    let all = names.iter().flat_map(|name| ["", "4242"].map(|user| (*name, user)));
    let mut pairs: Vec<Pair> = all
        .map(|(name, user)| root(pair(format!("link {name} as {user:?}"))).runs([format!("/opt/{name}")]).user(user))
        .collect();
    // The kernel follows forty. Where it has to begin a walk anew, it counts the links of both, so half are sure.
    for count in [20, 41] {
        let chain = (0..count - 1).map(|at| symlink(&format!("opt/l{at}"), &format!("l{}", at + 1)));
        let mut pair = pair(format!("{count} links")).runs(["/opt/l0"]);
        pair.files.extend(chain.chain([symlink(&format!("opt/l{}", count - 1), "/app")]));
        pairs.push(pair);
    }
    pairs
}
