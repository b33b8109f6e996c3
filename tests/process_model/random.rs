//! Everything combined, by a seed.

use fastrand::Rng;

use crate::pair::{Pair, pair};
use crate::program::tagged;
use crate::support::tar_layer::{Entry, folder, program, symlink};

const SEED: u64 = 0x5eed;
const COUNT: u64 = 80;

/// The same every time; a part of them all.
pub fn pairs(part: u64) -> Vec<Pair> {
    (part * COUNT..(part + 1) * COUNT).map(|number| one(&mut Rng::with_seed(SEED + number), number)).collect()
}

fn one(random: &mut Rng, number: u64) -> Pair {
    let user = pick(random, &["", "root", "app", "1000", "app:app", "4242", "4242:29", "svc:extra"]);
    let (word, workdir) = pick(random, &WORDS);
    let mut pair = pair(format!("seed {SEED:#x}+{number}")).user(user).runs([word, "x"]).workdir(workdir);
    pair.files.extend(way(random));
    pair.files.push(executed(random));
    pair.env([pick(random, &["PATH=/opt/d:/bin", "PATH=/opt/l:/opt/d", "PATH=/opt/d/none:/opt/x", "PATH=:/opt/d"])])
}

const WORDS: [(&str, &str); 7] = [
    ("/opt/d/x", ""),
    ("x", "/srv"),
    ("./x", "/opt/d"),
    ("d/x", "/opt"),
    ("/opt/l/x", "/tmp"),
    ("/opt/x", "/opt/l"),
    ("../l/x", "/opt/d"),
];

fn pick<T: Copy>(random: &mut Rng, from: &[T]) -> T {
    from[random.usize(..from.len())]
}

fn owned(random: &mut Rng, entry: Entry, modes: &[u32]) -> Entry {
    let (uid, gid) = (pick(random, &[0, 1000, 4242]), pick(random, &[0, 29, 1001, 33]));
    entry.owned(uid, gid).mode(pick(random, modes))
}

/// The directory, a link to it, and a link to the file.
fn way(random: &mut Rng) -> Vec<Entry> {
    let directory = owned(random, folder("opt/d/"), &[0o755, 0o755, 0o755, 0o750, 0o711, 0o700, 0o070, 0o001]);
    let to_directory = pick(random, &["d", "/opt/d", "../opt/d/.", "m", "e"]);
    let to_file = pick(random, &["d/x", "l/x", "/opt/d/../d/x", "x", "d/none"]);
    let more = [symlink("opt/m", "./d"), folder("opt/e/"), program("opt/e/x", tagged("another"))];
    [directory, symlink("opt/l", to_directory), symlink("opt/x", to_file)].into_iter().chain(more).collect()
}

fn executed(random: &mut Rng) -> Entry {
    let lines = ["#!/app\n", "#!/opt/e/x y\n", "#!app\n", "#!/opt/l/none\n", "text"];
    let entry = match random.u8(..3) {
        0 => program("opt/d/x", pick(random, &lines)),
        _ => program("opt/d/x", tagged("it")),
    };
    owned(random, entry, &[0o755, 0o755, 0o755, 0o750, 0o711, 0o700, 0o070, 0o001, 0o644])
}
