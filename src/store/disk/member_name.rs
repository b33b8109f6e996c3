//! The names of members of an archive: one spelling each, and none that leads out of it.

use crate::error::{Error, Result};
use crate::layer::RootPath;

/// The name of a member. Bytes that are not UTF-8 are replaced: no document can name such a
/// member, so it is never looked for.
pub fn of(path: &RootPath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

/// A name that a document gives, in its one spelling: no `.`, no empty parts, nothing that leads
/// out.
pub fn canonical(name: &str) -> Result<String> {
    if name.starts_with('/') {
        return Err(Error::input("a name in the archive is absolute").fact("name", name));
    }
    RootPath::new(name).map(|path| of(&path))
}

/// The name that the link `from` leads to.
pub fn linked(from: &str, target: &str) -> Result<String> {
    let outside = || Error::input("a link in the archive leads out of it").fact("member", from).fact("to", target);
    if target.starts_with('/') {
        return Err(outside());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling_or_none() {
        for (raw, expected) in [
            ("a/b", Some("a/b")),
            ("./a//b/./", Some("a/b")),
            ("./", Some("")),
            ("a..b/...", Some("a..b/...")),
            ("..", None),
            ("../a", None),
            ("a/../b", None),
            ("/a", None),
            ("a\0b", None),
        ] {
            assert_eq!(canonical(raw).ok().as_deref(), expected, "{raw:?}");
        }
    }

    #[test]
    fn a_link_stays_inside_or_leads_nowhere() {
        for (from, target, expected) in [
            ("a/b", "c", Some("a/c")),
            ("a/b", "../c", Some("c")),
            ("a/b", "./../x/./y", Some("x/y")),
            ("b", "../c", None),
            ("a/b", "../../c", None),
            ("a/b", "/c", None),
        ] {
            assert_eq!(linked(from, target).ok().as_deref(), expected, "{from} -> {target}");
        }
    }
}
