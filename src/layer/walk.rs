//! The walk along a layer's tar: what each member means to the root it is laid upon, and what of
//! it is kept.

use std::io::BufRead;

use super::capture::{Captured, Choice, Collection, Purpose};
use super::entry::{Entries, Entry, EntryKind};
use super::extended::{Member, SparseForm};
use super::inspected::IndexedProgram;
use super::kind;
use super::limits::Limits;
use super::path::RootPath;
use super::reader::{Found, Reader};
use super::remark::{Remark, Remarks};
use super::sparse::{self, MapPlace};
use super::tape::Tape;
use super::transport::{Hashing, Transport};
use super::whiteout;
use crate::elf::Probe;
use crate::error::Result;

/// What the walk found.
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    pub(super) captured: Vec<Captured>,
    pub(super) programs: Vec<IndexedProgram>,
    pub(super) notes: Vec<String>,
}

/// Walks to the end of the tape, so that all of it is hashed.
pub(super) fn walk<R: BufRead>(tape: &mut Tape<Hashing<R>>, limits: &Limits) -> Result<Listing> {
    let mut walk = Walk {
        tar: Reader::new(tape, limits),
        limits,
        entries: Entries::of("layer"),
        captured: Collection::default(),
        programs: Vec::new(),
        remarks: Remarks::default(),
    };
    while let Some(found) = walk.tar.step()? {
        match found {
            Found::Member(member) => walk.member(member)?,
            Found::IgnoredRecords => walk.remarks.add(Remark::GlobalRecords, &RootPath::root()),
        }
    }
    let listing = walk.finish();
    tape.run_out(limits.trailer)?;
    Ok(listing)
}

struct Walk<'a, T> {
    tar: Reader<'a, T>,
    limits: &'a Limits,
    entries: Entries,
    captured: Collection,
    programs: Vec<IndexedProgram>,
    remarks: Remarks,
}

impl<T: Transport> Walk<'_, T> {
    fn member(&mut self, member: Member) -> Result<()> {
        let path = kind::path(&member.name, self.limits)?;
        if member.idle_size {
            self.remarks.add(Remark::SizeWithoutData, &path);
        }
        let offset = self.tar.offset();
        let (path, kind) = match whiteout::read(&path)? {
            whiteout::Name::Plain => (path.clone(), kind::of(&member, &path, self.limits)?),
            whiteout::Name::WhiteoutOf(path) => (path, EntryKind::Whiteout),
            whiteout::Name::OpaqueMarkIn(path) => (path, EntryKind::Opaque),
            whiteout::Name::AufsMetadata => {
                self.remarks.add(Remark::AufsMetadata, &path);
                return self.tar.skip(member.stored);
            }
        };
        self.data(&member, &path, &kind)?;
        self.entries.push(member.entry(path, kind, offset), self.limits)
    }

    /// Passes over the entry's data, and keeps it where later stages read it.
    fn data(&mut self, member: &Member, path: &RootPath, kind: &EntryKind) -> Result<()> {
        if member.sparse == Some(SparseForm::Pax(MapPlace::BeforeData)) {
            return self.check_sparse_data(member.stored);
        }
        let choice = match kind {
            EntryKind::File { size } if member.sparse.is_none() => {
                self.captured.choose(path, *size, member.mode, self.limits)
            }
            _ => Choice::Skip,
        };
        match choice {
            Choice::Keep(purpose) => {
                let content = self.tar.read(member.stored)?;
                self.captured.keep(purpose, self.entries.len(), content);
                return Ok(());
            }
            Choice::KeepScript => return self.look_for_script(member.stored),
            Choice::TooLarge => self.remarks.add(Remark::TooLargeToRead, path),
            Choice::Skip => {}
        }
        match kind {
            EntryKind::File { size: 1.. } if member.sparse.is_none() => self.inspect(member.stored),
            _ => self.tar.skip(member.stored),
        }
    }

    fn inspect(&mut self, size: u64) -> Result<()> {
        let mut probe = Probe::new(size);
        self.tar.watch(size, |bytes| probe.feed(bytes))?;
        self.programs.extend(IndexedProgram::new(self.entries.len(), probe));
        Ok(())
    }

    /// A small executable: inspected as any file, and kept where it is text for an interpreter.
    fn look_for_script(&mut self, size: u64) -> Result<()> {
        let content = self.tar.read(size)?;
        let mut probe = Probe::new(size);
        probe.feed(&content);
        self.programs.extend(IndexedProgram::new(self.entries.len(), probe));
        if content.starts_with(b"#!") {
            self.captured.keep(Purpose::Script, self.entries.len(), content);
        }
        Ok(())
    }

    fn check_sparse_data(&mut self, stored: u64) -> Result<()> {
        const LONGEST_COUNT: usize = 24;
        let head = self.tar.read_head(stored, LONGEST_COUNT)?;
        sparse::check_region_count(&head, self.limits)
    }

    fn finish(mut self) -> Listing {
        let entries = self.entries.finish();
        remark_duplicates(&entries, &mut self.remarks);
        Listing {
            notes: self.remarks.lines().collect(),
            entries,
            captured: self.captured.finish(),
            programs: self.programs,
        }
    }
}

fn remark_duplicates(entries: &[Entry], remarks: &mut Remarks) {
    let mut paths: Vec<&RootPath> =
        entries.iter().filter(|entry| !entry.kind.is_marker()).map(|entry| &entry.path).collect();
    paths.sort();
    for pair in paths.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            remarks.add(Remark::PathTwice, first);
        }
    }
}
