//! Programs that an interpreter runs: in which language they are written, for which version of it, and what their native
//! extensions would miss.
//!
//! The rule it owns: what was installed for one version of an interpreter is not seen by another, nor what was installed
//! where another does not look. Directories and names of files say which it was, `pyvenv.cfg` of a virtual environment,
//! and `release` of a JVM; the contents of archives and class files are not read.

use super::chain::{ChainEnd, Executed, Role};
use super::container::DEFAULT_PATH;
use super::start::Start;
use elf::Linkage;
use layer::{Entry, LayerContents, RootPath};
use start::link::{Linked, Linker, LoaderEnvironment, Missing};
use start::rootfs::Root;

/// Extensions that are looked at; the largest images have some thousands.
const MOST_EXTENSIONS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptLanguage {
    Python,
    Node,
    Java,
    Ruby,
}

impl ScriptLanguage {
    /// As people call it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Node => "Node.js",
            Self::Java => "Java",
            Self::Ruby => "Ruby",
        }
    }

    /// The interpreter of a version, as a base would have it: `python3.11`, `node 20`.
    #[must_use]
    pub fn interpreter(self, version: Option<&str>) -> String {
        match (self, version) {
            (Self::Python, version) => format!("python{}", version.unwrap_or("3")),
            (Self::Ruby, version) => format!("ruby{}", version.unwrap_or_default()),
            (Self::Node, Some(version)) => format!("node {version}"),
            (Self::Java, Some(version)) => format!("java {version}"),
            (Self::Node, None) => "node".to_owned(),
            (Self::Java, None) => "java".to_owned(),
        }
    }

    /// The language of an interpreter, by the name of its file.
    fn of(name: &[u8]) -> Option<Self> {
        let is_versioned = |stem: &[u8]| {
            let rest = name.strip_prefix(stem);
            rest.is_some_and(|rest| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
        };
        match name {
            b"node" | b"nodejs" => Some(Self::Node),
            b"java" => Some(Self::Java),
            _ if is_versioned(b"python") => Some(Self::Python),
            _ if is_versioned(b"ruby") => Some(Self::Ruby),
            _ => None,
        }
    }

    /// The variable in which official images have the version.
    const fn variable(self) -> &'static str {
        match self {
            Self::Python => "PYTHON_VERSION",
            Self::Node => "NODE_VERSION",
            Self::Java => "JAVA_VERSION",
            Self::Ruby => "RUBY_VERSION",
        }
    }

    /// The part of a version that decides: `3.11` of `3.11.2`, `17` of `jdk-17.0.9+9`.
    fn significant(self, text: &str) -> Option<String> {
        let text = text.trim_start_matches(|next: char| !next.is_ascii_digit());
        let numbers: Vec<&str> = text.split(|next: char| !next.is_ascii_digit()).take(2).collect();
        match (self, numbers.as_slice()) {
            (_, [] | [""]) => None,
            (Self::Java, ["1", minor]) | (Self::Node | Self::Java, [minor, ..]) => Some((*minor).to_owned()),
            (Self::Python | Self::Ruby, [major, minor]) if !minor.is_empty() => Some(format!("{major}.{minor}")),
            _ => None,
        }
    }
}

/// A program that an interpreter of the source runs.
#[derive(Debug, Clone)]
pub struct Interpreted {
    pub language: ScriptLanguage,
    /// Where the source has the interpreter.
    pub interpreter: RootPath,
    pub version: Option<String>,
    pub now: InterpreterNow,
    /// Where the result has one that the command does not lead to.
    pub elsewhere: Option<RootPath>,
    /// Where something is installed for the source's version, and for no other.
    pub installed: Option<RootPath>,
    /// A directory with packages of the application that the interpreter of the source looks into, and that of the
    /// result does not.
    pub unseen: Option<RootPath>,
    /// Native extensions that the interpreter could load before, with what they would miss now.
    pub extensions: Vec<StuckExtension>,
}

/// The interpreter of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterpreterNow {
    /// The result has none.
    Gone,
    There {
        path: RootPath,
        version: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckExtension {
    pub path: RootPath,
    pub missing: Missing,
    /// Where the source has the library that is missing.
    pub library: Option<RootPath>,
}

/// The start on one side of the move, and its root.
type Side<'a, 'r> = (&'a Start, &'r Root<'r>);

/// Looks whether an interpreter runs the program of the source, and what becomes of it. `own` are the layers above the
/// new base.
pub(super) fn look<'r>(
    (before, source): Side<'_, 'r>,
    (after, rebased): Side<'_, 'r>,
    own: &[LayerContents<'_>],
    environment: &LoaderEnvironment,
) -> Option<Interpreted> {
    let (language, interpreter) = interpreter_of(before)?;
    let version = version(language, &interpreter.path, before, source);
    let there = interpreter_of(after).filter(|(now, _)| *now == language);
    let is_lost = matches!(after.end, ChainEnd::Lost { .. } | ChainEnd::NoInterpreter { .. });
    let now = match there {
        Some((_, now)) => {
            // A copy of the interpreter in a virtual environment comes along with it.
            let copy = || Venv::of(now, rebased).filter(|venv| now.path.is_within(&venv.directory))?.version;
            let version = self::version(language, &now.path, after, rebased).or_else(copy);
            InterpreterNow::There { path: now.path.clone(), version }
        }
        None if is_lost => on_path(interpreter, language, after, rebased).unwrap_or(InterpreterNow::Gone),
        None => return None,
    };
    let venv = Venv::of(interpreter, source).filter(|_| language == ScriptLanguage::Python);
    let version = version.or_else(|| venv.as_ref().and_then(|venv| venv.version.clone()));
    // A copy of the interpreter in a virtual environment has no standard library there.
    let copy = venv.as_ref().filter(|venv| interpreter.path.is_within(&venv.directory));
    let is_whole = copy.is_none_or(|venv| venv.has_library(rebased) || !venv.has_library(source));
    let now = if is_whole { now } else { InterpreterNow::Gone };
    let installed = version.as_deref().and_then(|version| installed_for(language, version, own));
    let elsewhere =
        if now == InterpreterNow::Gone { elsewhere(language, version.as_deref(), after, rebased) } else { None };
    let sites = |start: &Start, at: &RootPath| sites(version.as_deref().unwrap_or_default(), at, venv.as_ref(), start);
    let unseen = match &now {
        InterpreterNow::There { path, version: now } if language == ScriptLanguage::Python && *now == version => {
            let seen = sites(after, path);
            let before = sites(before, &interpreter.path).into_iter().filter(|site| !seen.contains(site));
            before.into_iter().find(|site| has_packages(site, rebased, own))
        }
        _ => None,
    };
    let installed = installed.or_else(|| venv.map(|venv| venv.file));
    let mut found = Interpreted {
        language,
        interpreter: interpreter.path.clone(),
        version,
        now,
        elsewhere,
        installed,
        unseen,
        extensions: Vec::new(),
    };
    found.extensions = found.stuck_extensions(source, rebased, own, environment);
    Some(found)
}

/// A virtual environment of Python, by its `pyvenv.cfg`.
struct Venv {
    file: RootPath,
    directory: RootPath,
    /// Where the interpreter is that it was made with.
    home: RootPath,
    version: Option<String>,
}

impl Venv {
    /// The one that an interpreter is called in: `/venv` for `/venv/bin/python`.
    fn of(interpreter: &Executed, source: &Root<'_>) -> Option<Self> {
        let directory = RootPath::new(&interpreter.written).ok()?.parent()?.parent()?;
        let found = source.resolve(&directory.join("pyvenv.cfg").ok()?).ok()?;
        let text = std::str::from_utf8(source.content(found.node)?).ok()?;
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let version = value("version").or_else(|| value("version_info"));
        let version = version.and_then(|text| ScriptLanguage::Python.significant(&text));
        Some(Self { file: found.path, directory, home: RootPath::new(value("home")?).ok()?, version })
    }

    /// Whether a root has the standard library, which a virtual environment has none of.
    fn has_library(&self, root: &Root<'_>) -> bool {
        let prefix = root.resolve(&self.home).ok().and_then(|home| home.path.parent());
        let names = self.version.as_ref().map(|version| format!("lib/python{version}/os.py"));
        let path = prefix.zip(names).and_then(|(prefix, name)| prefix.join(name).ok());
        path.is_some_and(|path| root.resolve(&path).is_ok())
    }
}

/// The directories in which Python looks for installed packages. Debian's has others than the one that Python's own
/// images have.
fn sites(version: &str, interpreter: &RootPath, venv: Option<&Venv>, start: &Start) -> Vec<RootPath> {
    let prefix = interpreter.parent().and_then(|directory| directory.parent()).unwrap_or_default();
    let own = venv.map_or(&prefix, |venv| &venv.directory);
    let mut sites = vec![own.join(format!("lib/python{version}/site-packages")).unwrap_or_default()];
    if prefix.to_string() == "/usr" && venv.is_none() {
        let debian =
            [format!("usr/local/lib/python{version}/dist-packages"), "usr/lib/python3/dist-packages".to_owned()];
        sites.extend(debian.iter().filter_map(|path| RootPath::new(path).ok()));
    }
    let named = start.variable("PYTHONPATH").unwrap_or_default().split(':').filter(|path| path.starts_with('/'));
    sites.extend(named.filter_map(|path| RootPath::new(path).ok()));
    sites
}

/// Whether the application has modules in a directory; what every installation has there does not count.
fn has_packages(site: &RootPath, rebased: &Root<'_>, own: &[LayerContents<'_>]) -> bool {
    const USUAL: [&[u8]; 5] = [b"pip", b"setuptools", b"wheel", b"pkg_resources", b"_distutils_hack"];
    let is_usual = |name: &[u8]| {
        let stem = name.split(|byte| matches!(byte, b'-' | b'.')).next().unwrap_or_default();
        USUAL.contains(&stem) || name == b"README.txt" || name == b"__pycache__" || name == b"distutils-precedence.pth"
    };
    let top = site.components().count();
    let mut inside = own.iter().flat_map(|layer| layer.entries).filter(|entry| entry.path.is_within(site));
    inside.any(|entry| {
        let name = entry.path.components().nth(top).unwrap_or_default();
        !name.is_empty() && !is_usual(name) && super::program::is_seen(rebased, entry)
    })
}

/// An interpreter that the result has where people look for one.
fn elsewhere(language: ScriptLanguage, version: Option<&str>, after: &Start, rebased: &Root<'_>) -> Option<RootPath> {
    let names = match language {
        ScriptLanguage::Python => vec![format!("python{}", version.unwrap_or("3")), "python3".to_owned()],
        ScriptLanguage::Ruby => vec!["ruby".to_owned()],
        ScriptLanguage::Node => vec!["node".to_owned(), "nodejs".to_owned()],
        ScriptLanguage::Java => vec!["java".to_owned()],
    };
    let found = |name: &String| rebased.search(name, DEFAULT_PATH, &RootPath::root()).ok();
    let path = names.iter().find_map(found).map(|found| found.file.path)?;
    let is_same =
        version.is_none_or(|wanted| self::version(language, &path, after, rebased).as_deref() == Some(wanted));
    is_same.then_some(path)
}

/// The first program of the chain that is an interpreter of a language.
fn interpreter_of(start: &Start) -> Option<(ScriptLanguage, &Executed)> {
    let started = start.chain.iter().filter(|executed| !matches!(executed.role, Role::Called | Role::Script));
    let mut named = started.filter_map(|executed| {
        let word = executed.word.rsplit('/').next().unwrap_or_default();
        let language =
            executed.path.name().and_then(ScriptLanguage::of).or_else(|| ScriptLanguage::of(word.as_bytes()))?;
        Some((language, executed))
    });
    named.next()
}

/// The word of the command that the interpreter reads: its `#!` line is not looked at.
pub(super) fn script_word(start: &Start) -> Option<&str> {
    let (_, interpreter) = interpreter_of(start)?;
    let at = start.argv.iter().position(|word| *word == interpreter.word)?;
    start.argv.iter().skip(at + 1).map(String::as_str).find(|word| !word.starts_with('-'))
}

/// The interpreter by name, where something before it keeps the chain from reaching it: `/usr/bin/env`.
fn on_path(before: &Executed, language: ScriptLanguage, after: &Start, rebased: &Root<'_>) -> Option<InterpreterNow> {
    let ChainEnd::NoInterpreter { interpreter, .. } = &after.end else { return None };
    if !interpreter.ends_with("/env") {
        return None;
    }
    let paths = after.variable("PATH").unwrap_or_default();
    let found = rebased.search(&before.word, paths, &RootPath::root()).ok()?;
    let version = version(language, &found.file.path, after, rebased);
    Some(InterpreterNow::There { path: found.file.path, version })
}

/// By the name of its file, by the library beside it, by the directory that it is in, or by what the image says.
fn version(language: ScriptLanguage, interpreter: &RootPath, start: &Start, root: &Root<'_>) -> Option<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let by_name = interpreter.name().and_then(|name| language.significant(&text(name)));
    let of_directory = || {
        let mut names = interpreter.components().rev().skip(1).map(text);
        let is_java = |name: &String| ["java-", "jdk", "jre", "temurin-"].iter().any(|stem| name.starts_with(stem));
        names
            .find(|name| language == ScriptLanguage::Java && is_java(name))
            .and_then(|name| language.significant(&name))
    };
    let by_release = || {
        let release = interpreter.parent()?.parent()?.join("release").ok()?;
        let found = root.resolve(&release).ok().filter(|_| language == ScriptLanguage::Java)?;
        let text = std::str::from_utf8(root.content(found.node)?).ok()?;
        text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=")).and_then(|text| language.significant(text))
    };
    let by_variable = || start.variable(language.variable()).and_then(|value| language.significant(value));
    let by_file = by_name.or_else(by_release).or_else(|| beside(language, interpreter, root));
    by_file.or_else(of_directory).or_else(by_variable)
}

/// The version of the only standard library beside the interpreter: `/usr/lib/python3.11` for `/usr/bin/python3`.
fn beside(language: ScriptLanguage, interpreter: &RootPath, root: &Root<'_>) -> Option<String> {
    let (below, stem) = match language {
        ScriptLanguage::Python => ("lib", "python"),
        ScriptLanguage::Ruby => ("lib/ruby", ""),
        ScriptLanguage::Node | ScriptLanguage::Java => return None,
    };
    let directory = interpreter.parent()?.parent()?.join(below).ok()?;
    let names = root.directory(&directory).filter(|(_, node)| node.is_directory());
    let names = names.filter_map(|(name, _)| std::str::from_utf8(name).ok()?.strip_prefix(stem));
    let mut versions: Vec<String> =
        names.filter(|rest| rest.contains('.')).filter_map(|rest| language.significant(rest)).collect();
    versions.dedup();
    match versions.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// Where the application has something that only this version of the interpreter finds or loads.
fn installed_for(language: ScriptLanguage, version: &str, own: &[LayerContents<'_>]) -> Option<RootPath> {
    let marks = match language {
        ScriptLanguage::Python => {
            let tag = version.replace('.', "");
            vec![
                format!("/lib/python{version}/site-packages/"),
                format!("/lib/python{version}/dist-packages/"),
                format!(".cpython-{tag}-"),
            ]
        }
        ScriptLanguage::Ruby => vec![format!("/ruby/{version}.0/"), format!("/gems/{version}.0/")],
        ScriptLanguage::Node => vec![".node".to_owned()],
        ScriptLanguage::Java => return None,
    };
    let is_marked = |entry: &&Entry| {
        let path = [b"/", entry.path.as_bytes()].concat();
        let has = |mark: &String| match language {
            ScriptLanguage::Node => path.ends_with(mark.as_bytes()),
            _ => contains(&path, mark.as_bytes()),
        };
        !entry.kind.is_marker() && marks.iter().any(has)
    };
    own.iter().flat_map(|layer| layer.entries).find(is_marked).map(|entry| entry.path.clone())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl Interpreted {
    /// Whether what the application brings cannot be used with the interpreter of the result.
    #[must_use]
    pub fn is_for_another_version(&self) -> bool {
        let InterpreterNow::There { version: now, .. } = &self.now else { return false };
        match self.language {
            // Classes run on every later version.
            ScriptLanguage::Java => {
                let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u32>().ok());
                number(&self.version).zip(number(now)).is_some_and(|(before, now)| now < before)
            }
            _ => self.installed.is_some() && *now != self.version,
        }
    }

    /// Native extensions that could be loaded before, and cannot now.
    fn stuck_extensions<'r>(
        &self,
        source: &'r Root<'r>,
        rebased: &'r Root<'r>,
        own: &[LayerContents<'_>],
        environment: &LoaderEnvironment,
    ) -> Vec<StuckExtension> {
        let InterpreterNow::There { path: interpreter, .. } = &self.now else { return Vec::new() };
        let (mut before, mut after) = (Linker::new(source), Linker::new(rebased));
        let mut stuck = Vec::new();
        for path in extensions(self.language, rebased, own).into_iter().take(MOST_EXTENSIONS) {
            let written = path.to_string();
            let Some(missing) = after.closure_with(interpreter, &[&written], environment).missing else { continue };
            let was = before.closure_with(&self.interpreter, &[&written], environment);
            if was.missing.is_none() {
                let library = library(&was, &missing);
                stuck.push(StuckExtension { path, missing, library });
            }
        }
        stuck
    }
}

fn library(was: &Linked, missing: &Missing) -> Option<RootPath> {
    let Missing::Library { name, .. } = missing else { return None };
    let found = was.files.iter().find(|file| file.name == *name)?;
    RootPath::new(&found.written).ok()
}

/// The libraries of the application that an interpreter loads, and that the result still has; sorted by path.
fn extensions(language: ScriptLanguage, rebased: &Root<'_>, own: &[LayerContents<'_>]) -> Vec<RootPath> {
    let is_extension = |path: &RootPath| {
        let path = path.as_bytes();
        match language {
            ScriptLanguage::Python => {
                path.ends_with(b".so")
                    && (contains(path, b"-packages/") || contains(path, b".cpython-") || contains(path, b".abi3."))
            }
            ScriptLanguage::Node => path.ends_with(b".node"),
            ScriptLanguage::Ruby => path.ends_with(b".so") && (contains(path, b"/gems/") || contains(path, b"/ruby/")),
            // Loaded by name: libraries of JNI have no place of their own.
            ScriptLanguage::Java => path.ends_with(b".so"),
        }
    };
    let libraries = own.iter().flat_map(|layer| {
        let found = layer.programs.iter().filter(|found| found.program.linkage == Linkage::SharedObject);
        found.filter_map(|found| layer.entries.get(found.entry))
    });
    let seen = libraries.filter(|entry| is_extension(&entry.path) && super::program::is_seen(rebased, entry));
    let mut paths: Vec<RootPath> = seen.map(|entry| entry.path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_known_by_its_name() {
        for (name, language) in [
            ("python", Some(ScriptLanguage::Python)),
            ("python3.11", Some(ScriptLanguage::Python)),
            ("python3-config", None),
            ("node", Some(ScriptLanguage::Node)),
            ("nodejs", Some(ScriptLanguage::Node)),
            ("node_exporter", None),
            ("java", Some(ScriptLanguage::Java)),
            ("javac", None),
            ("ruby3.1", Some(ScriptLanguage::Ruby)),
            ("rubyfmt", None),
            ("", None),
        ] {
            assert_eq!(ScriptLanguage::of(name.as_bytes()), language, "{name}");
        }
    }

    #[test]
    fn of_a_version_the_part_counts_that_decides() {
        for (language, text, part) in [
            (ScriptLanguage::Python, "python3.11", Some("3.11")),
            (ScriptLanguage::Python, "3.11.2", Some("3.11")),
            (ScriptLanguage::Python, "python3", None),
            (ScriptLanguage::Python, "python", None),
            (ScriptLanguage::Node, "20.11.0", Some("20")),
            (ScriptLanguage::Java, "jdk-17.0.9+9", Some("17")),
            (ScriptLanguage::Java, "1.8.0_392", Some("8")),
            (ScriptLanguage::Java, "java-21-openjdk-amd64", Some("21")),
            (ScriptLanguage::Java, "java", None),
            (ScriptLanguage::Ruby, "3.1.0", Some("3.1")),
            (ScriptLanguage::Ruby, "ruby", None),
        ] {
            assert_eq!(language.significant(text).as_deref(), part, "{text}");
        }
        assert_eq!(ScriptLanguage::Python.interpreter(Some("3.11")), "python3.11");
        assert_eq!(ScriptLanguage::Node.interpreter(None), "node");
    }
}
