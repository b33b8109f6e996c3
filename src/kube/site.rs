//! The places of a pod where a command stands: containers of every kind, their probes and hooks.

use super::object::Pod;
use super::tree::{Id, Tree};
use crate::error::{Error, Result};

/// A place where a command stands.
#[derive(Debug, Clone)]
pub(super) struct Site {
    /// Which of the pods.
    pub pod: usize,
    pub container: Id,
    pub what: What,
    pub command: Option<Id>,
    /// Only a container has arguments apart from its command.
    pub args: Option<Id>,
}

/// What is started there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Command,
    Probe(&'static str),
    Hook(&'static str),
}

impl What {
    /// The key of the container that it stands under.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Probe(key) | Self::Hook(key) => key,
        }
    }
}

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];
const HOOKS: [&str; 2] = ["postStart", "preStop"];

pub(super) fn sites(tree: &Tree, pods: &[Pod]) -> Result<Vec<Site>> {
    let mut found = Vec::new();
    let mut looked_at = 0;
    for (pod, spec) in pods.iter().enumerate() {
        let lists = CONTAINERS.iter().filter_map(|key| tree.get(spec.spec, key));
        for container in lists.flat_map(|list| tree.items(list)) {
            looked_at += 1;
            if looked_at > tree.len() {
                return Err(Error::input("the aliases of the manifest make too many containers"));
            }
            of_container(tree, pod, tree.resolved(*container), &mut found);
        }
    }
    Ok(found)
}

fn of_container(tree: &Tree, pod: usize, container: Id, found: &mut Vec<Site>) {
    let own = |key: &str| tree.get(container, key).filter(|id| !tree.is_null(*id));
    let (command, args) = (own("command"), own("args"));
    if command.is_some() || args.is_some() {
        found.push(Site { pod, container, what: What::Command, command, args });
    }
    let probes = PROBES.iter().map(|key| (What::Probe(key), vec![*key, "exec", "command"]));
    let hooks = HOOKS.iter().map(|key| (What::Hook(key), vec!["lifecycle", *key, "exec", "command"]));
    for (what, path) in probes.chain(hooks) {
        if let Some(command) = tree.path(container, &path).filter(|id| !tree.is_null(*id)) {
            found.push(Site { pod, container, what, command: Some(command), args: None });
        }
    }
}

/// The words of a list; `None` where an item is not a string to every reader.
pub(super) fn words(tree: &Tree, list: Option<Id>) -> Option<Vec<String>> {
    let Some(list) = list else { return Some(Vec::new()) };
    if !matches!(tree.node(list).kind, super::tree::Kind::Sequence { .. }) {
        return None;
    }
    tree.items(list).iter().map(|item| tree.word(*item).map(str::to_owned)).collect()
}
