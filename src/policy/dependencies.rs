//! Versions of base images in a file like Kubernetes' `build/dependencies.yaml`, as `zeitgeist` reads it.
//!
//! ```yaml
//! dependencies:
//! - name: "registry.k8s.io/debian-base: dependents"
//!   version: bookworm-v1.0.4
//!   refPaths: [...]
//! ```
//!
//! An entry is for the base with the same registry and the same last part of the name: the file leaves
//! `build-image/` out. Entries that name no image are passed over.

use super::base_policy::same_host;
use super::exceptions::is_short_for;
use crate::yaml::{self, YamlNode, YamlValue, wrong};
use oci::error::Result;
use oci::{Location, RegistryHost};

/// An image with the version that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    host: RegistryHost,
    /// The last part of its name.
    name: String,
    pub version: String,
}

impl Dependency {
    /// Reads the entries that name images.
    pub fn read_all(text: &str) -> Result<Vec<Self>> {
        let document = yaml::read(text)?;
        let Some(YamlValue::List(entries)) = member(&document, "dependencies").map(|node| &node.value) else {
            return Err(wrong("expected a list of `dependencies` here", document.at));
        };
        entries.iter().filter_map(|entry| Self::of_entry(entry).transpose()).collect()
    }

    fn of_entry(entry: &YamlNode) -> Result<Option<Self>> {
        let Some(name) = member(entry, "name") else {
            return Err(wrong("the dependency has no `name`", entry.at));
        };
        // `NAME: dependents` are the files that use it.
        let image = name.text()?.split(": ").next().unwrap_or_default();
        let Some((host, repository)) = image.split_once('/').filter(|(host, _)| host.contains(['.', ':'])) else {
            return Ok(None);
        };
        let Ok(host) = host.parse() else { return Ok(None) };
        let Some(version) = member(entry, "version") else {
            return Err(wrong("the dependency has no `version`", entry.at));
        };
        let name = repository.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Some(Self { host, name, version: version.text()?.to_owned() }))
    }

    pub(super) fn is_of(&self, base: &Location) -> bool {
        base.repository().is_some_and(|name| same_host(name.host(), &self.host)) && is_short_for(&self.name, base)
    }
}

/// A member of a map that may have any others.
fn member<'n>(node: &'n YamlNode, key: &str) -> Option<&'n YamlNode> {
    let YamlValue::Map(members) = &node.value else { return None };
    members.iter().find_map(|(name, _, value)| (name == key).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{BasePolicy, PolicyPreset};

    const FILE: &str = r#"dependencies:
  - name: "zeitgeist"
    version: v0.5.4
    refPaths: [{path: hack/x.sh, match: 'zeitgeist@v.*'}]
  - name: "registry.k8s.io/debian-base: dependents"
    version: bookworm-v1.0.4
    refPaths:
    - path: cluster/images/etcd/Makefile
      match: BASEIMAGE\?\=registry\.k8s\.io\/build-image\/debian-base:[a-zA-Z]+
  - name: "registry.k8s.io/go-runner: dependents"
    version: v2.4.0-go1.24.4-bookworm.0
  - name: "registry.k8s.io/build-image/setcap: dependents"
    version: bookworm-v1.0.4
  - name: "registry.k8s.io/pause"
    version: 3.10
  - name: "evil.io/distroless-iptables: dependents"
    version: v0
"#;

    #[test]
    fn the_bases_of_the_policy_get_their_versions() {
        let dependencies = Dependency::read_all(FILE).unwrap();
        let versions = |policy: &BasePolicy| -> Vec<String> {
            policy.versions_in(&dependencies).iter().map(ToString::to_string).collect()
        };
        let all = [
            "registry.k8s.io/build-image/go-runner:v2.4.0-go1.24.4-bookworm.0",
            "registry.k8s.io/build-image/debian-base:bookworm-v1.0.4",
            "registry.k8s.io/build-image/setcap:bookworm-v1.0.4",
        ];
        assert_eq!(versions(&PolicyPreset::Kubernetes.policy()), all);
        assert_eq!(versions(&BasePolicy::default()), [all[1], all[0], all[2]], "each once");
    }

    #[test]
    fn what_is_no_such_file_is_named_with_its_place() {
        for (text, place) in [
            ("images: []\n", "line 1"),
            ("dependencies:\n- version: v1\n", "line 2"),
            ("dependencies:\n- name: a.io/b\n", "line 2"),
            ("dependencies:\n- name: a.io/b\n  version: [v1]\n", "line 3"),
        ] {
            let error = Dependency::read_all(text).unwrap_err();
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
    }
}
