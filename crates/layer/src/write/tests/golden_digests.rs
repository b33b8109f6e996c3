//! Digests that must never change. If one does, every image with a layer of ours changes, too:
//! raise the number of the format (`dev.underpin.format`), or find what changed the compressor.

use super::super::LayerSpec;
use super::super::testing::{directory, everything_odd, file, options, written_as};

/// Text that compresses as text does, the same on every machine and with every crate.
pub(super) fn prose(len: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = ["base ", "layer ", "moves ", "onto ", "the ", "new ", "ground\n", "stays "];
    let mut text = Vec::with_capacity(len + 8);
    let mut state = 5_u32;
    while text.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, _, odd, choice] = state.to_le_bytes();
        text.extend_from_slice(WORDS[usize::from(choice % 8)].as_bytes());
        text.push(odd);
    }
    text.truncate(len);
    text
}

#[test]
fn three_layers_have_the_digests_they_always_had() {
    let tiny = vec![directory("etc"), file("etc/passwd", b"root:x:0:0:root:/root:/sbin/nologin\n")];
    let large = vec![file("usr/bin/app", prose(5 << 20)), file("usr/share/zeros", vec![0; 700_000])];
    let digests = [tiny, everything_odd(), large].map(|entries| {
        let (_, written) = written_as(&LayerSpec::new(entries).unwrap(), options(2));
        [written.diff_id.to_string(), written.digest.to_string()]
    });
    let golden: [[&str; 2]; 3] = [
        [
            "sha256:d2bacdc08dd97af147c028610033cc29916fb757000d20802b7ec14820656631",
            "sha256:eb32b8e4eb1a0289fdd3d5c136bda0018d30c56a9722de8430fbeeeb688fec1c",
        ],
        [
            "sha256:fb3fa82fd15362c5345fb23704df1c0faeb88f6bbe995a4ace578647571e4838",
            "sha256:baf95ee86aeb4f95e031af0fe61a03b9e25fd967dc96424c37fcf60a1d3718ca",
        ],
        [
            "sha256:a168c913e0327f2a472c012c1d2b07bf97c3c15f5640e23b62d2533404e48f2f",
            "sha256:10c47b4860393af6452a84d0c3b9420115e9cf3ea4c181a004ab532d10ccdbd6",
        ],
    ];
    assert_eq!(digests, golden);
}
