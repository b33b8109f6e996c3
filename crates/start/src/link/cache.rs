//! `/etc/ld.so.cache`, as `ldconfig` writes it and glibc's loader reads it (`sysdeps/generic/dl-cache.h`):
//! the form `glibc-ld.so.cache1.1`, alone or behind the old one, with the extension for hwcaps directories.

use std::collections::HashMap;

const MARK: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MARK: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ROW: usize = 24;
const OLD_HEADER: usize = 16;
const OLD_ROW: usize = 12;
const EXTENSION_MARK: u32 = 0xeaa4_2174;
const HWCAPS_SECTION: u32 = 1;
/// The row is about a file in a hwcaps directory, and its low half says which.
const IN_HWCAPS: u64 = 1 << 62;

/// A file that the cache names for a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedFile {
    pub path: String,
    flags: u32,
    pub processor: Processor,
}

/// Which processors take the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Processor {
    Any,
    /// Those that search this hwcaps directory.
    Hwcaps(String),
    /// By bits that are not known here: the form before hwcaps directories.
    Unknown,
}

/// The rows by the name of the library, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct LoaderCache(HashMap<String, Vec<CachedFile>>);

impl LoaderCache {
    /// `None` for what is no cache. A loader then goes without.
    pub fn read(bytes: &[u8], is_big: bool) -> Option<Self> {
        let file = CacheBytes { bytes: new_form(bytes, is_big)?, is_big };
        let rows = usize::try_from(file.u32(20)?).ok()?;
        // A row has 24 bytes, so there are no more of them than that.
        if rows > file.bytes.len() / ROW {
            return None;
        }
        let hwcaps = file.hwcaps().unwrap_or_default();
        let mut found: HashMap<String, Vec<CachedFile>> = HashMap::new();
        for at in (0..rows).map(|row| HEADER + row * ROW) {
            let (name, path) = (file.text(file.u32(at + 4)?)?, file.text(file.u32(at + 8)?)?);
            let bits = file.u64(at + 16)?;
            let processor = match bits {
                0 => Processor::Any,
                _ if bits & IN_HWCAPS == 0 => Processor::Unknown,
                _ => match hwcaps.get(usize::try_from(bits & 0xffff_ffff).ok()?) {
                    Some(name) => Processor::Hwcaps(name.clone()),
                    None => Processor::Unknown,
                },
            };
            found.entry(name).or_default().push(CachedFile { path, flags: file.u32(at)?, processor });
        }
        Some(Self(found))
    }

    /// The files for a library that are of this machine's kind.
    pub fn files<'a>(&'a self, name: &str, kind: u32) -> impl Iterator<Item = &'a CachedFile> {
        self.0.get(name).into_iter().flatten().filter(move |file| file.flags == kind || file.flags == 1)
    }

    pub fn has_hwcaps(&self) -> bool {
        self.0.values().flatten().any(|file| file.processor != Processor::Any)
    }
}

/// Where the new form begins: behind the old one where both are there.
fn new_form(bytes: &[u8], is_big: bool) -> Option<&[u8]> {
    if bytes.starts_with(MARK) {
        return Some(bytes);
    }
    let rows = CacheBytes { bytes: bytes.starts_with(OLD_MARK).then_some(bytes)?, is_big }.u32(12)?;
    let end = usize::try_from(rows).ok()?.checked_mul(OLD_ROW)?.checked_add(OLD_HEADER)?;
    let aligned = |align| bytes.get(end.checked_next_multiple_of(align)?..).filter(|rest| rest.starts_with(MARK));
    [8, 4].into_iter().find_map(aligned)
}

struct CacheBytes<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl CacheBytes<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// At most as long as a path can be.
    fn text(&self, at: u32) -> Option<String> {
        let text = self.bytes.get(usize::try_from(at).ok()?..)?;
        let end = memchr::memchr(0, text).filter(|end| *end <= 4096)?;
        Some(String::from_utf8_lossy(text.get(..end)?).into_owned())
    }

    fn hwcaps(&self) -> Option<Vec<String>> {
        let at = usize::try_from(self.u32(32)?).ok().filter(|at| *at != 0)?;
        let sections = (self.u32(at)? == EXTENSION_MARK).then(|| self.u32(at + 4))??;
        let section = (0..sections.min(64)).find_map(|number| {
            let row = usize::try_from(number).ok()?.checked_mul(16)?.checked_add(at + 8)?;
            (self.u32(row)? == HWCAPS_SECTION).then(|| Some((self.u32(row + 8)?, self.u32(row + 12)?)))?
        })?;
        let (from, len) = (usize::try_from(section.0).ok()?, usize::try_from(section.1).ok()?);
        let names = (0..len.min(4096) / 4).map(|number| self.text(self.u32(from.checked_add(number * 4)?)?));
        names.collect()
    }
}

/// What the cache calls files of a machine; `None` where that is not known.
pub(super) fn cache_kind(machine: &str, is_hard_float: bool) -> Option<u32> {
    Some(match machine {
        "386" => 0x0003,
        "amd64" => 0x0303,
        "s390x" => 0x0403,
        "ppc64le" | "ppc64" => 0x0503,
        "arm" if is_hard_float => 0x0903,
        "arm" => 0x0b03,
        "arm64" => 0x0a03,
        "riscv64" => 0x1003,
        "loong64" => 0x1203,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of flags, hwcap, name and path, with the names of hwcaps directories.
    fn cache(rows: &[(u32, u64, &str, &str)], hwcaps: &[&str]) -> Vec<u8> {
        let strings_at = HEADER + rows.len() * ROW;
        let mut strings: Vec<u8> = Vec::new();
        let mut put = |text: &str| {
            let at = u32::try_from(strings_at + strings.len()).unwrap();
            strings.extend([text.as_bytes(), b"\0"].concat());
            at.to_le_bytes()
        };
        let mut table = Vec::new();
        for (flags, hwcap, name, path) in rows {
            table.extend([&flags.to_le_bytes()[..], &put(name), &put(path), &[0; 4], &hwcap.to_le_bytes()].concat());
        }
        let names: Vec<[u8; 4]> = hwcaps.iter().map(|name| put(name)).collect();
        let extension = u32::try_from(strings_at + strings.len()).unwrap();
        let word = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
        let sections = [
            EXTENSION_MARK.to_le_bytes(),
            1_u32.to_le_bytes(),
            1_u32.to_le_bytes(),
            [0; 4],
            (extension + 24).to_le_bytes(),
            word(names.len() * 4),
        ];
        let head = [MARK, &word(rows.len()), &word(strings.len()), &[2, 0, 0, 0], &extension.to_le_bytes(), &[0; 12]];
        [head.concat(), table, strings, sections.concat(), names.concat()].concat()
    }

    fn paths(cache: &LoaderCache, name: &str) -> Vec<String> {
        cache.files(name, 0x303).map(|file| format!("{} {:?}", file.path, file.processor)).collect()
    }

    #[test]
    fn rows_are_found_by_name_for_the_machine_with_their_processors() {
        let bytes = cache(
            &[
                (0x303, IN_HWCAPS | 1, "liba.so.1", "/x/glibc-hwcaps/x86-64-v3/liba.so.1"),
                (0x303, 0, "liba.so.1", "/x/liba.so.1"),
                (0x003, 0, "liba.so.1", "/x32/liba.so.1"),
                (0x303, 8, "libb.so.1", "/x/tls/libb.so.1"),
            ],
            &["x86-64-v2", "x86-64-v3"],
        );
        let old = [OLD_MARK, &[0], &1_u32.to_le_bytes(), &[7; 12], &[0; 4]].concat();
        for bytes in [bytes.clone(), [old, bytes].concat()] {
            let cache = LoaderCache::read(&bytes, false).unwrap();
            assert_eq!(
                paths(&cache, "liba.so.1"),
                ["/x/glibc-hwcaps/x86-64-v3/liba.so.1 Hwcaps(\"x86-64-v3\")", "/x/liba.so.1 Any"]
            );
            assert_eq!(paths(&cache, "libb.so.1"), ["/x/tls/libb.so.1 Unknown"]);
            assert_eq!(paths(&cache, "libc.so.6"), [""; 0]);
            assert!(cache.has_hwcaps());
        }
    }

    #[test]
    fn what_is_cut_or_made_up_is_no_cache_and_never_panics() {
        let bytes = cache(&[(0x303, 0, "liba.so.1", "/x/liba.so.1")], &["x"]);
        for end in 0..bytes.len() {
            if let Some(cache) = LoaderCache::read(&bytes[..end], false) {
                assert!(paths(&cache, "liba.so.1").len() <= 1);
            }
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] = 0xff;
            let _ = LoaderCache::read(&wrong, false);
        }
        assert!(LoaderCache::read(b"", false).is_none());
        assert!(LoaderCache::read(&[OLD_MARK, &[0; 5]].concat(), false).is_none());
    }
}
