//! What the source of one platform is. Nothing here depends on what was asked for.

use std::sync::{Arc, OnceLock};

use super::ownership::{self, LayerOwnership};
use super::subject::PlatformSubject;
use crate::process::Command;
use layer::LayerIndex;
use oci::{Config, ImageLayer};

/// The facts that the later stages decide on.
#[derive(Debug)]
pub struct Facts {
    /// The command as it is.
    pub command: Command,
    /// The source's layers above the old base, in order.
    pub layers: Vec<LayerFacts>,
    /// The old base's layers, as far as they have been read.
    pub old_layers: Vec<LayerFacts>,
    pub oddities: Vec<Oddity>,
    /// What reading the layers brought up, such as a wrong media type.
    pub layer_notes: Vec<String>,
    /// The image is based on the new base already, in OCI's own media types.
    pub is_on_new_base: bool,
}

/// One layer of the source, read.
#[derive(Debug)]
pub struct LayerFacts {
    pub layer: ImageLayer,
    pub index: Arc<LayerIndex>,
    /// Computed when it is asked for: those of the old base seldom are.
    owners: OnceLock<LayerOwnership>,
}

impl LayerFacts {
    #[must_use]
    pub const fn new(layer: ImageLayer, index: Arc<LayerIndex>) -> Self {
        Self { layer, index, owners: OnceLock::new() }
    }

    /// Whom each entry of the layer belongs to.
    #[must_use]
    pub fn owners(&self) -> &LayerOwnership {
        self.owners.get_or_init(|| ownership::of(&self.index))
    }
}

/// Finds the facts.
#[must_use]
pub fn look(subject: &PlatformSubject) -> Facts {
    let (below, above) = subject.source_layers();
    Facts {
        command: Command::of(&subject.source.config),
        layers: layers(above, &subject.layers),
        old_layers: layers(below, &subject.old_layers),
        oddities: oddities(&subject.source.config),
        layer_notes: layer_notes(subject),
        is_on_new_base: is_on_new_base(subject),
    }
}

fn layers(of: &[ImageLayer], read: &[Arc<LayerIndex>]) -> Vec<LayerFacts> {
    of.iter().zip(read).map(|(layer, index)| LayerFacts::new(layer.clone(), Arc::clone(index))).collect()
}

fn layer_notes(subject: &PlatformSubject) -> Vec<String> {
    let notes = |layer: &Arc<LayerIndex>| {
        let digest = layer.digest.short();
        layer.notes.iter().map(|note| format!("layer {digest}: {note}")).collect::<Vec<_>>()
    };
    subject.layers.iter().flat_map(notes).collect()
}

/// Whether the image is based on the new base already, in OCI's own media types.
#[must_use]
pub fn is_on_new_base(subject: &PlatformSubject) -> bool {
    let source = &subject.source;
    // Bases may share all layers and differ in their config, as distroless' `latest` and `nonroot` do.
    let old = subject.old_base.image.as_ref().map(|image| image.config.digest());
    let is_based_on_it = old == Some(subject.base.config.digest()) && subject.base.is_under(source);
    let is_oci = source.document.media_type().is_oci()
        && source.manifest.config.media_type.is_oci()
        && source.layers.iter().all(|layer| layer.descriptor.media_type.is_oci());
    is_based_on_it && is_oci
}

/// Something odd in the source's config, carried as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// The member of the config, such as `Env`.
    pub member: &'static str,
    pub value: String,
    pub why: &'static str,
}

/// All oddities of `config`, in the order of its members.
pub(super) fn oddities(config: &Config) -> Vec<Oddity> {
    user(config).into_iter().chain(environment(config)).collect()
}

/// CVE-2024-40635, CVE-2026-46680: numbers that a runtime may read as root or as a name.
fn user(config: &Config) -> Option<Oddity> {
    let container = config.container();
    let user = container.get("User")?.as_str()?;
    let name = user.split(':').next().unwrap_or_default();
    let why = match name.parse::<u64>() {
        Ok(id) if id > i32::MAX as u64 => {
            "the number is larger than a user id can be; runtimes disagree on what it means"
        }
        Ok(_) if name.starts_with('+') => "a sign does not belong to a user id",
        Err(_) if looks_numeric(name) => "it looks like a number and is not one; runtimes disagree on what it means",
        _ => return None,
    };
    Some(Oddity { member: "User", value: user.to_owned(), why })
}

fn looks_numeric(name: &str) -> bool {
    let trimmed = name.trim();
    let digits = trimmed.trim_start_matches(['+', '-']);
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    !digits.is_empty()
        && (trimmed != name || digits != trimmed || !digits.is_ascii())
        && digits.chars().all(char::is_numeric)
}

fn environment(config: &Config) -> Vec<Oddity> {
    let entries = config.strings("Env");
    let mut seen = std::collections::HashSet::new();
    let mut found = Vec::new();
    for entry in &entries {
        let why = match entry.split_once('=') {
            // CVE-2026-57231: a bare name or `*` pulled in the host's variables.
            None => "it has no `=`; some runtimes take the host's value",
            Some(("", _)) => "it has no name",
            Some(("LD_PRELOAD", _)) => "it loads a library into every program",
            Some((name, _)) if !seen.insert(name) => "the name is set twice; runtimes use the last",
            Some(_) => continue,
        };
        let name = entry.split('=').next().unwrap_or_default();
        found.push(Oddity { member: "Env", value: name.chars().take(80).collect(), why });
    }
    found
}

#[cfg(test)]
mod oddity_tests {
    use super::*;

    fn config(container: &serde_json::Value) -> Config {
        let value = serde_json::json!({"os": "linux", "architecture": "amd64", "config": container, "rootfs": {"diff_ids": []}});
        Config::read(value.to_string().into_bytes()).unwrap()
    }

    #[test]
    fn strange_users_are_named() {
        for (user, odd) in [
            ("4294967296", true),
            ("2147483648", true),
            ("-1", true),
            (" 0", true),
            ("+0", true),
            ("0x0", true),
            ("٣", true),
            ("65532:65532", false),
            ("0", false),
            ("nonroot", false),
            ("", false),
        ] {
            let found = oddities(&config(&serde_json::json!({ "User": user })));
            assert_eq!(!found.is_empty(), odd, "{user:?}: {found:?}");
        }
    }

    #[test]
    fn strange_environment_is_named_without_its_value() {
        let found = oddities(&config(
            &serde_json::json!({"Env": ["SECRET", "*", "=x", "A=1", "A=hidden", "LD_PRELOAD=/x", "B=2"]}),
        ));
        let names: Vec<_> = found.iter().map(|oddity| oddity.value.as_str()).collect();
        assert_eq!(names, ["SECRET", "*", "", "A", "LD_PRELOAD"]);
    }
}
