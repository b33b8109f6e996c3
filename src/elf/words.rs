//! The table of what is looked for in the bytes of an ELF file, and what it means to find it.
//!
//! At most 64 rows: more could not be searched for at the speed of memory.

/// What it means that a row's bytes stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The word is mentioned.
    Mention(&'static str),
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

use Meaning::{BuildInfo, GoRuntime, GoVersion, LibraryName, Mention, ModuleInfo, Package};

pub(super) const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
pub(super) const MODULE_INFO: &[u8] = b"\x30\x77\xaf\x0c\x92\x74\x08\x02\x41\xe1\xc1\x07\xe6\xd6\x18\xe6";

const fn mention(word: &'static str) -> (&'static [u8], Meaning) {
    (word.as_bytes(), Mention(word))
}

/// Packages are recognised by the names of their functions (`k8s.io/klog/v2.InitFlags`), which
/// stripping does not remove. Paths of source files and of modules have no such dot.
pub(super) const TABLE: &[(&[u8], Meaning)] = &[
    // klog's flags
    mention("log_file"),
    mention("log-file"),
    mention("logtostderr"),
    mention("log_file_max_size"),
    // tools that programs run
    mention("iptables"),
    mention("ip6tables"),
    mention("ebtables"),
    mention("ipset"),
    mention("conntrack"),
    mention("mount"),
    mention("umount"),
    mention("kubectl"),
    mention("dnsmasq"),
    mention("ruby"),
    mention("modprobe"),
    mention("nsenter"),
    mention("ethtool"),
    mention("socat"),
    mention("systemctl"),
    mention("mkfs"),
    mention("fsck"),
    // libraries that programs load at run time
    mention("libsystemd.so"),
    // Go
    (b"k8s.io/klog.", Package("k8s.io/klog")),
    (b"k8s.io/klog/v2.", Package("k8s.io/klog/v2")),
    (b"github.com/golang/glog.", Package("github.com/golang/glog")),
    (b"k8s.io/component-base/", Package("k8s.io/component-base")),
    (b".WordSepNormalizeFunc", Package("WordSepNormalizeFunc")),
    (b"github.com/spf13/pflag.", Package("github.com/spf13/pflag")),
    (b"\0runtime.goexit", GoRuntime),
    (b"go1.", GoVersion),
    (BUILD_INFO, BuildInfo),
    (MODULE_INFO, ModuleInfo),
    // Names that the dynamic section will refer to. It comes after them.
    (b".so.", LibraryName),
    (b".so\0", LibraryName),
];
