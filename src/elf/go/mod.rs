//! What a Go program says about how it was made.

mod build_info;
mod modules;
mod trail;

#[cfg(test)]
pub(in crate::elf) mod tests;

use serde::{Deserialize, Serialize};

pub(super) use trail::Trail;

/// Facts of a Go program. Builds outside of a module (`GOPATH`) name no modules, old ones no
/// version: `packages` is what remains even of a stripped program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoFacts {
    /// The toolchain's, as it says it: `go1.19.8`.
    pub version: Option<String>,
    /// The path of the main package.
    pub path: Option<String>,
    /// The path of the main module.
    pub module: Option<String>,
    /// Path and version of every other module. Of a replaced one: its own path, and the version
    /// of what it was replaced with, after that one's path where it has another.
    pub modules: Vec<(String, String)>,
    /// The settings of the build, such as `CGO_ENABLED`.
    pub settings: Vec<(String, String)>,
    /// Known packages, and functions, whose names stand in the table of functions.
    pub packages: Vec<String>,
}
