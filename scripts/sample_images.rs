//! Writes the sample images of `scripts/demo` into OCI layouts: `cargo run --package underpin-scripts --bin sample-images -- DIR`.
//!
//! `DIR/bases` has `debian` (what the application was built on) and `static` (what it moves to),
//! `DIR/build` has `app` and `app-shell`. The programs are real: tiny static ELF files for amd64
//! and arm64 that print one line. The bytes, and so the digests, are the same on every machine.
//!
//! With `demo` after DIR there are also `DIR/bases:debian-12`, of the size and with the packages of Debian's smallest
//! image, and `DIR/build:server`, which was built on it as people build: with `apt-get install` and a shell-form command.
//!
//! With a number after DIR, `DIR/build` also gets `big`: an application layer of that many MiB for
//! `scripts/bench`, compressible by about a third as programs are. With a second number, `DIR/many`
//! has that many small applications, `a0` and on. With a third, both bases also exist with that many layers, as
//! `DIR/bases:debian-deep` and `DIR/bases:static-deep`, and the small applications are on the former.

#![allow(clippy::disallowed_methods, clippy::indexing_slicing, reason = "a script that writes samples")]

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use oci::{Digest, Hasher, json as document};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("usage: sample-images DIR")?;
    let folder = Path::new(&folder);
    let mut bases = Layout::new(&folder.join("bases"))?;
    let mut build = Layout::new(&folder.join("build"))?;
    let system = [
        file("etc/os-release", 0o644, b"ID=debian\nPRETTY_NAME=\"Sample GNU/Linux 12\"\n"),
        file("bin/sh", 0o755, b"#!/not/a/real/shell\n"),
        file("var/lib/dpkg/status", 0o644, b"Package: base-files\nStatus: install ok installed\n"),
    ];
    let distroless = [file("etc/os-release", 0o644, b"ID=debian\nPRETTY_NAME=\"Distroless\"\n")];
    let accounts = [file(
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n",
    )];

    let mut entries = Entries::default();
    for arch in ["amd64", "arm64"] {
        let debian = layer(&system)?;
        let app = layer(&[
            file("usr/local/bin/hello", 0o755, &hello(arch)),
            file("etc/hello.conf", 0o644, b"greeting=hello\n"),
        ])?;
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let base = json!({"Env": [path], "Cmd": ["bash"]});
        let history = [("ADD file:sample in /", false), ("CMD [\"bash\"]", true)];
        entries.debian.push(bases.image(arch, &[&debian], &base, &history)?);

        let own = json!({"Env": [path, "GREETING=hello"], "Entrypoint": ["/usr/local/bin/hello"], "Cmd": ["--once"], "Labels": {"team": "release"}});
        let history = [
            history[0],
            history[1],
            ("COPY hello /usr/local/bin/hello", false),
            ("ENTRYPOINT [\"/usr/local/bin/hello\"]", true),
        ];
        entries.app.push(build.image(arch, &[&debian, &app], &own, &history)?);
        let shell = json!({"Env": [path], "Entrypoint": ["/bin/sh", "-c", "exec /usr/local/bin/hello >>/var/log/hello.log 2>&1"]});
        entries.shell.push(build.image(arch, &[&debian, &app], &shell, &history)?);

        let new =
            json!({"Env": [path, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"], "User": "0", "WorkingDir": "/"});
        let history = [("bazel build @base_files", false), ("bazel build //:passwd", false)];
        entries.fixed.push(bases.image(arch, &[&layer(&distroless)?, &layer(&accounts)?], &new, &history)?);
    }
    bases.index("debian", &entries.debian)?;
    bases.index("static", &entries.fixed)?;
    build.index("app", &entries.app)?;
    build.index("app-shell", &entries.shell)?;
    let more = std::env::args().nth(2);
    if more.as_deref() == Some("demo") {
        demo(&mut bases, &mut build)?;
    } else if let Some(mebibytes) = more {
        big(&mut build, &layer(&system)?, mebibytes.parse()?)?;
    }
    if let Some(count) = std::env::args().nth(3) {
        let depth = std::env::args().nth(4).map_or(Ok(1), |depth| depth.parse())?;
        let old = deep("old", &[&system], depth)?;
        deep_bases(&mut bases, &old, &deep("new", &[&distroless, &accounts], depth)?)?;
        many(&folder.join("many"), &old, count.parse()?)?;
    }
    bases.finish()?;
    build.finish()
}

/// Packages of Debian 12's smallest image, those that are larger than half a MiB, with their installed size in KiB.
const DEBIAN: [(&str, &str, u64); 22] = [
    ("apt", "2.6.1", 4232),
    ("base-files", "12.4+deb12u11", 341),
    ("bash", "5.2.15-2+b8", 7176),
    ("coreutils", "9.1-1", 18062),
    ("debconf", "1.5.82", 517),
    ("debian-archive-keyring", "2023.3+deb12u2", 253),
    ("dpkg", "1.21.22", 6566),
    ("findutils", "4.9.0-4", 1869),
    ("gcc-12-base", "12.2.0-14+deb12u1", 101),
    ("gpgv", "2.2.40-1.1", 913),
    ("grep", "3.8-5", 1168),
    ("libapt-pkg6.0", "2.6.1", 3310),
    ("libc-bin", "2.36-9+deb12u10", 2059),
    ("libc6", "2.36-9+deb12u10", 12988),
    ("libgnutls30", "3.7.9-2+deb12u4", 3227),
    ("libstdc++6", "12.2.0-14+deb12u1", 2749),
    ("libsystemd0", "252.36-1~deb12u1", 978),
    ("login", "1:4.13+dfsg1-1+deb12u1", 2554),
    ("passwd", "1:4.13+dfsg1-1+deb12u1", 2922),
    ("perl-base", "5.36.0-7+deb12u2", 7645),
    ("tar", "1.34+dfsg-1.2+deb12u1", 3152),
    ("util-linux", "2.38.1-5+deb12u3", 4774),
];
/// What `apt-get install curl tini` adds.
const INSTALLED: [(&str, &str, u64); 5] = [
    ("curl", "7.88.1-10+deb12u12", 500),
    ("libcurl4", "7.88.1-10+deb12u12", 840),
    ("libssl3", "3.0.16-1~deb12u1", 6021),
    ("openssl", "3.0.16-1~deb12u1", 2305),
    ("tini", "0.19.0-1", 49),
];

/// An image as people have it, and the base that it was built on.
fn demo(bases: &mut Layout, build: &mut Layout) -> Result<()> {
    let debian = system_layer(&DEBIAN, &DEBIAN)?;
    let all: Vec<_> = DEBIAN.iter().chain(&INSTALLED).copied().collect();
    let installed = system_layer(&INSTALLED, &all)?;
    let mut program = hello("amd64");
    program.extend(filler(9 << 20));
    let app = compressed(&[file("usr/local/bin/server", 0o755, &program)])?;
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let base = json!({"Env": [path], "Cmd": ["bash"]});
    let history = [("ADD file:debian in /", false), ("CMD [\"bash\"]", true)];
    let entry = bases.image("amd64", &[&debian], &base, &history)?;
    bases.tag("debian-12", entry);
    let command = "exec /usr/local/bin/server --v=2 1>>/var/log/server.log 2>&1";
    let container = json!({"Env": [path], "Entrypoint": ["/bin/sh", "-c", command]});
    let history = [
        history[0],
        history[1],
        ("RUN /bin/sh -c apt-get update && apt-get install -y curl tini", false),
        ("COPY server /usr/local/bin/server", false),
        ("ENTRYPOINT [\"/bin/sh\" \"-c\" \"exec /usr/local/bin/server --v=2 1>>/var/log/server.log 2>&1\"]", true),
    ];
    let entry = build.image("amd64", &[&debian, &installed, &app], &container, &history)?;
    build.tag("server", entry);
    Ok(())
}

/// The files of `packages`, and dpkg's account of all that are there.
fn system_layer(packages: &[(&str, &str, u64)], all: &[(&str, &str, u64)]) -> Result<Layer> {
    let mut files = Vec::new();
    let names: Vec<(String, String, u64)> = packages
        .iter()
        .map(|(name, _, size)| (format!("usr/bin/{name}"), format!("var/lib/dpkg/info/{name}.list"), *size))
        .collect();
    for (program, list, size) in &names {
        files.push(file(program, 0o755, &filler(size << 10)));
        files.push(File(list, 0o644, format!("/.\n/usr\n/usr/bin\n/{program}\n").into_bytes(), 2000));
    }
    if packages.iter().any(|(name, ..)| *name == "bash") {
        files.push(file("etc/os-release", 0o644, b"ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"));
        files.push(file("bin/sh", 0o755, &hello("amd64")));
    }
    let stanza = |(name, version, size): &(&str, &str, u64)| {
        format!(
            "Package: {name}\nStatus: install ok installed\nInstalled-Size: {size}\nArchitecture: amd64\nVersion: {version}\n\n"
        )
    };
    let status: String = all.iter().map(stanza).collect();
    // Written when the packages were installed; their files are as old as the packages.
    files.push(File("var/lib/dpkg/status", 0o644, status.into_bytes(), 2000));
    compressed(&files)
}

/// An application of one large layer.
fn big(build: &mut Layout, system: &Layer, mebibytes: u64) -> Result<()> {
    let container = json!({"Entrypoint": ["/big"]});
    let history = [("ADD file:sample in /", false), ("COPY big /big", false)];
    let entry = build.image("amd64", &[system, &big_layer(mebibytes)?], &container, &history)?;
    build.tag("big", entry);
    Ok(())
}

/// Both bases with many layers, for one platform.
fn deep_bases(bases: &mut Layout, old: &[Layer], new: &[Layer]) -> Result<()> {
    let new_config = json!({"Env": ["PATH=/usr/bin:/bin"], "User": "0", "WorkingDir": "/"});
    for (tag, layers, config) in [("debian-deep", old, json!({"Cmd": ["bash"]})), ("static-deep", new, new_config)] {
        let layers: Vec<&Layer> = layers.iter().collect();
        let history = vec![("ADD file:sample in /", false); layers.len()];
        let entry = bases.image("amd64", &layers, &config, &history)?;
        bases.tag(tag, entry);
    }
    Ok(())
}

/// The layers of a base, with more small ones until there are `depth`.
fn deep(name: &str, first: &[&[File<'_>]], depth: usize) -> Result<Vec<Layer>> {
    let mut layers = first.iter().map(|files| layer(files)).collect::<Result<Vec<Layer>>>()?;
    for at in layers.len()..depth {
        layers.push(layer(&[file(&format!("usr/share/{name}/{at}"), 0o644, at.to_string().as_bytes())])?);
    }
    Ok(layers)
}

/// Small applications on one base, each with a layer of its own.
fn many(folder: &Path, base: &[Layer], count: usize) -> Result<()> {
    let mut layout = Layout::new(folder)?;
    let container = json!({"Entrypoint": ["/hello"]});
    let mut history = vec![("ADD file:sample in /", false); base.len()];
    history.push(("COPY hello /hello", false));
    for at in 0..count {
        let name = format!("number {at}\n");
        let app = layer(&[file("hello", 0o755, &hello("amd64")), file("name", 0o644, name.as_bytes())])?;
        let layers: Vec<&Layer> = base.iter().chain([&app]).collect();
        let entry = layout.image("amd64", &layers, &container, &history)?;
        layout.tag(&format!("a{at}"), entry);
    }
    layout.finish()
}

/// One large program: `hello`, followed by pseudo-random words, a third of them zero, compressed as
/// builders do.
fn big_layer(mebibytes: u64) -> Result<Layer> {
    let mut header = tar::Header::new_ustar();
    header.set_path("big")?;
    header.set_mode(0o755);
    header.set_size(mebibytes << 20);
    header.set_mtime(0);
    header.set_cksum();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut out = Hashing { to: gzip, hasher: Hasher::default() };
    out.write_all(header.as_bytes())?;
    let mut words = Words::default();
    let mut block = vec![0; 1 << 20];
    for at in 0..mebibytes {
        words.fill(&mut block);
        if at == 0 {
            let program = hello("amd64");
            block[..program.len()].copy_from_slice(&program);
        }
        out.write_all(&block)?;
    }
    out.write_all(&[0; 1024])?;
    Ok(Layer { diff_id: out.hasher.finish().digest, bytes: out.to.finish()? })
}

/// Pseudo-random words, a third of them zero: they compress about as programs do.
struct Words(u64);

impl Default for Words {
    fn default() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }
}

impl Words {
    fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&if self.0.is_multiple_of(3) { 0 } else { self.0 }.to_le_bytes());
        }
    }
}

fn filler(bytes: u64) -> Vec<u8> {
    let mut block = vec![0; usize::try_from(bytes).unwrap_or(0)];
    Words::default().fill(&mut block);
    block
}

struct Hashing<W> {
    to: W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[derive(Default)]
struct Entries {
    debian: Vec<Value>,
    fixed: Vec<Value>,
    app: Vec<Value>,
    shell: Vec<Value>,
}

struct File<'a>(&'a str, u32, Vec<u8>, u64);

fn file<'a>(path: &'a str, mode: u32, bytes: &[u8]) -> File<'a> {
    File(path, mode, bytes.to_vec(), 0)
}

struct Layer {
    bytes: Vec<u8>,
    diff_id: Digest,
}

/// A gzip file of stored blocks: no compressor, so no compressor's version can change it.
fn layer(files: &[File<'_>]) -> Result<Layer> {
    gzipped(files, flate2::Compression::none())
}

/// As builders write it.
fn compressed(files: &[File<'_>]) -> Result<Layer> {
    gzipped(files, flate2::Compression::fast())
}

fn gzipped(files: &[File<'_>], level: flate2::Compression) -> Result<Layer> {
    let mut tar = tar::Builder::new(Vec::new());
    for File(path, mode, bytes, mtime) in files {
        let mut header = tar::Header::new_ustar();
        header.set_path(path)?;
        header.set_mode(*mode);
        header.set_size(bytes.len() as u64);
        header.set_mtime(*mtime);
        header.set_cksum();
        tar.append(&header, bytes.as_slice())?;
    }
    let tar = tar.into_inner()?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(&tar)?;
    Ok(Layer { bytes: gzip.finish()?, diff_id: Digest::of(&tar) })
}

struct Layout {
    folder: std::path::PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(Self { folder: folder.to_owned(), manifests: Vec::new() })
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = Digest::of(bytes);
        fs::write(self.folder.join("blobs/sha256").join(digest.hex()), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()}))
    }

    /// Writes one platform's image; gives its entry for an index.
    fn image(&self, arch: &str, layers: &[&Layer], container: &Value, history: &[(&str, bool)]) -> Result<Value> {
        let diff_ids: Vec<String> = layers.iter().map(|layer| layer.diff_id.to_string()).collect();
        let history: Vec<Value> =
            history.iter().map(|(by, empty)| json!({"created_by": by, "empty_layer": empty})).collect();
        let config = json!({
            "created": "2026-01-01T00:00:00Z", "architecture": arch, "os": "linux", "config": container,
            "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": history,
        });
        let config = self.blob(CONFIG, &document::write(&config))?;
        let layers = layers.iter().map(|layer| self.blob(LAYER, &layer.bytes)).collect::<Result<Vec<_>>>()?;
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        let mut entry = self.blob(MANIFEST, &document::write(&manifest))?;
        entry["platform"] = json!({"architecture": arch, "os": "linux"});
        Ok(entry)
    }

    fn index(&mut self, tag: &str, entries: &[Value]) -> Result<()> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
        let entry = self.blob(INDEX, &document::write(&index))?;
        self.tag(tag, entry);
        Ok(())
    }

    fn tag(&mut self, tag: &str, mut entry: Value) {
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        self.manifests.push(entry);
    }

    fn finish(self) -> Result<()> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests});
        Ok(fs::write(self.folder.join("index.json"), document::write(&index))?)
    }
}

/// Where the program lies in memory.
const LOAD: u64 = 0x40_0000;
const LINE: &[u8] = b"hello from a static program\n";

/// A whole static program: an ELF header, one segment, a dozen instructions and the line to print.
fn hello(arch: &str) -> Vec<u8> {
    let (machine, code): (u16, Vec<u8>) = match arch {
        "amd64" => (0x3e, amd64()),
        _ => (0xb7, arm64()),
    };
    let start = 64 + 56;
    let size = (start + code.len() + LINE.len()) as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend(2_u16.to_le_bytes());
    elf.extend(machine.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    for word in [LOAD + start as u64, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1_u32.to_le_bytes());
    elf.extend(5_u32.to_le_bytes());
    for word in [0, LOAD, LOAD, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf.extend(LINE);
    elf
}

/// `write(1, line, length); exit(0)`
fn amd64() -> Vec<u8> {
    let length = u8::try_from(LINE.len()).unwrap_or(u8::MAX);
    let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35];
    code.extend(16_u32.to_le_bytes());
    code.extend([0xba, length, 0, 0, 0, 0x0f, 0x05]);
    code.extend([0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    code
}

/// The same for arm64: `mov x0,#1; adr x1,line; mov x2,#length; mov x8,#64; svc; mov x0,#0; mov x8,#93; svc`
fn arm64() -> Vec<u8> {
    let length = u32::try_from(LINE.len()).unwrap_or(u32::MAX);
    let mov = |register: u32, value: u32| 0xd280_0000 | value << 5 | register;
    let adr = 0x1000_0001 | (7 << 5);
    let svc = 0xd400_0001_u32;
    [mov(0, 1), adr, mov(2, length), mov(8, 64), svc, mov(0, 0), mov(8, 93), svc]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}
