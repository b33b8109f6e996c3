//! Names of images in registries, as docker writes and expands them.

use std::fmt;
use std::str::FromStr;

use super::digest::Digest;
use super::registry_host::{HUB, RegistryHost};
use crate::error::{Error, Result, excerpt};

/// A repository in a registry: `HOST[:PORT]/PATH`, always with the host written out. One repository has one form,
/// whatever was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryName {
    host: RegistryHost,
    repository: String,
}

impl RepositoryName {
    #[must_use]
    pub fn host(&self) -> &RegistryHost {
        &self.host
    }

    /// The name with a host that has no port of its own: see [`RegistryHost::without_default_port`].
    #[must_use]
    pub fn without_default_port(&self) -> Self {
        Self { host: self.host.without_default_port(), repository: self.repository.clone() }
    }

    /// The repository of this name in another registry.
    #[must_use]
    pub fn on(&self, host: RegistryHost) -> Self {
        Self { host, repository: self.repository.clone() }
    }

    /// Everything that the repository may be called in a pattern, the canonical name first.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        self.host.spellings().iter().map(|host| format!("{host}/{}", self.repository)).collect()
    }

    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }
}

/// A name alone: where a tag or digest would be left out in silence, it is refused.
impl FromStr for RepositoryName {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let Reference { name, tag, digest } = given.parse()?;
        if tag.is_some() || digest.is_some() {
            return Err(Error::usage("a name is REGISTRY/REPOSITORY, without a tag or digest")
                .fact("given", given)
                .hint(format!("write {name}")));
        }
        Ok(name)
    }
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)
    }
}

/// An image in a registry by tag, by digest, or both. With both, the digest decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    name: RepositoryName,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    #[must_use]
    pub fn name(&self) -> &RepositoryName {
        &self.name
    }

    #[must_use]
    pub fn by_digest(name: RepositoryName, digest: Digest) -> Self {
        Self { name, tag: None, digest: Some(digest) }
    }

    /// The bytes with this digest, by whatever tag they were found.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), tag: self.effective_tag().map(str::to_owned), name: self.name.clone() }
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

/// More of a reference is not repeated in a message.
const SHOWN: usize = 300;

impl FromStr for Reference {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let text = given.strip_prefix("docker://").unwrap_or(given);
        let refuse =
            |why: &str| Error::input(format!("not an image reference: {why}")).fact("reference", excerpt(given, SHOWN));
        let (host, rest) = split_host(text);
        let host = RegistryHost::read(host).map_err(refuse)?;
        let (rest, digest) = match rest.split_once('@') {
            // Of what is no digest only the whole is shown: a part of a password may look like anything.
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|error: Error| refuse(error.what()))?)),
            None => (rest, None),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        check_path(path).map_err(refuse)?;
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(refuse("a tag may have at most 128 letters, digits, dots, dashes and underscores"));
        }
        let is_short = host.is_docker_hub() && !path.contains('/');
        let repository = if is_short { format!("library/{path}") } else { path.to_owned() };
        Ok(Self { name: RepositoryName { host, repository }, tag: tag.map(str::to_owned), digest })
    }
}

/// The grammar of repository names in the distribution-spec, by hand: compiling it as a regular
/// expression took longer than a whole warm rebase.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > 255 {
        return Err("a repository name may have at most 255 characters");
    }
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("a repository name must be lower case");
    }
    if path.split('/').all(is_component) {
        Ok(())
    } else {
        Err("a repository name has letters and digits, separated by a dot, one or two underscores, or dashes")
    }
}

fn is_component(component: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let separators = component.split(|c: char| c.is_ascii() && word(c as u8)).filter(|between| !between.is_empty());
    let starts_and_ends = component.bytes().next().is_some_and(word) && component.bytes().last().is_some_and(word);
    let separator = |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-');
    starts_and_ends && separators.into_iter().all(separator)
}

/// Whether `tag` can be a tag, in a registry as in a layout.
pub(super) fn is_tag(tag: &str) -> bool {
    let first = tag.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && tag.len() <= 128
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
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
        Some((first, rest)) if first.contains(['.', ':']) || first.eq_ignore_ascii_case("localhost") => (first, rest),
        _ => (HUB, text),
    }
}

/// An image in a registry by digest. The tag is kept for people, never resolved again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pinned {
    name: RepositoryName,
    tag: Option<String>,
    digest: Digest,
}

impl Pinned {
    #[must_use]
    pub fn name(&self) -> &RepositoryName {
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
            ("gcr.io/a-b--c/d__e/f_g.h", "gcr.io/a-b--c/d__e/f_g.h:latest"),
        ] {
            assert_eq!(given.parse::<Reference>().unwrap().to_string(), full, "{given}");
        }
    }

    #[test]
    fn a_name_has_neither_tag_nor_digest() {
        for (given, full) in
            [("gcr.io/distroless/static", "gcr.io/distroless/static"), ("debian", "docker.io/library/debian")]
        {
            assert_eq!(given.parse::<RepositoryName>().unwrap().to_string(), full, "{given}");
        }
        for bad in ["gcr.io/a:b", "gcr.io/a:latest", &format!("gcr.io/a@{D}"), "oci:dir", "./dir", "/abs/dir", ""] {
            assert!(bad.parse::<RepositoryName>().is_err(), "{bad}");
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
            "gcr.io/a..b",
            "gcr.io/a___b",
            "gcr.io/-a",
            "gcr.io/a-",
            "gcr.io/a.-b",
            "gcr.io//a",
            "gcr.io/a/",
            "gcr.io/ä",
            "gcr.io/x:-t",
            "gcr.io/x:.t",
            "gcr.io/x:a:b",
            &long,
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?} was accepted");
        }
    }
}
