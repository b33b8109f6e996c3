//! The shipped manifest of an Indexed Job, read as Kubernetes' own schemas read it.

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

/// What the schemas of each Kubernetes say of each manifest, nothing where it holds; strict: a field that the API does not have
/// is an error. One run for all, because the validator takes a second to load.
fn complaints(manifests: &[Value], releases: &[&str]) -> Vec<String> {
    // The error itself would print all of the schema.
    let script = "
import json, sys, kubernetes_validate
def complaint(manifest, release):
    try: return '' if kubernetes_validate.validate(manifest, release, strict=True) == release else release + ' is not known'
    except kubernetes_validate.ValidationError as error: return error.message
print(json.dumps([complaint(manifest, release) for release in sys.argv[2:] for manifest in json.loads(sys.argv[1])]))
";
    let manifests = serde_json::to_string(manifests).unwrap();
    let args: Vec<&str> = [manifests.as_str()].into_iter().chain(releases.iter().copied()).collect();
    serde_json::from_str(&python::run_fetched(script, &args).unwrap()).unwrap()
}

fn container(job: &Value) -> &Value {
    let containers = job["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let [container] = &containers[..] else { panic!("one container") };
    container
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The members of that name, of each object of a list.
fn each<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|object| object[member].as_str().unwrap()).collect()
}

#[test]
fn the_manifest_is_a_job_of_the_api_with_nothing_left_over() {
    or_skip!(python::need_fetched("kubernetes_validate"));
    let written = or_skip!(manifest());
    let mut misspelt = written.clone();
    misspelt["spec"]["backoffLimitPerIndexes"] = 3.into();
    let mut mistyped = written.clone();
    mistyped["spec"]["completions"] = "16".into();
    // The oldest that the manifest is said to need, and that of today.
    let found = complaints(&[written, misspelt, mistyped], &["1.29", "1.37"]);
    let [holds, misspelt, mistyped] = ["", "'backoffLimitPerIndexes' was unexpected", "'16' is not of type 'integer'"];
    assert_eq!(found.len(), 6);
    for of_release in found.chunks(3) {
        assert_eq!(of_release[0], holds);
        assert!(of_release[1].contains(misspelt) && of_release[2].contains(mistyped), "{of_release:?}");
    }
}

#[test]
fn its_shards_are_its_completions() {
    let job = or_skip!(manifest());
    assert_eq!(job["spec"]["completionMode"], "Indexed");
    let args = texts(&container(&job)["args"]);
    let shard = args.iter().skip_while(|word| **word != "--shard").nth(1).unwrap();
    let completions = job["spec"]["completions"].as_u64().unwrap();
    assert_eq!(shard.strip_prefix('/'), Some(completions.to_string().as_str()));

    // The words of the container, as each of its pods would run them.
    let sandbox = Sandbox::new();
    let file = sandbox.path("here").join("batch.yaml");
    std::fs::write(&file, "images: []\n").unwrap();
    std::fs::write(file.with_file_name("underpin.lock"), "{\"version\":1,\"images\":[]}\n").unwrap();
    let words = args.iter().map(|word| if *word == "/batch/batch.yaml" { file.to_str().unwrap() } else { word });
    let words: Vec<&str> = words.collect();
    let pod = |index: u64| sandbox.underpin(&words).env("JOB_COMPLETION_INDEX", index.to_string()).run();
    pod(0).ok();
    pod(completions - 1).ok();
    assert_eq!(pod(completions).says("I must be a number from 0 to N-1").code(), Some(2));
}

/// What the API server asks for beyond the types (pkg/apis/batch/validation).
#[test]
fn a_part_that_is_refused_fails_alone_and_is_not_tried_again() {
    let job = or_skip!(manifest());
    let spec = &job["spec"];
    assert!(spec["backoffLimitPerIndex"].is_u64());
    assert!(spec["maxFailedIndexes"].as_u64() <= spec["completions"].as_u64(), "{spec}");
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never", "a policy on failed pods needs it");
    let rules = &spec["podFailurePolicy"]["rules"];
    // The first rule that matches counts; an API server without FailIndex leaves the next one.
    assert_eq!(each(rules, "action"), ["FailIndex", "FailJob"]);
    let codes = &rules[0]["onExitCodes"];
    assert_eq!((&codes["containerName"], &codes["values"]), (&container(&job)["name"], &serde_json::json!([1])));
    assert_eq!(codes, &rules[1]["onExitCodes"], "a refusal is not tried again there either");
    let text = std::fs::read_to_string(MANIFEST).unwrap();
    assert!(text.contains("needs Kubernetes 1.29") && text.contains("--lock-only"));
}

#[test]
fn what_the_container_mounts_is_there_and_it_may_write_nowhere_else() {
    let job = or_skip!(manifest());
    let (volumes, container) = (&job["spec"]["template"]["spec"]["volumes"], container(&job));
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert_eq!(each(&container["volumeMounts"], "name"), each(volumes, "name"));
    let writable: Vec<&Value> =
        mounts.iter().filter(|mount| mount["readOnly"] != true).map(|mount| &mount["mountPath"]).collect();
    assert_eq!(writable, ["/cache", "/tmp"]);
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
}
