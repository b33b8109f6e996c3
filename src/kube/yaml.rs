//! YAML to a tree. The rules it owns: what two readers could read differently is an error, and
//! nothing in a file makes the work grow faster than the file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Parser, ScanError, Span, StructureStyle};

use super::tree::{CollectionStyle, ManifestTree, NodeKind, ScalarStyle, TreeNode, TreeNodeId};
use crate::yaml::Position;
use oci::error::{Error, Result};

/// No manifest of a real cluster comes near.
pub(super) const MOST_NODES: usize = 1_000_000;

/// How much text may be read again for lines that are indented too little.
const MOST_READ_AGAIN: usize = 64 << 20;

/// All documents of `text`.
///
/// The specification wants the lines of a quoted string indented more than the block that it is in. kubectl's reader
/// does not care, and such manifests are in use, so these lines are read as if they had blanks in front, which are no
/// part of the string.
pub(super) fn read(text: &str) -> Result<ManifestTree> {
    let mut padding = Padding::default();
    let mut read = 0;
    loop {
        let error = match parse(text, &padding) {
            Ok(tree) => return tree,
            Err(error) => error,
        };
        read += text.len();
        let at = padding.original(error.marker().byte_offset().unwrap_or(0));
        let is_indent = matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent);
        if !is_indent || read > MOST_READ_AGAIN || !padding.add(text, at) {
            return Err(unreadable(text, at, &error));
        }
    }
}

/// The tree, or what is wrong with it; where the text is no YAML, the parser's error.
fn parse(text: &str, padding: &Padding) -> std::result::Result<Result<ManifestTree>, ScanError> {
    let options = granit_parser::options! { emit_anchor_events: true, max_buffered_comment_events: 100_000 };
    let (tree, open, anchors) = (ManifestTree::default(), Vec::new(), BTreeMap::new());
    let mut builder = TreeBuilder { text, padding, tree, open, anchors, last: None };
    for next in Parser::new_from_str_with_options(&padding.applied(text), options) {
        let (event, span) = next?;
        if let Err(error) = builder.take(event, &span) {
            return Ok(Err(error));
        }
        if builder.tree.len() > MOST_NODES {
            return Ok(Err(Error::input("the manifest has too many values").fact("most", MOST_NODES)));
        }
    }
    Ok(Ok(builder.tree))
}

/// Blanks in front of lines that are there only for the parser.
#[derive(Debug, Default)]
struct Padding {
    /// In the order of the text.
    blanks: Vec<PaddedLine>,
}

#[derive(Debug, Clone, Copy)]
struct PaddedLine {
    /// Where the line begins in the text.
    at: usize,
    /// Blanks in front of it.
    blanks: usize,
    /// Blanks up to and with these.
    total: usize,
}

impl Padding {
    fn applied<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.blanks.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len() + self.total());
        let mut rest = 0;
        for line in &self.blanks {
            out.push_str(text.get(rest..line.at).unwrap_or_default());
            out.extend(std::iter::repeat_n(' ', line.blanks));
            rest = line.at;
        }
        out.push_str(text.get(rest..).unwrap_or_default());
        Cow::Owned(out)
    }

    fn total(&self) -> usize {
        self.blanks.last().map_or(0, |line| line.total)
    }

    /// Where a byte of the padded text is in the text.
    fn original(&self, padded: usize) -> usize {
        let after = self.blanks.partition_point(|line| line.at + line.total - line.blanks <= padded);
        let before = after.checked_sub(1).and_then(|last| self.blanks.get(last));
        before.map_or(padded, |line| padded.saturating_sub(line.total).max(line.at))
    }

    /// Pads the line at `at`, which is inside a quoted string, and those after it that are surely inside it as well;
    /// `false` where that was done before.
    fn add(&mut self, text: &str, at: usize) -> bool {
        let mut start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        if self.blanks.last().is_some_and(|last| last.at >= start) {
            return false;
        }
        let blanks = deepest(text.get(..start).unwrap_or_default()) + 1;
        let is_marker =
            |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with("---") || rest.starts_with("..."));
        if is_marker(start) {
            return false;
        }
        loop {
            self.blanks.push(PaddedLine { at: start, blanks, total: self.total() + blanks });
            let line = text.get(start..).and_then(|rest| rest.split_inclusive('\n').next()).unwrap_or_default();
            if line.contains(['"', '\'']) || !line.ends_with('\n') {
                return true;
            }
            start += line.len();
            // No string goes beyond its document.
            if is_marker(start) {
                return true;
            }
        }
    }
}

/// No block before this place is indented more.
fn deepest(text: &str) -> usize {
    text.lines().map(|line| line.len() - line.trim_start_matches([' ', '-', '?', ':']).len()).max().unwrap_or(0)
}

fn unreadable(text: &str, at: usize, error: &ScanError) -> Error {
    let at = Position::of(text, at);
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
    /// What the parser was given more than the text.
    padding: &'a Padding,
    tree: ManifestTree,
    open: Vec<OpenCollection>,
    anchors: BTreeMap<usize, TreeNodeId>,
    last: Option<TreeNodeId>,
}

impl TreeBuilder<'_> {
    /// Where it is in the text.
    fn range(&self, span: &Span) -> std::ops::Range<usize> {
        let start = span.start.byte_offset().unwrap_or(0);
        let end = span.end.byte_offset().unwrap_or(start).max(start);
        self.padding.original(start)..self.padding.original(end)
    }

    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // A value that is not there is null; the parser writes `~` for it.
                let range = self.range(span);
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
                let end = self.range(span).end;
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
        let wrong = |what: &str| Position::of(self.text, self.range(span).start).on(Error::input(what));
        let target = self.anchors.get(&anchor).copied().ok_or_else(|| wrong("an alias refers to no anchor"))?;
        if self.open.iter().any(|open| open.id == target) {
            return Err(wrong("an alias is inside the value that it refers to"));
        }
        self.insert(NodeKind::Alias(target), 0, None, self.range(span)).map(drop)
    }

    fn begin(&mut self, kind: NodeKind, anchor: usize, tag: Option<String>, span: &Span) -> Result<()> {
        let id = self.insert(kind, anchor, tag, self.range(span))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_quoted_string_may_be_indented_less() {
        let text =
            "a:\n  - description: \"Name of the\n    object\n\n  it's\n  bound to\"\n    b: 'x\n  y'\nc: \"d\ne\"\n";
        let tree = read(text).unwrap();
        let root = tree.roots[0];
        let item = tree.items(tree.get(root, "a").unwrap())[0];
        assert_eq!(tree.text_at(item, "description"), Some("Name of the object\nit's bound to"));
        assert_eq!((tree.text_at(item, "b"), tree.text_at(root, "c")), (Some("x y"), Some("d e")));
        let scalar = |id| &text[tree.node(id).range.clone()];
        assert_eq!(scalar(tree.get(item, "b").unwrap()), "'x\n  y'");
        assert_eq!(scalar(tree.get(root, "c").unwrap()), "\"d\ne\"");
    }

    #[test]
    fn what_is_wrong_behind_such_a_line_has_its_own_place() {
        let error = read("a:\n  b: \"x\n  y\"\n  b: z\n").unwrap_err().to_string();
        assert!(error.contains("a key appears twice") && error.contains('4'), "{error}");
        for bad in ["a: \"x\ny\n", "a:\n  b: \"x\n---\n  y\"\n", "a: \"x\n\ty\"\n"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn many_such_lines_are_read_in_bounded_time() {
        let text = "- \"it's\nx\"\n".repeat(200_000);
        assert!(read(&text).is_err(), "the file is too long to be read so often");
        let text = "- a: \"it's\n  x\"\n".repeat(200);
        assert_eq!(read(&text).unwrap().roots.len(), 1);
    }
}
