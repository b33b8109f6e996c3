//! Hints about registries: who may, with which certificate, and without a network.

use base64::Engine as _;
use serde_json::json;

use super::{advice, again};
use crate::support::docker_registry::{Door, Registry};
use crate::support::fixtures;
use crate::support::invocation::{Sandbox, files_under};
use crate::support::layouts::Layouts;
use crate::support::published;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tls::{Authority, STRANGER, Validity};
use crate::support::token_server::{Guarded, Guest, Manners, push_fixtures};
use crate::support::tunnel::Tunnel;

#[test]
fn of_a_login_that_is_missing_or_wrong() {
    let registry = or_skip!(Registry::with(&Door::Htpasswd { user: "ann", password: "secret" }));
    push_fixtures(registry.back_door().host());
    let sandbox = Sandbox::new();
    let image = format!("{}/in/app:v1", registry.host());
    let inspect = || sandbox.underpin(["inspect", &image]).hurried();
    let run = inspect().run().fails("authentication");
    advice(&run, "check that you are logged in to {} and have permission to do this").by_hand(registry.host());
    let auth = base64::engine::general_purpose::STANDARD.encode("ann:secret");
    std::fs::create_dir_all(sandbox.path("home/.docker")).unwrap();
    let login = json!({"auths": {registry.host(): {"auth": auth}}}).to_string();
    std::fs::write(sandbox.path("home/.docker/config.json"), login).unwrap();
    inspect().run().ok();
}

#[test]
fn of_a_token_server_at_another_port() {
    let guest = Guest::Basic { user: "ann".to_owned(), password: "secret".to_owned() };
    let guarded = or_skip!(Guarded::new(Manners { guest, ..Manners::default() }));
    let auth = base64::engine::general_purpose::STANDARD.encode("ann:secret");
    std::fs::create_dir_all(guarded.sandbox.path("home/.docker")).unwrap();
    let login = json!({"auths": {guarded.proxy.host(): {"auth": auth}}}).to_string();
    std::fs::write(guarded.sandbox.path("home/.docker/config.json"), login).unwrap();
    let image = guarded.name("in/app:v1");
    let inspect = || guarded.sandbox.underpin(["inspect", &image, "--no-cache"]).hurried();
    let run = inspect().run().fails("authentication");
    let written = "if it is the registry's token server, allow it: --insecure {place}";
    again(inspect, &advice(&run, written).flag("--insecure")).ok();
}

#[test]
fn of_a_layer_that_the_target_has_damaged() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.target.registry.host().to_owned();
    let rebase = || registries.rebase(&registries.target.name("out/app:v1"), "cache").run();
    rebase().ok();
    let layer = published::registry(&host, "out/app", "v1").unwrap().only().layers.last().unwrap().clone();
    let data = format!("{}/data", layer.strip_prefix("sha256:").unwrap());
    let stored = files_under(registries.target.registry.folder());
    let file = stored.iter().find(|file| file.ends_with(&data)).unwrap();
    std::fs::write(file, "").unwrap();
    // The source is at the same registry, which shares its blobs: what was read of it is in the cache.
    let run = rebase().fails("integrity").says("damaged bytes").says(&layer);
    let written = "delete the blob in the registry, which keeps what it has under a digest; then run again";
    advice(&run, written).by_hand("delete the blob in the registry");
    std::fs::remove_file(file).unwrap();
    rebase().ok();
    assert!(published::registry(&host, "out/app", "v1").is_ok());
}

#[test]
fn of_a_certificate_that_nobody_knows() {
    let authority = Authority::new();
    let registry = or_skip!(Registry::with(&Door::Tls(&authority.leaf(Validity::Now))));
    push_fixtures(registry.back_door().host());
    let sandbox = Sandbox::new();
    let (tunnel, host) = (Tunnel::connect(registry.host()), format!("{STRANGER}:5000"));
    let image = format!("{host}/in/app:v1");
    let proxy = format!("http://{}", tunnel.host());
    let inspect = || sandbox.underpin(["inspect", &image]).env("HTTPS_PROXY", &proxy).hurried();
    let run = inspect().run().fails("network");
    let written = "name the CA with --cacert FILE, or allow this host with --insecure HOST";
    let file = authority.file();
    again(inspect, &advice(&run, written).flags("--cacert FILE", &[("FILE", file.to_str().unwrap())])).ok();
    again(inspect, &advice(&run, written).flags("--insecure HOST", &[("HOST", &host)])).ok();
}

#[test]
fn of_a_run_without_a_network_and_of_a_source_that_would_be_overwritten() {
    let registry = or_skip!(Registry::plain());
    push_fixtures(registry.host());
    fixtures::app("linux/amd64", 10).build().push(registry.host(), "in/app", "latest");
    let sandbox = Sandbox::new();
    let image = format!("{}/in/app", registry.host());
    let inspect = |more: &[&str]| sandbox.underpin(["inspect", &image, "--cache", "kept"]).args(more).run();
    let run = inspect(&["--offline"]);
    assert_eq!(run.code(), Some(2), "{run}");
    let written = "run once without --offline with the same --cache, or use oci: and archive locations";
    advice(&run, written).by_hand("run once without --offline with the same --cache");
    inspect(&[]).ok();
    inspect(&["--offline"]).ok();

    let base = format!("{}/base/new:v1", registry.host());
    let old = format!("{}/base/old:v1", registry.host());
    let rebase =
        |to: &[String]| sandbox.underpin(["rebase", &image, "--old-base", &old, "--base", &base]).args(to).run();
    let run = rebase(&["--to".to_owned(), image.clone()]).fails("usage");
    rebase(&advice(&run, "write the tag out to overwrite it: --to {}").flag("--to")).ok();
}

#[test]
fn of_a_new_base_that_is_out_of_reach() {
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10));
    let plan = || layouts.underpin(&["plan", "oci:app:v1", "--old-base", "oci:old:v1", "--no-cache"]).hurried();
    let written = "name the new base where it can be reached: --base REF, or --base oci:DIR:TAG for a copy on disk";
    // Nothing listens there: as gcr.io, where the default is, in many a network.
    for (base, kind) in [("127.0.0.1:1/base/static:v1", "network"), ("oci:none:v1", "not-found")] {
        let run = plan().args(["--base", base]).run().fails(kind);
        let flag = advice(&run, written).flags("--base oci:DIR:TAG", &[("oci:DIR:TAG", "oci:new:v1")]);
        again(plan, &flag).ok();
    }
}
