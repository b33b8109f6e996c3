//! All programs of the packages that are installed on this machine, on roots that were damaged at random.
//!
//! What is refused and loads nevertheless is counted, and must stay rare. The classes that are known:
//!
//! - A loader whose header lies about its class or byte order: the kernel looks at the machine alone. Those two
//!   kinds of damage are therefore not done to loaders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use elf::{Class, Linkage};
use start::link::Linked;

use crate::chroot::{Chroot, Outcome};
use crate::damage::{ALL, Damage, Target, Undo};
use crate::model::{answers, layer, probe};
use crate::skip::or_skip;
use crate::sweep;
use crate::{can_run, model};

/// Where programs and libraries are.
const PLACES: [&str; 5] = ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec", "/usr/lib64"];
/// Programs that are started in each round.
const STARTS: usize = 12;
/// Room for the path of a shared object.
const NAME: usize = 200;

/// Larger files are left out of a usual run: what needs them is then missing them, which is a case, too.
const LARGEST: u64 = 8 << 20;

/// As many as are asked for by hand; then large files come along, too.
fn rounds() -> Option<u64> {
    std::env::var("UNDERPIN_LINK_ROUNDS").ok().map(|rounds| rounds.parse().unwrap())
}

/// A root with the ELF files of this machine and every link, its programs, and its shared objects.
fn whole_root() -> (Chroot, Vec<String>, Vec<String>) {
    let root = Chroot::new();
    let (mut programs, mut objects) = (Vec::new(), Vec::new());
    let largest = if rounds().is_some() { u64::MAX } else { LARGEST };
    for place in PLACES {
        for found in walkdir::WalkDir::new(place).into_iter().filter_map(Result::ok) {
            let path = found.path();
            if path.is_symlink() {
                let leads = path.metadata().is_ok_and(|data| data.is_dir() || is_elf(path));
                if leads && root.at(path.to_str().unwrap()).symlink_metadata().is_err() {
                    root.bring(path);
                }
                continue;
            }
            if !path.is_file() || !is_elf(path) || path.metadata().unwrap().len() > largest {
                continue;
            }
            root.bring(path);
            let Some(program) = probe(path).filter(|program| program.class == Some(Class::Bits64)) else { continue };
            match program.linkage {
                Linkage::Dynamic if !has_capability(path) => programs.push(path.to_str().unwrap().to_owned()),
                Linkage::SharedObject => objects.push(path.to_str().unwrap().to_owned()),
                _ => {}
            }
        }
    }
    std::os::unix::fs::symlink("usr/sbin", root.at("sbin")).unwrap();
    root.write_cache();
    programs.sort();
    objects.sort();
    (root, programs, objects)
}

/// Programs that need nothing but one shared object each, by its path.
fn openers(root: &Chroot, objects: &[String]) -> Vec<String> {
    let stub = format!("/{}", "x".repeat(NAME - 1));
    let compile = |arguments: &[&str]| {
        let made = Command::new("gcc").current_dir(root.at("tmp")).args(arguments).status().unwrap();
        assert!(made.success(), "{arguments:?}");
    };
    std::fs::write(root.at("tmp/stub.c"), "int stub;\n").unwrap();
    std::fs::write(root.at("tmp/main.c"), "int main(void) { return 42; }\n").unwrap();
    compile(&["-shared", "-fPIC", "-o", "stub.so", &format!("-Wl,-soname,{stub}"), "stub.c"]);
    compile(&["-o", "main", "-Wl,--no-as-needed", "main.c", "./stub.so"]);
    let program = std::fs::read(root.at("tmp/main")).unwrap();
    let at = program.windows(NAME).position(|window| window == stub.as_bytes()).unwrap();
    let mut made = Vec::new();
    for (number, object) in objects.iter().enumerate().filter(|(_, object)| object.len() < NAME) {
        let mut program = program.clone();
        program[at..at + NAME].fill(0);
        program[at..at + object.len()].copy_from_slice(object.as_bytes());
        let path = format!("/openers/{number}-{}", object.rsplit('/').next().unwrap());
        std::fs::create_dir_all(root.at("openers")).unwrap();
        std::fs::write(root.at(&path), program).unwrap();
        std::fs::set_permissions(root.at(&path), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        made.push(path);
    }
    made
}

/// The loader takes no library from the environment in front of such a program, so that it would run.
fn has_capability(path: &Path) -> bool {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let (name, none) = (c"security.capability".as_ptr(), std::ptr::null_mut());
    // SAFETY: with no room for it only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), name, none, 0) > 0 }
}

fn is_elf(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    read.is_ok() && head == *b"\x7fELF"
}

/// How many packages these files are of.
fn packages(files: &[String]) -> usize {
    let mut found = BTreeSet::new();
    for files in files.chunks(200) {
        // Where `/usr` was merged late, dpkg knows a file by its old path.
        let old = files.iter().map(|file| file.trim_start_matches("/usr").to_owned());
        let output = Command::new("dpkg").arg("-S").args(files).args(old).output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(lines.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())));
    }
    found.len()
}

/// What was compared.
#[derive(Default, Debug)]
struct Tally {
    starts: usize,
    loaded: usize,
    wrong_accepts: Vec<String>,
    wrong_refusals: Vec<String>,
}

impl Tally {
    fn add(&mut self, what: &str, program: &str, linked: &Linked, outcome: &Outcome) {
        self.starts += 1;
        self.loaded += usize::from(*outcome == Outcome::Loaded);
        match (&linked.missing, outcome) {
            (None, Outcome::Failed(said)) => self.wrong_accepts.push(format!("{what}: {program}: {said}")),
            (Some(missing), Outcome::Loaded) => self.wrong_refusals.push(format!("{what}: {program}: {missing}")),
            _ => {}
        }
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: {} starts, {} loaded, {} wrong accepts, {} wrong refusals",
            self.starts,
            self.loaded,
            self.wrong_accepts.len(),
            self.wrong_refusals.len()
        );
        for line in self.wrong_refusals.iter().take(40) {
            println!("  refused: {line}");
        }
        assert!(self.wrong_accepts.is_empty(), "{}", self.wrong_accepts.join("\n"));
    }
}

fn compare(root: &Chroot, what: &str, programs: &[String], tally: &mut Tally) {
    let layer = layer(root.path());
    for (program, linked) in programs.iter().zip(answers(&layer, programs, &[("LD_BIND_NOW", "1")])) {
        tally.add(what, program, &linked, &root.load(program, &[]));
    }
}

#[test]
fn every_program_of_this_machine_loads_as_link_says_also_on_damaged_roots() {
    or_skip!(can_run(&["gcc", "ldconfig", "dpkg"]));
    let (root, mut programs, objects) = whole_root();
    let packages = packages(&[programs.clone(), objects.clone()].concat());
    assert!(packages >= 200, "{packages} packages");
    let every = if rounds().is_some() { 1 } else { sweep::times(16, 4) };
    let some: Vec<String> = objects.iter().step_by(every).cloned().collect();
    if rounds().is_none() {
        programs = sweep::some(programs, 250);
    }
    programs.extend(openers(&root, &some));
    let mut whole = Tally::default();
    compare(&root, "nothing was done", &programs, &mut whole);
    whole.show(&format!("{} programs and shared objects of {packages} packages", programs.len()));
    assert!(whole.wrong_refusals.len() * 200 <= whole.starts, "{:#?}", whole.wrong_refusals);

    let closures = closures(&root, &programs);
    let rounds = rounds().unwrap_or(sweep::times(12, 60));
    let mut damaged = Tally::default();
    for round in 0..rounds {
        damage_round(&root, round, &closures, &mut damaged);
    }
    damaged.show(&format!("{rounds} damaged roots"));
    assert!(damaged.loaded * 10 >= damaged.starts, "too much was destroyed to show anything: {damaged:?}");
    assert!(damaged.wrong_refusals.len() * 50 <= damaged.starts, "{:#?}", damaged.wrong_refusals);
}

/// The files that each program is loaded with.
fn closures(root: &Chroot, programs: &[String]) -> BTreeMap<String, Vec<(String, String)>> {
    let layer = layer(root.path());
    let answers = answers(&layer, programs, &[]);
    let files = |linked: &Linked| -> Vec<(String, String)> {
        linked.files.iter().map(|file| (file.path.to_string(), file.written.clone())).collect()
    };
    let found = programs.iter().cloned().zip(answers.iter().map(files));
    found.filter(|(_, files)| !files.is_empty()).collect()
}

/// Damages libraries of one program, and starts it and others that are loaded with them.
fn damage_round(root: &Chroot, round: u64, closures: &BTreeMap<String, Vec<(String, String)>>, tally: &mut Tally) {
    let mut random = fastrand::Rng::with_seed(round);
    let names: Vec<&String> = closures.keys().collect();
    let main = names[random.usize(..names.len())];
    let mut undo = Undo::default();
    let mut done = Vec::new();
    let mut touched = BTreeSet::new();
    for _ in 0..random.usize(1..=3) {
        let (file, written) = &closures[main][random.usize(..closures[main].len())];
        if !touched.insert(file.clone()) {
            continue;
        }
        let other = &closures[names[random.usize(..names.len())]];
        let damage = ALL[random.usize(..ALL.len())];
        if file.contains("/ld-") && matches!(damage, Damage::OtherClass | Damage::OtherByteOrder) {
            continue;
        }
        let target = target(root, main, (file, written), &other[random.usize(..other.len())].0, &mut random);
        if (damage == Damage::NoCache && touched.contains("cache"))
            || !target.written.exists()
            || !target.other.is_file()
        {
            continue;
        }
        touched.extend((damage == Damage::NoCache).then(|| "cache".to_owned()));
        damage.apply(&target, &mut undo);
        done.push(format!("{damage:?} {file} ({} {})", target.symbol, target.version));
    }
    let related = |program: &&String| closures[*program].iter().any(|(file, _)| touched.contains(file));
    let mut others: Vec<String> = names.iter().copied().filter(related).cloned().collect();
    random.shuffle(&mut others);
    others.truncate(STARTS);
    others.push(main.clone());
    compare(root, &format!("round {round}: {}", done.join(", ")), &others, tally);
    undo.undo();
}

fn target<'a>(
    root: &'a Chroot,
    program: &str,
    (file, written): (&str, &str),
    other: &str,
    random: &mut fastrand::Rng,
) -> Target<'a> {
    let facts = model::probe(&root.at(program)).unwrap().dynamic.unwrap();
    let used = model::probe(&root.at(file)).and_then(|library| library.dynamic);
    let symbols: Vec<&String> = facts.uses.iter().map(|symbol| &symbol.name).collect();
    let versions: Vec<String> = used
        .iter()
        .flat_map(|facts| &facts.version_definitions)
        .filter(|version| !version.is_base)
        .map(|version| version.name.clone())
        .collect();
    let pick = |names: &[String], random: &mut fastrand::Rng| match names.len() {
        0 => "none".to_owned(),
        len => names[random.usize(..len)].clone(),
    };
    let symbols: Vec<String> = symbols.into_iter().cloned().collect();
    let resolved = |path: &str| -> PathBuf { root.at(path) };
    Target {
        root: root.path(),
        file: resolved(file),
        written: resolved(written),
        other: resolved(other),
        symbol: pick(&symbols, random),
        version: pick(&versions, random),
    }
}
