//! Scenes of moves: to every kind of target, with a store and without.

use std::fs;
use std::path::Path;

use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::published::{self, Published};
use crate::support::registries::Registries;

use super::scene::{Found, STORE, Scene, copy, template};

pub const PLATFORM: &str = "linux/amd64";
pub const SMALL: usize = 3_000;

/// Reads what stands in a target again.
type Reader = fn(&Path) -> Found<Published>;

pub fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A disk with the fixture images as layouts, and a folder for a store.
pub fn with_images() -> Sandbox {
    let sandbox = Sandbox::new();
    let disk = template(&sandbox);
    fs::create_dir_all(disk.join("kept")).unwrap();
    fixtures::app(PLATFORM, SMALL).build().layout(&disk.join("app"), "v1");
    fixtures::old_base(PLATFORM).build().layout(&disk.join("old"), "v1");
    fixtures::new_base(PLATFORM).build().layout(&disk.join("new"), "v1");
    sandbox
}

/// A move of the layouts; most need no store, which is looked at in scenes of its own.
fn moving(to: &str, more: &str) -> Vec<String> {
    words(&format!("rebase oci:app:v1 --base oci:new:v1 --old-base oci:old:v1 --to {to} {more}"))
}

/// What the command says when nothing happens, and what is then found on the disk.
pub fn calm<T>(sandbox: &Sandbox, args: &[String], look: impl Fn(&Path) -> T) -> (Run, T) {
    let disk = sandbox.path("calm");
    copy(&template(sandbox), &disk);
    let run = sandbox.underpin(args).current_dir(&disk).run().ok();
    let found = look(&disk);
    fs::remove_dir_all(&disk).unwrap();
    (run, found)
}

pub fn is(published: Found<Published>, digest: &str) -> Found {
    let found = published?.digest;
    if found == digest { Ok(()) } else { Err(format!("{found} and not {digest}")) }
}

/// A move to a target that was not there. Until it is done there is nothing, or an empty beginning.
fn moved(sandbox: Sandbox, args: Vec<String>, visible: &'static str, read: Reader) -> Scene {
    let digest = calm(&sandbox, &args, |_| ()).0.digest();
    let again = digest.clone();
    let sound = move |disk: &Path| if disk.join(visible).exists() { is(read(disk), &again) } else { Ok(()) };
    Scene { sandbox, args, done: Box::new(move |disk| is(read(disk), &digest)), sound: Box::new(sound) }
}

pub fn to_layout() -> Scene {
    let args = moving("oci:out:v1", &format!("--cache {STORE}"));
    moved(with_images(), args, "out/index.json", |disk| published::layout(&disk.join("out"), "v1"))
}

pub fn to_oci_archive() -> Scene {
    archived("oci-archive:out.tar:v1")
}

fn archived(to: &str) -> Scene {
    let args = moving(to, "--no-cache");
    moved(with_images(), args, "out.tar", |disk| published::oci_archive(&disk.join("out.tar"), "v1"))
}

/// Docker's archive is an OCI archive too.
pub fn to_docker_archive() -> Scene {
    archived("docker-archive:out.tar:v1")
}

/// From a registry with a cold cache, to a layout. The registry lives as long as the registries.
pub fn from_registry(registries: &Registries) -> Scene {
    let name = |rest: &str| registries.source.name(rest);
    let line = format!(
        "rebase {} --base {} --old-base {} --to oci:out:v1 --cache {STORE}",
        name("in/app:v1"),
        name("base/new:v1"),
        name("base/old:v1")
    );
    let sandbox = Sandbox::new();
    fs::create_dir_all(template(&sandbox).join("kept")).unwrap();
    moved(sandbox, words(&line), "out/index.json", |disk| published::layout(&disk.join("out"), "v1"))
}

/// Into a layout that has the tag, leading elsewhere, and another one.
pub fn over_an_image() -> Scene {
    let sandbox = with_images();
    let disk = template(&sandbox);
    let run = |args: &[String]| sandbox.underpin(args).current_dir(&disk).run().ok().digest();
    fixtures::app(PLATFORM, SMALL + 1).build().layout(&disk.join("app"), "v1");
    let before = run(&moving("oci:out:v1", "--no-cache"));
    run(&moving("oci:out:other", "--no-cache"));
    fs::remove_dir_all(disk.join("app")).unwrap();
    fixtures::app(PLATFORM, SMALL).build().layout(&disk.join("app"), "v1");
    let args = moving("oci:out:v1", "--no-cache");
    let digest = calm(&sandbox, &args, |_| ()).0.digest();
    assert_ne!(digest, before);
    let (old, new) = (before.clone(), digest.clone());
    let read = |disk: &Path, tag: &str| published::layout(&disk.join("out"), tag);
    let others = move |disk: &Path| is(read(disk, "other"), &before);
    let done = move |disk: &Path| is(read(disk, "v1"), &digest);
    let sound = move |disk: &Path| {
        others(disk)?;
        is(read(disk, "v1"), &old).or_else(|_| is(read(disk, "v1"), &new))
    };
    Scene { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}

/// A move that also says in files what it did.
pub fn with_files() -> Scene {
    let sandbox = with_images();
    let args = moving("oci:out:v1", "--no-cache --digest-file digest --report json=report.json");
    let files = |disk: &Path| ["digest", "report.json"].map(|name| fs::read_to_string(disk.join(name)).ok());
    let (run, written) = calm(&sandbox, &args, files);
    let (digest, again, whole) = (run.digest(), run.digest(), written.clone());
    let layout = |disk: &Path, digest: &str| is(published::layout(&disk.join("out"), "v1"), digest);
    // A second run finds everything there already, and the report says so.
    let told = move |disk: &Path| {
        let [said, report] = files(disk);
        let report: serde_json::Value =
            serde_json::from_str(&report.unwrap_or_default()).map_err(|it| it.to_string())?;
        let right = said == written[0] && report["digest"] == said.as_deref().unwrap_or_default().trim_end();
        if right { Ok(()) } else { Err(format!("{said:?} and {report}")) }
    };
    let sound = move |disk: &Path| {
        let [said, report] = files(disk);
        let half = said.is_some_and(|said| Some(said) != whole[0])
            || report.is_some_and(|text| serde_json::from_str::<serde_json::Value>(&text).is_err());
        if half {
            return Err("a file has half of it".to_owned());
        }
        if disk.join("out/index.json").exists() { layout(disk, &again) } else { Ok(()) }
    };
    let done = move |disk: &Path| layout(disk, &digest).and_then(|()| told(disk));
    Scene { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}
