//! A manifest as nodes with the bytes they stand at. The rule it owns: aliases are never written
//! out, so a tree is never larger than its text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A node of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(usize);

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
    Folded,
}

/// How a collection is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Block,
    Flow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar {
        text: String,
        style: Style,
    },
    Sequence {
        items: Vec<Id>,
        layout: Layout,
    },
    /// Invariant: keys are scalars, and each stands there once.
    Mapping {
        entries: Vec<(Id, Id)>,
        layout: Layout,
    },
    Alias(Id),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub kind: Kind,
    /// A block collection has only a beginning.
    pub range: Range<usize>,
    pub anchor: Option<String>,
    pub tag: Option<String>,
    pub parent: Option<Id>,
}

/// All documents of a file.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    keys: BTreeMap<Id, BTreeMap<String, Id>>,
    pub roots: Vec<Id>,
    pub comments: Vec<String>,
    nothing: Node,
}

/// More of them are not looked into for one key.
const MOST_MERGES: usize = 64;

impl Default for Tree {
    fn default() -> Self {
        let kind = Kind::Scalar { text: String::new(), style: Style::Plain };
        let nothing = Node { kind, range: 0..0, anchor: None, tag: None, parent: None };
        Self { nodes: Vec::new(), keys: BTreeMap::new(), roots: Vec::new(), comments: Vec::new(), nothing }
    }
}

impl Tree {
    pub fn add(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        Id(self.nodes.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, id: Id) -> &Node {
        self.nodes.get(id.0).unwrap_or(&self.nothing)
    }

    pub fn node_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(id.0)
    }

    /// Remembers that `key` leads to `value`; `false` where it already led somewhere.
    pub fn index(&mut self, mapping: Id, key: String, value: Id) -> bool {
        self.keys.entry(mapping).or_default().insert(key, value).is_none()
    }

    /// What an alias stands for; other nodes are themselves.
    pub fn resolved(&self, id: Id) -> Id {
        match self.node(id).kind {
            Kind::Alias(target) => target,
            _ => id,
        }
    }

    /// The value of `key` in a mapping or in what is merged into it, aliases followed.
    pub fn get(&self, mapping: Id, key: &str) -> Option<Id> {
        self.entry(mapping, key).map(|value| self.resolved(value))
    }

    fn entry(&self, mapping: Id, key: &str) -> Option<Id> {
        let mut waiting = vec![self.resolved(mapping)];
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) || seen.len() > MOST_MERGES {
                continue;
            }
            let Some(keys) = self.keys.get(&id) else { continue };
            if let Some(value) = keys.get(key) {
                return Some(*value);
            }
            if let Some(merged) = keys.get("<<") {
                let merged = self.resolved(*merged);
                match &self.node(merged).kind {
                    // Of several, the first that has the key counts.
                    Kind::Sequence { items, .. } => {
                        waiting.extend(items.iter().take(MOST_MERGES).rev().map(|item| self.resolved(*item)));
                    }
                    _ => waiting.push(merged),
                }
            }
        }
        None
    }

    /// Follows keys from a mapping.
    pub fn path(&self, from: Id, keys: &[&str]) -> Option<Id> {
        keys.iter().try_fold(from, |id, key| self.get(id, key))
    }

    /// The entry as it is written in this mapping itself.
    pub fn own_entry(&self, mapping: Id, key: &str) -> Option<(Id, Id)> {
        let Kind::Mapping { entries, .. } = &self.node(mapping).kind else { return None };
        entries.iter().copied().find(|(name, _)| self.text(*name) == Some(key))
    }

    /// The text of a scalar, whatever its type.
    pub fn text(&self, id: Id) -> Option<&str> {
        match &self.node(self.resolved(id)).kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub fn text_at(&self, mapping: Id, key: &str) -> Option<&str> {
        self.get(mapping, key).and_then(|id| self.text(id))
    }

    /// The items of a sequence; none where it is something else.
    pub fn items(&self, id: Id) -> &[Id] {
        match &self.node(self.resolved(id)).kind {
            Kind::Sequence { items, .. } => items,
            _ => &[],
        }
    }

    pub fn is_null(&self, id: Id) -> bool {
        let node = self.node(self.resolved(id));
        let is_empty = |text: &str| matches!(text, "" | "~" | "null" | "Null" | "NULL");
        matches!(&node.kind, Kind::Scalar { text, style: Style::Plain } if is_empty(text))
    }

    /// The text of a scalar that every reader takes for a string.
    pub fn word(&self, id: Id) -> Option<&str> {
        let node = self.node(self.resolved(id));
        match &node.kind {
            Kind::Scalar { .. } if node.tag.is_some() => None,
            Kind::Scalar { text, style: Style::Plain } if !super::scalar::is_text(text) => None,
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// How often each node is there when aliases are written out.
    pub fn occurrences(&self) -> Occurrences {
        let mut open = vec![0_usize; self.nodes.len()];
        let mut count = vec![0_u64; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let target = if let Kind::Alias(target) = node.kind { Some(target.0) } else { None };
            for led_to in node.parent.map(|_| at).into_iter().chain(target) {
                open.get_mut(led_to).into_iter().for_each(|slot| *slot += 1);
            }
        }
        let mut ready: Vec<Id> = self.roots.clone();
        self.roots.iter().for_each(|root| count.get_mut(root.0).into_iter().for_each(|slot| *slot = 1));
        while let Some(id) = ready.pop() {
            let times = count.get(id.0).copied().unwrap_or(0);
            for child in self.leads_to(id) {
                if let Some(slot) = count.get_mut(child.0) {
                    *slot = slot.saturating_add(times);
                }
                if let Some(slot) = open.get_mut(child.0) {
                    *slot = slot.saturating_sub(1);
                    if *slot == 0 {
                        ready.push(child);
                    }
                }
            }
        }
        Occurrences(count)
    }

    fn leads_to(&self, id: Id) -> Vec<Id> {
        match &self.node(id).kind {
            Kind::Scalar { .. } => Vec::new(),
            Kind::Sequence { items, .. } => items.clone(),
            Kind::Mapping { entries, .. } => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
            Kind::Alias(target) => vec![*target],
        }
    }
}

/// How often nodes occur.
#[derive(Debug)]
pub(super) struct Occurrences(Vec<u64>);

impl Occurrences {
    pub fn of(&self, id: Id) -> u64 {
        self.0.get(id.0).copied().unwrap_or(0)
    }
}
