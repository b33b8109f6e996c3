//! One file of credentials: docker's `config.json`, podman's `auth.json`. Hosts match exactly, in any spelling.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::credentials::{Credential, Secret};
use crate::store::disk::read_file;
use oci::RepositoryName;
use oci::error::{Error, Kind, Result};

const LARGEST: u64 = 10 << 20;
/// The name under which docker stores what belongs to Docker Hub.
const HUB_SERVER: &str = "https://index.docker.io/v1/";

/// What a file says about a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthEntry {
    Credential(Credential),
    /// A program knows: `docker-credential-HELPER get`, asked about `server`.
    Helper {
        helper: String,
        server: String,
    },
}

pub(super) struct AuthFile {
    object: Map<String, Value>,
    shown: String,
}

impl AuthFile {
    /// `None` where there is no such file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let shown = path.display().to_string();
        let refuse = |why: &str| Error::new(Kind::Auth, format!("credentials file {why}")).fact("path", &shown);
        let bytes = match read_file(path, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(refuse("cannot be read").cause(error)),
        };
        if bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        // The cause would quote the file, so only the position is shown.
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Some(Self { object, shown })),
            Ok(_) => Err(refuse("is not a JSON object")),
            Err(error) => Err(refuse("is not JSON").fact("line", error.line()).fact("column", error.column())),
        }
    }

    /// What the file says about `name`: its own helper, a stored entry, the store for all.
    pub(super) fn entry(&self, name: &RepositoryName) -> Result<Option<AuthEntry>> {
        if let Some((key, helper)) = self.best("credHelpers", name) {
            let helper =
                helper.as_str().ok_or_else(|| self.refuse("names a credential helper that is not a string"))?;
            return Ok(Some(AuthEntry::Helper { helper: helper.to_owned(), server: server(key, name) }));
        }
        let listed = self.best("auths", name);
        if let Some(credential) = listed.map(|(_, stored)| self.stored(stored)).transpose()?.flatten() {
            return Ok(Some(AuthEntry::Credential(credential)));
        }
        match self.object.get("credsStore") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(store)) if store.is_empty() => Ok(None),
            Some(Value::String(store)) => {
                // The store knows the host as `docker login` was given it, which an empty entry repeats.
                let key = listed.map(|(key, _)| key).filter(|key| !key.contains('/')).unwrap_or_default();
                Ok(Some(AuthEntry::Helper { helper: store.clone(), server: server(key, name) }))
            }
            Some(_) => Err(self.refuse("has a `credsStore` that is not a string")),
        }
    }

    /// The entry of the map `section` that fits best: podman's path prefixes, the longest first.
    fn best(&self, section: &str, name: &RepositoryName) -> Option<(&str, &Value)> {
        let entries = self.object.get(section)?.as_object()?;
        let fitting = entries.iter().filter_map(|(key, value)| Some((fit(key, name)?, key.as_str(), value)));
        fitting.max_by_key(|(length, ..)| *length).map(|(_, key, value)| (key, value))
    }

    /// The credentials inside an entry of `auths`; docker leaves entries empty whose secret a store has.
    fn stored(&self, entry: &Value) -> Result<Option<Credential>> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(token) = text("identitytoken") {
            return Ok(Some(Credential::Identity(Secret::new(token))));
        }
        if let Some(auth) = text("auth") {
            return self.decode(auth).map(Some);
        }
        Ok(text("username").zip(text("password")).map(|(user, password)| password_of(user, password)))
    }

    /// `auth` is the base64 of `USER:PASSWORD`.
    fn decode(&self, auth: &str) -> Result<Credential> {
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let bytes = GeneralPurpose::new(&STANDARD, lenient).decode(auth.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.trim_end_matches('\0').split_once(':'));
        let (user, password) =
            pair.ok_or_else(|| self.refuse("has an `auth` that is not the base64 of USER:PASSWORD"))?;
        Ok(password_of(user, password))
    }

    fn refuse(&self, why: &str) -> Error {
        Error::new(Kind::Auth, format!("credentials file {why}")).fact("path", &self.shown)
    }
}

fn password_of(user: &str, password: &str) -> Credential {
    Credential::Password { user: user.to_owned(), password: Secret::new(password) }
}

/// How well `key` fits `name`: the length of the matching path, or `None` where it does not fit.
///
/// `https://HOST/v1/` and `HOST` fit all of a host; `HOST/PATH` fits what is below PATH.
fn fit(key: &str, name: &RepositoryName) -> Option<usize> {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    let (host, path) = bare.unwrap_or(key).split_once('/').unwrap_or((bare.unwrap_or(key), ""));
    if !name.host().is(host) {
        return None;
    }
    // A URL stands for its host; so do the API prefixes that docker appends.
    let path = path.trim_end_matches('/');
    if bare.is_some() || matches!(path, "" | "v1" | "v2") {
        return Some(0);
    }
    let below = name.repository().strip_prefix(path)?;
    (below.is_empty() || below.starts_with('/')).then_some(path.len())
}

/// The name that a helper knows the registry by: the key as written, or what docker would ask for.
fn server(key: &str, name: &RepositoryName) -> String {
    match name.host() {
        host if host.is_docker_hub() => HUB_SERVER.to_owned(),
        _ if !key.is_empty() && !key.contains("://") => key.to_owned(),
        host => host.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RepositoryName {
        text.parse::<oci::Reference>().unwrap().name().clone()
    }

    fn file(text: &str) -> Result<Option<AuthFile>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        AuthFile::read(&path)
    }

    fn user(config: &str, image: &str) -> String {
        match file(config).unwrap().unwrap().entry(&name(image)).unwrap() {
            Some(AuthEntry::Credential(Credential::Password { user, password })) => {
                format!("{user}/{}", password.reveal())
            }
            Some(AuthEntry::Credential(Credential::Identity(token))) => format!("identity {}", token.reveal()),
            Some(AuthEntry::Helper { helper, server }) => format!("{helper} {server}"),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn hosts_match_exactly_or_not_at_all() {
        let entry = r#"{"username":"u","password":"p"}"#;
        for (key, image, fits) in [
            ("ghcr.io", "ghcr.io/a/b", true),
            ("GHCR.io", "ghcr.io/a/b", true),
            ("http://ghcr.io/v1/", "ghcr.io/a", true),
            ("https://ghcr.io", "ghcr.io/a", true),
            ("ghcr.io/v2/", "ghcr.io/a", true),
            ("ghcr.io.evil.io", "ghcr.io/a", false),
            ("evil-ghcr.io", "ghcr.io/a", false),
            ("ghcr.io", "ghcr.io.evil.io/a", false),
            ("ghcr.io", "evil-ghcr.io/a", false),
            ("ghcr.io", "ghcr.io:8443/a", false),
            ("io", "ghcr.io/a", false),
            ("*.io", "ghcr.io/a", false),
            ("https://user@ghcr.io", "ghcr.io/a", false),
            ("x.dkr.ecr.us-east-1.amazonaws.com", "x.dkr.ecr.us-east-1.amazonaws.com.evil.io/a", false),
            ("https://index.docker.io/v1/", "debian", true),
            ("docker.io", "debian", true),
            ("registry-1.docker.io", "debian", true),
            ("docker.io/library", "debian", true),
            ("docker.io/lib", "debian", false),
            ("127.0.0.1:5000", "127.0.0.1:5000/a", true),
            ("127.0.0.1:05000", "[::ffff:127.0.0.1]:5000/a", true),
            ("ghcr.io", "GHCR.io:443/a", true),
            ("ghcr.io:443", "ghcr.io/a", true),
            ("https://ghcr.io:443/v2/", "ghcr.io/a", true),
            ("ghcr.io", "ghcr.io:80/a", false),
            ("http://ghcr.io:80", "ghcr.io/a", false),
            ("ghcr.io.", "ghcr.io/a", false),
            ("index.docker.io:443", "Docker.io/library/debian", true),
            ("[::1]:5000", "[0:0:0:0:0:0:0:1]:05000/a", true),
            ("127.0.0.1:5000", "127.0.0.1:5001/a", false),
            ("", "ghcr.io/a", false),
        ] {
            let got = user(&format!(r#"{{"auths":{{"{key}":{entry}}}}}"#), image);
            assert_eq!(got, if fits { "u/p" } else { "none" }, "{key} {image}");
        }
    }

    #[test]
    fn the_longest_path_prefix_wins() {
        let config = r#"{"auths":{"a.io":{"username":"host","password":"p"},
            "a.io/x/y":{"username":"deep","password":"p"},"a.io/x":{"username":"path","password":"p"}}}"#;
        for (image, expected) in
            [("a.io/x/y/z", "deep/p"), ("a.io/x/y", "deep/p"), ("a.io/x/yy", "path/p"), ("a.io/q", "host/p")]
        {
            assert_eq!(user(config, image), expected, "{image}");
        }
    }

    #[test]
    fn entries_come_in_all_their_forms() {
        for (config, expected) in [
            (r#"{"auths":{"a.io":{"auth":"dTpwOnE="}}}"#, "u/p:q"),
            (r#"{"auths":{"a.io":{"auth":"dTpwOnE"}}}"#, "u/p:q"),
            (r#"{"auths":{"a.io":{"auth":"dTpw","identitytoken":"t"}}}"#, "identity t"),
            (r#"{"auths":{"a.io":{}},"credsStore":"desktop"}"#, "desktop a.io"),
            (r#"{"auths":{"A.io:443":{}},"credsStore":"desktop"}"#, "desktop A.io:443"),
            (r#"{"auths":{"a.io/x":{}},"credsStore":"desktop"}"#, "desktop a.io"),
            (r#"{"auths":{"a.io":{"auth":"dTpw"}},"credHelpers":{"a.io":"gcloud"}}"#, "gcloud a.io"),
            (r#"{"credHelpers":{"b.io":"gcloud"},"credsStore":""}"#, "none"),
            (r#"{"auths":{"a.io":{"auth":""}}}"#, "none"),
            ("{}", "none"),
        ] {
            assert_eq!(user(config, "a.io/x"), expected, "{config}");
        }
        assert_eq!(user(r#"{"credsStore":"pass"}"#, "debian"), "pass https://index.docker.io/v1/");
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_it_and_shows_nothing_of_it() {
        for broken in [
            "{\"auths\": CANARY",
            "[\"CANARY\"]",
            r#"{"auths":{"a.io":{"auth":"!CANARY!"}}}"#,
            r#"{"auths":{"a.io":{"auth":"Q0FOQVJZ"}}}"#,
            r#"{"credsStore":7}"#,
            r#"{"credHelpers":{"a.io":["CANARY"]}}"#,
        ] {
            let outcome = file(broken).and_then(|file| file.unwrap().entry(&name("a.io/x")));
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), Kind::Auth, "{broken}");
            let text = error.to_string();
            assert!(text.contains("config.json") && !text.contains("CANARY"), "{text}");
        }
    }

    #[test]
    fn a_huge_file_is_refused_and_an_empty_one_says_nothing() {
        let huge = format!("{{\"x\":\"{}\"}}", "a".repeat(usize::try_from(LARGEST).unwrap()));
        assert_eq!(file(&huge).err().map(|error| error.kind()), Some(Kind::Auth));
        assert!(file(" \n").unwrap().is_none());
    }
}
