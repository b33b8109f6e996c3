//! The walk through a layer's tar: what each member means for the root below it, what of it is kept,
//! and what a person should know about it: one note per kind of oddity, not per entry.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use super::blocks::Blocks;
use super::blocks::{ByteSource, HashedStream};
use super::capture::{CaptureChoice, Captured, CapturedFiles, Purpose};
use super::entry::{Entry, EntryKind, EntryList};
use super::index::{FileDigest, FileDigests, IndexedProgram};
use super::limits::Limits;
use super::member::{ParsedMember, SparseForm};
use super::member::{entry_kind, entry_path};
use super::path::RootPath;
use super::reader::{MemberReader, TarItem};
use super::sparse::{self, MapPlace};
use super::whiteout;
use elf::{Probe, ProgramStrings};
use oci::error::Result;
use oci::{Digest, Hasher};

/// What the walk found.
pub(super) struct WalkResult {
    pub(super) entries: Vec<Entry>,
    pub(super) captured: Vec<Captured>,
    pub(super) programs: Vec<IndexedProgram>,
    pub(super) digests: Option<Vec<FileDigest>>,
    pub(super) notes: Vec<String>,
}

/// Walks to the end of the blocks, so that all of it is hashed.
pub(super) fn walk<R: BufRead>(blocks: &mut Blocks<HashedStream<R>>, limits: &Limits) -> Result<WalkResult> {
    let mut walk = TarWalk {
        tar: MemberReader::new(blocks, limits),
        limits,
        entries: EntryList::of("layer"),
        captured: CapturedFiles::default(),
        programs: Vec::new(),
        digests: (limits.file_digests == FileDigests::Wanted).then(Vec::new),
        strings: 0,
        symbols: 0,
        notes: LayerNotes::default(),
    };
    while let Some(found) = walk.tar.step()? {
        match found {
            TarItem::Member(member) => walk.member(member)?,
            TarItem::IgnoredRecords => walk.notes.add(NoteKind::GlobalRecords, &RootPath::root()),
        }
    }
    let listing = walk.finish();
    blocks.run_out(limits.trailer)?;
    Ok(listing)
}

struct TarWalk<'a, T> {
    tar: MemberReader<'a, T>,
    limits: &'a Limits,
    entries: EntryList,
    captured: CapturedFiles,
    programs: Vec<IndexedProgram>,
    digests: Option<Vec<FileDigest>>,
    /// Bytes of the programs' strings.
    strings: usize,
    /// Bytes of their symbols.
    symbols: usize,
    notes: LayerNotes,
}

impl<T: ByteSource> TarWalk<'_, T> {
    fn member(&mut self, member: ParsedMember) -> Result<()> {
        let path = entry_path(&member.name, self.limits)?;
        if member.idle_size {
            self.notes.add(NoteKind::SizeWithoutData, &path);
        }
        let offset = self.tar.offset();
        let (path, kind) = match whiteout::read(&path)? {
            whiteout::Name::Plain => (path.clone(), entry_kind(&member, &path, self.limits)?),
            whiteout::Name::WhiteoutOf(path) => (path, EntryKind::Whiteout),
            whiteout::Name::OpaqueMarkIn(path) => (path, EntryKind::Opaque),
            whiteout::Name::AufsMetadata => {
                self.notes.add(NoteKind::AufsMetadata, &path);
                return self.tar.skip(member.stored);
            }
        };
        self.data(&member, &path, &kind)?;
        self.entries.push(member.entry(path, kind, offset), self.limits)
    }

    /// Passes over the entry's data, and keeps it where later stages read it.
    fn data(&mut self, member: &ParsedMember, path: &RootPath, kind: &EntryKind) -> Result<()> {
        if member.sparse == Some(SparseForm::Pax(MapPlace::BeforeData)) {
            return self.check_sparse_data(member.stored);
        }
        let choice = match kind {
            EntryKind::File { size } if member.sparse.is_none() => {
                self.captured.choose(path, *size, member.mode, self.limits)
            }
            _ => CaptureChoice::Skip,
        };
        match choice {
            CaptureChoice::Keep(purpose) => {
                let content = self.tar.read(member.stored)?;
                self.add_digest(|| Digest::of(&content));
                self.captured.keep(purpose, self.entries.len(), content);
                return Ok(());
            }
            CaptureChoice::KeepScript => {
                let is_named_so = path.name().is_some_and(|name| name.ends_with(b".sh"));
                return self.look_for_script(member.stored, is_named_so);
            }
            CaptureChoice::TooLarge => self.notes.add(NoteKind::TooLargeToRead, path),
            CaptureChoice::Skip => {}
        }
        match kind {
            EntryKind::File { size: 1.. } if member.sparse.is_none() => self.inspect(member.stored),
            EntryKind::File { size: 0 } if member.sparse.is_none() => {
                self.add_digest(|| Digest::of(b""));
                self.tar.skip(member.stored)
            }
            _ => self.tar.skip(member.stored),
        }
    }

    fn inspect(&mut self, size: u64) -> Result<()> {
        let mut probe = Probe::new(size);
        let mut hasher = self.digests.is_some().then(Hasher::default);
        self.tar.watch(size, |bytes| {
            probe.feed(bytes);
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
        })?;
        if let Some(hasher) = hasher {
            self.add_digest(|| hasher.finish().digest);
        }
        self.add_program(probe);
        Ok(())
    }

    /// Of the entry that comes next, where digests were asked for.
    fn add_digest(&mut self, digest: impl FnOnce() -> Digest) {
        let entry = self.entries.len();
        if let Some(digests) = &mut self.digests {
            digests.push(FileDigest { entry, digest: digest() });
        }
    }

    /// Adds what was found out about an entry; its strings and symbols only as long as there is room for them.
    fn add_program(&mut self, probe: Probe) {
        let Some(mut found) = IndexedProgram::new(self.entries.len(), probe) else { return };
        let strings = self.strings.saturating_add(found.program.strings.byte_len());
        if strings > self.limits.strings {
            found.program.strings = ProgramStrings::default();
        } else {
            self.strings = strings;
        }
        if let Some(dynamic) = &mut found.program.dynamic {
            let symbols = self.symbols.saturating_add(dynamic.byte_len());
            if symbols > self.limits.symbols {
                *dynamic = Arc::new(dynamic.without_symbols());
                found.program.notes.push("the programs of its layer have more symbols than are kept".to_owned());
            } else {
                self.symbols = symbols;
            }
        }
        self.programs.push(found);
    }

    /// A small executable: inspected as any file, and kept where it is text for an interpreter.
    /// A shell reads what it is given: a file that is named as a script needs no `#!`.
    fn look_for_script(&mut self, size: u64, is_named_so: bool) -> Result<()> {
        let content = self.tar.read(size)?;
        self.add_digest(|| Digest::of(&content));
        let mut probe = Probe::new(size);
        probe.feed(&content);
        self.add_program(probe);
        if content.starts_with(b"#!") || is_named_so {
            self.captured.keep(Purpose::Script, self.entries.len(), content);
        }
        Ok(())
    }

    fn check_sparse_data(&mut self, stored: u64) -> Result<()> {
        const LONGEST_COUNT: usize = 24;
        let head = self.tar.read_head(stored, LONGEST_COUNT)?;
        sparse::check_region_count(&head, self.limits)
    }

    fn finish(mut self) -> WalkResult {
        let entries = self.entries.finish();
        note_duplicates(&entries, &mut self.notes);
        WalkResult {
            notes: self.notes.lines().collect(),
            entries,
            captured: self.captured.finish(),
            programs: self.programs,
            digests: self.digests,
        }
    }
}

fn note_duplicates(entries: &[Entry], notes: &mut LayerNotes) {
    let mut paths: Vec<&RootPath> =
        entries.iter().filter(|entry| !entry.kind.is_marker()).map(|entry| &entry.path).collect();
    paths.sort();
    for pair in paths.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            notes.add(NoteKind::PathTwice, first);
        }
    }
}

/// A kind of oddity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoteKind {
    PathTwice,
    AufsMetadata,
    SizeWithoutData,
    GlobalRecords,
    TooLargeToRead,
}

impl NoteKind {
    /// The kind about one entry.
    fn about(self, path: &RootPath) -> String {
        match self {
            Self::PathTwice => format!("{path} appears more than once; the last one counts"),
            Self::AufsMetadata => format!("{path} is aufs metadata and is skipped"),
            Self::SizeWithoutData => {
                format!("{path} has a size although its type has no data; the size is ignored, as in runtimes")
            }
            Self::GlobalRecords => "the tar has global PAX records; they are ignored, as in runtimes".to_owned(),
            Self::TooLargeToRead => format!("{path} is too large to read"),
        }
    }
}

/// The oddities seen, each with its first example and a count.
#[derive(Default)]
pub(super) struct LayerNotes(BTreeMap<NoteKind, (RootPath, u64)>);

impl LayerNotes {
    pub(super) fn add(&mut self, kind: NoteKind, path: &RootPath) {
        self.0.entry(kind).or_insert_with(|| (path.clone(), 0)).1 += 1;
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(kind, (path, count))| match count {
            1 => kind.about(path),
            _ => format!("{} (and {} more like it)", kind.about(path), count - 1),
        })
    }
}
