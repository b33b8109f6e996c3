//! What the command line names: manifests (files, directories, patterns, stdin) and the images of
//! `--image`, examined as `inspect` does it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use walkdir::{DirEntry, WalkDir};

use super::super::args::SessionArgs;
use super::super::console::Console;
use crate::examine::{FullImage, Klog, ProgramAnswer};
use crate::kube::{Images, LONGEST, ProgramFacts, ProgramQuery};
use crate::store::Session;
use crate::store::disk::{Symlinks, note_input, open_regular, place_of};
use oci::error::{Error, Result};
use oci::{Location, Reference};

/// The name of the stream.
pub(in crate::cli) const STREAM: &str = "-";
/// How the names of manifests end.
const ENDINGS: [&str; 4] = ["yaml", "yml", "json", "manifest"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Input {
    Stream,
    File(PathBuf),
}

impl Input {
    pub fn name(&self) -> String {
        match self {
            Self::Stream => STREAM.to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// What it is, however it is spelled.
    fn identity(&self) -> PathBuf {
        match self {
            Self::Stream => PathBuf::from(STREAM),
            Self::File(path) => place_of(path),
        }
    }
}

/// The files that the command line names, each once and in a fixed order.
pub(in crate::cli) fn find(words: &[PathBuf]) -> Result<Vec<Input>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for word in words {
        let files = match word.to_str() {
            Some(STREAM) => vec![Input::Stream],
            _ if word.is_dir() => under(word, has_ending)?,
            Some(text) if !word.exists() && text.contains(['*', '?', '[', '{']) => matching(text)?,
            _ => vec![Input::File(word.clone())],
        };
        found.extend(files.into_iter().filter(|file| seen.insert(file.identity())));
    }
    for input in &found {
        if let Input::File(path) = input {
            note_input(path);
        }
    }
    Ok(found)
}

fn has_ending(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Files in a directory and below. Symlinks are not followed, hidden directories are not entered.
fn under(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<Input>> {
    let is_hidden =
        |entry: &DirEntry| entry.depth() > 0 && entry.file_name().to_str().is_some_and(|name| name.starts_with('.'));
    let mut files = Vec::new();
    for entry in WalkDir::new(directory).sort_by_file_name().into_iter().filter_entry(|entry| !is_hidden(entry)) {
        let entry = entry.map_err(|error| {
            Error::input("a directory cannot be read").fact("path", directory.display()).cause(error)
        })?;
        if entry.file_type().is_file() && is_wanted(entry.path()) {
            files.push(Input::File(entry.into_path()));
        }
    }
    Ok(files)
}

fn matching(pattern: &str) -> Result<Vec<Input>> {
    let wrong = |error| Error::usage("the pattern is not valid").fact("pattern", pattern).cause(error);
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(wrong)?.compile_matcher();
    // The directory that all matches are in.
    let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let directory =
        fixed.rsplit_once('/').map_or(".", |(directory, _)| if directory.is_empty() { "/" } else { directory });
    if !Path::new(directory).is_dir() {
        return Err(Error::usage("no file matches the pattern").fact("pattern", pattern));
    }
    let is_wanted = |path: &Path| glob.is_match(path.strip_prefix("./").unwrap_or(path)) || glob.is_match(path);
    let found: Vec<Input> = under(Path::new(directory), is_wanted)?.into_iter().map(without_dot).collect();
    if found.is_empty() {
        return Err(Error::usage("no file matches the pattern").fact("pattern", pattern));
    }
    Ok(found)
}

fn without_dot(input: Input) -> Input {
    match input {
        Input::File(path) => Input::File(path.strip_prefix("./").map(Path::to_owned).unwrap_or(path)),
        Input::Stream => Input::Stream,
    }
}

/// The text of a manifest.
pub(in crate::cli) fn read(input: &Input) -> Result<String> {
    let bytes = match input {
        Input::Stream => {
            let mut bytes = Vec::new();
            let failed = |error| Error::from_stream(error, "could not read stdin");
            std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
            bytes
        }
        Input::File(path) => {
            let missing = || Error::missing("no such file");
            let file = open_regular(path, Symlinks::Followed)?.ok_or_else(missing)?;
            let mut bytes = Vec::new();
            if file.len() <= LONGEST {
                let failed = |error| Error::from_stream(error, "could not read the file");
                file.reader(0).take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
            } else {
                return Err(too_long());
            }
            bytes
        }
    };
    if bytes.len() as u64 > LONGEST {
        return Err(too_long());
    }
    String::from_utf8(bytes)
        .map_err(|error| Error::input("the manifest is not UTF-8 text").fact("byte", error.utf8_error().valid_up_to()))
}

fn too_long() -> Error {
    Error::input("the manifest is too long").fact("longest", format!("{LONGEST} bytes"))
}

/// Images that were fetched, by the names that manifests have for them.
pub(super) struct FetchedImages(BTreeMap<ManifestName, FullImage>);

impl Images for FetchedImages {
    fn facts(&self, image: &str, query: &ProgramQuery<'_>) -> Option<ProgramFacts> {
        let whole =
            self.0.get(&ManifestName::of(image)).or_else(|| self.0.get(&ManifestName::without_version(image)))?;
        let program = [query.program.to_owned()];
        let words = if query.line.is_empty() { &program[..] } else { query.line };
        let shown = whole.platforms.iter().map(|one| (one, one.show(words, query.container)));
        let mut shown = shown.map(|(one, shown)| match shown.missing {
            Some(why) => ProgramAnswer { missing: Some(format!("{why} ({})", one.platform)), ..shown },
            None => shown,
        });
        let first = shown.next()?;
        let all = shown.fold(first, both);
        let ProgramAnswer { entrypoint, missing, mounted, klog, runner } = all;
        Some(ProgramFacts { image: whole.origin.pinned(), entrypoint, missing, mounted, klog, runner })
    }
}

/// What holds for two platforms.
fn both(one: ProgramAnswer, two: ProgramAnswer) -> ProgramAnswer {
    let klog = match (&one.klog, &two.klog) {
        (a, b) if a == b => one.klog,
        (Klog::Proven(_), Klog::Proven(_)) => Klog::Unknown("its platforms spell the flags differently".to_owned()),
        (Klog::Proven(_), _) => two.klog,
        _ => one.klog,
    };
    ProgramAnswer {
        entrypoint: if one.entrypoint.is_empty() { two.entrypoint } else { one.entrypoint },
        missing: one.missing.or(two.missing),
        mounted: one.mounted.or(two.mounted),
        klog,
        runner: one.runner.filter(|runner| two.runner.as_ref() == Some(runner)),
    }
}

/// An image as a manifest names it, in one form for all spellings: a repository, or one image of it. What is no
/// reference, such as a variable of a template, stays as it is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ManifestName(String);

impl ManifestName {
    fn of(image: &str) -> Self {
        let canonical = image.parse::<Reference>().map(|reference| match (reference.tag(), reference.digest()) {
            (None, None) => reference.name().to_string(),
            _ => reference.to_string(),
        });
        Self(canonical.unwrap_or_else(|_| image.to_owned()))
    }

    /// The name of the image without its tag and digest.
    fn without_version(image: &str) -> Self {
        let name = image.split_once('@').map_or(image, |(name, _)| name);
        match name.rsplit_once(':') {
            Some((front, tag)) if !tag.contains('/') => Self::of(front),
            _ => Self::of(name),
        }
    }
}

/// Fetches what the flags name; `None` without flags, and then nothing is asked of anybody.
pub(super) fn fetch_images(flags: &[String], world: &SessionArgs, console: &Console) -> Result<Option<FetchedImages>> {
    if flags.is_empty() {
        return Ok(None);
    }
    let wrong = |flag: &str| {
        Error::usage("an image must be given as NAME=LOCATION").fact("flag", "--image").fact("value", flag)
    };
    let mut wanted: BTreeMap<ManifestName, Location> = BTreeMap::new();
    for flag in flags {
        let (name, location) = flag.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| wrong(flag))?;
        if wanted.insert(ManifestName::of(name), location.parse()?).is_some() {
            return Err(Error::usage("an image is given twice").fact("image", name));
        }
    }
    let session = Session::new(&world.session_options()?, console.notices(), console.progress())?;
    let fetcher = session.fetcher();
    let images = wanted.into_iter().map(|(name, location)| Ok((name, fetcher.whole(&location)?)));
    images.collect::<Result<BTreeMap<_, _>>>().map(|images| Some(FetchedImages(images)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_name_without_tag_and_digest() {
        for (image, expected) in [
            ("a", "docker.io/library/a"),
            ("r.example:5000/a", "r.example:5000/a"),
            ("R.example:05000/a:v1", "r.example:5000/a"),
            ("r.example:443/a:v1@sha256:00", "r.example/a"),
            ("${REGISTRY}/a:v1", "${REGISTRY}/a"),
        ] {
            assert_eq!(ManifestName::without_version(image).0, expected);
        }
        for (one, other) in [("a", "docker.io/library/a"), ("R.example/a:v1", "r.example:443/a:v1")] {
            assert_eq!(ManifestName::of(one), ManifestName::of(other));
        }
        assert_ne!(ManifestName::of("r.example/a"), ManifestName::of("r.example/a:latest"));
    }
}
