//! The user namespace of a container where underpin is not root: its own user as root, and the numbers that
//! `/etc/subuid` and `/etc/subgid` lend it as all others.

use std::fs::File;
use std::io::Read as _;

use rustix::process::{getegid, geteuid};

use super::bundle::{IdRange, UserNamespace};

const LIMIT: u64 = 1 << 20;

pub(super) fn namespace() -> UserNamespace {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let name = text("/etc/passwd").lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse::<u32>().ok()? == uid).then(|| name.to_owned())
    });
    let own = |outside| IdRange { inside: 0, outside, count: 1 };
    let ranges = |file: &str, outside| {
        [Some(own(outside)), lent(&text(file), name.as_deref(), uid)].into_iter().flatten().collect()
    };
    UserNamespace { uids: ranges("/etc/subuid", uid), gids: ranges("/etc/subgid", gid) }
}

fn text(path: &str) -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(LIMIT).read_to_string(&mut text);
    }
    text
}

/// The first range of the user, by name or number: `name:100000:65536`.
fn lent(file: &str, name: Option<&str>, uid: u32) -> Option<IdRange> {
    let number = uid.to_string();
    let line = file.lines().find_map(|line| {
        let (owner, range) = line.split_once(':')?;
        (Some(owner) == name || owner == number).then_some(range)
    })?;
    let (outside, count) = line.split_once(':')?;
    Some(IdRange { inside: 1, outside: outside.trim().parse().ok()?, count: count.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_the_user_by_name_or_number() {
        let file = "other:100:10\nme:200000:65536\n1001:300000:1000\n";
        let range = |outside, count| Some(IdRange { inside: 1, outside, count });
        assert_eq!(lent(file, Some("me"), 7), range(200_000, 65_536));
        assert_eq!(lent(file, None, 1001), range(300_000, 1000));
        assert_eq!(lent(file, Some("nobody"), 9), None);
    }
}
