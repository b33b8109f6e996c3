//! What the environment sets: the user's directories, the settings file, the size limit of the cache.

use std::path::PathBuf;

use crate::settings::{self, SettingsFile, SettingsPlace};
use crate::store::gc::CacheLimit;
use oci::error::Result;

/// How large the store may grow by itself, where that is configured.
pub(super) fn limit() -> Result<Option<CacheLimit>> {
    let settings = settings_file()?;
    let max_size = configured_size(&settings)?;
    let SettingsFile { protect, protect_files, .. } = settings;
    Ok(max_size.map(|max_size| CacheLimit { max_size, protect, protect_files }))
}

/// `$UNDERPIN_CACHE_MAX_SIZE`, else what the settings file says.
pub(super) fn configured_size(settings: &SettingsFile) -> Result<Option<u64>> {
    match std::env::var("UNDERPIN_CACHE_MAX_SIZE").ok().filter(|text| !text.is_empty()) {
        Some(text) => {
            settings::size(&text).map(Some).map_err(|error| error.fact("variable", "UNDERPIN_CACHE_MAX_SIZE"))
        }
        None => Ok(settings.max_size),
    }
}

/// The settings file: `$UNDERPIN_SETTINGS`, else `underpin/settings.json` in the user's folder for such files.
pub(super) fn settings_file() -> Result<SettingsFile> {
    let named = std::env::var_os("UNDERPIN_SETTINGS").filter(|file| !file.is_empty()).map(PathBuf::from);
    let usual = || user_directory("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("underpin/settings.json"));
    let place = named.map(SettingsPlace::Named).or_else(|| usual().map(SettingsPlace::Usual));
    settings::read_settings(&place.unwrap_or(SettingsPlace::None))
}

/// The directory of the cache, and whether somebody named it.
pub(super) enum CacheDirectory {
    Named(PathBuf),
    Usual(PathBuf),
}

impl CacheDirectory {
    pub(super) fn into_path(self) -> PathBuf {
        match self {
            Self::Named(path) | Self::Usual(path) => path,
        }
    }
}

/// The directory of the cache: as named, else `$UNDERPIN_CACHE`, else the user's.
pub(super) fn cache_directory(named: Option<&PathBuf>) -> Option<CacheDirectory> {
    let variable = std::env::var_os("UNDERPIN_CACHE").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let named = named.cloned().or(variable).map(CacheDirectory::Named);
    named.or_else(|| user_cache().map(CacheDirectory::Usual))
}

/// `$XDG_CACHE_HOME/underpin`, else `~/.cache/underpin`; none without a home.
fn user_cache() -> Option<PathBuf> {
    user_directory("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("underpin"))
}

/// The folder that the variable names, else the one of this name in the user's home.
fn user_directory(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(in_home)))
}
