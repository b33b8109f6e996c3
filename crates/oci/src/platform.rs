//! What an image runs on. Matching is strict: `linux/arm/v6` is not `linux/arm/v7`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Operating system, architecture and variant in normal form: the variants that go without
/// saying (`arm64/v8`, `amd64/v1`) are empty, `arm` alone is `arm/v7`, as in containerd.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: String,
    /// Windows images of two versions are two platforms.
    os_version: String,
}

impl Platform {
    #[must_use]
    pub fn new(os: &str, architecture: &str, variant: &str) -> Self {
        let os = os.to_ascii_lowercase();
        let (architecture, variant) = normal(&architecture.to_ascii_lowercase(), &variant.to_ascii_lowercase());
        Self { os, architecture, variant, os_version: String::new() }
    }

    /// The platform an index entry or a config names, or `None` where os or architecture is missing.
    #[must_use]
    pub fn from_object(object: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (os, architecture) = (text("os"), text("architecture"));
        if os.is_empty() || architecture.is_empty() {
            return None;
        }
        let os_version = text("os.version").to_owned();
        Some(Self { os_version, ..Self::new(os, architecture, text("variant")) })
    }

    #[must_use]
    pub fn os(&self) -> &str {
        &self.os
    }

    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    #[must_use]
    pub fn variant(&self) -> &str {
        &self.variant
    }

    /// `unknown/unknown` marks attestations in an index.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.os == "unknown" && self.architecture == "unknown"
    }

    /// Whether an image for `other` serves where this platform is asked for. A version of the
    /// operating system only counts where it is asked for.
    #[must_use]
    pub fn accepts(&self, other: &Self) -> bool {
        (&self.os, &self.architecture, &self.variant) == (&other.os, &other.architecture, &other.variant)
            && (self.os_version.is_empty() || self.os_version == other.os_version)
    }
}

fn normal(architecture: &str, variant: &str) -> (String, String) {
    let (architecture, variant) = match (architecture, variant) {
        ("x86_64" | "x86-64", variant) => ("amd64", variant),
        ("aarch64", variant) => ("arm64", variant),
        ("armhf", "") => ("arm", "v7"),
        ("armel", "") => ("arm", "v6"),
        ("i386", variant) => ("386", variant),
        other => other,
    };
    let variant = match (architecture, variant) {
        ("arm64", "8" | "v8") | ("amd64", "v1") => "",
        ("arm", "" | "7") => "v7",
        ("arm", "5") => "v5",
        ("arm", "6") => "v6",
        ("arm", "8") => "v8",
        (_, variant) => variant,
    };
    (architecture.to_owned(), variant.to_owned())
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let word = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        };
        match parts[..] {
            [os, architecture] if parts.iter().all(|part| word(part)) => Ok(Self::new(os, architecture, "")),
            [os, architecture, variant] if parts.iter().all(|part| word(part)) => {
                Ok(Self::new(os, architecture, variant))
            }
            _ => {
                Err(Error::usage("not a platform, expected OS/ARCH[/VARIANT] such as linux/arm64")
                    .fact("platform", text))
            }
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        text.parse().unwrap()
    }

    #[test]
    fn spellings_of_one_platform_are_equal() {
        for (one, other) in [
            ("linux/arm64", "linux/arm64/v8"),
            ("linux/arm", "linux/arm/v7"),
            ("linux/amd64", "linux/x86_64"),
            ("linux/amd64", "Linux/AMD64"),
            ("linux/arm64", "linux/aarch64"),
            ("linux/amd64", "linux/amd64/v1"),
        ] {
            assert!(platform(one).accepts(&platform(other)), "{one} {other}");
        }
    }

    #[test]
    fn matching_is_strict() {
        for (one, other) in [
            ("linux/arm/v6", "linux/arm/v7"),
            ("linux/arm", "linux/arm64"),
            ("linux/amd64/v2", "linux/amd64"),
            ("linux/amd64", "windows/amd64"),
        ] {
            assert!(!platform(one).accepts(&platform(other)), "{one} {other}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_platform() {
        for bad in ["", "linux", "linux/", "/amd64", "linux/arm/v7/x", "linux/am d64", "linux/ä"] {
            assert!(bad.parse::<Platform>().is_err(), "{bad:?}");
        }
    }
}
