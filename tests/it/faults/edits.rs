//! Scenes of files that are changed in place: the lock of a batch, a manifest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::published;

use super::moves::{PLATFORM, SMALL, calm, is, with_images, words};
use super::scene::{Scene, template};

/// One shard of a batch, whose lock has the image of another shard already.
pub fn batch() -> Scene {
    let sandbox = with_images();
    let disk = template(&sandbox);
    let image = |name: &str| format!("  - source: oci:{name}:v1\n    target: oci:out-{name}:v1\n");
    let file =
        format!("defaults:\n  base: oci:new:v1\n  old_base: oci:old:v1\nimages:\n{}", image("app") + &image("b"));
    fs::write(disk.join("batch.yaml"), file).unwrap();
    fixtures::app(PLATFORM, SMALL + 1).build().layout(&disk.join("b"), "v1");
    let shard = |which: &str| words(&format!("batch batch.yaml --no-cache --shard {which}"));
    sandbox.underpin(shard("1/2")).current_dir(&disk).run().ok();
    let lock = |disk: &Path| fs::read_to_string(disk.join("underpin.lock")).map_err(|error| error.to_string());
    let before = lock(&disk).unwrap();
    let (run, after) = calm(&sandbox, &shard("0/2"), lock);
    let (digest, after, again) = (run.digest(), after.clone().unwrap(), after.unwrap());
    assert!(after.contains("oci:b:v1") && before.contains("oci:b:v1") && !before.contains("oci:app:v1"));
    let done = move |disk: &Path| {
        is(published::layout(&disk.join("out-app"), "v1"), &digest)?;
        if lock(disk)? == after { Ok(()) } else { Err(format!("the lock is {}", lock(disk)?)) }
    };
    let sound = move |disk: &Path| {
        let found = lock(disk)?;
        if [&before, &again].contains(&&found) { Ok(()) } else { Err(format!("the lock is {found}")) }
    };
    Scene { sandbox, args: shard("0/2"), done: Box::new(done), sound: Box::new(sound) }
}

/// A command that replaces one file of the user's, which keeps its permissions.
fn rewritten(args: &str, name: &'static str, text: &str) -> Scene {
    let sandbox = Sandbox::new();
    fs::create_dir(template(&sandbox)).unwrap();
    let file = template(&sandbox).join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let look = move |disk: &Path| {
        let file = disk.join(name);
        let mode = fs::metadata(&file).map(|found| found.permissions().mode() & 0o777);
        fs::read_to_string(&file).ok().zip(mode.ok())
    };
    let before = look(&template(&sandbox));
    let (_, after) = calm(&sandbox, &words(args), look);
    assert!(before != after && after.as_ref().is_some_and(|(_, mode)| *mode == 0o640), "{after:?}");
    let again = after.clone();
    let wrong = move |disk: &Path| Err(format!("{:?}", look(disk)));
    let done = move |disk: &Path| if look(disk) == after { Ok(()) } else { wrong(disk) };
    let sound = move |disk: &Path| if [&before, &again].contains(&&look(disk)) { Ok(()) } else { wrong(disk) };
    Scene { sandbox, args: words(args), done: Box::new(done), sound: Box::new(sound) }
}

pub fn kube_write() -> Scene {
    let pod = "kind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: app\n    image: r.example/app:v1\n";
    rewritten("kube --write web.yaml", "web.yaml", &format!("{pod}    command: [sh, -c, exec /app --v=2]  # start\n"))
}
