//! The names along a path that is being followed: what is left of it, links included.
//!
//! Both who looks a path up and who puts an entry somewhere go by these steps, so a link means the
//! same to both: an absolute one starts at the image's root, and there is an end to following.

/// Links that may be followed on one path, as in Linux.
pub(super) const MAX_LINKS: usize = 40;
/// Names that one path may have with all its links. Linux has no such limit, but the targets of 40
/// links can hold 80,000 names, and a layer can ask for that with each of its entries.
const MAX_COMPONENTS: usize = 4096;

/// There were too many links, or too many names in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyLinks;

/// Where a step came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComponentOrigin {
    /// The path that was asked for.
    Path,
    /// The target of the link of this number.
    Link(usize),
}

/// What is left of a path. Components are raw: `.`, `..` and empty names are among them.
pub(super) struct PathComponents<'p> {
    /// Innermost link last.
    rest: Vec<(&'p [u8], ComponentOrigin)>,
    links: usize,
    taken: usize,
}

impl<'p> PathComponents<'p> {
    pub(super) fn new(path: &'p [u8]) -> Self {
        Self { rest: vec![(path, ComponentOrigin::Path)], links: 0, taken: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<(&'p [u8], ComponentOrigin)>, TooManyLinks> {
        let Some((rest, origin)) = self.rest.pop() else { return Ok(None) };
        self.taken += 1;
        if self.taken > MAX_COMPONENTS {
            return Err(TooManyLinks);
        }
        let (step, left) = split_first(rest);
        self.rest.extend(left.map(|left| (left, origin)));
        Ok(Some((step, origin)))
    }

    /// Goes through the link's target before what is left. Whoever follows an absolute target
    /// goes back to the root.
    pub(super) fn follow(&mut self, target: &'p [u8]) -> Result<(), TooManyLinks> {
        if self.links == MAX_LINKS {
            return Err(TooManyLinks);
        }
        self.rest.push((target, ComponentOrigin::Link(self.links)));
        self.links += 1;
        Ok(())
    }
}

/// The first name of a path, and the rest where a slash follows it.
fn split_first(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'/').and_then(|at| path.split_at_checked(at)) {
        Some((first, rest)) => (first, rest.get(1..)),
        None => (path, None),
    }
}

/// The directory of a normalised path, and its name there; `None` for the root.
pub(super) fn split_last(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    let cut = path.iter().rposition(|byte| *byte == b'/');
    match cut.and_then(|at| path.split_at_checked(at)) {
        Some((directory, rest)) => Some((directory, rest.get(1..)?)),
        None => Some((b"", path)),
    }
}

/// Whether a link's target starts at the root.
pub(super) fn is_absolute(target: &[u8]) -> bool {
    target.starts_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &[u8]) -> Vec<String> {
        let mut steps = PathComponents::new(path);
        std::iter::from_fn(|| steps.next().unwrap()).map(|(step, _)| String::from_utf8_lossy(step).into()).collect()
    }

    #[test]
    fn steps_are_the_names_between_slashes() {
        assert_eq!(all(b"a/b"), ["a", "b"]);
        assert_eq!(all(b"/a//../b/"), ["", "a", "", "..", "b", ""]);
        assert_eq!(all(b""), [""]);
    }

    #[test]
    fn the_target_of_a_link_comes_before_what_is_left() {
        let mut steps = PathComponents::new(b"l/z");
        assert_eq!(steps.next(), Ok(Some((b"l".as_slice(), ComponentOrigin::Path))));
        steps.follow(b"x/y").unwrap();
        assert_eq!(steps.next(), Ok(Some((b"x".as_slice(), ComponentOrigin::Link(0)))));
        assert_eq!(steps.next(), Ok(Some((b"y".as_slice(), ComponentOrigin::Link(0)))));
        assert_eq!(steps.next(), Ok(Some((b"z".as_slice(), ComponentOrigin::Path))));
        assert_eq!(steps.next(), Ok(None));
    }

    #[test]
    fn there_is_an_end_to_links_and_to_names() {
        let mut steps = PathComponents::new(b"l");
        let followed = (0..100).filter(|_| steps.follow(b"l").is_ok()).count();
        assert_eq!(followed, MAX_LINKS);
        let long = b"./".repeat(MAX_COMPONENTS);
        let mut steps = PathComponents::new(&long);
        assert!((0..MAX_COMPONENTS).all(|_| steps.next().is_ok()));
        assert_eq!(steps.next(), Err(TooManyLinks));
    }

    #[test]
    fn the_last_name_is_split_from_its_directory() {
        for (path, parts) in [("", None), ("a", Some(("", "a"))), ("a/b/c", Some(("a/b", "c")))] {
            let parts = parts.map(|(directory, name): (&str, &str)| (directory.as_bytes(), name.as_bytes()));
            assert_eq!(split_last(path.as_bytes()), parts, "{path}");
        }
    }
}
