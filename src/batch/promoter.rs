//! An image promoter's `images.yaml`: for each image its digests and their tags. Read as a list of images, and written
//! with the results of a batch, as kpromo writes it: images by name, digests by their first tag.
//!
//! The rule it owns: a manifest that is there keeps every other byte, and no tag in it moves to another digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::yaml::{self, Position, YamlNode, YamlValue};
use oci::error::{Error, Result};
use oci::{Digest, Location, RegistryHost, RepositoryName};

/// Digests of one image, with their tags.
type TagsByDigest = BTreeMap<String, BTreeSet<String>>;

/// One image of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromotedImage {
    pub name: String,
    pub at: Position,
    /// In the order of the manifest.
    pub digests: Vec<(Digest, Vec<String>)>,
}

/// The images of a manifest: a list, or the list under `images` of one that names its registries, too.
pub fn read_promoter(text: &str) -> Result<Vec<PromotedImage>> {
    let is_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_nothing) {
        return Ok(Vec::new());
    }
    let document = yaml::read(text)?;
    let list = match &document.value {
        YamlValue::Map(items) => items.iter().find(|(key, ..)| key == "images").map(|(.., node)| node),
        _ => Some(&document),
    };
    let list = list.ok_or_else(|| yaml::wrong("the manifest has no `images`", document.at))?;
    let images = list.list()?.iter().map(image).collect::<Result<Vec<_>>>()?;
    check_one_digest(&images)?;
    Ok(images)
}

/// An image may be listed more than once, but a tag of it has one digest.
fn check_one_digest(images: &[PromotedImage]) -> Result<()> {
    let mut seen: BTreeMap<(&str, &str), Digest> = BTreeMap::new();
    for image in images {
        for (digest, tag) in image.digests.iter().flat_map(|(digest, tags)| tags.iter().map(move |tag| (digest, tag))) {
            if seen.insert((&image.name, tag), *digest).is_some_and(|first| first != *digest) {
                return Err(yaml::wrong("the image has two digests for one tag", image.at)
                    .fact("image", &image.name)
                    .fact("tag", tag));
            }
        }
    }
    Ok(())
}

fn image(node: &YamlNode) -> Result<PromotedImage> {
    let members = node.members(&["name", "dmap"])?;
    let name = members.get("name").ok_or_else(|| yaml::wrong("the image has no `name`", node.at))?.text()?.to_owned();
    let digests = match members.get("dmap").map(|map| (&map.value, map.at)) {
        Some((YamlValue::Map(items), _)) => items.iter().map(|(digest, at, tags)| digest_tags(digest, *at, tags)),
        Some((_, at)) => return Err(yaml::wrong("expected a mapping of digests here", at)),
        None => return Ok(PromotedImage { name, at: node.at, digests: Vec::new() }),
    };
    Ok(PromotedImage { name, at: node.at, digests: digests.collect::<Result<Vec<_>>>()? })
}

fn digest_tags(digest: &str, at: Position, tags: &YamlNode) -> Result<(Digest, Vec<String>)> {
    let digest = digest.parse().map_err(|error: Error| error.fact("at", at))?;
    let tags = match &tags.value {
        YamlValue::Nothing => Vec::new(),
        _ => tags.texts()?.into_iter().map(|tag| tag.text().map(str::to_owned)).collect::<Result<_>>()?,
    };
    Ok((digest, tags))
}

/// What was published, as a manifest names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promotion {
    images: BTreeMap<String, TagsByDigest>,
}

impl Promotion {
    /// The names are relative to `prefix`, a registry with or without a path, else to the one registry of all targets.
    pub fn of<'a>(published: impl Iterator<Item = (&'a Location, &'a str)>, prefix: Option<&str>) -> Result<Self> {
        let mut host: Option<RegistryHost> = None;
        let mut promotion = Self::default();
        for (target, digest) in published {
            let Location::Registry(reference) = target else {
                return Err(Error::usage("--promoter can only list images in a registry").fact("target", target));
            };
            let name = reference.name();
            let relative = match prefix {
                Some(prefix) => below(name, prefix).ok_or_else(|| {
                    Error::usage("a target is not below the prefix of the promoter's manifest")
                        .fact("target", target)
                        .fact("prefix", prefix)
                        .hint("name the registry, and the path, that all targets are in: --promoter-prefix REF")
                })?,
                None if host.get_or_insert_with(|| name.host().clone()) == name.host() => name.repository().to_owned(),
                None => {
                    return Err(Error::usage("--promoter can only list images of one registry")
                        .fact("target", target)
                        .hint("write a manifest for each registry: choose its images with --only PATTERN"));
                }
            };
            let digests = promotion.images.entry(relative).or_default();
            digests.entry(digest.to_owned()).or_default().extend(reference.effective_tag().map(str::to_owned));
        }
        Ok(promotion)
    }

    /// The page that has it and all that `existing` has.
    pub fn page(&self, existing: &str) -> Result<String> {
        let there = read_promoter(existing)?;
        self.check_tags(&there)?;
        let mut page = Page::new(existing);
        for (name, digests) in &self.images {
            let known: Vec<&PromotedImage> = there.iter().filter(|image| image.name == *name).collect();
            match known.first() {
                Some(first) => {
                    let listed = known.iter().flat_map(|image| image.digests.clone()).collect();
                    page.add_digests(&PromotedImage { digests: listed, ..(*first).clone() }, digests)?;
                }
                None => page.add_image(name, digests),
            }
        }
        let text = page.text();
        // What a text looks like is one thing, what a reader makes of it another.
        if meaning(&read_promoter(&text)?) != self.joined(&there) {
            return Err(not_editable("the manifest cannot be edited: its layout is not known"));
        }
        Ok(if text.is_empty() { "[]\n".to_owned() } else { text })
    }

    /// A tag that was promoted stays where it is.
    fn check_tags(&self, there: &[PromotedImage]) -> Result<()> {
        for image in there {
            let Some(new) = self.images.get(&image.name) else { continue };
            for (digest, tags) in &image.digests {
                let digest = digest.to_string();
                let moved = |(other, new): (&String, &BTreeSet<String>)| {
                    let tag = tags.iter().find(|tag| *other != digest && new.contains(*tag))?;
                    Some((tag.clone(), other.clone()))
                };
                if let Some((tag, other)) = new.iter().find_map(moved) {
                    return Err(Error::input("the manifest has this tag for another digest, and tags do not move")
                        .fact("image", &image.name)
                        .fact("tag", tag)
                        .fact("there", &digest)
                        .fact("published", other));
                }
            }
        }
        Ok(())
    }

    fn joined(&self, there: &[PromotedImage]) -> BTreeMap<String, TagsByDigest> {
        let mut all = meaning(there);
        for (name, digests) in &self.images {
            let image = all.entry(name.clone()).or_default();
            for (digest, tags) in digests {
                image.entry(digest.clone()).or_default().extend(tags.iter().cloned());
            }
        }
        all
    }
}

fn meaning(images: &[PromotedImage]) -> BTreeMap<String, TagsByDigest> {
    let mut all: BTreeMap<String, TagsByDigest> = BTreeMap::new();
    for image in images {
        let digests = all.entry(image.name.clone()).or_default();
        for (digest, tags) in &image.digests {
            digests.entry(digest.to_string()).or_default().extend(tags.iter().cloned());
        }
    }
    all
}

/// The name without the registry and path that it is in.
fn below(name: &RepositoryName, prefix: &str) -> Option<String> {
    let (host, path) = prefix.split_once('/').unwrap_or((prefix, ""));
    let path = path.trim_end_matches('/');
    let repository = name.host().is(host).then(|| name.repository())?;
    let rest = if path.is_empty() { repository } else { repository.strip_prefix(path)?.strip_prefix('/')? };
    (!rest.is_empty()).then(|| rest.to_owned())
}

fn not_editable(what: &str) -> Error {
    Error::input(what).hint("write to a new file, and bring the two together by hand")
}

/// A manifest as its lines.
struct Page {
    lines: Vec<String>,
}

impl Page {
    fn new(text: &str) -> Self {
        // `[]` is how a manifest without images is written.
        let text = if text.trim() == "[]" { "" } else { text };
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
            last.push('\n');
        }
        Self { lines }
    }

    fn text(&self) -> String {
        self.lines.concat()
    }

    /// The lines at which images begin, with their names. Registries have names, too, and no digests.
    fn images(&self) -> Vec<(usize, String)> {
        let begins = |(at, line): (usize, &String)| {
            let name = line.trim_start().strip_prefix("- name:")?.trim();
            Some((at, name.trim_matches(['"', '\'']).to_owned()))
        };
        let all: Vec<(usize, String)> = self.lines.iter().enumerate().filter_map(begins).collect();
        let ends = all.iter().skip(1).map(|(at, _)| *at).chain([self.lines.len()]);
        let has_digests = |from: usize, to: usize| {
            self.lines
                .get(from..to)
                .is_some_and(|lines| lines.iter().any(|line| line.trim_start().starts_with("dmap:")))
        };
        all.iter()
            .cloned()
            .zip(ends)
            .filter(|((from, _), to)| has_digests(*from, *to))
            .map(|(image, _)| image)
            .collect()
    }

    /// After the image that comes before it, and before the blank lines and comments of the next.
    fn add_image(&mut self, name: &str, digests: &TagsByDigest) {
        let images = self.images();
        let next = images.iter().find(|(_, there)| there.as_str() > name).map(|(at, _)| *at);
        let indentation = images.first().and_then(|(at, _)| self.lines.get(*at)).map_or("", |line| indentation(line));
        let mut block = format!("{indentation}- name: {}\n{indentation}  dmap:\n", plain(name));
        let mut sorted: Vec<(&String, &BTreeSet<String>)> = digests.iter().collect();
        sorted.sort_by_key(|(digest, tags)| (tags.first(), *digest));
        for (digest, tags) in sorted {
            block.push_str(&digest_line(&format!("{indentation}    "), digest, tags));
        }
        let at = next.map_or(self.lines.len(), |next| self.before_comments(next));
        self.lines.insert(at, block);
    }

    fn before_comments(&self, mut at: usize) -> usize {
        let is_apart = |line: &String| line.trim().is_empty() || line.trim_start().starts_with('#');
        while at.checked_sub(1).and_then(|above| self.lines.get(above)).is_some_and(is_apart) {
            at -= 1;
        }
        at
    }

    fn add_digests(&mut self, known: &PromotedImage, digests: &TagsByDigest) -> Result<()> {
        for (digest, tags) in digests {
            let there = known.digests.iter().find(|(there, _)| there.to_string() == *digest).map(|(_, tags)| tags);
            match there {
                Some(there) if tags.iter().all(|tag| there.contains(tag)) => {}
                Some(there) => {
                    let all = there.iter().chain(tags).cloned().collect();
                    self.replace_tags(&known.name, digest, &all)?;
                }
                None => self.insert_digest(known, digest, tags)?,
            }
        }
        Ok(())
    }

    /// The lines of an image's digests.
    fn digests_of(&self, name: &str) -> Vec<(usize, String)> {
        let images = self.images();
        let ends = images.iter().skip(1).map(|(line, _)| *line).chain([self.lines.len()]);
        let own = images.iter().zip(ends).filter(|((_, there), _)| there == name);
        let own = own.flat_map(|((from, _), to)| self.lines.iter().enumerate().take(to).skip(*from));
        let digest = |(at, line): (usize, &String)| {
            let key = line.trim_start().trim_start_matches(['"', '\'']);
            let end = key.find(['"', '\'', ' ', '\n']).unwrap_or(key.len());
            let digest = key.get(..end)?.trim_end_matches(':');
            digest.starts_with("sha").then(|| (at, digest.to_owned()))
        };
        own.filter_map(digest).collect()
    }

    fn replace_tags(&mut self, name: &str, digest: &str, tags: &BTreeSet<String>) -> Result<()> {
        let at = self.digests_of(name).into_iter().find(|(_, there)| there == digest).map(|(at, _)| at);
        let line = at.and_then(|at| self.lines.get_mut(at)).filter(|line| line.trim_end().ends_with(']'));
        let line = line
            .ok_or_else(|| not_editable("the tags of a digest are not written in one line").fact("digest", digest))?;
        *line = digest_line(indentation(line), digest, tags);
        Ok(())
    }

    fn insert_digest(&mut self, known: &PromotedImage, digest: &str, tags: &BTreeSet<String>) -> Result<()> {
        let lines = self.digests_of(&known.name);
        let first_tag = |digest: &str| {
            let of = known.digests.iter().find(|(there, _)| there.to_string() == digest);
            of.and_then(|(_, tags)| tags.iter().min())
        };
        let is_after = |(_, there): &&(usize, String)| first_tag(there) > tags.first();
        let (first, last) = match lines.as_slice() {
            [] => {
                return Err(not_editable("the image has no digest beside which one could be written")
                    .fact("image", &known.name));
            }
            [first, .., last] => (first, last),
            [one] => (one, one),
        };
        let indentation = self.lines.get(first.0).map_or("    ", |line| indentation(line)).to_owned();
        let at = lines.iter().find(is_after).map_or_else(|| self.end_of(last.0), |(at, _)| *at);
        self.lines.insert(at, digest_line(&indentation, digest, tags));
        Ok(())
    }

    /// After a digest's line, and the lines of its tags.
    fn end_of(&self, at: usize) -> usize {
        let depth = self.lines.get(at).map_or(0, |line| indentation(line).len());
        let is_below =
            |line: &&String| line.trim_start().starts_with("- ") && indentation(line).len() >= depth && depth > 0;
        let below = self.lines.iter().skip(at + 1).take_while(is_below).filter(|line| !line.contains("name:"));
        at + 1 + below.count()
    }
}

fn indentation(line: &str) -> &str {
    let end = line.find(|c: char| c != ' ').unwrap_or(0);
    line.get(..end).unwrap_or_default()
}

fn digest_line(indentation: &str, digest: &str, tags: &BTreeSet<String>) -> String {
    let tags: Vec<String> = tags.iter().map(|tag| quoted(tag)).collect();
    let mut line = String::new();
    let _ = writeln!(line, "{indentation}{}: [{}]", quoted(digest), tags.join(", "));
    line
}

/// A name as kpromo writes it: without quotes, unless a reader would take it for something else.
fn plain(name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_word);
    let is_value = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&name);
    if is_plain && !is_value { name.to_owned() } else { quoted(name) }
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> String {
        format!("sha256:{}", format!("{number:02x}").repeat(32))
    }

    fn promotion(published: &[(&str, u8)], prefix: Option<&str>) -> Result<Promotion> {
        let published: Vec<(Location, String)> =
            published.iter().map(|(name, number)| (name.parse().unwrap(), digest(*number))).collect();
        Promotion::of(published.iter().map(|(location, digest)| (location, digest.as_str())), prefix)
    }

    #[test]
    fn images_are_sorted_by_name_and_digests_by_tag() {
        let published = [("a.io/k/two:v1", 9), ("a.io/one:v1.2", 1), ("a.io/one:v1.10", 2), ("a.io/one:v1.10-rc", 2)];
        let text = promotion(&published, None).unwrap().page("").unwrap();
        let (d1, d2, d9) = (digest(1), digest(2), digest(9));
        let expected = format!(
            "- name: k/two\n  dmap:\n    \"{d9}\": [\"v1\"]\n- name: one\n  dmap:\n    \"{d2}\": [\"v1.10\", \"v1.10-rc\"]\n    \"{d1}\": [\"v1.2\"]\n"
        );
        assert_eq!(text, expected);
        assert_eq!(promotion(&[], None).unwrap().page("").unwrap(), "[]\n");
        assert_eq!(promotion(&published, None).unwrap().page(&text).unwrap(), text, "a second time");
        let prefixed = promotion(&[("a.io/k/two:v1", 9)], Some("a.io/k/")).unwrap().page("[]\n").unwrap();
        assert!(prefixed.starts_with("- name: two\n"), "{prefixed}");
    }

    #[test]
    fn a_manifest_keeps_every_other_byte() {
        let (d1, d2, d3, d4) = (digest(1), digest(2), digest(3), digest(4));
        let there = format!(
            "# promoted by hand\n- name: alpha\n  dmap:\n    \"{d1}\": [\"v1\"]   # first\n    \"{d2}\":\n    - v3\n\n# the proxy\n- name: 'proxy'\n  dmap:\n    \"{d4}\": [\"v2\"]\n"
        );
        let published = [("a.io/alpha:v2", 3), ("a.io/alpha:v9", 4), ("a.io/middle:v1", 5), ("a.io/proxy:v2.1", 4)];
        let text = promotion(&published, None).unwrap().page(&there).unwrap();
        let d5 = digest(5);
        let expected = format!(
            "# promoted by hand\n- name: alpha\n  dmap:\n    \"{d1}\": [\"v1\"]   # first\n    \"{d3}\": [\"v2\"]\n    \"{d2}\":\n    - v3\n    \"{d4}\": [\"v9\"]\n- name: middle\n  dmap:\n    \"{d5}\": [\"v1\"]\n\n# the proxy\n- name: 'proxy'\n  dmap:\n    \"{d4}\": [\"v2\", \"v2.1\"]\n"
        );
        assert_eq!(text, expected);
        let whole = format!(
            "registries:\n- name: a.io\n  src: true\nimages:\n- name: alpha\n  dmap:\n    \"{d1}\": [\"v1\"]\n"
        );
        let text = promotion(&[("a.io/beta:v1", 2)], None).unwrap().page(&whole).unwrap();
        assert_eq!(text, format!("{whole}- name: beta\n  dmap:\n    \"{d2}\": [\"v1\"]\n"));
    }

    #[test]
    fn what_cannot_be_promoted_is_an_error() {
        assert!(promotion(&[("a.io/b:c", 1), ("b.io/b:c", 1)], None).is_err());
        assert!(promotion(&[("oci:x:y", 1)], None).is_err());
        assert!(promotion(&[("a.io/other/b:c", 1)], Some("a.io/k")).is_err());
        let there = format!("- name: b\n  dmap:\n    \"{}\": [\"c\"]\n", digest(2));
        let error = promotion(&[("a.io/b:c", 1)], None).unwrap().page(&there).unwrap_err().to_string();
        assert!(error.contains("tags do not move") && error.contains(&digest(2)), "{error}");
        for odd in ["- {name: b, dmap: {}}\n", "- {name: b}\n"] {
            assert!(promotion(&[("a.io/b:c", 1)], None).unwrap().page(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_manifest_is_read_whole_or_not_at_all() {
        let (d1, d2) = (digest(1), digest(2));
        let images =
            read_promoter(&format!("- name: a\n  dmap:\n    \"{d1}\": [\"v1\", \"v2\"]\n    {d2}: []\n")).unwrap();
        assert_eq!(images[0].digests.len(), 2);
        assert_eq!(images[0].digests[0].1, ["v1", "v2"]);
        for bad in [
            "- dmap: {}\n".to_owned(),
            "- name: a\n  dmap: [x]\n".to_owned(),
            "- name: a\n  dmap: {'sha256:xyz': [v1]}\n".to_owned(),
            format!("- name: a\n  dmap: {{'{d1}': [v1], '{d2}': [v1]}}\n"),
            format!("- name: a\n  dmap: {{'{d1}': [v1]}}\n- name: a\n  dmap: {{'{d2}': [v1]}}\n"),
            "registries: []\n".to_owned(),
            "- name: a\n  tags: [x]\n".to_owned(),
        ] {
            assert!(read_promoter(&bad).is_err(), "{bad}");
        }
        let twice = format!("- name: a\n  dmap:\n    \"{d1}\": [\"v1\"]\n- name: a\n  dmap:\n    \"{d2}\": [\"v2\"]\n");
        assert_eq!(read_promoter(&twice).unwrap().len(), 2, "as some of the real ones have it");
        let text = promotion(&[("a.io/a:v3", 2)], None).unwrap().page(&twice).unwrap();
        assert_eq!(text, twice.replace("[\"v2\"]", "[\"v2\", \"v3\"]"));
        assert_eq!(read_promoter("").unwrap(), []);
    }
}
