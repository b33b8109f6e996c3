//! Images whose command is in the pod, as those of Kubernetes' components: judged with the manifest that runs them, and
//! started as the pod would, on both sides.

use serde_json::{Value, json};

use crate::logs::programs::runner;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{GoCompiler, Machine, prints};
use crate::support::recipe::Recipe;
use crate::support::skip::{find, need, or_skip};
use crate::support::starting::Bundle;
use crate::support::tar_layer::{Entry, Layer, Pack, folder, program, symlink};
use crate::support::{fixtures, layouts};

const AMD64: &str = "linux/amd64";

pub fn go(source: &str) -> Vec<u8> {
    GoCompiler::usual().build(source, &[("GOARCH", "amd64")], &[])
}

/// Makes the directory for its certificates, as kube-apiserver does.
pub fn apiserver() -> Vec<u8> {
    go(r#"package main
import ("flag"; "fmt"; "os")
func main() {
    certs := flag.String("cert-dir", "/var/run/kubernetes", "")
    flag.String("etcd-servers", "", "")
    flag.Parse()
    if err := os.MkdirAll(*certs, 0o755); err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
    fmt.Println("serving as", os.Getuid())
}
"#)
}

/// Asks for iptables before anything else, as kube-proxy does.
pub fn proxy() -> Vec<u8> {
    go(r#"package main
import ("flag"; "fmt"; "os"; "os/exec")
func main() {
    flag.String("config", "", "")
    flag.Parse()
    if err := exec.Command("iptables", "--version").Run(); err != nil {
        fmt.Fprintln(os.Stderr, "iptables is not available on this host:", err); os.Exit(1)
    }
    fmt.Println("proxying")
}
"#)
}

/// debian-base in small: a shell, iptables, and the directories of a system.
pub fn debian() -> Recipe {
    let shell = std::fs::read(find("busybox").unwrap()).unwrap();
    old_base(&[
        folder("bin/"),
        program("bin/busybox", shell),
        symlink("bin/sh", "busybox"),
        folder("usr/sbin/"),
        program("usr/sbin/iptables", prints(Machine::Amd64, "v1.8\n")),
        folder("var/"),
        folder("var/log/"),
        folder("run/"),
        symlink("var/run", "../run"),
    ])
}

/// The new base with more files, and as this user.
pub fn base_with(files: &[Entry], user: &str) -> Recipe {
    let mut base = fixtures::new_base(AMD64);
    base.layers.push(Layer::of(Pack::Gzip, &[folder("var/"), folder("var/log/"), folder("var/run/")]));
    base.layers.extend((!files.is_empty()).then(|| Layer::of(Pack::Gzip, files)));
    base.config["User"] = user.into();
    base
}

/// FROM debian-base, COPY the program: no command.
fn component(name: &str, bytes: Vec<u8>) -> Recipe {
    let own = [folder("usr/local/bin/"), program(&format!("usr/local/bin/{name}"), bytes)];
    upon(&debian(), [Layer::of(Pack::Gzip, &own)], json!({}))
}

pub struct Case {
    pub layouts: Layouts,
}

impl Case {
    pub fn new(app: &Recipe, base: &Recipe, container: &str) -> Self {
        let case = Self { layouts: Layouts::new(&app.build(), &debian().build(), &base.build()) };
        case.manifest(container);
        case
    }

    /// A pod whose container, called `main`, has these lines.
    pub fn manifest(&self, lines: &str) {
        let (container, pod) = lines.split_once("---\n").unwrap_or((lines, ""));
        let indent = |text: &str, by: &str| text.lines().flat_map(|line| [by, line, "\n"]).collect::<String>();
        let (indented, spec) = (indent(container, "    "), indent(pod, "  "));
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod}}\nspec:\n{spec}  containers:\n  - name: main\n    image: registry.example/app:v1\n{indented}"
        );
        std::fs::write(self.layouts.layout("pod.yaml"), text).unwrap();
    }

    fn rebase(&self, out: &str) -> Invocation {
        self.layouts.rebase(out).args(["--command-from", "pod.yaml#main", "--json"])
    }

    /// Starts the image of a layout with these words.
    fn start(&self, layout: &str, words: &[&str]) -> crate::support::tools::Ended {
        let bundle = Bundle::unpack(&self.layouts.layout(layout), &self.layouts.bundle(layout)).unwrap();
        bundle.start(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }
}

fn rules(run: &Run) -> Vec<String> {
    findings(&run.json()["platforms"][0])
}

fn finding<'a>(report: &'a Value, rule: &str) -> &'a Value {
    let mut all = report["platforms"][0]["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["rule"] == rule).unwrap_or_else(|| panic!("{rule}: {report:#}"))
}

#[test]
fn a_component_is_proven_with_the_command_of_its_pod_and_stays_the_same_image() {
    or_skip!(need(&["go", "busybox", "umoci", "runc"]));
    let command = "command: [kube-apiserver, --etcd-servers=$(ETCD)]\nenv: [{name: ETCD, value: 'https://e:2379'}]";
    let case = Case::new(&component("kube-apiserver", apiserver()), &base_with(&[], "0"), command);
    let run = case.rebase("out").run().ok();
    let report = run.json();
    let judged = finding(&report, "pod-command");
    assert_eq!(judged["message"], "judged by what container main of Pod/pod starts");
    assert_eq!(judged["evidence"], "kube-apiserver --etcd-servers=https://e:2379 as 0:0");
    let plain = case.layouts.rebase("plain").arg("--json").run().ok();
    assert_eq!(report["digest"], plain.json()["digest"], "a manifest is not in the image");
    case.layouts.verify("oci:out:v1").run().ok();
    for layout in ["app", "out"] {
        let ended = case.start(layout, &["kube-apiserver", "--etcd-servers=https://e:2379"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "serving as 0\n"), "{layout} {}", ended.stderr);
    }
    case.manifest("command: [kube-apiservre]");
    let run = case.rebase("other").run().refused();
    assert_eq!(rules(&run), ["refuse entrypoint-missing"], "{run}");
}

#[test]
fn a_user_that_can_no_longer_make_the_directory_of_its_certificates_is_refused() {
    or_skip!(need(&["go", "busybox", "umoci", "runc"]));
    let app = component("kube-apiserver", apiserver());
    let case = Case::new(&app, &base_with(&[], "65532"), "command: [kube-apiserver, --etcd-servers=https://e:2379]");
    let run = case.rebase("out").run().refused();
    assert_eq!(rules(&run).iter().filter(|rule| rule.contains("pod-not-writable")).count(), 1, "{run}");
    let report = run.json();
    let closed = finding(&report, "pod-not-writable");
    assert_eq!(closed["message"], "the pod's user could create /var/run/kubernetes, and on the new base cannot");
    assert_eq!(closed["evidence"], "/usr/local/bin/kube-apiserver names it");
    // It is so: both are started.
    case.rebase("out").args(["--allow", "pod-not-writable"]).run().ok();
    assert_eq!(case.start("app", &["kube-apiserver"]).code, Some(0));
    let ended = case.start("out", &["kube-apiserver"]);
    assert!(
        ended.code == Some(1) && ended.stderr.contains("mkdir /var/run/kubernetes: permission denied"),
        "{}",
        ended.stderr
    );
    // What the record says of it must not depend on the manifest.
    case.layouts.verify("oci:out:v1").run().ok();
    for twin in [
        "command: [kube-apiserver]\nsecurityContext: {runAsUser: 0}",
        "command: [kube-apiserver]\nvolumeMounts: [{name: run, mountPath: /var/run/kubernetes}]\n---\nvolumes: [{name: run, emptyDir: {}}]",
    ] {
        case.manifest(twin);
        let run = case.rebase("twin").run().ok();
        assert!(!rules(&run).iter().any(|rule| rule.starts_with("refuse")), "{run}");
    }
}

#[test]
fn a_proxy_needs_a_base_with_iptables() {
    or_skip!(need(&["go", "busybox", "umoci", "runc"]));
    let app = component("kube-proxy", proxy());
    let command = "command: [/usr/local/bin/kube-proxy]\nargs: [--config=/etc/proxy]\nvolumeMounts: [{name: etc, mountPath: /etc/proxy}]";
    let case = Case::new(&app, &base_with(&[], "0"), command);
    let run = case.rebase("out").run().refused();
    assert_eq!(finding(&run.json(), "needs-tool")["level"], "refuse", "{run}");
    case.rebase("out").args(["--allow", "needs-tool=iptables"]).run().ok();
    let ended = case.start("out", &["/usr/local/bin/kube-proxy"]);
    assert!(
        ended.code == Some(1) && ended.stderr.contains("iptables is not available on this host"),
        "{}",
        ended.stderr
    );
    case.layouts.verify("oci:out:v1").run().ok();

    let iptables = [folder("usr/sbin/"), program("usr/sbin/iptables", prints(Machine::Amd64, "v1.8\n"))];
    let case = Case::new(&app, &base_with(&iptables, "0"), command);
    let run = case.rebase("out").run().ok();
    assert!(!rules(&run).contains(&"refuse needs-tool".to_owned()), "{run}");
    assert_eq!(case.start("out", &["/usr/local/bin/kube-proxy"]).stdout, "proxying\n");
}

#[test]
fn a_manifest_that_still_needs_a_shell_is_refused_until_kube_has_taken_it_out() {
    or_skip!(need(&["go", "busybox"]));
    let command = "command:\n- /bin/sh\n- -c\n- exec kube-apiserver --etcd-servers=x 1>>/var/log/api.log 2>&1";
    let runner = [program("go-runner", runner(&[("GOARCH", "amd64")]))];
    let case = Case::new(&component("kube-apiserver", apiserver()), &base_with(&runner, "0"), command);
    let run = case.rebase("out").run().refused();
    assert_eq!(rules(&run), ["refuse needs-shell"], "{run}");
    let report = run.json();
    let fix = finding(&report, "needs-shell")["fix"].as_str().unwrap();
    let told = fix.rsplit("`underpin ").next().unwrap().trim_end_matches('`');
    assert_eq!(told, "kube pod.yaml --write --logs runner");
    case.layouts.underpin(&told.split(' ').collect::<Vec<_>>()).run().ok();
    let report = case.rebase("out").run().ok().json();
    let judged = finding(&report, "pod-command")["evidence"].as_str().unwrap();
    assert_eq!(judged, "/go-runner --log-file=/var/log/api.log kube-apiserver --etcd-servers=x as 0:0");
    // What has no exec form is shown, and kube would say the same.
    case.manifest("command: [/bin/sh, -c, kube-apiserver | grep -v probe]");
    let run = case.rebase("other").run().refused();
    assert!(finding(&run.json(), "needs-shell")["message"].as_str().unwrap().contains("pipe"), "{run}");
    // A base with a shell runs it as it is.
    let case = Case::new(&component("kube-apiserver", apiserver()), &debian(), command);
    case.rebase("out").run().ok();
}

#[test]
fn a_log_must_be_on_a_volume_or_where_the_user_may_write() {
    or_skip!(need(&["go", "busybox"]));
    let runner = [program("go-runner", runner(&[("GOARCH", "amd64")]))];
    let line = "command: [/go-runner, --log-file=/var/log/api.log, kube-apiserver]";
    let volume = "volumeMounts: [{name: log, mountPath: /var/log/api.log}]";
    let host = "---\nvolumes: [{name: log, hostPath: {path: /var/log/api.log, type: FileOrCreate}}]";
    let map = "---\nvolumes: [{name: log, configMap: {name: log}}]";
    let read_only = "securityContext: {readOnlyRootFilesystem: true}";
    let user = "securityContext: {runAsUser: 65532}\nvolumeMounts: [{name: run, mountPath: /var/run}]";
    let case = Case::new(&component("kube-apiserver", apiserver()), &base_with(&runner, "0"), line);
    for (lines, is_refused) in [
        (line.to_owned(), false),
        (format!("{line}\n{read_only}"), true),
        (format!("{line}\n{read_only}\n{volume}\n{host}"), false),
        (format!("{line}\n{volume}\n{map}"), true),
        (format!("{line}\n{user}"), true),
        (line.replace("/var/log/", "/var/log/none/"), true),
    ] {
        case.manifest(&lines);
        let run = case.rebase("out").run();
        assert_eq!(rules(&run).contains(&"refuse log-dir-missing".to_owned()), is_refused, "{lines}\n{run}");
        assert_eq!(run.code(), Some(i32::from(is_refused)), "{lines}\n{run}");
    }
}

#[test]
fn a_pod_that_must_not_be_root_needs_a_number() {
    or_skip!(need(&["go", "busybox"]));
    let lines = |context: &str| format!("command: [/bin/app]\nsecurityContext: {{runAsNonRoot: true{context}}}");
    let own = [folder("bin/"), program("bin/app", prints(Machine::Amd64, "x\n"))];
    let app = upon(&debian(), [Layer::of(Pack::Gzip, &own)], json!({}));
    for (user, context, is_refused) in
        [("0", "", true), ("nonroot", "", true), ("65532", "", false), ("0", ", runAsUser: 5", false)]
    {
        let case = Case::new(&app, &base_with(&[], user), &lines(context));
        let run = case.rebase("out").run();
        assert_eq!(rules(&run).contains(&"refuse pod-user".to_owned()), is_refused, "{user} {context}\n{run}");
    }
}

#[test]
fn a_real_start_is_that_of_the_pod() {
    or_skip!(need(&["go", "busybox", "runc"]));
    let app = component("kube-apiserver", apiserver());
    let case = Case::new(&app, &base_with(&[], "65532"), "command: [kube-apiserver]");
    let start = |case: &Case| case.rebase("out").args(["--allow", "pod-not-writable", "--start=1"]).run();
    let run = start(&case).refused();
    assert!(rules(&run).iter().any(|rule| rule.starts_with("refuse start-")), "{run}");
    case.manifest("command: [kube-apiserver]\nvolumeMounts: [{name: run, mountPath: /var/run/kubernetes}, {name: file, mountPath: /var/log/x.log}]\n---\nvolumes: [{name: run, emptyDir: {}}, {name: file, hostPath: {path: /x, type: File}}]");
    let report = start(&case).ok().json();
    let started = &report["platforms"][0]["started"];
    assert_eq!(started["result"]["stdout"], json!(["serving as 65532"]), "{report:#}");
}

#[test]
fn batch_and_check_read_the_manifest_beside_the_batch_file() {
    or_skip!(need(&["go", "busybox"]));
    let case = Case::new(&component("kube-proxy", proxy()), &base_with(&[], "0"), "command: [kube-proxy]");
    let text = "defaults: {base: 'oci:new:v1', old_base: 'oci:old:v1'}\nimages:\n- source: oci:app:v1\n  target: oci:out:v1\n  command_from: pods/pod.yaml#main\n";
    let here = case.layouts.sandbox.path("here");
    std::fs::create_dir(here.join("pods")).unwrap();
    std::fs::rename(here.join("pod.yaml"), here.join("pods/pod.yaml")).unwrap();
    std::fs::write(here.join("batch.yaml"), text).unwrap();
    let batch =
        |args: &[&str]| case.layouts.underpin(&["batch", "batch.yaml", "--json", "--no-cache"]).args(args).run();
    let refused = batch(&[]).refused().json();
    let rule =
        |report: &Value| report["images"][0]["report"]["platforms"][0]["findings"].to_string().contains("needs-tool");
    assert!(rule(&refused), "{refused:#}");
    let check = |args: &[&str]| {
        case.layouts.underpin(&["check", "--no-cache", "--json", "--allow-base", "oci:new:v1"]).args(args).run()
    };
    let checked = check(&["--batch", "batch.yaml"]).refused();
    assert!(checked.stdout.contains("needs-tool"), "{checked}");
    let one =
        ["oci:app:v1", "--old-base", "oci:old:v1", "--base", "oci:new:v1", "--command-from", "pods/pod.yaml#main"];
    assert!(check(&one).refused().stdout.contains("judged by what container main"));
    assert_eq!(
        check(&["oci:app:v1", "oci:old:v1", "--command-from", "pods/pod.yaml#main"]).kind().as_deref(),
        Some("usage")
    );
    // Another manifest is judged anew, whatever the lock says.
    let pod = std::fs::read_to_string(here.join("pods/pod.yaml")).unwrap();
    std::fs::write(
        here.join("pods/pod.yaml"),
        pod.replace("[kube-proxy]", "[/elsewhere/x]\n    volumeMounts: [{name: x, mountPath: /elsewhere}]"),
    )
    .unwrap();
    batch(&[]).ok();
    batch(&["--locked"]).ok();
    std::fs::write(here.join("pods/pod.yaml"), &pod).unwrap();
    assert!(batch(&["--locked"]).refused().stdout.contains("lock-drift"));
    assert!(rule(&batch(&[]).refused().json()));
}

#[test]
fn kube_proves_the_whole_start_as_the_user_of_the_pod() {
    or_skip!(need(&["go", "busybox"]));
    let own = [
        folder("usr/local/bin/"),
        program("usr/local/bin/open", prints(Machine::Amd64, "x\n")),
        program("usr/local/bin/closed", prints(Machine::Amd64, "x\n")).mode(0o700),
        program("go-runner", runner(&[("GOARCH", "amd64")])),
    ];
    let app = upon(&debian(), [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": ["/go-runner"]}));
    let case = Case::new(&app, &debian(), "");
    let user = "securityContext: {runAsUser: 7}";
    for (lines, reason) in [
        ("args: [open]".to_owned(), None),
        ("args: [closed]".to_owned(), None),
        (format!("args: [closed]\n{user}"), Some("the user may not")),
        (format!("args: [open]\n{user}"), None),
        ("args: [absent]".to_owned(), Some("absent")),
        ("command: [/go-runner, absent]".to_owned(), Some("absent")),
        ("args: [/mnt/absent]\nvolumeMounts: [{name: x, mountPath: /mnt}]".to_owned(), None),
        ("args: [open]\nsecurityContext: {runAsNonRoot: true}".to_owned(), Some("runAsNonRoot")),
    ] {
        case.manifest(&lines);
        let args = ["kube", "pod.yaml", "--no-cache", "--image", "registry.example/app=oci:app:v1"];
        let run = case.layouts.underpin(&args).run();
        assert_eq!(run.code(), Some(i32::from(reason.is_some())), "{lines}\n{run}");
        assert!(reason.is_none_or(|reason| run.stderr.contains(reason)), "{lines}\n{run}");
    }
}

#[test]
fn a_container_that_is_not_there_or_twice_is_an_error() {
    or_skip!(need(&["busybox"]));
    let app = layouts::upon(&debian(), [], json!({}));
    let case = Case::new(&app, &base_with(&[], "0"), "command: [/x]");
    let told = |from: &str| case.layouts.rebase("out").args(["--command-from", from]).run();
    assert!(told("pod.yaml#none").fails("input").stderr.contains("Pod/pod/main"));
    assert!(told("pod.yaml").code() == Some(2));
    told("absent.yaml#main").fails("local-io");
    let pod = std::fs::read_to_string(case.layouts.layout("pod.yaml")).unwrap();
    std::fs::write(case.layouts.layout("pod.yaml"), format!("{pod}---\n{}", pod.replace("{name: pod}", "{name: two}")))
        .unwrap();
    assert!(told("pod.yaml#main").fails("input").stderr.contains("Pod/pod/main, Pod/two/main"));
}
