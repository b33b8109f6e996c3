//! The shipped manifest of an Indexed Job, read as the typed Kubernetes API reads it.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;

use crate::support::invocation::Sandbox;
use crate::support::python;
use crate::support::skip::{Part, or_skip};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kubernetes/indexed-job.yaml");

/// The manifest as a YAML reader that is not ours sees it.
fn manifest() -> Part<Value> {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    python::need_module("yaml")?;
    let printed = python::run(script, &[MANIFEST]).unwrap();
    Ok(serde_json::from_str(&printed).unwrap())
}

fn spec(job: &Job) -> (&JobSpec, &PodSpec, &Container) {
    let spec = job.spec.as_ref().unwrap();
    let pod = spec.template.spec.as_ref().unwrap();
    let [container] = &pod.containers[..] else { panic!("one container") };
    (spec, pod, container)
}

#[test]
fn the_manifest_is_a_job_of_the_typed_api_with_nothing_left_over() {
    let written = or_skip!(manifest());
    let job: Job = serde_json::from_value(written.clone()).unwrap();
    // A field that the API does not have, or has somewhere else, would be lost on the way.
    assert_eq!(serde_json::to_value(&job).unwrap(), written);

    let mut misspelt = written.clone();
    misspelt["spec"]["backoffLimitPerIndexes"] = 3.into();
    let job: Job = serde_json::from_value(misspelt.clone()).unwrap();
    assert_ne!(serde_json::to_value(&job).unwrap(), misspelt, "the comparison finds nothing");
    let mut mistyped = written;
    mistyped["spec"]["completions"] = "16".into();
    assert!(serde_json::from_value::<Job>(mistyped).is_err());
}

#[test]
fn its_shards_are_its_completions() {
    let written = or_skip!(manifest());
    let job: Job = serde_json::from_value(written).unwrap();
    let (spec, _, container) = spec(&job);
    assert_eq!(spec.completion_mode.as_deref(), Some("Indexed"));
    let args = container.args.as_ref().unwrap();
    let shard = args.iter().skip_while(|word| *word != "--shard").nth(1).unwrap();
    let completions = spec.completions.unwrap();
    assert_eq!(shard.strip_prefix('/'), Some(completions.to_string().as_str()));

    // The words of the container, as each of its pods would run them.
    let sandbox = Sandbox::new();
    let file = sandbox.path("here").join("batch.yaml");
    std::fs::write(&file, "images: []\n").unwrap();
    std::fs::write(file.with_file_name("underpin.lock"), "{\"version\":1,\"images\":[]}\n").unwrap();
    let words = args.iter().map(|word| if word == "/batch/batch.yaml" { file.to_str().unwrap() } else { word });
    let words: Vec<&str> = words.collect();
    let pod = |index: i32| sandbox.underpin(&words).env("JOB_COMPLETION_INDEX", index.to_string()).run();
    pod(0).ok();
    pod(completions - 1).ok();
    assert_eq!(pod(completions).says("I must be a number from 0 to N-1").code(), Some(2));
}

/// What the API server asks for beyond the types (pkg/apis/batch/validation).
#[test]
fn a_part_that_is_refused_fails_alone_and_is_not_tried_again() {
    let written = or_skip!(manifest());
    let job: Job = serde_json::from_value(written).unwrap();
    let (spec, pod, container) = spec(&job);
    assert!(spec.backoff_limit_per_index.is_some() && spec.max_failed_indexes <= spec.completions);
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"), "a policy on failed pods needs it");
    let rules = &spec.pod_failure_policy.as_ref().unwrap().rules;
    let codes = rules.iter().find(|rule| rule.action == "FailIndex").and_then(|rule| rule.on_exit_codes.as_ref());
    let codes = codes.unwrap();
    assert_eq!((codes.container_name.as_deref(), &codes.values[..]), (Some(container.name.as_str()), &[1][..]));
    // The first rule that matches counts; an API server without FailIndex leaves the next one.
    let actions: Vec<&str> = rules.iter().map(|rule| rule.action.as_str()).collect();
    assert_eq!(actions, ["FailIndex", "FailJob"]);
    assert_eq!(rules[0].on_exit_codes, rules[1].on_exit_codes, "a refusal is not tried again there either");
    let text = std::fs::read_to_string(MANIFEST).unwrap();
    assert!(text.contains("needs Kubernetes 1.29") && text.contains("--lock-only"));
}

#[test]
fn what_the_container_mounts_is_there_and_it_may_write_nowhere_else() {
    let written = or_skip!(manifest());
    let job: Job = serde_json::from_value(written).unwrap();
    let (_, pod, container) = spec(&job);
    let volumes: Vec<&str> = pod.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    let mounts: Vec<&str> = container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
    assert_eq!(mounts, volumes);
    let writable: Vec<&str> = container
        .volume_mounts
        .iter()
        .flatten()
        .filter(|mount| mount.read_only != Some(true))
        .map(|mount| mount.mount_path.as_str())
        .collect();
    assert_eq!(writable, ["/cache", "/tmp"]);
    let security = container.security_context.as_ref().unwrap();
    assert_eq!((security.read_only_root_filesystem, security.allow_privilege_escalation), (Some(true), Some(false)));
}
