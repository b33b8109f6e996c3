//! What a process may do with a file or a directory, by owner, group and mode, as the kernel decides it.
//!
//! Root in a container has `CAP_DAC_OVERRIDE`: it reads, writes and enters everything, and executes
//! what anybody may. Everybody else has no capability. Access control lists are not read.

use super::tree::FileNode;

/// The numbers that the kernel checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    pub uid: u64,
    pub gid: u64,
    /// Supplementary groups.
    pub groups: Vec<u64>,
}

impl Credentials {
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn is_in(&self, group: u64) -> bool {
        self.gid == group || self.groups.contains(&group)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// For a directory: to enter it, and to look a name up in it.
    Execute,
}

impl Access {
    const fn bit(self) -> u32 {
        match self {
            Self::Read => 0o4,
            Self::Write => 0o2,
            Self::Execute => 0o1,
        }
    }
}

impl FileNode<'_> {
    /// Whether a process with these credentials has the access. The first class that it is in decides:
    /// an owner without a right does not get it through the group.
    #[must_use]
    pub fn allows(&self, who: &Credentials, access: Access) -> bool {
        let mode = self.mode();
        if who.is_root() {
            return access != Access::Execute || self.is_directory() || mode & 0o111 != 0;
        }
        let class = match () {
            () if self.uid() == who.uid => mode >> 6,
            () if who.is_in(self.gid()) => mode >> 3,
            () => mode,
        };
        class & access.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::merge;
    use crate::rootfs::testing::{directory, file, layer, path};
    use layer::Entry;

    #[test]
    fn the_first_class_that_a_process_is_in_decides() {
        let user = |uid: u64, gid: u64, groups: &[u64]| Credentials { uid, gid, groups: groups.to_vec() };
        for (mode, who, read, write, execute) in [
            (0o750, user(7, 1, &[]), true, true, true),
            (0o750, user(1, 8, &[]), true, false, true),
            (0o750, user(1, 1, &[8]), true, false, true),
            (0o750, user(1, 1, &[]), false, false, false),
            (0o077, user(7, 8, &[8]), false, false, false),
            (0o707, user(1, 8, &[]), false, false, false),
            (0o600, user(0, 0, &[]), true, true, false),
            (0o001, user(0, 0, &[]), true, true, true),
        ] {
            let layers = [layer([Entry { mode, uid: 7, gid: 8, ..file("a") }])];
            let root = merge(&layers);
            let node = root.get(&path("a")).unwrap();
            let given = [Access::Read, Access::Write, Access::Execute].map(|access| node.allows(&who, access));
            assert_eq!(given, [read, write, execute], "{mode:o} {who:?}");
        }
        let layers = [layer([Entry { mode: 0, ..directory("d") }])];
        assert!(merge(&layers).get(&path("d")).unwrap().allows(&Credentials::default(), Access::Execute));
    }
}
