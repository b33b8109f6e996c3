//! Stand-ins for the images of a Kubernetes release, with the shapes and programs of the real ones: five components whose
//! command is in the pod or in the image, and twelve add-ons, two of which must stay where they are.

use std::path::Path;

use serde_json::{Value, json};

use crate::core_images::{apiserver, debian, go, proxy};
use crate::logs::programs::runner;
use crate::support::fixtures;
use crate::support::layouts::upon;
use crate::support::programs::{Machine, c, libraries, prints};
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Entry, Layer, Pack, folder, program};

const AMD64: &str = "linux/amd64";

/// Waits for nothing and says its name.
fn server() -> Vec<u8> {
    go(r#"package main
import ("fmt"; "os")
func main() { fmt.Println("serving", os.Args) }
"#)
}

/// A cgo program: linked with libc, as node-problem-detector is with libsystemd.
fn dynamic() -> Vec<u8> {
    c("cc", &["-O1"], "#include <stdio.h>\nint main(void) { puts(\"watching\"); return 0; }\n")
}

const ADDON_MANAGER: &str = "#!/bin/sh\nwhile true; do kubectl apply -f /etc/kubernetes/addons; sleep 60; done\n";

/// What an image is made of: its name, its program, where that is, and its config.
fn images() -> Vec<(&'static str, &'static str, Vec<u8>, Value)> {
    let none = json!({});
    let entrypoint = |path: &str| json!({"Entrypoint": [path]});
    let shell = |line: &str| json!({"Entrypoint": ["/bin/sh", "-c", line]});
    let script = shell("exec /cluster-autoscaler --v=4 1>>/var/log/cluster-autoscaler.log 2>&1");
    vec![
        ("kube-apiserver", "usr/local/bin/kube-apiserver", apiserver(), none.clone()),
        ("kube-controller-manager", "usr/local/bin/kube-controller-manager", server(), none.clone()),
        ("kube-scheduler", "usr/local/bin/kube-scheduler", server(), none.clone()),
        ("kube-proxy", "usr/local/bin/kube-proxy", proxy(), none),
        ("kubectl", "bin/kubectl", server(), entrypoint("/bin/kubectl")),
        ("addon-resizer", "pod_nanny", server(), json!({"Cmd": ["/bin/sh", "-c", "./pod_nanny"]})),
        ("cluster-autoscaler", "cluster-autoscaler", server(), script),
        (
            "cluster-proportional-autoscaler",
            "cluster-proportional-autoscaler",
            server(),
            entrypoint("/cluster-proportional-autoscaler"),
        ),
        ("etcd-empty-dir-cleanup", "etcd-empty-dir-cleanup", server(), entrypoint("/etcd-empty-dir-cleanup")),
        ("event-exporter", "event-exporter", server(), entrypoint("/event-exporter")),
        ("ip-masq-agent", "ip-masq-agent", proxy(), entrypoint("/ip-masq-agent")),
        ("k8s-dns-kube-dns", "kube-dns", server(), entrypoint("/kube-dns")),
        ("k8s-dns-sidecar", "sidecar", server(), entrypoint("/sidecar")),
        ("kube-addon-manager", "opt/kube-addons.sh", ADDON_MANAGER.into(), entrypoint("/opt/kube-addons.sh")),
        ("metrics-server", "metrics-server", server(), json!({"Entrypoint": ["/metrics-server"], "User": "65534"})),
        ("node-problem-detector", "node-problem-detector", dynamic(), entrypoint("/node-problem-detector")),
        ("prometheus-to-sd", "monitor", server(), entrypoint("/monitor")),
    ]
}

/// debian-base with what dynamic programs load.
fn debian_base() -> Recipe {
    let mut base = debian();
    base.layers.push(Layer::of(Pack::Gzip, &libraries(&dynamic())));
    base
}

/// distroless/static, and what is built upon it.
fn distroless(more: &[Entry], config: &Value) -> Recipe {
    let mut base = fixtures::new_base(AMD64);
    base.layers.push(Layer::of(Pack::Gzip, &[folder("var/"), folder("var/log/"), folder("var/run/")]));
    base.layers.extend((!more.is_empty()).then(|| Layer::of(Pack::Gzip, more)));
    base.config["User"] = "0".into();
    if let Some(members) = config.as_object() {
        members.iter().for_each(|(key, value)| base.config[key] = value.clone());
    }
    base
}

/// Writes every image and every base as a layout of its own, `DIRECTORY/NAME` with the tag `v1`; gives the names of the
/// images.
pub fn stand_ins(directory: &Path) -> Vec<&'static str> {
    let go_runner = [program("go-runner", runner(&[("GOARCH", "amd64")]))];
    let iptables = [folder("usr/sbin/"), program("usr/sbin/iptables", prints(Machine::Amd64, "v1.8\n"))];
    let with_iptables: Vec<Entry> = go_runner.iter().chain(&iptables).cloned().collect();
    let entrypoint = json!({"Entrypoint": ["/go-runner"]});
    let write = |name: &str, image: &Recipe| image.build().layout(&directory.join(name), "v1");
    write("debian-base", &debian_base());
    write("static", &distroless(&[], &json!({})));
    write("go-runner", &distroless(&go_runner, &entrypoint));
    write("distroless-iptables", &distroless(&with_iptables, &json!({})));
    let old = debian_base();
    let image = |(name, path, bytes, config): (&'static str, &str, Vec<u8>, Value)| {
        write(name, &upon(&old, [Layer::of(Pack::Gzip, &[program(path, bytes)])], config));
        name
    };
    images().into_iter().map(image).collect()
}
