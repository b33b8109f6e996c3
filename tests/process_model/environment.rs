//! Variables, HOME and the PATH that a program is looked for in.

use crate::pair::{Pair, pair};
use crate::program::tagged;
use crate::support::tar_layer::{file, folder, program, symlink};

pub fn pairs() -> Vec<Pair> {
    [variables(), paths()].concat()
}

fn variables() -> Vec<Pair> {
    let lists: [&[&str]; 13] = [
        &[],
        &["A=1"],
        &["A=1", "A=2"],
        &["A=", "B= x "],
        &["A=b=c"],
        &["PATH=/usr/bin"],
        &["PATH=/one", "A=1", "PATH=/two"],
        &["HOME=/own"],
        &["HOME="],
        &["HOME=/one", "HOME=/two"],
        &["home=/x", "PATH="],
        &["A"],
        &["=x"],
    ];
    let users = ["", "app", "4242"];
    let all = lists.iter().flat_map(|list| {
        users.map(|user| pair(format!("{list:?} as {user:?}")).set("Env", serde_json::json!(list)).user(user))
    });
    all.collect()
}

/// What the directories of PATH have.
fn root(pair: Pair) -> Pair {
    pair.without(["app"]).files([
        folder("a/"),
        folder("b/"),
        folder("closed/").mode(0o700),
        folder("work/"),
        folder("usr/local/"),
        folder("usr/local/bin/"),
        program("b/tool", tagged("b")),
        program("closed/tool", tagged("closed")),
        program("work/tool", tagged("work")),
        program("work/local", tagged("local")),
        program("usr/bin/tool", tagged("usr")),
        program("b/for-root", tagged("for-root")).mode(0o700),
        program("usr/bin/for-root", tagged("for-all")),
        file("a/plain", "x"),
        program("b/plain", tagged("plain")),
        folder("a/directory/"),
        program("b/directory", tagged("directory")),
        symlink("a/dangling", "nowhere"),
        program("b/dangling", tagged("dangling")),
        program("a/text", "no program"),
        program("b/text", tagged("text")),
        symlink("a/link", "../b/tool"),
        symlink("c", "b"),
    ])
}

fn paths() -> Vec<Pair> {
    let paths = [
        None,
        Some(""),
        Some("/a:/b"),
        Some("/none:/b"),
        Some(":/b"),
        Some("/b:"),
        Some("/a::/b"),
        Some("."),
        Some("b:/usr/bin"),
        Some("./b"),
        Some("/closed:/b"),
        Some("/c"),
        Some("/b/"),
        Some("/b/tool:/usr/bin"),
        Some("//b/../b"),
    ];
    let words = ["tool", "local", "for-root", "plain", "directory", "dangling", "text", "link", "nothing"];
    let all = paths.iter().flat_map(|path| words.map(|word| (*path, word)));
    let few = all.enumerate().filter(|(at, (_, word))| *word == "tool" || at % 3 == 0);
    few.flat_map(|(_, (path, word))| {
        ["", "1000"].map(|user| {
            let pair =
                root(pair(format!("{word} in PATH {path:?} as {user:?}"))).runs([word]).user(user).workdir("/work");
            match path {
                Some(path) => pair.env([&format!("PATH={path}")]),
                None => pair,
            }
        })
    })
    .collect()
}
