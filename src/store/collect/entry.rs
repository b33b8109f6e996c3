//! One entry of the list of protected images: an exact reference, `host:`, `prefix:` or `regex:`.
//!
//! An entry means what it says and nothing near it: what it protects can be seen with `cache match`.

use std::fmt;
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

use super::inventory::StoredImage;
use super::name::Name;
use crate::error::{Error, Result};
use crate::oci::{Location, Reference};

/// Longer than any reference with a digest.
const LONGEST: usize = 1_000;
/// The most memory that one compiled pattern may take.
const PATTERN_SIZE: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct Entry {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Exact(Location),
    Host(String),
    Prefix(String),
    Pattern(Regex),
}

impl Entry {
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        matches!(self.rule, Rule::Pattern(_))
    }

    /// Whether the entry keeps this image from being collected.
    #[must_use]
    pub fn protects(&self, image: &StoredImage) -> bool {
        image.names.iter().any(|name| self.covers(name))
    }

    fn covers(&self, name: &Name) -> bool {
        match &self.rule {
            Rule::Exact(named) => name.is(named),
            Rule::Host(host) => name.is_on(host),
            Rule::Prefix(prefix) => name.texts.iter().any(|text| text.starts_with(prefix.as_str())),
            Rule::Pattern(pattern) => name.texts.iter().any(|text| pattern.is_match(text.as_bytes())),
        }
    }
}

impl FromStr for Entry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| Error::input(format!("not an entry of protected images: {why}")).fact("entry", text);
        if text.len() > LONGEST {
            return Err(Error::input(format!("an entry of protected images has at most {LONGEST} characters")));
        }
        let rule = if let Some(host) = text.strip_prefix("host:") {
            Rule::Host(checked_host(host).ok_or_else(|| refuse("host: takes HOST[:PORT]"))?)
        } else if let Some(prefix) = text.strip_prefix("prefix:") {
            let written_out = prefix.split_once('/').is_some_and(|(host, _)| !host.is_empty());
            let prefix = written_out.then(|| prefix.to_owned());
            Rule::Prefix(prefix.ok_or_else(|| refuse("prefix: takes HOST/ and how the repository begins"))?)
        } else if let Some(pattern) = text.strip_prefix("regex:") {
            Rule::Pattern(compile(pattern).map_err(|error| refuse("regex: takes a regular expression").cause(error))?)
        } else {
            Rule::Exact(text.parse::<Location>().map_err(|error| refuse(error.what()))?)
        };
        Ok(Self { text: text.to_owned(), rule })
    }
}

/// The host as references have it.
fn checked_host(host: &str) -> Option<String> {
    let reference = format!("{host}/x").parse::<Reference>().ok()?;
    let hub = matches!(host, "index.docker.io" | "registry-1.docker.io");
    (hub || reference.name().host() == host).then(|| reference.name().host().to_owned())
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    if pattern.is_empty() {
        return Err(regex::Error::Syntax("the pattern is empty, which would match everything".to_owned()));
    }
    RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE).build()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::Digest;
    use crate::store::collect::sample;

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
            let parsed: Entry = entry.parse().unwrap();
            let image = sample::image(image, &[b"top", b"child"], 1, Some(1));
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
            assert!(bad.parse::<Entry>().is_err(), "{bad:?} was accepted");
        }
    }
}
