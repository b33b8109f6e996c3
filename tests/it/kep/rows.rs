//! The rows of the proposal's two tables: what each says, and what is true of it.

use Base::{Alpine, Busybox, Debian, Named, Scratch};
use Situation::*;
use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::upon;
use crate::support::programs::{GoCompiler, Machine, c, prints};
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};

/// What underpin must say of a move to distroless/static.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Moves,
    /// Refused by one of these rules, with this word in the message or evidence.
    Stays(&'static [&'static str], &'static str),
}
use Verdict::{Moves, Stays};

/// Whose word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// The row is right.
    Row,
    /// The row is wrong, and history shows why.
    Git(&'static str),
}
use Truth::{Git, Row};

pub struct Case {
    pub component: &'static str,
    pub base: Base,
    pub situation: Situation,
    pub verdict: Verdict,
    pub truth: Truth,
}

const fn case(component: &'static str, base: Base, situation: Situation, verdict: Verdict, truth: Truth) -> Case {
    Case { component, base, situation, verdict, truth }
}

const RUBY: Verdict = Stays(&["needs-interpreter"], "ruby");
const IPTABLES: Verdict = Stays(&["needs-tool"], "iptables");
const SHELL: Verdict = Stays(&["needs-shell"], "while");
const ETCD: Truth = Git("the exception list is right: it stayed on debian-base");
const DEBUG: Truth = Git("debugging tools are no need of the image: moved to distroless/static in 2022");

/// "Rebased Images".
pub const REBASED: [Case; 22] = [
    case(
        "addon-resize",
        Busybox,
        ShellFormCmd,
        Moves,
        Git("its CMD stayed in shell form and could not start; underpin translates it"),
    ),
    case("cluster-proportional-autoscaler", Scratch, StaticProgram, Moves, Row),
    case(
        "cluster-proportional-vertical-autoscaler",
        Busybox,
        StaticProgram,
        Moves,
        Git("it was built on busybox, not on scratch"),
    ),
    case("event-exporter", Debian, StaticProgram, Moves, Row),
    case("node-termination-handler", Alpine, StaticProgram, Moves, Row),
    case("metadata-proxy", Scratch, StaticProgram, Moves, Row),
    case("metrics-server", Busybox, StaticProgram, Moves, Row),
    case("prometheus-to-sd", Debian, StaticProgram, Moves, Git("the row names the image of metrics-server")),
    case("ip-masq-agent", Busybox, RunsIptables, IPTABLES, Row),
    case("slo-monitor", Alpine, StaticProgram, Moves, Row),
    case("kubelet-to-gcm", Scratch, StaticProgram, Moves, Row),
    case("etcd-version-monitor", Scratch, StaticProgram, Moves, Row),
    case("etcd-empty-dir-cleanup", Busybox, ShellScript, SHELL, ETCD),
    case("etcd", Busybox, ShellScript, SHELL, ETCD),
    case("defaultbackend", Scratch, StaticProgram, Moves, Row),
    case("fuzzer", Alpine, RedirectsKlog, Moves, Row),
    case("ingress-gce-glbc", Alpine, RedirectsKlog, Moves, Row),
    case("k8s-dns-kube-dns", Alpine, StaticProgram, Moves, DEBUG),
    case("k8s-dns-sidecar", Alpine, StaticProgram, Moves, DEBUG),
    case("k8s-dns-dnsmasq-nanny", Alpine, RunsDnsmasq, Stays(&["needs-tool"], "dnsmasq"), Row),
    case("k8s-dns-node-cache", Named("debian:stable-slim"), RunsIptables, IPTABLES, Row),
    case("cluster-autoscaler", Debian, ScriptRedirectsKlog, Moves, Row),
];

const PERFORMANCE: Truth = Git("no image shows its performance: moved with a log runner in 1.19");

/// The exception list.
pub const EXCEPTIONS: [Case; 16] = [
    case("kube-proxy", Named("debian-iptable:v1"), RunsIptables, IPTABLES, Row),
    case("etcd-empty-dir-cleanup", Debian, ShellScript, SHELL, Row),
    case("etcd", Debian, ShellScript, SHELL, Row),
    case("node-problem-detector", Debian, LoadsLibsystemd, Stays(&["dynamic-binary"], "libsystemd.so.0"), Row),
    case("fluentd-elasticsearch", Named("debian:stretch-slim"), Ruby, RUBY, Row),
    case("fluentd-gcp-scaler", Named("debian-base-amd64:v1.0.0"), ScriptWithKubectl, SHELL, Row),
    case("stackdriver-logging-agent", Debian, Ruby, RUBY, Row),
    case("ip-masq-agent", Named("debian-iptables:v1"), RunsIptables, IPTABLES, Row),
    case("kube-addon-manager", Debian, ScriptWithKubectl, SHELL, Row),
    case("k8s-dns-kube-dns", Debian, StaticProgram, Moves, DEBUG),
    case("k8s-dns-sidecar", Debian, StaticProgram, Moves, DEBUG),
    case("k8s-dns-dnsmasq-nanny", Debian, RunsDnsmasq, Stays(&["needs-tool"], "dnsmasq"), Row),
    case(
        "k8s-dns-node-cache",
        Debian,
        RunsIptables,
        IPTABLES,
        Git("it needs iptables, not debugging tools: distroless-iptables since 2022"),
    ),
    case("kube-apiserver", Debian, RedirectsKlog, Moves, PERFORMANCE),
    case("kube-controller-manager", Debian, RedirectsKlog, Moves, PERFORMANCE),
    case("kube-scheduler", Debian, RedirectsKlog, Moves, PERFORMANCE),
];

// The situations that the proposal's images were in, each as an image built here.

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

fn runs(compiler: &GoCompiler, tool: &str) -> Vec<u8> {
    let source =
        format!("package main\nimport \"os/exec\"\nfunc main() {{ exec.Command(\"{tool}\", \"-L\").Run() }}\n");
    compiler.build(&source, &[], &[])
}

impl Programs {
    pub fn compile(compiler: &GoCompiler) -> Self {
        let systemd =
            "int sd_journal_open(void **j, int f);\nint main(void) { void *j; return sd_journal_open(&j, 0); }\n";
        Self {
            plain: compiler.build("package main\nfunc main() { println(\"hello\") }\n", &[], &[]),
            klog: compiler.build(KLOG, &[("GOPATH", "/usr/share/gocode")], &[]),
            iptables: runs(compiler, "iptables"),
            dnsmasq: runs(compiler, "dnsmasq"),
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
