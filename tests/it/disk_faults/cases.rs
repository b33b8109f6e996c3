//! A command on a small disk of its own, and what must hold of that disk whatever happens.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::faulty_disk::{Harm, Preload};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run, Sandbox, files_under};
use crate::support::published::{self, Published};
use crate::support::registries::Registries;

pub type Found<T = ()> = Result<T, String>;
type Look = Box<dyn Fn(&Path) -> Found>;

/// Paths of the command line are relative to the disk, so that it says the same on each.
pub struct Case {
    pub sandbox: Sandbox,
    pub args: Vec<String>,
    /// What the command was asked for is there, and right.
    pub done: Look,
    /// What is visible is as it was or as it should be.
    pub sound: Look,
}

/// Where a case keeps what it may lose: the store, which is in a folder of its own.
pub const STORE: &str = "kept/store";

impl Case {
    /// The disk as it is before the command; to be filled.
    pub fn template(&self) -> PathBuf {
        template(&self.sandbox)
    }

    /// A new disk.
    pub fn disk(&self, name: &str) -> PathBuf {
        let disk = self.sandbox.path(name);
        copy(&self.template(), &disk);
        disk
    }

    pub fn command(&self, disk: &Path) -> Invocation {
        self.sandbox.underpin(&self.args).current_dir(disk).hurried()
    }

    pub fn is_done(&self, disk: &Path, run: &Run) {
        (self.done)(disk).unwrap_or_else(|why| panic!("it is not done: {why}\n{run}"));
    }

    /// What holds after every run, however it ended.
    pub fn is_sound(&self, disk: &Path, run: &Run) {
        (self.sound)(disk).unwrap_or_else(|why| panic!("it does not hold: {why}\n{run}"));
        assert_eq!(published::lies_in_cache(disk), Vec::<PathBuf>::new(), "{run}");
    }

    /// The next run without faults does it, and leaves nothing lying about.
    pub fn is_done_by_the_next_run(&self, preload: &Preload, disk: &Path, before: &Run) {
        let run = preload.put(self.command(disk), disk, &self.sandbox.path("log"), Harm::None).run();
        assert_eq!(run.code(), Some(0), "{run}\nafter\n{before}");
        self.is_done(disk, &run);
        self.is_sound(disk, &run);
        assert_eq!(orphans(disk), Vec::<PathBuf>::new(), "{run}\nafter\n{before}");
    }
}

pub fn template(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("template")
}

/// Files of writers that are dead, and downloads that nobody will take up again.
pub fn orphans(disk: &Path) -> Vec<PathBuf> {
    let is_orphan = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(".underpin-") || path.parent().is_some_and(|folder| folder.ends_with("partial"))
    };
    files_under(disk).into_iter().filter(is_orphan).collect()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

// Cases of moves: to every kind of target, with a store and without.

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

/// A move of the layouts; most need no store, which is looked at in cases of its own.
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
fn moved(sandbox: Sandbox, args: Vec<String>, visible: &'static str, read: Reader) -> Case {
    let digest = calm(&sandbox, &args, |_| ()).0.digest();
    let again = digest.clone();
    let sound = move |disk: &Path| if disk.join(visible).exists() { is(read(disk), &again) } else { Ok(()) };
    Case { sandbox, args, done: Box::new(move |disk| is(read(disk), &digest)), sound: Box::new(sound) }
}

pub fn to_layout() -> Case {
    let args = moving("oci:out:v1", &format!("--cache {STORE}"));
    moved(with_images(), args, "out/index.json", |disk| published::layout(&disk.join("out"), "v1"))
}

pub fn to_oci_archive() -> Case {
    archived("oci-archive:out.tar:v1")
}

fn archived(to: &str) -> Case {
    let args = moving(to, "--no-cache");
    moved(with_images(), args, "out.tar", |disk| published::oci_archive(&disk.join("out.tar"), "v1"))
}

/// Docker's archive is an OCI archive too.
pub fn to_docker_archive() -> Case {
    archived("docker-archive:out.tar:v1")
}

/// From a registry with a cold cache, to a layout. The registry lives as long as the registries.
pub fn from_registry(registries: &Registries) -> Case {
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
pub fn over_an_image() -> Case {
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
    Case { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}

/// A move that also says in files what it did.
pub fn with_files() -> Case {
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
    Case { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}

// Cases of files that are changed in place: the lock of a batch, a manifest.

/// One shard of a batch, whose lock has the image of another shard already.
pub fn batch() -> Case {
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
    Case { sandbox, args: shard("0/2"), done: Box::new(done), sound: Box::new(sound) }
}

/// A command that replaces one file of the user's, which keeps its permissions.
fn rewritten(args: &str, name: &'static str, text: &str) -> Case {
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
    Case { sandbox, args: words(args), done: Box::new(done), sound: Box::new(sound) }
}

pub fn kube_write() -> Case {
    let pod = "kind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: app\n    image: r.example/app:v1\n";
    rewritten("kube --write web.yaml", "web.yaml", &format!("{pod}    command: [sh, -c, exec /app --v=2]  # start\n"))
}

// The case of a collection: a store with three images, of which one is protected.

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
pub fn collection(registries: &Registries) -> Case {
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
    Case { sandbox, args, done: Box::new(done), sound: Box::new(sound) }
}
