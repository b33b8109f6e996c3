//! The straightforward model of a merge: a plain map from paths to items, changed entry by entry,
//! with every rule written out in the slowest way. It shares no code with the merge but
//! [`RootPath`]. Tests compare the two here, and the fuzz target `merge` does elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use layer::{Entry, EntryKind, LayerIndex, RootPath};

/// A path as its names.
pub type PathNames = Vec<String>;

/// The place of the entry that gave a file its content, as (layer, position), and its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub from: Option<(usize, usize)>,
    pub kind: EntryKind,
}

#[derive(Debug, Default)]
pub struct MergeModel {
    pub items: BTreeMap<PathNames, Item>,
    /// What the current layer has put, and all directories above.
    upper: BTreeSet<PathNames>,
    pub unapplied: usize,
}

pub fn names(written: &str) -> PathNames {
    written.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
}

/// As `names`, with `.`, which only a directory has.
fn steps(written: &str) -> PathNames {
    written.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

pub fn text(path: &RootPath) -> String {
    String::from_utf8(path.as_bytes().to_vec()).unwrap()
}

impl MergeModel {
    fn link(&self, at: &PathNames) -> Option<String> {
        match &self.items.get(at)?.kind {
            EntryKind::Symlink(target) => Some(String::from_utf8(target.clone()).unwrap()),
            _ => None,
        }
    }

    fn is_directory(&self, at: &PathNames) -> bool {
        at.is_empty() || self.items.get(at).is_some_and(|item| item.kind == EntryKind::Directory)
    }

    /// Follows links as long as there are some, starting over each time; names that are not there
    /// are taken as they are.
    fn real(&self, mut todo: PathNames) -> Option<PathNames> {
        for _ in 0..=40 {
            let mut done = PathNames::new();
            let mut next = None;
            for (at, name) in todo.iter().enumerate() {
                if name == ".." {
                    done.pop();
                    continue;
                }
                done.push(name.clone());
                if let Some(target) = self.link(&done) {
                    done.pop();
                    let start = if target.starts_with('/') { PathNames::new() } else { done.clone() };
                    next = Some([start, names(&target), todo[at + 1..].to_vec()].concat());
                    break;
                }
            }
            match next {
                None => return Some(done),
                Some(next) => todo = next,
            }
        }
        None
    }

    fn remove(&mut self, at: &PathNames) {
        self.items.retain(|names, _| !names.starts_with(at));
    }

    fn apply(&mut self, entry: &Entry, layer: usize, position: usize) {
        let written = names(&text(&entry.path));
        let applied = match &entry.kind {
            EntryKind::Opaque => {
                self.real(written).map(|directory| self.white_out(&directory, Some(&directory))).is_some()
            }
            EntryKind::Whiteout => self.place(written).map(|at| self.white_out(&at, None)).is_some(),
            _ => self.place(written).and_then(|at| self.put(at, entry, (layer, position))).is_some(),
        };
        self.unapplied += usize::from(!applied);
    }

    /// Only the directory of a path is followed.
    fn place(&self, mut written: PathNames) -> Option<PathNames> {
        let Some(name) = written.pop() else { return Some(written) };
        let mut at = self.real(written)?;
        at.push(name);
        Some(at)
    }

    fn white_out(&mut self, at: &PathNames, keep: Option<&PathNames>) {
        let upper = &self.upper;
        self.items.retain(|names, _| !names.starts_with(at) || upper.contains(names) || Some(names) == keep);
    }

    fn put(&mut self, at: PathNames, entry: &Entry, from: (usize, usize)) -> Option<()> {
        for end in 1..at.len() {
            let above = at[..end].to_vec();
            if self.items.contains_key(&above) && !self.is_directory(&above) {
                return None;
            }
        }
        for end in 1..at.len() {
            let above = at[..end].to_vec();
            if !self.items.contains_key(&above) {
                self.insert(above, Item { from: None, kind: EntryKind::Directory });
            }
        }
        if !(entry.kind == EntryKind::Directory && self.is_directory(&at)) {
            self.remove(&at);
        }
        let item = match &entry.kind {
            EntryKind::Hardlink(target) => {
                let target = self.place(names(&text(target)))?;
                self.items.get(&target).filter(|item| item.kind != EntryKind::Directory)?.clone()
            }
            kind => Item { from: Some(from), kind: kind.clone() },
        };
        self.insert(at, item);
        Some(())
    }

    fn insert(&mut self, at: PathNames, item: Item) {
        self.upper.extend((1..=at.len()).map(|end| at[..end].to_vec()));
        self.items.insert(at, item);
    }

    /// Where the kernel would end up: there every name on the way has to be there.
    pub fn resolve(&self, written: &PathNames, links: &mut usize) -> Option<PathNames> {
        let mut at = PathNames::new();
        self.step_through(&mut at, written, links).then_some(at)
    }

    fn step_through(&self, at: &mut PathNames, written: &[String], links: &mut usize) -> bool {
        written.iter().all(|name| {
            if !self.is_directory(at) {
                return false;
            }
            match name.as_str() {
                "." => return true,
                ".." => {
                    at.pop();
                    return true;
                }
                name => at.push(name.to_owned()),
            }
            let Some(target) = self.link(at) else { return self.items.contains_key(at) };
            *links += 1;
            at.pop();
            if target.starts_with('/') {
                at.clear();
            }
            *links <= 40 && self.step_through(at, &steps(&target), links)
        })
    }
}

pub fn modelled(layers: &[LayerIndex]) -> MergeModel {
    let mut model = MergeModel::default();
    for (number, layer) in layers.iter().enumerate() {
        model.upper.clear();
        for (position, entry) in layer.entries.iter().enumerate() {
            model.apply(entry, number, position);
        }
    }
    model
}
