//! What a layer may ask for, seen through the binary: a layer over a limit is refused with the name
//! of the limit, one just as large that is honest passes, and memory stays small in either case.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::published;
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Layer, Pack, digest, file, named, noise, program, tar};

/// What an image may add to the memory of a run, in KiB: 64 MiB in all for the program that is given to people, of which it
/// takes less than 17 by itself. The one that is tested is built without optimisation, and its code alone fills as much again.
const MEMORY: u64 = (64 - 17) << 10;
const MIB: usize = 1 << 20;

fn hello() -> crate::support::tar_layer::Entry {
    program("app", prints(Machine::Amd64, fixtures::LINE))
}

/// Moves an image whose application is this layer. Nothing of it is left where it fails.
fn moved(layer: Layer) -> Run {
    let sandbox = Sandbox::new();
    let mut app = fixtures::app("linux/amd64", 1);
    app.layers.pop();
    app.layers.push(layer);
    let app = Recipe { config: json!({"Entrypoint": ["/app"]}), ..app };
    app.build().layout(&sandbox.path("app"), "v1");
    fixtures::old_base("linux/amd64").build().layout(&sandbox.path("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&sandbox.path("new"), "v1");
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--no-cache"];
    let run = sandbox.underpin(args).limit(Duration::from_secs(120)).run();
    assert_eq!(sandbox.path("out").exists(), run.code() == Some(0), "{run}");
    assert_small(&run);
    run
}

/// Compared with the move of an image that has nearly nothing in it.
fn assert_small(run: &Run) {
    static SMALLEST: OnceLock<u64> = OnceLock::new();
    let smallest = SMALLEST.get_or_init(|| {
        let old = fixtures::old_base("linux/amd64");
        let app = upon(&old, [Layer::of(Pack::Gzip, &[hello()])], fixtures::app_config());
        Layouts::on(&old, &app).rebase("out").run().ok().peak
    });
    let added = run.peak.saturating_sub(*smallest);
    assert!(added < MEMORY, "{added} KiB more than {smallest}\n{run}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// The header of a file of `size` bytes, which are to follow.
fn header(size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// A gzip layer of the program and `mebibytes` of zeros; written as members, so that the zeros need
/// to be packed only once, and never held: what this process holds would count as the binary's.
fn zeros(mebibytes: usize, end: End) -> Layer {
    let (step, mut head) = (vec![0; 16 * MIB], tar(&[hello()]));
    head.truncate(head.len() - 1024);
    head.extend(header((mebibytes * MIB) as u64));
    let (member, mut bytes) = (gzip(&step), gzip(&head));
    let mut hash = Sha256::new_with_prefix(&head);
    for _ in 0..mebibytes / 16 {
        bytes.extend_from_slice(&member);
        if end == End::IsReached {
            hash.update(&step);
        }
    }
    bytes.extend(gzip(&[0; 1024]));
    hash.update([0; 1024]);
    Layer { bytes, diff_id: named(&hash.finalize()), pack: Pack::Gzip }
}

/// Whether anybody gets to see that a diff id is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    IsReached,
    IsNotReached,
}

/// A zstd layer that claims `blocks` times 128 KiB of zeros, with four bytes for each.
pub fn zstd_zeros(blocks: u32) -> Layer {
    let raw = header(60 << 30);
    // A frame with a window of 128 KiB, its length not said.
    let mut bytes = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    let block = |len: u32, kind: u32, last: u32| (len << 3 | kind << 1 | last).to_le_bytes();
    bytes.extend(&block(512, 0, 0)[..3]);
    bytes.extend(raw);
    for at in 1..=blocks {
        bytes.extend(&block(128 << 10, 1, u32::from(at == blocks))[..3]);
        bytes.push(0);
    }
    Layer { bytes, diff_id: format!("sha256:{}", "0".repeat(64)), pack: Pack::Zstd }
}

#[test]
fn a_bomb_is_stopped_by_the_limit_and_the_message_says_which() {
    for (why, layer) in
        [("5 GiB of zeros in gzip", zeros(5 << 10, End::IsNotReached)), ("1 TiB of zeros in zstd", zstd_zeros(8 << 20))]
    {
        let packed = layer.bytes.len() as u64;
        let run = moved(layer).fails("input");
        for words in [
            "layer decompresses to more than 100 times its size".to_owned(),
            format!("{} bytes: 1073741824 plus 100 per compressed byte", (1 << 30) + 100 * packed),
            "hint: only zeros compress this well".to_owned(),
        ] {
            assert!(run.stderr.contains(&words), "{why}: {words}\n{run}");
        }
    }
}

#[test]
fn a_window_that_takes_gigabytes_is_refused() {
    // The same frame with a window of 4 GiB.
    let mut layer = zstd_zeros(1);
    layer.bytes[5] = 22 << 3;
    let run = moved(layer).fails("input");
    assert!(run.stderr.contains("2^27 bytes"), "{run}");
}

#[test]
fn a_layer_is_unpacked_once_and_no_more() {
    // What is inside the gzip is no tar.
    let inner = gzip(&tar(&[hello()]));
    let diff_id = digest(&inner);
    moved(Layer { bytes: gzip(&inner), diff_id, pack: Pack::Gzip }).fails("input");
}

#[test]
fn honest_layers_that_pack_well_pass() {
    // 1 GiB is free for every layer. Over it text that repeats itself may become a hundred times larger.
    moved(zeros(1 << 9, End::IsReached)).ok();
    let text: Vec<u8> = (0..40_000).flat_map(|line| format!("{line} the same line again\n").into_bytes()).collect();
    let tar = tar(&[hello(), file("var/text", text), file("var/noise", noise(3, MIB))]);
    let layer = Layer { bytes: gzip(&tar), diff_id: digest(&tar), pack: Pack::Gzip };
    moved(layer).ok();
}

#[test]
fn an_image_of_a_thousand_layers_is_moved() {
    let numbered = |number: usize| Layer::of(Pack::Gzip, &[file(&format!("srv/{number}"), format!("{number}"))]);
    let old = fixtures::old_base("linux/amd64");
    let layers = (0..997).map(numbered).chain([Layer::of(Pack::Gzip, &[hello()])]);
    let layouts = Layouts::on(&old, &upon(&old, layers, fixtures::app_config()));
    let run = layouts.rebase("out").run().ok();
    assert_eq!(published::layout(&layouts.layout("out"), "v1").unwrap().only().layers.len(), 1000);
    assert_small(&run);
}

#[test]
fn a_layer_of_a_hundred_thousand_entries_is_moved() {
    let mut entries = vec![hello()];
    entries.extend((0..100_000).map(|number| file(&format!("srv/{:03}/{number}", number % 1000), "")));
    moved(Layer::of(Pack::Zstd, &entries)).ok();
}
