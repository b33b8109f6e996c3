//! Any image, with its digests mended, is refused or moves to a result that holds: whole manifests, configs and layers are
//! made of an input's choices, and taken through `rebase` as a user would.
//!
//! An input is a list of choices, and zero is always the ordinary one. So the empty input is an image that moves, and
//! every mutation is an image that is odd in a few places, whose digests, sizes and diff ids are nevertheless right:
//! what no mutation of bytes would ever find.

#![no_main]

mod image {
    pub mod choices;
    pub mod json;
    pub mod made;
    pub mod result;
}

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use image::choices::Choices;
use libfuzzer_sys::fuzz_target;
use oci::Location;
use underpin::plan::{BaseChoice, RebaseOptions};
use underpin::report::Outcome;
use underpin::run;
use underpin::settings::Job;
use underpin::store::{CacheChoice, Network, Notices, Progress, Session, SessionOptions};

fuzz_target!(|data: &[u8]| {
    let work = work_directory();
    std::fs::create_dir_all(work).unwrap();
    try_image(data, work);
    // What was found stays, to be looked at.
    std::fs::remove_dir_all(work).unwrap();
});

fn try_image(data: &[u8], work: &Path) {
    let choices = &mut Choices::new(data);
    let old = image::made::base(choices, "old");
    let new = image::made::base(choices, "new");
    let app = image::made::application(choices, &old);
    for (name, image) in [("old", &old), ("new", &new), ("app", &app)] {
        image.write(&work.join(name));
    }
    let Some(options) = options(choices, work) else { return };
    let job = Job { targets: vec![place(work, "out")], ..Job::new(place(work, "app"), options) };
    let session = session();
    let planned = run::plan(&session, &job).map(|report| report.outcome);
    let rebased = run::rebase(&session, &job).map(|rebased| rebased.report.outcome);
    match (planned, rebased) {
        (Ok(Outcome::Planned), Ok(Outcome::Rebased | Outcome::Unchanged)) => {
            image::result::check(&work.join("out"));
            image::result::verifies(&session, &place(work, "out"), &job);
        }
        (Ok(Outcome::Refused), Ok(Outcome::Refused)) | (Err(_), Err(_)) => assert!(!work.join("out").exists()),
        (planned, rebased) => panic!("the plan is {planned:?}, and the move {rebased:?}"),
    }
}

/// In memory, and one for each process: two may run side by side.
fn work_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        parent.join(format!("underpin-fuzz-{}", std::process::id()))
    })
}

fn place(work: &Path, name: &str) -> Location {
    format!("oci:{}:v1", work.join(name).display()).parse().unwrap()
}

fn session() -> Session {
    let options = SessionOptions {
        cache: CacheChoice::None,
        insecure: Vec::new(),
        cacert: None,
        network: Network::Offline,
        jobs: 1,
        pace: 1,
    };
    Session::new(&options, Notices::silent(), Progress::hidden()).unwrap()
}

/// The options of a move, as a batch file has them; `None` where a user could not have written them.
fn options(choices: &mut Choices<'_>, work: &Path) -> Option<RebaseOptions> {
    let mut members = serde_json::json!({});
    let old = place(work, "old").to_string();
    match choices.below(4) {
        0 => members["old_base"] = old.into(),
        1 => {}
        2 => members["old_base"] = format!("layers:{}", choices.below(4)).into(),
        _ => members["old_base"] = "scratch".into(),
    }
    const MORE: [(&str, &[&str]); 9] = [
        ("extract", &["true"]),
        ("keep", &["[\"/etc\"]", "[\"/\"]", "[\"/usr/bin/tool\", \"/app\"]"]),
        ("drop", &["[\"/app\"]", "[\"/srv\"]", "[\"/\"]"]),
        ("bring", &["[\"tool\"]", "[\"/usr/bin/tool\"]", "[\"/etc\"]", "[\"libc6\"]"]),
        ("logs", &["\"stdout\"", "\"klog\"", "\"runner\""]),
        ("entrypoint", &["[\"/app\"]", "[\"/bin/sh\", \"-c\", \"exec /app >>/var/log/x 2>&1\"]", "[]"]),
        ("user", &["\"7\"", "\"app:app\"", "\"0\""]),
        ("workdir", &["\"/srv\"", "\"/none/at/all\""]),
        (
            "allow",
            &["[\"needs-shell\"]", "[\"entrypoint-missing\", \"dynamic-binary\", \"needs-tool\", \"needs-file\"]"],
        ),
    ];
    for (name, values) in MORE {
        if let Some(value) = choices.rarely().then(|| choices.one_of(values)) {
            members[name] = serde_json::from_str(value).unwrap();
        }
    }
    let options: RebaseOptions = serde_json::from_value(members).ok()?;
    Some(RebaseOptions { base: BaseChoice::Image(place(work, "new")), ..options }.normalized())
}
