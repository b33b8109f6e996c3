//! When the old base's layers are looked into: only for an answer that nothing else has.

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{fates, old_base, upon};
use crate::support::programs::{Machine, prints};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, file, program, symlink, whiteout};

/// How often the layers of old base, new base and application were fetched.
fn fetched(registries: &Registries, digests: &[String]) -> Vec<usize> {
    digests.iter().map(|digest| registries.source.proxy.count("GET", &format!("/blobs/{digest}"))).collect()
}

#[test]
fn base_layers_are_fetched_only_for_an_answer_that_needs_them() {
    let registries = or_skip!(Registries::one(1000));
    let old = old_base(&[
        file("etc/passwd", "root:x:0:0::/:\napp:x:1000:1000::/:\n"),
        file("etc/group", "root:x:0:\napp:x:1000:\n"),
    ]);
    let old_image = old.build();
    old_image.push(registries.source.registry.host(), "base/app", "v1");
    let hello = || program("app", prints(Machine::Amd64, "hello\n"));
    let own = |members: Value, more| (members, Layer::of(Pack::Gzip, &[vec![hello()], more].concat()));
    let cases = [
        ("number", own(json!({"User": "1000:1000"}), vec![]), (0, 0), &["kept"][..]),
        ("root", own(json!({"User": "root"}), vec![]), (1, 0), &["kept"]),
        ("name", own(json!({"User": "app"}), vec![]), (1, 1), &["kept", "added"]),
        ("folder", own(json!({"WorkingDir": "/srv/app"}), vec![]), (1, 1), &["kept", "added"]),
        ("own-file", own(json!({}), vec![file("opt/app/x", "")]), (0, 0), &["kept"]),
        ("base-file", own(json!({}), vec![file("etc/app.conf", "")]), (1, 0), &["kept"]),
        ("link", own(json!({}), vec![symlink("opt/notes", "/usr/share/notes")]), (1, 1), &["kept"]),
        ("whiteout", own(json!({}), vec![whiteout("usr/share/notes")]), (1, 0), &["filtered"]),
    ];
    for (name, (members, layer), (of_new, of_old), expected) in cases {
        let mut config = fixtures::app_config();
        for (key, value) in members.as_object().unwrap() {
            config[key.as_str()] = value.clone();
        }
        let own = layer.digest();
        upon(&old, [layer], config).build().push(registries.source.registry.host(), &format!("in/{name}"), "v1");
        registries.calm();
        let at = |rest: &str| registries.source.name(rest);
        let (source, base, old) = (at(&format!("in/{name}:v1")), at("base/new:v1"), at("base/app:v1"));
        let to = registries.target.name(&format!("out/{name}:v1"));
        let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--json", "--cache"];
        let report = registries.sandbox.underpin(args).arg(registries.sandbox.path(name)).hurried().run().ok().json();
        assert_eq!(fates(&report), expected, "{name}");
        assert_eq!(fetched(&registries, &registries.new_base.layers()), [of_new; 2], "{name}: new base");
        assert_eq!(fetched(&registries, &old_image.layers()), [of_old; 3], "{name}: old base");
        assert_eq!(fetched(&registries, &[own]), [1], "{name}: the application");
        registries.published(&format!("out/{name}"), "v1");
    }
}
