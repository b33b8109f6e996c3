//! The walk along a tar: header blocks in, entries out. It never looks back, and what it does not
//! understand ends it: after a wrong guess about one entry, all that follows would be wrong.

use std::io::BufRead;

use super::capture::{Captured, Choice, Collection};
use super::entry::{Entry, EntryKind};
use super::extended::{Extended, Member, SparseForm, positive};
use super::header::{Header, text};
use super::kind;
use super::limits::{Limits, over};
use super::path::{RootPath, shown};
use super::pax::{self, Records};
use super::remark::{Remark, Remarks};
use super::sparse::{self, MapPlace, More};
use super::tape::{BLOCK, Tape};
use super::whiteout;
use crate::error::{Error, Result};

/// What the walk found.
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    pub(super) captured: Vec<Captured>,
    pub(super) notes: Vec<String>,
}

/// Walks to the end of the tape, so that all of it is hashed.
pub(super) fn walk<R: BufRead>(tape: &mut Tape<R>, limits: &Limits) -> Result<Listing> {
    let mut walk = Walk {
        tape,
        limits,
        extended: Extended::default(),
        entries: Vec::new(),
        footprint: 0,
        captured: Collection::default(),
        remarks: Remarks::default(),
    };
    while let Some(block) = walk.next_header()? {
        walk.header(&block)?;
    }
    walk.finish()
}

struct Walk<'a, R> {
    tape: &'a mut Tape<R>,
    limits: &'a Limits,
    extended: Extended,
    entries: Vec<Entry>,
    footprint: usize,
    captured: Collection,
    remarks: Remarks,
}

impl<R: BufRead> Walk<'_, R> {
    /// The next header, or `None` at the end: two zero blocks, though like Go we are content
    /// with one, or with the end of the stream.
    fn next_header(&mut self) -> Result<Option<[u8; BLOCK]>> {
        match self.tape.block()? {
            None => Ok(None),
            Some(block) if !is_zero(&block) => Ok(Some(block)),
            Some(_) => match self.tape.block()? {
                Some(block) if !is_zero(&block) => {
                    Err(Error::input("tar has a single zero block where an entry should begin"))
                }
                _ => Ok(None),
            },
        }
    }

    fn header(&mut self, block: &[u8; BLOCK]) -> Result<()> {
        let header = Header::read(block)?;
        match header.typeflag {
            b'x' => {
                let bytes = self.metadata(&header)?;
                self.extended.add_records(Records::read(&bytes, self.limits)?)
            }
            b'g' => self.global(&header),
            b'L' => {
                let name = self.metadata(&header)?;
                self.extended.add_long_name(text(&name).to_vec())
            }
            b'K' => {
                let link = self.metadata(&header)?;
                self.extended.add_long_link(text(&link).to_vec())
            }
            _ => {
                let name = shown(&header.name);
                let extended = std::mem::take(&mut self.extended);
                let member = extended.apply(header, block).map_err(|error| error.fact("header of", name))?;
                self.member(member, block)
            }
        }
    }

    /// The data of a header that only describes the next one. Its size is its own: what an
    /// earlier PAX header says is meant for the entry, not for this.
    fn metadata(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = positive(header.size, "size")?;
        self.extended.book(size, self.limits)?;
        self.read(size)
    }

    fn read(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.tape.data(size, |bytes| content.extend_from_slice(bytes))?;
        Ok(content)
    }

    fn global(&mut self, header: &Header) -> Result<()> {
        if !self.extended.is_empty() {
            return Err(Error::input("global PAX header stands between an entry and its own header"));
        }
        let bytes = self.metadata(header)?;
        self.extended = Extended::default();
        if pax::check_global(&bytes)? == pax::Global::Ignored {
            self.remarks.add(Remark::GlobalRecords, &RootPath::root());
        }
        Ok(())
    }

    fn member(&mut self, member: Member, block: &[u8; BLOCK]) -> Result<()> {
        let path = kind::path(&member.name, self.limits)?;
        if member.idle_size {
            self.remarks.add(Remark::SizeWithoutData, &path);
        }
        if member.sparse == Some(SparseForm::OldGnu) {
            self.skip_sparse_map(block)?;
        }
        let offset = self.tape.offset();
        self.check_size(&member, offset)?;
        let (path, kind) = match whiteout::read(&path)? {
            whiteout::Name::Plain => (path.clone(), kind::of(&member, &path, self.limits)?),
            whiteout::Name::WhiteoutOf(path) => (path, EntryKind::Whiteout),
            whiteout::Name::OpaqueMarkIn(path) => (path, EntryKind::Opaque),
            whiteout::Name::AufsMetadata => {
                self.remarks.add(Remark::AufsMetadata, &path);
                return self.tape.data(member.stored, |_| {});
            }
        };
        self.data(&member, &path, &kind)?;
        let Member { mode, uid, gid, mtime, xattrs, .. } = member;
        self.list(Entry { path, kind, mode, uid, gid, mtime, xattrs, offset })
    }

    /// A size that the stream cannot have is refused before anything is read.
    fn check_size(&self, member: &Member, offset: u64) -> Result<()> {
        let most = self.limits.unpacked;
        if offset.saturating_add(member.stored) > most || member.size > most {
            return Err(over("entry unpacks to a size", format!("{most} bytes")).fact("entry", shown(&member.name)));
        }
        Ok(())
    }

    /// Passes over the entry's data, and keeps it where later stages read it.
    fn data(&mut self, member: &Member, path: &RootPath, kind: &EntryKind) -> Result<()> {
        if member.sparse == Some(SparseForm::Pax(MapPlace::BeforeData)) {
            return self.check_sparse_data(member.stored);
        }
        let choice = match kind {
            EntryKind::File { size } if member.sparse.is_none() => self.captured.choose(path, *size, self.limits),
            _ => Choice::Skip,
        };
        match choice {
            Choice::Keep => {
                let content = self.read(member.stored)?;
                self.captured.keep(self.entries.len(), content);
                return Ok(());
            }
            Choice::TooLarge => self.remarks.add(Remark::TooLargeToRead, path),
            Choice::Skip => {}
        }
        self.tape.data(member.stored, |_| {})
    }

    fn check_sparse_data(&mut self, stored: u64) -> Result<()> {
        const LONGEST_COUNT: usize = 24;
        let mut head = Vec::new();
        self.tape.data(stored, |bytes| {
            let wanted = LONGEST_COUNT.saturating_sub(head.len());
            head.extend(bytes.iter().take(wanted));
        })?;
        sparse::check_region_count(&head, self.limits)
    }

    /// The map of an old GNU sparse file stands between its header and its data.
    fn skip_sparse_map(&mut self, header: &[u8; BLOCK]) -> Result<()> {
        let mut metadata = Extended::default();
        let mut more = sparse::after_header(header);
        while more == More::Follows {
            metadata.book(BLOCK as u64, self.limits)?;
            let Some(block) = self.tape.block()? else {
                return Err(Error::input("tar ends inside a header"));
            };
            more = sparse::after_map_block(&block);
        }
        Ok(())
    }

    fn list(&mut self, entry: Entry) -> Result<()> {
        if self.entries.len() >= self.limits.entries {
            return Err(over("layer has a number of entries", format!("{} entries", self.limits.entries)));
        }
        self.footprint = self.footprint.saturating_add(entry.footprint());
        if self.footprint > self.limits.index {
            return Err(over("list of the layer's entries is", format!("{} bytes of memory", self.limits.index)));
        }
        self.entries.push(entry);
        Ok(())
    }

    fn finish(mut self) -> Result<Listing> {
        if !self.extended.is_empty() {
            return Err(Error::input("tar ends between an extended header and its entry"));
        }
        self.tape.run_out(self.limits.trailer)?;
        self.remark_duplicates();
        Ok(Listing { notes: self.remarks.lines().collect(), entries: self.entries, captured: self.captured.finish() })
    }

    fn remark_duplicates(&mut self) {
        let mut paths: Vec<&RootPath> =
            self.entries.iter().filter(|entry| !entry.kind.is_marker()).map(|entry| &entry.path).collect();
        paths.sort();
        for pair in paths.windows(2) {
            if let [first, second] = pair
                && first == second
            {
                self.remarks.add(Remark::PathTwice, first);
            }
        }
    }
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|byte| *byte == 0)
}
