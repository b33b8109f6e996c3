//! The answers: what the later stages decide on.

use super::account::{self, UnknownAccount};
use super::command::{Command, ShellForm};
use super::container::Container;
use super::oddity::{Oddity, oddities};
use super::program::{Start, start};
use super::subject::{PlatformSubject, Subject};
use crate::rootfs::merge;

/// The subject with the answers beside it, platform by platform in the same order.
#[derive(Debug)]
pub struct Facts {
    pub subject: Subject,
    pub platforms: Vec<PlatformFacts>,
}

#[derive(Debug, Clone)]
pub struct PlatformFacts {
    /// The command as it is.
    pub command: Command,
    /// What a container starts with once the image has moved.
    pub container: Container,
    pub shell_form: Option<ShellForm>,
    pub start: Start,
    pub unknown_accounts: Vec<UnknownAccount>,
    pub oddities: Vec<Oddity>,
    /// What reading the layers brought up, such as a wrong media type.
    pub layer_notes: Vec<String>,
    /// The image stands on the new base already, in OCI's own media types: nothing to do.
    pub already_right: bool,
}

/// Puts all questions to the subject.
#[must_use]
pub fn look(subject: Subject) -> Facts {
    let platforms = subject.platforms.iter().map(look_at).collect();
    Facts { subject, platforms }
}

fn look_at(subject: &PlatformSubject) -> PlatformFacts {
    let already_right = already_right(subject);
    let container = if already_right { Container::of(&subject.source.config) } else { Container::moved(subject) };
    let root = merge(subject.base_layers.iter().chain(&subject.layers).map(AsRef::as_ref));
    PlatformFacts {
        command: Command::of(&subject.source.config),
        shell_form: container.command.shell_form(),
        start: start(&container, &root),
        unknown_accounts: account::unknown(&container, &root),
        container,
        oddities: oddities(&subject.source.config),
        layer_notes: layer_notes(subject),
        already_right,
    }
}

fn layer_notes(subject: &PlatformSubject) -> Vec<String> {
    let note = |layer: &crate::layer::LayerIndex| {
        layer.notes.iter().map(|note| format!("layer {}: {note}", layer.digest.short())).collect::<Vec<_>>()
    };
    subject.layers.iter().flat_map(|layer| note(layer)).collect()
}

fn already_right(subject: &PlatformSubject) -> bool {
    let source = &subject.source;
    // Bases may share all layers and differ in their config, as distroless' `latest` and `nonroot` do.
    let old = subject.old_base.image.as_ref().map(|image| image.config.digest());
    let stands_on_it = old == Some(subject.base.config.digest()) && subject.base.is_under(source);
    let is_oci = source.document.media_type().is_oci()
        && source.manifest.config.media_type.is_oci()
        && source.layers.iter().all(|layer| layer.descriptor.media_type.is_oci());
    stands_on_it && is_oci
}
