//! Packages that the image's own layers installed: a tool that the program calls leaves with them.

use super::bases::{BaseImage, debian, distroless};
use super::case::{Case, attack, ordinary};
use super::program::{doing, observer, tagged};
use crate::support::tar_layer::{Entry, file, folder, program};

pub fn cases() -> Vec<Case> {
    [dpkg(), apk()].concat()
}

fn stanza(name: &str) -> String {
    format!(
        "Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: vcs\nMaintainer: X <x@example.test>\nArchitecture: amd64\nVersion: 1:2.39.5\nDescription: {name}\n\n"
    )
}

/// A base with the database of what it has.
fn base() -> BaseImage {
    debian().with([
        folder("var/lib/dpkg/"),
        folder("var/lib/dpkg/info/"),
        file("var/lib/dpkg/status", stanza("base-files")),
        file("var/lib/dpkg/info/base-files.list", "/.\n/etc\n/etc/os-release\n/etc/base.conf\n"),
    ])
}

/// What `apt-get install git` leaves in a layer.
fn installs(package: &str, files: &[(&str, Vec<u8>)]) -> Vec<Entry> {
    let list: Vec<String> = files.iter().map(|(path, _)| format!("/{path}\n")).collect();
    let list = list.concat();
    let mut layer = vec![
        file("var/lib/dpkg/status", format!("{}{}", stanza("base-files"), stanza(package))),
        file(&format!("var/lib/dpkg/info/{package}.list"), format!("/.\n/usr\n/usr/bin\n{list}")),
        file(&format!("var/lib/dpkg/info/{package}.md5sums"), ""),
        folder("var/cache/"),
        folder("var/cache/apt/"),
        file("var/cache/apt/pkgcache.bin", "x"),
    ];
    layer.extend(files.iter().map(|(path, bytes)| program(path, bytes.clone())));
    layer
}

fn with_layer(case: Case, layer: Vec<Entry>) -> Case {
    let layers = [vec![layer], case.layers.clone()].concat();
    Case { layers, ..case }
}

fn git() -> Vec<Entry> {
    installs("git", &[("usr/bin/git", tagged("git")), ("usr/share/git-core/data", b"x".to_vec())])
}

fn dpkg() -> Vec<Case> {
    let case =
        |case: Case, program_bytes: Vec<u8>| with_layer(case.old(base()).only([program("app", program_bytes)]), git());
    let certificates =
        || installs("ca-certificates", &[("etc/ssl/certs/ca-certificates.crt", b"of the package".to_vec())]);
    vec![
        case(attack("installed-tool/by-argument"), observer()).cmd(["--hook=git"]),
        case(attack("installed-tool/by-path"), observer()).cmd(["--hook=/usr/bin/git"]),
        case(attack("installed-tool/in-the-code"), doing("act(\"hook\", \"git\")")),
        case(attack("installed-tool/in-the-code-by-path"), doing("act(\"hook\", \"/usr/bin/git\")")),
        case(attack("installed-tool/its-data"), doing("act(\"config\", \"/usr/share/git-core/data\")")),
        case(attack("installed-tool/it-is-the-program"), observer()).entrypoint(["git"]),
        case(ordinary("installed-tool/not-used"), observer()),
        case(ordinary("installed-tool/in-a-message"), doing("say(\"this is not a git repository\")")),
        case(ordinary("installed-tool/certificates"), observer())
            .layer([])
            .cmd(["--config=/etc/ssl/certs/ca-certificates.crt"]),
        with_layer(ordinary("installed-certificates").old(base()), certificates())
            .cmd(["--cacert=/etc/ssl/certs/ca-certificates.crt"]),
        with_layer(
            attack("installed-certificates").old(base()),
            installs("ca-certificates", &[("etc/ssl/certs/extra.pem", b"x".to_vec())]),
        )
        .cmd(["--cacert=/etc/ssl/certs/extra.pem"]),
        // Not the package's: the application put it beside the package's files.
        with_layer(
            ordinary("beside-the-package").old(base()),
            [git(), vec![file("usr/share/git-core/own", "x")]].concat(),
        )
        .cmd(["--config=/usr/share/git-core/own"]),
        with_layer(attack("beside-the-package").old(base()), git()).cmd(["--config=/usr/share/git-core/data"]),
        // Below directories of package managers, and yet the application's.
        ordinary("below-etc-apt")
            .old(base())
            .files([folder("etc/apt/"), file("etc/apt/app.conf", "x")])
            .cmd(["--config=/etc/apt/app.conf"]),
        attack("below-etc-apt")
            .old(base().with([folder("etc/apt/"), file("etc/apt/apt.conf", "x")]))
            .cmd(["--config=/etc/apt/apt.conf"]),
        with_layer(
            attack("replaced-by-the-package").old(base()),
            installs("base-files", &[("etc/base.conf", b"x".to_vec())]),
        )
        .cmd(["--config=/etc/base.conf"]),
        with_layer(
            ordinary("replaced-by-the-package").old(base()),
            installs("base-files", &[("etc/os-release", b"x".to_vec())]),
        )
        .cmd(["--config=/etc/os-release"]),
        with_layer(
            attack("account-of-a-package").old(base()),
            [installs("redis", &[("usr/bin/redis", tagged("redis"))]), accounts()].concat(),
        )
        .user("redis"),
        with_layer(ordinary("account-of-a-package").old(base()), [git(), accounts()].concat()).user("nobody"),
    ]
}

fn accounts() -> Vec<Entry> {
    vec![
        file("etc/passwd", format!("{}redis:x:101:101::/var/lib/redis:/x\n", super::bases::DEBIAN_PASSWD)),
        file("etc/group", format!("{}redis:x:101:\n", super::bases::DEBIAN_GROUP)),
    ]
}

fn apk() -> Vec<Case> {
    let database = |more: &str| {
        let of = |name: &str, files: &str| format!("P:{name}\nV:1.0-r0\nA:x86_64\nS:1\nI:1\nT:{name}\n{files}\n");
        let text = format!("{}{more}", of("busybox", "F:usr/bin\nR:busybox\n"));
        [folder("lib/apk/"), folder("lib/apk/db/"), file("lib/apk/db/installed", text)]
    };
    let git = "P:git\nV:2.40-r0\nA:x86_64\nS:1\nI:1\nT:git\nF:usr/bin\nR:git\n\n";
    let old = || {
        let mut base = debian();
        base.layers[0].retain(|entry| entry.path() != "lib");
        base.layers[0].push(folder("lib/"));
        base.with(database(""))
    };
    let layer = || [database(git).to_vec(), vec![program("usr/bin/git", tagged("git"))]].concat();
    vec![
        with_layer(attack("apk-tool").old(old()).only([program("app", doing("act(\"hook\", \"git\")"))]), layer()),
        with_layer(attack("apk-tool/by-argument").old(old()), layer()).cmd(["--hook=/usr/bin/git"]),
        with_layer(ordinary("apk-tool").old(old()), layer()),
        with_layer(ordinary("apk-tool/provided").old(old()), layer())
            .new_base(distroless().with([program("usr/bin/git", tagged("git"))]))
            .cmd(["--hook=git"]),
    ]
}
