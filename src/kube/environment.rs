//! What is known of the variables that a container declares.
//!
//! A variable whose source may be missing is not declared: the kubelet would leave `$(NAME)` as it
//! stands, where a shell puts nothing.

use std::collections::BTreeMap;

use super::tree::{Id, Tree};
use crate::shell::Declared;

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

pub(super) fn declared(tree: &Tree, container: Id) -> BTreeMap<String, Declared> {
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

fn value(tree: &Tree, entry: Id) -> Option<Declared> {
    let Some(from) = tree.get(entry, "valueFrom") else {
        let Some(value) = tree.get(entry, "value") else { return Some(Declared::Literal(String::new())) };
        let literal = tree.word(value).filter(|text| !text.contains('$') && !text.contains(super::template::is_mask));
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
}
