//! A disk that loses its power. The object of `preload.c` keeps what was synced; from it the worst
//! that a power cut may leave is put together.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::invocation::Invocation;
use super::skip::or_skip;

/// What of a folder would be there again after a power cut.
pub struct Durable {
    folder: PathBuf,
    state: PathBuf,
}

/// Which names a power cut leaves. Of the content of a file always only what was synced is left, and
/// nothing where it never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// In every folder those of its last sync.
    Synced,
    /// All that there were: names may come to the disk before anybody asks for it.
    All,
    /// The one in some folders, the other in others.
    Mixed(u64),
}

/// Which syncs do nothing: to show that their lack is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deaf {
    Folders,
    Files,
}

impl Durable {
    /// All that is in the folder now is durable. `state` is a new folder on the same disk.
    pub fn new(folder: &Path, state: &Path) -> Self {
        for name in ["files", "folders", "kept", "fresh"] {
            fs::create_dir_all(state.join(name)).unwrap();
        }
        let durable = Self { folder: folder.to_owned(), state: state.to_owned() };
        durable.save(folder);
        durable
    }

    fn save(&self, folder: &Path) {
        let mut list = String::new();
        for entry in entries(folder) {
            let number = entry.number.to_string();
            let _ = writeln!(list, "{} {number} {}", if entry.is_folder { 'd' } else { 'f' }, entry.name);
            let path = folder.join(&entry.name);
            if entry.is_folder {
                self.save(&path);
            } else {
                fs::copy(&path, self.state.join("files").join(&number)).unwrap();
                fs::hard_link(&path, self.state.join("kept").join(&number)).unwrap();
            }
        }
        fs::write(self.state.join("folders").join(number(folder)), list).unwrap();
    }

    pub fn watch(&self, invocation: Invocation) -> Invocation {
        invocation.env("DISK_STATE", &self.state)
    }

    /// Puts what is left into the new folder `to`.
    pub fn after_power_cut(&self, names: Names, to: &Path) {
        let seed = if let Names::Mixed(seed) = names { seed } else { 0 };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut is_synced = || match names {
            Names::Synced => true,
            Names::All => false,
            Names::Mixed(_) => random.bool(),
        };
        self.rebuild(&self.folder, &number(&self.folder), to, &mut is_synced);
    }

    fn rebuild(&self, from: &Path, folder: &str, to: &Path, is_synced: &mut dyn FnMut() -> bool) {
        fs::create_dir(to).unwrap();
        let listed = if is_synced() { self.synced(folder) } else { entries(from) };
        for entry in listed {
            let (number, to) = (entry.number.to_string(), to.join(&entry.name));
            if entry.is_folder {
                self.rebuild(&from.join(&entry.name), &number, &to, is_synced);
            } else if let Err(error) = fs::copy(self.state.join("files").join(number), &to) {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                fs::write(&to, "").unwrap();
            }
        }
    }

    /// The entries of a folder as of its last sync; none where there was none.
    fn synced(&self, folder: &str) -> Vec<Entry> {
        let list = fs::read_to_string(self.state.join("folders").join(folder)).unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_else(|| panic!("not an entry: {line}")).to_owned();
            Entry { is_folder: word() == "d", number: word().parse().unwrap(), name: word() }
        };
        list.lines().map(entry).collect()
    }
}

impl Deaf {
    pub fn to(self, invocation: Invocation) -> Invocation {
        invocation.env("DISK_DEAF", if self == Self::Folders { "folders" } else { "files" })
    }
}

struct Entry {
    is_folder: bool,
    number: u64,
    name: String,
}

/// What is in a folder, in one order.
fn entries(folder: &Path) -> Vec<Entry> {
    use std::os::unix::fs::DirEntryExt as _;
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let name = |name: OsString| name.into_string().expect("names of the tests are UTF-8");
    let mut entries: Vec<Entry> = found
        .map(Result::unwrap)
        .map(|it| Entry { is_folder: it.path().is_dir(), number: it.ino(), name: name(it.file_name()) })
        .collect();
    entries.sort_by(|one, two| one.name.cmp(&two.name));
    entries
}

fn number(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).unwrap().ino().to_string()
}

#[test]
fn what_was_not_synced_is_lost_and_nothing_else() {
    use super::faulty_disk::{Harm, Preload};
    use super::invocation::{Sandbox, files_under};
    let preload = or_skip!(Preload::new());
    let sandbox = Sandbox::new();
    let disk = sandbox.path("disk");
    fs::create_dir(&disk).unwrap();
    fs::write(disk.join("old"), "old").unwrap();
    fs::write(disk.join("gone"), "gone").unwrap();
    let durable = Durable::new(&disk, &sandbox.path("state"));
    let script =
        "echo synced >a; sync a; sync .; echo more >>a; echo named >b; sync b; echo data >c; sync .; rm gone; mv a d";
    let sh = durable.watch(sandbox.program("/bin/sh", ["-c", script]).current_dir(&disk));
    preload.put(sh, &disk, &sandbox.path("log"), Harm::None).run().ok();
    let left = |names: Names| {
        let to = sandbox.path("left");
        durable.after_power_cut(names, &to);
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut found: Vec<_> =
            files_under(&to).iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect();
        found.sort();
        fs::remove_dir_all(&to).unwrap();
        found
    };
    let all = [("a", "synced\n"), ("b", "named\n"), ("c", ""), ("gone", "gone"), ("old", "old")];
    assert_eq!(left(Names::Synced), all.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let all = [("b", "named\n"), ("c", ""), ("d", "synced\n"), ("old", "old")];
    assert_eq!(left(Names::All), all.map(|(name, text)| (name.to_owned(), text.to_owned())));
}
