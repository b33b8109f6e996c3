//! Troubleshooting is found by the text of a message: what its headings quote is printed here, each in the situation
//! that the page explains.

use std::path::Path;

use serde_json::json;

use crate::support::docker_registry::{Door, Registry};
use crate::support::faulty_disk::{Harm, Preload};
use crate::support::fixtures;
use crate::support::http::{Answer, dead_host};
use crate::support::invocation::{Invocation, files_under};
use crate::support::layouts::Layouts;
use crate::support::proxy::{Action, Proxy, on};
use crate::support::recipe::{CREATED, Dialect, Recipe};
use crate::support::skip::{Part, or_skip};
use crate::support::tar_layer::{Layer, Pack, file};
use crate::support::tls::{Authority, STRANGER, Validity};
use crate::support::token_server::push_fixtures;
use crate::support::tunnel::Tunnel;

const AMD64: &str = "linux/amd64";

fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base(AMD64), &fixtures::app(AMD64, 10))
}

/// What a run says, which does not succeed.
fn said(run: Invocation) -> String {
    let run = run.hurried().run();
    assert_ne!(run.code(), Some(0), "{run}");
    [run.stdout, run.stderr].concat()
}

/// About the source, its base, and the target; without a network.
fn on_disk() -> Vec<String> {
    let layouts = layouts();
    let rebase = |flags: &[&str]| said(layouts.rebase_unnamed("out").arg("--no-cache").args(flags));
    let to = |to: &str| {
        let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", to];
        said(layouts.underpin(&words))
    };
    layouts.rebase("made").run().ok();
    std::fs::create_dir(layouts.layout("mine")).unwrap();
    std::fs::write(layouts.layout("mine").join("notes"), "x").unwrap();
    let verify = |flags: &[&str]| said(layouts.underpin(&["verify", "oci:made:v1", "--no-cache"]).args(flags));
    vec![
        rebase(&["--old-base", "oci:new:v1"]),
        rebase(&["--old-base", "layers:9"]),
        rebase(&["--platform", "linux/s390x"]),
        said(layouts.underpin(&["inspect", "oci:app:v2"])),
        said(layouts.underpin(&["verify", "oci:app:v1"])),
        verify(&[]),
        verify(&["--source", "oci:app:v1", "--base", "oci:new:v1"]),
        to("oci:mine:v1"),
        said(layouts.underpin(&["rebase", "a.io/app", "--to", "a.io/app"])),
        said(layouts.underpin(&["inspect", "a.io/app:v1", "--offline"])),
        unowned_files(),
        several_platforms(),
        damaged_blob(),
    ]
}

/// A base that is read from the history, with a file that no package owns.
fn unowned_files() -> String {
    let line = |by: &str, is_empty: bool| json!({"created": CREATED, "created_by": by, "empty_layer": is_empty});
    let history = json!([
        line("/bin/sh -c #(nop) ADD file:0123 in / ", false),
        line("/bin/sh -c #(nop)  COPY file:4 in /data", false),
        line("CMD [\"bash\"]", true),
        line("COPY app /app # buildkit", false),
        line("ENTRYPOINT [\"/app\"]", true),
    ]);
    let system = Layer::of(Pack::Gzip, &[file("etc/os-release", "ID=x\n"), file("etc/passwd", "root:x:0:0:::\n")]);
    let layers = vec![system, Layer::of(Pack::Gzip, &[file("data/model", "x")]), fixtures::app_layer(AMD64, 10)];
    let app = Recipe { history: Some(history), config: fixtures::app_config(), ..Recipe::new(AMD64, layers) };
    said(Layouts::on(&fixtures::old_base(AMD64), &app).rebase_unnamed("out"))
}

fn several_platforms() -> String {
    let layouts = Layouts::new(
        &fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::on_three(Dialect::Oci, fixtures::new_base),
    );
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1"];
    said(layouts.underpin(&words).args(["--to", "docker-archive:out.tar:a/b:c"]))
}

fn damaged_blob() -> String {
    let layouts = layouts();
    let blobs = files_under(&layouts.layout("app").join("blobs"));
    let largest = blobs.iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(largest).unwrap();
    // The time in the header of gzip: what is packed stays the same.
    bytes[4] ^= 1;
    std::fs::write(largest, bytes).unwrap();
    said(layouts.rebase("out"))
}

/// About batch files, and about locks.
fn of_files() -> Part<Vec<String>> {
    let layouts = layouts();
    let write = |base: &str| {
        let image = json!({"source": "oci:app:v1", "old_base": "oci:old:v1", "base": base, "target": "oci:out:v1"});
        std::fs::write(layouts.layout("batch.yaml"), json!({"images": [image]}).to_string()).unwrap();
    };
    write("oci:new:v1");
    let locked = || said(layouts.underpin(&["batch", "batch.yaml", "--locked"]));
    let mut all = vec![locked()];
    layouts.underpin(&["batch", "batch.yaml"]).run().ok();
    write("oci:old:v1");
    all.push(locked());

    layouts.underpin(&["inspect", "oci:app:v1", "--cache", "kept"]).run().ok();
    let held = std::fs::File::open(layouts.layout("kept")).unwrap();
    held.lock_shared().unwrap();
    let words = ["cache", "gc", "--cache", "kept", "--max-size", "0", "--lock-timeout", "1s"];
    all.push(said(layouts.underpin(&words)));

    let preload = Preload::new()?;
    std::fs::create_dir(layouts.layout("target")).unwrap();
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", "oci:target:v1"];
    let harm = Harm::NoLocks { errno: libc::ENOLCK };
    let run = preload.put(layouts.underpin(&words), &layouts.layout("target"), &layouts.sandbox.path("log"), harm);
    all.push(said(run));
    let held = std::fs::File::open(layouts.layout("target")).unwrap();
    held.lock().unwrap();
    all.push(said(preload.hurry(layouts.underpin(&words), 30)));
    Ok(all)
}

/// What registries answer, and what keeps them from it.
fn of_registries() -> Part<Vec<String>> {
    let layouts = layouts();
    let sandbox = &layouts.sandbox;
    let inspect = |host: &str| sandbox.underpin(["inspect", &format!("{host}/in/app:v1"), "--no-cache"]);
    let mut all = vec![said(inspect(&dead_host()))];

    let locked = Registry::with(&Door::Htpasswd { user: "ann", password: "secret" })?;
    all.push(said(inspect(locked.host())));

    let authority = Authority::new();
    let stranger = format!("{STRANGER}:5000");
    let with_tls = Registry::with(&Door::Tls(&authority.leaf(Validity::Now)))?;
    let plain = Registry::plain()?;
    for upstream in [with_tls.host(), plain.host()] {
        let tunnel = Tunnel::connect(upstream);
        all.push(said(inspect(&stranger).env("HTTPS_PROXY", format!("http://{}", tunnel.host()))));
    }

    push_fixtures(plain.host());
    let proxy = Proxy::before(plain.host());
    let elsewhere = format!("Bearer realm=\"http://{}/token\"", dead_host());
    let asks = Answer::new(401).header("WWW-Authenticate", elsewhere);
    proxy.script([on("*", "").always().does(Action::Answer(asks))]);
    let login = json!({"auths": {proxy.host(): {"auth": "YW5uOnNlY3JldA=="}}}).to_string();
    std::fs::write(sandbox.path("login.json"), login).unwrap();
    all.push(said(inspect(&proxy.host()).env("REGISTRY_AUTH_FILE", sandbox.path("login.json"))));
    let limit = Answer::error(429, "TOOMANYREQUESTS", "You have reached your pull rate limit.");
    proxy.script([on("GET", "/manifests/").always().does(Action::Answer(limit))]);
    all.push(said(inspect(&proxy.host())));

    let fixed = Answer::error(403, "DENIED", "manifest tag is immutable");
    proxy.script([on("PUT", "/manifests/").always().does(Action::Answer(fixed))]);
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache", "--to"];
    all.push(said(layouts.underpin(&words).arg(format!("{}/out/app:v1", proxy.host()))));
    Ok(all)
}

#[test]
fn every_text_of_troubleshooting_is_printed() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/troubleshooting.md")).unwrap();
    let quoted: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    assert!(quoted.len() > 20);
    let all = [on_disk(), or_skip!(of_files()), or_skip!(of_registries())].concat();
    let missing: Vec<&&str> = quoted.iter().filter(|text| !all.iter().any(|said| said.contains(**text))).collect();
    assert!(missing.is_empty(), "nothing printed these: {missing:#?}\n{}", all.join("\n"));
    let unknown: Vec<&String> = all.iter().filter(|said| !quoted.iter().any(|text| said.contains(text))).collect();
    assert!(unknown.is_empty(), "the page does not explain these: {unknown:#?}");
}
