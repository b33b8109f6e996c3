//! Images of three roles, each ordinary where the input chooses nothing, with right digests whatever it chooses.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use oci::Digest;
use serde_json::{Value, json};

use super::choices::Choices;
use super::json::{distort, written};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Where entries are put: what the examination looks for, and how its paths can be written otherwise.
const PATHS: [&str; 48] = [
    "app",
    "etc/passwd",
    "etc/group",
    "etc/os-release",
    "usr/lib/os-release",
    "bin/sh",
    "usr/bin/tool",
    "etc",
    "usr",
    "bin",
    "lib64/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/libc.so.6",
    "etc/ld.so.conf",
    "etc/ld.so.cache",
    "etc/ld.so.preload",
    "var/lib/dpkg/status",
    "var/lib/dpkg/status.d/tool",
    "var/lib/dpkg/info/tool.list",
    "var/lib/dpkg/info/tool.md5sums",
    "lib/apk/db/installed",
    "etc/ssl/certs/ca-certificates.crt",
    "run.sh",
    "usr/bin/run",
    "srv/data",
    "tmp",
    "var/log",
    ".wh.app",
    "etc/.wh..wh..opq",
    "usr/.wh.bin",
    ".wh.etc",
    "usr/bin/.wh.tool",
    ".wh..wh.plnk",
    ".wh.",
    "./app",
    "/app",
    "../app",
    "a/../../app",
    "etc//passwd",
    "usr/bin/python3",
    "usr/lib/python3/x.py",
    "go-runner",
    "bin/busybox",
    "sbin/tini",
    "dev/null",
    "proc/1",
    "etc/alternatives/tool",
    "var/cache/apt/x.bin",
    "",
];

const LINKS: [&str; 12] =
    ["usr/bin", "/usr/bin/tool", "../app", "app", "/", ".", "..", "/proc/self/exe", "bin", "etc", "/etc/passwd", ""];

/// What runtimes, shells and package managers read.
const CONTENTS: [&str; 14] = [
    "root:x:0:0:root:/root:/bin/sh\napp:x:7:7::/srv:/bin/false\n",
    "root:x:0:\napp:x:7:app\n",
    "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n",
    "#!/bin/sh\nset -e\nexec /app \"$@\" >>/var/log/app.log 2>&1\n",
    "#!/usr/bin/env -S python3 -u\nimport os\nos.system('tool')\n",
    "#!/app\n",
    "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.3-4\nDepends: libc6 (>= 2.36), a | b\nConffiles:\n /etc/tool 00\n\n",
    "/.\n/usr\n/usr/bin\n/usr/bin/tool\n",
    "C:Q1x\nP:tool\nV:1.2-r0\nA:x86_64\nD:so:libc.musl-x86_64.so.1\nF:usr/bin\nR:tool\n\n",
    "include /etc/ld.so.conf.d/*.conf\n/opt/lib\n",
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "d41d8cd98f00b204e9800998ecf8427e  usr/bin/tool\n",
    "while read x; do case $x in a) tool | tee /var/log/x;; esac; done <<E\n$(tool)\nE\n",
    "",
];

const COMMANDS: [&str; 12] = [
    "[\"/app\"]",
    "[\"/bin/sh\",\"-c\",\"exec /app --v=2 1>>/var/log/app.log 2>&1\"]",
    "[\"/bin/sh\",\"-c\",\"/app | tee /var/log/x\"]",
    "[\"/run.sh\"]",
    "[\"tini\",\"--\",\"/app\"]",
    "[\"usr/bin/run\"]",
    "[\"/go-runner\",\"--log-file=/var/log/x\",\"/app\"]",
    "[\"env\",\"-i\",\"A=$B\",\"app\"]",
    "[\"/bin/sh\",\"-c\",\"$0 \\\"$@\\\"\",\"/app\"]",
    "[\"\"]",
    "[]",
    "null",
];

pub struct MadeImage {
    layers: Vec<MadeLayer>,
    documents: Vec<Vec<u8>>,
    config: Vec<u8>,
    /// Media type and bytes of what the tag leads to.
    top: (String, Vec<u8>),
}

#[derive(Clone)]
struct MadeLayer {
    media_type: String,
    bytes: Vec<u8>,
    diff_id: Digest,
}

/// A base: accounts, a system, a few programs.
pub fn base(choices: &mut Choices<'_>, name: &str) -> MadeImage {
    let mut tar = Tar::default();
    tar.directory("etc/");
    tar.file("etc/passwd", CONTENTS[0].as_bytes());
    tar.file("etc/group", CONTENTS[1].as_bytes());
    tar.file("etc/os-release", format!("ID=debian\nVERSION_ID=\"13\"\nNAME={name}\n").as_bytes());
    tar.directory("tmp/");
    if name == "old" {
        tar.file("bin/sh", &program(None));
        tar.file("usr/bin/tool", &program(None));
        tar.file("var/lib/dpkg/status", CONTENTS[6].as_bytes());
        tar.file("var/lib/dpkg/info/tool.list", CONTENTS[7].as_bytes());
    }
    entries(choices, &mut tar);
    let layers = vec![finished(choices, tar)];
    let config = json!({"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": if name == "old" { json!(["/bin/sh"]) } else { Value::Null }});
    image(choices, layers, config, json!({}))
}

/// The application: its base's layers, and its own on top.
pub fn application(choices: &mut Choices<'_>, old: &MadeImage) -> MadeImage {
    let mut layers = old.layers.clone();
    if choices.rarely() {
        layers.truncate(choices.below(2));
    }
    for number in 0..=choices.below(3) {
        let mut tar = Tar::default();
        if number == 0 {
            tar.file("app", &program(None));
        }
        entries(choices, &mut tar);
        layers.push(finished(choices, tar));
    }
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let mut config = json!({
        "Entrypoint": parse(choices.one_of(&COMMANDS)),
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "A=1"],
        "WorkingDir": choices.one_of(&["", "/", "/srv", "/none/of/it", "../x"]),
        "User": choices.one_of(&["", "app", "7:7", "nobody", "0", "7:none"]),
    });
    if choices.rarely() {
        config["Cmd"] = parse(choices.one_of(&COMMANDS));
        config["Healthcheck"] = json!({"Test": ["CMD-SHELL", choices.one_of(&CONTENTS)]});
        config["Volumes"] = json!({"/srv/data": {}});
        config["Shell"] = json!(["/bin/sh", "-c"]);
    }
    let annotations = match choices.below(3) {
        0 => json!({}),
        1 => {
            json!({"org.opencontainers.image.base.name": choices.text(), "org.opencontainers.image.base.digest": Digest::of(b"").to_string()})
        }
        _ => {
            json!({"dev.underpin.format": "2", "dev.underpin.source": choices.text(), "dev.underpin.options": choices.text()})
        }
    };
    image(choices, layers, config, annotations)
}

fn image(choices: &mut Choices<'_>, layers: Vec<MadeLayer>, container: Value, annotations: Value) -> MadeImage {
    let diff_ids: Vec<String> = layers.iter().map(|layer| layer.diff_id.to_string()).collect();
    let history: Vec<Value> = layers
        .iter()
        .map(|_| json!({"created_by": choices.one_of(&["COPY app", "RUN apt-get install tool", "CMD [\"sh\"]"])}))
        .collect();
    let mut config = json!({
        "created": "2020-01-02T03:04:05Z", "architecture": "amd64", "os": "linux", "config": container,
        "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": history,
    });
    distort(choices, &mut config);
    let config = written(choices, &config);
    let described: Vec<Value> = layers.iter().map(|layer| descriptor(&layer.media_type, &layer.bytes)).collect();
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, &config), "layers": described, "annotations": annotations,
    });
    distort(choices, &mut manifest);
    let manifest = written(choices, &manifest);
    let mut made = MadeImage { layers, documents: Vec::new(), config, top: (MANIFEST.to_owned(), manifest) };
    if choices.rarely() {
        made.put_into_index(choices);
    }
    made
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len()})
}

impl MadeImage {
    fn put_into_index(&mut self, choices: &mut Choices<'_>) {
        let (media_type, manifest) = &self.top;
        let mut child = descriptor(media_type, manifest);
        child["platform"] = json!({"os": "linux", "architecture": "amd64"});
        let mut index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [child]});
        distort(choices, &mut index);
        self.documents.push(manifest.clone());
        self.top = (INDEX.to_owned(), written(choices, &index));
    }

    /// Writes it as a layout.
    pub fn write(&self, into: &Path) {
        let blobs = into.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let layers = self.layers.iter().map(|layer| &layer.bytes);
        for blob in layers.chain(&self.documents).chain([&self.config, &self.top.1]) {
            std::fs::write(blobs.join(Digest::of(blob).hex()), blob).unwrap();
        }
        let mut entry = descriptor(&self.top.0, &self.top.1);
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": "v1"});
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        std::fs::write(into.join("index.json"), index.to_string()).unwrap();
        std::fs::write(into.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
    }
}

fn entries(choices: &mut Choices<'_>, tar: &mut Tar) {
    for _ in 0..choices.below(8) {
        let path = if choices.rarely() { choices.text() } else { choices.one_of(&PATHS).to_owned() };
        let content = content(choices);
        let header = Header {
            mode: choices.one_of(&[0o755, 0o644, 0o4755, 0o000, 0o1777, u32::MAX]),
            owner: choices.one_of(&[0, 7, 65534, u32::MAX]),
            kind: choices.one_of(b"005211346xgLKSV\0"),
            link: choices.one_of(&LINKS),
        };
        tar.entry(
            &path,
            &header,
            if matches!(header.kind, b'0' | b'x' | b'g' | b'L' | b'K' | b'S' | 0) { &content } else { &[] },
        );
        if choices.is_empty() {
            return;
        }
    }
}

fn content(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut content = match choices.below(5) {
        0 => program(None),
        1 => program(Some(b"/lib64/ld-linux-x86-64.so.2\0")),
        2 => choices.raw().to_vec(),
        3 => format!(
            "30 {}\n",
            choices.one_of(&[
                "path=etc/passwd",
                "size=99999999",
                "linkpath=/",
                "GNU.sparse.major=1",
                "SCHILY.xattr.user.x=1"
            ])
        )
        .into_bytes(),
        _ => choices.one_of(&CONTENTS).as_bytes().to_vec(),
    };
    if choices.rarely() {
        let at = choices.below(256).min(content.len());
        content.splice(at..at, choices.raw().iter().copied());
    }
    if choices.rarely() {
        for _ in 0..choices.below(8) {
            let at = choices.below(content.len().min(256));
            let byte = choices.byte();
            if let Some(there) = content.get_mut(at) {
                *there = byte;
            }
        }
    }
    content
}

/// A static program of one segment, or one that asks for this loader.
fn program(interpreter: Option<&[u8]>) -> Vec<u8> {
    let headers = if interpreter.is_some() { 2u16 } else { 1 };
    let end = 64 + 56 * u64::from(headers);
    let total = end + interpreter.map_or(0, |text| text.len() as u64) + 16;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2u16, 62] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1u32.to_le_bytes());
    for word in [0x40_0000 + end, 64, 0] {
        elf.extend(u64::to_le_bytes(word));
    }
    elf.extend(0u32.to_le_bytes());
    for half in [64u16, 56, headers, 0, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    let mut segment = |kind: u32, offset: u64, size: u64| {
        elf.extend(kind.to_le_bytes());
        elf.extend(5u32.to_le_bytes());
        for word in [offset, 0x40_0000 + offset, 0x40_0000 + offset, size, size, 0x1000] {
            elf.extend(word.to_le_bytes());
        }
    };
    segment(1, 0, total);
    if let Some(text) = interpreter {
        segment(3, end, text.len() as u64);
    }
    elf.extend(interpreter.unwrap_or_default());
    elf.extend([0x0f; 16]);
    elf
}

/// An archive with right checksums. Whatever else is in its headers is as it was chosen.
#[derive(Default)]
struct Tar(Vec<u8>);

struct Header<'a> {
    mode: u32,
    owner: u32,
    kind: u8,
    link: &'a str,
}

impl Tar {
    fn directory(&mut self, path: &str) {
        self.entry(path, &Header { mode: 0o755, owner: 0, kind: b'5', link: "" }, &[]);
    }

    fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, &Header { mode: 0o755, owner: 0, kind: b'0', link: "" }, content);
    }

    fn entry(&mut self, path: &str, header: &Header<'_>, content: &[u8]) {
        let mut block = [0u8; 512];
        let mut put = |at: usize, len: usize, bytes: &[u8]| {
            let len = len.min(bytes.len());
            block[at..at + len].copy_from_slice(&bytes[..len]);
        };
        put(0, 100, path.as_bytes());
        put(100, 8, format!("{:07o}\0", header.mode & 0o7777).as_bytes());
        for at in [108, 116] {
            put(at, 8, format!("{:07o}\0", header.owner & 0o777_7777).as_bytes());
        }
        put(124, 12, format!("{:011o}\0", content.len()).as_bytes());
        put(136, 12, b"00000000000\0");
        put(156, 1, &[header.kind]);
        put(157, 100, header.link.as_bytes());
        put(257, 8, b"ustar\x0000");
        put(148, 8, b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(block);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }
}

/// Compressed or not, under the right media type or another.
fn finished(choices: &mut Choices<'_>, mut tar: Tar) -> MadeLayer {
    tar.0.resize(tar.0.len() + 1024, 0);
    let diff_id = Digest::of(&tar.0);
    let how = choices.below(4);
    let (suffix, bytes) = match how {
        0 | 1 => ("", tar.0),
        2 => ("+gzip", gzip(&tar.0)),
        _ => ("+gzip", tar.0.chunks(tar.0.len() / 2 + 1).flat_map(gzip).collect()),
    };
    let media_type = match choices.rarely() {
        true => choices
            .one_of(&[
                "",
                LAYER,
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "application/vnd.oci.image.layer.v1.tar+zstd",
            ])
            .to_owned(),
        false => format!("{LAYER}{suffix}"),
    };
    MadeLayer { media_type, bytes, diff_id }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
