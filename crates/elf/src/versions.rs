//! The versions of symbols: which a file needs of which other, and which it defines (`.gnu.version_r`,
//! `.gnu.version_d` of the Linux Standard Base).

use super::dynamic_facts::{NeededVersion, VersionDefinition, VersionNeed};
use super::symbols::TableView;

/// Rows of either table, and of what each row leads to: libc has 40.
const MOST: usize = 4096;
const WEAK: u16 = 2;
const BASE: u16 = 1;
const INDEX: u16 = 0x7fff;

/// `None` where the table or a name in it cannot be read.
pub(super) fn needs(table: TableView<'_>, names: &impl Fn(u32) -> Option<String>) -> Option<Vec<VersionNeed>> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let (file, first, next) = (table.u32(at + 4)?, table.u32(at + 8)?, table.u32(at + 12)?);
        let versions = needed_versions(table, at.checked_add(offset(first)?)?, names)?;
        found.push(VersionNeed { file: names(file)?, versions });
        if next == 0 || found.len() == MOST {
            return (next == 0).then_some(found);
        }
        at = at.checked_add(offset(next)?)?;
    }
}

fn needed_versions(
    table: TableView<'_>,
    mut at: usize,
    names: &impl Fn(u32) -> Option<String>,
) -> Option<Vec<NeededVersion>> {
    let mut found = Vec::new();
    loop {
        let (flags, index) = (table.u16(at + 4)?, table.u16(at + 6)?);
        let (name, next) = (names(table.u32(at + 8)?)?, table.u32(at + 12)?);
        found.push(NeededVersion { name, index: index & INDEX, is_weak: flags & WEAK != 0 });
        if next == 0 || found.len() == MOST {
            return (next == 0).then_some(found);
        }
        at = at.checked_add(offset(next)?)?;
    }
}

/// `None` where the table or a name in it cannot be read.
pub(super) fn definitions(
    table: TableView<'_>,
    names: &impl Fn(u32) -> Option<String>,
) -> Option<Vec<VersionDefinition>> {
    let mut found = Vec::new();
    let mut at = 0_usize;
    loop {
        let (flags, index, count) = (table.u16(at + 2)?, table.u16(at + 4)?, table.u16(at + 6)?);
        let (first, next) = (table.u32(at + 12)?, table.u32(at + 16)?);
        // The first name is its own, those behind it are of the versions that it continues.
        let name = if count == 0 { None } else { Some(table.u32(at.checked_add(offset(first)?)?)?) };
        if let Some(name) = name {
            found.push(VersionDefinition { name: names(name)?, index: index & INDEX, is_base: flags & BASE != 0 });
        }
        if next == 0 || found.len() == MOST {
            return (next == 0).then_some(found);
        }
        at = at.checked_add(offset(next)?)?;
    }
}

fn offset(value: u32) -> Option<usize> {
    usize::try_from(value).ok()
}
