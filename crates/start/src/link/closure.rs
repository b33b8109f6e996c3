//! The files that a loader maps, breadth first from the program on, as both loaders do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::cache::LoaderCache;
use super::environment::{LoaderEnvironment, Trust};
use super::missing::Missing;
use super::musl;
use super::object::{LoadedObject, OpenedFile, Opener, is_same_machine};
use super::search::{DirectoryFacts, Found, hwcaps_levels};
use super::symbols::{self, Providers};
use crate::rootfs::{Access, Root};
use elf::{Linkage, LoaderFacts, LoaderKind};
use layer::RootPath;

/// Files that are mapped; the largest programs have some hundreds.
const MOST_OBJECTS: usize = 4096;
/// Paths that are tried, and directories that are listed, for one program.
const MOST_LOOKUPS: usize = 200_000;

/// What a loader would map, and the first thing that it would miss.
#[derive(Debug, Clone, Default)]
pub struct Linked {
    /// The program itself is not among them; the loader is, first.
    pub files: Vec<LinkedFile>,
    pub missing: Option<Missing>,
    /// Where not every processor of the machine will do: glibc's loader ends the program on the others.
    pub level: Option<NeededLevel>,
}

impl Linked {
    const fn without(missing: Missing) -> Self {
        Self { files: Vec::new(), missing: Some(missing), level: None }
    }
}

/// The level of x86-64 that a program is loaded with, above the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededLevel {
    /// 3 for `x86-64-v3`.
    pub number: u32,
    /// The file that says so: the program or a library.
    pub file: RootPath,
}

impl NeededLevel {
    /// The highest that one of the objects needs.
    fn of(objects: &[LoadedObject<'_>]) -> Option<Self> {
        // One bit for each level, the first for the one that all processors have.
        let number = |object: &LoadedObject<'_>| u32::BITS - object.facts.isa_needed.leading_zeros();
        let highest = objects.iter().rev().max_by_key(|object| number(object)).filter(|object| number(object) > 1)?;
        Some(Self { number: number(highest), file: highest.path.clone() })
    }
}

/// A file that is mapped with a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedFile {
    /// Where it is, without any link.
    pub path: RootPath,
    /// The path by which the loader opens it.
    pub written: String,
    /// As it was asked for.
    pub name: String,
    /// Who asked first.
    pub asked_by: RootPath,
}

/// Answers for the programs of one root, and remembers what many of them share.
#[derive(Debug)]
pub struct Linker<'r> {
    root: &'r Root<'r>,
    /// By whether numbers are big-endian; `None` where there is no cache, or none that a loader could read.
    caches: BTreeMap<bool, Option<Rc<LoaderCache>>>,
    providers: Providers,
}

impl<'r> Linker<'r> {
    #[must_use]
    pub fn new(root: &'r Root<'r>) -> Self {
        Self { root, caches: BTreeMap::new(), providers: Providers::default() }
    }

    /// What is mapped for a program.
    pub fn closure(&mut self, program: &RootPath, environment: &LoaderEnvironment) -> Linked {
        self.closure_with(program, &[], environment)
    }

    /// The same, and the program then opens these libraries by name (`dlopen`).
    pub fn closure_with(&mut self, program: &RootPath, opens: &[&str], environment: &LoaderEnvironment) -> Linked {
        let root = self.root;
        let Ok(found) = root.resolve(program) else { return unproven("is not there", program) };
        let Some((facts, place)) = root.program(found.node).zip(found.node.place()) else {
            return unproven("is not a program", program);
        };
        match (facts.linkage, facts.dynamic.as_deref()) {
            (Linkage::Static | Linkage::StaticPie | Linkage::Script, _) => Linked::default(),
            (Linkage::Dynamic | Linkage::SharedObject, Some(tables)) => {
                let (path, written) = (found.path, program.to_string());
                let main = OpenedFile { path, written, place, program: facts, facts: tables };
                let (environment, trust) = environment.seen_by(found.node);
                self.on_every_processor(&LoadRequest { main, opens, environment, trust })
            }
            _ => unproven("has no dynamic section that could be read", program),
        }
    }

    /// What depends on the processor must hold for each.
    fn on_every_processor(&mut self, request: &LoadRequest<'_, 'r>) -> Linked {
        let levels = hwcaps_levels(request.main.program.machine.as_deref().unwrap_or_default());
        let ProcessorRun { mut linked, depends_on_processor } = self.run(request, &[]);
        let others = if depends_on_processor { levels.len() } else { 0 };
        for active in (1..=others).filter_map(|count| levels.get(..count)) {
            if linked.missing.is_none() {
                let more = self.run(request, active).linked;
                linked.files.extend(more.files);
                linked.missing = more.missing;
            }
        }
        let mut seen = HashSet::new();
        linked.files.retain(|file| seen.insert((file.path.clone(), file.written.clone())));
        linked
    }

    fn run(&mut self, request: &LoadRequest<'_, 'r>, levels: &'static [&'static str]) -> ProcessorRun {
        let (file, loader) = match self.interpreter(request) {
            Ok(found) => found,
            Err(missing) => return ProcessorRun { linked: Linked::without(missing), depends_on_processor: false },
        };
        let mut loading = Loading {
            root: self.root,
            loader,
            loader_name: request.main.program.interpreter.clone().unwrap_or_default(),
            environment: &request.environment,
            trust: request.trust,
            levels,
            objects: vec![LoadedObject::new(request.main.clone(), "", None)],
            scope: vec![0],
            in_scope: HashSet::from([0]),
            names: HashMap::new(),
            places: HashMap::from([(request.main.place, 0)]),
            known_directories: HashMap::new(),
            depends_on_processor: false,
            lookups: 0,
            linker_caches: &mut self.caches,
        };
        let outcome = loading.load(file, request.opens);
        let missing = outcome.err().or_else(|| symbols::check(&loading, &mut self.providers));
        let level = NeededLevel::of(&loading.objects);
        let linked = Linked { files: files(&loading.objects), missing, level };
        ProcessorRun { linked, depends_on_processor: loading.depends_on_processor }
    }

    /// The loader that the kernel starts, for the user of the process.
    fn interpreter(&self, request: &LoadRequest<'_, 'r>) -> Result<(OpenedFile<'r>, &'r LoaderFacts), Missing> {
        let LoadRequest { main: OpenedFile { program, path: asked_by, .. }, environment, .. } = request;
        let Some(name) = &program.interpreter else {
            let why = "needs libraries and names no loader that would map them".to_owned();
            return Err(Missing::Unproven { why, about: asked_by.clone() });
        };
        let unusable =
            |why: &str| Missing::Unusable { path: name.clone(), why: why.to_owned(), asked_by: asked_by.clone() };
        let opener = Opener { root: self.root, working_dir: &environment.working_dir, who: &environment.who };
        let Some(found) = opener.resolve(name) else {
            return Err(Missing::Interpreter { path: name.clone(), asked_by: asked_by.clone() });
        };
        if !found.node.allows(&environment.who, Access::Execute) {
            return Err(unusable("may not be executed by the user"));
        }
        let Some((loader, place)) = self.root.program(found.node).zip(found.node.place()) else {
            return Err(unusable("is not a program"));
        };
        if !is_same_machine(loader, program) {
            return Err(unusable("is for another machine"));
        }
        let Some(facts) = loader.dynamic.as_deref().filter(|_| loader.linkage != Linkage::Other) else {
            return Err(unusable("is not a loader"));
        };
        let Some(kind) = &facts.loader else { return Err(unusable("is neither glibc's loader nor musl's")) };
        let file = OpenedFile { path: found.path, written: name.clone(), place, program: loader, facts };
        Ok((file, kind))
    }
}

/// What a processor of one level would do.
#[derive(Default)]
struct ProcessorRun {
    linked: Linked,
    /// Whether another processor could do otherwise.
    depends_on_processor: bool,
}

/// A program that is to be loaded, and by whom.
struct LoadRequest<'q, 'r> {
    main: OpenedFile<'r>,
    opens: &'q [&'q str],
    environment: LoaderEnvironment,
    trust: Trust,
}

fn unproven(why: &str, about: &RootPath) -> Linked {
    Linked::without(Missing::Unproven { why: why.to_owned(), about: about.clone() })
}

fn files(objects: &[LoadedObject<'_>]) -> Vec<LinkedFile> {
    let path_of = |at: Option<usize>| at.and_then(|at| objects.get(at)).map(|object| object.path.clone());
    let file = |object: &LoadedObject<'_>| LinkedFile {
        path: object.path.clone(),
        written: object.written.clone(),
        name: object.name.clone(),
        asked_by: path_of(object.asked_by).unwrap_or_default(),
    };
    objects.iter().skip(1).map(file).collect()
}

/// One program on its way into memory.
pub(super) struct Loading<'l, 'r> {
    pub root: &'r Root<'r>,
    pub loader: &'r LoaderFacts,
    /// As the program names it.
    pub loader_name: String,
    pub environment: &'l LoaderEnvironment,
    pub trust: Trust,
    /// The hwcaps directories that the processor has, the least demanding first.
    pub levels: &'static [&'static str],
    /// The program, the loader, and what was loaded, in this order.
    pub objects: Vec<LoadedObject<'r>>,
    /// Where symbols are looked for, in this order.
    pub scope: Vec<usize>,
    /// The names by which objects are known.
    pub names: HashMap<String, usize>,
    in_scope: HashSet<usize>,
    places: HashMap<(usize, usize), usize>,
    pub known_directories: HashMap<String, Option<DirectoryFacts>>,
    pub depends_on_processor: bool,
    lookups: usize,
    linker_caches: &'l mut BTreeMap<bool, Option<Rc<LoaderCache>>>,
}

impl<'r> Loading<'_, 'r> {
    fn load(&mut self, loader: OpenedFile<'r>, opens: &[&str]) -> Result<(), Missing> {
        let name = self.loader_name.clone();
        self.add(loader, &name, 0);
        for name in self.preloads()? {
            // One that is not there is passed over with a warning.
            if let Ok(Some(at)) = self.find(&name, 0) {
                self.add_to_scope(at);
            }
        }
        let mut next = self.load_needed(0)?;
        for name in opens {
            self.need(name, 0)?;
            next = self.load_needed(next)?;
        }
        Ok(())
    }

    /// Loads what the objects of the scope need, from one on.
    fn load_needed(&mut self, from: usize) -> Result<usize, Missing> {
        let mut next = from;
        while let Some(at) = self.scope.get(next).copied() {
            next += 1;
            let needed = self.objects.get(at).map(|object| object.program.needed.as_slice()).unwrap_or_default();
            for name in needed {
                self.need(name, at)?;
            }
        }
        Ok(next)
    }

    fn need(&mut self, name: &str, asker: usize) -> Result<(), Missing> {
        let Some(at) = self.find(name, asker)? else {
            let asked_by = self.objects.get(asker).map(|object| object.path.clone()).unwrap_or_default();
            return Err(Missing::Library { name: name.to_owned(), asked_by });
        };
        self.add_to_scope(at);
        Ok(())
    }

    /// The object that a name leads to, loaded now where it was not.
    fn find(&mut self, name: &str, asker: usize) -> Result<Option<usize>, Missing> {
        self.count_lookup()?;
        let is_musl = matches!(self.loader.kind, LoaderKind::Musl(_));
        if is_musl && musl::is_own_name(name) {
            return Ok(Some(1));
        }
        if let Some(known) = self.names.get(name) {
            return Ok(Some(*known));
        }
        let file: Found<'r> = if is_musl { self.musl_file(name, asker) } else { self.glibc_file(name, asker) };
        let Some(file) = file? else { return Ok(None) };
        if !is_musl && file.facts.loader.is_some() {
            // It knows itself by name, not by its file, and two of it do not go together.
            let asked_by = self.objects.get(asker).map(|object| object.path.clone()).unwrap_or_default();
            let why = "is a loader, which is not loaded by another name".to_owned();
            return Err(Missing::Unusable { path: file.written, why, asked_by });
        }
        if let Some(known) = self.places.get(&file.place).copied() {
            self.names.entry(name.to_owned()).or_insert(known);
            return Ok(Some(known));
        }
        if self.objects.len() >= MOST_OBJECTS {
            return Err(self.too_much("loads more libraries than any real program"));
        }
        Ok(Some(self.add(file, name, asker)))
    }

    fn add(&mut self, file: OpenedFile<'r>, name: &str, asker: usize) -> usize {
        let at = self.objects.len();
        let OpenedFile { written, place, facts, .. } = &file;
        let is_musl = matches!(self.loader.kind, LoaderKind::Musl(_));
        // musl knows a library by the name that it was found by, glibc also by what it calls itself.
        let own = facts.soname.clone().filter(|_| !is_musl);
        for name in [Some(name.to_owned()), own, Some(written.clone()).filter(|_| !is_musl)].into_iter().flatten() {
            self.names.entry(name).or_insert(at);
        }
        self.places.insert(*place, at);
        self.objects.push(LoadedObject::new(file, name, Some(asker)));
        at
    }

    fn add_to_scope(&mut self, at: usize) {
        if self.in_scope.insert(at) {
            self.scope.push(at);
        }
    }

    /// `LD_PRELOAD` and, where the loader is glibc's, `/etc/ld.so.preload`.
    fn preloads(&self) -> Result<Vec<String>, Missing> {
        let words = |text: &str| -> Vec<String> {
            let is_between = |next: char| next == ':' || next.is_ascii_whitespace();
            text.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let mut names = words(self.environment.preload.as_deref().unwrap_or_default());
        let file = self.opener().resolve("/etc/ld.so.preload").filter(|_| self.loader.kind == LoaderKind::Glibc);
        if let Some(file) = file {
            let text = self.root.content(file.node).and_then(|bytes| std::str::from_utf8(bytes).ok());
            let unread = || Missing::Unproven { why: "could not be read".to_owned(), about: file.path.clone() };
            let lines = text.ok_or_else(unread)?.lines().map(|line| line.split('#').next().unwrap_or_default());
            names.extend(lines.flat_map(words));
        }
        Ok(names)
    }

    pub(super) fn opener(&self) -> Opener<'_, 'r> {
        Opener { root: self.root, working_dir: &self.environment.working_dir, who: &self.environment.who }
    }

    /// The cache of the root; `None` where there is none, or none that a loader could read.
    pub(super) fn cache(&mut self, is_big: bool) -> Result<Option<Rc<LoaderCache>>, Missing> {
        let Some(file) = self.opener().resolve("/etc/ld.so.cache") else { return Ok(None) };
        if !file.node.allows(&self.environment.who, Access::Read) {
            return Ok(None);
        }
        if let Some(known) = self.linker_caches.get(&is_big) {
            return Ok(known.clone());
        }
        let unread = || Missing::Unproven { why: "could not be read".to_owned(), about: file.path.clone() };
        let bytes = self.root.content(file.node).ok_or_else(unread)?;
        let cache = LoaderCache::read(bytes, is_big).map(Rc::new);
        self.linker_caches.insert(is_big, cache.clone());
        Ok(cache)
    }

    pub(super) fn count_lookup(&mut self) -> Result<(), Missing> {
        self.lookups += 1;
        if self.lookups > MOST_LOOKUPS {
            return Err(self.too_much("searches more directories than any real program"));
        }
        Ok(())
    }

    fn too_much(&self, why: &str) -> Missing {
        let about = self.objects.first().map(|main| main.path.clone()).unwrap_or_default();
        Missing::Unproven { why: why.to_owned(), about }
    }
}
