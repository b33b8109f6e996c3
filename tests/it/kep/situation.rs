//! The situations that the proposal's images were in, each as an image built here.

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::upon;
use crate::support::programs::{Machine, c, go, prints};
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};

const AMD64: &str = "linux/amd64";

/// What an image was built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    Scratch,
    Busybox,
    Alpine,
    Debian,
    /// Under the name that the exception list has for it.
    Named(&'static str),
}

impl Base {
    /// The layout and tag it lies in.
    pub fn place(self) -> Option<&'static str> {
        match self {
            Self::Scratch => None,
            Self::Busybox => Some("busybox:v1"),
            Self::Alpine => Some("alpine:v1"),
            Self::Debian => Some("debian-base:v1"),
            Self::Named(place) => Some(place),
        }
    }

    /// A small system: a shell, its accounts, and the tools that somebody may need.
    pub fn recipe(self) -> Recipe {
        let Some(place) = self.place() else { return Recipe::new(AMD64, Vec::new()) };
        let tool = |path: &str| program(path, prints(Machine::Amd64, "of the base\n"));
        let mut files = vec![
            folder("bin/"),
            folder("etc/"),
            folder("usr/"),
            folder("usr/bin/"),
            folder("usr/sbin/"),
            folder("var/"),
            folder("var/log/"),
        ];
        files.extend([file("etc/os-release", format!("ID={place}\n")), file("etc/passwd", "root:x:0:0:::\n")]);
        files.extend(
            ["bin/sh", "bin/bash", "usr/sbin/iptables", "usr/sbin/dnsmasq", "usr/bin/ruby", "usr/bin/kubectl"]
                .map(tool),
        );
        let config = json!({"Env": [fixtures::PATH], "Cmd": ["/bin/sh"]});
        Recipe { config, ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) }
    }
}

/// Why an image stood on its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// A static program in exec form: nothing but habit, debugging tools or performance.
    StaticProgram,
    /// `CMD ./program` in shell form.
    ShellFormCmd,
    /// A shell that only redirects the log of a program with klog.
    RedirectsKlog,
    /// The same in a script beside the program.
    ScriptRedirectsKlog,
    RunsIptables,
    RunsDnsmasq,
    LoadsLibsystemd,
    /// A shell script with loops and conditions.
    ShellScript,
    /// A shell script around kubectl.
    ScriptWithKubectl,
    /// fluentd: a program in ruby.
    Ruby,
}

/// The programs, each compiled once.
pub struct Programs {
    plain: Vec<u8>,
    klog: Vec<u8>,
    iptables: Vec<u8>,
    dnsmasq: Vec<u8>,
    systemd: Vec<u8>,
}

const KLOG: &str = "package main\nimport (\"flag\"; \"k8s.io/klog\")\nfunc main() { klog.InitFlags(nil); flag.Parse(); klog.Info(\"hello\") }\n";

fn runs(tool: &str) -> Vec<u8> {
    let source =
        format!("package main\nimport \"os/exec\"\nfunc main() {{ exec.Command(\"{tool}\", \"-L\").Run() }}\n");
    go(&source, &[])
}

impl Programs {
    pub fn compile() -> Self {
        let systemd =
            "int sd_journal_open(void **j, int f);\nint main(void) { void *j; return sd_journal_open(&j, 0); }\n";
        Self {
            plain: go("package main\nfunc main() { println(\"hello\") }\n", &[]),
            klog: go(KLOG, &[("GOPATH", "/usr/share/gocode")]),
            iptables: runs("iptables"),
            dnsmasq: runs("dnsmasq"),
            // The library is only named: nothing here is started.
            systemd: c(
                "gcc",
                &["-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-as-needed", "-l:libsystemd.so.0"],
                systemd,
            ),
        }
    }

    /// The image of a component.
    pub fn image(&self, component: &str, base: Base, situation: Situation) -> Recipe {
        let (files, config) = self.parts(component, situation);
        upon(&base.recipe(), [Layer::of(Pack::Gzip, &files)], config)
    }

    fn parts(&self, name: &str, situation: Situation) -> (Vec<Entry>, Value) {
        let path = format!("/{name}");
        let binary = |bytes: &Vec<u8>| program(name, bytes.clone());
        let script = |text: &str| program("run.sh", format!("#!/bin/sh\n{text}\n"));
        let exec = || json!({"Entrypoint": [path, "--v=2"]});
        let run_sh = || json!({"Entrypoint": ["/run.sh"]});
        match situation {
            Situation::StaticProgram => (vec![binary(&self.plain)], exec()),
            Situation::ShellFormCmd => {
                (vec![binary(&self.plain)], json!({"Cmd": ["/bin/sh", "-c", format!("./{name}")], "WorkingDir": "/"}))
            }
            Situation::RedirectsKlog => {
                let line = format!("exec {path} --v=2 1>>/var/log/{name}.log 2>&1");
                (vec![binary(&self.klog)], json!({"Entrypoint": ["/bin/sh", "-c", line]}))
            }
            Situation::ScriptRedirectsKlog => {
                let line = format!("set -e\nexec {path} \"$@\" 1>>/var/log/{name}.log 2>&1");
                (vec![binary(&self.klog), script(&line)], json!({"Entrypoint": ["/run.sh"], "Cmd": ["--v=4"]}))
            }
            Situation::RunsIptables => (vec![binary(&self.iptables)], exec()),
            Situation::RunsDnsmasq => (vec![binary(&self.dnsmasq)], exec()),
            Situation::LoadsLibsystemd => (vec![binary(&self.systemd)], exec()),
            Situation::ShellScript => (
                vec![
                    binary(&self.plain),
                    script("while true; do\n  if [ -d /data ]; then rm -rf /data/*; fi\n  sleep 5\ndone"),
                ],
                run_sh(),
            ),
            Situation::ScriptWithKubectl => {
                (vec![script("while true; do\n  kubectl get pods | grep x\n  sleep 5\ndone")], run_sh())
            }
            Situation::Ruby => (
                vec![program("fluentd", "#!/usr/bin/ruby\nputs 1\n")],
                json!({"Entrypoint": ["/fluentd", "-c", "/etc/fluent.conf"]}),
            ),
        }
    }
}
