//! The shapes of `cluster/gce/manifests`, of both eras: where placeholders are, and what they bring along.

use super::{KubeOptions, KubeOutcome, LogChoice, Template, options, rewrite};

fn commands(text: &str) -> Vec<String> {
    let salt = KubeOptions { template: Template::Salt, ..options(LogChoice::Runner) };
    let rewritten = rewrite(text, &salt).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(rewritten.refused.is_none(), "{:?}\n{text}", rewritten.refused);
    let said = rewritten.commands.iter().map(|command| match &command.outcome {
        KubeOutcome::Unchanged => format!("{}: unchanged", command.object.name),
        KubeOutcome::Changed(changed) => [changed.command.clone(), changed.args.clone()].concat().join(" "),
        KubeOutcome::Refused(why) => why.rule.id().to_owned(),
        KubeOutcome::Kept(_) => "kept".to_owned(),
    });
    said.collect()
}

#[test]
fn placeholders_bring_members_items_and_commas() {
    let json = r#"{
"kind": "Pod",
"metadata": {"name": "etcd-server{{ suffix }}"},
"spec": {
"securityContext": {
    {{runAsUser}}
    {{supplementalGroups}}
    "seccompProfile": {"type": "RuntimeDefault"}
},
"containers": [
    {
    "name": "c",
    {{security_context}}
    "image": "{{ pillar.get('repository', 'a.io/b') }}:{{ pillar.get('tag', '1') }}",
    "resources": {"requests": {"cpu": {{ cpulimit }}}},
    "command": ["/go-runner", "--log-file=/l", "/usr/local/bin/server", "--privileged={{pillar['p']}}", {{params}}],
    {{container_env}}
    "livenessProbe": {
      "exec": {"command": ["/bin/sh", "-c", "set -x; exec /ctl --endpoints=127.0.0.1:{{ port }} {{ etcdctl_certs }} health"]},
      "initialDelaySeconds": {{ liveness_probe_initial_delay }}
    },
    "ports": [
      {{insecure_port_mapping}}
      { "containerPort": {{secure_port}}, "hostPort": {{secure_port}}}
    ],
    "volumeMounts": [
        {{kms_socket_mount}}
        {{cloud_config_mount}}
        { "name": "log", "mountPath": "/l"}
    ]
    }
],
"volumes": [{{cloud_config_volume}}, {{kms_socket_volume}}]
}}
"#;
    let probe = "/ctl --endpoints=127.0.0.1:{{ port }} {{ etcdctl_certs }} health";
    assert_eq!(commands(json), ["etcd-server{{ suffix }}: unchanged", probe]);
    let args = json.replace("\"command\": [\"/go-runner\", ", "\"command\": [\"/x\"], \"args\": [");
    assert_eq!(commands(&args).len(), 2);
}

#[test]
fn lines_and_keys_of_yaml_may_be_placeholders() {
    let yaml = r#"kind: Pod
metadata:
  name: konnectivity-server
spec:
  securityContext:
    {{ run_as_user }}
    runAsGroup: {{runAsGroup}}
  containers:
  - name: c
    {{ container_security_context }}:
      {{ disallow_privilege_escalation}}
      {{ capabilities }}
        {{ drop_capabilities }}
    image: {{pillar['registry']}}/c:{{pillar['c_docker_tag']}}
    command: [ "/proxy-server"{{ konnectivity_args }} ]
    livenessProbe:
      httpGet: {port: 1, host: "{{ healthcheck_ip }}"}
      initialDelaySeconds: {{ liveness_probe_initial_delay }}
  - name: d
    command:
    - /bin/sh
    - -c
    - exec kube-proxy {{kubeconfig}} --oom-score-adj=-998 {{params}} 1>>/var/log/kube-proxy.log 2>&1
    {{container_env}}
    {{kube_cache_mutation_detector_env_name}}
      {{kube_cache_mutation_detector_env_value}}
    env:
    - name: A
      value: {{kubectl_prune_whitelist_override}}
"#;
    let proxy =
        "/go-runner --log-file=/var/log/kube-proxy.log kube-proxy {{kubeconfig}} --oom-score-adj=-998 {{params}}";
    assert_eq!(commands(yaml), ["konnectivity-server: unchanged", proxy]);
    // A placeholder may be the very key that would be added.
    let keyed = yaml
        .replace("exec kube-proxy", "A=1 exec kube-proxy")
        .replace("    env:\n    - name: A\n      value: {{kubectl_prune_whitelist_override}}\n", "");
    assert_eq!(commands(&keyed), ["konnectivity-server: unchanged", "cannot-edit"]);
}

#[test]
fn commands_that_need_a_shell_are_refused_for_their_own_reason() {
    for (command, rule) in [
        ("if [ -e /m.sh ]; then /m.sh 1>>/l{{ suffix }}.log 2>&1; fi; exec /etcd --name {{ hostname }}", "conditional"),
        ("for i in a b; do docker pull $i; done; exit 0;", "loop"),
        ("/usr/bin/nethealth || true", "status-masking"),
        ("exec /opt/kube-addons-main.sh 1>>/l 2>&1", "target-is-shell-script"),
        ("exec /glbc --verbose {{ no_such_placeholder }} 1>>/l 2>&1", "unrendered-template"),
    ] {
        let text = format!(
            "kind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    command: [sh, -c, '{command}']\n"
        );
        assert_eq!(commands(&text), [rule], "{command}");
    }
}

#[test]
fn json_documents_one_after_the_other_are_each_rewritten() {
    let one = |name: &str| {
        format!(
            "{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\"command\":[\"sh\",\"-c\",\"exec /app\"]}}]}}}}\n"
        )
    };
    let text = [one("a"), one("b")].concat();
    let rewritten = rewrite(&text, &options(LogChoice::Auto)).unwrap();
    assert_eq!(rewritten.text, text.replace("\"sh\",\"-c\",\"exec /app\"", "\"/app\""));
    let names: Vec<&str> = rewritten.commands.iter().map(|command| command.object.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(rewritten.commands[1].position.line, 2);
}
