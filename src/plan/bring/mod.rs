//! `--bring`: packages, programs and paths of the source that go along into the added layer, each with the libraries
//! and interpreters that it needs and the links that lead to it.
//!
//! The rule this file owns: nothing is brought that the new base has, and nothing of the new base is replaced. A library
//! or interpreter that is found on the new base is the one that is used there. Anything else that the new base has
//! at the same path with another content is a conflict, and refused. The same input gives the same bytes.

mod metadata;
mod scene;

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;

use super::added as directories;
use super::extract::all_layers;
use super::layers::Bulk;
use super::new_layer::NewLayer;
use crate::examine::PlatformSubject;
use layer::{Entry, EntryKind, LayerIndex, RootPath};
use oci::error::{Error, Result};

use scene::{Carried, Choice};

pub use scene::BringScene;

/// What `--bring` names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BringName {
    /// A package, or else a program on PATH.
    Name(String),
    Path(RootPath),
}

impl FromStr for BringName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with('/') {
            return RootPath::new(text).map(Self::Path);
        }
        if text.is_empty() || text.contains('/') || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::usage("--bring takes a package, a program, or an absolute path").fact("given", text));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for BringName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Path(path) => path.fmt(f),
        }
    }
}

/// What came of `--bring`.
#[derive(Debug, Clone, Default)]
pub struct BringOutcome {
    pub brought: Vec<Brought>,
    /// What the source does not have.
    pub missing: Vec<BringName>,
    pub conflicts: Vec<BringConflict>,
}

/// One thing that was brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    pub name: BringName,
    pub kind: BroughtKind,
    /// What was copied for it that was not there, its libraries included; directories are not counted.
    pub bulk: Bulk,
    /// Packages that parts of it belong to, beside itself.
    pub with: Vec<String>,
    /// What belongs to it and stays behind, one line each.
    pub left: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BroughtKind {
    /// With its version.
    Package(String),
    Program,
    Path,
}

impl BroughtKind {
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Package(_) => "package",
            Self::Program => "program",
            Self::Path => "path",
        }
    }
}

/// The new base has something else at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BringConflict {
    pub path: RootPath,
    pub why: String,
}

/// What a `--bring` would add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BringOffer {
    pub name: BringName,
    pub bulk: Bulk,
}

impl fmt::Display for BringOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, bulk: Bulk { entries, bytes } } = self;
        let files = if *entries == 1 { "1 file".to_owned() } else { format!("{entries} files") };
        write!(f, "--bring {name}, which adds {} in {files}", ByteSize(*bytes))
    }
}

/// What is offered for a file that belongs to a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offering {
    Package,
    File,
}

/// Brings everything that was named into the layer.
pub(super) fn bring(
    names: &[BringName],
    scene: &BringScene<'_>,
    layer: &mut NewLayer,
    subject: &PlatformSubject,
) -> BringOutcome {
    let mut outcome = BringOutcome::default();
    let mut whole = Choice::default();
    for name in names {
        let (before, packages) = (whole.bulk, whole.packages.clone());
        let Some(kind) = scene.choose(name, &mut whole) else {
            outcome.missing.push(name.clone());
            continue;
        };
        let with = whole.packages.difference(&packages).filter(|package| **package != name.to_string());
        outcome.brought.push(Brought {
            bulk: Bulk {
                entries: whole.bulk.entries.saturating_sub(before.entries),
                bytes: whole.bulk.bytes.saturating_sub(before.bytes),
            },
            with: with.cloned().collect(),
            left: scene.left(name, &kind, &whole),
            name: name.clone(),
            kind,
        });
    }
    whole.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    whole.conflicts.dedup_by(|one, other| one.path == other.path);
    // What the user keeps takes the place of the new base's.
    whole.conflicts.retain(|conflict| !layer.has(&conflict.path));
    scene.write(&whole, layer, subject);
    outcome.conflicts = whole.conflicts;
    outcome
}

impl BringScene<'_> {
    fn write(&self, choice: &Choice, layer: &mut NewLayer, subject: &PlatformSubject) {
        let layers: Vec<&LayerIndex> = all_layers(subject).collect();
        for (place, carried) in &choice.files {
            if layer.has(place) {
                continue;
            }
            directories::lead(layer, place, |parent| self.rebased.get(parent).or_else(|| self.source.get(parent)));
            match carried {
                Carried::Copy(real) => self.copy(place, real, &layers, layer),
                Carried::Link(kind) => layer.add(Entry::new(place.clone(), kind.clone(), 0o777, 0, 0)),
                Carried::Content(content) => {
                    let kind = EntryKind::File { size: content.len() as u64 };
                    layer.add_file(Entry::new(place.clone(), kind, 0o644, 0, 0), content.clone());
                }
            }
        }
    }

    fn copy(&self, place: &RootPath, real: &RootPath, layers: &[&LayerIndex], layer: &mut NewLayer) {
        let Some(node) = self.source.get(real) else { return };
        match node.place() {
            None => layer.add(directories::like(place, node)),
            Some((number, position)) => {
                layers.get(number).into_iter().for_each(|index| layer.take(index, position, place));
            }
        }
    }
}

impl Brought {
    /// `package iptables 1.8.9-2`, `program conntrack`, `/etc/protocols`
    #[must_use]
    pub fn line(&self) -> String {
        match &self.kind {
            BroughtKind::Package(version) => format!("package {} {version}", self.name),
            BroughtKind::Program => format!("program {}", self.name),
            BroughtKind::Path => self.name.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::examine::testing::{Put, entry, fetched, layer, program};
    use crate::plan::testing::pass;
    use crate::plan::{Pass, RebaseOptions};
    use elf::{Linkage, Program, Script};
    use oci::testing::TestImage;

    /// The added layer and what came of it, for a source with this system, moved to a base with these files.
    fn brought(system: LayerIndex, base: LayerIndex, names: &[&str]) -> Pass {
        let source = TestImage { container: json!({"Entrypoint": ["/app"]}), ..TestImage::of(&["layer0", "layer1"]) };
        let mut subject = fetched(&source, &TestImage::of(&["layer0"]), &TestImage::of(&["n"]));
        let platform = &mut subject.platforms[0];
        platform.old_layers = vec![Arc::new(system)];
        platform.base_layers = vec![Arc::new(base)];
        let bring = names.iter().map(|name| name.parse().unwrap()).collect();
        pass(subject, &RebaseOptions { bring, ..RebaseOptions::default() }.normalized())
    }

    /// Paths of the added layer, links with their targets, without directories.
    fn added(pass: &Pass) -> Vec<String> {
        let shown = |(entry, _): (&Entry, _)| match &entry.kind {
            EntryKind::Directory => None,
            EntryKind::Symlink(target) => Some(format!("{} -> {}", entry.path, String::from_utf8_lossy(target))),
            _ => Some(entry.path.to_string()),
        };
        pass.draft.layers.added.layer.entries().filter_map(shown).collect()
    }

    fn conflicts(pass: &Pass) -> Vec<String> {
        pass.draft.layers.bring.conflicts.iter().map(|conflict| conflict.path.to_string()).collect()
    }

    fn dynamic(needed: &[&str]) -> Program {
        let needed = needed.iter().map(|name| (*name).to_owned()).collect();
        Program { needed, interpreter: Some("/lib64/ld.so".to_owned()), ..program(Linkage::Dynamic) }
    }

    fn script(interpreter: &str, argument: Option<&str>) -> Program {
        let script = Script { interpreter: interpreter.to_owned(), argument: argument.map(str::to_owned) };
        Program { script: Some(script), ..program(Linkage::Script) }
    }

    /// A system whose `/lib` and `/lib64` are links into `/usr`, with a tool and its libraries.
    fn merged() -> LayerIndex {
        layer("layer0")
            .with_link("lib", "usr/lib")
            .with_link("lib64", "usr/lib64")
            .with_program("usr/bin/tool", dynamic(&["liba.so.1", "libc.so.6"]))
            .with_link("usr/lib/liba.so.1", "liba.so.1.2")
            .with_program(
                "usr/lib/liba.so.1.2",
                Program { needed: vec!["libb.so".to_owned()], ..program(Linkage::SharedObject) },
            )
            .with_program("usr/lib/libb.so", program(Linkage::SharedObject))
            .with_program("usr/lib/libc.so.6", program(Linkage::SharedObject))
            .with_link("usr/lib64/ld.so", "../lib/ld-2.so")
            .with_program("usr/lib/ld-2.so", program(Linkage::SharedObject))
    }

    #[test]
    fn a_program_comes_with_its_libraries_its_loader_and_the_links_to_them() {
        let pass = brought(merged(), layer("n"), &["tool"]);
        let expected = [
            "/lib64 -> usr/lib64",
            "/usr/bin/tool",
            "/usr/lib/ld-2.so",
            "/usr/lib/liba.so.1 -> liba.so.1.2",
            "/usr/lib/liba.so.1.2",
            "/usr/lib/libb.so",
            "/usr/lib/libc.so.6",
            "/usr/lib64/ld.so -> ../lib/ld-2.so",
        ];
        assert_eq!(added(&pass), expected);
        assert_eq!(pass.draft.layers.bring.brought[0].kind, BroughtKind::Program);
        assert_eq!(pass.draft.layers.bring.brought[0].bulk, Bulk { entries: 8, bytes: 5 });
    }

    #[test]
    fn libraries_and_the_loader_of_the_new_base_are_used_and_its_directories_stay() {
        let base = layer("n")
            .with(entry("lib/"))
            .with(entry("lib64/"))
            .with(entry("lib64/ld.so"))
            .with(entry("lib/libc.so.6"));
        let pass = brought(merged(), base, &["tool"]);
        let expected =
            ["/usr/bin/tool", "/usr/lib/liba.so.1 -> liba.so.1.2", "/usr/lib/liba.so.1.2", "/usr/lib/libb.so"];
        assert_eq!((added(&pass), conflicts(&pass)), (expected.map(str::to_owned).to_vec(), Vec::new()));

        // Without a loader, a directory where the source has a link gets a link of its own.
        let pass = brought(merged(), layer("n").with(entry("lib64/")).with(entry("lib/libc.so.6")), &["/usr/bin/tool"]);
        assert!(added(&pass).contains(&"/lib64/ld.so -> /usr/lib/ld-2.so".to_owned()), "{:?}", added(&pass));
    }

    #[test]
    fn what_goes_to_a_merged_system_goes_to_its_real_directories() {
        let system = layer("layer0").with(entry("lib/")).with_program("lib/x", program(Linkage::SharedObject));
        let pass = brought(system, layer("n").with(entry("usr/lib/")).with_link("lib", "usr/lib"), &["/lib/x"]);
        assert_eq!(added(&pass), ["/usr/lib/x"]);
    }

    #[test]
    fn a_script_comes_with_its_interpreter() {
        let system = layer("layer0")
            .with_program("usr/bin/env", program(Linkage::Static))
            .with_program("usr/bin/python3", program(Linkage::Static))
            .with_program("usr/bin/one", script("/usr/bin/python3", None))
            .with_program("usr/bin/two", script("/usr/bin/env", Some("-S python3 -u")));
        assert_eq!(added(&brought(system.clone(), layer("n"), &["one"])), ["/usr/bin/one", "/usr/bin/python3"]);
        let both = ["/usr/bin/env", "/usr/bin/python3", "/usr/bin/two"];
        assert_eq!(added(&brought(system, layer("n"), &["two"])), both);
    }

    #[test]
    fn a_package_comes_with_its_alternatives_and_its_metadata() {
        let system = layer("layer0")
            .with_text("usr/sbin/nft", "x")
            .with_link("usr/sbin/tables", "/etc/alternatives/tables")
            .with_link("etc/alternatives/tables", "/usr/sbin/nft")
            .with_link("usr/sbin/other", "/etc/alternatives/other")
            .with_text("usr/share/doc/tables/copyright", "(c)")
            .with_text(
                "var/lib/dpkg/status",
                "Package: tables\nStatus: install ok installed\nVersion: 1.8\nDepends: libx (>= 1), nets | web\n\n\
                 Package: nets\nStatus: install ok installed\nVersion: 2\n",
            )
            .with_text("var/lib/dpkg/info/tables.list", "/usr/sbin/nft\n")
            .with_text("var/lib/dpkg/info/tables.md5sums", "0  usr/sbin/nft\n")
            .with_text("var/lib/dpkg/info/nets.list", "/etc/nets\n")
            .with_text("etc/nets", "x");
        let pass = brought(system, layer("n"), &["tables"]);
        let expected = [
            "/etc/alternatives/tables -> /usr/sbin/nft",
            "/usr/sbin/nft",
            "/usr/sbin/tables -> /etc/alternatives/tables",
            "/usr/share/doc/tables/copyright",
            "/var/lib/dpkg/status.d/tables",
            "/var/lib/dpkg/status.d/tables.md5sums",
        ];
        assert_eq!(added(&pass), expected);
        let [brought] = &pass.draft.layers.bring.brought[..] else { panic!("one") };
        assert_eq!(brought.line(), "package tables 1.8");
        assert_eq!(brought.left, ["packages that it depends on: nets"]);
    }

    #[test]
    fn what_the_new_base_has_with_another_content_is_a_conflict() {
        let text = |content: &str| layer("n").with_text("etc/x", content);
        let system = || layer("layer0").with_text("etc/x", "one");
        for (base, added_paths, conflict) in [
            (layer("n"), vec!["/etc/x"], vec![]),
            (text("one"), vec![], vec![]),
            (text("two"), vec![], vec!["/etc/x"]),
            (text("three"), vec![], vec!["/etc/x"]),
            (layer("n").with_link("etc/x", "y"), vec![], vec!["/etc/x"]),
            (layer("n").with_text("etc", ""), vec![], vec!["/etc/x"]),
        ] {
            let pass = brought(system(), base, &["/etc/x"]);
            assert_eq!(
                (added(&pass), conflicts(&pass)),
                (
                    added_paths.iter().map(ToString::to_string).collect(),
                    conflict.iter().map(ToString::to_string).collect()
                )
            );
        }
    }

    #[test]
    fn what_the_source_does_not_have_is_named() {
        let pass = brought(merged(), layer("n"), &["gone", "/usr/bin/gone", "tool"]);
        let missing: Vec<String> = pass.draft.layers.bring.missing.iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["gone", "/usr/bin/gone"]);
        for (text, is_good) in
            [("a", true), ("/a", true), ("", false), ("a/b", false), ("a b", false), ("/../a", false)]
        {
            assert_eq!(text.parse::<BringName>().is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn links_that_go_in_circles_end() {
        let system = layer("layer0").with_link("a", "b").with_link("b", "a").with_link("c", "/c/d");
        for name in ["/a", "/c"] {
            assert_eq!(added(&brought(system.clone(), layer("n"), &[name])).len(), 1, "{name}");
        }
    }
}
