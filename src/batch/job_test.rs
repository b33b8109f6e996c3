//! The shipped manifest against the fields that the Kubernetes API has (batch/v1, core/v1).

use crate::batch::Shard;
use crate::yaml::{Members, Node, read};

const MANIFEST: &str = include_str!("../../scripts/kubernetes/indexed-job.yaml");

fn get<'a>(members: Members<'a>, key: &str) -> &'a Node {
    members.get(key).unwrap_or_else(|| panic!("no {key}"))
}

fn word<'a>(members: Members<'a>, key: &str) -> &'a str {
    get(members, key).text().unwrap()
}

const JOB: [&str; 7] = [
    "completionMode",
    "completions",
    "parallelism",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
    "podFailurePolicy",
];
const POD: [&str; 5] = ["restartPolicy", "automountServiceAccountToken", "securityContext", "containers", "volumes"];
const CONTAINER: [&str; 7] = ["name", "image", "args", "env", "resources", "securityContext", "volumeMounts"];

#[test]
fn the_manifest_is_an_indexed_job_whose_shards_are_its_completions() {
    let document = read(MANIFEST).unwrap();
    let top = document.members(&["apiVersion", "kind", "metadata", "spec"]).unwrap();
    assert_eq!((word(top, "apiVersion"), word(top, "kind")), ("batch/v1", "Job"));
    let spec = get(top, "spec").members(&[&JOB[..], &["template"]].concat()).unwrap();
    assert_eq!(word(spec, "completionMode"), "Indexed");
    let template = get(spec, "template").members(&["metadata", "spec"]).unwrap();
    let pod = get(template, "spec").members(&POD).unwrap();
    assert_eq!(word(pod, "restartPolicy"), "Never", "the API wants it where a part may fail on its own");
    let container = get(pod, "containers").list().unwrap()[0].members(&CONTAINER).unwrap();
    let args: Vec<&str> = get(container, "args").texts().unwrap().iter().map(|node| node.text().unwrap()).collect();
    let shard = args.iter().skip_while(|word| **word != "--shard").nth(1).unwrap();
    assert_eq!(shard.strip_prefix('/'), Some(word(spec, "completions")));
    for index in 0..16 {
        assert!(Shard::read(shard, Some(&index.to_string())).is_ok(), "{index}");
    }
    let policy = get(spec, "podFailurePolicy").members(&["rules"]).unwrap();
    let rule = get(policy, "rules").list().unwrap()[0].members(&["action", "onExitCodes"]).unwrap();
    let codes = get(rule, "onExitCodes").members(&["containerName", "operator", "values"]).unwrap();
    assert_eq!(word(codes, "containerName"), word(container, "name"));
}

#[test]
fn what_the_container_mounts_is_there() {
    let document = read(MANIFEST).unwrap();
    let spec = get(document.members(&["apiVersion", "kind", "metadata", "spec"]).unwrap(), "spec");
    let template = get(spec.members(&[&JOB[..], &["template"]].concat()).unwrap(), "template");
    let pod = get(template.members(&["metadata", "spec"]).unwrap(), "spec").members(&POD).unwrap();
    let container = get(pod, "containers").list().unwrap()[0].members(&CONTAINER).unwrap();
    let names = |list: &Node, keys: &[&'static str]| -> Vec<String> {
        list.list().unwrap().iter().map(|item| word(item.members(keys).unwrap(), "name").to_owned()).collect()
    };
    let mounted = names(get(container, "volumeMounts"), &["name", "mountPath", "readOnly"]);
    assert_eq!(mounted, names(get(pod, "volumes"), &["name", "configMap", "secret", "emptyDir"]));
}
