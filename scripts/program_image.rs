//! Puts static programs into an image of their own, on nothing: `program-image oci:DIR:TAG PLATFORM=PROGRAM...`. Several
//! platforms give an index.
//!
//! One layer with the program as `/usr/local/bin/underpin`, by the code that writes underpin's own layers,
//! so the same program gives the same digest. `scripts/image` then moves it onto a base.

use std::error::Error;
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::path::Path;

use layer::{
    Entry, EntryData, EntryKind, LayerSpec, RootPath, SourceData, SpecEntry, WriteOptions, WrittenLayer, write,
};
use oci::{Descriptor, Document, Location, MediaType, Platform, json as document};
use serde_json::json;
use underpin::store::disk::{Layout, LayoutSink};
use underpin::store::{Blob, Notices, Sink, Stream};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PROGRAM: &str = "/usr/local/bin/underpin";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, programs)) = words.split_first().filter(|(_, programs)| !programs.is_empty()) else {
        return Err("usage: program-image oci:DIR:TAG PLATFORM=PROGRAM...".into());
    };
    let Location::Layout(layout) = target.parse()? else { return Err("the target must be oci:DIR:TAG".into()) };
    let sink = Layout::sink(&layout, &Notices::silent())?;
    let mut manifests = Vec::new();
    for word in programs {
        let (platform, program) = word.split_once('=').ok_or("a program is PLATFORM=PROGRAM")?;
        manifests.push((platform.parse()?, manifest(Path::new(program), &platform.parse()?, &sink)?));
    }
    let top = match manifests.as_slice() {
        [(_, only)] => only.clone(),
        _ => index(&manifests, &sink)?,
    };
    Ok(sink.tag(&top)?)
}

fn index(manifests: &[(Platform, Document)], sink: &LayoutSink) -> Result<Document> {
    let mut entries = Vec::new();
    for (platform, manifest) in manifests {
        let descriptor = Descriptor::of(manifest.media_type().clone(), manifest.bytes());
        put(sink, &descriptor, manifest.bytes())?;
        let mut entry = descriptor.to_value();
        let platform = json!({"architecture": platform.architecture(), "os": platform.os()});
        entry.as_object_mut().ok_or("a descriptor is an object")?.insert("platform".to_owned(), platform);
        entries.push(entry);
    }
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": entries});
    Ok(Document::read(document::write(&index), None)?)
}

fn manifest(program: &Path, platform: &Platform, sink: &LayoutSink) -> Result<Document> {
    let mut bytes = Vec::new();
    std::fs::File::open(program)?.read_to_end(&mut bytes)?;
    let (layer, packed) = layer(PROGRAM, bytes)?;
    let config = document::write(&json!({
        "created": "1970-01-01T00:00:00Z", "architecture": platform.architecture(), "os": platform.os(),
        "config": {"Entrypoint": [PROGRAM]},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id.to_string()]},
        "history": [{"created_by": "program-image underpin"}],
    }));
    let config_descriptor = Descriptor::of(MediaType::oci_config(), &config);
    put(sink, &config_descriptor, &config)?;
    put(sink, &layer.descriptor(), &packed)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_descriptor.to_value(), "layers": [layer.descriptor().to_value()],
    });
    Ok(Document::read(document::write(&manifest), None)?)
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
