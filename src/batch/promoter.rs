//! The results as an image promoter's `images.yaml`: for each image its digests and their tags.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::oci::Location;

/// The page for these published images. All of them must be in one registry: the format has no field
/// for its name.
pub fn promoter_page<'a>(published: impl Iterator<Item = (&'a Location, &'a str)>) -> Result<String> {
    let mut host: Option<String> = None;
    let mut images: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (target, digest) in published {
        let Location::Registry(reference) = target else {
            return Err(Error::usage("--promoter can only list images in a registry").fact("target", target));
        };
        let name = reference.name();
        if host.get_or_insert_with(|| name.host().to_owned()) != name.host() {
            return Err(Error::usage("--promoter can only list images of one registry").fact("target", target));
        }
        let digests = images.entry(name.repository().to_owned()).or_default();
        digests.entry(digest.to_owned()).or_default().extend(reference.effective_tag().map(str::to_owned));
    }
    let mut out = String::new();
    for (name, digests) in &mut images {
        let _ = writeln!(out, "- name: {}\n  dmap:", quoted(name));
        for (digest, tags) in digests {
            tags.sort();
            let tags: Vec<String> = tags.iter().map(|tag| quoted(tag)).collect();
            let _ = writeln!(out, "    {}: [{}]", quoted(digest), tags.join(", "));
        }
    }
    Ok(if out.is_empty() { "[]\n".to_owned() } else { out })
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(published: &[(&str, &str)]) -> Result<String> {
        let published: Vec<(Location, &str)> =
            published.iter().map(|(name, digest)| (name.parse().unwrap(), *digest)).collect();
        promoter_page(published.iter().map(|(location, digest)| (location, *digest)))
    }

    #[test]
    fn each_image_lists_its_digests_with_their_tags() {
        let text = page(&[("a.io/b/two:v1", "sha256:22"), ("a.io/one:v2", "sha256:11"), ("a.io/one:v1", "sha256:11")])
            .unwrap();
        let expected = "- name: \"b/two\"\n  dmap:\n    \"sha256:22\": [\"v1\"]\n- name: \"one\"\n  dmap:\n    \"sha256:11\": [\"v1\", \"v2\"]\n";
        assert_eq!(text, expected);
        assert_eq!(page(&[]).unwrap(), "[]\n");
    }

    #[test]
    fn images_of_another_registry_are_an_error() {
        assert!(page(&[("a.io/b:c", "d"), ("b.io/b:c", "d")]).is_err());
        assert!(page(&[("oci:x:y", "d")]).is_err());
    }
}
