//! The table of what is looked for in the bytes of an ELF file, and what it means to find it.
//!
//! At most 64 rows: more could not be searched for at the speed of memory.

/// What it means that a row's bytes stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The word is mentioned.
    Mention(&'static str),
    /// The name of a tool. What stands around it decides; see `sighting`.
    Tool(&'static str, Proof),
    /// Functions that are there only to run a tool: the tool, and their package.
    Runs(&'static str, &'static str),
    /// The name of a library that programs load at run time.
    Library(&'static str),
    /// A program that is many tools, whose names it therefore has.
    ManyTools,
    /// A Go package, or a function of one, is linked in.
    Package(&'static str),
    /// Part of the name of a library: the dynamic section may refer to it later.
    LibraryName,
    /// Perhaps the version of a Go toolchain: build info may refer to it later.
    GoVersion,
    /// Perhaps the beginning of Go's build info.
    BuildInfo,
    /// Perhaps the beginning of Go's list of modules.
    ModuleInfo,
    /// A function that every Go program has.
    GoRuntime,
}

/// What shows that the name of a tool stands for the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The word alone: it means nothing else.
    Word,
    /// A path, or a command line: the word means other things as well. `mount` is a system call,
    /// `conntrack` names metrics, `ruby` is an element of HTML, `ipset` a part of words.
    Path,
}

use Meaning::{
    BuildInfo, GoRuntime, GoVersion, Library, LibraryName, ManyTools, Mention, ModuleInfo, Package, Runs, Tool,
};

/// Functions without which a Go program cannot start another one.
pub(super) const GO_STARTERS: [&str; 2] = ["syscall.forkExec", "syscall.Exec"];

pub(super) const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
pub(super) const MODULE_INFO: &[u8] = b"\x30\x77\xaf\x0c\x92\x74\x08\x02\x41\xe1\xc1\x07\xe6\xd6\x18\xe6";

const fn mention(word: &'static str) -> (&'static [u8], Meaning) {
    (word.as_bytes(), Mention(word))
}

const fn tool(word: &'static str, proof: Proof) -> (&'static [u8], Meaning) {
    (word.as_bytes(), Tool(word, proof))
}

const fn library(name: &'static str) -> (&'static [u8], Meaning) {
    (name.as_bytes(), Library(name))
}

/// Packages are recognised by the names of their functions (`k8s.io/klog/v2.InitFlags`), which
/// stripping does not remove. Paths of source files and of modules have no such dot.
pub(super) const TABLE: &[(&[u8], Meaning)] = &[
    // klog's flags
    mention("log_file"),
    mention("log-file"),
    mention("logtostderr"),
    mention("log_file_max_size"),
    mention("add_dir_header"),
    // tools that programs run
    tool("iptables", Proof::Word),
    tool("ip6tables", Proof::Word),
    tool("ebtables", Proof::Word),
    tool("dnsmasq", Proof::Word),
    tool("ethtool", Proof::Word),
    tool("kubectl", Proof::Word),
    tool("modprobe", Proof::Word),
    tool("nsenter", Proof::Word),
    tool("systemctl", Proof::Word),
    tool("ipset", Proof::Path),
    tool("conntrack", Proof::Path),
    tool("mount", Proof::Path),
    tool("umount", Proof::Path),
    tool("socat", Proof::Path),
    tool("ruby", Proof::Path),
    tool("mkfs", Proof::Path),
    tool("fsck", Proof::Path),
    (b"/iptables.(*runner).", Runs("iptables", "k8s.io/kubernetes/pkg/util/iptables")),
    (b"/iptables.(*IPTables).", Runs("iptables", "github.com/coreos/go-iptables/iptables")),
    (b"/ipset.(*runner).", Runs("ipset", "k8s.io/kubernetes/pkg/util/ipset")),
    (b"/conntrack.Exec\0", Runs("conntrack", "k8s.io/kubernetes/pkg/util/conntrack")),
    (b"/mount-utils.(*Mounter).", Runs("mount", "k8s.io/mount-utils")),
    (b"k8s.io/utils/mount.(*Mounter).", Runs("mount", "k8s.io/utils/mount")),
    (b"/pkg/util/mount.(*Mounter).", Runs("mount", "k8s.io/kubernetes/pkg/util/mount")),
    (b"BusyBox v", ManyTools),
    (b"toybox ", ManyTools),
    // libraries that programs load at run time; not those that a static glibc itself may load
    library("libsystemd.so"),
    library("libnvidia-ml.so"),
    library("libcuda.so"),
    library("libseccomp.so"),
    library("libdevmapper.so"),
    library("libvirt.so"),
    library("libcrypto.so"),
    library("libssl.so"),
    library("libudev.so"),
    library("libpam.so"),
    // Go
    (b"k8s.io/klog.", Package("k8s.io/klog")),
    (b"k8s.io/klog/v2.", Package("k8s.io/klog/v2")),
    (b"k8s.io/klog.InitFlags", Package("k8s.io/klog.InitFlags")),
    (b"k8s.io/klog/v2.InitFlags", Package("k8s.io/klog/v2.InitFlags")),
    (b"github.com/golang/glog.", Package("github.com/golang/glog")),
    (b"k8s.io/component-base/", Package("k8s.io/component-base")),
    (b".WordSepNormalizeFunc", Package("WordSepNormalizeFunc")),
    (b"github.com/spf13/pflag.", Package("github.com/spf13/pflag")),
    (b"os/exec.(*Cmd).Start\0", Package("os/exec")),
    (b"syscall.forkExec\0", Package("syscall.forkExec")),
    (b"syscall.Exec\0", Package("syscall.Exec")),
    (b"\0runtime.goexit", GoRuntime),
    (b"go1.", GoVersion),
    (BUILD_INFO, BuildInfo),
    (MODULE_INFO, ModuleInfo),
    // Names that the dynamic section will refer to. It comes after them.
    (b".so.", LibraryName),
    (b".so\0", LibraryName),
];
