//! How much longer a scan takes than the bare limit: hashing the compressed bytes and decompressing
//! them, on one thread. A ratio of one run, so that it means the same on every machine. Writing a
//! layer of the same files is shown in MB/s, on one and two threads.
//!
//! `cargo bench --bench layer`

#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::cast_precision_loss, reason = "a benchmark")]

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use layer::{EntryData, LayerSpec, Limits, SourceData, SpecEntry, WriteOptions, scan, write};
use oci::{Compression, Descriptor, Hasher, LayerType};

const FILES: usize = 40;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Machine code is what layers are mostly made of, and this program is some.
    let program = std::fs::read(std::env::current_exe()?)?;
    for (name, tar) in [("large files", large_files(&program)?), ("small files", small_files(&program)?)] {
        let blob = gzip(&tar)?;
        let of = Descriptor::of(LayerType(Compression::Gzip).media_type(), &blob);
        let bare = fastest(|| bare_limit(&blob))?;
        let scanned = fastest(|| Ok(scan(blob.as_slice(), &of, None, &Limits::default())?.unpacked))?;
        println!(
            "{name}: {} MiB in {} MiB of gzip; bare {bare:.3?}, scan {scanned:.3?}, ratio {:.2}",
            tar.len() >> 20,
            blob.len() >> 20,
            scanned.as_secs_f64() / bare.as_secs_f64()
        );
        writing(name, &tar, &blob, &of)?;
    }
    Ok(())
}

/// Gathers every file of a layer, and writes a layer of them.
fn writing(name: &str, tar: &[u8], blob: &[u8], of: &Descriptor) -> Result<(), Box<dyn std::error::Error>> {
    let entries = scan(blob, of, None, &Limits::default())?.entries;
    let specified = entries.into_iter().map(|entry| SpecEntry { entry, data: EntryData::FromLayer(of.digest) });
    let spec = LayerSpec::new(specified.collect())?;
    let mut source_data = SourceData::new(tempfile::tempfile()?);
    let rate = |took: Duration| tar.len() as f64 / 1e6 / took.as_secs_f64();
    let gathering = fastest(|| {
        source_data = SourceData::new(tempfile::tempfile()?);
        Ok(source_data.gather(&spec, blob, of, &Limits::default()).map(|()| 0)?)
    })?;
    let mut write_on = |jobs| {
        let options = WriteOptions { mtime: 0, jobs };
        fastest(|| Ok(write(&spec, &mut source_data, options, std::io::sink())?.size))
    };
    let (one, two) = (write_on(NonZeroUsize::MIN)?, write_on(NonZeroUsize::MIN.saturating_add(1))?);
    println!(
        "{name}: gather {:.0} MB/s, write {:.0} MB/s on one thread, {:.0} on two",
        rate(gathering),
        rate(one),
        rate(two)
    );
    Ok(())
}

fn large_files(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for number in 0..FILES {
        append(&mut tar, &format!("usr/bin/program{number}"), program)?;
    }
    tar.into_inner()
}

fn small_files(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (number, part) in program.chunks(2000).cycle().take(FILES * 1000).enumerate() {
        append(&mut tar, &format!("usr/share/part{}/{number}", number % 97), part)?;
    }
    tar.into_inner()
}

fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o755);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, path, content)
}

fn gzip(tar: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(tar)?;
    encoder.finish()
}

fn bare_limit(blob: &[u8]) -> Result<u64, Box<dyn std::error::Error>> {
    let mut hasher = Hasher::default();
    hasher.update(blob);
    std::hint::black_box(hasher.finish());
    let mut inflated = MultiGzDecoder::new(blob);
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        match inflated.read(&mut buffer)? {
            0 => return Ok(total),
            read => total += read as u64,
        }
    }
}

/// The shortest of some rounds: what else the machine does can only make one longer.
fn fastest(
    mut work: impl FnMut() -> Result<u64, Box<dyn std::error::Error>>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        std::hint::black_box(work()?);
        best = best.min(started.elapsed());
    }
    Ok(best)
}
