//! What a container declares: its variables, as far as their values are known, and its volumes.
//!
//! A variable whose source may be missing is not declared: the kubelet would leave `$(NAME)` as it
//! is, where a shell inserts nothing.

use std::collections::BTreeMap;

use super::template::is_mask;
use super::tree::{ManifestTree, TreeNodeId};
use shell::Declared;

/// Fields of a pod that are never empty and hold no blanks.
const ONE_WORD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
];

pub(super) fn declared(tree: &ManifestTree, container: TreeNodeId) -> BTreeMap<String, Declared> {
    let entries = tree.get(container, "env").map(|env| tree.items(env)).unwrap_or_default();
    let mut declared = BTreeMap::new();
    for entry in entries {
        let Some(name) = tree.text_at(*entry, "name") else { continue };
        // Of several with one name the last counts.
        match value(tree, *entry) {
            Some(value) => drop(declared.insert(name.to_owned(), value)),
            None => drop(declared.remove(name)),
        }
    }
    declared
}

fn value(tree: &ManifestTree, entry: TreeNodeId) -> Option<Declared> {
    let Some(from) = tree.get(entry, "valueFrom") else {
        let Some(value) = tree.get(entry, "value") else { return Some(Declared::Literal(String::new())) };
        let literal = tree.word(value).filter(|text| !text.contains('$') && !text.contains(is_mask));
        return Some(literal.map_or(Declared::Unknown, |text| Declared::Literal(text.to_owned())));
    };
    if let Some(field) = tree.path(from, &["fieldRef", "fieldPath"]).and_then(|path| tree.text(path)) {
        return Some(if ONE_WORD.contains(&field) { Declared::OneWord } else { Declared::Unknown });
    }
    if tree.get(from, "resourceFieldRef").is_some() {
        return Some(Declared::OneWord);
    }
    let source = ["secretKeyRef", "configMapKeyRef"].iter().find_map(|key| tree.get(from, key))?;
    let is_sure = matches!(tree.text_at(source, "optional"), None | Some("false"));
    is_sure.then_some(Declared::Unknown)
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounted {
    OnVolume,
    Nowhere,
    /// A placeholder or a variable hides it.
    Unknown,
}

/// Whether a volume of the container brings the file.
pub(super) fn mounted(tree: &ManifestTree, container: TreeNodeId, path: &str) -> Mounted {
    if path.contains("$(") || path.contains(is_mask) || !path.starts_with('/') {
        return Mounted::Unknown;
    }
    let mounts = tree.get(container, "volumeMounts").map(|list| tree.items(list)).unwrap_or_default();
    let mut facts = Mounted::Nowhere;
    for mount in mounts {
        let place = tree.text_at(*mount, "mountPath").map(|place| place.trim_end_matches('/'));
        match place {
            Some(place) if covers(place, path) => return Mounted::OnVolume,
            Some(place) if !place.contains(is_mask) => {}
            _ => facts = Mounted::Unknown,
        }
    }
    facts
}

fn covers(place: &str, path: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn what_is_known_depends_on_where_the_value_comes_from() {
        let text = "env:
- {name: A, value: x y}
- {name: B, value: '$(A)'}
- {name: C}
- {name: D, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: E, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['x']\"}}}
- {name: F, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
- {name: G, valueFrom: {secretKeyRef: {name: s, key: k}}}
- {name: H, valueFrom: {configMapKeyRef: {name: s, key: k, optional: true}}}
- {name: A, value: z}
- {name: I, value: 5}
- {name: J, valueFrom: {later: {}}}
";
        let tree = yaml::read(text).unwrap();
        let got = declared(&tree, tree.roots[0]);
        let literal = |text: &str| Declared::Literal(text.to_owned());
        let expected = [
            ("A", literal("z")),
            ("B", Declared::Unknown),
            ("C", literal("")),
            ("D", Declared::OneWord),
            ("E", Declared::Unknown),
            ("F", Declared::OneWord),
            ("G", Declared::Unknown),
            ("I", Declared::Unknown),
        ];
        let expected = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_path_is_on_the_volume_that_covers_it() {
        let tree =
            yaml::read("volumeMounts:\n- {name: a, mountPath: /var/log/}\n- {name: b, mountPath: /l.log}\n").unwrap();
        for (path, expected) in [
            ("/var/log/a.log", Mounted::OnVolume),
            ("/l.log", Mounted::OnVolume),
            ("/var/logs/a", Mounted::Nowhere),
            ("/l.log2", Mounted::Nowhere),
            ("/var/$(A)", Mounted::Unknown),
            ("a.log", Mounted::Unknown),
        ] {
            assert_eq!(mounted(&tree, tree.roots[0], path), expected, "{path}");
        }
    }
}
