//! The scene of a collection: a store with three images, of which one is protected.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::invocation::{Sandbox, files_under};
use crate::support::registries::Registries;

use super::moves::{calm, words};
use super::scene::{Found, STORE, Scene, template};

/// The digests of a store that some record lists and that are not there.
fn missing(disk: &Path) -> Found<BTreeSet<String>> {
    let store = disk.join(STORE);
    let mut missing = BTreeSet::new();
    for record in files_under(&store.join("images")) {
        let text = fs::read_to_string(&record).map_err(|error| error.to_string())?;
        // A seal follows the document.
        let document = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
        let document = document.and_then(Result::ok).ok_or_else(|| format!("half a record: {}", record.display()))?;
        let parts = document["parts"].as_array().ok_or("a record without parts")?;
        let parts = parts.iter().filter_map(Value::as_str);
        missing.extend(parts.filter(|it| !store.join("blobs").join(it.replace(':', "/")).exists()).map(str::to_owned));
    }
    Ok(missing)
}

fn files(disk: &Path) -> BTreeSet<PathBuf> {
    files_under(disk).iter().map(|path| path.strip_prefix(disk).unwrap().to_owned()).collect()
}

/// Everything but the new base goes.
pub fn collection(registries: &Registries) -> Scene {
    let sandbox = Sandbox::new();
    let disk = template(&sandbox);
    fs::create_dir_all(disk.join("kept")).unwrap();
    let protected = registries.source.name("base/new:v1");
    let inspect = |name: &str| {
        let inspect = sandbox.underpin(["inspect", name, "-q", "--cache", STORE]);
        inspect.current_dir(&disk).hurried().run().ok();
    };
    inspect(&protected);
    let stays = files(&disk);
    for name in ["in/app:v1", "base/old:v1"] {
        inspect(&registries.source.name(name));
    }
    let args = words(&format!("cache gc --max-size 0 --protect {protected} --cache {STORE}"));
    let (_, after) = calm(&sandbox, &args, files);
    assert!(after.is_superset(&stays) && after.len() < files(&disk).len(), "{after:?}");
    let never = missing(&disk).unwrap();
    let done = move |disk: &Path| {
        let found = files(disk);
        if found == after { Ok(()) } else { Err(format!("{found:?} and not {after:?}")) }
    };
    let sound = move |disk: &Path| {
        if !files(disk).is_superset(&stays) {
            return Err(format!("something protected is gone: {:?}", files(disk)));
        }
        let gone = &missing(disk)? - &never;
        if gone.is_empty() { Ok(()) } else { Err(format!("recorded, and gone: {gone:?}")) }
    };
    Scene { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}
