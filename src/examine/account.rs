//! The accounts that the image runs as, and whether the rebased root knows them.

use serde_json::Value;

use super::container::Container;
use crate::layer::RootPath;
use crate::rootfs::Root;

/// A user or group by name that no account file has. Numbers need no account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownAccount {
    pub name: String,
    /// The file it should stand in.
    pub file: &'static str,
}

/// The names in `User` that the root does not know. What cannot be read is not known.
pub(super) fn unknown(container: &Container, root: &Root<'_>) -> Vec<UnknownAccount> {
    let missing = |(name, file): &(String, &'static str)| !names(root, file).contains(name);
    named(container).into_iter().filter(missing).map(|(name, file)| UnknownAccount { name, file }).collect()
}

/// The parts of `User` that are names, each with the file that must have it.
pub(super) fn named(container: &Container) -> Vec<(String, &'static str)> {
    let user = container.members.get("User").and_then(Value::as_str).unwrap_or_default();
    let (user, group) = user.split_once(':').unwrap_or((user, ""));
    let is_name = |(name, _): &(&str, &str)| !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit());
    [(user, "/etc/passwd"), (group, "/etc/group")]
        .into_iter()
        .filter(is_name)
        .map(|(name, file)| (name.to_owned(), file))
        .collect()
}

/// The first fields of an account file's lines.
fn names(root: &Root<'_>, file: &str) -> Vec<String> {
    let path = RootPath::new(file).ok();
    let resolved = path.as_ref().and_then(|path| root.resolve(path).ok());
    let content = resolved.and_then(|resolved| root.content(resolved.node)).unwrap_or_default();
    let lines = content.split(|byte| *byte == b'\n').filter(|line| line.contains(&b':'));
    let first =
        |line: &[u8]| line.split(|byte| *byte == b':').next().map(|name| String::from_utf8_lossy(name).into_owned());
    lines.filter_map(first).collect()
}
