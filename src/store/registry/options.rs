//! What the user decides about registries.

use std::path::PathBuf;

use super::credentials::Credentials;
use super::pace::Pace;

#[derive(Debug, Clone)]
pub struct Options {
    /// `HOST` or `HOST:PORT` that may have any certificate, or plain HTTP.
    pub insecure: Vec<String>,
    /// Certificates, in PEM form, that are trusted beside the system's.
    pub cacert: Option<PathBuf>,
    /// Refuse every request.
    pub offline: bool,
    /// Requests to one host at a time.
    pub jobs: usize,
    /// Where to look for credentials.
    pub credentials: Credentials,
    pub pace: Pace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            insecure: Vec::new(),
            cacert: None,
            offline: false,
            jobs: 4,
            credentials: Credentials::default(),
            pace: Pace::default(),
        }
    }
}
