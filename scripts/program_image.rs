//! Puts one static program into an image of its own, on nothing: `program-image PROGRAM PLATFORM oci:DIR:TAG`.
//!
//! One layer with the program in `/usr/local/bin`, by the code that writes underpin's own layers,
//! so the same program gives the same digest. `scripts/image` then moves it onto a base.

use std::error::Error;
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::json;
use underpin::layer::{
    Entry, EntryData, EntryKind, LayerSpec, RootPath, SourceData, SpecEntry, WriteOptions, WrittenLayer, write,
};
use underpin::oci::{Descriptor, Document, LocalImage, Location, MediaType, Platform, json as document};
use underpin::store::disk::{Layout, LayoutSink};
use underpin::store::{Blob, Notices, Sink, Stream};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FOLDER: &str = "/usr/local/bin";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [program, platform, target] = words.as_slice() else {
        return Err("usage: program-image PROGRAM PLATFORM oci:DIR:TAG".into());
    };
    let Location::Layout(layout) = target.parse()? else { return Err("the target must be oci:DIR:TAG".into()) };
    image(Path::new(program), &platform.parse()?, &layout)
}

fn image(program: &Path, platform: &Platform, layout: &LocalImage) -> Result<()> {
    let name = program.file_name().and_then(|name| name.to_str()).ok_or("the program has no name")?;
    let mut bytes = Vec::new();
    std::fs::File::open(program)?.read_to_end(&mut bytes)?;
    let (layer, packed) = layer(&format!("{FOLDER}/{name}"), bytes)?;
    let config = document::write(&json!({
        "created": "1970-01-01T00:00:00Z", "architecture": platform.architecture(), "os": platform.os(),
        "config": {"Entrypoint": [format!("{FOLDER}/{name}")]},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id.to_string()]},
        "history": [{"created_by": format!("program-image {name}")}],
    }));
    let sink = Layout::sink(layout, &Notices::silent())?;
    let config_descriptor = Descriptor::of(MediaType::oci_config(), &config);
    put(&sink, &config_descriptor, &config)?;
    put(&sink, &layer.descriptor(), &packed)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_descriptor.to_value(), "layers": [layer.descriptor().to_value()],
    });
    Ok(sink.tag(&Document::read(document::write(&manifest), None)?)?)
}

fn layer(path: &str, bytes: Vec<u8>) -> Result<(WrittenLayer, Vec<u8>)> {
    let size = bytes.len().try_into()?;
    let entry = Entry::new(RootPath::new(path)?, EntryKind::File { size }, 0o755, 0, 0);
    let spec = LayerSpec::new(vec![SpecEntry { entry, data: EntryData::Bytes(bytes) }])?;
    let options = WriteOptions { mtime: 0, jobs: NonZeroUsize::MIN };
    let mut packed = Vec::new();
    let written = write(&spec, &mut SourceData::new(Cursor::new(Vec::new())), options, &mut packed)?;
    Ok((written, packed))
}

fn put(sink: &LayoutSink, descriptor: &Descriptor, bytes: &[u8]) -> Result<()> {
    let open = || Ok(Box::new(Cursor::new(bytes.to_vec())) as Stream);
    sink.put_blob(&Blob { descriptor, held_by: &[], open: &open })?;
    Ok(())
}
