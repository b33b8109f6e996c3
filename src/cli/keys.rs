//! The signing key that a flag or a batch file names, in a file or a variable, read once and before anything else is done.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use zeroize::Zeroizing;

use crate::attest::{SIGNING_PASSWORD, SigningKey};
use crate::store::child_process::withhold;
use crate::store::disk::{ask_password, read_file};
use oci::error::{Error, Result};

/// A larger file is no key.
const LARGEST: u64 = 64 << 10;
/// As cosign has it: the name of a variable that holds the text of the key.
const VARIABLE: &str = "env://";

/// Keys by their file, each opened once: a password is asked for once.
#[derive(Default)]
pub(super) struct SigningKeys(HashMap<PathBuf, Arc<SigningKey>>);

impl SigningKeys {
    pub(super) fn get(&mut self, path: &Path) -> Result<Arc<SigningKey>> {
        if let Some(key) = self.0.get(path) {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(read(path).map_err(|error| error.fact("key", path.display()))?);
        self.0.insert(path.to_owned(), Arc::clone(&key));
        Ok(key)
    }
}

/// The key that a batch file names: beside it, unless it is in a variable.
pub(super) fn beside(batch: &Path, key: &str) -> PathBuf {
    if key.starts_with(VARIABLE) { PathBuf::from(key) } else { batch.with_file_name(key) }
}

fn read(path: &Path) -> Result<SigningKey> {
    // A crash must not leave the key in a file.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let bytes = match path.to_str().and_then(|path| path.strip_prefix(VARIABLE)) {
        Some(name) => of_variable(name)?,
        None => read_file(path, LARGEST).map_err(|error| Error::io("could not read the signing key", path, &error))?,
    };
    let bytes = Zeroizing::new(bytes);
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::usage("the signing key is not a PEM file"))?;
    SigningKey::read(text, &|| password(path))
}

fn of_variable(name: &str) -> Result<Vec<u8>> {
    withhold(name);
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(OsString::into_vec).ok_or_else(|| {
        Error::usage("the variable with the signing key is not set")
            .hint(format!("export {name} with the text of the key"))
    })
}

fn password(path: &Path) -> Result<Zeroizing<String>> {
    if let Ok(password) = std::env::var(SIGNING_PASSWORD) {
        return Ok(Zeroizing::new(password));
    }
    ask_password(&format!("password of {}: ", path.display())).ok_or_else(|| {
        Error::usage("the signing key is encrypted, and there is no terminal to ask for its password")
            .hint(format!("set {SIGNING_PASSWORD}"))
    })
}
