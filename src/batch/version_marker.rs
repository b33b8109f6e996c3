//! A version marker: a file with one version, such as the `stable-1.30.txt` and `latest.txt` of Kubernetes' releases.

use oci::error::{Error, Result};

/// The tag of the version: `+`, which a tag cannot have, becomes `_`, as krel has it.
pub(super) fn version_tag(text: &str) -> Result<String> {
    let version = text.trim();
    let wrong = || {
        Error::input("the file is not a version marker: it must have one version, such as v1.30.4")
            .fact("content", first(text))
    };
    let number = version.strip_prefix('v').ok_or_else(wrong)?;
    let (core, rest) = number.find(['-', '+']).and_then(|at| number.split_at_checked(at)).unwrap_or((number, ""));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_core = core.split('.').count() == 3 && core.split('.').all(is_number);
    let is_rest = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
    if is_core && is_rest && version.len() <= 128 { Ok(version.replace('+', "_")) } else { Err(wrong()) }
}

fn first(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_tags_and_nothing_else_does() {
        for (text, tag) in [
            ("v1.30.4\n", "v1.30.4"),
            ("v1.31.0-alpha.1.23+abcdef0123", "v1.31.0-alpha.1.23_abcdef0123"),
            ("v1.30.0-rc.0", "v1.30.0-rc.0"),
        ] {
            assert_eq!(version_tag(text).unwrap(), tag);
        }
        for bad in
            ["", "1.30.4", "v1.30", "v1.30.4 v1.30.5", "v1.30.4\nv1.30.5", "v1.30.x", "<html>", "v1..2", "v1.2.3/x"]
        {
            assert!(version_tag(bad).is_err(), "{bad}");
        }
        assert!(version_tag(&format!("v1.2.3-{}", "a".repeat(130))).is_err());
    }
}
