//! The settings file: what a user has settled for all runs.
//!
//! ```json
//! {"cache": {"max_size": "20GiB", "protect": ["host:registry.example"], "protect_files": ["/etc/underpin/protected"]}}
//! ```
//!
//! A key that is not known is an error: a misspelled `protect` must not protect nothing.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::amount;
use crate::error::{Error, Result};
use crate::oci::json;
use crate::store::disk::read_file;

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
pub enum Place {
    /// The user named it: it must be there.
    Named(PathBuf),
    /// It is looked for, and need not be there.
    Usual(PathBuf),
    /// There is no directory to look in.
    None,
}

/// Reads the settings; none where there is no file.
pub fn read(place: &Place) -> Result<SettingsFile> {
    let (path, may_be_missing) = match place {
        Place::Named(path) => (path, false),
        Place::Usual(path) => (path, true),
        Place::None => return Ok(SettingsFile::default()),
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
        max_size: written.cache.max_size.as_deref().map(amount::size).transpose()?,
        protect: written.cache.protect,
        // Beside the file that names them.
        protect_files: written.cache.protect_files.iter().map(|file| folder.join(file)).collect(),
    })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(read(&Place::Usual("/no/such/file".into())).unwrap(), SettingsFile::default());
        assert_eq!(read(&Place::None).unwrap(), SettingsFile::default());
        assert!(read(&Place::Named("/no/such/file".into())).is_err());
        assert!(read(&Place::Usual("/".into())).is_err(), "there, and not to be read");
    }
}
