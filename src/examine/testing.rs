//! Subjects in code, for tests of the stages after fetch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::base::{Lookup, OldBase, OldBaseChoice, find};
use super::{Fetched, Origin, PlatformSubject, Shape, Subject};
use elf::{Linkage, Probe, Program};
use layer::{Captured, Entry, EntryKind, IndexedProgram, LayerIndex, RootPath};
use oci::testing::TestImage;
use oci::{Compression, Digest, Image, Location, Reference};

struct Old(Image);

impl Lookup for Old {
    fn image(&self, _: &Location) -> oci::error::Result<Option<Image>> {
        Ok(Some(self.0.clone()))
    }
    fn clue(&self, _: &Reference) -> oci::error::Result<Result<Image, String>> {
        Ok(Err("is not asked for".to_owned()))
    }
    fn stored(&self, _: Digest) -> Option<Image> {
        None
    }
    fn statements(&self) -> oci::error::Result<Vec<Value>> {
        Ok(Vec::new())
    }
    fn layer(&self, _: usize) -> oci::error::Result<Arc<LayerIndex>> {
        Err(oci::error::Error::input("not asked for"))
    }
}

fn old_base(source: &Image, old: &TestImage) -> OldBase {
    let choice = OldBaseChoice::Image("old.example/base:1".parse().unwrap());
    find(source, &Map::new(), Some(&choice), &[], &Old(old.image())).unwrap()
}

/// A subject of one platform: `source` on `old`, to be moved to `new`. Each layer above the old base
/// holds the static programs `/app` and `/own`.
pub fn fetched(source: &TestImage, old: &TestImage, new: &TestImage) -> Fetched {
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
                programs: [0, 1].map(|at| IndexedProgram { entry: at, program: program(Linkage::Static) }).to_vec(),
                digests: None,
                notes: Vec::new(),
            })
        })
        .collect();
    let origin = |name: &str, image: &Image| Origin { location: name.parse().unwrap(), top: image.document.clone() };
    let subject = Subject {
        source: origin("registry.example/app:v1", &source),
        base: origin("gcr.io/distroless/static", &base),
        runner: None,
        shape: Shape::Single,
        selected: Vec::new(),
        missing: Vec::new(),
        leaves_behind: false,
    };
    let platform = PlatformSubject {
        platform: source.config.platform().clone(),
        entry: None,
        entry_annotations: Map::new(),
        source,
        base,
        old_base,
        layers,
        old_layers: Vec::new(),
        base_layers: Vec::new(),
        runner: None,
        left_behind: Vec::new(),
    };
    Fetched { subject, platforms: vec![platform] }
}

/// An index of a layer, piece by piece.
pub fn layer(name: &str) -> LayerIndex {
    LayerIndex {
        digest: oci::Digest::of(name.as_bytes()),
        size: 0,
        diff_id: oci::DiffId(oci::Digest::of(name.to_uppercase().as_bytes())),
        unpacked: 0,
        compression: Compression::Gzip,
        entries: Vec::new(),
        captured: Vec::new(),
        programs: Vec::new(),
        digests: None,
        notes: Vec::new(),
    }
}

/// Ways to put something into a layer.
#[expect(clippy::return_self_not_must_use, reason = "every layer that a test makes is used")]
pub trait Put: Sized {
    fn with(self, entry: Entry) -> Self;
    fn with_text(self, path: &str, text: &str) -> Self;
    fn with_program(self, path: &str, program: Program) -> Self;

    fn with_link(self, path: &str, target: &str) -> Self {
        self.with(Entry { kind: EntryKind::Symlink(target.as_bytes().to_vec()), ..entry(path) })
    }

    fn without(self, path: &str) -> Self {
        self.with(Entry { kind: EntryKind::Whiteout, ..entry(path) })
    }
}

impl Put for LayerIndex {
    fn with(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    fn with_text(mut self, path: &str, text: &str) -> Self {
        let kind = EntryKind::File { size: text.len() as u64 };
        self.captured.push(Captured { entry: self.entries.len(), content: text.as_bytes().to_vec() });
        self.with(Entry { kind, mode: 0o644, ..entry(path) })
    }

    fn with_program(mut self, path: &str, program: Program) -> Self {
        self.programs.push(IndexedProgram { entry: self.entries.len(), program });
        self.with(entry(path))
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
    program.strings.complete = true;
    program
}
