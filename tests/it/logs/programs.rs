//! The programs that log: Go with the real klog in its three ways to read flags, with glog, and
//! with neither; and a log runner.

use std::path::{Path, PathBuf};

use crate::support::programs::GoCompiler;
use crate::support::skip::{Part, need, need_go_package};
use crate::support::tar_layer::digest;

/// Where Debian keeps the sources of Go packages.
const SOURCES: &str = "/usr/share/gocode";

/// Whether this can be done here: Go, its packages, readers of images, a runtime, real shells.
pub fn parts() -> Part<()> {
    ["k8s.io/klog", "github.com/golang/glog", "github.com/spf13/pflag"].into_iter().try_for_each(need_go_package)?;
    need(&["go", "umoci", "runc", "busybox", "dash", "bash", "ldd"])
}

fn built(source: &str) -> Vec<u8> {
    built_by(&GoCompiler::usual(), source)
}

fn built_by(compiler: &GoCompiler, source: &str) -> Vec<u8> {
    compiler.build(source, &[("GOPATH", SOURCES), ("GOARCH", "amd64")], &[])
}

/// What each of them writes at `--v=2`, one line for each severity; a line of `--v=3` besides.
const LINES: &str = r#"
    klog.Info("starts")
    klog.Warning("is careful")
    klog.Error("goes on")
    klog.V(2).Info("knows ", words())
    klog.V(3).Info("is silent")
    klog.Flush()
}
"#;

/// klog on Go's own `flag` package: only `--log_file`.
pub fn klog_flag() -> Vec<u8> {
    klog_flag_by(&GoCompiler::usual())
}

pub fn klog_flag_by(compiler: &GoCompiler) -> Vec<u8> {
    let start = r#"package main
import ("flag"; "k8s.io/klog")
func words() []string { return flag.Args() }
func main() {
    klog.InitFlags(nil)
    flag.Parse()
"#;
    built_by(compiler, &[start, LINES].concat())
}

/// klog on pflag as Kubernetes' components have it: names are normalised, `--log-file` works.
pub fn klog_normalised(compiler: &GoCompiler) -> Vec<u8> {
    let start = r#"package main
import ("flag"; "strings"; "github.com/spf13/pflag"; "k8s.io/klog")
//go:noinline
func WordSepNormalizeFunc(f *pflag.FlagSet, name string) pflag.NormalizedName {
    return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}
func words() []string { return pflag.Args() }
func main() {
    klog.InitFlags(nil)
    pflag.CommandLine.SetNormalizeFunc(WordSepNormalizeFunc)
    pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
    pflag.Parse()
"#;
    built_by(compiler, &[start, LINES].concat())
}

/// klog on pflag without normalisation: only `--log_file`, as with `flag`.
pub fn klog_pflag(compiler: &GoCompiler) -> Vec<u8> {
    let start = r#"package main
import ("flag"; "github.com/spf13/pflag"; "k8s.io/klog")
func words() []string { return pflag.Args() }
func main() {
    klog.InitFlags(nil)
    pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
    pflag.Parse()
"#;
    built_by(compiler, &[start, LINES].concat())
}

/// How a program built with k8s.io/component-base registers klog's flags.
#[derive(Debug, Clone, Copy)]
pub enum Component {
    /// By `InitFlags` of its package `cli/flag`, as cluster-autoscaler does.
    Normalised,
    /// By its package `cli/globalflag` up to 1.21, which takes dashes only.
    Dashed,
    /// By its package `logs/klogflags` from 1.26 on, which leaves most of them out.
    WithoutFlags,
}

/// Debian has no package of component-base: these are packages of our own under its import path, with its functions'
/// names and behaviour.
const COMPONENT_BASE: [(&str, &str); 3] = [
    (
        "cli/flag",
        r#"package flag
import (goflag "flag"; "strings"; "github.com/spf13/pflag")
func WordSepNormalizeFunc(f *pflag.FlagSet, name string) pflag.NormalizedName {
    if strings.Contains(name, "_") { return pflag.NormalizedName(strings.Replace(name, "_", "-", -1)) }
    return pflag.NormalizedName(name)
}
func InitFlags() {
    pflag.CommandLine.SetNormalizeFunc(WordSepNormalizeFunc)
    pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)
    pflag.Parse()
}
"#,
    ),
    (
        "cli/globalflag",
        r#"package globalflag
import ("flag"; "os"; "strings"; "github.com/spf13/pflag"; "k8s.io/klog")
func AddGlobalFlags(fs *pflag.FlagSet) { addKlogFlags(fs) }
func addKlogFlags(fs *pflag.FlagSet) {
    local := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
    klog.InitFlags(local)
    local.VisitAll(func(fl *flag.Flag) { fl.Name = normalize(fl.Name); fs.AddGoFlag(fl) })
}
func normalize(s string) string { return strings.Replace(s, "_", "-", -1) }
"#,
    ),
    (
        "logs/klogflags",
        r#"package klogflags
import ("flag"; "k8s.io/klog")
func Init(fs *flag.FlagSet) {
    var all flag.FlagSet
    klog.InitFlags(&all)
    all.VisitAll(func(f *flag.Flag) { if f.Name == "v" || f.Name == "vmodule" { fs.Var(f.Value, f.Name, f.Usage) } })
}
"#,
    ),
];

/// The packages as Go looks for them: always at the same place, so that what is built with them is kept.
fn component_base() -> PathBuf {
    let root =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(digest(format!("{COMPONENT_BASE:?}").as_bytes()).replace(':', "-"));
    let made = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (path, source) in COMPONENT_BASE {
        let directory = made.path().join("src/k8s.io/component-base").join(path);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("package.go"), source).unwrap();
    }
    // It fails where another test was first.
    let _ = std::fs::rename(made.path(), &root);
    root
}

pub fn klog_component(component: Component, compiler: &GoCompiler) -> Vec<u8> {
    let (import, start) = match component {
        Component::Normalised => {
            ("k8s.io/component-base/cli/flag", "klog.InitFlags(nil)\n    flag.InitFlags()".to_owned())
        }
        Component::Dashed => (
            "k8s.io/component-base/cli/globalflag",
            "globalflag.AddGlobalFlags(pflag.CommandLine)\n    pflag.Parse()".to_owned(),
        ),
        Component::WithoutFlags => {
            let parse = "pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)\n    pflag.Parse()";
            ("k8s.io/component-base/logs/klogflags", format!("klogflags.Init(goflag.CommandLine)\n    {parse}"))
        }
    };
    let source = format!(
        "package main\nimport (goflag \"flag\"; \"{import}\"; \"github.com/spf13/pflag\"; \"k8s.io/klog\")\n\
         var _ = goflag.Parse\nfunc words() []string {{ return pflag.Args() }}\nfunc main() {{\n    {start}\n{LINES}"
    );
    let path = format!("{}:{SOURCES}", component_base().display());
    compiler.build(&source, &[("GOPATH", &path), ("GOARCH", "amd64")], &[])
}

/// klog without its flags: they are linked in, but nobody registers them.
pub fn klog_without_flags(compiler: &GoCompiler) -> Vec<u8> {
    built_by(compiler, "package main\nimport \"k8s.io/klog\"\nfunc main() { klog.Info(\"starts\"); klog.Flush() }\n")
}

pub fn glog(compiler: &GoCompiler) -> Vec<u8> {
    let source = r#"package main
import ("flag"; "github.com/golang/glog")
func main() { flag.Parse(); glog.Info("starts"); glog.Error("goes on"); glog.Flush() }
"#;
    built_by(compiler, source)
}

/// Both, as programs had them that moved from one to the other: klog's flags are in a set of its own
/// that the command line does not reach.
pub fn klog_beside_glog(compiler: &GoCompiler) -> Vec<u8> {
    let source = r#"package main
import ("flag"; "github.com/golang/glog"; "k8s.io/klog")
func main() {
    flag.Parse()
    own := flag.NewFlagSet("klog", flag.ExitOnError)
    klog.InitFlags(own)
    own.Set("logtostderr", "true")
    klog.Info("starts"); glog.Flush(); klog.Flush()
}
"#;
    built_by(compiler, source)
}

/// Writes to both streams, says its words and a variable, and ends as it is told.
pub fn plain() -> Vec<u8> {
    let source = r#"package main
import ("fmt"; "os"; "strconv")
func main() {
    fmt.Println("out", os.Args[1:], os.Getenv("MODE"))
    fmt.Fprintln(os.Stderr, "err")
    code, _ := strconv.Atoi(os.Args[len(os.Args)-1])
    os.Exit(code)
}
"#;
    built(source)
}

/// A log runner. Debian has no package of Kubernetes' component-base, so this is a program of our
/// own with the flags and the behaviour of `kube-log-runner` 1.23: it appends, merges stderr unless
/// told otherwise, copies to stdout when asked, prints the command line, turns failure into 1.
pub fn runner(settings: &[(&str, &str)]) -> Vec<u8> {
    let source = r#"package main
import ("flag"; "io"; "log"; "os"; "os/exec"; "os/signal"; "strings"; "syscall")
func main() {
    file := flag.String("log-file", "", "")
    also := flag.Bool("also-stdout", false, "")
    merge := flag.Bool("redirect-stderr", true, "")
    flag.Parse()
    if flag.NArg() == 0 { log.Fatal("not enough arguments to run") }
    var out, err io.Writer = os.Stdout, os.Stderr
    if *file != "" {
        opened, why := os.OpenFile(*file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
        if why != nil { log.Fatal(why) }
        out = opened
        if *also { out = io.MultiWriter(os.Stdout, opened) }
    }
    if *merge { err = out }
    child := exec.Command(flag.Arg(0), flag.Args()[1:]...)
    child.Stdout, child.Stderr = out, err
    log.Printf("Running command: %s", strings.Join(child.Args, ","))
    if why := child.Start(); why != nil { log.Fatal(why) }
    go func() {
        signals := make(chan os.Signal, 1)
        signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
        child.Process.Signal(<-signals)
    }()
    if why := child.Wait(); why != nil { log.Fatal(why) }
}
"#;
    GoCompiler::usual().build(source, settings, &[])
}
