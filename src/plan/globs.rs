//! Whether a word with wildcards matches a file of an image.
//!
//! The rule it owns: what is not certain counts as a match. Runtimes put files of their own into every container, and
//! what a volume holds is not known.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::process::Container;
use layer::RootPath;
use shell::{Glob, GlobComponent, GlobPattern, GlobStart};
use start::rootfs::Root;

/// Where runtimes mount file systems of their own.
const MOUNTED: [&str; 4] = ["proc", "sys", "dev", "run/secrets"];

/// What runtimes put into a container, by directory.
const OF_RUNTIMES: [(&str, &[&str]); 3] = [
    ("", &[".dockerenv", "dev", "etc", "proc", "run", "sys"]),
    ("etc", &["hostname", "hosts", "mtab", "resolv.conf"]),
    ("run", &[".containerenv", "secrets"]),
];

/// More comparisons than any word needs; what needs more counts as a match.
const MOST_WORK: usize = 64 << 20;

/// A root, and what is known of the container that has it.
pub(super) struct GlobSearch<'a> {
    root: &'a Root<'a>,
    volumes: Vec<RootPath>,
    work: usize,
}

impl<'a> GlobSearch<'a> {
    pub(super) fn new(root: &'a Root<'a>, container: &Container) -> Self {
        let volumes = container.members.get("Volumes").and_then(Value::as_object).into_iter().flatten();
        let volumes = volumes.filter_map(|(path, _)| RootPath::new(path).ok()).collect();
        Self { root, volumes, work: 0 }
    }

    /// A path that the word matches, or may match.
    pub(super) fn find(&mut self, glob: &Glob) -> Option<String> {
        let start = match &glob.start {
            GlobStart::Root => RootPath::root(),
            GlobStart::WorkingDir(directory) => match RootPath::new(directory) {
                Ok(directory) => directory,
                Err(_) => return Some(format!("those in {directory}")),
            },
        };
        let mut reached = BTreeSet::from([start]);
        for component in &glob.components {
            let mut next = BTreeSet::new();
            for path in &reached {
                let Some(directory) = self.directory(path) else { continue };
                if self.is_filled_at_run_time(&directory) {
                    return Some(format!("those in {directory}"));
                }
                match self.below(&directory, component) {
                    Some(paths) => next.extend(paths),
                    None => return Some(format!("those in {directory}")),
                }
            }
            reached = next;
        }
        reached.first().map(ToString::to_string)
    }

    /// The directory at this path, after all links.
    fn directory(&self, path: &RootPath) -> Option<RootPath> {
        match self.root.resolve(path) {
            Ok(found) if found.node.is_directory() => Some(found.path),
            Ok(_) => None,
            Err(_) => is_of_runtimes(path).then(|| path.clone()),
        }
    }

    fn is_filled_at_run_time(&self, directory: &RootPath) -> bool {
        let mounted = MOUNTED.iter().filter_map(|path| RootPath::new(path).ok());
        mounted.chain(self.volumes.iter().cloned()).any(|mounted| directory.is_within(&mounted))
    }

    /// What of the directory the component means; `None` where that is not certain.
    fn below(&mut self, directory: &RootPath, component: &GlobComponent) -> Option<Vec<RootPath>> {
        match component {
            GlobComponent::Name(name) if name == b"." => Some(vec![directory.clone()]),
            GlobComponent::Name(name) if name == b".." => None,
            GlobComponent::Name(name) => {
                let path = directory.join(name).ok()?;
                let is_there = self.root.get(&path).is_some() || is_of_runtimes(&path);
                Some(is_there.then_some(path).into_iter().collect())
            }
            GlobComponent::Pattern(pattern) => self.matching(directory, pattern),
        }
    }

    fn matching(&mut self, directory: &RootPath, pattern: &GlobPattern) -> Option<Vec<RootPath>> {
        let own = self.root.directory(directory).map(|(name, _)| name);
        let of_runtimes = runtime_names(directory).iter().map(|name| name.as_bytes());
        let special = pattern.names_hidden().then_some([&b"."[..], b".."]).into_iter().flatten();
        let mut out = Vec::new();
        for name in own.chain(of_runtimes).chain(special) {
            self.work = self.work.saturating_add(pattern.cost(name));
            if self.work > MOST_WORK {
                return None;
            }
            if pattern.matches(name) {
                // `.` and `..` are matches whose path is that of another directory.
                out.push(directory.join(name).ok()?);
            }
        }
        Some(out)
    }
}

fn runtime_names(directory: &RootPath) -> &'static [&'static str] {
    let is_here = |path: &str| RootPath::new(path).is_ok_and(|path| path == *directory);
    OF_RUNTIMES.iter().find(|(path, _)| is_here(path)).map_or(&[], |(_, names)| names)
}

fn is_of_runtimes(path: &RootPath) -> bool {
    let is_named = |directory: &RootPath| {
        runtime_names(directory).iter().any(|name| directory.join(name).is_ok_and(|named| named == *path))
    };
    path.parent().is_some_and(|parent| is_named(&parent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::examine::testing::{entry, layer};
    use layer::{Entry, EntryKind};
    use shell::{CommandContext, ImageContext, Surroundings, Verdict, translate};
    use start::rootfs::merge;

    fn glob(word: &str) -> Glob {
        let surroundings = Surroundings::Known { working_dir: "/srv".to_owned(), variables: BTreeSet::new() };
        let context = CommandContext::Image(ImageContext { surroundings, ..ImageContext::default() });
        let argv = ["sh", "-c", &format!("app {word}")].map(str::to_owned);
        match translate(&argv, None, &context) {
            Verdict::Translate(exec) => exec.globs.into_iter().next().unwrap(),
            other => panic!("{word}: {other:?}"),
        }
    }

    #[test]
    fn a_word_matches_what_is_there_or_may_be() {
        let mut own = layer("own");
        let directory = |path: &str| Entry { kind: EntryKind::Directory, ..entry(path) };
        let link = |path: &str, to: &str| Entry { kind: EntryKind::Symlink(to.into()), ..entry(path) };
        own.entries = vec![
            directory("srv"),
            entry("srv/a.conf"),
            directory("srv/sub"),
            entry("srv/sub/x"),
            link("srv/up", "/srv"),
            link("srv/away", "/nowhere"),
            entry("etc/passwd"),
            directory("data"),
        ];
        let root = merge([&own]);
        let container = Container {
            members: json!({"Volumes": {"/data": {}}}).as_object().cloned().unwrap(),
            ..Container::default()
        };
        for (word, found) in [
            ("*.conf", Some("/srv/a.conf")),
            ("*.yaml", None),
            ("sub/*", Some("/srv/sub/x")),
            ("*/x", Some("/srv/sub/x")),
            ("*/y", None),
            ("up/*.conf", Some("/srv/a.conf")),
            ("aw?y", Some("/srv/away")),
            ("away/*", None),
            ("/etc/pass*", Some("/etc/passwd")),
            ("/etc/host?", Some("/etc/hosts")),
            ("/etc/hos?", None),
            ("/etc/x*", None),
            ("/proc/*/x", Some("those in /proc")),
            ("/de?/x", Some("those in /dev")),
            ("/data/*", Some("those in /data")),
            ("/none/*", None),
            ("../*", Some("those in /srv")),
            ("[as].conf", Some("/srv/a.conf")),
            ("[bs].conf", None),
            ("http://h?x=1", None),
            (".*x", None),
            (".*", Some("/srv")),
        ] {
            let got = GlobSearch::new(&root, &container).find(&glob(word));
            assert_eq!(got.is_some(), found.is_some(), "{word}: {got:?}");
            if !word.starts_with(".*") {
                assert_eq!(got.as_deref(), found, "{word}");
            }
        }
    }

    #[test]
    fn links_that_lead_in_circles_cost_nothing() {
        let mut own = layer("own");
        own.entries =
            (0..200).map(|n| Entry { kind: EntryKind::Symlink("/".into()), ..entry(&format!("l{n}")) }).collect();
        let root = merge([&own]);
        let container = Container::default();
        let word = glob(&format!("/{}none", "*/".repeat(100)));
        assert_eq!(GlobSearch::new(&root, &container).find(&word), Some("those in /dev".to_owned()));
    }
}
