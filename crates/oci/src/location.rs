//! Where an image is or goes: a registry, an OCI layout or an archive; or where it only is: a container engine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::digest::Digest;
use super::engine_image::{EngineImage, foreign_transport};
use super::reference::{Reference, RepositoryName, is_tag};
use crate::error::{Error, Result};

/// A place an image is named by, everywhere in the command line and in files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    Registry(Reference),
    /// `oci:DIR[:TAG][@DIGEST]`
    Layout(LocalImage),
    /// `oci-archive:FILE[:TAG][@DIGEST]`
    OciArchive(LocalImage),
    /// `docker-archive:FILE[:TAG][@DIGEST]`, or with a whole name `docker-archive:FILE:NAME:TAG`
    DockerArchive(LocalImage),
    /// `docker-daemon:NAME` or `containers-storage:NAME`: to be read only.
    Engine(EngineImage),
    /// The local store, by digest alone. No text names it: only what was recorded by digest is looked for there.
    Cache(Digest),
}

/// A directory or file on this machine and what to pick from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocalImage {
    pub path: PathBuf,
    /// The tag; of a docker archive also a whole name, `HOST/NAME:TAG` with the host written out.
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

impl Location {
    /// The word before the colon, empty for a registry.
    fn scheme(&self) -> &'static str {
        match self {
            Self::Registry(_) => "",
            Self::Layout(_) => "oci:",
            Self::OciArchive(_) => "oci-archive:",
            Self::DockerArchive(_) => "docker-archive:",
            Self::Engine(image) => image.engine.transport(),
            Self::Cache(_) => "cache",
        }
    }

    #[must_use]
    pub fn local(&self) -> Option<&LocalImage> {
        match self {
            Self::Registry(_) | Self::Engine(_) | Self::Cache(_) => None,
            Self::Layout(local) | Self::OciArchive(local) | Self::DockerArchive(local) => Some(local),
        }
    }

    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Registry(reference) => reference.digest(),
            Self::Cache(digest) => Some(*digest),
            Self::Engine(image) => image.digest,
            _ => self.local().and_then(|local| local.digest),
        }
    }

    /// The repository, where the place is in a registry: the only name that may enter a result.
    #[must_use]
    pub fn repository(&self) -> Option<&RepositoryName> {
        match self {
            Self::Registry(reference) => Some(reference.name()),
            _ => None,
        }
    }

    /// The same place, but for the image with this digest.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        let local = |local: &LocalImage| LocalImage { digest: Some(digest), ..local.clone() };
        match self {
            Self::Registry(reference) => Self::Registry(Reference::by_digest(reference.name().clone(), digest)),
            Self::Layout(of) => Self::Layout(local(of)),
            Self::OciArchive(of) => Self::OciArchive(local(of)),
            Self::DockerArchive(of) => Self::DockerArchive(local(of)),
            Self::Engine(image) => Self::Engine(EngineImage { digest: Some(digest), ..image.clone() }),
            Self::Cache(_) => Self::Cache(digest),
        }
    }

    /// The tag as written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match self {
            Self::Registry(reference) => reference.tag(),
            _ => self.local().and_then(|local| local.tag.as_deref()),
        }
    }

    /// The place without a digest.
    #[must_use]
    pub fn without_digest(&self) -> String {
        match self {
            Self::Registry(reference) => reference.without_digest(),
            Self::Engine(image) => image.to_string(),
            Self::Cache(_) => self.scheme().to_owned(),
            _ => self.local().map_or_else(String::new, |local| format!("{}{}", self.scheme(), local.without_digest())),
        }
    }

    /// The same image, pinned: text that parses to exactly these bytes.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> String {
        format!("{}@{digest}", self.without_digest())
    }

    /// The published image by digest alone, as scripts want it: no tag that could move.
    #[must_use]
    pub fn by_digest(&self, digest: Digest) -> String {
        match self {
            Self::Registry(reference) => format!("{}@{digest}", reference.name()),
            Self::Engine(image) => format!("{image}@{digest}"),
            _ => match self.local() {
                Some(local) => format!("{}{}@{digest}", self.scheme(), local.path.display()),
                None => digest.to_string(),
            },
        }
    }
}

/// Images by a pattern of their tags: `REGISTRY/NAME:PATTERN`, `oci:DIR:PATTERN`, `oci-archive:FILE:PATTERN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagPattern {
    /// Without a tag and without a digest.
    pub place: Location,
    pub pattern: String,
}

impl TagPattern {
    /// What makes a tag a pattern.
    const MARKS: [char; 4] = ['*', '?', '[', '{'];

    /// The pattern in `text`; `None` where it names one image.
    #[must_use]
    pub fn find(text: &str) -> Option<Result<Self>> {
        let (place, pattern) = text.rsplit_once(':')?;
        let is_scheme = ["docker", "oci", "oci-archive", "docker-archive"].contains(&place);
        if is_scheme || pattern.contains('/') || !pattern.contains(Self::MARKS) {
            return None;
        }
        Some(Self::new(place, pattern))
    }

    fn new(place: &str, pattern: &str) -> Result<Self> {
        let place: Location = place.parse()?;
        if place.tag().is_some() || place.digest().is_some() {
            return Err(
                Error::usage("a pattern takes the place of the tag").fact("given", format!("{place}:{pattern}"))
            );
        }
        Ok(Self { place, pattern: pattern.to_owned() })
    }

    /// The image with this tag.
    pub fn image(&self, tag: &str) -> Result<Location> {
        match &self.place {
            Location::Registry(reference) => format!("{}:{tag}", reference.name()).parse(),
            other => format!("{other}:{tag}").parse(),
        }
    }
}

impl LocalImage {
    fn without_digest(&self) -> String {
        match &self.tag {
            Some(tag) => format!("{}:{tag}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    fn parse(given: &str, rest: &str, split: impl Fn(&str) -> (&str, Option<String>)) -> Result<Self> {
        let refuse = |why: &str| Err(Error::input(format!("not a location: {why}")).fact("location", given));
        let (rest, digest) = match rest.rsplit_once('@') {
            Some((rest, digest)) if digest.contains(':') && !digest.contains('/') => (rest, Some(digest.parse()?)),
            _ => (rest, None),
        };
        let (path, tag) = split(rest);
        if path.is_empty() {
            return refuse("the path is empty");
        }
        if tag.as_ref().is_some_and(|tag| !is_tag(tag) && whole_name(tag).is_none()) {
            return refuse("a tag may have only letters, digits, dots, dashes and underscores");
        }
        Ok(Self { path: Path::new(path).to_owned(), tag, digest })
    }
}

/// A colon in the last path component separates the tag; others belong to the path.
fn split_tag(rest: &str) -> (&str, Option<String>) {
    match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag.to_owned())),
        _ => (rest, None),
    }
}

/// As skopeo and podman read it: the path ends at the first colon that a whole name follows. Without one, a tag may
/// follow, as in other places.
fn split_name(rest: &str) -> (&str, Option<String>) {
    let at_colons = rest.match_indices(':').map(|(at, _)| rest.split_at(at));
    let mut named = at_colons.filter_map(|(path, name)| Some((path, Some(whole_name(name.strip_prefix(':')?)?))));
    named.next().unwrap_or_else(|| split_tag(rest))
}

/// `NAME:TAG` with the host written out.
fn whole_name(text: &str) -> Option<String> {
    let reference: Reference = text.parse().ok()?;
    let is_whole = reference.tag().is_some() && reference.digest().is_none() && !text.starts_with("docker://");
    is_whole.then(|| reference.to_string())
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        if let Some(rest) = given.strip_prefix("oci:") {
            LocalImage::parse(given, rest, split_tag).map(Self::Layout)
        } else if let Some(rest) = given.strip_prefix("oci-archive:") {
            LocalImage::parse(given, rest, split_tag).map(Self::OciArchive)
        } else if let Some(rest) = given.strip_prefix("docker-archive:") {
            LocalImage::parse(given, rest, split_name).map(Self::DockerArchive)
        } else {
            match EngineImage::read(given) {
                Some(image) => image.map(Self::Engine),
                None => foreign_transport(given).map_or_else(|| given.parse().map(Self::Registry), Err),
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.without_digest())?;
        if let Some(digest) = self.digest() {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_location_prints_as_it_parses() {
        for given in [
            "oci:dir",
            "oci:dir:tag",
            "oci:/a/b:c/d",
            "oci:/a/b:c/d:v1.0_x-y",
            "oci-archive:file.tar:latest",
            "docker-archive:./file.tar",
            "gcr.io/distroless/static:nonroot",
            &format!("oci:dir@{D}"),
            &format!("oci:dir:tag@{D}"),
            &format!("oci-archive:a@b.tar:tag@{D}"),
        ] {
            assert_eq!(given.parse::<Location>().unwrap().to_string(), *given);
        }
    }

    #[test]
    fn a_docker_archive_takes_a_whole_name() {
        for (given, path, tag) in [
            ("docker-archive:a.tar:v1", "a.tar", Some("v1")),
            ("docker-archive:a.tar:app:v1", "a.tar", Some("docker.io/library/app:v1")),
            ("docker-archive:a.tar:r.example/team/app:v1", "a.tar", Some("r.example/team/app:v1")),
            ("docker-archive:/d/a.tar:localhost:5000/app:v1", "/d/a.tar", Some("localhost:5000/app:v1")),
            ("docker-archive:a.tar:[::1]:5000/app:v1", "a.tar", Some("[::1]:5000/app:v1")),
            // A path may have colons where no name follows them; `./` makes sure of that.
            ("docker-archive:a:b/c.tar", "a:b/c.tar", None),
            ("docker-archive:a:B/c.tar:v1", "a:B/c.tar", Some("v1")),
            ("docker-archive:a:b/./c.tar:v1", "a:b/./c.tar", Some("v1")),
            ("oci-archive:a:b/c.tar:v1", "a:b/c.tar", Some("v1")),
        ] {
            let location: Location = given.parse().unwrap();
            let local = location.local().unwrap();
            assert_eq!((local.path.to_str(), local.tag.as_deref()), (Some(path), tag), "{given}");
            assert_eq!(location.to_string().parse::<Location>().unwrap(), location, "{given}");
            let pinned: Location = location.pinned(D.parse().unwrap()).parse().unwrap();
            assert_eq!(pinned.local().unwrap().tag.as_deref(), tag, "{given}");
        }
    }

    #[test]
    fn a_pattern_takes_the_place_of_a_tag() {
        for (text, place, tagged) in [
            ("r.example/app:v*", "r.example/app:latest", "r.example/app:v1"),
            ("r.example:5000/app:*", "r.example:5000/app:latest", "r.example:5000/app:v1"),
            ("app:{v1,v2}", "docker.io/library/app:latest", "docker.io/library/app:v1"),
            ("oci:dir:*", "oci:dir", "oci:dir:v1"),
            ("oci:/a:b/dir:v?", "oci:/a:b/dir", "oci:/a:b/dir:v1"),
            ("docker://r.example/app:[ab]", "r.example/app:latest", "r.example/app:v1"),
        ] {
            let pattern = TagPattern::find(text).unwrap().unwrap();
            assert_eq!(
                (pattern.place.to_string(), pattern.image("v1").unwrap().to_string()),
                (place.into(), tagged.into())
            );
        }
        for one in ["r.example/app:v1", "r.example/app", "oci:dir*", "r.example:5000/app*", "oci:dir:v1"] {
            assert!(TagPattern::find(one).is_none(), "{one}");
        }
        for wrong in ["r.example/app:v1:*", "oci:dir:v1:*", "NOT A NAME:*"] {
            assert!(TagPattern::find(wrong).unwrap().is_err(), "{wrong}");
        }
        assert!(TagPattern::find("r.example/app:*").unwrap().unwrap().image("not a tag").is_err());
    }

    #[test]
    fn pinned_text_names_the_digest() {
        let digest = D.parse().unwrap();
        for (given, pinned, by_digest) in [
            ("oci:d:t", format!("oci:d:t@{D}"), format!("oci:d@{D}")),
            ("gcr.io/a/b:c", format!("gcr.io/a/b:c@{D}"), format!("gcr.io/a/b@{D}")),
        ] {
            let location: Location = given.parse().unwrap();
            assert_eq!(location.pinned(digest), pinned);
            assert_eq!(location.by_digest(digest), by_digest);
        }
    }

    #[test]
    fn engines_are_known_by_their_transport_and_others_are_answered_by_name() {
        for (given, name) in [
            ("docker-daemon:app:v1", "app:v1"),
            ("docker-daemon:sha256:00", "sha256:00"),
            ("containers-storage:localhost/app", "localhost/app"),
            ("containers-storage:[vfs@/a+/b]app:v1", "[vfs@/a+/b]app:v1"),
        ] {
            let Location::Engine(image) = given.parse().unwrap() else { panic!("{given}") };
            assert_eq!((image.name.as_str(), image.to_string().as_str()), (name, given));
        }
        for given in ["dir:/tmp/x", "dir:x", "sif:x.sif", "ostree:a@/b", "tarball:x", "docker-tarfile:x"] {
            let error = given.parse::<Location>().unwrap_err();
            let (transport, _) = given.split_once(':').unwrap();
            assert!(error.what().contains(transport) && !error.hints().is_empty(), "{error}");
        }
        for given in ["docker-daemon:", "docker-daemon:-v", "containers-storage:a b", "docker-daemon:a\n"] {
            assert!(given.parse::<Location>().is_err(), "{given:?}");
        }
        for given in ["docker://dir:x", "docker.io/library/dir:x", "dir", "directory:x", "docker-daemon", "sif/x:y"] {
            assert!(matches!(given.parse(), Ok(Location::Registry(_))), "{given}");
        }
    }

    #[test]
    fn refuses_empty_paths_and_strange_tags() {
        for bad in [
            "oci:",
            "oci::tag",
            "oci-archive:",
            "oci:dir:",
            "oci:dir:t a",
            "oci:dir:-x",
            "oci:dir:t\n",
            "oci:d@sha256:00",
            "docker-archive::app:v1",
            "docker-archive:a.tar:app:",
            "docker-archive:a.tar:app:t a",
        ] {
            assert!(bad.parse::<Location>().is_err(), "{bad:?} was accepted");
        }
    }
}
