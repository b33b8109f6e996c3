//! Layers for tests, written byte by byte, since no honest tool writes most of them.

use std::io::Write as _;

use flate2::write::GzEncoder;

use super::blocks::BLOCK;
use super::index::LayerIndex;
use super::limits::Limits;
use super::scan::scan;
use oci::error::Result;
use oci::{Compression, Descriptor, LayerType};

/// A header block with its data; fields are public to be made wrong.
#[derive(Clone)]
pub(super) struct TestMember {
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) typeflag: u8,
    /// Bytes of the size field.
    pub(super) size: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Bytes written over the header, by offset, before the checksum is computed.
    pub(super) patches: Vec<(usize, Vec<u8>)>,
}

impl TestMember {
    pub(super) fn new(typeflag: u8, name: impl AsRef<[u8]>, data: &[u8]) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            link: Vec::new(),
            typeflag,
            size: octal(data.len()),
            data: data.to_vec(),
            patches: Vec::new(),
        }
    }

    pub(super) fn file(name: impl AsRef<[u8]>, data: &[u8]) -> Self {
        Self::new(b'0', name, data)
    }

    pub(super) fn directory(name: impl AsRef<[u8]>) -> Self {
        Self::new(b'5', name, b"")
    }

    pub(super) fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        Self { link: target.as_ref().to_vec(), ..Self::new(b'2', name, b"") }
    }

    pub(super) fn hardlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        Self { link: target.as_ref().to_vec(), ..Self::new(b'1', name, b"") }
    }

    /// A PAX header with these records.
    pub(super) fn pax(records: &[(&str, &[u8])]) -> Self {
        let data: Vec<u8> = records.iter().flat_map(|(key, value)| pax_record(key, value)).collect();
        Self::new(b'x', "PaxHeaders/x", &data)
    }

    pub(super) fn sized(self, size: usize) -> Self {
        Self { size: octal(size), ..self }
    }

    pub(super) fn patched(mut self, at: usize, bytes: &[u8]) -> Self {
        self.patches.push((at, bytes.to_vec()));
        self
    }

    pub(super) fn gnu(self) -> Self {
        self.patched(257, b"ustar  \0")
    }

    pub(super) fn header(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        for (at, bytes) in [
            (0, self.name.as_slice()),
            (100, b"0000644\0"),
            (108, b"0000000\0"),
            (116, b"0000000\0"),
            (124, &self.size),
            (136, b"00000000000\0"),
            (156, &[self.typeflag]),
            (157, &self.link),
            (257, b"ustar\x0000"),
        ]
        .into_iter()
        .chain(self.patches.iter().map(|(at, bytes)| (*at, bytes.as_slice())))
        {
            block[at..at + bytes.len()].copy_from_slice(bytes);
        }
        sealed(block)
    }

    fn write(&self, tar: &mut Vec<u8>) {
        tar.extend(self.header());
        tar.extend(&self.data);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
}

fn octal(value: usize) -> Vec<u8> {
    format!("{value:011o}\0").into_bytes()
}

/// The block with its checksum made right.
pub(super) fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// `LENGTH KEY=VALUE\n`, with the length that counts its own digits.
pub(super) fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let digits = (1..9).find(|digits| (rest + digits).to_string().len() == *digits).unwrap();
    [format!("{} {key}=", rest + digits).as_bytes(), value, b"\n"].concat()
}

pub(super) fn tar_of(members: &[TestMember]) -> Vec<u8> {
    let mut tar = Vec::new();
    for member in members {
        member.write(&mut tar);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    tar
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

pub(super) fn described(blob: &[u8], compression: Compression) -> Descriptor {
    Descriptor::of(LayerType(compression).media_type(), blob)
}

/// Scans a blob under its true descriptor, as a plain tar.
pub(super) fn scan_blob(blob: &[u8]) -> Result<LayerIndex> {
    scan(blob, &described(blob, Compression::None), None, &Limits::default())
}

pub(super) fn scan_members(members: &[TestMember]) -> Result<LayerIndex> {
    scan_blob(&tar_of(members))
}

pub(super) fn index_of(members: &[TestMember]) -> LayerIndex {
    scan_members(members).unwrap()
}

/// The paths of an index, in order, as they are shown.
pub(super) fn paths(index: &LayerIndex) -> Vec<String> {
    index.entries.iter().map(|entry| entry.path.to_string()).collect()
}
