//! `WorkingDir`, and programs that are named from it.

use crate::pair::{Pair, pair};
use crate::program::observer;
use crate::support::tar_layer::{file, folder, program, symlink};

fn root(pair: Pair) -> Pair {
    pair.files([
        folder("srv/open/"),
        folder("srv/closed/").mode(0o700),
        folder("srv/closed/inner/"),
        folder("srv/none/").mode(0),
        folder("srv/own/").owned(1000, 1001).mode(0o700),
        folder("srv/group/").owned(0, 29).mode(0o070),
        folder("srv/search/").mode(0o711),
        symlink("srv/link", "open"),
        symlink("srv/absolute", "/srv/open"),
        symlink("srv/to-closed", "closed/inner"),
        symlink("srv/elsewhere", "/opt"),
        symlink("srv/dangling", "nothing/here"),
        symlink("srv/loop", "loop"),
        symlink("srv/out", "../../../../srv/open"),
        symlink("srv/to-file", "/srv/file"),
        file("srv/file", "x"),
        program("srv/open/here", observer()),
        program("srv/closed/inner/here", observer()),
        program("srv/own/here", observer()),
        program("srv/search/here", observer()),
    ])
}

const DIRECTORIES: [&str; 26] = [
    "",
    "/",
    "/srv/open",
    "/srv/open/",
    "/srv//open/./",
    "/srv/open/../search",
    "/srv/elsewhere/../srv/open",
    "/srv/made/../open",
    "srv/open",
    "/srv/made",
    "/srv/made/deep/er",
    "/srv/link",
    "/srv/absolute",
    "/srv/link/made",
    "/srv/out",
    "/srv/dangling",
    "/srv/loop",
    "/srv/file",
    "/srv/file/below",
    "/srv/to-file",
    "/srv/closed",
    "/srv/closed/inner",
    "/srv/to-closed",
    "/srv/none",
    "/srv/own",
    "/srv/group",
];

pub fn pairs() -> Vec<Pair> {
    let plain = DIRECTORIES.iter().flat_map(|directory| {
        ["", "app", "4242"]
            .map(|user| root(pair(format!("in {directory:?} as {user:?}"))).workdir(directory).user(user))
    });
    let relative = DIRECTORIES.iter().flat_map(|directory| {
        let words = [("./here", ""), ("here", ""), ("./here", "1000"), ("../open/here", "4242")];
        words.map(|(word, user)| {
            let name = format!("{word} in {directory:?} as {user:?}");
            root(pair(name)).workdir(directory).user(user).runs([word])
        })
    });
    let relative = relative.filter(|pair| !pair.config["WorkingDir"].as_str().unwrap().ends_with("made"));
    plain.chain(relative).collect()
}
