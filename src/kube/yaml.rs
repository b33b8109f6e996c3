//! YAML to a tree. The rules it owns: what two readers could read differently is an error, and
//! nothing in a file makes the work grow faster than the file.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScanError, Span, StructureStyle};

use super::tree::{CollectionStyle, ManifestTree, NodeKind, ScalarStyle, TreeNode, TreeNodeId};
use crate::error::{Error, Result};
use crate::yaml::Position;

/// No manifest of a real cluster comes near.
pub(super) const MOST_NODES: usize = 1_000_000;

/// All documents of `text`.
pub(super) fn read(text: &str) -> Result<ManifestTree> {
    let options = granit_parser::options! { emit_anchor_events: true, max_buffered_comment_events: 100_000 };
    let mut builder =
        TreeBuilder { text, tree: ManifestTree::default(), open: Vec::new(), anchors: BTreeMap::new(), last: None };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| unreadable(text, &error))?;
        builder.take(event, &span)?;
        if builder.tree.len() > MOST_NODES {
            return Err(Error::input("the manifest has too many values").fact("most", MOST_NODES));
        }
    }
    Ok(builder.tree)
}

fn unreadable(text: &str, error: &ScanError) -> Error {
    let at = Position::of(text, error.marker().byte_offset().unwrap_or(0));
    let line = text.lines().nth(at.line - 1).unwrap_or_default();
    let indentation = line.len() - line.trim_start().len();
    if line.get(..indentation).is_some_and(|blanks| blanks.contains('\t')) {
        return at.on(Error::input("a YAML line is indented with a tab").hint("indent with spaces"));
    }
    at.on(Error::input("the manifest is not valid YAML").cause(error.info()))
}

/// A collection that is being filled.
struct OpenCollection {
    id: TreeNodeId,
    /// A key that waits for its value.
    key: Option<TreeNodeId>,
}

struct TreeBuilder<'a> {
    text: &'a str,
    tree: ManifestTree,
    open: Vec<OpenCollection>,
    anchors: BTreeMap<usize, TreeNodeId>,
    last: Option<TreeNodeId>,
}

impl TreeBuilder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // A value that is not there is null; the parser writes `~` for it.
                let range = range(span);
                let text = if range.is_empty() && style == granit_parser::ScalarStyle::Plain {
                    String::new()
                } else {
                    text.into_owned()
                };
                let kind = NodeKind::Scalar { text, style: style_of(style) };
                self.insert(kind, anchor, tag.map(|tag| tag.original()), range).map(drop)
            }
            Event::SequenceStart(layout, anchor, tag) => {
                let kind = NodeKind::Sequence { items: Vec::new(), layout: layout_of(layout) };
                self.begin(kind, anchor, tag.map(|tag| tag.original()), span)
            }
            Event::MappingStart(layout, anchor, tag) => {
                let kind = NodeKind::Mapping { entries: Vec::new(), layout: layout_of(layout) };
                self.begin(kind, anchor, tag.map(|tag| tag.original()), span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let end = span.end.byte_offset().unwrap_or(0);
                if let Some(node) = self.open.pop().and_then(|open| self.tree.node_mut(open.id)) {
                    node.range.end = end.max(node.range.start);
                }
                Ok(())
            }
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Anchor(_, name) => {
                if let Some(node) = self.last.and_then(|id| self.tree.node_mut(id)) {
                    node.anchor = Some(name.to_string());
                }
                Ok(())
            }
            Event::Comment(text, _) => {
                self.tree.comments.push(text.trim_end().to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<()> {
        let wrong = |what: &str| Position::of(self.text, range(span).start).on(Error::input(what));
        let target = self.anchors.get(&anchor).copied().ok_or_else(|| wrong("an alias refers to no anchor"))?;
        if self.open.iter().any(|open| open.id == target) {
            return Err(wrong("an alias is inside the value that it refers to"));
        }
        self.insert(NodeKind::Alias(target), 0, None, range(span)).map(drop)
    }

    fn begin(&mut self, kind: NodeKind, anchor: usize, tag: Option<String>, span: &Span) -> Result<()> {
        let id = self.insert(kind, anchor, tag, range(span))?;
        self.open.push(OpenCollection { id, key: None });
        Ok(())
    }

    /// Adds a node in its place: as a root, an item, a key or a value.
    fn insert(
        &mut self,
        kind: NodeKind,
        anchor: usize,
        tag: Option<String>,
        range: std::ops::Range<usize>,
    ) -> Result<TreeNodeId> {
        let parent = self.open.last().map(|open| open.id);
        let start = range.start;
        let id = self.tree.add(TreeNode { kind, range, anchor: None, tag, parent });
        self.last = Some(id);
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        let Some(open) = self.open.last_mut() else {
            self.tree.roots.push(id);
            return Ok(id);
        };
        let (parent, key) = (open.id, open.key.take());
        if key.is_none() && matches!(self.tree.node(parent).kind, NodeKind::Mapping { .. }) {
            open.key = Some(id);
        }
        attach(&mut self.tree, parent, key, id).map_err(|error| Position::of(self.text, start).on(error))?;
        Ok(id)
    }
}

/// Makes `id` an item of its sequence or, with its key, an entry of its mapping.
pub(super) fn attach(
    tree: &mut ManifestTree,
    parent: TreeNodeId,
    key: Option<TreeNodeId>,
    id: TreeNodeId,
) -> Result<()> {
    if let Some(NodeKind::Sequence { items, .. }) = tree.node_mut(parent).map(|node| &mut node.kind) {
        items.push(id);
        return Ok(());
    }
    let Some(key) = key else {
        let is_scalar = matches!(tree.node(id).kind, NodeKind::Scalar { .. });
        return if is_scalar { Ok(()) } else { Err(Error::input("a key of the manifest is not a plain string")) };
    };
    let name = tree.text(key).unwrap_or_default().to_owned();
    if !tree.index(parent, name.clone(), id) {
        return Err(Error::input("a key appears twice in one mapping").fact("key", name));
    }
    if let Some(NodeKind::Mapping { entries, .. }) = tree.node_mut(parent).map(|node| &mut node.kind) {
        entries.push((key, id));
    }
    Ok(())
}

fn range(span: &Span) -> std::ops::Range<usize> {
    let start = span.start.byte_offset().unwrap_or(0);
    start..span.end.byte_offset().unwrap_or(start).max(start)
}

fn style_of(style: granit_parser::ScalarStyle) -> ScalarStyle {
    match style {
        granit_parser::ScalarStyle::Plain => ScalarStyle::Plain,
        granit_parser::ScalarStyle::SingleQuoted => ScalarStyle::Single,
        granit_parser::ScalarStyle::DoubleQuoted => ScalarStyle::Double,
        granit_parser::ScalarStyle::Literal => ScalarStyle::Literal,
        granit_parser::ScalarStyle::Folded => ScalarStyle::Folded,
    }
}

fn layout_of(layout: StructureStyle) -> CollectionStyle {
    match layout {
        StructureStyle::Block => CollectionStyle::Block,
        StructureStyle::Flow => CollectionStyle::Flow,
    }
}
