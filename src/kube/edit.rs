//! Edits of a manifest's text: new words in a list, and fields that a container gets.
//!
//! Items that stay are not touched, new ones are written as their neighbours are, comments stay
//! where they are. `None` means that the layout is one that cannot be kept; the text is left alone then.

use std::ops::Range;

use super::scalar::{Language, ScalarWriter};
use super::template::MaskedText;
use super::tree::{CollectionStyle, ManifestTree, NodeKind, ScalarStyle, TreeNode, TreeNodeId};

/// Bytes that are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

impl Edit {
    pub fn insert(at: usize, text: String) -> Self {
        Self { range: at..at, text }
    }
}

/// A manifest that is edited.
#[derive(Clone, Copy)]
pub(super) struct Editor<'a> {
    pub source: &'a str,
    pub tree: &'a ManifestTree,
    pub masked: &'a MaskedText,
    pub language: Language,
}

/// The text with the edits made. `None` where two of them touch the same bytes.
pub(super) fn splice(source: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut out = String::with_capacity(source.len());
    let mut done = 0;
    for edit in &edits {
        out.push_str(source.get(done..edit.range.start)?);
        out.push_str(&edit.text);
        done = edit.range.end;
    }
    out.push_str(source.get(done..)?);
    Some(out)
}

/// Which items of a list go, and which words come in their place.
struct Middle<'a> {
    before: Option<TreeNodeId>,
    old: &'a [TreeNodeId],
    new: &'a [String],
    after: Option<TreeNodeId>,
}

impl Editor<'_> {
    pub fn node(&self, id: TreeNodeId) -> &TreeNode {
        self.tree.node(id)
    }

    /// The edits that make `list` these words.
    pub fn rewrite(&self, list: TreeNodeId, words: &[String]) -> Option<Vec<Edit>> {
        let NodeKind::Sequence { items, layout } = &self.node(list).kind else { return None };
        let middle = self.middle(items, words)?;
        if middle.old.is_empty() {
            return middle.new.is_empty().then(Vec::new);
        }
        if middle.old.iter().any(|item| self.node(*item).anchor.is_some() || self.node(*item).tag.is_some()) {
            return None;
        }
        let style = items.first().map_or(ScalarStyle::Plain, |item| self.style(*item));
        let writer = ScalarWriter { language: self.language, style, layout: *layout };
        match layout {
            CollectionStyle::Flow => self.flow(list, items, &middle, writer),
            CollectionStyle::Block => self.block(list, &middle, writer),
        }
    }

    fn style(&self, item: TreeNodeId) -> ScalarStyle {
        match self.node(item).kind {
            NodeKind::Scalar { style, .. } => style,
            _ => ScalarStyle::Plain,
        }
    }

    /// What is left when the items that stay are taken off at both ends.
    fn middle<'a>(&self, items: &'a [TreeNodeId], words: &'a [String]) -> Option<Middle<'a>> {
        let is_same = |item: &TreeNodeId, word: &String| self.tree.word(*item) == Some(word.as_str());
        let front = items.iter().zip(words).take_while(|(item, word)| is_same(item, word)).count();
        let (old, new) = (items.get(front..)?, words.get(front..)?);
        let back = old.iter().rev().zip(new.iter().rev()).take_while(|(item, word)| is_same(item, word)).count();
        let (old, rest) = old.split_at_checked(old.len() - back)?;
        let before = front.checked_sub(1).and_then(|at| items.get(at)).copied();
        Some(Middle { before, old, new: new.get(..new.len() - back)?, after: rest.first().copied() })
    }

    fn write(&self, word: &str, writer: ScalarWriter) -> String {
        if let Some(item) = self.masked.as_item(word, self.language) {
            return item;
        }
        // What a placeholder will bring is not known, so it is quoted.
        let is_open = !self.masked.within(word).is_empty() && writer.style != ScalarStyle::Single;
        let style = if is_open { ScalarStyle::Double } else { writer.style };
        ScalarWriter { style, ..writer }.write(word)
    }

    fn flow(
        &self,
        list: TreeNodeId,
        items: &[TreeNodeId],
        middle: &Middle<'_>,
        writer: ScalarWriter,
    ) -> Option<Vec<Edit>> {
        let (first, end) = (self.node(*middle.old.first()?), self.node(*middle.old.last()?).range.end);
        let range = match (middle.new.is_empty(), middle.before, middle.after) {
            (false, ..) => first.range.start..end,
            (true, _, Some(after)) => first.range.start..self.node(after).range.start,
            (true, Some(before), None) => self.node(before).range.end..end,
            (true, None, None) => {
                let text = "[]".to_owned();
                return Some(vec![Edit { range: self.node(list).range.clone(), text }]);
            }
        };
        let separator = self.separator(items);
        let words: Vec<String> = middle.new.iter().map(|word| self.write(word, writer)).collect();
        Some(vec![Edit { range, text: words.join(&separator) }])
    }

    /// The separator between the items of a list in brackets.
    pub fn separator(&self, items: &[TreeNodeId]) -> String {
        let between = items.windows(2).find_map(|pair| match pair {
            [one, two] => self.source.get(self.node(*one).range.end..self.node(*two).range.start),
            _ => None,
        });
        let is_plain = |text: &&str| text.trim() == ",";
        between.filter(is_plain).unwrap_or(", ").to_owned()
    }

    fn block(&self, list: TreeNodeId, middle: &Middle<'_>, writer: ScalarWriter) -> Option<Vec<Edit>> {
        let rows: Vec<BlockItem> = middle.old.iter().map(|item| self.row(*item)).collect::<Option<_>>()?;
        let mut edits = Vec::new();
        let mut rows = rows.iter();
        if !middle.new.is_empty() {
            let row = rows.next()?;
            let indentation = self.source.get(row.line..row.dash)?;
            let next = format!("{}{indentation}", self.newline(row.dash));
            let mut items = middle.new.iter().map(|word| format!("-{}{}", row.gap, self.write(word, writer)));
            edits.push(Edit { range: row.dash..row.end, text: items.next()? });
            let rest: Vec<String> = items.flat_map(|item| [next.clone(), item]).collect();
            // A comment after the first item stays with it.
            let line = self.source.get(row.end..)?.lines().next().map_or(0, str::len);
            edits.push(Edit::insert(row.end + line, rest.concat()));
        }
        edits.extend(rows.map(|row| self.removal(row)));
        if middle.new.is_empty() && middle.before.is_none() && middle.after.is_none() {
            edits.push(Edit::insert(self.colon(list)?, " []".to_owned()));
        }
        Some(edits)
    }

    /// An item is removed with its line, unless a comment follows it.
    fn removal(&self, row: &BlockItem) -> Edit {
        let rest = self.source.get(row.end..).unwrap_or_default();
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        let blanks = line.len() - line.trim_start().len();
        let range = if line.trim().is_empty() { row.line..row.end + line.len() } else { row.dash..row.end + blanks };
        Edit { range, text: String::new() }
    }

    /// Behind the colon that leads to `value`.
    fn colon(&self, value: TreeNodeId) -> Option<usize> {
        let node = self.node(value);
        let NodeKind::Mapping { entries, .. } = &self.node(node.parent?).kind else { return None };
        let (key, _) = entries.iter().find(|(_, entry)| *entry == value)?;
        let end = self.node(*key).range.end;
        let rest = self.source.get(end..)?;
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        rest.get(blanks..)?.starts_with(':').then_some(end + blanks + 1)
    }

    /// Where an item of a block list is. Only one item per line is supported.
    pub fn row(&self, item: TreeNodeId) -> Option<BlockItem> {
        let node = self.node(item);
        let head = match node.kind {
            NodeKind::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. } => {
                self.header(node.range.start)?
            }
            _ => node.range.start,
        };
        let line = self.line_of(head);
        let before = self.source.get(line..head)?;
        let dash = line + before.find('-')?;
        let gap = self.source.get(dash + 1..head)?;
        let is_plain =
            self.source.get(line..dash)?.chars().all(|c| c == ' ') && !gap.is_empty() && gap.chars().all(|c| c == ' ');
        let content = self.source.get(node.range.clone())?;
        let end = node.range.start + content.trim_end().len();
        is_plain.then(|| BlockItem { line, dash, gap: gap.to_owned(), end })
    }

    /// The `|` or `>` of a block whose text begins at `start`.
    fn header(&self, start: usize) -> Option<usize> {
        let above = self.source.get(..self.line_of(start))?.trim_end();
        let line = self.line_of(above.len());
        let text = above.get(line..)?;
        let dash = text.find("- ")?;
        let mark = text.get(dash + 1..)?.find(['|', '>'])?;
        Some(line + dash + 1 + mark)
    }

    pub fn line_of(&self, at: usize) -> usize {
        self.source.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }

    /// The end of lines where byte `at` is.
    pub fn newline(&self, at: usize) -> &'static str {
        let line = self.source.get(at..).and_then(|rest| rest.split_inclusive('\n').next());
        if line.is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" }
    }
}

/// An item of a block list.
#[derive(Debug)]
pub(super) struct BlockItem {
    /// The beginning of its line.
    pub line: usize,
    pub dash: usize,
    /// The blanks between the dash and the item.
    pub gap: String,
    pub end: usize,
}

/// Variables and the working directory that a command set for itself, as fields of its container.
impl Editor<'_> {
    /// A new member of a container.
    pub fn member(&self, container: TreeNodeId, member: &ContainerField<'_>) -> Option<Edit> {
        let NodeKind::Mapping { layout, .. } = self.node(container).kind else { return None };
        let key = self.node(self.neighbour(container)?).range.start;
        let line = self.line_of(key);
        let front = self.source.get(line..key)?;
        let text = match layout {
            CollectionStyle::Block => {
                let is_first = front.chars().all(|c| c == ' ' || c == '-');
                let next = format!("{}{}", self.newline(key), " ".repeat(front.len()));
                is_first.then(|| format!("{}{next}", self.block_member(member, &next)))?
            }
            CollectionStyle::Flow => {
                let is_own_line = front.trim().is_empty() && line > 0;
                let next = if is_own_line { format!(",{}{front}", self.newline(key)) } else { ", ".to_owned() };
                format!("{}{next}", self.flow_member(member))
            }
        };
        Some(Edit::insert(key, text))
    }

    /// The key that a new one is put before: one that no comment belongs to.
    fn neighbour(&self, container: TreeNodeId) -> Option<TreeNodeId> {
        let keys = ["command", "args", "image", "name"].iter().filter_map(|key| self.tree.own_entry(container, key));
        let keys: Vec<TreeNodeId> = keys.map(|(key, _)| key).collect();
        let has_comment = |key: &TreeNodeId| {
            let above = self.source.get(..self.line_of(self.node(*key).range.start)).unwrap_or_default();
            above.lines().next_back().is_some_and(|line| line.trim_start().starts_with('#'))
        };
        keys.iter().copied().find(|key| !has_comment(key)).or(keys.first().copied())
    }

    fn block_member(&self, member: &ContainerField<'_>, next: &str) -> String {
        let text = self.writer(CollectionStyle::Block);
        match member {
            ContainerField::WorkingDir(directory) => format!("workingDir: {}", text.write(directory)),
            ContainerField::Environment(variables) => {
                let items = variables.iter().map(|(name, value)| {
                    format!("{next}- name: {}{next}  value: {}", text.write(name), text.write(value))
                });
                format!("env:{}", items.collect::<String>())
            }
        }
    }

    fn flow_member(&self, member: &ContainerField<'_>) -> String {
        match member {
            ContainerField::WorkingDir(directory) => {
                format!("{}: {}", self.key("workingDir"), self.writer(CollectionStyle::Flow).write(directory))
            }
            ContainerField::Environment(variables) => {
                let items: Vec<String> =
                    variables.iter().map(|(name, value)| self.flow_variable(name, value)).collect();
                format!("{}: [{}]", self.key("env"), items.join(", "))
            }
        }
    }

    fn flow_variable(&self, name: &str, value: &str) -> String {
        let text = self.writer(CollectionStyle::Flow);
        format!("{{{}: {}, {}: {}}}", self.key("name"), text.write(name), self.key("value"), text.write(value))
    }

    fn key(&self, name: &str) -> String {
        self.writer(CollectionStyle::Flow).write(name)
    }

    fn writer(&self, layout: CollectionStyle) -> ScalarWriter {
        ScalarWriter { language: self.language, style: ScalarStyle::Plain, layout }
    }

    /// Variables at the end of a list of them: there they may refer to all others.
    pub fn append(&self, env: TreeNodeId, variables: &[(String, String)]) -> Option<Edit> {
        let NodeKind::Sequence { items, layout } = &self.node(env).kind else { return None };
        let last = *items.last()?;
        if *layout == CollectionStyle::Flow {
            let separator = self.separator(items);
            let new = variables.iter().map(|(name, value)| format!("{separator}{}", self.flow_variable(name, value)));
            return Some(Edit::insert(self.node(last).range.end, new.collect()));
        }
        let row = self.row(last)?;
        let indentation = self.source.get(row.line..row.dash)?;
        let next = format!("{}{indentation}", self.newline(row.dash));
        let inner = " ".repeat(1 + row.gap.len());
        let text = self.writer(CollectionStyle::Block);
        let items = variables.iter().map(|(name, value)| {
            format!("{next}-{}name: {}{next}{inner}value: {}", row.gap, text.write(name), text.write(value))
        });
        let end = self.end(last)?;
        let line = self.source.get(end..)?.lines().next().map_or(0, str::len);
        Some(Edit::insert(end + line, items.collect()))
    }

    /// Where the last text of a node ends.
    fn end(&self, id: TreeNodeId) -> Option<usize> {
        let node = self.node(id);
        let own = match &node.kind {
            NodeKind::Mapping { entries, layout: CollectionStyle::Block } => return self.end(entries.last()?.1),
            NodeKind::Sequence { items, layout: CollectionStyle::Block } => return self.end(*items.last()?),
            _ => node.range.clone(),
        };
        Some(own.start + self.source.get(own)?.trim_end().len())
    }

    /// Another text for a scalar.
    pub fn replace(&self, scalar: TreeNodeId, text: &str) -> Option<Edit> {
        let node = self.node(scalar);
        let NodeKind::Scalar { style, .. } = node.kind else { return None };
        let is_simple =
            matches!(style, ScalarStyle::Plain | ScalarStyle::Single | ScalarStyle::Double) && !node.range.is_empty();
        let writer = ScalarWriter { language: self.language, style, layout: CollectionStyle::Flow };
        (is_simple && node.anchor.is_none()).then(|| Edit { range: node.range.clone(), text: writer.write(text) })
    }
}

/// What a container is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum ContainerField<'a> {
    WorkingDir(&'a str),
    Environment(&'a [(String, String)]),
}
