//! Where a command stands, which decides what its variables may become.
//!
//! The kubelet expands `$(NAME)` before any shell starts: in the command of a container from every
//! declared variable, in a probe from literal values only, in a hook from none. An image's command
//! is never expanded (k/k `ExpandContainerCommandAndArgs`, `ExpandContainerCommandOnlyStatic`).

use std::collections::BTreeMap;

/// What is known about the value of a variable that a container declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// `value:` in the manifest.
    Literal(String),
    /// One word without blanks or characters that a shell would act on: a `fieldRef` to a name or an address.
    OneWord,
    /// Anything: a secret, a config map.
    Unknown,
}

/// The variables of an image that may be written into its command.
pub type Frozen = BTreeMap<String, String>;

/// Where the command stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The config of an image.
    Image { frozen: Frozen },
    /// `command` and `args` of a container. Of the image's own variables only `frozen` are known.
    Container { declared: BTreeMap<String, Declared>, frozen: Frozen },
    /// An exec probe.
    Probe { declared: BTreeMap<String, Declared> },
    /// A lifecycle hook.
    Hook,
}

/// Whether the kubelet replaces `$(NAME)` and `$$`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kubelet {
    Expands,
    Keeps,
}

impl Place {
    pub(super) fn kubelet(&self) -> Kubelet {
        match self {
            Self::Image { .. } | Self::Hook => Kubelet::Keeps,
            Self::Container { .. } | Self::Probe { .. } => Kubelet::Expands,
        }
    }

    pub(super) fn declared(&self, name: &str) -> Option<&Declared> {
        match self {
            Self::Container { declared, .. } | Self::Probe { declared } => declared.get(name),
            Self::Image { .. } | Self::Hook => None,
        }
    }

    pub(super) fn frozen(&self, name: &str) -> Option<&str> {
        match self {
            Self::Image { frozen } | Self::Container { frozen, .. } => frozen.get(name).map(String::as_str),
            Self::Probe { .. } | Self::Hook => None,
        }
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.declared(name).is_some() || self.frozen(name).is_some()
    }
}

/// Whether a shell reads `value`, unquoted, as exactly this one word.
pub(super) fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c))
}
