//! What the tests need of the machine. A missing part is skipped loudly on a laptop and is a
//! failure in CI, so that a green run there means that everything ran.

use std::path::PathBuf;

/// Whether all of `programs` are here; says so where one is not, and fails where `CI=true`.
pub fn need(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let here = find(program).is_some();
        if !here {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not installed, and CI skips nothing");
            eprintln!("SKIPPED: {program} is not installed (scripts/test installs it)");
        }
        here
    })
}

/// Where `program` is, also where root's programs are.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[test]
fn finds_what_every_machine_has_and_nothing_else() {
    assert!(find("sh").is_some());
    assert!(find("no-such-program-of-underpin").is_none());
}
