//! Real layers of `apt-get install`, and of people who put their own files beside and over what it
//! installed: exactly theirs are the application's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use layer::LayerIndex;
use oci::{Descriptor, Digest, ImageLayer, LayerType};
use start::rootfs::merge;
use underpin::examine::LayerFacts;
use underpin::examine::base::{UnreadDatabase, unproven_files};
use underpin::examine::ownership::{self, LayerOwnership, Ownership, Side};

use crate::can_run;
use crate::layout::Layout;
use crate::real::{debian, making};
use crate::skip::{Part, missing, or_skip};

const COPY_OVER_PACKAGES: &str = "
    echo app >usr/local/bin/app; chmod 755 usr/local/bin/app; mkdir opt/x; echo data >opt/x/data
    echo setting >etc/app.conf; echo '# mine' >>etc/nginx/nginx.conf; cp usr/local/bin/app usr/bin/curl
";
const AFTER_THE_INSTALLATION: &str = "
    echo '# mine' >>etc/default/rsync; echo tool >usr/local/bin/tool; mkdir -p var/lib/tool; chown 1000 var/lib/tool
    ln usr/bin/rsync opt/x/rsync-of-ours; ln -s /opt/x/data etc/alternatives/data; ln -s /etc/alternatives/data usr/bin/data
    ln usr/bin/rsync-ssl var/lib/tool/ours
    cp etc/ssl/certs/ISRG_Root_X1.pem usr/local/share/ca-certificates/ours.crt; chroot . update-ca-certificates
";

/// What the layers above the base are made by, and what of each is the application's.
fn steps() -> Vec<(String, Vec<&'static str>)> {
    vec![
        (install("ca-certificates curl tzdata"), vec![]),
        (install("python3-minimal python3-yaml nginx-light openssl iptables less fontconfig-config"), vec![]),
        (
            COPY_OVER_PACKAGES.to_owned(),
            vec![
                "/etc/app.conf",
                "/etc/nginx/nginx.conf",
                "/opt/x",
                "/opt/x/data",
                "/usr/bin/curl",
                "/usr/local/bin/app",
            ],
        ),
        (
            format!("{}\nsleep 1.1\n{AFTER_THE_INSTALLATION}", install("rsync")),
            vec![
                "/etc/alternatives/data",
                "/etc/default/rsync",
                "/etc/ssl/certs/ca-certificates.crt",
                "/etc/ssl/certs/ours.pem",
                "/opt/x",
                "/opt/x/rsync-of-ours",
                "/usr/bin/data",
                "/usr/bin/rsync-ssl",
                "/usr/local/bin/tool",
                "/usr/local/share/ca-certificates/ours.crt",
                "/var/lib/tool",
                "/var/lib/tool/ours",
            ],
        ),
    ]
}

/// As in a Dockerfile, in one step. The machine's way to the mirror is lent for that long.
fn install(packages: &str) -> String {
    format!(
        "cp -p etc/resolv.conf tmp/resolv.conf; cp /etc/resolv.conf etc/resolv.conf
         cat /dev/null $(grep -rli proxy /etc/apt/apt.conf.d) >tmp/apt.conf || :
         export APT_CONFIG=/tmp/apt.conf DEBIAN_FRONTEND=noninteractive
         ls var/lib/apt/lists/*_Packages >/dev/null 2>&1 || chroot . apt-get update -qq
         chroot . apt-get install -qq -y --no-install-recommends {packages}
         rm tmp/apt.conf; cp -p tmp/resolv.conf etc/resolv.conf; rm tmp/resolv.conf"
    )
}

/// Made once and kept, since a mirror is asked for it.
fn image(scripts: &[&str]) -> Part<Layout> {
    let base = debian()?;
    let made_by = Digest::of(scripts.join("\n").as_bytes());
    let kept: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("debian-installed-{}", &made_by.hex()[..12]));
    let _lock = making(&kept);
    if let Some(layout) = Layout::kept(&kept) {
        return Ok(layout);
    }
    let layout = Layout::new();
    layout.add(&base);
    if let Err(said) = layout.try_change(scripts) {
        return Err(missing(&format!("what apt-get installs ({said})")));
    }
    layout.keep(&kept);
    Ok(layout)
}

/// What of a layer is the application's own, without the folders on the way to it.
fn applications(layer: &LayerIndex, owners: &LayerOwnership) -> Vec<String> {
    let is_own = |owner: Ownership| owner.side() == Side::Stays && owner != Ownership::Passage;
    let entries = layer.entries.iter().zip(&owners.entries);
    let mut paths: Vec<String> =
        entries.filter(|(_, owner)| is_own(**owner)).map(|(entry, _)| entry.path.to_string()).collect();
    paths.sort();
    paths
}

/// The files of the layers that may be the application's, where they are taken as a base on a guess.
fn unproven(layers: &[LayerIndex]) -> Vec<String> {
    let facts = |index: &LayerIndex| {
        let kind = LayerType(index.compression);
        let descriptor = Descriptor::new(kind.media_type(), index.digest, index.size);
        LayerFacts::new(ImageLayer { descriptor, diff_id: index.diff_id, kind }, Arc::new(index.clone()))
    };
    let base: Vec<LayerFacts> = layers.iter().map(facts).collect();
    let files = unproven_files(&base, &merge(layers), UnreadDatabase::OfBase);
    files.into_iter().map(|(_, path)| path.to_string()).collect()
}

/// A guess that Debian and what was installed upon it is the base throws nothing of people's away.
#[test]
fn of_debian_and_its_packages_nothing_may_be_the_applications_and_all_that_people_wrote_may() {
    or_skip!(can_run(&["umoci", "mmdebstrap", "chroot"]));
    let steps = steps();
    let scripts: Vec<&str> = steps.iter().map(|(script, _)| script.as_str()).collect();
    let indexes = or_skip!(image(&scripts)).indexes();
    assert_eq!(unproven(&indexes[..1]), [""; 0], "Debian");
    assert_eq!(unproven(&indexes[..3]), [""; 0], "Debian and packages");
    let files = unproven(&indexes);
    let written = [
        "/etc/app.conf",
        "/etc/nginx/nginx.conf",
        "/opt/x/data",
        "/usr/bin/curl",
        "/usr/local/bin/app",
        "/usr/local/bin/tool",
    ];
    for expected in written {
        assert!(files.iter().any(|path| path == expected), "{expected}: {files:?}");
    }
}

#[test]
fn of_installed_packages_nothing_is_the_applications() {
    or_skip!(can_run(&["umoci", "mmdebstrap", "chroot"]));
    let steps = steps();
    let scripts: Vec<&str> = steps.iter().map(|(script, _)| script.as_str()).collect();
    let image = or_skip!(image(&scripts));
    let indexes = image.indexes();
    assert_eq!(indexes.len(), steps.len() + 1);
    for (layer, (script, expected)) in indexes.iter().skip(1).zip(&steps) {
        let owners = ownership::of(layer);
        assert_eq!(applications(layer, &owners), *expected, "{script}");
        assert!(owners.packages.notes.is_empty(), "{:?}", owners.packages.notes);
        let owned = owners.entries.iter().filter(|owner| matches!(owner, Ownership::Package(_))).count();
        assert_eq!(owned > 20, script.contains("install -qq"), "{owned} entries of packages: {script}");
    }
}
