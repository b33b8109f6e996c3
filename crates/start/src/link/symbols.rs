//! Whether the files that a loader has mapped fit together: every version that one needs of another is
//! defined there (`elf/dl-version.c`), and every symbol that must be found is (`elf/dl-lookup.c`). musl knows
//! no versions, and binds everything before it starts.

use std::collections::{HashMap, HashSet};

use super::closure::Loading;
use super::missing::Missing;
use super::object::LoadedObject;
use elf::{BoundWhen, LinkFlags, LoaderKind, NameHash, SymbolDefinitions, SymbolKind, SymbolUse};

/// Below it, an index of a version means that there is none.
const FIRST_VERSION: u16 = 2;
const INDEX: u16 = 0x3fff;
/// Not the version that a reference without one is bound to.
const HIDDEN: u16 = 0x8000;
/// A reference without a version is bound to what was there before versions, and to the first of them.
const OLDEST: u16 = 3;
const PRIVATE: &str = "GLIBC_PRIVATE";
const PACKED_RELATIVE: &str = "GLIBC_ABI_DT_RELR";

/// For files that were found to have all their symbols: the files that have them. Where all of these are
/// mapped again, with another program, they need not be looked for again.
#[derive(Debug, Default)]
pub(super) struct Providers(HashMap<(usize, usize), Vec<(usize, usize)>>);

impl Providers {
    fn are_in(&self, object: &LoadedObject<'_>, places: &HashSet<(usize, usize)>) -> bool {
        self.0.get(&object.place).is_some_and(|known| known.iter().all(|place| places.contains(place)))
    }
}

/// The first thing that is missing among the objects of a scope.
pub(super) fn check(loading: &Loading<'_, '_>, providers: &mut Providers) -> Option<Missing> {
    let Loading { objects, names, .. } = loading;
    let scope: Vec<&LoadedObject<'_>> = loading.scope.iter().filter_map(|at| objects.get(*at)).collect();
    let is_musl = loading.loader.kind != LoaderKind::Glibc;
    let check = ScopeCheck { objects, names, scope, loader: objects.get(1)?, is_musl };
    let binds_now = loading.environment.binds_now;
    check.files().or_else(|| check.versions()).or_else(|| check.symbols(binds_now, providers))
}

struct ScopeCheck<'a, 'r> {
    /// All that are loaded, whether symbols are looked for in them or not.
    objects: &'a [LoadedObject<'r>],
    names: &'a HashMap<String, usize>,
    scope: Vec<&'a LoadedObject<'r>>,
    loader: &'a LoadedObject<'r>,
    is_musl: bool,
}

impl<'a, 'r> ScopeCheck<'a, 'r> {
    /// What can be said of each file alone.
    fn files(&self) -> Option<Missing> {
        self.scope.iter().find_map(|object| {
            let why = self.objection(object)?;
            Some(Missing::Unproven { why, about: object.path.clone() })
        })
    }

    fn objection(&self, object: &LoadedObject<'_>) -> Option<String> {
        let unreadable = || match object.program.notes.last() {
            Some(note) => format!("has symbols that could not be read: {note}"),
            None => "has symbols that could not be read".to_owned(),
        };
        if !object.facts.complete || object.program.needed.iter().any(|name| name == "?") {
            return Some(unreadable());
        }
        if object.has(LinkFlags::FILTER) {
            return Some("stands in for other libraries (DT_FILTER), which is not followed".to_owned());
        }
        if object.has(LinkFlags::PACKED_RELATIVE) && !self.unpacks_relative(object) {
            return Some("has packed relocations (DT_RELR), which the loader may not know".to_owned());
        }
        // glibc's loader prepares the C library for the program, and knows it by that name.
        if !self.is_musl && object.name.starts_with("libc.so.") && object.facts.soname.as_ref() != Some(&object.name) {
            return Some(format!("is not {}, although it is called so", object.name));
        }
        self.is_of_other_build(object)
            .then(|| format!("is not of the same build of glibc as the loader {}", self.loader.path))
    }

    /// Loaders that know packed relocations say so: glibc's by a version, musl's by having them itself.
    fn unpacks_relative(&self, object: &LoadedObject<'_>) -> bool {
        if self.is_musl {
            return self.loader.has(LinkFlags::PACKED_RELATIVE);
        }
        let mut needed = object.facts.version_needs.iter().flat_map(|need| &need.versions);
        let needs_libc = object.facts.version_needs.iter().any(|need| need.file.starts_with("libc.so."));
        let is_defined = |object: &&LoadedObject<'_>| defines(object, PACKED_RELATIVE);
        needed.any(|version| version.name == PACKED_RELATIVE)
            || std::ptr::eq(object, self.loader)
            || (!needs_libc && self.scope.iter().any(is_defined))
    }

    /// glibc's own files have an agreement with the loader that no version tells.
    fn is_of_other_build(&self, object: &LoadedObject<'_>) -> bool {
        let needs_private = || {
            let mut needed = object.facts.version_needs.iter().flat_map(|need| &need.versions);
            needed.any(|version| version.name == PRIVATE)
        };
        if self.is_musl || std::ptr::eq(object, self.loader) {
            return false;
        }
        match (&object.facts.glibc_release, &self.loader.facts.glibc_release) {
            (Some(own), Some(loader)) => own != loader,
            (Some(_), None) => object.place.0 != self.loader.place.0,
            (None, _) => needs_private() && object.place.0 != self.loader.place.0,
        }
    }

    fn versions(&self) -> Option<Missing> {
        self.scope.iter().filter(|_| !self.is_musl).find_map(|object| self.versions_of(object))
    }

    fn versions_of(&self, object: &LoadedObject<'_>) -> Option<Missing> {
        object.facts.version_needs.iter().find_map(|need| {
            let asked_by = || object.path.clone();
            let Some(file) = self.by_name(&need.file) else {
                return Some(Missing::Library { name: need.file.clone(), asked_by: asked_by() });
            };
            // A file without any is taken as it is, with a warning; its symbols then decide.
            let is_missing = |name: &str| !file.facts.version_definitions.is_empty() && !defines(file, name);
            let version = need.versions.iter().find(|version| !version.is_weak && is_missing(&version.name))?;
            let version = version.name.clone();
            Some(Missing::Version { file: need.file.clone(), version, asked_by: asked_by() })
        })
    }

    /// The loaded file that is known by a name.
    fn by_name(&self, name: &str) -> Option<&'a LoadedObject<'r>> {
        self.names.get(name).and_then(|at| self.objects.get(*at))
    }

    fn symbols(&self, binds_now: bool, providers: &mut Providers) -> Option<Missing> {
        let places: HashSet<(usize, usize)> = self.scope.iter().map(|object| object.place).collect();
        let mut table = None;
        let mut later = None;
        for object in self.scope.iter().filter(|object| !providers.are_in(object, &places)).collect::<Vec<_>>() {
            let mut used = HashSet::new();
            for symbol in &object.facts.uses {
                let wanted = WantedSymbol::new(symbol, object);
                let Some(file) = self.find(&wanted, &mut table) else {
                    let missing = self.missing(object, &wanted, binds_now);
                    if missing.is_at_start() {
                        return Some(missing);
                    }
                    later = later.or(Some(missing));
                    continue;
                };
                if symbol.is_copied && file.has(LinkFlags::NO_COPIES) {
                    let why = format!("copies {} from {}, which may not allow it", symbol.name, file.path);
                    return Some(Missing::Unproven { why, about: object.path.clone() });
                }
                used.insert(file.place);
            }
            providers.0.insert(object.place, used.into_iter().collect());
        }
        later
    }

    /// The file that has a symbol. Most are where their version is needed from; the others are looked up in a
    /// table of all, which is made when the first one asks for it.
    fn find(&self, wanted: &WantedSymbol<'_>, table: &mut Option<ScopeSymbols>) -> Option<&'a LoadedObject<'r>> {
        let hinted = wanted.file.and_then(|file| self.by_name(file)).filter(|file| self.has(file, wanted));
        hinted.or_else(|| {
            let table = table.get_or_insert_with(|| ScopeSymbols::new(&self.scope));
            table.files(wanted.hash).filter_map(|at| self.scope.get(at)).copied().find(|file| self.has(file, wanted))
        })
    }

    fn missing(&self, object: &LoadedObject<'_>, wanted: &WantedSymbol<'_>, binds_now: bool) -> Missing {
        let is_now = self.is_musl || binds_now || object.has(LinkFlags::BIND_NOW);
        let bound = if is_now { BoundWhen::Started } else { wanted.symbol.bound };
        let version = wanted.version.filter(|_| !self.is_musl).map(str::to_owned);
        let is_local = wanted.symbol.kind == SymbolKind::ThreadLocal;
        let name = format!("{}{}", if is_local { "thread-local " } else { "" }, wanted.symbol.name);
        Missing::Symbol { name, version, bound, asked_by: object.path.clone() }
    }

    /// Whether a reference is bound to a definition in this file (`check_match`).
    fn has(&self, file: &LoadedObject<'_>, wanted: &WantedSymbol<'_>) -> bool {
        if wanted.symbol.is_copied && file.asked_by.is_none() {
            return false;
        }
        let is_wanted = |raw: &u16| match wanted.symbol.kind {
            SymbolKind::Any => true,
            SymbolKind::Shared => raw & SymbolDefinitions::THREAD_LOCAL == 0,
            SymbolKind::ThreadLocal => raw & SymbolDefinitions::THREAD_LOCAL != 0,
        };
        let mut raw = file.facts.defines.versions(wanted.hash).filter(is_wanted);
        let is_versioned = file.has(LinkFlags::VERSIONED);
        if self.is_musl {
            return raw.any(|raw| !is_versioned || raw & HIDDEN == 0);
        }
        match wanted.version {
            // Where the very file that should have the version has none, the loader stops.
            Some(_) if !is_versioned => raw.next().is_some() && !self.is_called(file, wanted.file),
            Some(version) => raw.any(|raw| match file.versions.get(&(raw & INDEX)) {
                Some(name) => *name == version,
                None => raw & HIDDEN == 0,
            }),
            None if !is_versioned => raw.next().is_some(),
            None => {
                let all: Vec<u16> = raw.collect();
                let defaults = all.iter().filter(|raw| **raw & HIDDEN == 0).count();
                all.iter().any(|raw| raw & INDEX < OLDEST) || defaults == 1
            }
        }
    }

    fn is_called(&self, file: &LoadedObject<'_>, name: Option<&str>) -> bool {
        name.and_then(|name| self.by_name(name)).is_some_and(|called| called.place == file.place)
    }
}

fn defines(object: &LoadedObject<'_>, version: &str) -> bool {
    object.facts.version_definitions.iter().any(|defined| defined.name == version)
}

/// A symbol that a file uses, with what its version is called and which file that is needed from.
struct WantedSymbol<'a> {
    symbol: &'a SymbolUse,
    hash: NameHash,
    version: Option<&'a str>,
    file: Option<&'a str>,
}

impl<'a> WantedSymbol<'a> {
    fn new(symbol: &'a SymbolUse, object: &LoadedObject<'a>) -> Self {
        let version = object.versions.get(&symbol.version).copied().filter(|_| symbol.version >= FIRST_VERSION);
        let file = object.version_files.get(&symbol.version).copied();
        Self { symbol, hash: NameHash::of(symbol.name.as_bytes()), version, file }
    }
}

/// Which files of a scope define a symbol, in its order.
struct ScopeSymbols {
    first: HashMap<NameHash, usize>,
    /// The place of a file in the scope, and the next row about the same symbol.
    rows: Vec<(usize, Option<usize>)>,
}

impl ScopeSymbols {
    fn new(scope: &[&LoadedObject<'_>]) -> Self {
        let mut symbols = Self { first: HashMap::new(), rows: Vec::new() };
        for (at, object) in scope.iter().enumerate().rev() {
            for (hash, _) in object.facts.defines.iter() {
                let next = symbols.first.insert(hash, symbols.rows.len());
                symbols.rows.push((at, next));
            }
        }
        symbols
    }

    fn files(&self, hash: NameHash) -> impl Iterator<Item = usize> + '_ {
        let mut next = self.first.get(&hash).copied();
        std::iter::from_fn(move || {
            let (file, after) = *self.rows.get(next?)?;
            next = after;
            Some(file)
        })
    }
}
