//! Subjects in code, for tests of the stages after fetch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::base::{Choice, Lookup, OldBase, find};
use super::{Origin, PlatformSubject, Shape, Subject};
use crate::elf::{Linkage, Probe, Program};
use crate::layer::{Entry, EntryKind, Inspected, LayerIndex, RootPath};
use crate::oci::sample::Sample;
use crate::oci::{Compression, Image, Location};

struct Old(Image);

impl Lookup for Old {
    fn image(&self, _: &Location) -> crate::error::Result<Option<Image>> {
        Ok(Some(self.0.clone()))
    }
    fn clue(&self, _: &Location) -> crate::error::Result<Option<Image>> {
        Ok(None)
    }
    fn statements(&self) -> crate::error::Result<Vec<Value>> {
        Ok(Vec::new())
    }
    fn layer(&self, _: usize) -> crate::error::Result<Arc<LayerIndex>> {
        Err(crate::error::Error::input("not asked for"))
    }
}

fn old_base(source: &Image, old: &Sample) -> OldBase {
    let choice = Choice::Image("old.example/base:1".parse().unwrap());
    find(source, &Map::new(), &choice, &[], &Old(old.image())).unwrap()
}

/// A subject of one platform: `source` on `old`, to be moved to `new`. Each layer above the old base
/// holds the static programs `/app` and `/own`.
pub fn subject(source: &Sample, old: &Sample, new: &Sample) -> Subject {
    let (source, base) = (source.image(), new.image());
    let old_base = old_base(&source, old);
    let layers = source.layers[old_base.layers..].iter();
    let layers = layers
        .map(|layer| {
            Arc::new(LayerIndex {
                digest: layer.descriptor.digest,
                size: layer.descriptor.size,
                diff_id: layer.diff_id,
                unpacked: 0,
                compression: Compression::Gzip,
                entries: ["app", "own"].map(entry).to_vec(),
                captured: Vec::new(),
                programs: [0, 1].map(|at| Inspected { entry: at, program: program(Linkage::Static) }).to_vec(),
                notes: Vec::new(),
            })
        })
        .collect();
    let origin = |name: &str, image: &Image| Origin { location: name.parse().unwrap(), top: image.document.clone() };
    Subject {
        source: origin("registry.example/app:v1", &source),
        base: origin("gcr.io/distroless/static", &base),
        shape: Shape::Single,
        platforms: vec![PlatformSubject {
            platform: source.config.platform().clone(),
            entry: None,
            entry_annotations: Map::new(),
            source,
            base,
            old_base,
            layers,
            base_layers: Vec::new(),
        }],
        missing: Vec::new(),
        left_behind: Vec::new(),
    }
}

/// An executable file, or a folder where the path ends with a slash.
pub fn entry(path: &str) -> Entry {
    Entry {
        path: RootPath::new(path).unwrap(),
        kind: if path.ends_with('/') { EntryKind::Directory } else { EntryKind::File { size: 1 } },
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: 0,
        xattrs: Vec::new(),
        offset: 0,
        sparse: false,
    }
}

/// A program for the platform of the samples.
pub fn program(linkage: Linkage) -> Program {
    let mut program = Probe::new(0).finish();
    (program.linkage, program.machine) = (linkage, Some("arm".to_owned()));
    program
}
