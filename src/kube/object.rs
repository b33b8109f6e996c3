//! The objects of a manifest, and the pod specs in them.
//!
//! The kinds that Kubernetes itself has are read where their pod template stands; in a custom
//! resource, whatever has a list of named containers is taken for a pod spec.

use std::collections::BTreeSet;

use super::tree::{Id, Kind, Tree};
use crate::error::{Error, Result};

/// A pod spec, and the object that it is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub spec: Id,
    pub object: Name,
}

/// What an object is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Name {
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
pub(super) fn pods(tree: &Tree) -> Result<Vec<Pod>> {
    let mut found = Vec::new();
    let mut waiting: Vec<Id> = tree.roots.iter().rev().copied().collect();
    let mut looked_at = 0;
    while let Some(id) = waiting.pop() {
        looked_at += 1;
        if looked_at > tree.len() {
            return Err(Error::input("the aliases of the manifest make too many objects"));
        }
        let Some(kind) = tree.text_at(id, "kind") else { continue };
        let items = tree.get(id, "items").map(|items| tree.items(items)).unwrap_or_default();
        if kind.ends_with("List") && !items.is_empty() {
            waiting.extend(items.iter().rev().map(|item| tree.resolved(*item)));
            continue;
        }
        let name = tree.path(id, &["metadata", "name"]).and_then(|name| tree.text(name)).unwrap_or_default();
        let object = Name { kind: kind.to_owned(), name: name.to_owned() };
        found.extend(specs(tree, id, kind).into_iter().map(|spec| Pod { spec, object: object.clone() }));
    }
    Ok(found)
}

fn specs(tree: &Tree, object: Id, kind: &str) -> Vec<Id> {
    if WITHOUT.contains(&kind) {
        return Vec::new();
    }
    match KNOWN.iter().find(|(known, _)| *known == kind) {
        Some((_, path)) => tree.path(object, path).into_iter().collect(),
        None => search(tree, object),
    }
}

/// Pod specs anywhere in a custom resource.
fn search(tree: &Tree, object: Id) -> Vec<Id> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![object];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &tree.node(id).kind {
            Kind::Mapping { .. } if has_containers(tree, id) => found.push(id),
            Kind::Mapping { entries, .. } => {
                let values =
                    entries.iter().rev().filter(|(key, _)| !matches!(tree.text(*key), Some("metadata" | "status")));
                waiting.extend(values.map(|(_, value)| tree.resolved(*value)));
            }
            Kind::Sequence { items, .. } => waiting.extend(items.iter().rev().map(|item| tree.resolved(*item))),
            Kind::Scalar { .. } | Kind::Alias(_) => {}
        }
    }
    found
}

fn has_containers(tree: &Tree, id: Id) -> bool {
    let containers = tree.get(id, "containers").map(|list| tree.items(list)).unwrap_or_default();
    !containers.is_empty() && containers.iter().all(|item| tree.text_at(*item, "name").is_some())
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
