//! Which file a command's first word names, as a runtime finds it: `execvp(3)`, and where the two
//! differ, Go's `exec.LookPath`, which runc uses.

use super::permission::{Access, Credentials};
use super::resolve::Resolved;
use super::resolve::{NotFound, NotFoundReason, TriedPath};
use super::root::Root;
use layer::{EntryKind, RootPath};

/// The file that will be executed.
#[derive(Debug, Clone)]
pub struct FoundCommand<'r> {
    /// The path that is executed, before any link.
    pub written: String,
    pub file: Resolved<'r>,
    pub found_by: FoundBy,
}

/// How a file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// Its path is the name, or begins with an absolute directory of `PATH`.
    Path,
    /// Through an empty or relative directory of `PATH`: `execvp` takes it, Go's `LookPath` refuses it.
    RelativeDirectory,
}

impl Root<'_> {
    /// A name with a slash is a path, seen from the working directory; any other is looked for in the
    /// directories of `PATH`. Only files with an execute bit count. An empty `PATH` has no directories; an
    /// empty directory in it is the working directory.
    pub fn search(
        &self,
        name: &str,
        path_variable: &str,
        working_dir: &RootPath,
    ) -> Result<FoundCommand<'_>, NotFound> {
        self.search_as(name, path_variable, working_dir, None)
    }

    /// The same for a process with these credentials. The first file with an execute bit counts, as for
    /// runc: if the user may not execute that one, the search is over.
    pub fn search_as(
        &self,
        name: &str,
        path_variable: &str,
        working_dir: &RootPath,
        who: Option<&Credentials>,
    ) -> Result<FoundCommand<'_>, NotFound> {
        let mut candidates = Vec::new();
        for written in candidate_paths(name, path_variable) {
            match self.executable(working_dir, &written, who) {
                Ok(file) => {
                    let found_by = found_by(name, &written);
                    return Ok(FoundCommand { written: shown_from(working_dir, &written), file, found_by });
                }
                Err(candidate) => {
                    let is_last = candidate.reason == NotFoundReason::NotPermitted;
                    candidates.push(TriedPath { written: shown_from(working_dir, &written), ..candidate });
                    if is_last {
                        break;
                    }
                }
            }
        }
        Err(NotFound { candidates })
    }

    fn executable(
        &self,
        working_dir: &RootPath,
        written: &str,
        who: Option<&Credentials>,
    ) -> Result<Resolved<'_>, TriedPath> {
        let file = match self.walk_as(working_dir, written.as_bytes(), who) {
            Ok(walk) => self.resolved(&walk),
            Err(strayed) => return Err(self.candidate(String::new(), strayed)),
        };
        let reason = match file.node.kind() {
            EntryKind::File { .. } if file.node.mode() & 0o111 == 0 => NotFoundReason::NotExecutable,
            EntryKind::File { .. } if who.is_some_and(|who| !file.node.allows(who, Access::Execute)) => {
                NotFoundReason::NotPermitted
            }
            EntryKind::File { .. } => return Ok(file),
            EntryKind::Directory => NotFoundReason::IsDirectory,
            _ => NotFoundReason::NotAFile,
        };
        Err(TriedPath { written: String::new(), links: file.links, reason })
    }
}

fn found_by(name: &str, written: &str) -> FoundBy {
    let is_path = name.contains('/') || written.starts_with('/');
    if is_path { FoundBy::Path } else { FoundBy::RelativeDirectory }
}

/// The paths to try, in order, each from the root or from the working directory.
fn candidate_paths(name: &str, path_variable: &str) -> Vec<String> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    if path_variable.is_empty() {
        return Vec::new();
    }
    let in_directory = |directory: &str| match directory {
        "" => name.to_owned(),
        directory => format!("{}/{name}", directory.trim_end_matches('/')),
    };
    path_variable.split(':').map(in_directory).collect()
}

/// The path that is executed, from the root.
fn shown_from(working_dir: &RootPath, written: &str) -> String {
    match written.starts_with('/') {
        true => written.to_owned(),
        false if working_dir.is_root() => format!("/{written}"),
        false => format!("{working_dir}/{written}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::merge;
    use crate::rootfs::testing::{directory, entry, file, hard_link, layer, path, program, symlink};

    fn entries() -> Vec<layer::Entry> {
        vec![
            program("usr/bin/app"),
            program("usr/bin/two"),
            program("opt/bin/two"),
            file("usr/local/bin/app"),
            directory("usr/local/bin/two"),
            symlink("bin", "usr/bin"),
            symlink("usr/bin/link", "/opt/bin/two"),
            symlink("usr/bin/dangling", "../lib/gone"),
            symlink("usr/bin/loop", "loop"),
            layer::Entry { mode: 0o755, ..entry("usr/bin/pipe", EntryKind::Fifo) },
            hard_link("usr/bin/hard", "usr/bin/app"),
            program("jobs/run.sh"),
        ]
    }

    const PATH: &str = "/usr/local/bin:/usr/bin:/opt/bin";

    #[test]
    fn a_name_is_found_as_a_runtime_would() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        for (name, variable, written, file) in [
            ("app", PATH, "/usr/bin/app", "usr/bin/app"),
            ("two", PATH, "/usr/bin/two", "usr/bin/two"),
            ("two", "/opt/bin/:/usr/bin", "/opt/bin/two", "opt/bin/two"),
            ("hard", PATH, "/usr/bin/hard", "usr/bin/hard"),
            ("link", PATH, "/usr/bin/link", "opt/bin/two"),
            ("app", "/bin", "/bin/app", "usr/bin/app"),
            ("/bin/app", "", "/bin/app", "usr/bin/app"),
            ("./run.sh", PATH, "/jobs/./run.sh", "jobs/run.sh"),
            ("../bin/app", "", "/jobs/../bin/app", "usr/bin/app"),
            ("../../../bin/app", "", "/jobs/../../../bin/app", "usr/bin/app"),
            ("run.sh", "/usr/bin:", "/jobs/run.sh", "jobs/run.sh"),
            ("run.sh", ".", "/jobs/./run.sh", "jobs/run.sh"),
        ] {
            let found = root.search(name, variable, &path("jobs")).unwrap();
            assert_eq!((found.written.as_str(), &found.file.path), (written, &path(file)), "{name} in {variable}");
        }
        let found = root.search("bin/app", "", &RootPath::root()).unwrap();
        assert_eq!((found.written.as_str(), found.found_by), ("/bin/app", FoundBy::Path));
        for variable in ["", ":/usr/bin", "/none:.", "../jobs"] {
            let found = root.search("run.sh", &format!("{variable}:"), &path("jobs")).unwrap();
            assert_eq!(found.found_by, FoundBy::RelativeDirectory, "{variable}");
        }
    }

    #[test]
    fn a_name_that_is_not_found_says_why_for_each_candidate() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        let missing = |at: &str| NotFoundReason::Missing(path(at));
        let dangling = NotFoundReason::Dangling {
            link: path("usr/bin/dangling"),
            target: "../lib/gone".into(),
            missing: path("usr/lib"),
        };
        for (name, variable, reasons) in [
            ("no", PATH, vec![missing("usr/local/bin/no"), missing("usr/bin/no"), missing("opt/bin/no")]),
            ("app", "/usr/local/bin:/none", vec![NotFoundReason::NotExecutable, missing("none")]),
            ("two", "/usr/local/bin", vec![NotFoundReason::IsDirectory]),
            ("dangling", "/usr/bin", vec![dangling]),
            ("loop", "/usr/bin", vec![NotFoundReason::Loop]),
            ("pipe", "/usr/bin", vec![NotFoundReason::NotAFile]),
            (
                "run.sh",
                PATH,
                vec![missing("usr/local/bin/run.sh"), missing("usr/bin/run.sh"), missing("opt/bin/run.sh")],
            ),
            ("/usr/local/bin/app", PATH, vec![NotFoundReason::NotExecutable]),
            ("/bin/app/", PATH, vec![NotFoundReason::NotADirectory(path("usr/bin/app"))]),
            ("app", "", vec![]),
            ("", PATH, vec![]),
            ("a\0b", "/usr/bin", vec![missing("usr/bin")]),
        ] {
            let lost = root.search(name, variable, &path("jobs")).unwrap_err();
            let given: Vec<NotFoundReason> = lost.candidates.into_iter().map(|candidate| candidate.reason).collect();
            assert_eq!(given, reasons, "{name:?} in {variable}");
        }
    }

    #[test]
    fn the_reasons_read_as_sentences_and_do_not_act() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        let lost = root.search("app", "/usr/local/bin:/no\u{1b}[2J", &RootPath::root()).unwrap_err();
        assert_eq!(
            lost.to_string(),
            "/usr/local/bin/app: it is not executable\n/no\\u{1b}[2J/app: /no\\u{1b}[2J does not exist"
        );
        let lost = root.search("app", "", &RootPath::root()).unwrap_err();
        assert_eq!(lost.to_string(), "PATH has no directories");
    }
}
