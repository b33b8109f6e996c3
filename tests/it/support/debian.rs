//! Layers as Debian's package manager leaves them: with packages of this machine, or made by hand.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::skip::{Part, missing, need};
use super::tar_layer::{Entry, file, folder, program, symlink};
use super::tools::tool;

const STATUS: &str = "var/lib/dpkg/status";

/// A package with its files and what dpkg knows of it.
pub struct Package {
    pub name: String,
    pub version: String,
    pub files: Vec<Entry>,
    /// The sum of the sizes of its files.
    pub bytes: u64,
    list: Entry,
    stanza: String,
}

/// A package that is installed on this machine; says so where it is not.
pub fn of_this_machine(name: &str) -> Part<Package> {
    need(&["dpkg"])?;
    let info = format!("var/lib/dpkg/info/{name}.list");
    let list = Path::new("/").join(&info);
    if !list.exists() {
        return Err(missing(&format!("package {name}")));
    }
    let stanza = String::from_utf8(tool("dpkg", &["-s", name]).stdout).unwrap();
    let version = stanza.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap().to_owned();
    let text = std::fs::read_to_string(&list).unwrap();
    let paths = text.lines().map(|line| line.trim_start_matches("/.").trim_start_matches('/'));
    let (mut files, mut bytes) = (Vec::new(), 0);
    for path in paths.filter(|path| !path.is_empty()) {
        // Images of Debian are often installed without their documentation.
        let Some((entry, size)) = packed(path) else { continue };
        files.push(entry);
        bytes += size;
    }
    let list = file(&info, text).at(seconds(&list));
    Ok(Package { name: name.to_owned(), version, files, bytes, list, stanza })
}

fn seconds(path: &Path) -> u64 {
    u64::try_from(path.symlink_metadata().unwrap().mtime()).unwrap()
}

/// A file of this machine as it is, and its size.
fn packed(path: &str) -> Option<(Entry, u64)> {
    let at = Path::new("/").join(path);
    let data = at.symlink_metadata().ok()?;
    let (entry, size) = if data.is_dir() {
        (folder(&format!("{path}/")), 0)
    } else if data.is_symlink() {
        (symlink(path, std::fs::read_link(&at).unwrap().to_str().unwrap()), 0)
    } else {
        let bytes = std::fs::read(&at).unwrap();
        let size = bytes.len() as u64;
        (file(path, bytes).mode(data.mode() & 0o7777), size)
    };
    Some((entry.owned(data.uid().into(), data.gid().into()).at(seconds(&at)), size))
}

/// A package of files that are written here.
pub fn by_hand(name: &str, files: &[(&str, &str)]) -> Package {
    let lines: Vec<&str> = files.iter().flat_map(|(path, _)| ["/", path, "\n"]).collect();
    Package {
        name: name.to_owned(),
        version: "1.0-1".to_owned(),
        files: files.iter().map(|(path, text)| program(path, *text).at(1000)).collect(),
        bytes: files.iter().map(|(_, text)| text.len() as u64).sum(),
        list: file(&format!("var/lib/dpkg/info/{name}.list"), format!("/.\n{}", lines.concat())).at(2000),
        stanza: format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-1\n"),
    }
}

impl Package {
    /// All that an installation leaves in a layer.
    pub fn installed(&self) -> Vec<Entry> {
        let files = self.files.iter().cloned();
        let database = [self.list.clone(), file(STATUS, self.stanza.clone())];
        files.chain(database).chain([file("var/log/dpkg.log", "installed\n"), file("etc/ld.so.cache", "x")]).collect()
    }

    /// As distroless images have a package of this machine: unpacked, with its stanza and its checksums.
    pub fn unpacked(&self) -> Vec<Entry> {
        let sums = std::fs::read(format!("/var/lib/dpkg/info/{}.md5sums", self.name)).unwrap();
        let status = |name: &str, bytes: Vec<u8>| file(&format!("var/lib/dpkg/status.d/{name}"), bytes);
        let control = self.stanza.lines().filter(|line| !line.starts_with("Status:")).collect::<Vec<_>>().join("\n");
        let metadata = [status(&self.name, control.into_bytes()), status(&format!("{}.md5sums", self.name), sums)];
        self.files.iter().cloned().chain(metadata).map(|entry| entry.at(0)).collect()
    }
}
