//! Layers as Debian's package manager leaves them: with packages of this machine, or made by hand.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// What dpkg has of its checksums.
    checksums: Vec<u8>,
}

/// A package that is installed on this machine; says so where it is not.
pub fn of_this_machine(name: &str) -> Part<Package> {
    need(&["dpkg"])?;
    DebianRoot { root: PathBuf::from("/") }.package(name)
}

/// An installed Debian in a directory.
pub struct DebianRoot {
    root: PathBuf,
}

impl DebianRoot {
    /// One with servers and interpreters that many images are made of. Made once and kept, since a mirror is asked.
    pub fn with_services() -> Part<Self> {
        const NAMES: &str = "nginx-light,redis-server,haproxy,nodejs,python3,libgomp1";
        const LEFT_OUT: [&str; 4] = [
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        ];
        need(&["dpkg", "mmdebstrap"])?;
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian-bookworm-services");
        let lock = std::fs::File::create(kept.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        if !kept.exists() {
            let draft = kept.with_extension("draft");
            let _ = std::fs::remove_dir_all(&draft);
            let mut mmdebstrap = Command::new(super::skip::find("mmdebstrap").unwrap());
            mmdebstrap.args(["--quiet", "--mode=root", "--variant=essential", "--format=directory"]);
            mmdebstrap.arg(format!("--include={NAMES}")).args(LEFT_OUT).arg("bookworm").arg(&draft);
            let out = mmdebstrap.output().unwrap();
            if !out.status.success() {
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                return Err(missing(&format!("Debian's {NAMES}, which mmdebstrap fetches ({said})")));
            }
            std::fs::rename(draft, &kept).unwrap();
        }
        Ok(Self { root: kept })
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root.join(path)).unwrap()
    }

    pub fn packages(&self, names: &[&str]) -> Part<Vec<Package>> {
        names.iter().map(|name| self.package(name)).collect()
    }

    /// Of a package that can be installed for several machines, dpkg has a list for each.
    fn list_of(&self, name: &str) -> Option<String> {
        let both = [name.to_owned(), format!("{name}:amd64")].map(|name| format!("var/lib/dpkg/info/{name}.list"));
        both.into_iter().find(|info| self.root.join(info).exists())
    }

    pub fn package(&self, name: &str) -> Part<Package> {
        let Some(info) = self.list_of(name) else { return Err(missing(&format!("package {name}"))) };
        let list = self.root.join(&info);
        let admin = format!("--admindir={}", self.root.join("var/lib/dpkg").display());
        let stanza = String::from_utf8(tool("dpkg", &[&admin, "-s", name]).stdout).unwrap();
        let version = stanza.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap().to_owned();
        let text = std::fs::read_to_string(&list).unwrap();
        let paths = text.lines().map(|line| line.trim_start_matches("/.").trim_start_matches('/'));
        let (mut files, mut bytes) = (Vec::new(), 0);
        for path in paths.filter(|path| !path.is_empty()) {
            // Images of Debian are often installed without their documentation.
            let Some((entry, size)) = self.packed(path) else { continue };
            files.push(entry);
            bytes += size;
        }
        let checksums = std::fs::read(list.with_extension("md5sums")).unwrap_or_default();
        let list = file(&info, text).at(seconds(&list));
        Ok(Package { name: name.to_owned(), version, files, bytes, list, stanza, checksums })
    }

    /// A file as it is, and its size.
    fn packed(&self, path: &str) -> Option<(Entry, u64)> {
        let at = self.root.join(path);
        let data = at.symlink_metadata().ok()?;
        let (entry, size) = if data.is_dir() {
            (folder(&format!("{path}/")).mode(data.mode() & 0o7777), 0)
        } else if data.is_symlink() {
            (symlink(path, std::fs::read_link(&at).unwrap().to_str().unwrap()), 0)
        } else {
            let bytes = std::fs::read(&at).unwrap();
            let size = bytes.len() as u64;
            (file(path, bytes).mode(data.mode() & 0o7777), size)
        };
        Some((entry.owned(data.uid().into(), data.gid().into()).at(seconds(&at)), size))
    }
}

fn seconds(path: &Path) -> u64 {
    u64::try_from(path.symlink_metadata().unwrap().mtime()).unwrap()
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
        checksums: Vec::new(),
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
        let status = |name: &str, bytes: Vec<u8>| file(&format!("var/lib/dpkg/status.d/{name}"), bytes);
        let control = self.stanza.lines().filter(|line| !line.starts_with("Status:")).collect::<Vec<_>>().join("\n");
        let metadata = [
            status(&self.name, control.into_bytes()),
            status(&format!("{}.md5sums", self.name), self.checksums.clone()),
        ];
        self.files.iter().cloned().chain(metadata).map(|entry| entry.at(0)).collect()
    }
}

/// Several packages in one root with one database, as an installation leaves them: `/lib` and its like are links
/// into `/usr`.
pub fn system(packages: &[Package]) -> Vec<Entry> {
    let merged = |path: &str| match path.split('/').next() {
        Some("bin" | "sbin" | "lib" | "lib64") => format!("usr/{path}"),
        _ => path.to_owned(),
    };
    let links = ["bin", "sbin", "lib", "lib64"].map(|name| symlink(name, &format!("usr/{name}")));
    let files = packages.iter().flat_map(|package| package.files.iter().cloned());
    let files = files.filter(|entry| !is_top_link(entry.path())).map(|entry| entry.moved(merged));
    let database = packages.iter().flat_map(|package| {
        let sums = package.list.path().replace(".list", ".md5sums");
        [package.list.clone(), file(&sums, package.checksums.clone())]
    });
    let stanzas: Vec<&str> = packages.iter().map(|package| package.stanza.trim_end()).collect();
    let status = file(STATUS, format!("{}\n", stanzas.join("\n\n")));
    let mut seen = std::collections::HashSet::new();
    let all = links.into_iter().chain(files).chain(database).chain([status]);
    all.filter(|entry| seen.insert(entry.path().trim_end_matches('/').to_owned())).collect()
}

fn is_top_link(path: &str) -> bool {
    matches!(path.trim_end_matches('/'), "bin" | "sbin" | "lib" | "lib64")
}
