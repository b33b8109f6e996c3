//! The rows of the proposal's two tables: what each says, and what is true of it.

use super::situation::{Base, Situation};
use Base::{Alpine, Busybox, Debian, Named, Scratch};
use Situation::*;

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

const RUBY: Verdict = Stays(&["needs-shell", "not-a-binary"], "ruby");
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
