//! From decisions to a new text: what every change is to bring about, what aliases forbid, the edits,
//! and the proof that they did it.
//!
//! The rule it owns: nothing is written unless the new text, read again, is the old value with
//! exactly the expected changes, and every comment is still there.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::{CommandChange, DecidedCommand, Decision};
use super::edit::{ContainerField, Edit, Editor, splice};
use super::refusal::KubeRefusal;
use super::tree::{ManifestTree, NodeKind, Occurrences, TreeNode, TreeNodeId};
use super::workload::CommandSite;
use crate::rules::Rule;

/// With more changes than this, the ones that cannot be edited are not looked for one by one.
const MOST_TRIED: usize = 64;
/// How often refusals are followed to the lists that they bind.
const MOST_ROUNDS: usize = 16;

/// Parses a text as the manifest itself was parsed.
pub(super) type Reparse<'a> = &'a dyn Fn(&str) -> Option<ManifestTree>;

/// The new text, as far as the changes can be made; those that cannot be become refusals.
pub(super) fn rewrite(
    editor: Editor<'_>,
    sites: &[CommandSite],
    decided: &mut [DecidedCommand],
    read: Reparse<'_>,
) -> String {
    refuse_shared(editor.tree, sites, decided);
    refuse_taken(editor.tree, sites, decided);
    let all: Vec<usize> = (0..sites.len()).filter(|at| change(decided, *at).is_some()).collect();
    if let Some(text) = attempt(editor, sites, decided, &all, read) {
        return text;
    }
    for at in &all {
        let is_possible = all.len() <= MOST_TRIED && attempt(editor, sites, decided, &[*at], read).is_some();
        if !is_possible {
            let detail = "the command can be translated, but its list cannot be edited without changing the layout";
            refuse(decided, *at, KubeRefusal::new(Rule::CannotEdit, detail));
        }
    }
    let rest: Vec<usize> = all.into_iter().filter(|at| change(decided, *at).is_some()).collect();
    attempt(editor, sites, decided, &rest, read).unwrap_or_else(|| {
        for at in &rest {
            refuse(
                decided,
                *at,
                KubeRefusal::new(Rule::CannotEdit, "the changes to this file cannot be made together"),
            );
        }
        editor.source.to_owned()
    })
}

fn change(decided: &[DecidedCommand], at: usize) -> Option<&CommandChange> {
    match &decided.get(at)?.decision {
        Decision::Change(change) => Some(change),
        _ => None,
    }
}

fn refuse(decided: &mut [DecidedCommand], at: usize, why: KubeRefusal) {
    if let Some(decided) = decided.get_mut(at) {
        decided.decision = Decision::Refuse(Box::new(why));
    }
}

/// The lists of a site, each with the words it is to have: `None` for those that stay.
fn lists<'a>(site: &CommandSite, change: Option<&'a CommandChange>) -> Vec<(TreeNodeId, Option<&'a Vec<String>>)> {
    let command = site.command.map(|id| (id, change.map(|change| &change.command)));
    let args = site.args.map(|id| (id, change.and_then(|change| change.args.as_ref())));
    command.into_iter().chain(args).collect()
}

/// A list that aliases repeat may change only where all of its places want the same.
fn refuse_shared(tree: &ManifestTree, sites: &[CommandSite], decided: &mut [DecidedCommand]) {
    let occurrences = tree.occurrences();
    for round in 0..=MOST_ROUNDS {
        let free = free_lists(sites, decided, &occurrences);
        let is_bound = |site: &CommandSite, change: &CommandChange| {
            let is_given = change.workdir.is_some() || !change.environment.is_empty();
            // A chain of lists that depend on each other is not followed for ever.
            let is_shared =
                |list: TreeNodeId| !free.contains(&list) || (round == MOST_ROUNDS && occurrences.of(list) > 1);
            lists(site, Some(change)).iter().any(|(list, _)| is_shared(*list))
                || (is_given && occurrences.of(site.container) != 1)
        };
        let bound =
            |(at, site): (usize, &CommandSite)| change(decided, at).filter(|change| is_bound(site, change)).map(|_| at);
        let bound: Vec<usize> = sites.iter().enumerate().filter_map(bound).collect();
        if bound.is_empty() {
            return;
        }
        for at in bound {
            let detail = "an alias uses this list somewhere else too, where its words would have to be different";
            refuse(decided, at, KubeRefusal::new(Rule::SharedByAlias, detail));
        }
    }
}

/// Lists whose every occurrence is a command, and is to get the same words.
fn free_lists(sites: &[CommandSite], decided: &[DecidedCommand], occurrences: &Occurrences) -> BTreeSet<TreeNodeId> {
    let mut wishes: BTreeMap<TreeNodeId, Vec<Option<&Vec<String>>>> = BTreeMap::new();
    for (at, site) in sites.iter().enumerate() {
        for (list, words) in lists(site, change(decided, at)) {
            wishes.entry(list).or_default().push(words);
        }
    }
    let is_free = |list: TreeNodeId, wishes: &[Option<&Vec<String>>]| {
        wishes.len() as u64 == occurrences.of(list) && wishes.windows(2).all(|pair| pair.first() == pair.last())
    };
    wishes.iter().filter(|(list, wishes)| is_free(**list, wishes)).map(|(list, _)| *list).collect()
}

/// A variable that the container declares already keeps the value that it has there.
fn refuse_taken(tree: &ManifestTree, sites: &[CommandSite], decided: &mut [DecidedCommand]) {
    let mut places: BTreeMap<TreeNodeId, Vec<usize>> = BTreeMap::new();
    sites.iter().enumerate().for_each(|(at, site)| places.entry(site.container).or_default().push(at));
    for (at, site) in sites.iter().enumerate() {
        let Some(change) = change(decided, at).filter(|change| !change.environment.is_empty()) else { continue };
        let env = tree.get(site.container, "env").map(|env| tree.items(env)).unwrap_or_default();
        let is_taken = |name: &str| env.iter().any(|entry| tree.text_at(*entry, "name") == Some(name));
        let taken = change.environment.iter().find(|(name, _)| is_taken(name)).map(|(name, _)| name.clone());
        if let Some(name) = taken {
            let detail = format!("the command sets {name}, which the container already declares");
            refuse(decided, at, KubeRefusal::new(Rule::EnvTaken, detail));
            continue;
        }
        let is_used = |name: &str| {
            let others = places.get(&site.container).into_iter().flatten().filter_map(|other| decided.get(*other));
            let reference = format!("$({name})");
            others.flat_map(|other| &other.before).any(|word| word.contains(&reference))
        };
        let used = change.environment.iter().find(|(name, _)| is_used(name)).map(|(name, _)| name.clone());
        if let Some(name) = used {
            let detail = format!("the command sets {name}, which would change what $({name}) means");
            refuse(decided, at, KubeRefusal::new(Rule::EnvTaken, detail));
        }
    }
}

/// The text with the changes at these sites, where it is proven to be right.
fn attempt(
    editor: Editor<'_>,
    sites: &[CommandSite],
    decided: &[DecidedCommand],
    at: &[usize],
    read: Reparse<'_>,
) -> Option<String> {
    let mut expected = ExpectedChange::default();
    let mut edits = Vec::new();
    for at in at {
        let (site, change) = (sites.get(*at)?, change(decided, *at)?);
        for (list, words) in lists(site, Some(change)) {
            if let Some(words) = words
                && !expected.words.contains_key(&list)
            {
                let read = words.iter().map(|word| editor.masked.as_read(word, editor.language));
                expected.words.insert(list, read.collect());
                edits.extend(editor.rewrite(list, words)?);
            }
        }
        surroundings(editor, site, change, &mut expected, &mut edits)?;
    }
    if expected.is_empty() {
        return Some(editor.source.to_owned());
    }
    let text = splice(editor.source, edits)?;
    let after = read(&text)?;
    expected.is_met(editor.tree, &after).then_some(text)
}

/// Working directory and variables.
fn surroundings(
    editor: Editor<'_>,
    site: &CommandSite,
    change: &CommandChange,
    expected: &mut ExpectedChange,
    edits: &mut Vec<Edit>,
) -> Option<()> {
    let container = site.container;
    let is_wide = change.workdir.is_some() || !change.environment.is_empty();
    if is_wide && editor.masked.brings_members() {
        // A placeholder may bring the very member that would be added.
        return None;
    }
    if let Some(directory) = &change.workdir {
        match editor.tree.own_entry(container, "workingDir") {
            Some((_, value)) => {
                edits.push(editor.replace(value, directory)?);
                expected.texts.insert(value, directory.clone());
            }
            None if editor.tree.get(container, "workingDir").is_some() => return None,
            None => {
                edits.push(editor.member(container, &ContainerField::WorkingDir(directory))?);
                expected
                    .members
                    .entry(container)
                    .or_default()
                    .push(("workingDir", FieldValue::Text(directory.clone())));
            }
        }
    }
    let variables = &change.environment;
    if variables.is_empty() {
        return Some(());
    }
    match editor.tree.own_entry(container, "env") {
        Some((_, env)) => {
            edits.push(editor.append(env, variables)?);
            expected.variables.insert(env, variables.clone());
        }
        None if editor.tree.get(container, "env").is_some() => return None,
        None => {
            edits.push(editor.member(container, &ContainerField::Environment(variables))?);
            expected.members.entry(container).or_default().push(("env", FieldValue::Variables(variables.clone())));
        }
    }
    Some(())
}

#[derive(Debug, Clone, Default)]
pub(super) struct ExpectedChange {
    /// Lists that become these words.
    pub words: BTreeMap<TreeNodeId, Vec<String>>,
    /// Scalars that become this text.
    pub texts: BTreeMap<TreeNodeId, String>,
    /// Members that mappings get.
    pub members: BTreeMap<TreeNodeId, Vec<(&'static str, FieldValue)>>,
    /// Variables that lists of them get at their end.
    pub variables: BTreeMap<TreeNodeId, Vec<(String, String)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    Text(String),
    Variables(Vec<(String, String)>),
}

impl ExpectedChange {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.texts.is_empty() && self.members.is_empty() && self.variables.is_empty()
    }

    /// Whether `after` is what `before` was to become.
    pub fn is_met(&self, before: &ManifestTree, after: &ManifestTree) -> bool {
        let comparison = Comparison { expected: self, before, after };
        let are_same = before.roots.len() == after.roots.len() && before.comments == after.comments;
        are_same && before.roots.iter().zip(&after.roots).all(|(old, new)| comparison.is_met(*old, *new))
    }
}

struct Comparison<'a> {
    expected: &'a ExpectedChange,
    before: &'a ManifestTree,
    after: &'a ManifestTree,
}

impl Comparison<'_> {
    /// Readers limit the depth of a tree, so this comes back.
    fn is_met(&self, old: TreeNodeId, new: TreeNodeId) -> bool {
        let (was, is) = (self.before.node(old), self.after.node(new));
        if was.anchor != is.anchor || was.tag != is.tag {
            return false;
        }
        if let Some(words) = self.expected.words.get(&old) {
            return self.has_words(is, words);
        }
        if let Some(text) = self.expected.texts.get(&old) {
            return self.after.word(new) == Some(text);
        }
        match (&was.kind, &is.kind) {
            (NodeKind::Scalar { text: a, style: s }, NodeKind::Scalar { text: b, style: t }) => a == b && s == t,
            (NodeKind::Alias(a), NodeKind::Alias(b)) => self.before.node(*a).anchor == self.after.node(*b).anchor,
            (NodeKind::Sequence { items: a, layout: l }, NodeKind::Sequence { items: b, layout: m }) => {
                l == m && self.items(self.expected.variables.get(&old), a, b)
            }
            (NodeKind::Mapping { entries: a, layout: l }, NodeKind::Mapping { entries: b, layout: m }) => {
                l == m && self.entries(self.expected.members.get(&old), a, b)
            }
            _ => false,
        }
    }

    fn has_words(&self, node: &TreeNode, words: &[String]) -> bool {
        let NodeKind::Sequence { items, .. } = &node.kind else { return false };
        items.len() == words.len() && items.iter().zip(words).all(|(item, word)| self.after.word(*item) == Some(word))
    }

    fn items(&self, given: Option<&Vec<(String, String)>>, old: &[TreeNodeId], new: &[TreeNodeId]) -> bool {
        let Some((kept, added)) = new.split_at_checked(old.len()) else { return false };
        let are_same = old.iter().zip(kept).all(|(old, new)| self.is_met(*old, *new));
        are_same && self.are_variables(added, given.map_or(&[][..], Vec::as_slice))
    }

    fn are_variables(&self, items: &[TreeNodeId], variables: &[(String, String)]) -> bool {
        let is_variable = |item: TreeNodeId, (name, value): &(String, String)| {
            let word = |key: &str| self.after.own_entry(item, key).and_then(|(_, value)| self.after.word(value));
            let NodeKind::Mapping { entries, .. } = &self.after.node(item).kind else { return false };
            entries.len() == 2 && word("name") == Some(name) && word("value") == Some(value)
        };
        items.len() == variables.len()
            && items.iter().zip(variables).all(|(item, variable)| is_variable(*item, variable))
    }

    fn entries(
        &self,
        given: Option<&Vec<(&'static str, FieldValue)>>,
        old: &[(TreeNodeId, TreeNodeId)],
        new: &[(TreeNodeId, TreeNodeId)],
    ) -> bool {
        let given = given.map_or(&[][..], Vec::as_slice);
        let is_given = |key: TreeNodeId| given.iter().any(|(name, _)| self.after.text(key) == Some(name));
        let kept: Vec<&(TreeNodeId, TreeNodeId)> = new.iter().filter(|(key, _)| !is_given(*key)).collect();
        let are_same = kept.len() == old.len()
            && old.iter().zip(kept).all(|(was, is)| self.is_met(was.0, is.0) && self.is_met(was.1, is.1));
        let is_there = |(name, given): &(&'static str, FieldValue)| {
            let found = new.iter().find(|(key, _)| self.after.text(*key) == Some(name));
            found.is_some_and(|(_, value)| match given {
                FieldValue::Text(text) => self.after.word(*value) == Some(text),
                FieldValue::Variables(variables) => self.are_variables(self.after.items(*value), variables),
            })
        };
        are_same && given.iter().all(is_there) && new.len() == old.len() + given.len()
    }
}
