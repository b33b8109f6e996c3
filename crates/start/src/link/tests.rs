//! The rules of both loaders on small roots. What real files show, `tests/link` compares.

use super::testing::{defining, glibc, library, linked, loader, needing, using};
use super::{Linker, LoaderEnvironment};
use crate::rootfs::{Credentials, merge};
use elf::{AbiNote, BoundWhen, LinkFlags, Linkage, LoaderKind, Program};
use layer::{Captured, Entry, EntryKind, IndexedProgram, LayerIndex, RootPath};
use oci::{Compression, DiffId, Digest};

#[derive(Default)]
struct TestRoot {
    entries: Vec<Entry>,
    captured: Vec<Captured>,
    programs: Vec<IndexedProgram>,
}

impl TestRoot {
    /// With `/app` and a loader of glibc.
    fn new(app: Program) -> Self {
        Self::default().file("app", app).file("lib/ld.so", glibc())
    }

    fn entry(mut self, path: &str, kind: EntryKind, mode: u32) -> Self {
        let path = RootPath::new(path).unwrap();
        let (xattrs, offset, sparse) = (Vec::new(), 0, false);
        self.entries.push(Entry { path, kind, mode, uid: 0, gid: 0, mtime: 0, xattrs, offset, sparse });
        self
    }

    fn file(mut self, path: &str, program: Program) -> Self {
        self.programs.push(IndexedProgram { entry: self.entries.len(), program });
        self.entry(path, EntryKind::File { size: 1 }, 0o755)
    }

    fn text(mut self, path: &str, text: &[u8]) -> Self {
        self.captured.push(Captured { entry: self.entries.len(), content: text.to_vec() });
        self.entry(path, EntryKind::File { size: 1 }, 0o644)
    }

    fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, EntryKind::Symlink(target.as_bytes().to_vec()), 0o777)
    }

    fn mode(mut self, mode: u32) -> Self {
        self.entries.last_mut().unwrap().mode = mode;
        self
    }

    fn index(self) -> LayerIndex {
        let digest = Digest::of(b"");
        let Self { entries, captured, programs } = self;
        let (compression, diff_id) = (Compression::None, DiffId(digest));
        LayerIndex {
            digest,
            size: 0,
            diff_id,
            unpacked: 0,
            compression,
            entries,
            captured,
            programs,
            digests: None,
            notes: Vec::new(),
        }
    }

    /// What `/app` is loaded with, or what is missing.
    fn linked_with(self, environment: &LoaderEnvironment) -> String {
        let layers = [self.index()];
        let root = merge(&layers);
        let linked = Linker::new(&root).closure(&RootPath::new("app").unwrap(), environment);
        match linked.missing {
            Some(missing) => missing.to_string(),
            None => linked.files.iter().map(|file| file.written.clone()).collect::<Vec<_>>().join(" "),
        }
    }

    fn linked(self) -> String {
        self.linked_with(&LoaderEnvironment::default())
    }
}

fn with_facts(program: Program, change: impl FnOnce(&mut elf::DynamicFacts)) -> Program {
    let mut program = program;
    let mut facts = program.dynamic.as_deref().cloned().unwrap();
    change(&mut facts);
    program.dynamic = Some(facts.into());
    program
}

fn a() -> Program {
    library("liba.so", &[])
}

#[test]
fn the_interpreter_must_be_a_loader_of_the_same_machine_that_the_user_may_execute() {
    let other = Program { machine: Some("arm64".to_owned()), ..glibc() };
    let app = || TestRoot::default().file("app", needing(&[]));
    for (root, expected) in [
        (app(), "its interpreter /lib/ld.so is not in the image (needed by /app)"),
        (app().file("lib/ld.so", other), "/lib/ld.so in the image is for another machine (needed by /app)"),
        (app().file("lib/ld.so", a()), "/lib/ld.so in the image is neither glibc's loader nor musl's (needed by /app)"),
        (app().text("lib/ld.so", b"x"), "/lib/ld.so in the image may not be executed by the user (needed by /app)"),
        (app().text("lib/ld.so", b"x").mode(0o755), "/lib/ld.so in the image is not a program (needed by /app)"),
        (app().file("lib/ld.so", glibc()), "/lib/ld.so"),
        (app().link("lib/ld.so", "other").file("lib/other", glibc()), "/lib/ld.so"),
    ] {
        assert_eq!(root.linked(), expected);
    }
}

#[test]
fn libraries_are_searched_in_the_order_of_glibc() {
    let everywhere = || {
        let root = TestRoot::default().file("lib/ld.so", glibc());
        let places = ["rpath", "path", "runpath", "lib", "usr/lib"];
        places.iter().fold(root, |root, place| root.file(&format!("{place}/liba.so"), a()))
    };
    let app = |rpath: Option<&str>, runpath: Option<&str>| {
        with_facts(needing(&["liba.so"]), |facts| {
            (facts.rpath, facts.runpath) = (rpath.map(str::to_owned), runpath.map(str::to_owned));
        })
    };
    let variable = LoaderEnvironment { library_path: Some("/none:/path".to_owned()), ..LoaderEnvironment::default() };
    let plain = LoaderEnvironment::default();
    for (app, environment, expected) in [
        (app(Some("/none:/rpath"), None), &variable, "/rpath/liba.so"),
        (app(Some("/rpath"), Some("/runpath")), &variable, "/path/liba.so"),
        (app(Some("/rpath"), Some("/runpath")), &plain, "/runpath/liba.so"),
        (app(None, None), &variable, "/path/liba.so"),
        (app(None, None), &plain, "/lib/liba.so"),
        (app(Some("$ORIGIN/rpath"), None), &plain, "//rpath/liba.so"),
        (app(Some("${ORIGIN}usr/$LIB"), None), &plain, "/usr/lib/liba.so"),
        (app(Some("/$LIBX:/rpath"), None), &plain, "/rpath/liba.so"),
        (app(Some("/$PLATFORM"), None), &plain, "/app searches a directory that depends on the processor ($PLATFORM)"),
    ] {
        let linked = everywhere().file("app", app).linked_with(environment);
        assert_eq!(linked.strip_prefix("/lib/ld.so ").unwrap_or(&linked), expected);
    }
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let b = || library("libb.so", &[]);
    let of = |rpath: bool| {
        let app = with_facts(needing(&["liba.so"]), |facts| {
            let path = Some("/own".to_owned());
            if rpath { facts.rpath = path } else { facts.runpath = path }
        });
        TestRoot::new(app).file("own/liba.so", library("liba.so", &["libb.so"])).file("own/libb.so", b()).linked()
    };
    assert_eq!(of(true), "/lib/ld.so /own/liba.so /own/libb.so");
    assert_eq!(of(false), "libb.so is not in the image (needed by /own/liba.so)");
}

#[test]
fn a_file_is_loaded_once_whatever_it_is_called() {
    let app = || needing(&["liba.so", "liba-1.so", "/lib/liba.so", "ld.so"]);
    let root = TestRoot::new(app()).file("lib/liba.so", a()).link("lib/liba-1.so", "liba.so");
    assert_eq!(root.linked(), "/lib/ld.so /lib/liba.so");
    let loader = TestRoot::new(needing(&["/usr/lib/ld.so"])).link("usr/lib", "../lib").linked();
    assert_eq!(loader, "/usr/lib/ld.so in the image is a loader, which is not loaded by another name (needed by /app)");
    let by_soname = TestRoot::new(needing(&["/opt/x.so", "liba.so"])).file("opt/x.so", a());
    assert_eq!(by_soname.linked(), "/lib/ld.so /opt/x.so");
}

#[test]
fn a_file_in_the_way_stops_the_loader_and_one_of_another_machine_does_not() {
    let other = || Program { machine: Some("arm64".to_owned()), ..a() };
    let foreign = || with_facts(a(), |facts| facts.abi = Some(AbiNote { system: 3, kernel: [0; 3] }));
    let pie = || with_facts(a(), |facts| facts.flags = LinkFlags::PIE);
    let app = || TestRoot::new(needing(&["liba.so"]));
    let here = "/lib/ld.so /usr/lib/liba.so";
    for (first, expected) in [
        (app().file("lib/liba.so", other()), here),
        (app().file("lib/liba.so", foreign()), here),
        (app().link("lib/liba.so", "gone"), here),
        (app().text("lib/liba.so", b"text"), "/lib/liba.so in the image is not a library (needed by /app)"),
        (app().file("lib/liba.so/x", a()), "/lib/liba.so in the image is not a library (needed by /app)"),
        (
            app().file("lib/liba.so", pie()),
            "/lib/liba.so in the image is a program, which cannot be loaded (needed by /app)",
        ),
    ] {
        assert_eq!(first.file("usr/lib/liba.so", a()).linked(), expected);
    }
    let user =
        LoaderEnvironment { who: Credentials { uid: 7, gid: 7, groups: Vec::new() }, ..LoaderEnvironment::default() };
    let closed = app().file("lib/liba.so", a()).mode(0o700).file("usr/lib/liba.so", a());
    assert_eq!(closed.linked_with(&user), here);
}

#[test]
fn a_program_with_more_rights_than_its_user_ignores_variables() {
    let user = LoaderEnvironment {
        library_path: Some("/own".to_owned()),
        who: Credentials { uid: 7, gid: 7, groups: Vec::new() },
        ..LoaderEnvironment::default()
    };
    for (mode, expected) in [(0o755, "/own"), (0o4755, "/lib"), (0o2755, "/lib")] {
        let root = TestRoot::default().file("app", needing(&["liba.so"])).mode(mode);
        let root = root.file("lib/ld.so", glibc()).file("own/liba.so", a()).file("lib/liba.so", a());
        assert_eq!(root.linked_with(&user), format!("/lib/ld.so {expected}/liba.so"), "{mode:o}");
    }
}

#[test]
fn no_default_directories_means_none_of_them() {
    let app = with_facts(needing(&["liba.so"]), |facts| facts.flags = LinkFlags::NO_DEFAULT_DIRECTORIES);
    let root = TestRoot::new(app).file("lib/liba.so", a());
    assert_eq!(root.linked(), "liba.so is not in the image (needed by /app)");
}

#[test]
fn a_preloaded_library_counts_and_one_that_is_not_there_does_not() {
    let environment =
        |preload: &str| LoaderEnvironment { preload: Some(preload.to_owned()), ..LoaderEnvironment::default() };
    let root = || TestRoot::new(using(needing(&[]), &["f"])).file("own/p.so", defining(library("p", &[]), &["f"]));
    assert_eq!(root().linked_with(&environment("gone.so:/own/p.so")), "/lib/ld.so /own/p.so");
    assert_eq!(root().linked_with(&environment("gone.so")), "no library in the image defines f (needed by /app)");
    assert_eq!(root().text("etc/ld.so.preload", b"# x\n/own/p.so\n").linked(), "/lib/ld.so /own/p.so");
}

#[test]
fn what_depends_on_the_processor_must_hold_for_all() {
    let app = || Program { machine: Some("amd64".to_owned()), ..needing(&["liba.so"]) };
    let of = |program: Program| Program { machine: Some("amd64".to_owned()), ..program };
    let root = || TestRoot::default().file("app", app()).file("lib/ld.so", of(glibc())).file("lib/liba.so", of(a()));
    let v3 = "lib/glibc-hwcaps/x86-64-v3/liba.so";
    assert_eq!(root().file(v3, of(a())).linked(), format!("/lib/ld.so /lib/liba.so /{v3}"));
    let broken = of(library("liba.so", &["libgone.so"]));
    assert_eq!(root().file(v3, broken).linked(), format!("libgone.so is not in the image (needed by /{v3})"));
    let unknown = of(library("liba.so", &["libgone.so"]));
    assert_eq!(root().file("lib/glibc-hwcaps/other/liba.so", unknown).linked(), "/lib/ld.so /lib/liba.so");
    let old = root().file("lib/tls/haswell/liba.so", of(a()));
    assert_eq!(old.linked(), "/lib/tls/haswell/liba.so is loaded by some processors and not by others");
}

#[test]
fn versions_and_symbols_are_matched_as_glibc_does() {
    let b = |symbols: &[&str]| defining(library("liba.so", &[]), symbols);
    let version = "liba.so in the image does not have version V1 (needed by /app)";
    let symbol = "no library in the image defines f@V1 (needed by /app)";
    for (uses, defines, expected) in [
        ("f@V1:liba.so", &["f@@V1"][..], ""),
        ("f@V1:liba.so", &["f@V1", "f@@V2"], ""),
        ("f@V1:liba.so", &["f@@V2"], version),
        ("f@V1:liba.so", &["g@@V1"], symbol),
        ("f@V1:liba.so", &["f@@V2", "g@@V1"], symbol),
        ("f@V1:liba.so", &["f", "g@@V1"], ""),
        ("f@V1:liba.so", &["f"], symbol),
        ("f", &["f"], ""),
        ("f", &["f@@V1"], ""),
        ("f", &["g@@V1", "f@@V2"], ""),
        ("f", &["g@@V1", "f@V2"], "no library in the image defines f (needed by /app)"),
        ("f", &["f@V1", "g@@V2"], ""),
        ("f", &["g"], "no library in the image defines f (needed by /app)"),
    ] {
        let root = TestRoot::new(using(needing(&["liba.so"]), &[uses])).file("lib/liba.so", b(defines));
        let linked = root.linked();
        let expected = if expected.is_empty() { "/lib/ld.so /lib/liba.so" } else { expected };
        assert_eq!(linked, expected, "{uses} {defines:?}");
    }
}

#[test]
fn what_is_copied_must_be_elsewhere_and_what_is_called_may_be_missing_until_then() {
    let app = |is_copied: bool| {
        let app = defining(using(needing(&["liba.so"]), &["f"]), &["f"]);
        with_facts(app, |facts| facts.uses[0].is_copied = is_copied)
    };
    let root = |app: Program, symbols: &[&str]| TestRoot::new(app).file("lib/liba.so", defining(a(), symbols));
    let missing = "no library in the image defines f (needed by /app)";
    assert_eq!(root(app(true), &[]).linked(), missing);
    assert_eq!(root(app(true), &["f"]).linked(), "/lib/ld.so /lib/liba.so");
    assert_eq!(root(app(false), &[]).linked(), "/lib/ld.so /lib/liba.so");
    for (flags, binds_now, at_start) in
        [(LinkFlags::default(), false, false), (LinkFlags::BIND_NOW, false, true), (LinkFlags::default(), true, true)]
    {
        let app = with_facts(using(needing(&[]), &["f"]), |facts| {
            facts.uses[0].bound = BoundWhen::Called;
            facts.flags = flags;
        });
        let layers = [TestRoot::new(app).index()];
        let root = merge(&layers);
        let environment = LoaderEnvironment { binds_now, ..LoaderEnvironment::default() };
        let missing = Linker::new(&root).closure(&RootPath::new("app").unwrap(), &environment).missing.unwrap();
        assert_eq!(missing.is_at_start(), at_start);
    }
}

#[test]
fn what_was_not_read_is_not_proven() {
    let incomplete = || with_facts(a(), |facts| facts.complete = false);
    let filter = || with_facts(a(), |facts| facts.flags = LinkFlags::FILTER);
    let packed = || with_facts(a(), |facts| facts.flags = LinkFlags::PACKED_RELATIVE);
    let release = || with_facts(a(), |facts| facts.glibc_release = Some("(GNU libc) release version 2.1".to_owned()));
    let app = || TestRoot::new(needing(&["liba.so"]));
    for (library, expected) in [
        (incomplete(), "/lib/liba.so has symbols that could not be read"),
        (filter(), "/lib/liba.so stands in for other libraries (DT_FILTER), which is not followed"),
        (packed(), "/lib/liba.so has packed relocations (DT_RELR), which the loader may not know"),
        (release(), "/lib/ld.so /lib/liba.so"),
    ] {
        assert_eq!(app().file("lib/liba.so", library).linked(), expected);
    }
    let other = with_facts(glibc(), |facts| facts.glibc_release = Some("(GNU libc) release version 2.2".to_owned()));
    let root = TestRoot::default().file("app", needing(&["liba.so"])).file("lib/ld.so", other);
    let linked = root.file("lib/liba.so", release()).linked();
    assert_eq!(linked, "/lib/liba.so is not of the same build of glibc as the loader /lib/ld.so");
    let libc =
        |soname: &str| TestRoot::new(needing(&["libc.so.6"])).file("lib/libc.so.6", library(soname, &[])).linked();
    assert_eq!(libc("libc.so.6"), "/lib/ld.so /lib/libc.so.6");
    assert_eq!(libc("libc.so"), "/lib/libc.so.6 is not libc.so.6, although it is called so");
    let app = linked_without_tables();
    assert_eq!(TestRoot::new(app).linked(), "/app has no dynamic section that could be read");
    let cache = TestRoot::new(needing(&["liba.so"])).file("lib/liba.so", a());
    let unread = cache.entry("etc/ld.so.cache", EntryKind::File { size: 9 }, 0o644);
    assert_eq!(unread.linked(), "/etc/ld.so.cache could not be read");
}

fn linked_without_tables() -> Program {
    Program { dynamic: None, ..linked(Linkage::Dynamic, |_, _| {}) }
}

#[test]
fn musl_has_its_own_order_names_and_no_versions() {
    let musl = || loader(LoaderKind::Musl("x86_64".to_owned()), &["/lib", "/usr/local/lib", "/usr/lib"]);
    let app = |app: Program| TestRoot::default().file("app", app).file("lib/ld.so", defining(musl(), &["f"]));
    let with = |runpath: &str| with_facts(needing(&["liba.so"]), |facts| facts.runpath = Some(runpath.to_owned()));
    let b = || library("libb.so", &[]);
    let root = app(with("$ORIGIN/own")).file("own/liba.so", library("", &["libb.so"])).file("own/libb.so", b());
    assert_eq!(root.linked(), "/lib/ld.so //own/liba.so //own/libb.so", "RUNPATH is inherited");
    let root = app(needing(&["libc.so", "libm.so.6", "libpthread.so.0"]));
    assert_eq!(root.linked(), "/lib/ld.so", "its own names");
    assert_eq!(app(using(needing(&["libc.so"]), &["f@GLIBC_2.2.5:libc.so.6"])).linked(), "/lib/ld.so");
    let path = app(needing(&["liba.so"])).file("own/liba.so", a()).text("etc/ld-musl-x86_64.path", b"/none\n/own\n");
    assert_eq!(path.linked(), "/lib/ld.so /own/liba.so");
    let unsearched = app(needing(&["liba.so"])).file("own/liba.so", a());
    assert_eq!(unsearched.linked(), "liba.so is not in the image (needed by /app)");
    let other = Program { machine: Some("arm64".to_owned()), ..a() };
    let blocked = app(needing(&["liba.so"])).file("lib/liba.so", other).file("usr/lib/liba.so", a());
    assert_eq!(blocked.linked(), "/lib/liba.so in the image is for another machine (needed by /app)");
    let missing = app(using(needing(&["libc.so"]), &["g"])).linked();
    assert_eq!(missing, "no library in the image defines g (needed by /app)");
}

#[test]
fn a_library_that_is_opened_later_must_fit_too() {
    let plugin = || using(library("libp.so", &["liba.so"]), &["f"]);
    for (symbols, expected) in
        [(&["f"][..], None), (&[], Some("no library in the image defines f (needed by /lib/libp.so)"))]
    {
        let root =
            TestRoot::new(needing(&[])).file("lib/libp.so", plugin()).file("lib/liba.so", defining(a(), symbols));
        let layers = [root.index()];
        let root = merge(&layers);
        let app = RootPath::new("app").unwrap();
        let linked = Linker::new(&root).closure_with(&app, &["libp.so"], &LoaderEnvironment::default());
        assert_eq!(linked.missing.map(|missing| missing.to_string()).as_deref(), expected);
    }
}

#[test]
fn hostile_files_end_in_an_answer() {
    let many = (0..100_000).map(|number| format!("/d{number}")).collect::<Vec<_>>().join(":");
    let names: Vec<String> = (0..256).map(|number| format!("lib{number}.so")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let app = with_facts(needing(&names), |facts| facts.rpath = Some(many));
    assert_eq!(TestRoot::new(app).linked(), "lib0.so is not in the image (needed by /app)");
    let chain = (0..5000).fold(TestRoot::new(needing(&["lib0.so"])), |root, number| {
        root.file(&format!("lib/lib{number}.so"), library("", &[&format!("lib{}.so", number + 1)]))
    });
    assert_eq!(chain.linked(), "/app loads more libraries than any real program");
}
