//! Paths with wildcards, for the tables: `*` stands for any part of a name, `?` for one byte, and a
//! last `**` for the folder itself and all that it has.

/// Whether a path without a slash at its start is one that the pattern means.
pub(super) fn matches(pattern: &str, path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/');
    for wanted in pattern.as_bytes().split(|byte| *byte == b'/') {
        if wanted == b"**" {
            return true;
        }
        if !names.next().is_some_and(|name| is_named(wanted, name)) {
            return false;
        }
    }
    names.next().is_none()
}

/// One star at most: the tables need no more, and so this cannot become slow.
fn is_named(wanted: &[u8], name: &[u8]) -> bool {
    match wanted.iter().position(|byte| *byte == b'*') {
        None => wanted.len() == name.len() && is_same(wanted, name),
        Some(star) => {
            let (start, end) = (wanted.get(..star).unwrap_or_default(), wanted.get(star + 1..).unwrap_or_default());
            let Some(rest) = name.len().checked_sub(end.len()) else { return false };
            rest >= start.len()
                && is_same(start, name.get(..star).unwrap_or_default())
                && is_same(end, name.get(rest..).unwrap_or_default())
        }
    }
}

fn is_same(wanted: &[u8], name: &[u8]) -> bool {
    wanted.iter().zip(name).all(|(wanted, byte)| wanted == byte || *wanted == b'?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_whole_paths() {
        for (pattern, path, meant) in [
            ("etc/shells", "etc/shells", true),
            ("etc/shells", "etc/shells-", false),
            ("etc/shells", "etc", false),
            ("etc/shells", "etc/shells/x", false),
            ("etc/rc?.d/**", "etc/rc2.d/S01x", true),
            ("etc/rc?.d/**", "etc/rc2.d", true),
            ("etc/rc?.d/**", "etc/rc.d/x", false),
            ("var/lib/apt/**", "var/lib/apt", true),
            ("var/lib/apt/**", "var/lib/apt/a/b/c", true),
            ("var/lib/apt/**", "var/lib/aptitude", false),
            ("etc/pam.d/common-*", "etc/pam.d/common-auth", true),
            ("etc/pam.d/common-*", "etc/pam.d/common", false),
            ("a/x*y", "a/xy", true),
            ("a/x*y", "a/x", false),
            ("a/xx*xx", "a/xxx", false),
        ] {
            assert_eq!(matches(pattern, path.as_bytes()), meant, "{pattern} {path}");
        }
    }
}
