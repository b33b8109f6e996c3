//! Where glibc's loader looks for a library (`elf/dl-load.c`): `RPATH` of who asks and of who loaded that,
//! `LD_LIBRARY_PATH`, `RUNPATH`, the cache, and the directories that it was built with. In each directory it
//! looks first into the hwcaps directories that the processor has.

use super::cache::{Processor, cache_kind};
use super::closure::Loading;
use super::environment::Trust;
use super::missing::Missing;
use super::object::{Opened, OpenedFile, is_hard_float};
use elf::{Endian, LinkFlags};
use layer::RootPath;

/// Below a directory of libraries, one directory for each level of processors.
pub(super) const HWCAPS: &str = "glibc-hwcaps";

/// The names of hwcaps directories by machine, the least demanding first: a processor that searches one also
/// searches those before it.
pub(super) fn hwcaps_levels(machine: &str) -> &'static [&'static str] {
    match machine {
        "amd64" => &["x86-64-v2", "x86-64-v3", "x86-64-v4"],
        "s390x" => &["z13", "z14", "z15", "z16", "z17"],
        "ppc64le" => &["power9", "power10", "power11"],
        _ => &[],
    }
}

/// Directories that loaders before glibc 2.37 search by processor, alone and one in the other.
pub(super) const BY_PROCESSOR: [&str; 20] = [
    "tls", "x86_64", "haswell", "xeon_phi", "avx512_1", "i386", "i486", "i586", "i686", "cmov", "sse2", "nosegneg",
    "neon", "vfp", "v6l", "v7l", "power8", "power9", "z13", "z196",
];
/// How deep they are looked for.
const DEEPEST: usize = 3;

pub(super) type Found<'r> = Result<Option<OpenedFile<'r>>, Missing>;

impl<'r> Loading<'_, 'r> {
    /// The file that a name leads to; `None` where the loader would not find one.
    pub(super) fn glibc_file(&mut self, name: &str, asker: usize) -> Found<'r> {
        if name.contains('/') {
            let Some(path) = self.expanded(name, asker)? else { return Ok(None) };
            return self.open(&path, asker);
        }
        let Some(facts) = self.objects.get(asker).map(|object| object.facts) else { return Ok(None) };
        let mut found = if facts.runpath.is_none() { self.by_rpath(name, asker)? } else { None };
        if found.is_none() {
            found = self.by_variable(name, asker)?;
        }
        if found.is_none() {
            found = self.in_list(facts.runpath.as_deref(), asker, name, asker)?;
        }
        let is_default = !facts.flags.has(LinkFlags::NO_DEFAULT_DIRECTORIES);
        if found.is_none() {
            found = self.cached(name, asker, is_default)?;
        }
        match found {
            None if is_default => self.in_directories(&self.loader.directories, name, asker),
            found => Ok(found),
        }
    }

    fn in_directories(&mut self, directories: &[String], name: &str, asker: usize) -> Found<'r> {
        for directory in directories {
            if let Some(found) = self.in_directory(directory, name, asker)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// `LD_LIBRARY_PATH`; tokens in it are about the program.
    fn by_variable(&mut self, name: &str, asker: usize) -> Found<'r> {
        let Some(list) = &self.environment.library_path else { return Ok(None) };
        let directories = self.directories(list, [':', ';'].as_slice(), 0)?;
        self.in_directories(&directories, name, asker)
    }

    /// `RPATH` of who asks, of who loaded that, and so on; the program's comes last at the latest.
    fn by_rpath(&mut self, name: &str, asker: usize) -> Found<'r> {
        let mut next = Some(asker);
        let mut seen_main = false;
        while let Some(at) = next {
            seen_main |= at == 0;
            if let Some(found) = self.in_rpath_of(at, name, asker)? {
                return Ok(Some(found));
            }
            next = self.objects.get(at).and_then(|object| object.asked_by);
        }
        if seen_main { Ok(None) } else { self.in_rpath_of(0, name, asker) }
    }

    fn in_rpath_of(&mut self, at: usize, name: &str, asker: usize) -> Found<'r> {
        let object = self.objects.get(at);
        // Where both are given, `RPATH` counts for nothing.
        let rpath =
            object.filter(|object| object.facts.runpath.is_none()).and_then(|object| object.facts.rpath.clone());
        self.in_list(rpath.as_deref(), at, name, asker)
    }

    /// Searches a list of directories that stands in the object `of`.
    fn in_list(&mut self, list: Option<&str>, of: usize, name: &str, asker: usize) -> Found<'r> {
        let Some(list) = list.filter(|list| !list.is_empty()) else { return Ok(None) };
        let directories = self.directories(list, [':'].as_slice(), of)?;
        self.in_directories(&directories, name, asker)
    }

    /// The directories of a list, with what tokens stand for.
    fn directories(&mut self, list: &str, between: &[char], of: usize) -> Result<Vec<String>, Missing> {
        let mut found = Vec::new();
        for part in list.split(between) {
            self.count_lookup()?;
            let part = if part.is_empty() { "." } else { part };
            found.extend(self.expanded(part, of)?);
        }
        Ok(found)
    }

    /// `$ORIGIN`, `$LIB` and `$PLATFORM` put in; `None` where the loader leaves the path out.
    fn expanded(&self, text: &str, of: usize) -> Result<Option<String>, Missing> {
        let Some(object) = self.objects.get(of).filter(|_| text.contains('$')) else {
            return Ok(Some(text.to_owned()));
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            rest = after;
            match token(after) {
                Some(("ORIGIN", len)) if self.trust == Trust::Plain => {
                    out.push_str(&object.origin());
                    rest = after.get(len..).unwrap_or_default();
                }
                Some(("ORIGIN", _)) => return Ok(None),
                Some(("LIB", len)) => {
                    out.push_str(&self.own_directory());
                    rest = after.get(len..).unwrap_or_default();
                }
                Some(_) => {
                    let why = "searches a directory that depends on the processor ($PLATFORM)".to_owned();
                    return Err(Missing::Unproven { why, about: object.path.clone() });
                }
                None => out.push('$'),
            }
        }
        Ok(Some(out + rest))
    }

    /// What `$LIB` stands for: the first of the loader's own directories, as in `/usr/$LIB`.
    fn own_directory(&self) -> String {
        let first = self.loader.directories.first().map_or("lib", String::as_str);
        first.trim_matches('/').trim_start_matches("usr/").to_owned()
    }

    fn in_directory(&mut self, directory: &str, name: &str, asker: usize) -> Found<'r> {
        let Some(facts) = self.directory_facts(directory) else { return Ok(None) };
        if facts.has_hwcaps {
            self.depends_on_processor = true;
            let levels = self.levels;
            for level in levels.iter().rev() {
                if let Some(found) = self.open(&join(directory, &format!("{HWCAPS}/{level}/{name}")), asker)? {
                    return Ok(Some(found));
                }
            }
        }
        for by_processor in facts.by_processor {
            self.count_lookup()?;
            if self.opener().resolve(&join(&by_processor, name)).is_some() {
                let about = RootPath::new(join(&by_processor, name)).unwrap_or_default();
                return Err(Missing::Unproven {
                    why: "is loaded by some processors and not by others".to_owned(),
                    about,
                });
            }
        }
        self.open(&join(directory, name), asker)
    }

    /// The directory's own facts, which are looked up once; `None` where it is not there.
    fn directory_facts(&mut self, directory: &str) -> Option<DirectoryFacts> {
        if let Some(known) = self.known_directories.get(directory) {
            return known.clone();
        }
        let facts = self.opener().resolve(directory).filter(|found| found.node.is_directory()).map(|found| {
            let has = |name: &[u8]| self.root.directory(&found.path).any(|(child, _)| child == name);
            let mut by_processor = Vec::new();
            self.add_by_processor(&found.path, DEEPEST, &mut by_processor);
            DirectoryFacts { has_hwcaps: has(HWCAPS.as_bytes()), by_processor }
        });
        self.known_directories.insert(directory.to_owned(), facts.clone());
        facts
    }

    fn add_by_processor(&self, directory: &RootPath, depth: usize, found: &mut Vec<String>) {
        let names = self.root.directory(directory).filter(|(_, node)| node.is_directory()).map(|(name, _)| name);
        let names = names.filter(|name| BY_PROCESSOR.iter().any(|known| known.as_bytes() == *name));
        for below in names.filter_map(|name| directory.join(name).ok()).collect::<Vec<_>>() {
            found.push(below.to_string());
            if depth > 1 {
                self.add_by_processor(&below, depth - 1, found);
            }
        }
    }

    /// What the cache says, where the file that it names is still there.
    fn cached(&mut self, name: &str, asker: usize, is_default: bool) -> Found<'r> {
        let Some(program) = self.objects.first().map(|main| main.program) else { return Ok(None) };
        let is_big = program.endian == Some(Endian::Big);
        let Some(cache) = self.cache(is_big)? else { return Ok(None) };
        let Some(kind) = cache_kind(program.machine.as_deref().unwrap_or_default(), is_hard_float(program)) else {
            let why = "is in a form that is not known for this machine".to_owned();
            return Err(Missing::Unproven { why, about: RootPath::new("etc/ld.so.cache").unwrap_or_default() });
        };
        let rank = |processor: &Processor| match processor {
            Processor::Any => Some(0),
            Processor::Hwcaps(level) => self.levels.iter().position(|known| known == level).map(|at| at + 1),
            Processor::Unknown => None,
        };
        let mut best: Option<(usize, String)> = None;
        for file in cache.files(name, kind) {
            if file.processor == Processor::Unknown {
                let about = RootPath::new(&file.path).unwrap_or_default();
                let why = "is loaded by some processors and not by others".to_owned();
                return Err(Missing::Unproven { why, about });
            }
            if let Some(rank) = rank(&file.processor)
                && best.as_ref().is_none_or(|(best, _)| *best < rank)
            {
                best = Some((rank, file.path.clone()));
            }
        }
        self.depends_on_processor |= cache.has_hwcaps();
        let is_own = |path: &str| self.loader.directories.iter().any(|directory| path.starts_with(directory.as_str()));
        match best {
            Some((_, path)) if is_default || !is_own(&path) => self.open(&path, asker),
            _ => Ok(None),
        }
    }

    /// Opens a path for an object.
    pub(super) fn open(&mut self, written: &str, asker: usize) -> Found<'r> {
        self.count_lookup()?;
        let Some(main) = self.objects.first() else { return Ok(None) };
        match self.opener().open(written, main.program) {
            Opened::Absent | Opened::OtherMachine => Ok(None),
            Opened::Unusable(why) => {
                let asked_by = self.objects.get(asker).map(|object| object.path.clone()).unwrap_or_default();
                Err(Missing::Unusable { path: written.to_owned(), why, asked_by })
            }
            Opened::File(file) if file.facts.flags.has(LinkFlags::ODD_HEADER) => {
                let asked_by = self.objects.get(asker).map(|object| object.path.clone()).unwrap_or_default();
                let why = "has an ELF header that the loader does not accept".to_owned();
                Err(Missing::Unusable { path: written.to_owned(), why, asked_by })
            }
            Opened::File(file) => Ok(Some(file)),
        }
    }
}

/// What there is in a directory of libraries that depends on the processor.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectoryFacts {
    pub has_hwcaps: bool,
    /// Directories below it, by path.
    pub by_processor: Vec<String>,
}

pub(super) fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// The token after a `$`, and how long it is.
fn token(text: &str) -> Option<(&'static str, usize)> {
    ["ORIGIN", "LIB", "PLATFORM"].into_iter().find_map(|name| {
        if let Some(rest) = text.strip_prefix('{') {
            return rest.strip_prefix(name)?.starts_with('}').then_some((name, name.len() + 2));
        }
        let rest = text.strip_prefix(name)?;
        let goes_on = rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        (!goes_on).then_some((name, name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_with_and_without_braces() {
        for (text, expected) in [
            ("ORIGIN", Some(("ORIGIN", 6))),
            ("ORIGIN/../lib", Some(("ORIGIN", 6))),
            ("{ORIGIN}/x", Some(("ORIGIN", 8))),
            ("LIB:x", Some(("LIB", 3))),
            ("LIBRARY", None),
            ("{LIB", None),
            ("{LIBx}", None),
            ("PLATFORM", Some(("PLATFORM", 8))),
            ("origin", None),
            ("", None),
        ] {
            assert_eq!(token(text), expected, "{text}");
        }
    }
}
