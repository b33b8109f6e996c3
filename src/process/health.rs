//! The health check: whether what it runs is in the rebased root.

use serde_json::Value;

use super::container::Container;
use crate::rootfs::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none, or what it runs is there, or it is a shell's: see `exec_form`.
    Fine,
    /// Its program is not in the rebased root.
    Lost { name: String, reasons: String },
}

pub(super) fn look(container: &Container, root: &Root<'_>) -> Health {
    let test = container.members.get("Healthcheck").and_then(|check| check.get("Test")).and_then(Value::as_array);
    let words: Vec<&str> = test.into_iter().flatten().filter_map(Value::as_str).collect();
    match words.split_first() {
        Some((&"CMD", [name, ..])) => match root.search(name, container.search_path(), &container.working_dir()) {
            Ok(_) => Health::Fine,
            Err(lost) => Health::Lost { name: (*name).to_owned(), reasons: lost.to_string() },
        },
        _ => Health::Fine,
    }
}
