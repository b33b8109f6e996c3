//! From decisions to a new text: what every change intends, what aliases forbid, the edits, and
//! the proof that they do what was intended.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::{Change, Decided, Decision};
use super::insert::Member;
use super::intent::{Given, Intent};
use super::site::Site;
use super::splice::{Edit, Sheet, splice};
use super::tree::{Id, Occurrences, Tree};
use super::why::Why;
use crate::policy::Rule;

/// With more changes than this, the ones that cannot be edited are not looked for one by one.
const MOST_TRIED: usize = 64;
/// How often refusals are followed to the lists that they bind.
const MOST_ROUNDS: usize = 16;

/// Reads a text as the manifest itself was read.
pub(super) type Reader<'a> = &'a dyn Fn(&str) -> Option<Tree>;

/// The new text, as far as the changes can be made; those that cannot be become refusals.
pub(super) fn rewrite(sheet: Sheet<'_>, sites: &[Site], decided: &mut [Decided], read: Reader<'_>) -> String {
    refuse_shared(sheet.tree, sites, decided);
    refuse_taken(sheet.tree, sites, decided);
    let all: Vec<usize> = (0..sites.len()).filter(|at| change(decided, *at).is_some()).collect();
    if let Some(text) = attempt(sheet, sites, decided, &all, read) {
        return text;
    }
    for at in &all {
        let is_possible = all.len() <= MOST_TRIED && attempt(sheet, sites, decided, &[*at], read).is_some();
        if !is_possible {
            let detail = "the command can be translated, but the layout of its list cannot be kept";
            refuse(decided, *at, Why::new(Rule::CannotEdit, detail));
        }
    }
    let rest: Vec<usize> = all.into_iter().filter(|at| change(decided, *at).is_some()).collect();
    attempt(sheet, sites, decided, &rest, read).unwrap_or_else(|| {
        for at in &rest {
            refuse(decided, *at, Why::new(Rule::CannotEdit, "the changes of this file cannot be made together"));
        }
        sheet.source.to_owned()
    })
}

fn change(decided: &[Decided], at: usize) -> Option<&Change> {
    match &decided.get(at)?.decision {
        Decision::Change(change) => Some(change),
        _ => None,
    }
}

fn refuse(decided: &mut [Decided], at: usize, why: Why) {
    if let Some(decided) = decided.get_mut(at) {
        decided.decision = Decision::Refuse(Box::new(why));
    }
}

/// The lists of a site, each with the words it is to have: `None` for those that stay.
fn lists<'a>(site: &Site, change: Option<&'a Change>) -> Vec<(Id, Option<&'a Vec<String>>)> {
    let command = site.command.map(|id| (id, change.map(|change| &change.command)));
    let args = site.args.map(|id| (id, change.and_then(|change| change.args.as_ref())));
    command.into_iter().chain(args).collect()
}

/// A list that aliases repeat may change only where all of its places want the same.
fn refuse_shared(tree: &Tree, sites: &[Site], decided: &mut [Decided]) {
    let occurrences = tree.occurrences();
    for round in 0..=MOST_ROUNDS {
        let free = free_lists(sites, decided, &occurrences);
        let is_bound = |site: &Site, change: &Change| {
            let is_given = change.workdir.is_some() || !change.environment.is_empty();
            // A chain of lists that depend on each other is not followed for ever.
            let is_shared = |list: Id| !free.contains(&list) || (round == MOST_ROUNDS && occurrences.of(list) > 1);
            lists(site, Some(change)).iter().any(|(list, _)| is_shared(*list))
                || (is_given && occurrences.of(site.container) != 1)
        };
        let bound =
            |(at, site): (usize, &Site)| change(decided, at).filter(|change| is_bound(site, change)).map(|_| at);
        let bound: Vec<usize> = sites.iter().enumerate().filter_map(bound).collect();
        if bound.is_empty() {
            return;
        }
        for at in bound {
            let detail = "an alias uses this list in another place too, where it would have to be another one";
            refuse(decided, at, Why::new(Rule::SharedByAlias, detail));
        }
    }
}

/// Lists whose every occurrence is a command, and wants the same words.
fn free_lists(sites: &[Site], decided: &[Decided], occurrences: &Occurrences) -> BTreeSet<Id> {
    let mut wishes: BTreeMap<Id, Vec<Option<&Vec<String>>>> = BTreeMap::new();
    for (at, site) in sites.iter().enumerate() {
        for (list, words) in lists(site, change(decided, at)) {
            wishes.entry(list).or_default().push(words);
        }
    }
    let is_free = |list: Id, wishes: &[Option<&Vec<String>>]| {
        wishes.len() as u64 == occurrences.of(list) && wishes.windows(2).all(|pair| pair.first() == pair.last())
    };
    wishes.iter().filter(|(list, wishes)| is_free(**list, wishes)).map(|(list, _)| *list).collect()
}

/// A variable that the container declares already keeps the value that it has there.
fn refuse_taken(tree: &Tree, sites: &[Site], decided: &mut [Decided]) {
    let mut places: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    sites.iter().enumerate().for_each(|(at, site)| places.entry(site.container).or_default().push(at));
    for (at, site) in sites.iter().enumerate() {
        let Some(change) = change(decided, at).filter(|change| !change.environment.is_empty()) else { continue };
        let env = tree.get(site.container, "env").map(|env| tree.items(env)).unwrap_or_default();
        let is_taken = |name: &str| env.iter().any(|entry| tree.text_at(*entry, "name") == Some(name));
        let taken = change.environment.iter().find(|(name, _)| is_taken(name)).map(|(name, _)| name.clone());
        if let Some(name) = taken {
            let detail = format!("the command sets {name}, which the container declares with another value");
            refuse(decided, at, Why::new(Rule::EnvTaken, detail));
            continue;
        }
        let is_used = |name: &str| {
            let others = places.get(&site.container).into_iter().flatten().filter_map(|other| decided.get(*other));
            let reference = format!("$({name})");
            others.flat_map(|other| &other.before).any(|word| word.contains(&reference))
        };
        let used = change.environment.iter().find(|(name, _)| is_used(name)).map(|(name, _)| name.clone());
        if let Some(name) = used {
            let detail = format!("the command sets {name}, and $({name}) would mean something else then");
            refuse(decided, at, Why::new(Rule::EnvTaken, detail));
        }
    }
}

/// The text with the changes at these sites, where it is proven to be right.
fn attempt(sheet: Sheet<'_>, sites: &[Site], decided: &[Decided], at: &[usize], read: Reader<'_>) -> Option<String> {
    let mut intent = Intent::default();
    let mut edits = Vec::new();
    for at in at {
        let (site, change) = (sites.get(*at)?, change(decided, *at)?);
        for (list, words) in lists(site, Some(change)) {
            if let Some(words) = words
                && !intent.words.contains_key(&list)
            {
                let read = words.iter().map(|word| sheet.hidden.as_read(word, sheet.language));
                intent.words.insert(list, read.collect());
                edits.extend(sheet.rewrite(list, words)?);
            }
        }
        surroundings(sheet, site, change, &mut intent, &mut edits)?;
    }
    if intent.is_empty() {
        return Some(sheet.source.to_owned());
    }
    let text = splice(sheet.source, edits)?;
    let after = read(&text)?;
    intent.is_met(sheet.tree, &after).then_some(text)
}

/// Working directory and variables.
fn surroundings(
    sheet: Sheet<'_>,
    site: &Site,
    change: &Change,
    intent: &mut Intent,
    edits: &mut Vec<Edit>,
) -> Option<()> {
    let container = site.container;
    let is_wide = change.workdir.is_some() || !change.environment.is_empty();
    if is_wide && sheet.hidden.brings_members() {
        // A placeholder may bring the very member that would be added.
        return None;
    }
    if let Some(folder) = &change.workdir {
        match sheet.tree.own_entry(container, "workingDir") {
            Some((_, value)) => {
                edits.push(sheet.replace(value, folder)?);
                intent.texts.insert(value, folder.clone());
            }
            None if sheet.tree.get(container, "workingDir").is_some() => return None,
            None => {
                edits.push(sheet.member(container, &Member::WorkingDir(folder))?);
                intent.members.entry(container).or_default().push(("workingDir", Given::Text(folder.clone())));
            }
        }
    }
    let variables = &change.environment;
    if variables.is_empty() {
        return Some(());
    }
    match sheet.tree.own_entry(container, "env") {
        Some((_, env)) => {
            edits.push(sheet.append(env, variables)?);
            intent.variables.insert(env, variables.clone());
        }
        None if sheet.tree.get(container, "env").is_some() => return None,
        None => {
            edits.push(sheet.member(container, &Member::Environment(variables))?);
            intent.members.entry(container).or_default().push(("env", Given::Variables(variables.clone())));
        }
    }
    Some(())
}
