//! One header of a tar file, and the extended headers that change it (POSIX pax, GNU long names).
//!
//! Readers disagree about odd headers, and two listings of one file are how images are smuggled
//! (`TARmageddon`, CVE-2025-62518). So what could be read two ways is refused.

use tar::{EntryType, Header};

use crate::error::{Error, Result};

pub const BLOCK: u64 = 512;

/// The bytes of a block that has been found to be a header.
pub struct Block(Header);

/// What an entry is, as far as an archive of images cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    File,
    Folder,
    Symlink,
    /// Hard links, devices, FIFOs and what is unknown.
    Other,
    LongName,
    LongLink,
    Pax,
    PaxGlobal,
}

impl Block {
    /// Reads a block; `None` where it is all zero, the mark of the end.
    pub fn read(bytes: &[u8; 512]) -> Result<Option<Self>> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(bytes);
        match header.cksum() {
            Ok(sum) if sum == checksum(bytes) => Ok(Some(Self(header))),
            _ => Err(Error::input("the tar file is damaged: a header has a wrong checksum")),
        }
    }

    pub fn sort(&self) -> Result<Sort> {
        Ok(match self.0.entry_type() {
            // Old tars mark a folder by its name only.
            EntryType::Regular if self.is_old() && self.0.path_bytes().ends_with(b"/") => Sort::Folder,
            EntryType::Regular | EntryType::Continuous => Sort::File,
            EntryType::Directory => Sort::Folder,
            EntryType::Symlink => Sort::Symlink,
            EntryType::GNULongName => Sort::LongName,
            EntryType::GNULongLink => Sort::LongLink,
            EntryType::XHeader => Sort::Pax,
            EntryType::XGlobalHeader => Sort::PaxGlobal,
            EntryType::GNUSparse => return Err(sparse()),
            _ => Sort::Other,
        })
    }

    fn is_old(&self) -> bool {
        self.0.as_bytes()[156] == 0
    }

    pub fn size(&self) -> Result<u64> {
        let field = &self.0.as_old().size;
        // Numbers in base 256 that do not fit 64 bits, or are negative, are cut by readers.
        let is_cut = field[0] & 0x80 != 0 && (field[0] != 0x80 || field[1..4] != [0; 3]);
        match self.0.entry_size() {
            Ok(size) if !is_cut => Ok(size),
            _ => Err(Error::input("the tar file is damaged: the size of an entry is not a number")),
        }
    }

    pub fn name(&self) -> Vec<u8> {
        self.0.path_bytes().into_owned()
    }

    pub fn link(&self) -> Vec<u8> {
        self.0.link_name_bytes().unwrap_or_default().into_owned()
    }
}

/// The sum of the bytes with the checksum's own field as spaces.
fn checksum(bytes: &[u8; 512]) -> u32 {
    bytes.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

fn sparse() -> Error {
    Error::input("the tar file has sparse entries, which are not supported").hint("pack it again without --sparse")
}

/// What extended headers say about the entry that follows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extended {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
}

impl Extended {
    /// Reads the records of a pax header: `LENGTH KEY=VALUE\n`, where the length counts itself.
    pub fn read(mut records: &[u8]) -> Result<Self> {
        let mut extended = Self::default();
        while !records.is_empty() {
            let (key, value, rest) = record(records)
                .ok_or_else(|| Error::input("the tar file is damaged: an extended header cannot be read"))?;
            extended.take(key, value)?;
            records = rest;
        }
        Ok(extended)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let unclear = || Err(Error::input("an extended header of the tar file says one thing twice, or nothing"));
        match key {
            b"path" if self.path.is_none() && !value.is_empty() => self.path = Some(value.to_vec()),
            b"linkpath" if self.link.is_none() && !value.is_empty() => self.link = Some(value.to_vec()),
            b"size" if self.size.is_none() => self.size = Some(decimal(value)?),
            b"path" | b"linkpath" | b"size" => return unclear(),
            key if key.starts_with(b"GNU.sparse.") => return Err(sparse()),
            _ => {}
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(20).position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(records.get(..space)?).ok()?).ok()?;
    let (line, rest) = records.split_at_checked(len)?;
    let pair = line.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some((pair.get(..equals)?, pair.get(equals + 1..)?, rest))
}

fn decimal(digits: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::input("the tar file is damaged: a number in an extended header is not one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_records_by_their_length() {
        // The comment holds a line that looks like a record of its own.
        let extended = Extended::read(b"25 comment=\n12 path=evil\n13 path=good\n9 size=7\n").unwrap();
        assert_eq!(extended, Extended { path: Some(b"good".to_vec()), link: None, size: Some(7) });
    }

    #[test]
    fn refuses_records_that_readers_would_read_differently() {
        for bad in [
            &b"9 size=7\n9 size=8\n"[..],
            b"10 size=-7\n",
            b"10 size=+7\n",
            b"29 size=99999999999999999999\n",
            b"8 size=\n",
            b"8 path=\n",
            b"99 path=x\n",
            b"0 path=x\n",
            b"x",
            b"9 path=x ",
            b"24 GNU.sparse.realsize=1\n",
        ] {
            assert!(Extended::read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert!(Extended::read(b"").unwrap().is_empty());
    }
}
