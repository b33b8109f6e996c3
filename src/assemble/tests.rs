//! The plan as a whole, from a subject to the assembled bytes.

use serde_json::{Value, json};

use super::testing::LayersInMemory;
use super::*;
use crate::examine::Fetched;
use crate::examine::testing::fetched;
use crate::plan::testing::pass;
use crate::plan::{Epoch, ImagePlan, Pass, RebaseOptions, record, top};
use oci::testing::{TestImage, history};

fn assembled(image: &Subject, passes: &[Pass], options: &RebaseOptions) -> Result<Assembled> {
    let images = passes.iter().map(image_of).collect::<Result<Vec<_>>>()?;
    join(&top(image, passes, options), image, images)
}

fn image_of(pass: &Pass) -> Result<AssembledImage> {
    image(pass, &LayersInMemory::default())
}

/// The config and manifest that come out, parsed.
fn result(fetched: Fetched, options: &RebaseOptions) -> (Value, Value) {
    let image = fetched.subject.clone();
    let mut pass = pass(fetched, options);
    record(&image, &mut pass, options);
    let assembled = assembled(&image, &[pass], options).unwrap();
    let manifest: Value = serde_json::from_slice(assembled.top.bytes()).unwrap();
    let digest = manifest["config"]["digest"].as_str().unwrap();
    let blob = assembled.blobs.iter().find(|blob| blob.descriptor.digest.to_string() == digest).unwrap();
    let BlobOrigin::Made(config) = &blob.origin else { panic!("nothing was changed") };
    (serde_json::from_reader(config.open()).unwrap(), manifest)
}

fn app() -> TestImage {
    let lines = history(&[
        ("old a", false),
        ("old b", false),
        ("CMD [\"bash\"]", true),
        ("COPY app", false),
        ("ENTRYPOINT [\"/app\"]", true),
    ]);
    TestImage {
        history: lines,
        container: json!({"Entrypoint": ["/app"], "Env": ["PATH=/old", "A=1"]}),
        annotations: json!({"org.opencontainers.image.source": "https://src.example", "io.podman.annotations.x": "y"}),
        docker: true,
        ..TestImage::of(&["a", "b", "app"])
    }
}

fn debian() -> TestImage {
    TestImage {
        history: history(&[("old a", false), ("old b", false), ("CMD [\"bash\"]", true)]),
        container: json!({"Cmd": ["bash"], "Env": ["PATH=/old"]}),
        ..TestImage::of(&["a", "b"])
    }
}

fn distroless() -> TestImage {
    TestImage {
        history: history(&[("new", false)]),
        container: json!({"Env": ["PATH=/new"], "User": "65532"}),
        ..TestImage::of(&["s"])
    }
}

#[test]
fn layers_are_those_of_the_new_base_then_the_applications() {
    let (config, manifest) = result(fetched(&app(), &debian(), &distroless()), &RebaseOptions::default());
    let digests =
        |names: &[&str]| names.iter().map(|name| oci::Digest::of(name.as_bytes()).to_string()).collect::<Vec<_>>();
    let got: Vec<&str> =
        manifest["layers"].as_array().unwrap().iter().map(|layer| layer["digest"].as_str().unwrap()).collect();
    assert_eq!(got, digests(&["s", "app"]));
    assert_eq!(config["rootfs"]["diff_ids"], json!(digests(&["S", "APP"])));
}

#[test]
fn everything_is_oci_and_nothing_of_the_source_is_lost() {
    let (config, manifest) = result(fetched(&app(), &debian(), &distroless()), &RebaseOptions::default());
    assert!(
        !manifest.to_string().contains("docker.distribution") && !manifest.to_string().contains("rootfs.diff"),
        "{manifest}"
    );
    for (key, value) in [
        ("created", json!("2020-02-02T00:00:00Z")),
        ("author", json!("somebody")),
        ("architecture", json!("arm")),
        ("variant", json!("v7")),
        ("x-unknown", json!({"b": 1, "a": 2})),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert_eq!(config["config"], json!({"User": "65532", "Env": ["PATH=/new", "A=1"], "Entrypoint": ["/app"]}));
}

#[test]
fn annotations_name_the_inputs_and_keep_the_sources() {
    let inputs = fetched(&app(), &debian(), &distroless());
    let platform = &inputs.platforms[0];
    let (source, base, old) =
        (platform.source.digest(), platform.base.digest(), platform.old_base.image.as_ref().unwrap().digest());
    let (_, manifest) =
        result(inputs, &RebaseOptions { source_date_epoch: Some(Epoch(1)), ..RebaseOptions::default() });
    let expected = json!({
        "org.opencontainers.image.source": "https://src.example",
        "org.opencontainers.image.base.name": "gcr.io/distroless/static",
        "org.opencontainers.image.base.digest": base.to_string(),
        "dev.underpin.format": "2",
        "dev.underpin.source": format!("registry.example/app@{source}"),
        "dev.underpin.options": format!(r#"{{"old_base":"{old}","source_date_epoch":1}}"#),
    });
    assert_eq!(manifest["annotations"], expected);
}

#[test]
fn history_is_the_new_bases_then_the_applications() {
    let (config, _) = result(fetched(&app(), &debian(), &distroless()), &RebaseOptions::default());
    let lines: Vec<&str> =
        config["history"].as_array().unwrap().iter().map(|entry| entry["created_by"].as_str().unwrap()).collect();
    assert_eq!(lines, ["new", "COPY app", "ENTRYPOINT [\"/app\"]"]);
}

/// GGCR#2371: history that is longer, shorter, empty or null must not change the layers.
#[test]
fn history_that_does_not_fit_becomes_one_entry_per_layer() {
    for lines in
        [Value::Null, history(&[]), history(&[("x", false)]), history(&[("x", false); 9]), history(&[("x", true); 3])]
    {
        for (source, new) in [
            (TestImage { history: lines.clone(), ..app() }, distroless()),
            (app(), TestImage { history: lines.clone(), ..distroless() }),
        ] {
            let (config, manifest) = result(fetched(&source, &debian(), &new), &RebaseOptions::default());
            let made =
                config["history"].as_array().unwrap().iter().filter(|entry| entry["empty_layer"] != true).count();
            assert_eq!(manifest["layers"].as_array().unwrap().len(), 2);
            assert_eq!(made, 2, "{lines}");
        }
    }
}

#[test]
fn source_date_epoch_sets_the_time() {
    let (config, _) = result(
        fetched(&app(), &debian(), &distroless()),
        &RebaseOptions { source_date_epoch: Some(Epoch(86_400)), ..RebaseOptions::default() },
    );
    assert_eq!(config["created"], "1970-01-02T00:00:00Z");
}

#[test]
fn an_image_on_the_new_base_is_passed_on_as_it_is() {
    let own = TestImage { docker: false, ..app() };
    let (fetched, options) = (fetched(&own, &debian(), &debian()), RebaseOptions::default());
    let (image, pass) = (fetched.subject.clone(), pass(fetched, &options));
    assert!(pass.draft.passes_on());
    let assembled = assembled(&image, &[pass], &options).unwrap();
    assert_eq!(assembled.top.digest(), own.image().digest());
}

/// Distroless' `latest` and `nonroot` share all layers and differ in their config.
#[test]
fn the_same_layers_with_another_config_are_not_the_same_base() {
    let own = TestImage { docker: false, ..app() };
    let nonroot = TestImage { container: json!({"User": "65532"}), ..debian() };
    let pass = pass(fetched(&own, &debian(), &nonroot), &RebaseOptions::default());
    let ImagePlan::New(new) = &pass.draft.image else { panic!("was taken for the same base") };
    assert_eq!(new.config["config"]["User"], "65532");
}

#[test]
fn the_invariant_on_layers_stops_a_wrong_plan() {
    let mut pass = pass(fetched(&app(), &debian(), &distroless()), &RebaseOptions::default());
    if let ImagePlan::New(new) = &mut pass.draft.image {
        new.diff_ids.swap(0, 1);
    }
    let error = image_of(&pass).unwrap_err();
    assert!(error.what().contains("nothing was published"), "{error}");
}
