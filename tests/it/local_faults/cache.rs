//! Caches that are damaged, in the way, or on a file system without locks.

use std::path::PathBuf;

use crate::support::faulty_disk::{Harm, Preload};
use crate::support::invocation::files_under;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

#[test]
fn a_damaged_cache_is_noticed_and_mended() {
    let registries = or_skip!(Registries::two(100_000));
    let harms: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[500] ^= 1, |bytes| bytes.truncate(600), Vec::clear];
    for harm in harms {
        let trial = registries.trial();
        trial.gives_the_expected_image(trial.run());
        let mut blobs = files_under(&trial.cache());
        blobs.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("blobs/sha256")));
        for path in &blobs {
            let mut bytes = std::fs::read(path).unwrap();
            if bytes.len() > 1000 {
                harm(&mut bytes);
                std::fs::write(path, bytes).unwrap();
            }
        }
        let again = registries.target.name(&format!("again/{}:v1", trial.tag));
        let run = registries.rebase(&again, &format!("cache-{}", &trial.tag[1..])).run().ok();
        assert_eq!(run.digest(), registries.expected(), "{run}");
        trial.settle();
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let registries = or_skip!(Registries::two(1000));
    let trial = registries.trial();
    // A file where the folder should be stops root too.
    std::fs::write(trial.cache(), "in the way").unwrap();
    let run = trial.run();
    match run.code() {
        Some(0) => drop(trial.gives_the_expected_image(run).says("cache")),
        _ => drop(trial.fails(run, "local-io")),
    }
    std::fs::remove_file(trial.cache()).unwrap();
    trial.settle();
}

#[test]
fn a_cache_on_a_file_system_without_locks_is_done_without() {
    let preload = or_skip!(Preload::new());
    let registries = or_skip!(Registries::two(1000));
    for errno in [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS] {
        let trial = registries.trial();
        let log = registries.sandbox.path("log");
        let run = preload.put(trial.invocation(), &trial.cache(), &log, Harm::NoLocks { errno }).run();
        trial.gives_the_expected_image(run).says("working without a cache").says("cannot lock");
        assert_eq!(files_under(&trial.cache()), Vec::<PathBuf>::new(), "nothing is shared there");
        // A target without locks cannot be shared either, and is not written to.
        let out = registries.sandbox.path("out");
        for to in [format!("oci:{}:v1", out.display()), format!("oci-archive:{}:v1", out.join("a.tar").display())] {
            let _ = std::fs::remove_dir_all(&out);
            std::fs::create_dir(&out).unwrap();
            let rebase = registries.rebase(&to, "cache-expected");
            let run = preload.put(rebase, &out, &log, Harm::NoLocks { errno }).run().fails("local-io");
            let run = run.says("lock").says(&out.display().to_string());
            assert!(!out.join("index.json").exists() && !out.join("a.tar").exists(), "{run}");
            registries.rebase(&to, "cache-expected").run().ok();
        }
        trial.settle();
    }
}
