//! The examples of every `--help` are run as they stand, in a directory where all that they name is there.

use super::session::Session;
use crate::reference::{COMMANDS, words};
use crate::support::containerd::{Make, Node};
use crate::support::docker_registry::Outside;
use crate::support::programs::{self, Machine};
use crate::support::skip::{need, or_skip};

/// Those that are right to end with 1: a refusal, a program that is not static, a change that `--check` finds.
const REFUSED: [&str; 3] =
    ["underpin elf --json /bin/ls", "underpin kube --check", "underpin check registry.example/app"];

/// Puts there what the examples name.
const PREPARATION: &str = r#"sample-images .
push() { skopeo copy --quiet --insecure-policy --all "oci:$1" "docker://$2"; }
push bases:static gcr.io/distroless/static:latest
push bases:debian docker.io/library/debian:12
push bases:static registry.example/static:latest
push bases:debian registry.example/debian:latest
push bases:debian registry.k8s.io/build-image/debian-base:latest
for name in app:v1 etcd:v3; do push build:app "registry.example/$name"; done
skopeo copy --quiet --insecure-policy --all oci:build:app oci:build:proxy
base=gcr.io/distroless/static
inspect() { skopeo inspect --raw "docker://$1" | sha256sum | cut -d' ' -f1; }
printf 'sha256:%s' "$(inspect "$base:latest")" >base
underpin rebase -q registry.example/app:v1 --old-base debian:12 --base "$base@$(cat base)" --digest-file expected --to oci:tried:app
underpin rebase -q registry.example/app:v1 --old-base debian:12 --digest-file by-digest --to registry.example/app:by-digest
underpin rebase -q registry.example/app:v1 --old-base debian:12 --to registry.example/kube-proxy:v1 --to registry.example/proxy:v1
printf 'images:\n- {source: "registry.example/app:v1", target: "registry.example/out:v1", old_base: "debian:12"}\n' >images.yaml
sed 's,app:v1,kube-proxy:v1,; s/, old_base[^}]*//' images.yaml >batch.yaml
printf '| Component | Base | Reason |\n| --- | --- | --- |\n| etcd | registry.k8s.io/build-image/debian-base | its own |\n' >exceptions.md
printf 'host:registry.example\n' >protected.txt
printf '#!/bin/sh\nexec /app "$@"\n' >run.sh
mkdir -p bin deploy cluster/addons ~/.local/share/bash-completion/completions ~/.local/share/man/man1
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: proxy}\nspec:\n  containers:\n  - name: proxy\n    image: registry.example/proxy:v1\n    command: [sh, -c, "exec /usr/local/bin/hello --v=2"]\n' >deploy/proxy.yaml
cp deploy/proxy.yaml cluster/addons/"#;

/// The commands below `Examples:`, continued lines in one, with what stands for a digest filled in.
fn examples(help: &str) -> Vec<String> {
    let (_, below) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("no examples\n{help}"));
    let below = below.split("\nExit codes:").next().unwrap();
    let mut found: Vec<String> = Vec::new();
    for line in below.lines().filter(|line| !line.is_empty() && !line.starts_with("  #")) {
        assert!(line.len() <= 100, "wrapped where it is shown: {line}");
        match (line.strip_prefix("      "), found.last_mut()) {
            (Some(more), Some(last)) if last.ends_with('\\') => {
                *last = format!("{} {more}", last.trim_end_matches('\\'));
            }
            _ => found.push(line.trim_start().to_owned()),
        }
    }
    found
}

fn filled_in(example: &str) -> String {
    let fills = [("static@sha256:...", "static@$(cat base)"), ("app@sha256:...", "app@$(cat by-digest)")];
    let filled = fills.iter().fold(example.to_owned(), |text, (from, to)| text.replace(from, to));
    filled.replace("--expect-digest sha256:...", "--expect-digest $(cat expected)")
}

#[test]
fn examples_are_read_as_they_are_shown() {
    let help = "Usage\n\nExamples:\n  # one\n  underpin a \\\n      --b\n\n  underpin c | jq .\n\nExit codes: 0\n";
    assert_eq!(examples(help), ["underpin a  --b", "underpin c | jq ."]);
}

#[test]
fn every_example_of_every_command_works() {
    or_skip!(need(&["skopeo", "jq", "man"]));
    let outside = or_skip!(Outside::start());
    let node = or_skip!(Node::kubernetes(Make::Installed));
    let session = Session::new(Some(outside), Some(node));
    session.bash(PREPARATION);
    session.write("bin/app", programs::prints(Machine::Amd64, "x"));
    for command in COMMANDS {
        let help = session.bash(&format!("underpin {command} --help"));
        assert!(words(command).iter().all(|word| help.contains(word)));
        for example in examples(&help) {
            let code = i32::from(REFUSED.iter().any(|refused| example.starts_with(refused)));
            let ran = session.run(&format!("set -uo pipefail\n{}", filled_in(&example)));
            assert_eq!(ran.code(), Some(code), "{example}\n{ran}");
        }
    }
}
