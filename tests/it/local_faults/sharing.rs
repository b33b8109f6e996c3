//! Processes that share a cache or a layout.

use std::path::PathBuf;

use crate::support::fixtures;
use crate::support::published;
use crate::support::recipe::blob_path;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

use super::hidden_files;

#[test]
fn runs_that_share_a_cold_cache_fetch_each_blob_at_most_twice() {
    let registries = or_skip!(Registries::two(500_000));
    let trial = registries.trial();
    let start = |number: usize| {
        registries.rebase(&registries.target.name(&format!("share/s{number}:v1")), "cache-shared").start()
    };
    let running: Vec<_> = (0..4).map(start).collect();
    for run in running {
        assert_eq!(run.finish().ok().digest(), registries.expected());
    }
    let fetched = registries.source.proxy.count("GET", &format!("/blobs/{}", registries.app_layer()));
    assert!(fetched <= 2, "the layer was fetched {fetched} times");
    assert_eq!(published::lies_in_cache(&registries.sandbox.path("cache-shared")), Vec::<PathBuf>::new());
    trial.settle();
}

#[test]
fn eight_runs_write_eight_tags_into_one_layout() {
    let registries = or_skip!(Registries::two(10_000));
    let out = registries.sandbox.path("layout");
    let start = |number: usize| {
        let cache = format!("cache-{number}");
        registries.rebase(&format!("oci:{}:t{number}", out.display()), &cache).start()
    };
    let running: Vec<_> = (0..8).map(start).collect();
    for run in running {
        run.finish().ok();
    }
    for number in 0..8 {
        published::layout(&out, &format!("t{number}")).unwrap_or_else(|why| panic!("t{number}: {why}"));
    }
    assert_eq!(hidden_files(&out), Vec::<PathBuf>::new(), "orphans");
}

#[test]
fn a_layout_that_is_damaged_is_not_made_worse() {
    let registries = or_skip!(Registries::two(1000));
    let out = registries.sandbox.path("layout");
    let to = format!("oci:{}:v1", out.display());
    registries.rebase(&to, "cache").run().ok();
    std::fs::write(out.join("index.json"), "{\"manifests\": ").unwrap();
    let run = registries.rebase(&to, "cache").run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(std::fs::read_to_string(out.join("index.json")).unwrap(), "{\"manifests\": ");
    // A blob of the right name and the wrong content is replaced, never trusted.
    let layer = out.join(blob_path(&fixtures::app_layer("linux/amd64", 1000).digest()));
    let size = std::fs::metadata(&layer).unwrap().len();
    std::fs::write(&layer, vec![0; usize::try_from(size).unwrap()]).unwrap();
    let fresh = registries.sandbox.path("fresh");
    std::fs::create_dir_all(fresh.join("blobs/sha256")).unwrap();
    std::fs::copy(&layer, fresh.join("blobs/sha256").join(layer.file_name().unwrap())).unwrap();
    std::fs::copy(out.join("oci-layout"), fresh.join("oci-layout")).unwrap();
    std::fs::write(fresh.join("index.json"), "{\"schemaVersion\":2,\"manifests\":[]}").unwrap();
    registries.rebase(&format!("oci:{}:v1", fresh.display()), "cache").run().ok();
    published::layout(&fresh, "v1").unwrap();
}
