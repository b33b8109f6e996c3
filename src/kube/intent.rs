//! What the edits of a manifest are to bring about, and whether they did.
//!
//! The rule it owns: nothing is written unless the new text, read again, is the old value with
//! exactly the intended changes, and every comment is still there.

use std::collections::BTreeMap;

use super::tree::{Id, Kind, Node, Tree};

#[derive(Debug, Clone, Default)]
pub(super) struct Intent {
    /// Lists that become these words.
    pub words: BTreeMap<Id, Vec<String>>,
    /// Scalars that become this text.
    pub texts: BTreeMap<Id, String>,
    /// Members that mappings get.
    pub members: BTreeMap<Id, Vec<(&'static str, Given)>>,
    /// Variables that lists of them get at their end.
    pub variables: BTreeMap<Id, Vec<(String, String)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    Variables(Vec<(String, String)>),
}

impl Intent {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.texts.is_empty() && self.members.is_empty() && self.variables.is_empty()
    }

    /// Whether `after` is what `before` was to become.
    pub fn is_met(&self, before: &Tree, after: &Tree) -> bool {
        let comparison = Comparison { intent: self, before, after };
        let are_same = before.roots.len() == after.roots.len() && before.comments == after.comments;
        are_same && before.roots.iter().zip(&after.roots).all(|(old, new)| comparison.is_met(*old, *new))
    }
}

struct Comparison<'a> {
    intent: &'a Intent,
    before: &'a Tree,
    after: &'a Tree,
}

impl Comparison<'_> {
    /// Readers limit the depth of a tree, so this comes back.
    fn is_met(&self, old: Id, new: Id) -> bool {
        let (was, is) = (self.before.node(old), self.after.node(new));
        if was.anchor != is.anchor || was.tag != is.tag {
            return false;
        }
        if let Some(words) = self.intent.words.get(&old) {
            return self.has_words(is, words);
        }
        if let Some(text) = self.intent.texts.get(&old) {
            return self.after.word(new) == Some(text);
        }
        match (&was.kind, &is.kind) {
            (Kind::Scalar { text: a, style: s }, Kind::Scalar { text: b, style: t }) => a == b && s == t,
            (Kind::Alias(a), Kind::Alias(b)) => self.before.node(*a).anchor == self.after.node(*b).anchor,
            (Kind::Sequence { items: a, layout: l }, Kind::Sequence { items: b, layout: m }) => {
                l == m && self.items(self.intent.variables.get(&old), a, b)
            }
            (Kind::Mapping { entries: a, layout: l }, Kind::Mapping { entries: b, layout: m }) => {
                l == m && self.entries(self.intent.members.get(&old), a, b)
            }
            _ => false,
        }
    }

    fn has_words(&self, node: &Node, words: &[String]) -> bool {
        let Kind::Sequence { items, .. } = &node.kind else { return false };
        items.len() == words.len() && items.iter().zip(words).all(|(item, word)| self.after.word(*item) == Some(word))
    }

    fn items(&self, given: Option<&Vec<(String, String)>>, old: &[Id], new: &[Id]) -> bool {
        let Some((kept, added)) = new.split_at_checked(old.len()) else { return false };
        let are_same = old.iter().zip(kept).all(|(old, new)| self.is_met(*old, *new));
        are_same && self.are_variables(added, given.map_or(&[][..], Vec::as_slice))
    }

    fn are_variables(&self, items: &[Id], variables: &[(String, String)]) -> bool {
        let is_variable = |item: Id, (name, value): &(String, String)| {
            let word = |key: &str| self.after.own_entry(item, key).and_then(|(_, value)| self.after.word(value));
            let Kind::Mapping { entries, .. } = &self.after.node(item).kind else { return false };
            entries.len() == 2 && word("name") == Some(name) && word("value") == Some(value)
        };
        items.len() == variables.len()
            && items.iter().zip(variables).all(|(item, variable)| is_variable(*item, variable))
    }

    fn entries(&self, given: Option<&Vec<(&'static str, Given)>>, old: &[(Id, Id)], new: &[(Id, Id)]) -> bool {
        let given = given.map_or(&[][..], Vec::as_slice);
        let is_given = |key: Id| given.iter().any(|(name, _)| self.after.text(key) == Some(name));
        let kept: Vec<&(Id, Id)> = new.iter().filter(|(key, _)| !is_given(*key)).collect();
        let are_same = kept.len() == old.len()
            && old.iter().zip(kept).all(|(was, is)| self.is_met(was.0, is.0) && self.is_met(was.1, is.1));
        let is_there = |(name, given): &(&'static str, Given)| {
            let found = new.iter().find(|(key, _)| self.after.text(*key) == Some(name));
            found.is_some_and(|(_, value)| match given {
                Given::Text(text) => self.after.word(*value) == Some(text),
                Given::Variables(variables) => self.are_variables(self.after.items(*value), variables),
            })
        };
        are_same && given.iter().all(is_there) && new.len() == old.len() + given.len()
    }
}
