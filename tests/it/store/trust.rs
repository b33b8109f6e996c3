//! Whose cache is believed: one that nobody else can have written to.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use layer::LayerIndex;
use oci::Digest;
use underpin::store::Notices;
use underpin::store::disk::{Cache, sync_directory};

use super::Setup;
use crate::support::invocation::{Invocation, Run, files_under};
use crate::support::skip::{Part, missing, need, or_skip};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The index of the application's layer, in which a file is missing now; its checksums are right.
fn forge_index(setup: &Setup) -> PathBuf {
    let layer: Digest = setup.registries.app_layer().parse().unwrap();
    let cache = Cache::open(&setup.cache, &Notices::silent()).unwrap();
    let mut index = LayerIndex::from_bytes(&cache.index(&layer, LayerIndex::VERSION).unwrap()).unwrap();
    index.entries.pop().unwrap();
    index.captured.retain(|captured| captured.entry < index.entries.len());
    cache.keep_index(&layer, LayerIndex::VERSION, &index.to_bytes());
    sync_directory(&setup.cache).unwrap();
    setup.cache.join(format!("indexes/v{}", LayerIndex::VERSION)).join(layer.hex())
}

fn is_intact(setup: &Setup) {
    let run = setup.run(&["verify"]).ok();
    assert!(run.stdout.contains("all intact"), "{run}");
}

fn inspect(setup: &Setup) -> Invocation {
    setup.registries.sandbox.underpin(["inspect", &setup.name("in/app:v1"), "--cache"]).arg(&setup.cache).hurried()
}

#[test]
fn a_forged_index_in_a_cache_that_others_can_write_is_not_believed() {
    let setup = or_skip!(Setup::new(1000));
    // The tests' own directories are closed: here anybody may look in.
    set_mode(setup.cache.parent().unwrap(), 0o755);
    forge_index(&setup);
    let rooms = ["", "indexes", "images", "partial", "blobs", "blobs/sha256"].map(|room| setup.cache.join(room));
    for room in &rooms {
        // Everybody else gets as far as this directory.
        for other in &rooms {
            set_mode(other, 0o755);
        }
        set_mode(room, 0o777);
        let run = inspect(&setup).run().fails("usage").says("somebody else can write").says("0777");
        run.says(&room.canonicalize().unwrap().display().to_string());
        for cache in [&["ls"][..], &["verify"], &["gc", "--max-size", "1GiB"]] {
            setup.run(cache).fails("usage").says("somebody else can write");
        }
    }
    for room in &rooms {
        set_mode(room, 0o755);
    }
    setup.run(&["verify"]).refused();
    inspect(&setup).run().ok();
}

#[test]
fn a_cache_on_a_way_that_others_can_write_is_not_used_and_a_sticky_one_is() {
    let setup = or_skip!(Setup::new(1000));
    let way = setup.cache.parent().unwrap().to_owned();
    set_mode(&way, 0o777);
    inspect(&setup).run().fails("usage").says("somebody else can write");
    let new = setup.registries.sandbox.underpin(["inspect", &setup.name("in/app:v1"), "--cache"]);
    new.arg(way.join("new/cache")).hurried().run().fails("usage").says("somebody else can write");
    assert!(!way.join("new").exists());
    set_mode(&way, 0o1777);
    inspect(&setup).run().ok();
    // A link to the cache is no way around.
    set_mode(&way, 0o755);
    set_mode(&setup.cache, 0o777);
    std::os::unix::fs::symlink(&setup.cache, way.join("link")).unwrap();
    let linked = setup.registries.sandbox.underpin(["inspect", &setup.name("in/app:v1"), "--cache"]);
    linked.arg(way.join("link")).hurried().run().fails("usage").says("somebody else can write");
}

#[test]
fn without_a_named_cache_a_run_goes_on_without_one() {
    let setup = or_skip!(Setup::new(1000));
    set_mode(setup.cache.parent().unwrap(), 0o755);
    let usual = setup.registries.sandbox.path("xdg-cache/underpin");
    let run = || setup.registries.sandbox.underpin(["inspect", &setup.name("in/app:v1")]).hurried().run().ok();
    run();
    let files = files_under(&usual).len();
    assert!(files > 0);
    set_mode(usual.parent().unwrap(), 0o755);
    set_mode(&usual, 0o777);
    run().says("working without a cache").says("somebody else can write");
    assert_eq!(files_under(&usual).len(), files);
}

#[test]
fn verify_derives_indexes_from_their_layers() {
    let setup = or_skip!(Setup::new(1000));
    let sound = setup.json(&["verify"]);
    assert_eq!((&sound["underived"], &sound["damaged"]), (&0.into(), &serde_json::json!([])), "{sound}");
    let forged = forge_index(&setup);
    let run = setup.command(&["verify", "--json"]).run().refused();
    assert_eq!(run.json()["damaged"][0]["path"], forged.display().to_string(), "{run}");
    assert_eq!(run.json()["damaged"][0]["images"], serde_json::json!([setup.name("in/app:v1")]), "{run}");
    assert!(!forged.exists());
    is_intact(&setup);
    inspect(&setup).run().ok();
    assert!(forged.exists(), "derived again by the run that needed it");
    is_intact(&setup);
    // Without its layer nobody can tell.
    let layer = setup.cache.join("blobs/sha256").join(forged.file_name().unwrap());
    std::fs::remove_file(layer).unwrap();
    let run = setup.run(&["verify"]).ok();
    assert!(run.stdout.contains("1 index could not be derived again"), "{run}");
}

#[test]
fn a_cache_works_under_every_umask_and_is_closed() {
    let setup = or_skip!(Setup::new(1000));
    for mask in [0o000, 0o002, 0o022, 0o077] {
        let cache = setup.registries.sandbox.path(&format!("cache-{mask:o}"));
        let image = setup.name("in/app:v1");
        let run = |flags: &[&str]| {
            let inspect = setup.registries.sandbox.underpin(["inspect", &image, "--cache"]).arg(&cache).args(flags);
            let run = inspect.umask(mask).hurried().run().ok();
            assert!(!run.stderr.contains("damaged"), "{mask:o}\n{run}");
        };
        run(&[]);
        assert_eq!(cache.metadata().unwrap().mode() & 0o777, 0o700);
        run(&["--offline"]);
        // As if it had been made by hand, open to those who look.
        set_mode(&cache, 0o755);
        for room in ["blobs", "blobs/sha256", "indexes", "images"] {
            set_mode(&cache.join(room), 0o755);
        }
        run(&["--offline"]);
        for file in files_under(&cache) {
            assert_eq!(file.metadata().unwrap().mode() & 0o022, 0, "{mask:o} {}", file.display());
        }
    }
}

// Other users, whom only root can be.

/// The user and group `nobody` of most systems, and whether the test may become that.
const OTHER: u32 = 1234;

fn need_root() -> Part<()> {
    need(&["setpriv"])?;
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(missing("the rights of root")) }
}

fn give_away(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
}

fn give_all_away(path: &Path, user: u32) {
    give_away(path, user);
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        give_all_away(&entry.unwrap().path(), user);
    }
}

/// Runs as another user.
fn as_other(setup: &Setup, cache: &Path) -> Run {
    let binary = crate::support::invocation::binary();
    let user = [format!("--reuid={OTHER}"), format!("--regid={OTHER}"), "--clear-groups".to_owned(), binary];
    let run = setup.registries.sandbox.program("setpriv", user);
    run.args(["inspect", &setup.name("in/app:v1"), "--cache"]).arg(cache).hurried().run()
}

#[test]
fn root_does_not_believe_a_users_cache_and_a_user_believes_roots() {
    or_skip!(need_root());
    let setup = or_skip!(Setup::new(1000));
    set_mode(setup.cache.parent().unwrap(), 0o755);
    for room in files_under(&setup.cache).iter().flat_map(|file| file.ancestors()) {
        if room.starts_with(&setup.cache) && room.is_dir() {
            set_mode(room, 0o755);
        }
    }
    as_other(&setup, &setup.cache).ok();
    forge_index(&setup);
    give_all_away(&setup.cache, OTHER);
    inspect(&setup).run().fails("usage").says("belongs to somebody else").says(&format!("user {OTHER}"));
    as_other(&setup, &setup.cache).ok();
    // A directory of root's with a room of somebody else's.
    give_all_away(&setup.cache, 0);
    give_away(&setup.cache.join("indexes"), OTHER);
    inspect(&setup).run().fails("usage").says("belongs to somebody else").says("indexes");
    give_away(&setup.cache.join("indexes"), 0);
    // One file of somebody else's, from when they could write there, is as good as none.
    let forged = forge_index(&setup);
    give_away(&forged, OTHER);
    inspect(&setup).run().ok().says("removing a damaged file from the cache");
    assert_eq!(forged.metadata().unwrap().uid(), 0, "derived again");
    is_intact(&setup);
}

#[test]
fn a_record_of_somebody_elses_does_not_say_what_a_tag_is() {
    or_skip!(need_root());
    let setup = or_skip!(Setup::new(1000));
    assert!(setup.has("in/app:v1"));
    for record in files_under(&setup.cache.join("images")) {
        give_away(&record, OTHER);
    }
    assert!(!setup.has("in/app:v1"));
    setup.run(&["verify"]).refused();
}

#[test]
fn an_access_list_counts_as_writing() {
    or_skip!(need_root());
    let setup = or_skip!(Setup::new(1000));
    set_mode(setup.cache.parent().unwrap(), 0o755);
    set_mode(&setup.cache, 0o775);
    inspect(&setup).run().ok();
    // user::rwx, user:1234:rwx, group::r-x, mask::rwx, other::r-x
    let entries = [(1_u16, 7_u16, u32::MAX), (2, 7, OTHER), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 5, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, user) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(user.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    if rustix::fs::setxattr(&setup.cache, name, &list, rustix::fs::XattrFlags::empty()).is_err() {
        return missing("a file system with access lists").stop();
    }
    inspect(&setup).run().fails("usage").says("somebody else can write");
}
