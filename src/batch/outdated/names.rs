//! What an image says of its base, and which reference is asked for the newest build of it.
//!
//! The rule this file owns: only a reference whose tag is known is held against an image. underpin records a base without
//! its tag, so such a name alone leads to `latest`, which can show that an image is current, and never that it is outdated
//! ([decision 37](../../../docs/decisions/0037-which-tag-an-image-is-held-against.md)).

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::batch::BatchEntry;
use crate::examine::base::Rung;
use crate::plan::{BaseChoice, FORMAT, FORMAT_KEY};
use crate::policy::BasePolicy;
use crate::store::fetch::{BasedPlatform, NamedBy};
use oci::error::{Error, Result};
use oci::{BASE_DIGEST, BASE_NAME, Digest, Location, RepositoryName};

/// Where the newest build of a base is: `[NAME=]REF`, where NAME is the base that images record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseRule {
    /// `None` for a place on disk, which is for images that record no name.
    name: Option<RepositoryName>,
    pub reference: Location,
}

impl FromStr for BaseRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mapped = text.split_once('=').and_then(|(name, reference)| Some((name.parse().ok()?, reference)));
        if let Some((name, reference)) = mapped {
            return Ok(Self { name: Some(name), reference: reference.parse()? });
        }
        let reference: Location = text.parse()?;
        Ok(Self { name: reference.repository().cloned(), reference })
    }
}

impl BaseRule {
    /// Whether it is for images that record this name. One that records none is held against what the user names.
    fn is_for(&self, base: Option<&RepositoryName>) -> bool {
        base.is_none() || self.name.as_ref() == base
    }

    /// Whether it leads to another place than the recorded name does.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.name.as_ref() != self.reference.repository()
    }
}

/// Whether the tag of a base is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BaseTag {
    Known,
    /// It was not recorded.
    Dropped,
}

/// The base of a platform by name.
#[derive(Debug, Clone)]
pub(super) struct BaseIdentity {
    pub name: Option<Location>,
    /// The name that the image records, where its base was found elsewhere.
    pub recorded: Option<RepositoryName>,
    pub tag: BaseTag,
    /// As the image records it; of an index, or of one platform.
    pub digest: Option<Digest>,
    pub how: Option<Rung>,
}

impl BaseIdentity {
    pub(super) fn of(platform: &BasedPlatform) -> Self {
        let recorded = Self::recorded(platform);
        match &platform.named.found {
            Some(found) if !matches!(found.how, Rung::Annotation) => {
                let reference = found.reference.as_deref().and_then(|text| text.parse::<Location>().ok());
                let tag = if reference.as_ref().is_some_and(has_tag) { BaseTag::Known } else { BaseTag::Dropped };
                let name = reference.and_then(|reference| reference.without_digest().parse().ok());
                let before = recorded.name.as_ref().and_then(Location::repository).cloned();
                Self { name, recorded: before, tag, digest: recorded.digest, how: Some(found.how) }
            }
            found => Self { how: found.as_ref().map(|found| found.how).or(recorded.how), ..recorded },
        }
    }

    /// What annotations say, or labels in their place.
    fn recorded(platform: &BasedPlatform) -> Self {
        let image = platform.image();
        let container = image.config.container();
        let labels = container.get("Labels").and_then(Value::as_object);
        let annotations = [&image.manifest.annotations, platform.index_annotations()];
        let annotated = annotations.into_iter().find_map(|map| Self::read(map, Rung::Annotation));
        let nothing = Self { name: None, recorded: None, tag: BaseTag::Known, digest: None, how: None };
        annotated.or_else(|| Self::read(labels?, Rung::Label)).unwrap_or(nothing)
    }

    fn read(map: &Map<String, Value>, how: Rung) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (name, digest) = (text(BASE_NAME), text(BASE_DIGEST).and_then(|digest| digest.parse().ok()));
        // A registry's, or none: text of an image never leads to a place on disk.
        let name = name.and_then(|name| name.parse().ok()).map(Location::Registry);
        let is_ours = text(FORMAT_KEY) == Some(FORMAT);
        let is_dropped = is_ours || name.as_ref().is_some_and(|name| name.digest().is_some() && !has_tag(name));
        let tag = if is_dropped { BaseTag::Dropped } else { BaseTag::Known };
        let digest = digest.or_else(|| name.as_ref().and_then(Location::digest));
        (name.is_some() || digest.is_some()).then_some(Self { name, recorded: None, tag, digest, how: Some(how) })
    }
}

/// A place on disk needs none.
fn has_tag(location: &Location) -> bool {
    location.tag().is_some() || location.local().is_some()
}

/// Whom to ask for the newest build.
#[derive(Debug)]
pub(super) struct NewestQuestion {
    pub references: Vec<Location>,
    pub by: NamedBy,
    pub tag: BaseTag,
}

impl NewestQuestion {
    const fn of_user(references: Vec<Location>) -> Self {
        Self { references, by: NamedBy::User, tag: BaseTag::Known }
    }

    /// The first that knows: the batch file for its own image, `--base`, the policy's versions, the name in the image.
    pub(super) fn of(
        base: &BaseIdentity,
        entry: Option<&BatchEntry>,
        rules: &[BaseRule],
        policy: &BasePolicy,
    ) -> Option<Self> {
        let repository = base.name.as_ref().and_then(Location::repository);
        let of_entry = entry.map(|entry| entry_bases(entry, repository)).filter(|bases| !bases.is_empty());
        if let Some(references) = of_entry {
            return Some(Self::of_user(references));
        }
        // A rule is for the name in the image, also where that leads nowhere and the rule is how its base was found.
        let recorded = base.recorded.as_ref().filter(|name| rules.iter().any(|rule| rule.name.as_ref() == Some(name)));
        let asked_by = recorded.or(repository);
        let by_rule: Vec<Location> =
            rules.iter().filter(|rule| rule.is_for(asked_by)).map(|rule| rule.reference.clone()).collect();
        if !by_rule.is_empty() {
            return Some(Self::of_user(by_rule));
        }
        let name = base.name.as_ref()?;
        let untagged = repository.and_then(|repository| repository.to_string().parse::<Location>().ok());
        let version = untagged.map(|name| policy.at_version(name)).filter(has_tag);
        if let Some(version) = version.filter(|_| base.tag == BaseTag::Dropped) {
            return Some(Self::of_user(vec![version]));
        }
        let name = name.without_digest().parse().ok()?;
        let by = if base.how == Some(Rung::Known) { NamedBy::User } else { NamedBy::Image };
        Some(Self { references: vec![name], by, tag: base.tag })
    }
}

/// What the batch file says that its image is to be based on.
fn entry_bases(entry: &BatchEntry, repository: Option<&RepositoryName>) -> Vec<Location> {
    let options = &entry.job.options;
    match &options.base {
        BaseChoice::Image(location) => vec![location.clone()],
        BaseChoice::Auto => {
            let is_its = |base: &&Location| repository.is_some() && base.repository() == repository;
            options.base_candidates.iter().filter(is_its).cloned().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn read(annotations: &Value) -> Option<BaseIdentity> {
        BaseIdentity::read(annotations.as_object().unwrap(), Rung::Annotation)
    }

    fn references(base: &BaseIdentity, rules: &[&str]) -> Option<(Vec<String>, BaseTag)> {
        let rules: Vec<BaseRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let question = NewestQuestion::of(base, None, &rules, &BasePolicy::default())?;
        Some((question.references.iter().map(ToString::to_string).collect(), question.tag))
    }

    #[test]
    fn only_a_result_of_underpin_leaves_the_tag_open() {
        for (annotations, tag) in [
            (json!({BASE_NAME: "a.io/base:v1"}), BaseTag::Known),
            (json!({BASE_NAME: "a.io/base", BASE_DIGEST: D}), BaseTag::Known),
            (json!({BASE_NAME: format!("a.io/base@{D}")}), BaseTag::Dropped),
            (json!({BASE_NAME: format!("a.io/base:v1@{D}")}), BaseTag::Known),
            (json!({BASE_NAME: "a.io/base", BASE_DIGEST: D, FORMAT_KEY: "2"}), BaseTag::Dropped),
        ] {
            assert_eq!(read(&annotations).unwrap().tag, tag, "{annotations}");
        }
        for nothing in [json!({}), json!({BASE_NAME: ""}), json!({BASE_NAME: "oci:/srv:v1"}), json!({BASE_DIGEST: "x"})]
        {
            assert!(read(&nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn a_rule_is_for_the_images_of_its_repository() {
        let ours = read(&json!({BASE_NAME: "a.io/base", BASE_DIGEST: D, FORMAT_KEY: "2"})).unwrap();
        for (rules, expected, tag) in [
            (&[][..], &["a.io/base:latest"][..], BaseTag::Dropped),
            (&["a.io/base:nonroot"], &["a.io/base:nonroot"], BaseTag::Known),
            (&["a.io/base"], &["a.io/base:latest"], BaseTag::Known),
            (&["a.io/other:v1"], &["a.io/base:latest"], BaseTag::Dropped),
            (&["a.io/base=b.io/next:v2", "a.io/other:v1"], &["b.io/next:v2"], BaseTag::Known),
            (&["a.io/base=oci:dir:v2"], &["oci:dir:v2"], BaseTag::Known),
            (&["a.io/base:a", "a.io/base:b"], &["a.io/base:a", "a.io/base:b"], BaseTag::Known),
            (&["oci:dir=x:v2"], &["a.io/base:latest"], BaseTag::Dropped),
        ] {
            let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(references(&ours, rules), Some((expected, tag)), "{rules:?}");
        }
    }

    #[test]
    fn an_image_without_a_name_is_held_against_what_the_user_names() {
        let nameless = read(&json!({BASE_DIGEST: D, FORMAT_KEY: "2"})).unwrap();
        assert_eq!(references(&nameless, &[]), None);
        assert_eq!(references(&nameless, &["oci:bases:v1"]), Some((vec!["oci:bases:v1".to_owned()], BaseTag::Known)));
    }
}
