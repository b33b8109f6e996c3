//! The SBOM of one platform of a result: one model, written as SPDX 2.3 and as `CycloneDX` 1.6.
//!
//! It is read from the result's root: packages of dpkg and apk, modules of Go programs, crates of Rust programs that
//! were built with `cargo auditable`, and the files above the base that no package has, by digest. The rule this file
//! owns: the same result gives the same bytes. There is no clock, everything is sorted, and the names of documents come
//! from the digest of the image. What cannot be read whole is an error, not a shorter list.

mod cyclonedx;
mod licence;
mod purl;
mod spdx;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ReadStatement, Statement};
use crate::assemble::Assembled;
use crate::examine::ownership;
use crate::examine::packages::{InstalledPackages, Manager, RootPackage, RootPackages};
use crate::plan::{Epoch, ImagePlan, Pass};
use elf::{GoFacts, Program, RustCrate};
use layer::{EntryKind, RootPath};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Document, Platform};
use start::rootfs::{FileNode, Root};

pub use licence::Licence;
use purl::Purl;

/// More files than this are not listed one by one; programs with modules always are.
const MOST_FILES: usize = 50_000;

/// The forms that it is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SbomFormat {
    Spdx,
    CycloneDx,
}

impl SbomFormat {
    pub const ALL: [Self; 2] = [Self::Spdx, Self::CycloneDx];

    /// The word of `--report FORMAT=FILE`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Spdx => "spdx",
            Self::CycloneDx => "cyclonedx",
        }
    }

    /// The type of such a document in an attestation.
    #[must_use]
    pub const fn predicate_type(self) -> &'static str {
        match self {
            Self::Spdx => "https://spdx.dev/Document",
            Self::CycloneDx => "https://cyclonedx.org/bom",
        }
    }

    /// The document.
    #[must_use]
    pub fn document(self, sbom: &Sbom) -> Value {
        match self {
            Self::Spdx => spdx::document(sbom),
            Self::CycloneDx => cyclonedx::document(sbom),
        }
    }

    /// The document as the text of a file.
    #[must_use]
    pub fn write(self, sbom: &Sbom) -> String {
        format!("{}\n", self.document(sbom))
    }
}

/// Whether a run makes SBOMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SbomWish {
    None,
    /// There is room for one document: an image of several platforms is an error.
    One,
    ForEachPlatform,
}

/// What one platform of a result is made of.
#[derive(Debug, Clone)]
pub struct Sbom {
    /// The last part of the source's registry name; `image` where it has none.
    pub name: String,
    /// The manifest.
    pub digest: Digest,
    pub platform: Platform,
    /// As both formats write it: seconds, in UTC.
    pub created: String,
    /// Sorted by id; each once.
    pub components: Vec<Component>,
    /// Which component consists of which, by their places in the list; sorted.
    pub contains: BTreeSet<(usize, usize)>,
    pub depends: BTreeSet<(usize, usize)>,
    /// Files that are not listed one by one.
    pub files_left_out: usize,
}

/// One thing that the image contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Unique, and the same in every document that has this component: letters, digits and `-`.
    pub id: String,
    pub kind: ComponentKind,
    pub name: String,
    pub version: String,
    pub purl: Option<String>,
    pub licence: Option<Licence>,
    /// The source package, with its version.
    pub built_from: Option<(String, String)>,
    pub sha256: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComponentKind {
    Package,
    GoModule,
    Crate,
    File,
}

impl ComponentKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::GoModule => "go",
            Self::Crate => "crate",
            Self::File => "file",
        }
    }
}

impl Component {
    fn new(kind: ComponentKind, name: &str, version: &str, purl: Option<String>) -> Self {
        let identity = purl.clone().unwrap_or_else(|| format!("{name}\0{version}"));
        let id = format!("{}-{}", kind.word(), Digest::of(identity.as_bytes()).hex().get(..24).unwrap_or_default());
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { id, kind, name, version, purl, licence: None, built_from: None, sha256: None }
    }
}

impl Sbom {
    /// Of a platform that was assembled. `name` is the registry name of its source.
    pub fn of(pass: &Pass, name: Option<&str>) -> Result<Self> {
        let result = pass.result.as_ref().ok_or_else(|| Error::input("a refused image has no SBOM"))?;
        let root = pass.draft.layers.root(&pass.subject);
        let packages = RootPackages::of(&root);
        if let Some(path) = packages.unread.first() {
            return Err(Error::input("an SBOM would be incomplete: a package database cannot be read")
                .fact("platform", &pass.subject.platform)
                .fact("database", path)
                .hint("leave the SBOM out, or take a base whose packages are those of dpkg or apk"));
        }
        let distro = Distro::of(&root);
        let mut draft = SbomDraft::default();
        packages.packages.iter().for_each(|package| draft.add_package(package, &distro));
        draft.add_files(&root, pass.subject.base_layers.len())?;
        let name = name.and_then(|name| name.rsplit('/').next()).unwrap_or("image").to_owned();
        Ok(draft.finish(name, result.digest, pass.subject.platform.clone(), created(pass)))
    }
}

impl Sbom {
    /// What is in the image itself, and not a part of a program in it.
    fn top_level(&self) -> impl Iterator<Item = (usize, &Component)> {
        let parts: BTreeSet<usize> = self.contains.iter().map(|(_, part)| *part).collect();
        self.components.iter().enumerate().filter(move |(at, _)| !parts.contains(at))
    }

    fn image_purl(&self) -> String {
        let (name, version) = (self.name.to_ascii_lowercase(), self.digest.to_string());
        let qualifiers = vec![("arch", self.platform.architecture())];
        Purl { kind: "oci", name: &name, version: &version, qualifiers, ..Purl::default() }.text()
    }

    fn left_out_comment(&self) -> String {
        format!("{} further files of the image are not listed one by one", self.files_left_out)
    }
}

/// Each SBOM in each form, about the manifest of its platform.
#[must_use]
pub fn statements(sboms: &[Sbom], assembled: &Assembled) -> Vec<Statement> {
    let manifest = |sbom: &Sbom| {
        let documents = std::iter::once(&assembled.top).chain(&assembled.children);
        documents.map(Document::descriptor).find(|descriptor| descriptor.digest == sbom.digest)
    };
    let all = sboms.iter().filter_map(|sbom| Some((sbom, manifest(sbom)?)));
    let each = |(sbom, subject): (&Sbom, Descriptor)| {
        SbomFormat::ALL.map(|format| Statement {
            subject: subject.clone(),
            name: None,
            predicate_type: format.predicate_type().to_owned(),
            predicate: format.document(sbom),
        })
    };
    all.flat_map(each).collect()
}

/// Whether it is an SBOM that underpin makes: those of other tools say other things.
#[must_use]
pub fn is_ours(statement: &ReadStatement) -> bool {
    let is_form = |format: &SbomFormat| format.predicate_type() == statement.predicate_type;
    SbomFormat::ALL.iter().find(|format| is_form(format)).is_some_and(|format| match format {
        SbomFormat::Spdx => spdx::is_ours(&statement.predicate),
        SbomFormat::CycloneDx => cyclonedx::is_ours(&statement.predicate),
    })
}

/// The document without the version of underpin, which says nothing about the image.
pub(super) fn comparable(document: Value) -> Value {
    cyclonedx::without_tool(spdx::without_tool(document))
}

/// When the image says that it was made; 1970 where it does not, or says it in another form.
fn created(pass: &Pass) -> String {
    let object = match &pass.draft.image {
        ImagePlan::AsIs(image) => image.config.object(),
        ImagePlan::New(new) => &new.config,
    };
    let text = object.get("created").and_then(Value::as_str).unwrap_or_default();
    Epoch::from_rfc3339(text).unwrap_or(Epoch(0)).to_rfc3339()
}

/// What `os-release` says.
#[derive(Debug, Default)]
struct Distro {
    id: String,
    version: String,
}

impl Distro {
    fn of(root: &Root<'_>) -> Self {
        let paths = ["etc/os-release", "usr/lib/os-release"];
        let found = paths.iter().find_map(|path| {
            let found = root.resolve(&RootPath::new(*path).ok()?).ok()?;
            root.content(found.node)
        });
        let text = String::from_utf8_lossy(found.unwrap_or_default());
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            let value = value.trim().trim_matches(['"', '\'']);
            let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
            (is_plain && value.len() <= 64).then(|| value.to_owned())
        };
        Self { id: value("ID").unwrap_or_default(), version: value("VERSION_ID").unwrap_or_default() }
    }

    /// `debian-12`
    fn qualifier(&self) -> String {
        match (self.id.as_str(), self.version.as_str()) {
            ("", _) => String::new(),
            (id, "") => id.to_owned(),
            (id, version) => format!("{id}-{version}"),
        }
    }
}

/// An SBOM that grows. Relations are by id until all components are known.
#[derive(Debug, Default)]
struct SbomDraft {
    components: BTreeMap<String, Component>,
    contains: BTreeSet<(String, String)>,
    depends: BTreeSet<(String, String)>,
    files: usize,
    files_left_out: usize,
}

impl SbomDraft {
    /// Of two with one id the first counts.
    fn add(&mut self, component: Component) -> String {
        let id = component.id.clone();
        self.components.entry(id.clone()).or_insert(component);
        id
    }

    fn add_package(&mut self, package: &RootPackage<'_>, distro: &Distro) {
        let (kind, usual) = match package.package.manager {
            Manager::Dpkg => ("deb", "debian"),
            Manager::Apk => ("apk", "alpine"),
        };
        let (name, version) = (&package.package.name, &package.package.version);
        let built_from = package.built_from().filter(|(from, of)| *from != name || *of != version);
        let upstream =
            built_from.map(|(from, of)| if of == version { from.to_owned() } else { format!("{from}@{of}") });
        let (qualifier, upstream) = (distro.qualifier(), upstream.unwrap_or_default());
        let qualifiers = vec![("arch", package.architecture()), ("distro", &qualifier), ("upstream", &upstream)];
        let namespace = if distro.id.is_empty() { usual } else { &distro.id };
        let purl = Purl { kind, namespace, name, version, qualifiers };
        let component = Component::new(ComponentKind::Package, name, version, Some(purl.text()));
        let built_from = built_from.map(|(from, of)| (from.to_owned(), of.to_owned()));
        let licence = package.licence().and_then(Licence::read);
        self.add(Component { licence, built_from, ..component });
    }

    /// The files above the base that no package has, and every program with modules.
    fn add_files(&mut self, root: &Root<'_>, base: usize) -> Result<()> {
        let packages = InstalledPackages::of(root);
        for (path, node) in root.entries() {
            let EntryKind::File { .. } = node.kind() else { continue };
            let program = root.program(node).filter(|program| has_parts(program));
            let is_own =
                node.content_layer() >= base && packages.owner(&path).is_none() && !ownership::is_in_database(&path);
            if !is_own && program.is_none() {
                continue;
            }
            if program.is_none() && self.files >= MOST_FILES {
                self.files_left_out += 1;
                continue;
            }
            self.files += 1;
            let file = self.add_file(root, &path, node, node.content_layer() >= base)?;
            if let Some(program) = program {
                self.add_parts(&file, program);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, root: &Root<'_>, path: &RootPath, node: &FileNode<'_>, is_own: bool) -> Result<String> {
        let sha256 = root.file_digest(node);
        if is_own && sha256.is_none() && !node.entry().is_some_and(|entry| entry.sparse) {
            return Err(Error::input("the digest of a file is not known").fact("file", path));
        }
        Ok(self.add(Component { sha256, ..Component::new(ComponentKind::File, &path.to_string(), "", None) }))
    }

    fn add_parts(&mut self, file: &str, program: &Program) {
        if let Some(go) = &program.go {
            self.add_modules(file, go);
        }
        self.add_crates(file, &program.crates);
    }

    /// The main module depends on the others; which of those depends on which is not known.
    fn add_modules(&mut self, file: &str, go: &GoFacts) {
        let main = go
            .module
            .as_deref()
            .map(|path| self.add_module(file, path, go.module_version.as_deref().unwrap_or_default()));
        let toolchain =
            go.version.as_deref().map(|version| self.add_module(file, "stdlib", version.trim_start_matches("go")));
        let modules: Vec<String> =
            go.modules.iter().map(|(path, version)| self.add_replaced(file, path, version)).collect();
        if let Some(main) = main {
            let others = modules.into_iter().chain(toolchain).filter(|id| *id != main);
            self.depends.extend(others.map(|id| (main.clone(), id)));
        }
    }

    /// Of a replaced module, what was built is what it was replaced with: `PATH VERSION`.
    fn add_replaced(&mut self, file: &str, path: &str, version: &str) -> String {
        match version.split_once(' ') {
            Some((by, version)) if !by.starts_with(['.', '/']) => self.add_module(file, by, version),
            Some((_, version)) => self.add_module(file, path, version),
            None => self.add_module(file, path, version),
        }
    }

    fn add_module(&mut self, file: &str, path: &str, version: &str) -> String {
        let (namespace, name) = path.rsplit_once('/').unwrap_or(("", path));
        // A build outside of version control has no version that anybody could look up.
        let known = if version == "(devel)" { "" } else { version };
        let purl = Purl { kind: "golang", namespace, name, version: known, qualifiers: Vec::new() };
        let id = self.add(Component::new(ComponentKind::GoModule, path, known, Some(purl.text())));
        self.contains.insert((file.to_owned(), id.clone()));
        id
    }

    fn add_crates(&mut self, file: &str, crates: &[RustCrate]) {
        let ids: Vec<String> = crates.iter().map(|package| self.add_crate(file, package)).collect();
        for (package, id) in crates.iter().zip(&ids) {
            let needed = package.dependencies.iter().filter_map(|at| ids.get(usize::try_from(*at).ok()?));
            self.depends.extend(needed.filter(|other| *other != id).map(|other| (id.clone(), other.clone())));
        }
    }

    fn add_crate(&mut self, file: &str, package: &RustCrate) -> String {
        let RustCrate { name, version, source, .. } = package;
        let purl = Purl { kind: "cargo", name, version, ..Purl::default() }.text();
        // A crate that is not of crates.io has the name and version of another one there.
        let purl = (source == "crates.io").then_some(purl);
        let id = self.add(Component::new(ComponentKind::Crate, name, version, purl));
        self.contains.insert((file.to_owned(), id.clone()));
        id
    }

    fn finish(self, name: String, digest: Digest, platform: Platform, created: String) -> Sbom {
        let Self { components, contains, depends, files_left_out, .. } = self;
        let places: BTreeMap<&str, usize> = components.keys().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        let both = |(one, other): &(String, String)| Some((*places.get(one.as_str())?, *places.get(other.as_str())?));
        let (contains, depends) =
            (contains.iter().filter_map(both).collect(), depends.iter().filter_map(both).collect());
        let components = components.into_values().collect();
        Sbom { name, digest, platform, created, components, contains, depends, files_left_out }
    }
}

fn has_parts(program: &Program) -> bool {
    !program.crates.is_empty() || program.go.as_ref().is_some_and(|go| go.version.is_some() || !go.modules.is_empty())
}
