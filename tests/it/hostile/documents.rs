//! Manifests and indexes that mean two things, or far too much.

use serde_json::{Value, json};

use super::{Setup, good};
use crate::support::fixtures;
use crate::support::http::{Answer, serve};
use crate::support::invocation::Sandbox;
use crate::support::proxy::{Action, on};
use crate::support::published::Published;
use crate::support::recipe::{Content, Dialect, Document, index};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

/// The good image with one piece of its manifest's text replaced.
fn replaced(from: &str, to: &str) -> Content {
    good().with_top(|text| {
        assert!(text.contains(from), "{from} is not in {text}");
        text.replacen(from, to, 1).into_bytes()
    })
}

#[test]
fn a_document_that_can_be_read_in_two_ways_is_refused() {
    let setup = Setup::new();
    for (why, content) in [
        ("manifests and layers", replaced("\"layers\":", "\"manifests\":[],\"layers\":")),
        ("layers twice", replaced("\"layers\":", "\"layers\":[],\"layers\":")),
        ("Layers and layers", replaced("\"layers\":", "\"Layers\":[],\"layers\":")),
        ("layers with a long s", replaced("\"layers\":", "\"layerſ\":[],\"layers\":")),
        ("layers with an escape", replaced("\"layers\":", "\"l\\u0061yers\":[],\"layers\":")),
        ("digest twice", replaced("\"digest\":", "\"digest\":\"sha256:00\",\"digest\":")),
    ] {
        setup.refuses(why, &content, &["input"]);
    }
    setup.accepts("an unknown field", &replaced("\"layers\":", "\"org.example.more\":[],\"layers\":"));
}

#[test]
fn bytes_that_are_not_one_json_document_are_refused() {
    let setup = Setup::new();
    let utf16 = |text: String| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    for (why, content) in [
        ("a second document", good().with_top(|text| format!("{text}{text}").into_bytes())),
        ("a byte order mark", good().with_top(|text| format!("\u{feff}{text}").into_bytes())),
        ("NUL at the end", good().with_top(|text| format!("{text}\0").into_bytes())),
        ("NUL in a key", replaced("\"layers\"", "\"lay\0ers\"")),
        ("UTF-16", good().with_top(utf16)),
        ("nothing", good().with_top(|_| Vec::new())),
        ("half of it", good().with_top(|text| text.as_bytes()[..text.len() / 2].to_vec())),
    ] {
        setup.refuses(why, &content, &["input"]);
    }
    setup.accepts("white space at the end", &good().with_top(|text| format!("{text}\n").into_bytes()));
}

#[test]
fn depth_and_size_have_an_end() {
    let setup = Setup::new();
    let deep = |depth: usize| format!("\"x\":{}{},\"layers\":", "[".repeat(depth), "]".repeat(depth));
    setup.refuses("depth 10,000", &replaced("\"layers\":", &deep(10_000)), &["input"]);
    setup.refuses("only brackets", &good().with_top(|_| "[".repeat(4 << 20).into_bytes()), &["input"]);
    let long = format!("\"x\":\"{}\",\"layers\":", "y".repeat(4 << 20));
    setup.refuses("one long string", &replaced("\"layers\":", &long), &["input"]);
    setup.accepts("depth 20", &replaced("\"layers\":", &deep(20)));
}

#[test]
fn a_size_that_is_none_is_refused() {
    let setup = Setup::new();
    let size = format!("\"size\":{}", fixtures::old_base_layers()[0].bytes.len());
    for wrong in ["-1", "9223372036854775808", "18446744073709551616", "1e3", "12.0", "\"12\"", "null", "[]", "1e999"] {
        setup.refuses(wrong, &replaced(&size, &format!("\"size\":{wrong}")), &["input"]);
    }
    setup.refuses("missing", &replaced(&format!(",{size}"), ""), &["input"]);
    let another = good().with_manifest(|manifest| manifest["layers"][2]["size"] = 12.into());
    setup.refuses("another", &another, &["input", "integrity"]);
}

#[test]
fn the_type_of_the_answer_and_of_the_document_must_agree() {
    let registries = or_skip!(Registries::two(1000));
    let served = |content_type: &str| {
        let trial = registries.trial();
        let rule = on("GET", "/in/app/manifests/").always();
        registries.source.proxy.script([rule.does(Action::set_header("Content-Type", content_type))]);
        (trial.run(), trial)
    };
    for content_type in ["application/vnd.oci.image.index.v1+json", "application/vnd.example.unknown", "image/png"] {
        let (run, trial) = served(content_type);
        trial.fails(run, "input");
    }
    let own = Dialect::Oci.manifest();
    for content_type in [format!("{own}; charset=utf-8"), own.to_uppercase(), format!(" {own} ")] {
        let (run, trial) = served(&content_type);
        trial.gives_the_expected_image(run);
    }
}

#[test]
fn an_index_of_indexes_has_an_end() {
    let setup = Setup::new();
    let nested = |depth: usize| {
        let mut content = index(Dialect::Oci, &[("linux/amd64", good())]);
        for _ in 0..depth {
            content.children.push(content.top.clone());
            let entry = content.top.descriptor();
            let outer = json!({"schemaVersion": 2, "mediaType": Dialect::Oci.index(), "manifests": [entry]});
            content.top = Document::new(Dialect::Oci.index(), &outer);
        }
        content
    };
    setup.refuses("depth 100", &nested(100), &["input"]);
    setup.accepts("one index", &nested(0));
    let many = |count: usize| {
        let plain = index(Dialect::Oci, &[("linux/amd64", good())]);
        plain.with_manifest(|index| {
            let mut entry = index["manifests"][0].clone();
            let entries = index["manifests"].as_array_mut().unwrap();
            for number in 1..count {
                entry["platform"]["os.version"] = number.to_string().into();
                entries.push(entry.clone());
            }
        })
    };
    setup.refuses("5,000 entries", &many(5000), &["input"]);
}

#[test]
fn an_index_that_says_to_contain_itself_is_refused() {
    let setup = Setup::new();
    let mut content = index(Dialect::Oci, &[("linux/amd64", good())]);
    let itself =
        json!({"mediaType": Dialect::Oci.index(), "digest": content.digest(), "size": content.top.bytes.len()});
    let lying = content.with_manifest(|index| index["manifests"] = json!([itself]));
    // The layout has the lying index under the name of the good one.
    content.top.bytes.clone_from(&lying.top.bytes);
    setup.refuses("a cycle", &content, &["input", "integrity"]);
}

#[test]
fn layers_can_be_counted() {
    let setup = Setup::new();
    let many = good().with_manifest(|manifest| {
        let layer = manifest["layers"][2].clone();
        manifest["layers"].as_array_mut().unwrap().extend(std::iter::repeat_n(layer, 10_000));
    });
    setup.refuses("10,000 layers", &many, &["input"]);
    let none = good().with_manifest(|manifest| manifest["layers"] = json!([]));
    let none = none.with_config(|config| {
        config["rootfs"]["diff_ids"] = json!([]);
        config["history"] = json!([]);
    });
    none.layout(&setup.sandbox.path("none"), "v1");
    let args = ["plan", &setup.at("none"), "--base", &setup.at("new"), "--old-base", "scratch", "--no-cache"];
    let run = setup.sandbox.underpin(args).run();
    // Whether its program can be found is another question.
    assert!(matches!(run.code(), Some(0 | 1)), "no layers\n{run}");
}

#[test]
fn a_platform_must_be_clear() {
    let setup = Setup::new();
    let one = ("linux/amd64", good());
    let two = ("linux/amd64", fixtures::app("linux/amd64", 5).build());
    setup.refuses("two equal platforms", &index(Dialect::Oci, &[one.clone(), two]), &["input"]);
    setup.accepts("one", &index(Dialect::Oci, &[one]));
    let attested = fixtures::attested_app(10);
    let only = |keep: &str| {
        attested.with_manifest(|index| {
            let entries = index["manifests"].as_array_mut().unwrap();
            entries.retain(|entry| ["unknown", keep].contains(&entry["platform"]["architecture"].as_str().unwrap()));
        })
    };
    let published = setup.accepts("with an attestation", &only("amd64"));
    assert_eq!(published.platforms(), ["linux/amd64"]);
    setup.refuses("only an attestation", &only("none"), &["input"]);
}

#[test]
fn addresses_in_a_layer_are_never_asked() {
    let setup = Setup::new();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let server = serve(move |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Answer::new(401).header("WWW-Authenticate", "Basic realm=\"x\"")
    });
    let urls = json!([format!("http://{}/layer", server.host()), "file:///etc/passwd", "http://169.254.169.254/"]);
    let with_urls = good().with_manifest(|manifest| manifest["layers"][2]["urls"] = urls.clone());
    setup.accepts("the layer is here anyway", &with_urls);
    let mut missing = with_urls;
    let layer = good().layers().pop().unwrap();
    missing.blobs.retain(|blob| crate::support::tar_layer::digest(blob) != layer);
    let run = setup.rebase_layout(&missing).run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 0, "{run}");
}

#[test]
fn old_foreign_and_encrypted_images_are_refused_by_name() {
    let setup = Setup::new();
    let mut old = good();
    old.top = Document::new(
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
        &json!({
            "schemaVersion": 1, "name": "a/b", "tag": "c", "architecture": "amd64", "fsLayers": [], "history": [],
        }),
    );
    setup.refuses("schema 1", &old, &["input"]).says("schema");
    for (media_type, word) in [
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "foreign"),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", ""),
        ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "encrypted"),
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", ""),
    ] {
        let content = good().with_manifest(|manifest| manifest["layers"][2]["mediaType"] = media_type.into());
        setup.refuses(media_type, &content, &["input"]).says(word);
    }
}

/// Bytes that are not what their media type says are read for what they are, and published as that.
#[test]
fn a_layer_is_published_under_the_type_of_its_bytes() {
    let setup = Setup::new();
    let plain = "application/vnd.oci.image.layer.v1.tar";
    let new = fixtures::new_base("linux/amd64").build();
    let of = |published: &Published, at: usize| published.only().manifest["layers"][at]["mediaType"].clone();
    let right = of(&setup.accepts("the benign twin", &good()), 0);
    assert_ne!(right, plain, "the layers of the fixture are compressed");
    new.with_manifest(|manifest| manifest["layers"][0]["mediaType"] = plain.into())
        .layout(&setup.sandbox.path("new"), "v1");
    let own = good().with_manifest(|manifest| manifest["layers"][2]["mediaType"] = plain.into());
    let published = setup.accepts("of the base, and the image's own", &own);
    let count = published.only().manifest["layers"].as_array().unwrap().len();
    (0..count).for_each(|at| assert_eq!(of(&published, at), right, "layer {at}"));
}

#[test]
fn a_digest_that_is_none_touches_nothing() {
    let setup = Setup::new();
    let name = good().layers()[2]["sha256:".len()..].to_owned();
    let wrong: Vec<Value> = vec![
        "sha256:../../../../../etc/passwd".into(),
        format!("sha256:{}", name.to_uppercase()).into(),
        format!("sha256:{}", &name[1..]).into(),
        format!("sha256:{name}0").into(),
        format!("sha256:{}", "/".repeat(64)).into(),
        format!("md5:{}", &name[..32]).into(),
        format!("sha256:sha256:{name}").into(),
        name.clone().into(),
        "".into(),
        Value::Null,
        7.into(),
    ];
    for digest in wrong {
        let layer = good().with_manifest(|manifest| manifest["layers"][2]["digest"] = digest.clone());
        setup.refuses(&format!("layer {digest}"), &layer, &["input"]);
        let config = good().with_manifest(|manifest| manifest["config"]["digest"] = digest.clone());
        setup.refuses(&format!("config {digest}"), &config, &["input"]);
        let entry = index(Dialect::Oci, &[("linux/amd64", good())])
            .with_manifest(|index| index["manifests"][0]["digest"] = digest.clone());
        setup.refuses(&format!("entry {digest}"), &entry, &["input"]);
    }
}

// Names that are not names, and registries that answer with something else.

#[test]
fn a_name_that_is_none_is_an_error_before_any_request() {
    let sandbox = Sandbox::new();
    let digest = good().digest();
    let long = format!("localhost:1/{}:v1", "a".repeat(300));
    for name in [
        "localhost:99999/a:v1",
        "localhost:1/a:v\n1",
        "localhost:1/a b:v1",
        "localhost:1/A:v1",
        "localhost:1/a@sha256:00",
        "localhost:1/a/../b:v1",
        "localhost:1//a:v1",
        "exämple.org/a:v1",
        "https://localhost:1/a:v1",
        "localhost:1/a:",
        "oci:",
        "",
        &long,
        &format!("localhost:1/a:v1@{}", digest.to_uppercase()),
    ] {
        let args = ["plan", name, "--base", "localhost:1/base:v1", "--no-cache"];
        let run = sandbox.underpin(args).run();
        assert_eq!(run.code(), Some(2), "{name:?}\n{run}");
        assert!(matches!(run.kind().as_deref(), Some("input" | "usage")), "{name:?}\n{run}");
    }
}

#[test]
fn a_digest_that_was_asked_for_is_what_must_come() {
    let registries = or_skip!(Registries::two(1000));
    let other = fixtures::app("linux/amd64", 9).build();
    let given = registries.app.digest();
    let lie = Answer::new(200)
        .header("Content-Type", other.top.media_type.clone())
        .header("Docker-Content-Digest", given.clone())
        .body(other.top.bytes.clone());
    let name = |rest: &str| registries.source.name(rest);
    let (base, old) = (name("base/new:v1"), name("base/old:v1"));
    let to = registries.target.name("out/lie:v1");
    for reference in [format!("in/app@{given}"), format!("in/app:v1@{given}")] {
        let source = name(&reference);
        let args = ["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--no-cache"];
        let run = || registries.sandbox.underpin(args).hurried().run();
        registries.source.proxy.script([on("GET", "/in/app/manifests/").always().does(Action::Answer(lie.clone()))]);
        run().fails("integrity").says(&given).says(&other.digest());
        assert_eq!(registries.target.registry.tag("out/lie", "v1"), None);
        // A wrong header over the right bytes does no harm.
        let header = Action::set_header("Docker-Content-Digest", other.digest());
        registries.source.proxy.script([on("GET", "/in/app/manifests/").always().does(header)]);
        let run = run();
        assert!(matches!(run.kind().as_deref(), None | Some("integrity")), "{run}");
        registries.source.proxy.calm();
    }
}

#[test]
fn a_location_that_does_not_exist_is_named() {
    let setup = Setup::new();
    for (source, word) in [
        (format!("oci:{}:none", setup.sandbox.path("in").display()), "v1"),
        (format!("oci:{}", setup.sandbox.path("missing").display()), "missing"),
        (format!("oci-archive:{}", setup.sandbox.path("missing.tar").display()), "missing.tar"),
        (format!("docker-archive:{}", setup.sandbox.path("missing.tar").display()), "missing.tar"),
    ] {
        let run = setup.rebase(&source).run();
        setup.is_refused(&source, run, &["input", "local-io", "not-found"]).says(word);
    }
}
