//! Programs like the kubelet, which run mount and nsenter through packages that other components link and never use.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::layouts::{Layouts, old_base, upon};
use crate::support::programs::{GoCompiler, Machine, known_go_compilers, prints};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, folder, program};

/// The packages, as far as they matter: their paths, types and calls.
const PACKAGES: [(&str, &str); 3] = [
    (
        "k8s.io/mount-utils",
        "package mount\nimport \"os/exec\"\ntype Mounter struct{ path string }\nfunc New(p string) *Mounter { return &Mounter{p} }\n\
         //go:noinline\nfunc (m *Mounter) Mount(from, to string) error { return exec.Command(\"mount\", from, to).Run() }\n\
         //go:noinline\nfunc (m *Mounter) Unmount(to string) error { return exec.Command(\"umount\", to).Run() }\n",
    ),
    (
        "k8s.io/utils/nsenter",
        "package nsenter\nimport \"os/exec\"\ntype NSEnter struct{ root string }\nfunc New(r string) *NSEnter { return &NSEnter{r} }\n\
         //go:noinline\nfunc (n *NSEnter) Exec(cmd string, args []string) error {\n\
         return exec.Command(\"nsenter\", append([]string{\"--mount=\" + n.root, cmd}, args...)...).Run() }\n",
    ),
    (
        "k8s.io/kubernetes/pkg/kubelet/volumemanager",
        "package volumemanager\nimport \"k8s.io/mount-utils\"\ntype volumeManager struct{ m *mount.Mounter }\n\
         func New(m *mount.Mounter) interface{ Run(string) error } { return &volumeManager{m} }\n\
         //go:noinline\nfunc (v *volumeManager) Run(pod string) error { return v.m.Mount(\"tmpfs\", pod) }\n",
    ),
];

const KUBELET: &str = "package main\nimport (\"fmt\"; \"os\"; \"k8s.io/mount-utils\"; \"k8s.io/utils/nsenter\"; \
    \"k8s.io/kubernetes/pkg/kubelet/volumemanager\")\nfunc main() {\n\
    fmt.Println(volumemanager.New(mount.New(\"\")).Run(os.Args[0]), nsenter.New(\"/rootfs\").Exec(\"ls\", os.Args))\n}\n";
/// Has the code for mounts, as kube-controller-manager has.
const CONTROLLER: &str = "package main\nimport (\"fmt\"; \"os\"; \"k8s.io/mount-utils\")\nvar m = mount.New(\"\")\nfunc main() {\n\
    if len(os.Args) > 99 { fmt.Println(m.Mount(\"a\", \"b\"), m.Unmount(\"b\")) }\n}\n";
/// Starts something else, and has the words.
const WORDS: &str = "package main\nimport (\"fmt\"; \"os\"; \"os/exec\")\nvar words = []string{\"mount\", \"umount\", \"nsenter\"}\nfunc main() {\n\
    if len(os.Args) > 99 { fmt.Println(exec.Command(os.Args[98]).Run()) }\nfmt.Println(words[len(os.Args)%3])\n}\n";

fn built(compiler: &GoCompiler, tree: &Path, source: &str) -> Vec<u8> {
    compiler.build(source, &[("GOPATH", tree.to_str().unwrap()), ("GOARCH", "amd64")], &[])
}

/// The findings of needs-tool: level and evidence or name.
fn needs(bytes: Vec<u8>) -> Vec<(String, String)> {
    let tools =
        ["mount", "umount", "nsenter"].map(|name| program(&format!("usr/bin/{name}"), prints(Machine::Amd64, "x\n")));
    let old = old_base(&[&[folder("usr/bin/")], &tools[..]].concat());
    let app = upon(&old, [Layer::of(Pack::Gzip, &[program("app", bytes)])], json!({"Entrypoint": ["/app"]}));
    let report = Layouts::on(&old, &app).plan().arg("--json").run().json();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    let tools = findings.filter(|finding| finding["rule"] == "needs-tool");
    tools
        .map(|finding| (text(finding, "level"), format!("{} {}", text(finding, "message"), text(finding, "evidence"))))
        .collect()
}

#[test]
fn a_kubelet_is_refused_by_the_tools_that_its_packages_run_and_words_alone_are_not() {
    or_skip!(need(&["go"]));
    let tree = tempfile::tempdir().unwrap();
    for (path, source) in PACKAGES {
        let directory = tree.path().join("src").join(path);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("code.go"), source).unwrap();
    }
    for compiler in known_go_compilers() {
        let version = compiler.version();
        let kubelet = needs(built(&compiler, tree.path(), KUBELET));
        for tool in ["mount", "umount", "nsenter"] {
            let runs = format!("runs {tool},");
            let refused = kubelet.iter().any(|(level, text)| level == "refuse" && text.contains(&runs));
            assert!(refused, "{version}: {tool}: {kubelet:?}");
        }
        for twin in [CONTROLLER, WORDS] {
            let found = needs(built(&compiler, tree.path(), twin));
            assert!(found.iter().all(|(level, _)| level == "warn"), "{version}: {found:?}");
        }
        let words = needs(built(&compiler, tree.path(), WORDS));
        assert!(words.iter().any(|(_, text)| text.contains("nsenter")), "{version}: {words:?}");
    }
}
