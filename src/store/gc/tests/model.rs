//! Random pulls, crashed pulls, publications, protections, collections and crashed collections, against
//! a model in memory that works everything out from nothing each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use crate::store::disk::{Cache, IMAGES, ImageAccess, ImageRecord, ImageUse};
use oci::{Digest, Location, MediaType};

const ENTRIES: [&str; 6] =
    ["gcr.io/r0/x:t0", "gcr.io/r1/x:t1", "host:quay.io", "prefix:gcr.io/r0/", "regex::t3$", "regex:@sha256:[0-7]"];

#[derive(Debug, Clone)]
enum Step {
    Pull {
        image: u8,
        tag: u8,
    },
    /// Killed when so many of the image's parts had come.
    CrashedPull {
        image: u8,
        tag: u8,
        parts: usize,
    },
    Publish {
        image: u8,
        tag: u8,
    },
    /// The entries that are in the list from now on.
    Protect(u8),
    /// Down to so many percent of what there is.
    Collect(u8),
    /// Killed after so many removals.
    CrashedCollect {
        percent: u8,
        removals: usize,
    },
    Verify,
}

fn step() -> impl Strategy<Value = Step> {
    let named = (0..8_u8, 0..5_u8);
    prop_oneof![
        4 => named.clone().prop_map(|(image, tag)| Step::Pull { image, tag }),
        2 => (named.clone(), 0..5_usize).prop_map(|((image, tag), parts)| Step::CrashedPull { image, tag, parts }),
        1 => named.prop_map(|(image, tag)| Step::Publish { image, tag }),
        2 => any::<u8>().prop_map(Step::Protect),
        3 => (0..=100_u8).prop_map(Step::Collect),
        2 => (0..=100_u8, 0..12_usize).prop_map(|(percent, removals)| Step::CrashedCollect { percent, removals }),
        1 => Just(Step::Verify),
    ]
}

/// The bytes of an image: a manifest and a config of its own, and layers that others have too.
fn parts(image: u8) -> Vec<Vec<u8>> {
    let layer = |number: u8| vec![number; 500 + 100 * usize::from(number)];
    let own = |what: &str| format!("{what} of image {image}, {}", "x".repeat(40 * usize::from(image))).into_bytes();
    vec![own("manifest"), own("config"), layer(image % 4), layer(4 + image / 4), layer(9)]
}

fn digests(image: u8) -> BTreeSet<Digest> {
    parts(image).iter().map(|part| Digest::of(part)).collect()
}

fn top(image: u8) -> Digest {
    Digest::of(&parts(image)[0])
}

fn tag_name(tag: u8) -> String {
    match tag {
        4 => "quay.io/q/x:t4".to_owned(),
        tag => format!("gcr.io/r{}/x:t{tag}", tag % 2),
    }
}

/// What should be on the disk.
#[derive(Default)]
struct Model {
    /// By name: which image.
    records: BTreeMap<String, u8>,
    /// Names in the order of their last use.
    used: Vec<String>,
    blobs: BTreeSet<Digest>,
    /// Images of which everything has come, and nothing may be missing while they are recorded.
    whole: BTreeSet<u8>,
    entries: Vec<String>,
}

impl Model {
    fn see(&mut self, image: u8, tag: u8, used: ImageAccess) {
        let name = tag_name(tag);
        if let Some(before) = self.records.insert(name.clone(), image).filter(|before| *before != image) {
            let older = format!("{}@{}", name.rsplit_once(':').unwrap().0, top(before));
            self.records.insert(older.clone(), before);
            // It was used when the tag was.
            if let Some(at) = self.used.iter().position(|known| *known == name) {
                self.used[at].clone_from(&older);
                let mut seen = BTreeSet::new();
                self.used.reverse();
                self.used.retain(|name| seen.insert(name.clone()));
                self.used.reverse();
            }
        }
        if used == ImageAccess::Read {
            self.used.retain(|known| *known != name);
            self.used.push(name);
        }
    }

    fn holds(&self, digest: &Digest) -> bool {
        self.records.values().any(|image| digests(*image).contains(digest))
    }

    fn protection(&self) -> Protection {
        Protection::read(&self.entries, &[]).unwrap()
    }

    /// The kubelet's loop, told as simply as possible: one goes, everything is counted again.
    fn collect(&mut self, inventory: &Inventory, most: u64) {
        let protection = self.protection();
        let stays: Vec<&StoredImage> = inventory.images.iter().filter(|image| protection.covers(image)).collect();
        let stays: BTreeSet<Digest> = stays.iter().flat_map(|image| image.parts.clone()).collect();
        let bytes: BTreeMap<String, u64> =
            inventory.images.iter().map(|image| (image.reference.clone(), image.bytes)).collect();
        let mut order: Vec<(Option<Timestamp>, Timestamp, Result<String, Digest>)> = Vec::new();
        for (digest, contents) in inventory.contents.iter().filter(|(digest, _)| !self.holds(digest)) {
            order.push((None, contents.touched, Err(*digest)));
        }
        for image in inventory.images.iter().filter(|image| !protection.covers(image)) {
            order.push((image.last_use, image.first_seen, Ok(image.reference.clone())));
        }
        order.sort_by_key(|(used, first, _)| (*used, *first));
        for (.., one) in order {
            let blobs = self.blobs.iter().map(|digest| inventory.contents[digest].bytes);
            if blobs.chain(self.records.keys().map(|name| bytes[name])).sum::<u64>() <= most {
                break;
            }
            match one {
                Err(digest) => {
                    self.blobs.remove(&digest);
                    // What a collection that was cut off left behind may be part of an image that was whole.
                    self.settle();
                }
                Ok(name) => {
                    let there: BTreeSet<Digest> = &digests(self.records[&name]) & &self.blobs;
                    if there.is_empty() || !there.is_subset(&stays) {
                        self.forget(&name);
                    }
                }
            }
        }
    }

    fn forget(&mut self, name: &str) {
        let Some(image) = self.records.remove(name) else { return };
        self.used.retain(|known| known != name);
        let parts = digests(image);
        let free: Vec<Digest> = parts.into_iter().filter(|part| !self.holds(part)).collect();
        for digest in free {
            self.blobs.remove(&digest);
        }
        self.settle();
    }

    /// What is no longer all there is no longer whole.
    fn settle(&mut self) {
        let blobs = self.blobs.clone();
        self.whole.retain(|image| digests(*image).is_subset(&blobs));
    }

    /// The disk is what it should be, byte for byte.
    fn check(&self, root: &Path) {
        let mut there = BTreeSet::new();
        for entry in fs::read_dir(root.join("blobs/sha256")).unwrap() {
            let path = entry.unwrap().path();
            let digest = Digest::from_hex(path.file_name().unwrap().to_str().unwrap()).unwrap();
            assert_eq!(Digest::of(&fs::read(&path).unwrap()), digest, "a blob lies");
            there.insert(digest);
        }
        assert_eq!(there, self.blobs);
        let inventory = Inventory::take(root).unwrap();
        assert!(inventory.unreadable.is_empty());
        let records: BTreeMap<String, Digest> =
            inventory.images.iter().map(|image| (image.reference.clone(), image.digest)).collect();
        assert_eq!(records, self.records.iter().map(|(name, image)| (name.clone(), top(*image))).collect());
        for (name, image) in self.records.iter().filter(|(_, image)| self.whole.contains(image)) {
            assert!(digests(*image).is_subset(&there), "{name} is recorded and not whole");
        }
        let mut used: Vec<_> = inventory.images.iter().filter(|image| image.last_use.is_some()).collect();
        used.sort_by_key(|image| image.last_use);
        assert_eq!(used.iter().map(|image| &image.reference).collect::<Vec<_>>(), self.used.iter().collect::<Vec<_>>());
    }
}

fn pull(root: &Path, image: u8, tag: u8, count: usize, used: ImageAccess) {
    let cache = Cache::open(root, &Notices::silent()).unwrap();
    let location: Location = tag_name(tag).parse().unwrap();
    let (digest, media_type, parts) = (top(image), MediaType::oci_manifest(), parts(image));
    let all = parts.iter().map(|part| Digest::of(part)).collect();
    let platforms = Vec::new();
    if count > 0 {
        cache.keep_small(&digest, &parts[0]);
        cache.remember(&ImageUse { location: &location, digest, media_type: &media_type, platforms, parts: all, used });
    }
    for part in parts.iter().take(count) {
        cache.keep_small(&Digest::of(part), part);
    }
}

fn collector(root: &Path) -> LockedCache {
    let now = LockWait { speak: Duration::MAX, stop: Duration::ZERO };
    LockedCache::open(root, LockMode::Exclusive, now, &Notices::silent()).unwrap().unwrap()
}

fn policy(store: &LockedCache, percent: u8) -> (Inventory, u64, GcPolicy) {
    let inventory = store.inventory().unwrap();
    let most = inventory.total() * u64::from(percent) / 100;
    (inventory, most, GcPolicy { target: GcTarget::Size(most), min_age: Duration::ZERO, max_age: None })
}

fn run(model: &mut Model, root: &Path, step: &Step) {
    match *step {
        Step::Pull { image, tag } => {
            pull(root, image, tag, usize::MAX, ImageAccess::Read);
            model.see(image, tag, ImageAccess::Read);
            model.blobs.extend(digests(image));
            model.whole.insert(image);
        }
        Step::Publish { image, tag } => {
            pull(root, image, tag, usize::MAX, ImageAccess::Written);
            model.see(image, tag, ImageAccess::Written);
            model.blobs.extend(digests(image));
            model.whole.insert(image);
        }
        Step::CrashedPull { image, tag, parts: count } => {
            pull(root, image, tag, count, ImageAccess::Read);
            if count > 0 {
                model.see(image, tag, ImageAccess::Read);
            }
            model.blobs.extend(parts(image).iter().take(count).map(|part| Digest::of(part)));
        }
        Step::Protect(mask) => {
            let listed = ENTRIES.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
            model.entries = listed.map(|(_, entry)| (*entry).to_owned()).collect();
        }
        Step::Collect(percent) => {
            let store = collector(root);
            let (inventory, most, policy) = policy(&store, percent);
            let dry = store.select(&model.protection(), &policy).unwrap();
            let real = store.collect(&model.protection(), &policy).unwrap();
            assert_eq!((dry.images, dry.contents, dry.freed), (real.images, real.contents, real.freed));
            model.collect(&inventory, most);
            let after = store.inventory().unwrap();
            assert_eq!(inventory.total() - after.total(), real.freed, "freed is what is really freed");
        }
        Step::CrashedCollect { percent, removals } => {
            let store = collector(root);
            let (_, _, policy) = policy(&store, percent);
            let selection = store.select(&model.protection(), &policy).unwrap();
            let inventory = store.inventory().unwrap();
            let protected = protected_files(root, &inventory, &model.protection());
            for path in files_of(root, &inventory, &selection).iter().flatten().take(removals) {
                assert!(!protected.contains(path));
                let hex = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.starts_with(root.join(IMAGES)) {
                    let name = model.records.keys().find(|name| ImageRecord::file_name(name) == hex).unwrap().clone();
                    model.records.remove(&name);
                    model.used.retain(|known| *known != name);
                } else {
                    model.blobs.remove(&Digest::from_hex(&hex).unwrap());
                }
                fs::remove_file(path).unwrap();
            }
            // No record may lead to what is gone, wherever the collector was killed.
            let recorded: BTreeSet<u8> = model.records.values().copied().collect();
            for image in model.whole.intersection(&recorded) {
                assert!(digests(*image).is_subset(&model.blobs), "image {image} lost something");
            }
            model.settle();
        }
        Step::Verify => {
            let checked = collector(root).verify(&Notices::silent()).unwrap();
            assert!(checked.damaged.is_empty());
        }
    }
    model.check(root);
}

fn protected_files(root: &Path, inventory: &Inventory, protection: &Protection) -> Vec<PathBuf> {
    let protected = inventory.images.iter().filter(|image| protection.covers(image));
    let files = |image: &StoredImage| {
        let contents = image.parts.iter().filter_map(|part| inventory.contents.get(part));
        let record = root.join(IMAGES).join(ImageRecord::file_name(&image.reference));
        contents.flat_map(|contents| contents.files.clone()).chain([record]).collect::<Vec<_>>()
    };
    protected.flat_map(files).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_store_is_what_the_model_says(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        drop(Cache::open(dir.path(), &Notices::silent()).unwrap());
        let mut model = Model::default();
        for step in &steps {
            run(&mut model, dir.path(), step);
        }
    }
}
