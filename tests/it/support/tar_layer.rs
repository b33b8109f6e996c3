//! Layers from a list of files: the same list, the same bytes.

use std::io::Write;

use sha2::{Digest as _, Sha256};

/// `sha256:HEX` of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    named(&Sha256::digest(bytes))
}

/// `sha256:HEX` of a finished hash.
pub fn named(hash: &[u8]) -> String {
    use std::fmt::Write as _;
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `cap_net_bind_service=ep`, as the kernel keeps it in `security.capability`.
pub const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[derive(Debug, Clone)]
enum Content {
    File(Vec<u8>),
    Folder,
    Symlink(String),
    Hardlink(String),
}

#[derive(Debug, Clone)]
pub struct Entry {
    path: String,
    content: Content,
    mode: u32,
    owner: (u64, u64),
    mtime: u64,
    xattrs: Vec<(String, Vec<u8>)>,
}

impl Entry {
    fn new(path: &str, mode: u32, content: Content) -> Self {
        Self { path: path.to_owned(), content, mode, owner: (0, 0), mtime: 0, xattrs: Vec::new() }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same at another path.
    pub fn moved(self, to: impl FnOnce(&str) -> String) -> Self {
        Self { path: to(&self.path), ..self }
    }

    pub fn owned(self, uid: u64, gid: u64) -> Self {
        Self { owner: (uid, gid), ..self }
    }

    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Written at this time.
    pub fn at(self, mtime: u64) -> Self {
        Self { mtime, ..self }
    }

    /// With an extended attribute, as a PAX record.
    pub fn xattr(mut self, name: &str, value: &[u8]) -> Self {
        self.xattrs.push((format!("SCHILY.xattr.{name}"), value.to_vec()));
        self
    }
}

pub fn file(path: &str, bytes: impl Into<Vec<u8>>) -> Entry {
    Entry::new(path, 0o644, Content::File(bytes.into()))
}

pub fn program(path: &str, bytes: impl Into<Vec<u8>>) -> Entry {
    Entry::new(path, 0o755, Content::File(bytes.into()))
}

pub fn folder(path: &str) -> Entry {
    Entry::new(path, 0o755, Content::Folder)
}

pub fn symlink(path: &str, to: &str) -> Entry {
    Entry::new(path, 0o777, Content::Symlink(to.to_owned()))
}

pub fn hardlink(path: &str, to: &str) -> Entry {
    Entry::new(path, 0o644, Content::Hardlink(to.to_owned()))
}

/// Removes what lower layers have at `path`.
pub fn whiteout(path: &str) -> Entry {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let slash = if folder.is_empty() { "" } else { "/" };
    file(&format!("{folder}{slash}.wh.{name}"), "")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pack {
    Plain,
    Gzip,
    Zstd,
}

#[derive(Debug, Clone)]
pub struct Layer {
    pub bytes: Vec<u8>,
    pub diff_id: String,
    pub pack: Pack,
}

impl Layer {
    pub fn of(pack: Pack, entries: &[Entry]) -> Self {
        Self::packed(pack, &tar(entries))
    }

    /// A layer of any bytes, also of such as are no tar.
    pub fn packed(pack: Pack, tar: &[u8]) -> Self {
        Self { bytes: packed(pack, tar), diff_id: digest(tar), pack }
    }

    pub fn digest(&self) -> String {
        digest(&self.bytes)
    }
}

pub fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mtime(entry.mtime);
        header.set_uid(entry.owner.0);
        header.set_gid(entry.owner.1);
        header.set_mode(entry.mode);
        let (kind, data, link): (_, &[u8], _) = match &entry.content {
            Content::File(bytes) => (None, bytes, None),
            Content::Folder => (Some(tar::EntryType::Directory), b"", None),
            Content::Symlink(to) => (Some(tar::EntryType::Symlink), b"", Some(to)),
            Content::Hardlink(to) => (Some(tar::EntryType::Link), b"", Some(to)),
        };
        if let Some(kind) = kind {
            header.set_entry_type(kind);
        }
        if let Some(link) = link {
            header.set_link_name(link).unwrap();
        }
        header.set_size(data.len() as u64);
        out.append_pax_extensions(entry.xattrs.iter().map(|(name, value)| (name.as_str(), value.as_slice()))).unwrap();
        out.append_data(&mut header, &entry.path, data).unwrap();
    }
    out.into_inner().unwrap()
}

fn packed(pack: Pack, tar: &[u8]) -> Vec<u8> {
    match pack {
        Pack::Plain => tar.to_vec(),
        Pack::Zstd => zstd::encode_all(tar, 3).unwrap(),
        Pack::Gzip => {
            // Stored blocks: the bytes are the same with every version of the compressor.
            let mut out = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::none());
            out.write_all(tar).unwrap();
            out.finish().unwrap()
        }
    }
}

/// Bytes that no compressor makes smaller, the same for the same seed.
pub fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut out: Vec<u8> = std::iter::repeat_with(&mut next).take(size.div_ceil(8)).flatten().collect();
    out.truncate(size);
    out
}

#[test]
fn a_layer_has_the_same_digest_every_time() {
    let layer = Layer::of(Pack::Gzip, &[folder("etc/"), file("etc/name", "value\n"), symlink("name", "etc/name")]);
    assert_eq!(layer.diff_id, "sha256:8c31f316327597d674d5c1566bd5498adce7a5f3f1e230b8a9fb99ef8da3368d");
    assert_eq!(layer.digest(), "sha256:7c4b9081eea950a3975ad0b14b8e654dce5cf4edd5d458bbcd260799a1852bcd");
    let mut inflated = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&layer.bytes[..]), &mut inflated).unwrap();
    assert_eq!(digest(&inflated), layer.diff_id);
    assert_eq!((noise(1, 13).len(), noise(1, 13) == noise(1, 13), noise(1, 13) == noise(2, 13)), (13, true, false));
}
