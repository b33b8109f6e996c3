//! Bases that are small and yet like those that people use: a Debian with a shell, tools and accounts, and
//! distroless images with and without a shell.

use serde_json::{Value, json};

use super::program::tool;
use crate::support::recipe::Recipe;
use crate::support::skip::find;
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, symlink};

pub const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct BaseImage {
    pub layers: Vec<Vec<Entry>>,
    pub config: Value,
}

impl BaseImage {
    /// With more files, in a layer of their own.
    pub fn with<const N: usize>(mut self, files: [Entry; N]) -> Self {
        self.layers.push(files.into());
        self
    }

    pub fn set(mut self, member: &str, value: Value) -> Self {
        self.config[member] = value;
        self
    }

    /// With one more variable.
    pub fn env(mut self, variable: &str) -> Self {
        self.config["Env"].as_array_mut().unwrap().push(variable.into());
        self
    }

    /// With these lines after those of `/etc/passwd` and `/etc/group`.
    pub fn accounts(self, passwd: &str, group: &str) -> Self {
        let (users, groups) = (format!("{DEBIAN_PASSWD}{passwd}"), format!("{DEBIAN_GROUP}{group}"));
        self.with([file("etc/passwd", users), file("etc/group", groups)])
    }

    pub fn recipe(&self) -> Recipe {
        let layers = self.layers.iter().map(|files| Layer::of(Pack::Gzip, files)).collect();
        Recipe { config: self.config.clone(), ..Recipe::new("linux/amd64", layers) }
    }
}

pub const DEBIAN_PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
    bin:x:2:2:bin:/bin:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
pub const DEBIAN_GROUP: &str =
    "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\naudio:x:29:\nwww-data:x:33:\nstaff:x:50:\nnogroup:x:65534:\n";

/// Links to one program, as a Debian has the programs themselves.
const TOOLS: [&str; 18] = [
    "cat", "ls", "sed", "awk", "id", "env", "timeout", "sleep", "true", "echo", "grep", "hostname", "mkdir", "chown",
    "date", "test", "printf", "readlink",
];

/// With all its tools in one program, and a shell that finds them there.
pub fn busybox() -> Vec<u8> {
    std::fs::read(find("busybox").unwrap()).unwrap()
}

/// Not busybox, whose shell needs no links for its tools.
fn shell() -> Vec<u8> {
    std::fs::read(find("mksh-static").unwrap()).unwrap()
}

/// What every root has.
fn skeleton() -> Vec<Entry> {
    let plain =
        ["etc/", "usr/", "var/", "var/lib/", "var/log/", "home/", "opt/", "srv/", "dev/", "proc/", "sys/", "run/"];
    let mut files: Vec<Entry> = plain.map(folder).to_vec();
    files.extend([folder("root/").mode(0o700), folder("tmp/").mode(0o1777), folder("var/tmp/").mode(0o1777)]);
    files
}

/// A Debian with merged `/usr`.
pub fn debian() -> BaseImage {
    let mut files = skeleton();
    files.extend(
        ["usr/bin/", "usr/sbin/", "usr/lib/", "usr/lib64/", "usr/share/", "usr/local/", "usr/local/bin/"].map(folder),
    );
    files.extend(["bin", "sbin", "lib", "lib64"].map(|name| symlink(name, &format!("usr/{name}"))));
    files.push(symlink("var/run", "/run"));
    files.extend(debian_files());
    BaseImage { layers: vec![files], config: json!({"Env": [PATH], "Cmd": ["bash"]}) }
}

/// A Debian before `/usr` was merged: `/bin` and `/lib64` are directories.
pub fn split_debian() -> BaseImage {
    let mut files = skeleton();
    files.extend(["bin/", "sbin/", "lib/", "lib64/", "usr/bin/", "usr/sbin/", "usr/lib/", "usr/share/"].map(folder));
    files.extend(debian_files());
    files.push(symlink("bin/sh", "/usr/bin/sh"));
    BaseImage { layers: vec![files], config: json!({"Env": [PATH], "Cmd": ["bash"]}) }
}

fn debian_files() -> Vec<Entry> {
    let mut files = vec![
        file("etc/os-release", "PRETTY_NAME=\"Oldian 9\"\nID=oldian\n"),
        file("etc/passwd", DEBIAN_PASSWD),
        file("etc/group", DEBIAN_GROUP),
        file("etc/base.conf", "of the old base\n"),
        file("etc/hosts.conf", "of the old base\n"),
        folder("etc/ssl/"),
        folder("etc/ssl/certs/"),
        file("etc/ssl/certs/ca-certificates.crt", "certificates of the old base\n"),
        file("etc/ssl/base.pem", "a certificate that only the old base has\n"),
        folder("usr/share/base/"),
        file("usr/share/base/data", "of the old base\n"),
        program("usr/bin/coreutils", tool()),
        program("usr/bin/sh", shell()),
        symlink("usr/bin/bash", "sh"),
    ];
    files.extend(TOOLS.map(|name| symlink(&format!("usr/bin/{name}"), "coreutils")));
    files.extend(zones());
    files
}

/// Fixed offsets from UTC, in the format of `tzfile(5)`.
fn zones() -> [Entry; 4] {
    [
        folder("usr/share/zoneinfo/"),
        file("usr/share/zoneinfo/UTC", zone(0, "UTC")),
        folder("usr/share/zoneinfo/Asia/"),
        file("usr/share/zoneinfo/Asia/Tokyo", zone(9 * 3600, "JST")),
    ]
}

fn zone(offset: i32, name: &str) -> Vec<u8> {
    let part = |counts: [u32; 6]| {
        let mut bytes = b"TZif2".to_vec();
        bytes.extend([0; 15]);
        bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
        bytes.extend(offset.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(name.bytes().chain([0]));
        bytes
    };
    let letters = u32::try_from(name.len()).unwrap() + 1;
    let counts = [0, 0, 0, 0, 1, letters];
    let footer = format!("\n{name}{}\n", -offset / 3600);
    [part(counts), part(counts), footer.into_bytes()].concat()
}

pub const DISTROLESS_PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n";
pub const DISTROLESS_GROUP: &str = "root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n";

/// `gcr.io/distroless/static`.
pub fn distroless() -> BaseImage {
    let mut files = skeleton();
    files.extend(["bin/", "sbin/", "lib/", "usr/bin/", "usr/sbin/", "usr/lib/", "usr/share/"].map(folder));
    files.extend([
        file("etc/os-release", "PRETTY_NAME=\"Distroless\"\nID=debian\n"),
        file("etc/passwd", DISTROLESS_PASSWD),
        file("etc/group", DISTROLESS_GROUP),
        file("etc/nsswitch.conf", "hosts: files dns\n"),
        folder("etc/ssl/"),
        folder("etc/ssl/certs/"),
        file("etc/ssl/certs/ca-certificates.crt", "certificates of the new base\n"),
        folder("home/nonroot/").owned(65532, 65532).mode(0o700),
        symlink("var/run", "/run"),
        folder("var/lib/dpkg/"),
        folder("var/lib/dpkg/status.d/"),
        file("var/lib/dpkg/status.d/base", "Package: base-files\nVersion: 12\nArchitecture: amd64\n"),
        file("var/lib/dpkg/status.d/tzdata", "Package: tzdata\nVersion: 2024a\nArchitecture: all\n"),
    ]);
    files.extend([folder("usr/share/zoneinfo/"), file("usr/share/zoneinfo/UTC", zone(0, "UTC"))]);
    let env = json!([PATH, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]);
    BaseImage { layers: vec![files], config: json!({"Env": env, "User": "0", "WorkingDir": "/"}) }
}

/// `gcr.io/distroless/static:nonroot`.
pub fn nonroot() -> BaseImage {
    distroless().set("User", json!("65532")).set("WorkingDir", json!("/home/nonroot"))
}

/// `gcr.io/distroless/static:debug`: a shell below `/busybox`, as its entrypoint.
pub fn debug() -> BaseImage {
    let tools = ["sh", "cat", "ls", "echo", "true", "sleep", "env"];
    let mut files = vec![folder("busybox/"), program("busybox/busybox", busybox())];
    files.extend(tools.map(|tool| symlink(&format!("busybox/{tool}"), "busybox")));
    let mut base = distroless().set("Entrypoint", json!(["/busybox/sh"]));
    base.config["Env"][0] = format!("{PATH}:/busybox").into();
    base.layers.push(files);
    base
}

/// A base with `/bin/sh` and few tools beside it.
pub fn with_shell() -> BaseImage {
    let mut base = distroless();
    let mut files = vec![program("bin/coreutils", tool()), program("bin/sh", shell())];
    files.extend(["cat", "echo", "true"].map(|name| symlink(&format!("bin/{name}"), "coreutils")));
    base.layers.push(files);
    base
}
