//! What a run was asked to do, checked before the world is touched.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use serde::Deserialize;

use crate::attest::sbom::SbomWish;
use crate::attest::{SignatureDemand, SigningKey};
use crate::examine::base::OldBaseChoice;
use crate::plan::{AttestKind, BaseChoice, RebaseOptions};
use crate::policy::exceptions::Exception;
use crate::process::PodContainer;
use crate::report::FileListing;
use crate::rules::Allow;
use crate::store::disk::{Place, note_input, note_location, read_file};
use crate::store::engine::not_a_target;
use crate::store::fetch::Request;
use layer::FileDigests;
use oci::error::{Error, Result};
use oci::{Location, Platform, json};

/// One image's move.
#[derive(Debug, Clone)]
pub struct Job {
    pub source: Location,
    pub targets: Vec<Location>,
    pub options: RebaseOptions,
    /// The container of a manifest that `command_from` names: what is to be proven to start.
    pub pod: Option<Arc<PodContainer>>,
    /// The old base of each platform, where a lock or a result records it.
    pub old_bases: Vec<(Platform, OldBaseChoice)>,
    /// The source may stay on its base; the move is refused where it would be all the same.
    pub exception: Option<Exception>,
    /// The rules that the policy allows for it; they are among those that the options allow.
    pub excepted_rules: Vec<Allow>,
    /// What the result, and the statements about it, are signed with.
    pub signer: Option<Arc<SigningKey>>,
    /// Whose signatures the source, the new base and the log runner must carry.
    pub demands: Arc<[SignatureDemand]>,
    /// Whether an SBOM of each platform is written to a file.
    pub sbom: SbomWish,
    /// Whether the report lists the files of each layer.
    pub files: FileListing,
}

impl Job {
    /// A move to no target yet.
    #[must_use]
    pub fn new(source: Location, options: RebaseOptions) -> Self {
        Self {
            source,
            targets: Vec::new(),
            options,
            pod: None,
            old_bases: Vec::new(),
            exception: None,
            excepted_rules: Vec::new(),
            signer: None,
            demands: Arc::default(),
            sbom: SbomWish::None,
            files: FileListing::None,
        }
    }

    /// Whether SBOMs are made, for files or to be attached.
    #[must_use]
    pub fn sbom_wish(&self) -> SbomWish {
        let is_attached = self.options.attest.contains(&AttestKind::Sbom);
        if is_attached && self.sbom == SbomWish::None { SbomWish::ForEachPlatform } else { self.sbom }
    }

    /// What has to be fetched for a move to `base`.
    #[must_use]
    pub fn request<'a>(&'a self, base: &'a Location) -> Request<'a> {
        let file_digests = if self.sbom_wish() == SbomWish::None { FileDigests::LeftOut } else { FileDigests::Wanted };
        Request {
            source: &self.source,
            base,
            options: &self.options,
            pod: self.pod.as_ref(),
            old_bases: &self.old_bases,
            file_digests,
        }
    }

    /// Keeps what the run writes besides away from the images on disk that it is about.
    pub fn note_files(&self) {
        let options = &self.options;
        let old_bases = options.old_base.iter().chain(self.old_bases.iter().map(|(_, choice)| choice));
        let old_bases = old_bases.filter_map(|choice| match choice {
            OldBaseChoice::Image(location) => Some(location),
            OldBaseChoice::Scratch | OldBaseChoice::Layers(_) | OldBaseChoice::Digest(_) => None,
        });
        let base = match &options.base {
            BaseChoice::Image(location) => Some(location),
            BaseChoice::Auto => None,
        };
        let others = options.known_bases.iter().chain(&options.base_candidates).chain(&options.log_runner);
        options.sign_key.iter().for_each(|key| note_input(Path::new(key)));
        others.chain(base).chain(old_bases).chain(&self.targets).chain([&self.source]).for_each(note_location);
    }

    /// The same for a component of the exception list, whose refusals by these rules do not count.
    #[must_use]
    pub fn excepted(mut self, exception: Exception, rules: &[Allow]) -> Self {
        self.options.allow.extend(rules.iter().cloned());
        self.options = self.options.normalized();
        self.excepted_rules = rules.to_vec();
        self.exception = Some(exception);
        self
    }

    /// Checks what only the parts together can show. A target that is given twice, in whatever spelling, is one.
    pub fn check(mut self) -> Result<Self> {
        self.options.check_start()?;
        let mut seen = HashSet::new();
        self.targets.retain(|target| seen.insert(Place::of(target)));
        for target in &self.targets {
            check_target(&self.source, target)?;
            if let Location::Engine(image) = target {
                return Err(not_a_target(image));
            }
            if self.options.attaches() && matches!(target, Location::DockerArchive(_)) {
                return Err(Error::usage("a docker archive cannot hold statements about an image")
                    .fact("target", target)
                    .hint("write to an oci-archive, a layout or a registry, or leave --attest and --sign-key out"));
            }
        }
        Ok(self)
    }
}

/// The source's tag is only moved when it was written out.
fn check_target(source: &Location, target: &Location) -> Result<()> {
    let (Location::Registry(source), Location::Registry(to)) = (source, target) else { return Ok(()) };
    let same = source.name().without_default_port() == to.name().without_default_port()
        && source.effective_tag() == to.effective_tag();
    if same && to.tag().is_none() && to.digest().is_none() {
        return Err(Error::usage("--to would overwrite the source's tag without naming it")
            .fact("source", source)
            .fact("target", target)
            .hint(format!("write the tag out to overwrite it: --to {}", to.without_digest())));
    }
    Ok(())
}

/// `20GiB`, `500MB`, `1048576`.
pub fn size(text: &str) -> Result<u64> {
    // The crate would take a size that does not fit for the largest there is.
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 24;
    let size = text.parse::<ByteSize>().ok().filter(|size| is_plain && size.as_u64() < u64::MAX);
    size.map(|size| size.as_u64()).ok_or_else(|| {
        Error::usage("not a size: write bytes, or a number with KiB, MiB, GiB, MB, GB").fact("given", text)
    })
}

/// `90s`, `15m`, `36h`, `30d`, `2w`, or several after another: `1d12h`.
pub fn duration(text: &str) -> Result<Duration> {
    let refuse =
        || Error::usage("not a duration: write a number with s, m, h, d or w, such as 30d").fact("given", text);
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = rest.split_at(digits);
        let mut unit = unit.chars();
        let each = match unit.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            _ => return Err(refuse()),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(refuse)?;
        rest = unit.as_str();
    }
    if text.is_empty() { Err(refuse()) } else { Ok(Duration::from_secs(seconds)) }
}

/// `85` or `85%`.
pub fn percent(text: &str) -> Result<u8> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = number.parse().ok().filter(|percent| *percent <= 100 && !number.starts_with('+'));
    percent.ok_or_else(|| Error::usage("not a percentage: write a whole number from 0 to 100").fact("given", text))
}

const FILE_LIMIT: u64 = 4 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsFile {
    pub max_size: Option<u64>,
    pub protect: Vec<String>,
    pub protect_files: Vec<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Written {
    cache: WrittenCache,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenCache {
    max_size: Option<String>,
    protect: Vec<String>,
    protect_files: Vec<PathBuf>,
}

/// Where the settings file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsPlace {
    /// The user named it: it must be there.
    Named(PathBuf),
    /// It is looked for, and need not be there.
    Usual(PathBuf),
    /// There is no directory to look in.
    None,
}

/// Reads the settings; none where there is no file.
pub fn read_settings(place: &SettingsPlace) -> Result<SettingsFile> {
    let (path, may_be_missing) = match place {
        SettingsPlace::Named(path) => (path, false),
        SettingsPlace::Usual(path) => (path, true),
        SettingsPlace::None => return Ok(SettingsFile::default()),
    };
    match read_file(path, FILE_LIMIT) {
        Ok(bytes) => parse(&bytes, path).map_err(|error| error.fact("settings", path.display())),
        Err(error) if may_be_missing && error.kind() == std::io::ErrorKind::NotFound => Ok(SettingsFile::default()),
        Err(error) => {
            Err(Error::input("the settings file cannot be read").fact("settings", path.display()).cause(error))
        }
    }
}

fn parse(bytes: &[u8], path: &Path) -> Result<SettingsFile> {
    let object = json::read_object(bytes, "the settings file")?;
    let written: Written = serde_json::from_value(object.into())
        .map_err(|error| Error::input("the settings file is not valid").cause(error))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    Ok(SettingsFile {
        max_size: written.cache.max_size.as_deref().map(size).transpose()?,
        protect: written.cache.protect,
        // Beside the file that names them.
        protect_files: written.cache.protect_files.iter().map(|file| folder.join(file)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_tag_must_be_written_out_to_be_moved() {
        for (source, target, allowed) in [
            ("gcr.io/a/b", "gcr.io/a/b", false),
            ("gcr.io/a/b:latest", "gcr.io/a/b", false),
            ("gcr.io/a/b:latest", "gcr.io/a/b:latest", true),
            ("gcr.io/a/b:v1", "gcr.io/a/b", true),
            ("gcr.io/a/b", "gcr.io/a/c", true),
            ("gcr.io/a/b", "GCR.io:0443/a/b", false),
            ("gcr.io/a/b", "gcr.io:80/a/b", false),
            ("gcr.io/a/b", "gcr.io:5000/a/b", true),
            ("debian", "index.docker.io/library/debian", false),
            ("oci:a", "oci:a", true),
        ] {
            let result = check_target(&source.parse().unwrap(), &target.parse().unwrap());
            assert_eq!(result.is_ok(), allowed, "{source} -> {target}");
        }
    }
}

#[cfg(test)]
mod target_tests {
    use super::*;

    #[test]
    fn a_target_that_is_given_twice_is_written_once() {
        let location = |text: &str| text.parse::<Location>().unwrap();
        let mut job = Job::new(location("oci:in"), RebaseOptions::default());
        let given =
            ["gcr.io/a:v1", "oci:out:v1", "GCR.io:443/a:v1", "oci:./x/..//out/:v1", "gcr.io/a:v2", "oci:out:v2"];
        job.targets = given.map(location).to_vec();
        let kept: Vec<String> = job.check().unwrap().targets.iter().map(ToString::to_string).collect();
        assert_eq!(kept, ["gcr.io/a:v1", "oci:out:v1", "gcr.io/a:v2", "oci:out:v2"]);
    }
}

#[cfg(test)]
mod amount_tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("10", 10), ("2KiB", 2048), ("1 MiB", 1 << 20), ("1.5KiB", 1536), ("3GB", 3_000_000_000)]
        {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("2m", 120), ("36h", 129_600), ("1d12h", 129_600), ("2w", 1_209_600)]
        {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        assert_eq!((percent("85").unwrap(), percent("0%").unwrap(), percent("100").unwrap()), (85, 0, 100));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in ["", "-1", "x", "10 apples", "99999999999999999999", "99999999999GiB", ".5", "1e9"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["", "5", "s", "-5s", "5y", "99999999999999999999s", "99999999999999999w", "1h-1m", "1.5h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["", "-1", "+5", "101", "x", "5%%", "0.5"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}

#[cfg(test)]
mod file_tests {
    use super::*;

    #[test]
    fn settings_are_read_and_lists_stand_beside_the_file() {
        let text = br#"{"cache":{"max_size":"2KiB","protect":["host:gcr.io"],"protect_files":["list","/etc/list"]}}"#;
        let settings = parse(text, Path::new("/home/u/settings.json")).unwrap();
        assert_eq!(settings.max_size, Some(2048));
        assert_eq!(settings.protect, ["host:gcr.io"]);
        assert_eq!(settings.protect_files, [Path::new("/home/u/list"), Path::new("/etc/list")]);
        assert_eq!(parse(b"{}", Path::new("x")).unwrap(), SettingsFile::default());
    }

    #[test]
    fn nothing_is_guessed() {
        for bad in ["", "[]", "{", r#"{"cashe":{}}"#, r#"{"cache":{"protects":[]}}"#, r#"{"cache":{"max_size":5}}"#] {
            assert!(parse(bad.as_bytes(), Path::new("x")).is_err(), "{bad}");
        }
        assert!(parse(br#"{"cache":{"protect":["a"],"protect":["b"]}}"#, Path::new("x")).is_err(), "written twice");
    }

    #[test]
    fn only_a_file_that_was_named_must_be_there() {
        assert_eq!(read_settings(&SettingsPlace::Usual("/no/such/file".into())).unwrap(), SettingsFile::default());
        assert_eq!(read_settings(&SettingsPlace::None).unwrap(), SettingsFile::default());
        assert!(read_settings(&SettingsPlace::Named("/no/such/file".into())).is_err());
        assert!(read_settings(&SettingsPlace::Usual("/".into())).is_err(), "there, and not to be read");
    }
}
