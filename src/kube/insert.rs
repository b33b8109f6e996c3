//! Variables and the working directory that a command set for itself, as members of its container.

use super::scalar::Beside;
use super::splice::{Edit, Sheet};
use super::tree::{Id, Kind, Layout, Style};

impl Sheet<'_> {
    /// A new member of a container.
    pub fn member(&self, container: Id, member: &Member<'_>) -> Option<Edit> {
        let Kind::Mapping { layout, .. } = self.node(container).kind else { return None };
        let key = self.node(self.neighbour(container)?).range.start;
        let line = self.line_of(key);
        let front = self.source.get(line..key)?;
        let text = match layout {
            Layout::Block => {
                let is_first = front.chars().all(|c| c == ' ' || c == '-');
                let next = format!("{}{}", self.newline(key), " ".repeat(front.len()));
                is_first.then(|| format!("{}{next}", self.block_member(member, &next)))?
            }
            Layout::Flow => {
                let is_own_line = front.trim().is_empty() && line > 0;
                let next = if is_own_line { format!(",{}{front}", self.newline(key)) } else { ", ".to_owned() };
                format!("{}{next}", self.flow_member(member))
            }
        };
        Some(Edit::insert(key, text))
    }

    /// The key that a new one is put before: one that no comment belongs to.
    fn neighbour(&self, container: Id) -> Option<Id> {
        let keys = ["command", "args", "image", "name"].iter().filter_map(|key| self.tree.own_entry(container, key));
        let keys: Vec<Id> = keys.map(|(key, _)| key).collect();
        let has_comment = |key: &Id| {
            let above = self.source.get(..self.line_of(self.node(*key).range.start)).unwrap_or_default();
            above.lines().next_back().is_some_and(|line| line.trim_start().starts_with('#'))
        };
        keys.iter().copied().find(|key| !has_comment(key)).or(keys.first().copied())
    }

    fn block_member(&self, member: &Member<'_>, next: &str) -> String {
        let text = self.beside(Layout::Block);
        match member {
            Member::WorkingDir(folder) => format!("workingDir: {}", text.write(folder)),
            Member::Environment(variables) => {
                let items = variables.iter().map(|(name, value)| {
                    format!("{next}- name: {}{next}  value: {}", text.write(name), text.write(value))
                });
                format!("env:{}", items.collect::<String>())
            }
        }
    }

    fn flow_member(&self, member: &Member<'_>) -> String {
        match member {
            Member::WorkingDir(folder) => {
                format!("{}: {}", self.key("workingDir"), self.beside(Layout::Flow).write(folder))
            }
            Member::Environment(variables) => {
                let items: Vec<String> =
                    variables.iter().map(|(name, value)| self.flow_variable(name, value)).collect();
                format!("{}: [{}]", self.key("env"), items.join(", "))
            }
        }
    }

    fn flow_variable(&self, name: &str, value: &str) -> String {
        let text = self.beside(Layout::Flow);
        format!("{{{}: {}, {}: {}}}", self.key("name"), text.write(name), self.key("value"), text.write(value))
    }

    fn key(&self, name: &str) -> String {
        self.beside(Layout::Flow).write(name)
    }

    fn beside(&self, layout: Layout) -> Beside {
        Beside { language: self.language, style: Style::Plain, layout }
    }

    /// Variables at the end of a list of them: there they may refer to all others.
    pub fn append(&self, env: Id, variables: &[(String, String)]) -> Option<Edit> {
        let Kind::Sequence { items, layout } = &self.node(env).kind else { return None };
        let last = *items.last()?;
        if *layout == Layout::Flow {
            let separator = self.separator(items);
            let new = variables.iter().map(|(name, value)| format!("{separator}{}", self.flow_variable(name, value)));
            return Some(Edit::insert(self.node(last).range.end, new.collect()));
        }
        let row = self.row(last)?;
        let indentation = self.source.get(row.line..row.dash)?;
        let next = format!("{}{indentation}", self.newline(row.dash));
        let inner = " ".repeat(1 + row.gap.len());
        let text = self.beside(Layout::Block);
        let items = variables.iter().map(|(name, value)| {
            format!("{next}-{}name: {}{next}{inner}value: {}", row.gap, text.write(name), text.write(value))
        });
        let end = self.end(last)?;
        let line = self.source.get(end..)?.lines().next().map_or(0, str::len);
        Some(Edit::insert(end + line, items.collect()))
    }

    /// Where the last text of a node ends.
    fn end(&self, id: Id) -> Option<usize> {
        let node = self.node(id);
        let own = match &node.kind {
            Kind::Mapping { entries, layout: Layout::Block } => return self.end(entries.last()?.1),
            Kind::Sequence { items, layout: Layout::Block } => return self.end(*items.last()?),
            _ => node.range.clone(),
        };
        Some(own.start + self.source.get(own)?.trim_end().len())
    }

    /// Another text for a scalar.
    pub fn replace(&self, scalar: Id, text: &str) -> Option<Edit> {
        let node = self.node(scalar);
        let Kind::Scalar { style, .. } = node.kind else { return None };
        let is_simple = matches!(style, Style::Plain | Style::Single | Style::Double) && !node.range.is_empty();
        let beside = Beside { language: self.language, style, layout: Layout::Flow };
        (is_simple && node.anchor.is_none()).then(|| Edit { range: node.range.clone(), text: beside.write(text) })
    }
}

/// What a container is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Member<'a> {
    WorkingDir(&'a str),
    Environment(&'a [(String, String)]),
}
