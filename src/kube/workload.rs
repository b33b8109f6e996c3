//! Where the commands of a manifest are: its workloads, their pod specs, and in these the containers
//! of every kind with their probes and lifecycle hooks.
//!
//! The kinds that Kubernetes itself has are read where their pod template is; in a custom
//! resource, whatever has a list of named containers is taken for a pod spec.

use std::collections::BTreeSet;

use super::tree::{ManifestTree, NodeKind, TreeNodeId};
use oci::error::{Error, Result};

/// A pod spec, and the object that it is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub spec: TreeNodeId,
    pub object: ObjectName,
}

/// What an object is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectName {
    pub kind: String,
    pub name: String,
}

/// Kinds and the way to their pod spec.
const KNOWN: &[(&str, &[&str])] = &[
    ("Pod", &["spec"]),
    ("PodTemplate", &["template", "spec"]),
    ("Deployment", &["spec", "template", "spec"]),
    ("ReplicaSet", &["spec", "template", "spec"]),
    ("ReplicationController", &["spec", "template", "spec"]),
    ("DaemonSet", &["spec", "template", "spec"]),
    ("StatefulSet", &["spec", "template", "spec"]),
    ("Job", &["spec", "template", "spec"]),
    ("CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
];

/// Kinds whose content is data or a schema.
const WITHOUT: &[&str] = &["ConfigMap", "Secret", "CustomResourceDefinition"];

/// Every pod spec of the file, in order; those that aliases repeat are there as often.
pub(super) fn pods(tree: &ManifestTree) -> Result<Vec<Pod>> {
    let mut found = Vec::new();
    let mut waiting: Vec<TreeNodeId> = tree.roots.iter().rev().copied().collect();
    let mut looked_at = 0;
    while let Some(id) = waiting.pop() {
        looked_at += 1;
        if looked_at > tree.len() {
            return Err(Error::input("the aliases of the manifest expand to too many objects"));
        }
        let Some(kind) = tree.text_at(id, "kind") else { continue };
        let items = tree.get(id, "items").map(|items| tree.items(items)).unwrap_or_default();
        if kind.ends_with("List") && !items.is_empty() {
            waiting.extend(items.iter().rev().map(|item| tree.resolved(*item)));
            continue;
        }
        let name = tree.path(id, &["metadata", "name"]).and_then(|name| tree.text(name)).unwrap_or_default();
        let object = ObjectName { kind: kind.to_owned(), name: name.to_owned() };
        found.extend(specs(tree, id, kind).into_iter().map(|spec| Pod { spec, object: object.clone() }));
    }
    Ok(found)
}

fn specs(tree: &ManifestTree, object: TreeNodeId, kind: &str) -> Vec<TreeNodeId> {
    if WITHOUT.contains(&kind) {
        return Vec::new();
    }
    match KNOWN.iter().find(|(known, _)| *known == kind) {
        Some((_, path)) => tree.path(object, path).into_iter().collect(),
        None => search(tree, object),
    }
}

/// Pod specs anywhere in a custom resource.
fn search(tree: &ManifestTree, object: TreeNodeId) -> Vec<TreeNodeId> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![object];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &tree.node(id).kind {
            NodeKind::Mapping { .. } if has_containers(tree, id) => found.push(id),
            NodeKind::Mapping { entries, .. } => {
                let values =
                    entries.iter().rev().filter(|(key, _)| !matches!(tree.text(*key), Some("metadata" | "status")));
                waiting.extend(values.map(|(_, value)| tree.resolved(*value)));
            }
            NodeKind::Sequence { items, .. } => waiting.extend(items.iter().rev().map(|item| tree.resolved(*item))),
            NodeKind::Scalar { .. } | NodeKind::Alias(_) => {}
        }
    }
    found
}

fn has_containers(tree: &ManifestTree, id: TreeNodeId) -> bool {
    let containers = tree.get(id, "containers").map(|list| tree.items(list)).unwrap_or_default();
    !containers.is_empty() && containers.iter().all(|item| tree.text_at(*item, "name").is_some())
}

/// A place in a manifest that has a command.
#[derive(Debug, Clone)]
pub(super) struct CommandSite {
    /// Which of the pods.
    pub pod: usize,
    pub container: TreeNodeId,
    pub what: CommandKind,
    pub command: Option<TreeNodeId>,
    /// Only a container has arguments apart from its command.
    pub args: Option<TreeNodeId>,
}

/// What is started there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    Command,
    Probe(&'static str),
    Hook(&'static str),
}

impl CommandKind {
    /// The key of the container that it is under.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Probe(key) | Self::Hook(key) => key,
        }
    }
}

pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];
const HOOKS: [&str; 2] = ["postStart", "preStop"];

/// Every container of the pods, with the number of its pod.
fn containers(tree: &ManifestTree, pods: &[Pod]) -> Result<Vec<(usize, TreeNodeId)>> {
    let mut found = Vec::new();
    for (pod, spec) in pods.iter().enumerate() {
        let lists = CONTAINERS.iter().filter_map(|key| tree.get(spec.spec, key));
        for container in lists.flat_map(|list| tree.items(list)) {
            if found.len() >= tree.len() {
                return Err(Error::input("the aliases of the manifest expand to too many containers"));
            }
            found.push((pod, tree.resolved(*container)));
        }
    }
    Ok(found)
}

pub(super) fn sites(tree: &ManifestTree, pods: &[Pod]) -> Result<Vec<CommandSite>> {
    let mut found = Vec::new();
    for (pod, container) in containers(tree, pods)? {
        of_container(tree, pod, container, &mut found);
    }
    Ok(found)
}

/// The images of all containers, in order.
pub(super) fn images(tree: &ManifestTree) -> Result<Vec<String>> {
    let containers = containers(tree, &pods(tree)?)?.into_iter();
    Ok(containers.filter_map(|(_, container)| tree.text_at(container, "image").map(str::to_owned)).collect())
}

fn of_container(tree: &ManifestTree, pod: usize, container: TreeNodeId, found: &mut Vec<CommandSite>) {
    let own = |key: &str| tree.get(container, key).filter(|id| !tree.is_null(*id));
    let (command, args) = (own("command"), own("args"));
    if command.is_some() || args.is_some() {
        found.push(CommandSite { pod, container, what: CommandKind::Command, command, args });
    }
    let probes = PROBES.iter().map(|key| (CommandKind::Probe(key), vec![*key, "exec", "command"]));
    let hooks = HOOKS.iter().map(|key| (CommandKind::Hook(key), vec!["lifecycle", *key, "exec", "command"]));
    for (what, path) in probes.chain(hooks) {
        if let Some(command) = tree.path(container, &path).filter(|id| !tree.is_null(*id)) {
            found.push(CommandSite { pod, container, what, command: Some(command), args: None });
        }
    }
}

/// The words of a list; `None` where an item is not a string to every reader.
pub(super) fn words(tree: &ManifestTree, list: Option<TreeNodeId>) -> Option<Vec<String>> {
    let Some(list) = list else { return Some(Vec::new()) };
    if !matches!(tree.node(list).kind, NodeKind::Sequence { .. }) {
        return None;
    }
    tree.items(list).iter().map(|item| tree.word(*item).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::yaml;
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let tree = yaml::read(text).unwrap();
        pods(&tree).unwrap().iter().map(|pod| format!("{} {}", pod.object.kind, pod.object.name)).collect()
    }

    #[test]
    fn every_kind_of_workload_has_its_pod_spec_found() {
        for (kind, path) in KNOWN {
            let mut text = format!("kind: {kind}\nmetadata: {{name: x}}\n");
            for (depth, key) in path.iter().enumerate() {
                writeln!(text, "{}{key}:", "  ".repeat(depth)).unwrap();
            }
            writeln!(text, "{}containers: [{{name: a}}]", "  ".repeat(path.len())).unwrap();
            assert_eq!(names(&text), [format!("{kind} x")], "{text}");
        }
    }

    #[test]
    fn custom_resources_lists_and_several_documents_are_looked_into() {
        let custom =
            "kind: Widget\nspec:\n  pools:\n  - podTemplate: {spec: {containers: [{name: a}]}}\n  - other: 1\n";
        assert_eq!(names(custom), ["Widget "]);
        let list = "kind: List\nitems:\n- {kind: Pod, spec: {containers: []}}\n- {kind: Service}\n---\nkind: Pod\nspec: {}\n...\n---\n---\nkind: ConfigMap\ndata: {containers: [{name: a}]}\n";
        assert_eq!(names(list), ["Pod ", "Pod "]);
        assert_eq!(names("containers: [{name: a}]\n"), [""; 0], "an object has a kind");
        assert_eq!(names("kind: X\ncontainers: [1]\n"), [""; 0]);
    }

    #[test]
    fn lists_of_lists_by_alias_are_not_written_out() {
        let mut text = "kind: List\nitems:\n- &a0 {kind: List, items: [{kind: Pod}]}\n".to_owned();
        for level in 1..40 {
            let before = level - 1;
            writeln!(text, "- &a{level} {{kind: List, items: [*a{before}, *a{before}, *a{before}]}}").unwrap();
        }
        assert!(pods(&yaml::read(&text).unwrap()).is_err());
    }
}
