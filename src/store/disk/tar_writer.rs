//! A tar file in the making. Its bytes depend on what is put and in which order, on nothing else:
//! no times, no owners, one mode.

use std::collections::HashSet;
use std::path::Path;

use tar::{EntryType, Header};

use super::atomic::Temp;
use super::regular_file::Section;
use super::verified;
use crate::store::Stream;
use oci::Descriptor;
use oci::error::{Error, Result};

/// Headers take one block, and data is padded to whole ones.
const BLOCK: u64 = 512;

/// Invariant: the first `at` bytes of the file are whole members.
pub struct TarWriter {
    temp: Temp,
    at: u64,
    names: HashSet<String>,
}

impl TarWriter {
    /// A new draft in the directory `dir`.
    pub fn create(dir: &Path) -> Result<Self> {
        Ok(Self { temp: Temp::create(dir)?, at: 0, names: HashSet::new() })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub fn add_directory(&mut self, name: &str) -> Result<()> {
        self.temp.write_at(header(name, EntryType::Directory, 0o755, 0)?.as_bytes(), self.at)?;
        self.at += BLOCK;
        Ok(())
    }

    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.member(name, bytes.len() as u64, |temp, at| temp.write_at(bytes, at))
    }

    /// Adds a member of another archive as it is.
    pub fn add_section(&mut self, name: &str, section: &Section) -> Result<()> {
        self.member(name, section.len(), |temp, at| {
            let mut at = at;
            verified::each_chunk(&mut section.reader(0), |chunk| {
                temp.write_at(chunk, at)?;
                at += chunk.len() as u64;
                Ok(())
            })
        })
    }

    /// Adds a blob. Success means that its bytes are those that `of` describes; without it the
    /// draft is as before.
    pub fn add_blob(&mut self, name: &str, of: &Descriptor, mut stream: Stream) -> Result<()> {
        self.member(name, of.size, |temp, at| {
            let mut at = at;
            verified::copy(&mut stream, of, |chunk| {
                temp.write_at(chunk, at).map_err(|error| error.fact("needed", of.size))?;
                at += chunk.len() as u64;
                Ok(())
            })
        })
    }

    fn member(&mut self, name: &str, size: u64, write: impl FnOnce(&Temp, u64) -> Result<()>) -> Result<()> {
        let header = header(name, EntryType::Regular, 0o644, size)?;
        let body = self.at + BLOCK;
        let end = body + size.next_multiple_of(BLOCK);
        let outcome = self
            .temp
            .write_at(header.as_bytes(), self.at)
            .and_then(|()| write(&self.temp, body))
            // The padding: a file grows with zeros.
            .and_then(|()| self.temp.truncate(end));
        match outcome {
            Ok(()) => {
                self.at = end;
                self.names.insert(name.to_owned());
                Ok(())
            }
            Err(error) => {
                self.temp.truncate(self.at)?;
                Err(error)
            }
        }
    }

    /// Ends the archive and gives it its name, in the same directory.
    pub fn commit(self, to: &Path) -> Result<()> {
        self.temp.truncate(self.at + 2 * BLOCK)?;
        self.temp.commit(to)
    }
}

fn header(name: &str, kind: EntryType, mode: u32, size: u64) -> Result<Header> {
    let mut header = Header::new_ustar();
    header
        .set_path(name)
        .map_err(|error| Error::input("a name is too long for an archive").fact("member", name).cause(error))?;
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}
