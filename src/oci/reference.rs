//! Names of images in registries, as docker writes and expands them.

use std::fmt;
use std::str::FromStr;

use oci_spec::distribution::Reference as Spec;

use super::digest::Digest;
use crate::error::{Error, Result};

const HUB: &str = "docker.io";

/// A repository in a registry: `HOST[:PORT]/PATH`, always with the host written out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    host: String,
    repository: String,
}

impl Name {
    /// Host and port as a person writes them; Docker Hub is `docker.io`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)
    }
}

/// An image in a registry by tag, by digest, or both. With both, the digest decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    name: Name,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The tag as written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The tag that is meant: the one written, or `latest` where neither tag nor digest is.
    #[must_use]
    pub fn effective_tag(&self) -> Option<&str> {
        match (&self.tag, self.digest) {
            (Some(tag), _) => Some(tag),
            (None, Some(_)) => None,
            (None, None) => Some("latest"),
        }
    }

    /// The last part of a manifest URL: the digest where there is one, else the tag.
    #[must_use]
    pub fn target(&self) -> String {
        match self.digest {
            Some(digest) => digest.to_string(),
            None => self.effective_tag().unwrap_or("latest").to_owned(),
        }
    }

    /// The same image, pinned to `digest`.
    #[must_use]
    pub fn pin(&self, digest: Digest) -> Pinned {
        Pinned { name: self.name.clone(), tag: self.effective_tag().map(str::to_owned), digest }
    }

    /// `NAME:TAG` without the digest: what people call the image.
    #[must_use]
    pub fn without_digest(&self) -> String {
        match self.effective_tag() {
            Some(tag) => format!("{}:{tag}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let text = given.strip_prefix("docker://").unwrap_or(given);
        let refuse = |why: String| {
            Error::input(format!("not an image reference: {why}"))
                .fact("reference", given.chars().take(300).collect::<String>())
        };
        let (host, rest) = split_host(text);
        check_host(host).map_err(|why| refuse(why.to_owned()))?;
        // The crate knows the grammar of path, tag and digest; the host is ours (IPv6, ports).
        let spec = Spec::try_from(format!("registry.invalid/{rest}")).map_err(|error| refuse(error.to_string()))?;
        let repository = spec.repository();
        if repository.is_empty() || repository.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(refuse("a repository is written in lower case".to_owned()));
        }
        let repository = match (host, repository.contains('/')) {
            (HUB, false) => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        let digest = spec.digest().map(str::parse).transpose()?;
        // The crate fills in `latest`; whether it was written matters to us.
        let before_digest = rest.split('@').next().unwrap_or_default();
        let tag = before_digest.contains(':').then(|| spec.tag().map(str::to_owned)).flatten();
        Ok(Self { name: Name { host: host.to_owned(), repository }, tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.without_digest())?;
        if let Some(digest) = self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// The first component is a host when it could not be a repository of Docker Hub.
fn split_host(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some(("index.docker.io" | "registry-1.docker.io", rest)) => (HUB, rest),
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (HUB, text),
    }
}

fn check_host(host: &str) -> Result<(), &'static str> {
    let (name, port) = if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or("an IPv6 host ends with ]")?;
        address.parse::<std::net::Ipv6Addr>().map_err(|_| "the host is not an IPv6 address")?;
        ("", port.strip_prefix(':').or((port.is_empty()).then_some("80")))
    } else {
        match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("80")),
        }
    };
    let port = port.ok_or("the port is not a number from 1 to 65535")?;
    if !matches!(port.parse::<u16>(), Ok(1..)) || port.starts_with('+') {
        return Err("the port is not a number from 1 to 65535");
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.starts_with('[') || name.split('.').all(label) {
        Ok(())
    } else {
        Err("the host has letters, digits, dots and dashes only (write other names in punycode)")
    }
}

/// An image in a registry by digest. The tag is remembered for people, never resolved again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pinned {
    name: Name,
    tag: Option<String>,
    digest: Digest,
}

impl Pinned {
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        write!(f, "@{}", self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn expands_as_docker_does() {
        for (given, full) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12", "docker.io/library/debian:12"),
            ("docker.io/debian", "docker.io/library/debian:latest"),
            ("index.docker.io/library/debian", "docker.io/library/debian:latest"),
            ("grafana/loki", "docker.io/grafana/loki:latest"),
            ("gcr.io/distroless/static", "gcr.io/distroless/static:latest"),
            ("docker://gcr.io/distroless/static:nonroot", "gcr.io/distroless/static:nonroot"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/x/y:z", "localhost:5000/x/y:z"),
            ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest"),
            ("[::1]:5000/x:y", "[::1]:5000/x:y"),
            ("registry/image", "docker.io/registry/image:latest"),
        ] {
            assert_eq!(given.parse::<Reference>().unwrap().to_string(), full, "{given}");
        }
    }

    #[test]
    fn digest_decides_and_the_tag_is_remembered() {
        let both: Reference = format!("gcr.io/a/b:c@{D}").parse().unwrap();
        assert_eq!((both.tag(), both.target().as_str()), (Some("c"), D));
        let digest: Reference = format!("gcr.io/a/b@{D}").parse().unwrap();
        assert_eq!((digest.effective_tag(), digest.to_string()), (None, format!("gcr.io/a/b@{D}")));
    }

    #[test]
    fn refuses_bad_references() {
        let long = format!("gcr.io/{}", "a".repeat(256));
        for bad in [
            "",
            "/",
            ":",
            "gcr.io/",
            "GCR.io/A",
            "gcr.io/UPPER",
            "gcr.io:99999/x",
            "gcr.io:0/x",
            "gcr.io:/x",
            "gcr.io:+80/x",
            "gcr.io/x:ta\ng",
            "gcr.io/x:",
            "gcr.io/x@sha256:00",
            "gcr.io/x@",
            "gcr.io/../x",
            "gcr.io/x/../y",
            "пример.рф/x",
            "gcr..io/x",
            "-a.io/x",
            "[::1/x",
            "[zz]:1/x",
            "a b/c",
            "gcr.io/x?y",
            "gcr.io/x#y",
            "user@gcr.io/x",
            "https://gcr.io/x",
            &long,
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?} was accepted");
        }
    }
}
