//! The reader of a tar: header blocks in, members out. It never looks back, and what it does not
//! understand ends it: after a wrong guess about one member, all that follows would be wrong.
//!
//! What a member means, in a layer or in an archive on disk, is up to the caller.

use super::blocks::ByteSource;
use super::blocks::{BLOCK, Blocks};
use super::header::{TarHeader, text};
use super::limits::{Limits, over};
use super::member::{ExtendedHeaders, ParsedMember, SparseForm, positive};
use super::path::shown;
use super::pax::{self, PaxRecords};
use super::sparse::{self, MapContinues};
use oci::error::{Error, Result};

/// One item of a tar.
pub(super) enum TarItem {
    /// The blocks is at its data, which has to be passed before the next step.
    Member(ParsedMember),
    /// Records for all members that follow. Go, and so every runtime, ignores them.
    IgnoredRecords,
}

pub(super) struct MemberReader<'a, T> {
    blocks: &'a mut Blocks<T>,
    limits: &'a Limits,
    extended: ExtendedHeaders,
}

impl<'a, T: ByteSource> MemberReader<'a, T> {
    pub(super) fn new(blocks: &'a mut Blocks<T>, limits: &'a Limits) -> Self {
        Self { blocks, limits, extended: ExtendedHeaders::default() }
    }

    /// How many bytes have gone by.
    pub(super) fn offset(&self) -> u64 {
        self.blocks.offset()
    }

    /// The next thing found, or `None` at the end of the tar.
    pub(super) fn step(&mut self) -> Result<Option<TarItem>> {
        while let Some(block) = self.next_header()? {
            let found = self.header(&block)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        if self.extended.is_empty() {
            Ok(None)
        } else {
            Err(Error::input("tar ends between an extended header and its entry"))
        }
    }

    /// The member's data, all of it.
    pub(super) fn read(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.blocks.data(size, |bytes| content.extend_from_slice(bytes))?;
        Ok(content)
    }

    /// Passes the member's data and returns its first bytes, at most `most`.
    pub(super) fn read_head(&mut self, size: u64, most: usize) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        self.blocks.data(size, |bytes| {
            let wanted = most.saturating_sub(head.len());
            head.extend(bytes.iter().take(wanted));
        })?;
        Ok(head)
    }

    /// Passes the member's data, showing it piece by piece.
    pub(super) fn watch(&mut self, size: u64, look: impl FnMut(&[u8])) -> Result<()> {
        self.blocks.data(size, look)
    }

    pub(super) fn skip(&mut self, size: u64) -> Result<()> {
        self.blocks.skip(size)
    }

    /// The next header, or `None` at the end: two zero blocks, though like Go we are content
    /// with one, or with the end of the stream.
    fn next_header(&mut self) -> Result<Option<[u8; BLOCK]>> {
        match self.blocks.block()? {
            None => Ok(None),
            Some(block) if !is_zero(&block) => Ok(Some(block)),
            Some(_) => match self.blocks.block()? {
                Some(block) if !is_zero(&block) => {
                    Err(Error::input("tar has a single zero block where an entry should begin"))
                }
                _ => Ok(None),
            },
        }
    }

    fn header(&mut self, block: &[u8; BLOCK]) -> Result<Option<TarItem>> {
        let header = TarHeader::read(block)?;
        match header.typeflag {
            b'x' => {
                let bytes = self.metadata(&header)?;
                self.extended.add_records(PaxRecords::read(&bytes, self.limits)?)?;
            }
            b'g' => return self.global(&header),
            b'L' => {
                let name = self.metadata(&header)?;
                self.extended.add_long_name(text(&name).to_vec())?;
            }
            b'K' => {
                let link = self.metadata(&header)?;
                self.extended.add_long_link(text(&link).to_vec())?;
            }
            _ => return self.member(header, block).map(|member| Some(TarItem::Member(member))),
        }
        Ok(None)
    }

    /// The data of a header that only describes the next one. Its size is its own: what an
    /// earlier PAX header says is meant for the entry, not for this.
    fn metadata(&mut self, header: &TarHeader) -> Result<Vec<u8>> {
        let size = positive(header.size, "size")?;
        self.extended.count(size, self.limits)?;
        self.read(size)
    }

    fn global(&mut self, header: &TarHeader) -> Result<Option<TarItem>> {
        if !self.extended.is_empty() {
            return Err(Error::input("global PAX header between an entry's extended header and its own"));
        }
        let bytes = self.metadata(header)?;
        self.extended = ExtendedHeaders::default();
        Ok(match pax::check_global(&bytes)? {
            pax::GlobalRecords::Harmless => None,
            pax::GlobalRecords::Ignored => Some(TarItem::IgnoredRecords),
        })
    }

    fn member(&mut self, header: TarHeader, block: &[u8; BLOCK]) -> Result<ParsedMember> {
        let name = shown(&header.name);
        let extended = std::mem::take(&mut self.extended);
        let member = extended.apply(header, block).map_err(|error| error.fact("header of", name))?;
        if member.sparse == Some(SparseForm::OldGnu) {
            self.skip_sparse_map(block)?;
        }
        self.check_size(&member)?;
        Ok(member)
    }

    /// The map of an old GNU sparse file is between its header and its data.
    fn skip_sparse_map(&mut self, header: &[u8; BLOCK]) -> Result<()> {
        let mut metadata = ExtendedHeaders::default();
        let mut more = sparse::after_header(header);
        while more == MapContinues::Follows {
            metadata.count(BLOCK as u64, self.limits)?;
            let Some(block) = self.blocks.block()? else {
                return Err(Error::input("tar ends inside a header"));
            };
            more = sparse::after_map_block(&block);
        }
        Ok(())
    }

    /// A size that the tar cannot have is refused before anything is read.
    fn check_size(&self, member: &ParsedMember) -> Result<()> {
        let most = self.limits.unpacked;
        if self.offset().saturating_add(member.stored) > most || member.size > most {
            return Err(over("entry is", format!("{most} bytes")).fact("entry", shown(&member.name)));
        }
        Ok(())
    }
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|byte| *byte == 0)
}
