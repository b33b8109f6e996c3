//! Where the runtime of a node listens: a Unix socket, written as the kubelet writes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};

/// `unix:///PATH`; the path alone is accepted too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
        if path.is_absolute() {
            return Ok(Self(path.to_owned()));
        }
        Err(Error::usage("a node is named by the socket of its runtime: unix:///PATH").fact("given", text))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_socket_and_has_one_name() {
        for text in ["unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), "unix:///run/containerd/containerd.sock");
        }
        for bad in ["", "unix:", "unix://", "unix://run/x", "run/x", "tcp://127.0.0.1:1", "http://x", "npipe:////./x"] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad:?} was accepted");
        }
    }
}
