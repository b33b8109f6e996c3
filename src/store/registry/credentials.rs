//! Who we are to a registry: where credentials are looked for, and in which order.
//!
//! The `docker_credential` crate is not used: it cannot be given an environment, a time-out or an
//! output limit, puts what a helper wrote to stderr into its error, and knows no path prefixes.
//! The rule kept here: a host gets the credentials stored for exactly this host, or none.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fmt};

use reqwest::header::HeaderValue;

use super::auth_file::{AuthEntry, AuthFile};
use super::credential_helper;
use oci::RepositoryName;
use oci::error::Result;

/// The part of the environment that says where credentials are. Captured once, at the rim.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    pub home: Option<PathBuf>,
    pub docker_config: Option<PathBuf>,
    pub registry_auth_file: Option<PathBuf>,
    pub xdg_runtime_dir: Option<PathBuf>,
    pub xdg_config_home: Option<PathBuf>,
    /// `PATH`, where credential helpers are.
    pub path: Option<OsString>,
}

/// What a registry is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credential {
    Password {
        user: String,
        password: Secret,
    },
    /// A refresh token, to be traded for access tokens.
    Identity(Secret),
}

impl Credentials {
    #[must_use]
    pub fn from_env() -> Self {
        let path = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            home: path("HOME"),
            docker_config: path("DOCKER_CONFIG"),
            registry_auth_file: path("REGISTRY_AUTH_FILE"),
            xdg_runtime_dir: path("XDG_RUNTIME_DIR"),
            xdg_config_home: path("XDG_CONFIG_HOME"),
            path: env::var_os("PATH"),
        }
    }

    /// The files that may hold credentials; the first that has some for a host wins.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let home = |below: &str| self.home.as_ref().map(|home| home.join(below));
        let docker = self.docker_config.clone().or_else(|| home(".docker")).map(|dir| dir.join("config.json"));
        let config = self.xdg_config_home.clone().or_else(|| home(".config"));
        [
            self.registry_auth_file.clone(),
            docker,
            self.xdg_runtime_dir.as_ref().map(|dir| dir.join("containers/auth.json")),
            config.map(|dir| dir.join("containers/auth.json")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The credentials for a repository, or `None` where nobody stored any. A file or helper that
    /// is broken is an error: going on without it could mean going on as somebody else.
    pub(super) fn find(&self, name: &RepositoryName, limit: Duration) -> Result<Option<Credential>> {
        for path in self.files() {
            let Some(file) = AuthFile::read(&path)? else { continue };
            let found = match file.entry(name)? {
                None => None,
                Some(AuthEntry::Credential(credential)) => Some(credential),
                Some(AuthEntry::Helper { helper, server }) => {
                    credential_helper::ask(&helper, &server, self.path.as_deref(), limit)
                        .map_err(|e| e.fact("named in", path.display()))?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

// A secret that cannot be printed by accident: passwords, tokens, `Authorization` values.

/// Text that `Debug` and `Display` show as `***`. Whoever needs it says so: [`Secret::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is a user's name and password, as a header has them.
    pub(super) fn is_basic(&self) -> bool {
        self.0.starts_with("Basic ")
    }

    /// `bytes` with the secret made unreadable: servers may repeat what they were sent.
    pub(super) fn scrub(&self, bytes: Vec<u8>) -> Vec<u8> {
        // Of an `Authorization` value, the scheme is no secret.
        let bare = self.0.split_once(' ').map_or(self.0.as_str(), |(_, parameter)| parameter);
        let text = String::from_utf8_lossy(&bytes);
        if bare.len() < 4 || !text.contains(bare) { bytes } else { text.replace(bare, "***").into_bytes() }
    }

    /// The secret as the value of a header, marked so that no log of the HTTP stack shows it.
    /// `None` where it holds bytes that a header cannot.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn name(text: &str) -> RepositoryName {
        text.parse::<oci::Reference>().unwrap().name().clone()
    }

    /// `{"auths":{KEY:{"auth":"dTpw"}}}` in `path`: user `u`, password `p`.
    fn write(path: &Path, key: &str, user: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!(r#"{{"auths":{{"{key}":{{"username":"{user}","password":"p"}}}}}}"#)).unwrap();
    }

    #[test]
    fn the_first_file_with_an_entry_wins() {
        let dir = tempfile::tempdir().unwrap();
        let at = |below: &str| Some(dir.path().join(below));
        let credentials = Credentials {
            home: at("home"),
            docker_config: None,
            registry_auth_file: at("explicit.json"),
            xdg_runtime_dir: at("run"),
            xdg_config_home: None,
            path: None,
        };
        let user = |host: &str| match credentials.find(&name(&format!("{host}/x")), Duration::from_secs(1)).unwrap() {
            Some(Credential::Password { user, .. }) => user,
            other => format!("{other:?}"),
        };
        write(&dir.path().join("home/.config/containers/auth.json"), "a.io", "config");
        assert_eq!(user("a.io"), "config");
        write(&dir.path().join("run/containers/auth.json"), "a.io", "run");
        assert_eq!(user("a.io"), "run");
        write(&dir.path().join("home/.docker/config.json"), "a.io", "docker");
        assert_eq!(user("a.io"), "docker");
        write(&dir.path().join("explicit.json"), "b.io", "explicit");
        assert_eq!(
            (user("a.io").as_str(), user("b.io").as_str(), user("c.io").as_str()),
            ("docker", "explicit", "None")
        );
    }

    #[test]
    fn no_files_mean_no_credentials() {
        assert_eq!(Credentials::default().find(&name("a.io/x"), Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn prints_stars_only() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert!(!format!("{:?}", secret.header()).contains("hunter2"));
    }

    #[test]
    fn is_scrubbed_from_what_a_server_repeats() {
        let scrubbed = Secret::new("Bearer hunter2").scrub(b"bad token hunter2!".to_vec());
        assert_eq!(scrubbed, b"bad token ***!");
        assert_eq!(Secret::new("a").scrub(b"\xffabc".to_vec()), b"\xffabc");
    }

    #[test]
    fn a_secret_with_a_line_feed_is_no_header() {
        assert!(Secret::new("a\nX-Evil: 1").header().is_none());
    }
}
