//! Images that people run: nginx, redis, haproxy, Python and Node.js of Debian, moved onto bases that are made of the
//! packages of distroless' `base` and `cc`. Source and result are started under runc and must answer alike; each has a
//! twin that is refused for what is really missing.

use serde_json::{Value, json};

use crate::support::debian::{DebianRoot, Package, system};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::Layouts;
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, need, or_skip};
use crate::support::starting::Bundle;
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, whiteout};

const AMD64: &str = "linux/amd64";
const DEBIAN: [&str; 3] = ["base-files", "dash", "libc6"];
/// What distroless' `base` and `cc` are made of, as far as programs are loaded with it.
const BASE: [&str; 3] = ["base-files", "libc6", "libssl3"];
const CC: [&str; 6] = ["base-files", "libc6", "libssl3", "libgcc-s1", "libgomp1", "libstdc++6"];
const SERVERS: [&str; 5] = ["haproxy", "nginx", "nginx-common", "redis-server", "redis-tools"];
/// What these are linked against.
const LIBRARIES: [&str; 19] = [
    "libatomic1",
    "libcap2",
    "libcrypt1",
    "libgcc-s1",
    "libgcrypt20",
    "libgpg-error0",
    "libjemalloc2",
    "liblua5.3-0",
    "liblz4-1",
    "liblzf1",
    "liblzma5",
    "libopentracing-c-wrapper0",
    "libopentracing1",
    "libpcre2-8-0",
    "libssl3",
    "libstdc++6",
    "libsystemd0",
    "libzstd1",
    "zlib1g",
];
const PYTHON: [&str; 5] =
    ["libexpat1", "zlib1g", "libpython3.11-minimal", "python3.11-minimal", "libpython3.11-stdlib"];
const NODE: [&str; 12] = [
    "libbrotli1",
    "libc-ares2",
    "libicu72",
    "libnghttp2-14",
    "libnode108",
    "libuv1",
    "node-acorn",
    "node-busboy",
    "node-cjs-module-lexer",
    "node-undici",
    "nodejs",
    "zlib1g",
];

/// A server with the words that start it, what it says then, and what it misses first on a base without its libraries.
struct Server {
    name: &'static str,
    /// Where Debian has it.
    path: &'static str,
    words: &'static [&'static str],
    says: &'static str,
    missing: &'static str,
    /// What is passed to move it where Debian's packages installed it, beside what is offered for the program.
    more: &'static [&'static str],
}

const ALL: [Server; 3] = [
    Server {
        name: "nginx",
        path: "usr/sbin/nginx",
        words: &["-t", "-c", "/srv/nginx.conf"],
        says: "test is successful",
        missing: "libcrypt.so.1",
        more: &["--bring", "nginx-common"],
    },
    Server {
        name: "redis-server",
        path: "usr/bin/redis-check-rdb",
        words: &["/srv/redis.conf"],
        says: "ready to accept connections at /tmp/redis.sock",
        missing: "libatomic.so.1",
        more: &["--bring", "redis-tools"],
    },
    Server {
        name: "haproxy",
        path: "usr/sbin/haproxy",
        words: &["-c", "-f", "/srv/haproxy.cfg"],
        says: "Configuration file is valid",
        missing: "libcrypt.so.1",
        more: &[],
    },
];

/// The configuration that an image brings.
fn settings() -> Vec<Entry> {
    let paths =
        ["client_body", "fastcgi", "proxy", "scgi", "uwsgi"].map(|name| format!("{name}_temp_path /tmp/{name};"));
    let nginx = format!(
        "user root; pid /tmp/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off; {}\n\
         server {{ listen unix:/tmp/nginx.sock; location / {{ gzip on; rewrite ^/(.*)$ /x break; return 200; }} }} }}\n",
        paths.concat()
    );
    vec![
        file("srv/nginx.conf", nginx),
        file("srv/redis.conf", "port 0\nunixsocket /tmp/redis.sock\nsave \"\"\ndir /tmp\n"),
        file(
            "srv/haproxy.cfg",
            "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n\
            frontend f\n bind unix@/tmp/haproxy.sock\n http-request return status 200\n",
        ),
    ]
}

fn recipe(layers: Vec<Layer>) -> Recipe {
    Recipe { config: json!({"Env": [fixtures::PATH], "WorkingDir": "/"}), ..Recipe::new(AMD64, layers) }
}

fn accounts() -> [Entry; 4] {
    let passwd = "root:x:0:0:root:/root:/sbin/nologin\n";
    let (tmp, run) = (folder("tmp/").mode(0o1777), folder("run/"));
    [file("etc/passwd", passwd), file("etc/group", "root:x:0:\n"), tmp, run]
}

/// As distroless has its packages: each in a layer of its own.
fn distroless(root: &DebianRoot, names: &[&str]) -> Part<Recipe> {
    let packages = root.packages(names)?;
    let layers = packages.iter().map(|package| Layer::of(Pack::Gzip, &package.unpacked()));
    Ok(recipe(layers.chain([Layer::of(Pack::Gzip, &accounts())]).collect()))
}

/// Packages that are installed in one root.
fn debian(packages: &[Package]) -> Recipe {
    recipe(vec![Layer::of(Pack::Gzip, &[&system(packages)[..], &accounts()].concat())])
}

fn plus(below: &Recipe, entries: &[Entry]) -> Recipe {
    let mut recipe = below.clone();
    recipe.layers.push(Layer::of(Pack::Gzip, entries));
    recipe
}

/// The image `app` with a command; the layers are written once.
fn with_command(layouts: &Layouts, app: &Recipe, words: &[&str]) {
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": words});
    Recipe { config, ..app.clone() }.build().layout(&layouts.layout("app"), "v1");
}

/// Onto the layout `base`. The cache is used: the layers are large, and the same for all.
fn onto(layouts: &Layouts, base: &str, out: &str) -> Invocation {
    let (base, to) = (format!("oci:{base}:v1"), format!("oci:{out}:v1"));
    layouts.underpin(&["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--json", "--base", &base, "--to", &to])
}

/// Rule, message and fix of the refusals.
fn refusals(run: &Run) -> Vec<[String; 3]> {
    let report = run.json();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    let refused = findings.filter(|finding| finding["level"] == "refuse");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    refused.map(|finding| ["rule", "message", "fix"].map(|key| text(finding, key))).collect()
}

/// The `--bring` that a fix offers.
fn offer(fix: &str) -> String {
    let offer = fix.split("--bring ").nth(1).unwrap_or_else(|| panic!("no offer: {fix}"));
    offer.split(", which adds ").next().unwrap().to_owned()
}

/// Starts the image of a layout, and ends it once it has said what it is to say.
fn says(layouts: &Layouts, layout: &str, expected: &str) {
    let bundle = Bundle::unpack(&layouts.layout(layout), &layouts.sandbox.path(&format!("{layout}-bundle"))).unwrap();
    let ended = bundle.start_until(&bundle.command(), expected);
    assert!([ended.stdout.as_str(), &ended.stderr].concat().contains(expected), "{layout}: {ended:?}");
    std::fs::remove_dir_all(layouts.sandbox.path(&format!("{layout}-bundle"))).unwrap();
}

#[test]
fn servers_that_were_copied_into_an_image_move_with_the_libraries_that_are_offered() {
    or_skip!(need(&["umoci", "runc"]));
    let root = or_skip!(DebianRoot::with_services());
    let names: Vec<&str> = DEBIAN.iter().chain(&LIBRARIES).copied().collect();
    let old = debian(&or_skip!(root.packages(&names)));
    let copied = ALL.map(|server| program(&format!("usr/local/bin/{}", server.name), root.read(server.path)));
    let app = plus(&old, &[&copied[..], &settings()].concat());
    let base = or_skip!(distroless(&root, &BASE));
    let layouts = Layouts::new(&app.build(), &old.build(), &base.build());
    or_skip!(distroless(&root, &["base-files"])).build().layout(&layouts.layout("static"), "v1");
    for server in ALL {
        let words: Vec<&str> = [server.name].iter().chain(server.words).copied().collect();
        with_command(&layouts, &app, &words);
        let path = format!("/usr/local/bin/{}", server.name);
        let run = onto(&layouts, "static", "out").run().refused();
        let loader = "its interpreter /lib64/ld-linux-x86-64.so.2";
        assert!(refusals(&run)[0][1].starts_with(&format!("{path} cannot start: {loader}")), "{run}");
        let run = onto(&layouts, "new", "out").run().refused();
        let [[rule, message, fix]] = &refusals(&run)[..] else { panic!("one refusal\n{run}") };
        let expected =
            format!("{path} cannot start: {} is not in the rebased image (needed by {path})", server.missing);
        assert_eq!((rule.as_str(), message), ("dynamic-binary", &expected));
        assert_eq!(offer(fix), path);
        onto(&layouts, "new", server.name).args(["--bring", &path]).run().ok();
        says(&layouts, "app", server.says);
        says(&layouts, server.name, server.says);
    }
}

#[test]
fn servers_that_were_installed_as_packages_move_as_offered() {
    or_skip!(need(&["umoci", "runc"]));
    let root = or_skip!(DebianRoot::with_services());
    let below = or_skip!(root.packages(&DEBIAN));
    let names: Vec<&str> = DEBIAN.iter().chain(&LIBRARIES).chain(&SERVERS).copied().collect();
    let (old, all) = (debian(&below), system(&or_skip!(root.packages(&names))));
    let known = system(&below);
    let is_new = |entry: &&Entry| {
        entry.path() == "var/lib/dpkg/status" || known.iter().all(|known| known.path() != entry.path())
    };
    let installed: Vec<Entry> = all.iter().filter(is_new).cloned().collect();
    let app = plus(&plus(&old, &installed), &settings());
    let layouts = Layouts::new(&app.build(), &old.build(), &or_skip!(distroless(&root, &CC)).build());
    for server in ALL {
        let words: Vec<&str> = [server.name].iter().chain(server.words).copied().collect();
        with_command(&layouts, &app, &words);
        let run = onto(&layouts, "new", "out").run().refused();
        let [rule, message, fix] = &refusals(&run)[0];
        let expected = format!("the program {} is not in the rebased image", server.name);
        assert_eq!((rule.as_str(), message), ("entrypoint-missing", &expected), "{run}");
        assert!(run.stdout.contains("the source has it at /usr/"), "{run}");
        let offer = offer(fix);
        assert!(offer.ends_with(server.name), "{offer}");
        onto(&layouts, "new", server.name).args(["--bring", &offer]).args(server.more).run().ok();
        says(&layouts, "app", server.says);
        says(&layouts, server.name, server.says);
    }
}

#[test]
fn python_and_node_move_to_a_patched_base_and_are_refused_on_one_that_lacks_a_library() {
    or_skip!(need(&["umoci", "runc"]));
    let root = or_skip!(DebianRoot::with_services());
    for (packages, command, script, says_so, lost, missing) in [
        (
            &PYTHON[..],
            "python3.11",
            file(
                "srv/main",
                "import zlib, xml.parsers.expat as e\nprint('python says', zlib.crc32(b'x'), e.native_encoding)\n",
            ),
            "python says 2363233923 UTF-8",
            "usr/lib/x86_64-linux-gnu/libexpat.so.1",
            "libexpat.so.1",
        ),
        (
            &NODE,
            "node",
            file("srv/main", "console.log('node says', new Intl.NumberFormat('en').format(1234))\n"),
            "node says 1,234",
            "usr/lib/x86_64-linux-gnu/libicui18n.so.72",
            "libicui18n.so.72",
        ),
    ] {
        let names: Vec<&str> = CC.iter().chain(packages).copied().collect();
        let old = debian(&or_skip!(root.packages(&names)));
        let app = plus(&old, &[script]);
        let patched = plus(&old, &[file("etc/patched", "x")]);
        let layouts = Layouts::new(&app.build(), &old.build(), &patched.build());
        plus(&old, &[whiteout(lost)]).build().layout(&layouts.layout("lacking"), "v1");
        or_skip!(distroless(&root, &CC)).build().layout(&layouts.layout("cc"), "v1");
        with_command(&layouts, &app, &[command, "/srv/main"]);
        let run = onto(&layouts, "cc", "out").run().refused();
        let [[rule, message, _]] = &refusals(&run)[..] else { panic!("one refusal\n{run}") };
        assert!(rule == "needs-interpreter" && message.contains(&format!("needs a base with {command}")), "{run}");
        let run = onto(&layouts, "lacking", "out").run().refused();
        let [[rule, message, fix]] = &refusals(&run)[..] else { panic!("one refusal\n{run}") };
        assert!(fix.starts_with("choose a --base that has lib"), "nobody builds what is in a base: {fix}");
        assert!(
            rule == "dynamic-binary" && message.contains(&format!("{missing} is not in the rebased image")),
            "{run}"
        );
        onto(&layouts, "new", "out").run().ok();
        says(&layouts, "app", says_so);
        says(&layouts, "out", says_so);
    }
}
