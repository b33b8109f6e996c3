//! Any bytes are a layer that is refused or indexed, and the index holds what it promises.
//!
//! Header blocks get their checksum, which no fuzzer would find.

#![no_main]

use layer::{EntryKind, LayerIndex, Limits, RootPath, scan};
use libfuzzer_sys::fuzz_target;
use oci::{Compression, Descriptor, Digest, LayerType};
use start::rootfs::merge;

const BLOCK: usize = 512;

fuzz_target!(|data: &[u8]| {
    let bytes = with_checksums(data);
    let limits = Limits { unpacked: 4 << 20, trailer: 1 << 20, ..Limits::default() };
    let of = Descriptor::new(LayerType(Compression::None).media_type(), Digest::of(&bytes), bytes.len() as u64);
    let Ok(index) = scan(bytes.as_slice(), &of, None, &limits) else { return };
    assert_eq!((index.digest, index.size), (of.digest, of.size));
    assert!(index.unpacked <= limits.unpacked && index.entries.len() <= limits.entries);
    index.entries.iter().for_each(|entry| check_path(&entry.path, &limits));
    let total: usize = index.captured.iter().map(|captured| captured.content.len()).sum();
    assert!(total as u64 <= limits.captured);
    assert_eq!(LayerIndex::from_bytes(&index.to_bytes()).ok().as_ref(), Some(&index));
    let root = merge([&index]);
    for (path, node) in root.entries() {
        assert!(!matches!(node.kind(), EntryKind::Whiteout | EntryKind::Opaque | EntryKind::Hardlink(_)));
        let _ = root.resolve(&path);
    }
});

fn check_path(path: &RootPath, limits: &Limits) {
    assert!(path.as_bytes().len() <= limits.path + 1 && path.components().count() <= limits.depth);
    for name in path.components() {
        assert!(!name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && !name.contains(&b'/'));
    }
}

/// Compressed layers stay as they are.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    for block in bytes.chunks_exact_mut(BLOCK).filter(|block| block.get(257..262) == Some(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }
    bytes
}
