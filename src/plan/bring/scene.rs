//! What a `--bring` stands for: the files of the source, and where they go on the new base.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use super::{BringConflict, BringName, BringOffer, BroughtKind, Offering};
use crate::examine::PlatformSubject;
use crate::examine::packages::{InstalledPackage, InstalledPackages};
use crate::plan::extract::{all_layers, is_same};
use crate::plan::layers::{Bulk, Roots};
use crate::process::{Container, DEFAULT_PATH, library_directories};
use elf::{Linkage, Program};
use layer::{EntryKind, RootPath};
use start::link::{Linker, LoaderEnvironment};
use start::rootfs::{Credentials, FileNode, Root};

/// What maintainer scripts choose one of several programs with.
const ALTERNATIVES: &[u8] = b"/etc/alternatives/";

/// Both roots, and what their package databases say.
pub struct BringScene<'r> {
    pub(super) source: &'r Root<'r>,
    pub(super) rebased: &'r Root<'r>,
    pub(super) packages: InstalledPackages<'r>,
    pub(super) packages_there: InstalledPackages<'r>,
    subject: &'r PlatformSubject,
    linker: RefCell<Linker<'r>>,
    environment: LoaderEnvironment,
    libraries: Vec<RootPath>,
    libraries_there: Vec<RootPath>,
    pub(super) paths: String,
}

/// Why something is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The user named it, or it belongs to what was named.
    Asked,
    /// Something that is brought needs it: what the new base has instead is good enough, or `link` says that it is not.
    Needed,
}

/// A file of the source, or what is written for one.
pub(super) enum Carried {
    /// Where the source has it.
    Copy(RootPath),
    /// A link of our own.
    Link(EntryKind),
    Content(Vec<u8>),
}

/// What has been chosen so far, by where it goes.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) files: BTreeMap<RootPath, Carried>,
    /// Everything that leads to them.
    directories: HashSet<RootPath>,
    /// Files of the source whose needs have not been looked at.
    open: VecDeque<RootPath>,
    /// Files that the result has without them, and whose needs are looked at all the same.
    looked_at: HashSet<RootPath>,
    pub(super) conflicts: Vec<BringConflict>,
    pub(super) bulk: Bulk,
    /// Packages of which a file is brought.
    pub(super) packages: BTreeSet<String>,
}

impl Choice {
    pub(super) fn insert(&mut self, place: RootPath, carried: Carried) {
        let mut parent = place.parent();
        while let Some(directory) = parent.filter(|directory| !self.directories.contains(directory)) {
            parent = directory.parent();
            self.directories.insert(directory);
        }
        self.files.insert(place, carried);
    }
}

impl<'r> BringScene<'r> {
    #[must_use]
    pub fn new(roots: &'r Roots<'r>, container: &Container, subject: &'r PlatformSubject) -> Self {
        let (source, rebased) = (roots.source(), &roots.rebased);
        Self {
            packages: InstalledPackages::of(source),
            packages_there: InstalledPackages::of(rebased),
            libraries: real_directories(source),
            libraries_there: real_directories(rebased),
            paths: format!("{}:{DEFAULT_PATH}", container.search_path()),
            linker: RefCell::new(Linker::new(source)),
            environment: loader_environment(container),
            source,
            rebased,
            subject,
        }
    }

    /// The `--bring` after which the result has what the source has at `path`, and what it costs: the package that it
    /// belongs to, or the path itself. `None` where neither would do.
    #[must_use]
    pub fn offer(&self, path: &RootPath, offering: Offering) -> Option<BringOffer> {
        let real = self.source.resolve(path).ok()?.path;
        let package = self.packages.owner(&real).filter(|_| offering == Offering::Package);
        let package = package.map(|package| BringName::Name(package.package.name.clone()));
        let mut names = package.into_iter().chain([BringName::Path(path.clone())]);
        names.find_map(|name| self.offer_of(name, path))
    }

    /// The package that a file of the source belongs to.
    #[must_use]
    pub fn owner_of(&self, path: &RootPath) -> Option<&str> {
        let real = self.source.resolve(path).ok()?.path;
        self.packages.owner(&real).map(|package| package.package.name.as_str())
    }

    /// The same for a program as somebody calls it: a path, or a name on PATH.
    #[must_use]
    pub fn offer_program(&self, name: &str) -> Option<BringOffer> {
        let found = self.source.search(name, &self.paths, &RootPath::root()).ok()?;
        self.offer(&RootPath::new(&found.written).ok()?, Offering::Package)
    }

    /// The `--bring` that adds what a program of the result needs to be loaded. `None` where it needs nothing that the
    /// source has and the result lacks.
    #[must_use]
    pub fn offer_libraries(&self, program: &RootPath) -> Option<BringOffer> {
        self.offer_of(BringName::Path(program.clone()), program).filter(|offer| offer.bulk.entries > 0)
    }

    fn offer_of(&self, name: BringName, path: &RootPath) -> Option<BringOffer> {
        let mut choice = Choice::default();
        self.choose(&name, &mut choice)?;
        let found = self.source.resolve(path).ok()?;
        let mut steps = found.links.iter().map(|followed| &followed.link).chain([&found.path]);
        let is_whole = steps.all(|step| self.place(step).is_some_and(|place| self.is_in_result(&place, &choice)));
        (is_whole && choice.conflicts.is_empty()).then_some(BringOffer { name, bulk: choice.bulk })
    }

    /// Chooses everything that the name stands for.
    pub(super) fn choose(&self, name: &BringName, choice: &mut Choice) -> Option<BroughtKind> {
        let kind = match name {
            BringName::Path(path) => self.path(path, choice).then_some(BroughtKind::Path)?,
            BringName::Name(text) => match self.packages.find(text) {
                Some(package) => self.package(package, choice),
                None => self.program(text, choice).then_some(BroughtKind::Program)?,
            },
        };
        while let Some(real) = choice.open.pop_front() {
            self.needs_of(&real, choice);
        }
        self.describe_packages(choice);
        Some(kind)
    }

    fn package(&self, package: &InstalledPackage<'r>, choice: &mut Choice) -> BroughtKind {
        for real in &package.files {
            self.put(real, choice);
        }
        for link in self.alternatives(package) {
            self.want(&link, Wanted::Asked, choice);
        }
        BroughtKind::Package(package.package.version.clone())
    }

    /// Links that a maintainer script made for files of the package: no list has them.
    fn alternatives(&self, package: &InstalledPackage<'r>) -> Vec<RootPath> {
        let files: BTreeSet<&RootPath> = package.files.iter().collect();
        let is_alternative = |(path, node): &(RootPath, &FileNode<'_>)| {
            let leads = matches!(node.kind(), EntryKind::Symlink(target) if target.starts_with(ALTERNATIVES));
            leads && self.source.resolve(path).is_ok_and(|found| files.contains(&found.path))
        };
        self.source.entries().filter(is_alternative).map(|(path, _)| path).collect()
    }

    fn program(&self, name: &str, choice: &mut Choice) -> bool {
        let found = self.source.search(name, &self.paths, &RootPath::root()).ok();
        let written = found.and_then(|found| RootPath::new(&found.written).ok());
        written.inspect(|path| self.want(path, Wanted::Asked, choice)).is_some()
    }

    fn path(&self, path: &RootPath, choice: &mut Choice) -> bool {
        let Ok(found) = self.source.resolve(path) else {
            // A link that leads nowhere can still be wanted.
            self.put(path, choice);
            return self.source.get(path).is_some();
        };
        if found.node.is_directory() {
            let inside = self.source.entries().filter(|(inner, _)| inner.is_within(&found.path));
            for (inner, _) in inside {
                self.put(&inner, choice);
            }
        }
        self.want(path, Wanted::Asked, choice);
        true
    }

    /// Brings what a path leads to, and every link on the way.
    pub(super) fn want(&self, path: &RootPath, why: Wanted, choice: &mut Choice) {
        if why == Wanted::Needed && self.rebased.resolve(path).is_ok() {
            return;
        }
        let Ok(found) = self.source.resolve(path) else { return };
        for followed in &found.links {
            // A directory of the new base is never replaced by a link.
            let there = self.rebased.resolve(&followed.link);
            if !there.is_ok_and(|there| there.node.is_directory()) {
                self.put(&followed.link, choice);
            }
        }
        if !self.put(&found.path, choice) {
            return;
        }
        // Where a directory stands in the place of a link, the file gets a link of its own.
        if let (Some(strayed), Some(place)) = (self.strays(path, choice), self.place(&found.path))
            && strayed != place
        {
            choice.insert(strayed, Carried::Link(EntryKind::Symlink([b"/", place.as_bytes()].concat())));
        }
    }

    /// Where a path leads to nothing in the result.
    fn strays(&self, path: &RootPath, choice: &Choice) -> Option<RootPath> {
        const MOST_LINKS: usize = 40;
        let mut rest: VecDeque<&[u8]> = path.components().collect();
        let (mut at, mut links) = (RootPath::root(), 0);
        while let Some(name) = rest.pop_front() {
            match name {
                b"" | b"." => continue,
                b".." => {
                    at = at.parent().unwrap_or_default();
                    continue;
                }
                _ => {}
            }
            let next = at.join(name).ok()?;
            match self.kind_at(&next, choice) {
                None => return rest.iter().try_fold(next, |at, name| at.join(name).ok()),
                Some(EntryKind::Symlink(target)) if links < MOST_LINKS => {
                    links += 1;
                    target.rsplit(|byte| *byte == b'/').for_each(|name| rest.push_front(name));
                    at = if target.starts_with(b"/") { RootPath::root() } else { at };
                }
                Some(EntryKind::Symlink(_)) => return None,
                Some(_) => at = next,
            }
        }
        None
    }

    /// What the result will have at a path without links on the way.
    fn kind_at<'c>(&'c self, path: &RootPath, choice: &'c Choice) -> Option<&'c EntryKind> {
        const FILE: EntryKind = EntryKind::File { size: 0 };
        const DIRECTORY: EntryKind = EntryKind::Directory;
        match choice.files.get(path) {
            Some(Carried::Copy(real)) => self.source.get(real).map(FileNode::kind),
            Some(Carried::Link(kind)) => Some(kind),
            Some(Carried::Content(_)) => Some(&FILE),
            None if choice.directories.contains(path) => Some(&DIRECTORY),
            None => self.rebased.get(path).map(FileNode::kind),
        }
    }

    /// Where a path of the source is on the new base, whose directories may be links or not.
    pub(super) fn place(&self, real: &RootPath) -> Option<RootPath> {
        let parent = real.parent()?;
        let mut below = Vec::new();
        let mut at = parent;
        while self.rebased.get(&at).is_none() {
            below.push(at.name()?.to_vec());
            at = at.parent()?;
        }
        let mut place = self.rebased.resolve(&at).ok().filter(|found| found.node.is_directory())?.path;
        for name in below.iter().rev() {
            place = place.join(name).ok()?;
        }
        place.join(real.name()?).ok()
    }

    /// Chooses one entry of the source, unless the new base has it; whether the result will have it.
    fn put(&self, real: &RootPath, choice: &mut Choice) -> bool {
        let Some(node) = self.source.get(real) else { return false };
        let Some(place) = self.place(real) else {
            choice.conflicts.push(BringConflict { path: real.clone(), why: "a file is in its way".to_owned() });
            return false;
        };
        if choice.files.contains_key(&place) {
            return true;
        }
        if let Some(there) = self.rebased.get(&place) {
            let is_there = self.is_there((&place, there), (real, node));
            if !is_there {
                let why = self.difference(&place, real);
                choice.conflicts.push(BringConflict { path: place, why });
            } else if !node.is_directory() && choice.looked_at.insert(real.clone()) {
                // The application's own program: what it is loaded with may not be there.
                choice.open.push_back(real.clone());
            }
            return is_there;
        }
        if !node.is_directory() {
            choice.bulk.entries += 1;
            choice.bulk.bytes = choice.bulk.bytes.saturating_add(size(node));
            choice.open.push_back(real.clone());
            choice.packages.extend(self.packages.owner(real).map(|owner| owner.package.name.clone()));
        }
        choice.insert(place, Carried::Copy(real.clone()));
        true
    }

    /// Whether the new base has the same. Contents are known of few files: for the others it is the same package in the
    /// same version, or the same entry of the same layer.
    fn is_there(&self, (place, there): (&RootPath, &FileNode<'r>), (real, node): (&RootPath, &FileNode<'r>)) -> bool {
        match (there.kind(), node.kind()) {
            (EntryKind::Directory, EntryKind::Directory) => true,
            (EntryKind::File { size: one }, EntryKind::File { size: other }) if one == other => {
                let contents = self.rebased.content(there).zip(self.source.content(node));
                let owners = self.packages_there.owner(place).zip(self.packages.owner(real));
                let is_known = || owners.is_some_and(|(one, other)| one.package == other.package);
                contents.map_or_else(
                    || *one == 0 || is_known() || self.is_same_entry(there, node),
                    |(one, other)| one == other,
                )
            }
            (EntryKind::Symlink(one), EntryKind::Symlink(other)) => one == other,
            _ => false,
        }
    }

    /// Whether both are one entry of one layer, which both images have or the application brings.
    fn is_same_entry(&self, there: &FileNode<'r>, node: &FileNode<'r>) -> bool {
        let (Some((there_layer, _)), Some((layer, _))) = (there.place(), node.place()) else { return false };
        let is_same_layer = match self.subject.base_layers.get(there_layer) {
            Some(base) => all_layers(self.subject).nth(layer).is_some_and(|source| source.digest == base.digest),
            None => layer >= self.subject.old_layers.len(),
        };
        is_same_layer && is_same(Some(there), node)
    }

    fn difference(&self, place: &RootPath, real: &RootPath) -> String {
        let named = |owner: Option<&InstalledPackage<'_>>| {
            owner
                .map(|owner| format!(" of package {} {}", owner.package.name, owner.package.version))
                .unwrap_or_default()
        };
        let (there, here) = (named(self.packages_there.owner(place)), named(self.packages.owner(real)));
        format!(
            "the new base has another file there{there}; the source's is{}",
            if here.is_empty() { " its own" } else { &here }
        )
    }

    /// Libraries and interpreters of a file that is brought.
    fn needs_of(&self, real: &RootPath, choice: &mut Choice) {
        let Some(program) = self.source.get(real).and_then(|node| self.source.program(node)) else { return };
        for path in self.interpreters(program).chain(self.libraries_of(real, program)) {
            self.want(&path, Wanted::Needed, choice);
        }
    }

    /// The loader of a program, and what a script is run with.
    fn interpreters<'p>(&'p self, program: &'p Program) -> impl Iterator<Item = RootPath> + 'p {
        let loader = program.interpreter.iter().filter_map(|path| RootPath::new(path).ok());
        let script = program.script.iter().flat_map(|script| {
            let by_env = script.argument.as_deref().filter(|_| script.interpreter.ends_with("/env"));
            let by_env = by_env.and_then(|words| words.split_whitespace().find(|word| !word.starts_with('-')));
            let on_path = by_env.and_then(|name| self.source.search(name, &self.paths, &RootPath::root()).ok());
            let on_path = on_path.and_then(|found| RootPath::new(&found.written).ok());
            RootPath::new(&script.interpreter).ok().into_iter().chain(on_path)
        });
        loader.chain(script)
    }

    /// What the source's loader would map for a program, and where the source has what a library is linked against: all
    /// that the new base does not have by the same name.
    fn libraries_of(&self, real: &RootPath, program: &Program) -> Vec<RootPath> {
        let is_in = |root: &Root<'_>, path: &RootPath| root.resolve(path).is_ok();
        let in_directories = |directories: &[RootPath], root: &Root<'_>, name: &str| {
            let paths = directories.iter().filter_map(|directory| directory.join(name).ok());
            paths.filter(|path| is_in(root, path)).find(|_| !name.contains('/'))
        };
        let is_there = |name: &str| in_directories(&self.libraries_there, self.rebased, name).is_some();
        let needed = program.needed.iter().filter(|name| !is_there(name));
        let needed = needed.filter_map(|name| in_directories(&self.libraries, self.source, name));
        let mapped = match program.linkage {
            Linkage::Dynamic => self.linker.borrow_mut().closure(real, &self.environment).files,
            _ => Vec::new(),
        };
        let mapped = mapped.into_iter().filter(|file| !is_there(&file.name));
        let mapped = mapped.filter_map(|file| RootPath::new(&file.written).ok());
        needed.chain(mapped).collect()
    }

    /// Whether the result will have something at the path.
    pub(super) fn is_in_result(&self, place: &RootPath, choice: &Choice) -> bool {
        choice.files.contains_key(place) || self.rebased.get(place).is_some()
    }
}

fn size(node: &FileNode<'_>) -> u64 {
    match node.kind() {
        EntryKind::File { size } => *size,
        _ => 0,
    }
}

/// The directories of libraries, each once and without links: `/lib` is often `/usr/lib`.
fn real_directories(root: &Root<'_>) -> Vec<RootPath> {
    let mut seen = BTreeSet::new();
    let real = library_directories(root).into_iter().filter_map(|directory| Some(root.resolve(&directory).ok()?.path));
    real.filter(|directory| seen.insert(directory.clone())).collect()
}

/// What the loader is told: by the variables of the image, for root.
fn loader_environment(container: &Container) -> LoaderEnvironment {
    let variables: Vec<_> = container.environment().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    LoaderEnvironment::new(&variables, container.working_dir(), Credentials::default())
}
