//! Extended attributes of an entry: bounded, and the one the kernel acts on well-formed.

use std::collections::BTreeMap;

use super::limits::{Limits, over};
use super::path::shown;
use crate::error::{Error, Result};

const CAPABILITY: &[u8] = b"security.capability";

/// Attributes by name; a later one of the same name replaces the earlier.
#[derive(Debug, Default)]
pub(super) struct Xattrs(BTreeMap<Vec<u8>, Vec<u8>>);

impl Xattrs {
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], limits: &Limits) -> Result<()> {
        if name.is_empty() {
            return Err(Error::input("extended attribute has no name"));
        }
        if name.len() > limits.xattr_name {
            return Err(over("name of an extended attribute is", format!("{} bytes", limits.xattr_name)));
        }
        if value.len() > limits.xattr_value {
            return Err(over("value of an extended attribute is", format!("{} bytes", limits.xattr_value))
                .fact("attribute", shown(name)));
        }
        if name == CAPABILITY && !is_capability(value) {
            return Err(Error::input("security.capability does not hold file capabilities"));
        }
        self.0.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn sorted(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.into_iter().collect()
    }
}

/// `vfs_cap_data` of Linux: the revision in the topmost byte tells the length.
fn is_capability(value: &[u8]) -> bool {
    matches!((value.get(3), value.len()), (Some(1), 12) | (Some(2), 20) | (Some(3), 24))
}
