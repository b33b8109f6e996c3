//! The collector on a cache in memory and on a cache on disk.

mod model;

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::testing::{image, inventory};
use super::*;
use crate::store::disk::{Cache, IMAGES, ImageAccess, ImageRecord, ImageUse};
use oci::error::Kind;
use oci::{Digest, Location, MediaType};

const NOBODY: LockWait = LockWait { speak: Duration::MAX, stop: Duration::ZERO };

fn protect(entries: &[&str]) -> Protection {
    let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    Protection::read(&entries, &[]).unwrap()
}

fn size(most: u64) -> GcPolicy {
    GcPolicy { target: GcTarget::Size(most), min_age: Duration::ZERO, max_age: None }
}

fn taken(inventory: &Inventory, protection: &[&str], policy: GcPolicy) -> Vec<String> {
    let wanted = policy.target.excess(inventory.total(), DiskSpace { capacity: 10_000, available: 5_000 });
    let selection = select(inventory, &protect(protection), &policy, wanted, Timestamp::from_seconds(1_000));
    let names = selection.images.iter().map(|taken| taken.reference.rsplit(':').next().unwrap().to_owned());
    let loose = selection.loose.iter().map(|_| "loose".to_owned());
    loose.chain(names).collect()
}

/// Never used: `new`, `newer`. Used: `old`, `mid`, `hot`. All have 100 bytes of their own; `old` and
/// `hot` share another 100.
fn stock() -> Inventory {
    let images = vec![
        image("gcr.io/a/x:hot", &[b"hot", b"base"], 10, Some(900)),
        image("gcr.io/a/x:newer", &[b"newer"], 40, None),
        image("gcr.io/a/x:mid", &[b"mid"], 30, Some(500)),
        image("gcr.io/a/x:old", &[b"old", b"base"], 20, Some(100)),
        image("gcr.io/a/x:new", &[b"new"], 35, None),
    ];
    inventory(images, &[(b"loose", 38)])
}

#[test]
fn never_used_goes_first_then_least_recently_used_and_shared_counts_once() {
    let stock = stock();
    assert_eq!(stock.total(), 700);
    for (most, expected) in [
        (700, &[][..]),
        (699, &["new"]),
        (600, &["new"]),
        (599, &["loose", "new"]),
        (500, &["loose", "new"]),
        (400, &["loose", "new", "newer"]),
        (300, &["loose", "new", "newer", "old"]),
        (299, &["loose", "new", "newer", "old", "mid"]),
        // `hot` frees its own 100 and the 100 that only it holds now.
        (199, &["loose", "new", "newer", "old", "mid", "hot"]),
        (0, &["loose", "new", "newer", "old", "mid", "hot"]),
    ] {
        assert_eq!(taken(&stock, &[], size(most)), expected, "at most {most}");
    }
}

#[test]
fn what_is_protected_stays_with_all_its_parts() {
    let stock = stock();
    for (entries, expected) in [
        (&["gcr.io/a/x:hot"][..], &["loose", "new", "newer", "old", "mid"][..]),
        (&["gcr.io/a/x:old", "gcr.io/a/x:new"], &["loose", "newer", "mid", "hot"]),
        (&["host:gcr.io"], &["loose"]),
        (&["regex::n"], &["loose", "old", "mid", "hot"]),
    ] {
        assert_eq!(taken(&stock, entries, size(0)), expected, "{entries:?}");
    }
    let selection = select(&stock, &protect(&["gcr.io/a/x:hot"]), &size(0), 700, Timestamp::from_seconds(1_000));
    assert_eq!((selection.freed, selection.shortfall()), (500, 200));
    assert!(!selection.contents.contains(&Digest::of(b"base")), "shared with a protected image");
}

#[test]
fn an_image_that_could_free_nothing_is_left() {
    let images = vec![
        image("gcr.io/a/x:v1", &[b"top"], 10, Some(900)),
        image("gcr.io/a/x:alias", &[b"top"], 10, None),
        image("gcr.io/a/x:gone", &[b"nothing of it is there"], 10, Some(100)),
    ];
    let mut stock = inventory(images, &[]);
    stock.contents.remove(&Digest::of(b"nothing of it is there"));
    assert_eq!(taken(&stock, &["gcr.io/a/x:v1"], size(0)), ["gone"]);
    assert_eq!(taken(&stock, &[], size(0)), ["alias", "gone", "v1"]);
}

#[test]
fn ages_count_from_first_sight_and_from_last_use() {
    let stock = stock();
    let policy = |target, min, max: Option<u64>| GcPolicy {
        target,
        min_age: Duration::from_secs(min),
        max_age: max.map(Duration::from_secs),
    };
    for (policy, expected) in [
        (policy(GcTarget::Size(0), 966, None), &["old", "mid", "hot"][..]),
        (policy(GcTarget::Size(0), 981, None), &["hot"]),
        (policy(GcTarget::Any, 0, Some(499)), &["loose", "new", "newer", "old", "mid"]),
        (policy(GcTarget::Any, 0, Some(500)), &["loose", "new", "newer", "old"]),
        (policy(GcTarget::Any, 0, Some(2_000)), &[]),
    ] {
        assert_eq!(taken(&stock, &[], policy), expected, "{policy:?}");
    }
    assert_eq!(
        taken(&stock, &["gcr.io/a/x:old"], policy(GcTarget::Any, 0, Some(499))),
        ["loose", "new", "newer", "mid"]
    );
}

/// A cache on disk with `images`: name, content of each part.
fn on_disk(root: &Path, images: &[(&str, &[&[u8]])]) {
    let cache = Cache::open(root, &Notices::silent()).unwrap();
    for (name, parts) in images {
        let location: Location = name.parse().unwrap();
        let parts: Vec<Digest> = parts
            .iter()
            .inspect(|part| cache.keep_small(&Digest::of(part), part))
            .map(|part| Digest::of(part))
            .collect();
        let (digest, media_type, platforms) = (parts[0], &MediaType::oci_manifest(), Vec::new());
        cache.remember(&ImageUse {
            location: &location,
            digest,
            media_type,
            platforms,
            parts,
            used: ImageAccess::Read,
        });
    }
}

fn collector(root: &Path) -> Result<Option<LockedCache>> {
    LockedCache::open(root, LockMode::Exclusive, NOBODY, &Notices::silent())
}

fn blobs(root: &Path) -> usize {
    fs::read_dir(root.join("blobs/sha256")).unwrap().count()
}

#[test]
fn a_dry_run_is_the_real_run_and_a_second_one_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    on_disk(dir.path(), &[("gcr.io/a:1", &[b"one", b"shared"]), ("gcr.io/a:2", &[b"two", b"shared"])]);
    let (protection, policy) = (protect(&["gcr.io/a:2"]), size(0));
    let store = collector(dir.path()).unwrap().unwrap();
    let dry = store.select(&protection, &policy).unwrap();
    assert_eq!(blobs(dir.path()), 3, "nothing was touched");
    let real = store.collect(&protection, &policy).unwrap();
    assert_eq!((&dry.images, &dry.contents, dry.freed), (&real.images, &real.contents, real.freed));
    assert_eq!((real.images.len(), blobs(dir.path())), (1, 2));
    let again = store.collect(&protection, &policy).unwrap();
    assert!(again.images.is_empty() && again.contents.is_empty());
}

#[test]
fn any_doubt_stops_it_before_the_first_removal() {
    type Harm = fn(&Path);
    let record = |root: &Path| fs::read_dir(root.join(IMAGES)).unwrap().next().unwrap().unwrap().path();
    let harms: [(Harm, Kind); 4] = [
        (|record| fs::write(record, "").unwrap(), Kind::Integrity),
        (|record| fs::write(record, "{}").unwrap(), Kind::Integrity),
        (
            |record| {
                fs::remove_file(record).unwrap();
                fs::create_dir(record).unwrap();
            },
            Kind::Input,
        ),
        (|record| fs::create_dir(record.parent().unwrap().with_file_name("v2")).unwrap(), Kind::Input),
    ];
    for (harm, kind) in harms {
        let dir = tempfile::tempdir().unwrap();
        on_disk(dir.path(), &[("gcr.io/a:1", &[b"one"]), ("gcr.io/a:2", &[b"two"])]);
        harm(&record(dir.path()));
        let error = collector(dir.path()).unwrap().unwrap().collect(&protect(&[]), &size(0)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(blobs(dir.path()), 2);
    }
}

#[test]
fn a_run_in_progress_is_not_broken_and_a_folder_that_is_no_store_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    assert!(collector(&dir.path().join("none")).unwrap().is_none());
    assert!(collector(dir.path()).unwrap().is_none());
    let run = Cache::open(dir.path(), &Notices::silent()).unwrap();
    assert_eq!(collector(dir.path()).err().unwrap().kind(), Kind::Lock);
    drop(run);
    let store = collector(dir.path()).unwrap().unwrap();
    assert!(store.collect(&protect(&[]), &size(0)).unwrap().images.is_empty());
    drop(store);
    let looking = LockedCache::open(dir.path(), LockMode::Shared, NOBODY, &Notices::silent()).unwrap().unwrap();
    assert!(looking.collect(&protect(&[]), &size(0)).is_err(), "who only looks does not collect");
    fs::write(dir.path().join("version"), "2\n").unwrap();
    assert!(LockedCache::open(dir.path(), LockMode::Shared, NOBODY, &Notices::silent()).is_err(), "a newer store");
}

#[test]
fn files_that_are_not_the_stores_are_never_taken() {
    let dir = tempfile::tempdir().unwrap();
    on_disk(dir.path(), &[("gcr.io/a:1", &[b"one"])]);
    let target = dir.path().join("blobs/sha256");
    std::os::unix::fs::symlink("/etc/passwd", target.join(Digest::of(b"link").hex())).unwrap();
    fs::create_dir(target.join(Digest::of(b"directory").hex())).unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    let store = collector(dir.path()).unwrap().unwrap();
    store.collect(&protect(&[]), &size(0)).unwrap();
    assert_eq!(blobs(dir.path()), 3);
}

#[test]
fn partial_downloads_go_with_what_they_are_part_of() {
    let dir = tempfile::tempdir().unwrap();
    on_disk(dir.path(), &[("gcr.io/a:1", &[b"one"])]);
    let (mine, dead) = (Digest::of(b"one").hex(), Digest::of(b"nobody's").hex());
    for name in [&mine, &dead] {
        fs::write(dir.path().join("partial").join(name), "half").unwrap();
    }
    let store = collector(dir.path()).unwrap().unwrap();
    store.collect(&protect(&["gcr.io/a:1"]), &size(0)).unwrap();
    let left: Vec<_> =
        fs::read_dir(dir.path().join("partial")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [mine.as_str()]);
}

#[test]
fn verifying_finds_every_damage_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    on_disk(dir.path(), &[("gcr.io/a:1", &[b"one", b"shared"]), ("gcr.io/a:2", &[b"two", b"shared"])]);
    let cache = Cache::open(dir.path(), &Notices::silent()).unwrap();
    cache.keep_index(&Digest::of(b"one"), 3, b"index");
    fs::write(dir.path().join("partial").join(Digest::of(b"x").hex()), "half").unwrap();
    drop(cache);
    let verify = || {
        let store = LockedCache::open(dir.path(), LockMode::Shared, NOBODY, &Notices::silent()).unwrap().unwrap();
        store.verify(&Notices::silent()).unwrap()
    };
    let sound = verify();
    assert_eq!((sound.files, sound.damaged.len()), (6, 0));
    let shared = dir.path().join("blobs/sha256").join(Digest::of(b"shared").hex());
    fs::write(&shared, "Shared").unwrap();
    fs::write(dir.path().join("indexes/v3").join(Digest::of(b"one").hex()), "x").unwrap();
    let record = fs::read_dir(dir.path().join(IMAGES)).unwrap().next().unwrap().unwrap().path();
    let name = ImageRecord::read(&record).unwrap().unwrap().reference;
    let checked = verify();
    assert_eq!(checked.damaged.len(), 2);
    let found = checked.damaged.iter().find(|damaged| damaged.path == shared).unwrap();
    assert!(found.images.contains(&name) && found.images.len() == 2 && found.removed && !shared.exists());
    fs::write(&record, "x").unwrap();
    assert_eq!(verify().damaged.len(), 1);
    assert_eq!(verify().damaged.len(), 0, "what was damaged is gone");
}

#[test]
fn an_automatic_collection_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    on_disk(dir.path(), &[("gcr.io/a:1", &[b"one"]), ("gcr.io/a:2", &[b"two"])]);
    let limit =
        |max_size, protect: &str| CacheLimit { max_size, protect: vec![protect.to_owned()], protect_files: Vec::new() };
    let run = Cache::open(dir.path(), &Notices::silent()).unwrap();
    after_run(dir.path(), &limit(0, "gcr.io/a:2"), &Notices::silent());
    assert_eq!(blobs(dir.path()), 2, "a run holds the store");
    drop(run);
    after_run(dir.path(), &limit(1 << 30, "gcr.io/a:2"), &Notices::silent());
    assert_eq!(blobs(dir.path()), 2, "there is room");
    after_run(dir.path(), &limit(0, "regex:("), &Notices::silent());
    assert_eq!(blobs(dir.path()), 2, "the list is broken");
    after_run(dir.path(), &limit(0, "gcr.io/a:2"), &Notices::silent());
    assert_eq!(blobs(dir.path()), 1);
}
