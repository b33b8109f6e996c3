//! The manifests that a command line names: files, folders, patterns and a stream.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use walkdir::{DirEntry, WalkDir};

use crate::error::{Error, Result};
use crate::kube::LONGEST;
use crate::store::disk::{Symlinks, open_regular};

/// The name of the stream.
pub(super) const STREAM: &str = "-";
/// How the names of manifests end.
const ENDINGS: [&str; 4] = ["yaml", "yml", "json", "manifest"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
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
}

/// What the words of the command line stand for, each file once and in one order.
pub(super) fn find(words: &[PathBuf]) -> Result<Vec<Input>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for word in words {
        let files = match word.to_str() {
            Some(STREAM) => vec![Input::Stream],
            _ if word.is_dir() => under(word, has_ending)?,
            Some(text) if !word.exists() && text.contains(['*', '?', '[', '{']) => matching(text)?,
            _ => vec![Input::File(word.clone())],
        };
        found.extend(files.into_iter().filter(|file| seen.insert(file.name())));
    }
    Ok(found)
}

fn has_ending(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Files in a folder and below. Symlinks are not followed, hidden folders are not entered.
fn under(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<Input>> {
    let is_hidden =
        |entry: &DirEntry| entry.depth() > 0 && entry.file_name().to_str().is_some_and(|name| name.starts_with('.'));
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(|entry| !is_hidden(entry)) {
        let entry = entry
            .map_err(|error| Error::input("a folder cannot be read").fact("path", folder.display()).cause(error))?;
        if entry.file_type().is_file() && is_wanted(entry.path()) {
            files.push(Input::File(entry.into_path()));
        }
    }
    Ok(files)
}

fn matching(pattern: &str) -> Result<Vec<Input>> {
    let wrong = |error| Error::usage("the pattern cannot be understood").fact("pattern", pattern).cause(error);
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(wrong)?.compile_matcher();
    // The folder that all matches are in.
    let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let folder = fixed.rsplit_once('/').map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder });
    if !Path::new(folder).is_dir() {
        return Err(Error::usage("there is no file like this").fact("pattern", pattern));
    }
    let is_wanted = |path: &Path| glob.is_match(path.strip_prefix("./").unwrap_or(path)) || glob.is_match(path);
    let found: Vec<Input> = under(Path::new(folder), is_wanted)?.into_iter().map(without_dot).collect();
    if found.is_empty() {
        return Err(Error::usage("there is no file like this").fact("pattern", pattern));
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
pub(super) fn read(input: &Input) -> Result<String> {
    let bytes = match input {
        Input::Stream => {
            let mut bytes = Vec::new();
            let failed = |error| Error::from_stream(error, "could not read the stream");
            std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
            bytes
        }
        Input::File(path) => {
            let missing = || Error::missing("there is no such file");
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
