//! Where a file of a container comes from: a volume, or the image.

use super::tree::{Id, Tree};

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounted {
    OnVolume,
    Nowhere,
    /// A placeholder or a variable hides it.
    Unknown,
}

pub(super) fn of(tree: &Tree, container: Id, path: &str) -> Mounted {
    if path.contains("$(") || path.contains(super::template::is_mask) || !path.starts_with('/') {
        return Mounted::Unknown;
    }
    let mounts = tree.get(container, "volumeMounts").map(|list| tree.items(list)).unwrap_or_default();
    let mut answer = Mounted::Nowhere;
    for mount in mounts {
        let place = tree.text_at(*mount, "mountPath").map(|place| place.trim_end_matches('/'));
        match place {
            Some(place) if covers(place, path) => return Mounted::OnVolume,
            Some(place) if !place.contains(super::template::is_mask) => {}
            _ => answer = Mounted::Unknown,
        }
    }
    answer
}

fn covers(place: &str, path: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn a_path_is_on_the_volume_that_covers_it() {
        let tree =
            yaml::read("volumeMounts:\n- {name: a, mountPath: /var/log/}\n- {name: b, mountPath: /l.log}\n").unwrap();
        for (path, expected) in [
            ("/var/log/a.log", Mounted::OnVolume),
            ("/l.log", Mounted::OnVolume),
            ("/var/logs/a", Mounted::Nowhere),
            ("/l.log2", Mounted::Nowhere),
            ("/var/$(A)", Mounted::Unknown),
            ("a.log", Mounted::Unknown),
        ] {
            assert_eq!(of(&tree, tree.roots[0], path), expected, "{path}");
        }
    }
}
