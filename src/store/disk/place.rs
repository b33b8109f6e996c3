//! Where an image is, in one form: what all spellings of a location have in common.
//!
//! The rule this file owns: two locations that writing would take to the same spot are equal. Names of registries are
//! canonical already. A path is followed through its links, also through those that lead to nothing yet: one target of a
//! batch may make the directory that another one's link leads to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::docker_manifest::DockerManifest;
use oci::{Digest, Location, RepositoryName};

/// More links in a path are not followed; the kernel does not either.
const MOST_LINKS: usize = 40;

/// A place that an image can be written to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place(Spot);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Spot {
    Registry(RepositoryName, String),
    Disk(DiskSpot, Option<String>),
    Other(String),
}

/// The file system's own name for the part of a path that is there, and the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DiskSpot {
    there: (u64, u64),
    rest: PathBuf,
}

impl Place {
    /// The place as it is now: links and directories that are made later may change it.
    #[must_use]
    pub fn of(location: &Location) -> Self {
        let named = |tag: Option<&str>, digest: Option<Digest>| {
            tag.map(str::to_owned).or_else(|| digest.map(|digest| digest.to_string()))
        };
        Self(match location {
            Location::Registry(reference) => {
                let tag = reference.effective_tag().map_or_else(|| reference.target(), str::to_owned);
                Spot::Registry(reference.name().without_default_port(), tag)
            }
            Location::Layout(local) => {
                Spot::Disk(DiskSpot::of(&resolved(&local.path)), named(local.tag.as_deref(), local.digest))
            }
            // A file is replaced: another name of the same file keeps the old one.
            Location::OciArchive(local) => {
                Spot::Disk(DiskSpot::of_file(&resolved(&local.path)), named(local.tag.as_deref(), local.digest))
            }
            Location::DockerArchive(local) => {
                let tag = local.tag.as_deref().map(DockerManifest::full_name);
                Spot::Disk(DiskSpot::of_file(&resolved(&local.path)), named(tag.as_deref(), local.digest))
            }
            Location::Engine(_) | Location::Cache(_) => Spot::Other(location.to_string()),
        })
    }
}

impl DiskSpot {
    fn of(path: &Path) -> Self {
        let there = path.ancestors().find_map(|there| Some((there, there.metadata().ok()?)));
        let Some((there, metadata)) = there else { return Self { there: (0, 0), rest: path.to_owned() } };
        let rest = path.strip_prefix(there).unwrap_or(path).to_owned();
        Self { there: (metadata.dev(), metadata.ino()), rest }
    }

    fn of_file(path: &Path) -> Self {
        let Some((directory, name)) = path.parent().zip(path.file_name()) else { return Self::of(path) };
        let Self { there, rest } = Self::of(directory);
        Self { there, rest: rest.join(name) }
    }
}

/// The path from the root without links, `.` and `..`. What is not there stays as it is written.
#[must_use]
pub fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut found, mut links) = (PathBuf::new(), 0);
    let mut to_come: VecDeque<OsString> = parts(&path);
    while let Some(part) = to_come.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => {
                found.push(name);
                if let Some(target) = std::fs::read_link(&found).ok().filter(|_| links < MOST_LINKS) {
                    links += 1;
                    found.pop();
                    parts(&target).into_iter().rev().for_each(|part| to_come.push_front(part));
                }
            }
            Some(Component::ParentDir) => drop(found.pop()),
            Some(root @ (Component::RootDir | Component::Prefix(_))) => found = PathBuf::from(root.as_os_str()),
            Some(Component::CurDir) | None => {}
        }
    }
    found
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components().map(|part| part.as_os_str().to_owned()).collect()
}

/// The location with its path [resolved].
#[must_use]
pub fn resolved_location(location: &Location) -> Location {
    let mut location = location.clone();
    if let Location::Layout(local) | Location::OciArchive(local) | Location::DockerArchive(local) = &mut location {
        local.path = resolved(&local.path);
    }
    location
}

/// A pattern of locations on disk, with the part of its path that is no pattern [resolved]. `None` for other patterns.
#[must_use]
pub fn resolved_pattern(pattern: &str) -> Option<String> {
    let schemes = ["oci:", "oci-archive:", "docker-archive:"];
    let scheme = schemes.into_iter().find(|scheme| pattern.starts_with(scheme))?;
    let rest = pattern.get(scheme.len()..)?;
    let is_literal = !rest.contains(['*', '?', '[', '{', '\\']);
    let literal = rest.get(..rest.find(['*', '?', '[', '{', '\\']).unwrap_or(rest.len()))?;
    let (path, tail) = match literal.rfind([':', '/']) {
        Some(at) => rest.split_at(at),
        None if is_literal => (rest, ""),
        None => ("", rest),
    };
    let directory = resolved(Path::new(if path.is_empty() && !rest.starts_with('/') { "." } else { path }));
    let directory = globset::escape(directory.to_str()?.trim_end_matches('/'));
    let slash = if path.is_empty() && !tail.starts_with('/') { "/" } else { "" };
    Some(format!("{scheme}{directory}{slash}{tail}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn one_target_in_two_spellings_is_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let at = |below: &str| format!("{}/{below}", dir.path().display());
        fs::create_dir_all(dir.path().join("deep/real")).unwrap();
        symlink("deep/real", dir.path().join("link")).unwrap();
        symlink("made-later", dir.path().join("dangling")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let place = |text: &str| Place::of(&text.parse().unwrap());
        for (one, other, same) in [
            (format!("oci:{}:t", at("d")), format!("oci:{}:t", at("./d/")), true),
            (format!("oci:{}:t", at("d")), format!("oci:{}:t", at("a/../d")), true),
            (format!("oci:{}:t", at("d")), format!("oci:{}:t", at("deep/..//d")), true),
            (format!("oci:{}:t", at("d")), format!("oci:{}:u", at("d")), false),
            (format!("oci:{}:t", at("d")), format!("oci:{}:t", at("e")), false),
            (format!("oci:{}:t", at("link")), format!("oci:{}:t", at("deep/real")), true),
            (format!("oci:{}:t", at("link/new")), format!("oci:{}:t", at("deep/real/new")), true),
            // The parent of what a link leads to, not of the link.
            (format!("oci:{}:t", at("link/../x")), format!("oci:{}:t", at("deep/x")), true),
            (format!("oci:{}:t", at("link/../x")), format!("oci:{}:t", at("x")), false),
            (format!("oci:{}:t", at("dangling")), format!("oci:{}:t", at("made-later")), true),
            (format!("oci:{}:t", at("loop")), format!("oci:{}:t", at("loop")), true),
            (format!("oci-archive:{}:t", at("f.tar")), format!("oci-archive:{}:t", at("link/../../f.tar")), true),
            (format!("oci-archive:{}:t", at("f.tar")), format!("oci-archive:{}:t", at("g.tar")), false),
            (format!("docker-archive:{}:v1", at("f")), format!("docker-archive:{}:underpin:v1", at("./f")), true),
            (
                format!("docker-archive:{}:a.io/b:v1", at("f")),
                format!("docker-archive:{}:A.io:443/b:v1", at("f")),
                true,
            ),
            (format!("docker-archive:{}:a:v1", at("f")), format!("docker-archive:{}:b:v1", at("f")), false),
            ("oci:d:t".to_owned(), format!("oci:{}/d:t", std::env::current_dir().unwrap().display()), true),
            ("gcr.io/a:latest".to_owned(), "docker://GCR.io:0443/a".to_owned(), true),
            ("gcr.io/a:b".to_owned(), "gcr.io:80/a:b".to_owned(), true),
            ("gcr.io/a:b".to_owned(), "gcr.io:5000/a:b".to_owned(), false),
            ("localhost/a:b".to_owned(), "localhost:80/a:b".to_owned(), true),
            ("debian".to_owned(), "Index.docker.io/library/debian:latest".to_owned(), true),
        ] {
            assert_eq!(place(&one) == place(&other), same, "{one} {other}");
        }
    }

    #[test]
    fn a_pattern_of_paths_is_resolved_up_to_its_first_star() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap().display().to_string();
        for (pattern, expected) in [
            ("oci:bases*", Some(format!("oci:{here}/bases*"))),
            ("oci:bases", Some(format!("oci:{here}/bases"))),
            ("oci:./bases:v?", Some(format!("oci:{here}/bases:v?"))),
            ("oci:a/../bases:v1", Some(format!("oci:{here}/bases:v1"))),
            ("oci-archive:/no/such/*.tar", Some("oci-archive:/no/such/*.tar".to_owned())),
            ("oci:/*", Some("oci:/*".to_owned())),
            ("oci:**", Some(format!("oci:{here}/**"))),
            ("gcr.io/**", None),
        ] {
            assert_eq!(resolved_pattern(pattern), expected, "{pattern}");
        }
    }
}
