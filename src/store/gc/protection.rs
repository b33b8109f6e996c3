//! The list of protected images, from flags, files and settings.
//!
//! It is read as a whole before anything else is done. A list that is missing, unreadable, broken,
//! empty or cut off is an error: what it would have protected is unknown.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

use super::inventory::StoredImage;
use crate::store::disk::{read_file, resolved_location};
use oci::error::{Error, Result};
use oci::{Digest, Location, Reference, RegistryHost};

const LIST_LIMIT: u64 = 4 << 20;
const MOST_ENTRIES: usize = 10_000;
/// Each is compiled, so there are fewer of them.
const MOST_PATTERNS: usize = 500;

#[derive(Debug, Clone, Default)]
pub struct Protection {
    entries: Vec<ProtectedEntry>,
    written: HashSet<String>,
    patterns: usize,
}

impl Protection {
    /// Reads all entries; those that are written twice count once.
    pub fn read(written: &[String], files: &[PathBuf]) -> Result<Self> {
        let mut protection = Self::default();
        for text in written {
            protection.add(text.parse()?)?;
        }
        for file in files {
            protection.add_file(file).map_err(|error| error.fact("list", file.display()))?;
        }
        Ok(protection)
    }

    #[must_use]
    pub fn entries(&self) -> &[ProtectedEntry] {
        &self.entries
    }

    /// The entries that protect this image.
    #[must_use]
    pub fn entries_for(&self, image: &StoredImage) -> Vec<String> {
        self.entries.iter().filter(|entry| entry.protects(image)).map(ProtectedEntry::to_string).collect()
    }

    #[must_use]
    pub fn covers(&self, image: &StoredImage) -> bool {
        self.entries.iter().any(|entry| entry.protects(image))
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let unreadable = |error| Error::input("the list of protected images cannot be read").cause(error);
        let bytes = read_file(path, LIST_LIMIT).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::input("the list of protected images is not text"))?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(Error::input("the last line of the list has no newline: it may be truncated")
                .hint("end the last line of the list with a newline"));
        }
        let mut found = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            found += 1;
            self.add(line.parse().map_err(|error: Error| error.fact("line", number + 1))?)?;
        }
        if found == 0 {
            return Err(Error::input("the list of protected images is empty")
                .hint("add an entry to it, or run without the list"));
        }
        Ok(())
    }

    fn add(&mut self, entry: ProtectedEntry) -> Result<()> {
        if !self.written.insert(entry.to_string()) {
            return Ok(());
        }
        self.patterns += usize::from(entry.is_pattern());
        self.entries.push(entry);
        if self.entries.len() > MOST_ENTRIES || self.patterns > MOST_PATTERNS {
            return Err(Error::input("there are too many entries of protected images")
                .fact("most", format_args!("{MOST_ENTRIES}, of them {MOST_PATTERNS} with regex:")));
        }
        Ok(())
    }
}

// One entry of the list of protected images: an exact reference, `host:`, `prefix:` or `regex:`.
//
// An entry means what it says and nothing near it: what it protects can be seen with `cache match`.

/// Longer than any reference with a digest.
const LONGEST: usize = 1_000;
/// The most memory that one compiled pattern may take.
const PATTERN_SIZE: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct ProtectedEntry {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    /// With its path resolved, as records have it.
    Exact(Location),
    Host(RegistryHost),
    Prefix(String),
    Pattern(Regex),
}

impl ProtectedEntry {
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        matches!(self.rule, Rule::Pattern(_))
    }

    /// Whether the entry keeps this image from being collected.
    #[must_use]
    pub fn protects(&self, image: &StoredImage) -> bool {
        image.names.iter().any(|name| self.covers(name))
    }

    /// Whether it keeps an image of this name.
    #[must_use]
    pub fn covers(&self, name: &ImageName) -> bool {
        match &self.rule {
            Rule::Exact(named) => name.is(named),
            Rule::Host(host) => name.is_on(host),
            Rule::Prefix(prefix) => name.texts.iter().any(|text| text.starts_with(prefix.as_str())),
            Rule::Pattern(pattern) => name.texts.iter().any(|text| pattern.is_match(text.as_bytes())),
        }
    }
}

impl FromStr for ProtectedEntry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| Error::input(format!("not an entry of protected images: {why}")).fact("entry", text);
        if text.len() > LONGEST {
            return Err(Error::input(format!("an entry of protected images has at most {LONGEST} characters")));
        }
        let rule = if let Some(host) = text.strip_prefix("host:") {
            Rule::Host(checked_host(host).ok_or_else(|| refuse("host: takes HOST[:PORT]"))?)
        } else if let Some(prefix) = text.strip_prefix("prefix:") {
            Rule::Prefix(
                full_prefix(prefix).ok_or_else(|| refuse("prefix: takes HOST/ and how the repository begins"))?,
            )
        } else if let Some(pattern) = text.strip_prefix("regex:") {
            Rule::Pattern(compile(pattern).map_err(|error| refuse("regex: takes a regular expression").cause(error))?)
        } else {
            let location = text.parse::<Location>().map_err(|error| refuse(error.what()))?;
            Rule::Exact(resolved_location(&location))
        };
        Ok(Self { text: text.to_owned(), rule })
    }
}

/// The host of references that begin so: a word alone would be a repository of Docker Hub.
fn checked_host(host: &str) -> Option<RegistryHost> {
    let reference = format!("{host}/x").parse::<Reference>().ok()?;
    reference.name().host().is(host).then(|| reference.name().host().clone())
}

/// A prefix with its host as references have it. What is in no registry stays as it is.
fn full_prefix(prefix: &str) -> Option<String> {
    let (host, rest) = prefix.split_once('/').filter(|(host, _)| !host.is_empty())?;
    Some(checked_host(host).map_or_else(|| prefix.to_owned(), |host| format!("{host}/{rest}")))
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    if pattern.is_empty() {
        return Err(regex::Error::Syntax("the pattern is empty, which would match everything".to_owned()));
    }
    // Hosts have no case, and it is better to keep an image too many.
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false).case_insensitive(true).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE).build()
}

impl fmt::Display for ProtectedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// What an image is called: the names by which an entry can protect it.

/// One name of an image, in all its forms.
#[derive(Debug, Clone)]
pub struct ImageName {
    /// How it can be written: by tag, by digest.
    pub texts: Vec<String>,
    /// What it says, or `None` for a name that is no reference: a pattern can match it all the same.
    pub location: Option<Location>,
    /// The digests that name this image under the location.
    pub digests: Vec<Digest>,
}

impl ImageName {
    /// A name as a runtime wrote it, and the digest of the manifest that it leads to, where that is known.
    #[must_use]
    pub fn written(text: &str, manifest: Option<Digest>) -> Self {
        let location = text.parse::<Location>().ok();
        let said = location.as_ref().and_then(Location::digest);
        let texts = std::iter::once(text.to_owned());
        let texts = texts.chain(location.iter().flat_map(|location| texts_of(location, manifest))).collect();
        Self { texts, location, digests: said.into_iter().chain(manifest).collect() }
    }

    /// Whether the exact reference names this image. A digest names the bytes, wherever in the image
    /// they stand as a manifest; a tag names what it led to when it was last seen.
    pub(super) fn is(&self, named: &Location) -> bool {
        match (named, &self.location) {
            (Location::Registry(named), Some(Location::Registry(at))) => {
                let same = named.name() == at.name();
                same && named.digest().map_or_else(
                    || named.effective_tag() == at.effective_tag(),
                    |digest| self.digests.contains(&digest),
                )
            }
            (named, Some(at)) => named == at || (named.digest().is_none() && named.to_string() == at.without_digest()),
            (_, None) => false,
        }
    }

    pub(super) fn is_on(&self, host: &RegistryHost) -> bool {
        matches!(&self.location, Some(Location::Registry(at)) if at.name().host() == host)
    }
}

/// How an image there can be written, by tag and by the digest that it leads to; its host in every spelling.
pub(super) fn texts_of(location: &Location, digest: Option<Digest>) -> Vec<String> {
    let whole = [Some(location.without_digest()), digest.map(|digest| location.by_digest(digest))];
    let Some(name) = location.repository() else { return whole.into_iter().flatten().collect() };
    let canonical = name.to_string();
    let ends: Vec<&str> = whole.iter().flatten().filter_map(|text| text.strip_prefix(&canonical)).collect();
    name.spellings().iter().flat_map(|name| ends.iter().map(move |end| format!("{name}{end}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::gc::testing;
    use oci::Digest;

    fn read(text: &str) -> Result<Protection> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        std::fs::write(&file, text).unwrap();
        Protection::read(&["gcr.io/a/b".to_owned()], &[file])
    }

    #[test]
    fn entries_of_flags_and_files_add_up() {
        let protection = read("# bases\nhost:gcr.io\n\n  prefix:gcr.io/a/ \nhost:gcr.io\n").unwrap();
        let entries: Vec<String> = protection.entries().iter().map(ProtectedEntry::to_string).collect();
        assert_eq!(entries, ["gcr.io/a/b", "host:gcr.io", "prefix:gcr.io/a/"]);
    }

    #[test]
    fn a_list_that_may_not_be_whole_is_an_error() {
        for (text, why) in [
            ("", "is empty"),
            ("# only words\n", "is empty"),
            ("host:gcr.io\nprefix:gcr.io/distrol", "truncated"),
            ("host:gcr.io\nregex:(\n", "line"),
            ("\0\0\0\0\n", "entry"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(why), "{text:?}: {error}");
            assert_eq!(error.kind(), oci::error::Kind::Input);
        }
        let many =
            |count: usize, what: &str| (0..count).map(|at| format!("{what}{at}")).collect::<Vec<_>>().join("\n") + "\n";
        assert!(read(&many(10_000, "gcr.io/a/b:")).is_err() && read(&many(501, "regex:a")).is_err(), "too many");
        assert!(read(&many(9_000, "gcr.io/a/b:")).is_ok() && read(&many(500, "regex:a")).is_ok());
        assert!(Protection::read(&[], &["/no/such/list".into()]).is_err());
        assert!(Protection::read(&[], &["/".into()]).is_err());
    }

    #[test]
    fn an_entry_protects_what_it_says() {
        let digest = Digest::of(b"top");
        let child = Digest::of(b"child");
        let other = Digest::of(b"other");
        for (entry, image, protected) in [
            ("gcr.io/a/b:c".to_owned(), "gcr.io/a/b:c", true),
            ("gcr.io/a/b:c".to_owned(), "gcr.io/a/b:d", false),
            ("gcr.io/a/b".to_owned(), "gcr.io/a/b:latest", true),
            ("gcr.io/a/b".to_owned(), "gcr.io/a/b:c", false),
            ("debian".to_owned(), "docker.io/library/debian:latest", true),
            (format!("gcr.io/a/b@{digest}"), "gcr.io/a/b:c", true),
            (format!("gcr.io/a/b:x@{digest}"), "gcr.io/a/b:c", true),
            (format!("gcr.io/a/b@{child}"), "gcr.io/a/b:c", true),
            (format!("gcr.io/a/b@{other}"), "gcr.io/a/b:c", false),
            (format!("gcr.io/a/x@{digest}"), "gcr.io/a/b:c", false),
            ("gcr.io/a/b:c".to_owned(), &format!("gcr.io/a/b:c@{digest}"), true),
            ("gcr.io/a/b:c".to_owned(), &format!("gcr.io/a/b@{digest}"), false),
            ("host:gcr.io".to_owned(), "gcr.io/a/b:c", true),
            ("host:gcr.io".to_owned(), &format!("gcr.io/a/b@{digest}"), true),
            ("host:gcr.io".to_owned(), "eu.gcr.io/a/b:c", false),
            ("host:gcr.io".to_owned(), "gcr.io:5000/a/b:c", false),
            ("host:gcr.io:5000".to_owned(), "gcr.io:5000/a/b:c", true),
            ("host:index.docker.io".to_owned(), "docker.io/library/debian:12", true),
            ("GCR.io:443/a/b:c".to_owned(), "gcr.io/a/b:c", true),
            ("host:GCR.io".to_owned(), "gcr.io/a/b:c", true),
            ("host:gcr.io:0443".to_owned(), "gcr.io/a/b:c", true),
            ("host:Registry-1.docker.io:443".to_owned(), "docker.io/library/debian:12", true),
            ("host:[0::1]:5000".to_owned(), "[::1]:5000/b:c", true),
            ("prefix:GCR.io:443/a/".to_owned(), "gcr.io/a/b:c", true),
            ("prefix:index.docker.io/library/".to_owned(), "docker.io/library/debian:12", true),
            ("regex:^GCR\\.io/a/b:c$".to_owned(), "gcr.io/a/b:c", true),
            ("regex:^gcr\\.io:443/".to_owned(), "gcr.io/a/b:c", true),
            ("regex:^index\\.docker\\.io/".to_owned(), "docker.io/library/debian:12", true),
            ("oci:/a/../a/b:c".to_owned(), "oci:/a/b:c", true),
            ("oci:/a//./b/:c".to_owned(), "oci:/a/b:c", true),
            ("prefix:gcr.io/a".to_owned(), "gcr.io/a/b:c", true),
            ("prefix:gcr.io/a/b:".to_owned(), "gcr.io/a/b:c", true),
            ("prefix:gcr.io/b".to_owned(), "gcr.io/a/b:c", false),
            ("prefix:cr.io/a".to_owned(), "gcr.io/a/b:c", false),
            ("regex:/b:".to_owned(), "gcr.io/a/b:c", true),
            ("regex:^gcr\\.io/.*:c$".to_owned(), "gcr.io/a/b:c", true),
            ("regex:^b:c$".to_owned(), "gcr.io/a/b:c", false),
            (format!("regex:@{digest}$"), "gcr.io/a/b:c", true),
            ("oci:/a/b:c".to_owned(), "oci:/a/b:c", true),
            ("oci:/a/b:c".to_owned(), "oci:/a/b:d", false),
        ] {
            let parsed: ProtectedEntry = entry.parse().unwrap();
            let image = testing::image(image, &[b"top", b"child"], 1, Some(1));
            assert_eq!(parsed.protects(&image), protected, "{entry} and {}", image.reference);
            assert_eq!(parsed.to_string(), entry);
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let long = format!("regex:{}", "a".repeat(1000));
        for bad in [
            "",
            " ",
            "host:",
            "host:registry",
            "host:gcr.io/a",
            "host:gcr.io:99999",
            "prefix:",
            "prefix:gcr.io",
            "prefix:/a",
            "regex:",
            "regex:(",
            "regex:a{1000}{1000}",
            "gcr.io/UPPER",
            "gcr.io/a/b:c d",
            "glob:*",
            &long,
        ] {
            assert!(bad.parse::<ProtectedEntry>().is_err(), "{bad:?} was accepted");
        }
    }
}
