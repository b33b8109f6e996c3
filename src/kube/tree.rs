//! A manifest as nodes with their byte ranges. The rule it owns: aliases are never written
//! out, so a tree is never larger than its text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::yaml::Position;

/// A node of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TreeNodeId(usize);

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    Single,
    Double,
    Literal,
    Folded,
}

/// How a collection is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectionStyle {
    Block,
    Flow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeKind {
    Scalar {
        text: String,
        style: ScalarStyle,
    },
    Sequence {
        items: Vec<TreeNodeId>,
        layout: CollectionStyle,
    },
    /// Invariant: keys are scalars, and no key appears twice.
    Mapping {
        entries: Vec<(TreeNodeId, TreeNodeId)>,
        layout: CollectionStyle,
    },
    Alias(TreeNodeId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeNode {
    pub kind: NodeKind,
    /// A block collection has only a beginning.
    pub range: Range<usize>,
    pub anchor: Option<String>,
    pub tag: Option<String>,
    pub parent: Option<TreeNodeId>,
}

/// All documents of a file.
#[derive(Debug)]
pub(super) struct ManifestTree {
    nodes: Vec<TreeNode>,
    keys: BTreeMap<TreeNodeId, BTreeMap<String, TreeNodeId>>,
    pub roots: Vec<TreeNodeId>,
    pub comments: Vec<String>,
    nothing: TreeNode,
}

/// More merges than this are not followed for one key.
const MOST_MERGES: usize = 64;

impl Default for ManifestTree {
    fn default() -> Self {
        let kind = NodeKind::Scalar { text: String::new(), style: ScalarStyle::Plain };
        let nothing = TreeNode { kind, range: 0..0, anchor: None, tag: None, parent: None };
        Self { nodes: Vec::new(), keys: BTreeMap::new(), roots: Vec::new(), comments: Vec::new(), nothing }
    }
}

impl ManifestTree {
    pub fn add(&mut self, node: TreeNode) -> TreeNodeId {
        self.nodes.push(node);
        TreeNodeId(self.nodes.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, id: TreeNodeId) -> &TreeNode {
        self.nodes.get(id.0).unwrap_or(&self.nothing)
    }

    pub fn node_mut(&mut self, id: TreeNodeId) -> Option<&mut TreeNode> {
        self.nodes.get_mut(id.0)
    }

    /// Remembers that `key` leads to `value`; `false` where it already led somewhere.
    pub fn index(&mut self, mapping: TreeNodeId, key: String, value: TreeNodeId) -> bool {
        self.keys.entry(mapping).or_default().insert(key, value).is_none()
    }

    /// What an alias refers to; other nodes are themselves.
    pub fn resolved(&self, id: TreeNodeId) -> TreeNodeId {
        match self.node(id).kind {
            NodeKind::Alias(target) => target,
            _ => id,
        }
    }

    /// The value of `key` in a mapping or in what is merged into it, aliases followed.
    pub fn get(&self, mapping: TreeNodeId, key: &str) -> Option<TreeNodeId> {
        self.entry(mapping, key).map(|value| self.resolved(value))
    }

    fn entry(&self, mapping: TreeNodeId, key: &str) -> Option<TreeNodeId> {
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
                    NodeKind::Sequence { items, .. } => {
                        waiting.extend(items.iter().take(MOST_MERGES).rev().map(|item| self.resolved(*item)));
                    }
                    _ => waiting.push(merged),
                }
            }
        }
        None
    }

    /// Follows keys from a mapping.
    pub fn path(&self, from: TreeNodeId, keys: &[&str]) -> Option<TreeNodeId> {
        keys.iter().try_fold(from, |id, key| self.get(id, key))
    }

    /// The entry as it is written in this mapping itself.
    pub fn own_entry(&self, mapping: TreeNodeId, key: &str) -> Option<(TreeNodeId, TreeNodeId)> {
        let NodeKind::Mapping { entries, .. } = &self.node(mapping).kind else { return None };
        entries.iter().copied().find(|(name, _)| self.text(*name) == Some(key))
    }

    /// The text of a scalar, whatever its type.
    pub fn text(&self, id: TreeNodeId) -> Option<&str> {
        match &self.node(self.resolved(id)).kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub fn text_at(&self, mapping: TreeNodeId, key: &str) -> Option<&str> {
        self.get(mapping, key).and_then(|id| self.text(id))
    }

    /// The items of a sequence; none where it is something else.
    pub fn items(&self, id: TreeNodeId) -> &[TreeNodeId] {
        match &self.node(self.resolved(id)).kind {
            NodeKind::Sequence { items, .. } => items,
            _ => &[],
        }
    }

    pub fn is_null(&self, id: TreeNodeId) -> bool {
        let node = self.node(self.resolved(id));
        let is_empty = |text: &str| matches!(text, "" | "~" | "null" | "Null" | "NULL");
        matches!(&node.kind, NodeKind::Scalar { text, style: ScalarStyle::Plain } if is_empty(text))
    }

    /// The text of a scalar that every reader takes for a string.
    pub fn word(&self, id: TreeNodeId) -> Option<&str> {
        let node = self.node(self.resolved(id));
        match &node.kind {
            NodeKind::Scalar { .. } if node.tag.is_some() => None,
            NodeKind::Scalar { text, style: ScalarStyle::Plain } if !super::scalar::is_text(text) => None,
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// How often each node is there when aliases are written out.
    pub fn occurrences(&self) -> Occurrences {
        let mut open = vec![0_usize; self.nodes.len()];
        let mut count = vec![0_u64; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let target = if let NodeKind::Alias(target) = node.kind { Some(target.0) } else { None };
            for led_to in node.parent.map(|_| at).into_iter().chain(target) {
                open.get_mut(led_to).into_iter().for_each(|slot| *slot += 1);
            }
        }
        let mut ready: Vec<TreeNodeId> = self.roots.clone();
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

    fn leads_to(&self, id: TreeNodeId) -> Vec<TreeNodeId> {
        match &self.node(id).kind {
            NodeKind::Scalar { .. } => Vec::new(),
            NodeKind::Sequence { items, .. } => items.clone(),
            NodeKind::Mapping { entries, .. } => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
            NodeKind::Alias(target) => vec![*target],
        }
    }
}

/// How often nodes occur.
#[derive(Debug)]
pub(super) struct Occurrences(Vec<u64>);

impl Occurrences {
    pub fn of(&self, id: TreeNodeId) -> u64 {
        self.0.get(id.0).copied().unwrap_or(0)
    }
}

/// Positions of many bytes of one text, without counting its lines again for each.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    pub fn position(&self, at: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(start..at).map_or(0, |part| part.chars().count());
        Position { line, column: column + 1 }
    }
}

/// The byte of the manifest that byte `at` of a scalar's text comes from; the beginning of the
/// scalar where that is not plain to see.
pub(super) fn within(source: &str, node: &TreeNode, at: usize) -> usize {
    let NodeKind::Scalar { text, style } = &node.kind else { return node.range.start };
    let start = node.range.start;
    match style {
        ScalarStyle::Plain if source.get(node.range.clone()) == Some(text) => start + at,
        ScalarStyle::Single | ScalarStyle::Double
            if source.get(start + 1..node.range.end.saturating_sub(1)) == Some(text.as_str()) =>
        {
            start + 1 + at
        }
        ScalarStyle::Literal => literal(source, start, text, at).unwrap_or(start),
        _ => start,
    }
}

/// In a literal block each line of the text is one of the manifest, after the same indentation.
fn literal(source: &str, start: usize, text: &str, at: usize) -> Option<usize> {
    let line_start = source.get(..start)?.rfind('\n')? + 1;
    let indentation = start - line_start;
    if text.starts_with([' ', '\n']) {
        return None;
    }
    let before = text.get(..at)?;
    let line = before.matches('\n').count();
    let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
    let mut begins = line_start;
    for _ in 0..line {
        begins += source.get(begins..)?.find('\n')? + 1;
    }
    let found = begins + indentation + column;
    let wanted = text.get(at..)?.chars().next();
    (source.get(found..)?.chars().next() == wanted).then_some(found)
}
