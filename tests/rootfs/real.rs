//! Real images: Debian, one that is shaped like Alpine's, and busybox with its hard links; each
//! with layers upon it that delete, replace, hide and give away.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use layer::RootPath;
use start::rootfs::{Root, merge};

use crate::layout::{Layout, shell};
use crate::skip::{Part, find, missing, or_skip};
use crate::tarball::{Kind, Member, tar};
use crate::{can_run, compare, disk};

/// Works on every root that has `/etc`.
const FIRST_CHANGE: &str = r#"
    mkdir -p srv/folder/below srv/cache var/hidden
    echo one >srv/folder/below/file; echo two >srv/file; echo three >srv/gone; echo old >var/hidden/old
    ln srv/file srv/other-name; ln -s file srv/link; ln -s /srv/link srv/absolute; ln -s nowhere srv/dangling
    ln -s folder srv/to-folder; ln -s loop srv/loop
    : >"srv/$(printf 'not\377text')"; : >'srv/with space'
    mkfifo srv/pipe; mknod srv/null c 1 3; mknod srv/disk b 7 0
    chown 1000:1001 srv/cache; chmod 1777 srv/cache; chmod 4755 srv/file; chmod 640 etc/passwd
"#;
const SECOND_CHANGE: &str = r"
    rm srv/gone srv/null; rm -r srv/folder; echo now a file >srv/folder
    rm srv/link; mkdir srv/link; echo new >srv/link/file
    rm srv/other-name; ln srv/with\ space srv/third-name; chown -h 5:6 srv/absolute; chmod 600 srv/cache
    echo more >>etc/passwd
";
const THIRD_CHANGE: &str =
    "rm srv/folder; mkdir srv/folder; echo three >srv/gone; rm -r srv/cache srv/link; rm srv/file";

/// Entries in orders that no tool has, and through links of the layers below.
fn odd_layer() -> Vec<u8> {
    let kinds = [
        ("srv/to-folder/through", Kind::File),
        ("srv/new/implied/file", Kind::File),
        ("srv/folder/late", Kind::File),
        ("srv/folder", Kind::Opaque),
        ("srv/gone", Kind::Whiteout),
        ("srv/twice", Kind::Folder),
        ("srv/twice/child", Kind::File),
        ("srv/twice", Kind::File),
        ("srv/pipe", Kind::Folder),
        ("srv/pipe", Kind::Whiteout),
        ("srv/linked", Kind::Hardlink("srv/to-folder/through".to_owned())),
        ("srv/second-loop", Kind::Hardlink("srv/loop".to_owned())),
        ("srv/folder/zero", Kind::Device(1, 5)),
        ("srv", Kind::Folder),
    ];
    let member = |(number, (path, kind)): (usize, (&str, Kind))| Member {
        path: path.to_owned(),
        kind,
        number: u32::try_from(number).unwrap() + 1,
    };
    tar(&kinds.into_iter().enumerate().map(member).collect::<Vec<_>>())
}

/// Lays the changes upon a base, compares the two roots, and lets `ask` put questions to ours.
fn check(base: &Path, least: usize, ask: impl FnOnce(&Root<'_>)) {
    let layout = Layout::new();
    layout.add(base);
    layout.change(&[FIRST_CHANGE, SECOND_CHANGE, THIRD_CHANGE]);
    let hidden = tempfile::tempdir().unwrap();
    shell(hidden.path(), "echo new >new; mkdir below; echo deep >below/deep");
    layout.insert_opaque(hidden.path(), "/var/hidden");
    layout.add_bytes(&odd_layer());
    let indexes = layout.indexes();
    assert_eq!(indexes.len(), 6);
    let root = merge(&indexes);
    let unpacked = layout.unpack().unwrap();
    let seen = disk::unpacked(&unpacked);
    assert!(seen.len() >= least, "{} files are not what a real image has", seen.len());
    compare("real image", &root, &seen);
    assert!(root.get(&path("var/hidden/old")).is_none() && root.get(&path("var/hidden/below/deep")).is_some());
    ask(&root);
}

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

/// A root that a script makes, as a tar.
fn made(folder: &Path, script: &str) -> PathBuf {
    let root = folder.join("root");
    std::fs::create_dir(&root).unwrap();
    shell(&root, script);
    shell(folder, "tar --numeric-owner -C root -cf base.tar .");
    folder.join("base.tar")
}

#[test]
fn busybox_with_its_hard_links_is_as_umoci_unpacks_it() {
    or_skip!(can_run(&["umoci", "busybox", "tar"]));
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir bin etc var usr tmp; cp {} bin/busybox; bin/busybox --install bin
         ln -s ../bin usr/bin; echo root:x:0:0::/:/bin/sh >etc/passwd; chmod 1777 tmp",
        find("busybox").unwrap().display()
    );
    check(&made(folder.path(), &script), 250, |root| {
        let found = root.search("ls", "/usr/local/bin:/usr/bin:/bin", &path("")).unwrap();
        assert_eq!((found.written.as_str(), found.file.path), ("/usr/bin/ls", path("bin/ls")));
        let entry = |at: &str| root.get(&path(at)).unwrap().entry();
        assert_eq!(entry("bin/ls"), entry("bin/busybox"));
    });
}

#[test]
fn a_root_that_is_shaped_like_alpines_is_as_umoci_unpacks_it() {
    or_skip!(can_run(&["umoci", "busybox", "tar"]));
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir -p bin sbin etc/apk lib/apk/db usr/bin usr/sbin var/cache/apk tmp dev proc root run; cp {} bin/busybox
         for applet in $(bin/busybox --list-full); do
           [ -e $applet ] || ln -s /bin/busybox $applet
         done
         : >lib/ld-musl-x86_64.so.1; chmod 755 lib/ld-musl-x86_64.so.1; chmod 700 root
         ln -s ld-musl-x86_64.so.1 lib/libc.musl-x86_64.so.1; ln -s /lib/apk/db etc/apk/db
         printf 'P:musl\\nV:1.2.5-r0\\nF:lib\\nR:ld-musl-x86_64.so.1\\n\\n' >lib/apk/db/installed
         echo 3.21.0 >etc/alpine-release; echo root:x:0:0::/root:/bin/sh >etc/passwd; mkdir -p var/lib; ln -s /run var/run",
        find("busybox").unwrap().display()
    );
    check(&made(folder.path(), &script), 250, |root| {
        let found = root.search("sh", "/usr/bin:/bin", &path("")).unwrap();
        assert_eq!(found.file.path, path("bin/busybox"));
        assert_eq!(root.resolve(&path("etc/apk/db/installed")).unwrap().path, path("lib/apk/db/installed"));
    });
}

/// Held while `kept` is made: the tests run at once, and whoever comes second waits and finds it there.
pub fn making(kept: &Path) -> File {
    let lock = File::create(kept.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Made once and kept, since a mirror is asked for it.
pub fn debian() -> Part<PathBuf> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian-bookworm-minbase.tar");
    let _lock = making(&kept);
    if !kept.exists() {
        let draft = kept.with_extension(format!("{}.tar", std::process::id()));
        let mut mmdebstrap = Command::new(find("mmdebstrap").ok_or_else(|| missing("mmdebstrap"))?);
        mmdebstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--format=tar", "bookworm"]).arg(&draft);
        let out = mmdebstrap.output().unwrap();
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            return Err(missing(&format!("Debian, which mmdebstrap fetches ({said})")));
        }
        std::fs::rename(draft, &kept).unwrap();
    }
    Ok(kept)
}

#[test]
fn debian_after_the_usr_merge_is_as_umoci_unpacks_it() {
    or_skip!(can_run(&["umoci", "mmdebstrap"]));
    let base = or_skip!(debian());
    check(&base, 5000, |root| {
        let found = root.search("sh", "/usr/local/sbin:/bin", &path("")).unwrap();
        assert_eq!(found.file.path, path("usr/bin/dash"));
        let links: Vec<String> = found.file.links.iter().map(|followed| followed.link.to_string()).collect();
        assert_eq!(links, ["/bin", "/usr/bin/sh"]);
        let release = root.resolve(&path("etc/os-release")).unwrap();
        assert_eq!(release.path, path("usr/lib/os-release"));
    });
}
