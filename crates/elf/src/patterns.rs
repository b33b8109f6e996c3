//! The strings to look for in an ELF file, what it means to find one, and the search for them.
//!
//! At most 64 rows: more could not be searched for at the speed of memory. A row counts wherever
//! its bytes are, also inside or across another row, and across blocks.

use std::sync::LazyLock;

use PatternMeaning::{
    BuildInfo, GlibcRelease, GoRuntime, GoStarter, GoVersion, LibraryName, ManyTools, Mention, ModuleInfo, Package,
    PackedArchive, Runs, RustSource,
};
use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::strings::NameArgument;

/// What it means that a file contains a row's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternMeaning {
    /// The word is mentioned.
    Mention(&'static str),
    /// Functions whose only purpose is to run these tools, and their package.
    Runs(&'static [&'static str], &'static str),
    /// The name of a program that is many tools, whose names it therefore has.
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
    /// A function of Go that starts a program: which argument names it.
    GoStarter(NameArgument),
    /// The path of a source file in Rust's own library.
    RustSource,
    /// The mark of an archive that a program unpacks when it starts.
    PackedArchive,
    /// Part of the line in which glibc's library and its loader say which build they are.
    GlibcRelease,
}

/// Functions without which a Go program cannot start another one.
pub(super) const GO_STARTERS: [&str; 2] = ["syscall.forkExec", "syscall.Exec"];

pub(super) const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
pub(super) const MODULE_INFO: &[u8] = b"\x30\x77\xaf\x0c\x92\x74\x08\x02\x41\xe1\xc1\x07\xe6\xd6\x18\xe6";

const fn mention(word: &'static str) -> (&'static [u8], PatternMeaning) {
    (word.as_bytes(), Mention(word))
}

/// What kube-proxy's package runs: for both protocols, and to read and write whole tables.
const IPTABLES: &[&str] =
    &["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];
const MOUNT: &[&str] = &["mount", "umount"];

/// Packages are recognised by the names of their functions (`k8s.io/klog/v2.InitFlags`), which
/// stripping does not remove. Paths of source files and of modules have no such dot.
pub(super) const TABLE: &[(&[u8], PatternMeaning)] = &[
    // klog's flags
    mention("log_file"),
    mention("log-file"),
    mention("logtostderr"),
    mention("log_file_max_size"),
    mention("add_dir_header"),
    // packages whose only purpose is to run tools
    (b"/iptables.(*runner).", Runs(IPTABLES, "k8s.io/kubernetes/pkg/util/iptables")),
    (b"/iptables.(*IPTables).", Runs(&["iptables", "ip6tables"], "github.com/coreos/go-iptables/iptables")),
    (b"/ebtables.(*runner).", Runs(&["ebtables"], "k8s.io/kubernetes/pkg/util/ebtables")),
    (b"/ipset.(*runner).", Runs(&["ipset"], "k8s.io/kubernetes/pkg/util/ipset")),
    (b"/conntrack.Exec\0", Runs(&["conntrack"], "k8s.io/kubernetes/pkg/util/conntrack")),
    (b"/knftables.(*realNFTables).", Runs(&["nft"], "sigs.k8s.io/knftables")),
    // Whoever has it mounts the volumes of pods; before the packages that do it, which others link and never use.
    (b"/pkg/kubelet/volumemanager.(*volumeManager).", Runs(MOUNT, "k8s.io/kubernetes/pkg/kubelet/volumemanager")),
    (b"/mount-utils.(*Mounter).", Runs(MOUNT, "k8s.io/mount-utils")),
    (b"k8s.io/utils/mount.(*Mounter).", Runs(MOUNT, "k8s.io/utils/mount")),
    (b"/pkg/util/mount.(*Mounter).", Runs(MOUNT, "k8s.io/kubernetes/pkg/util/mount")),
    (
        b"/volumepathhandler.(*VolumePathHandler).",
        Runs(&["losetup"], "k8s.io/kubernetes/pkg/volume/util/volumepathhandler"),
    ),
    (b"/nsenter.(*NSEnter).", Runs(&["nsenter"], "k8s.io/utils/nsenter")),
    (b"/nsenter.(*Nsenter).", Runs(&["nsenter"], "k8s.io/kubernetes/pkg/util/nsenter")),
    (b"BusyBox v", ManyTools),
    (b"toybox ", ManyTools),
    // Go
    (b"k8s.io/klog.", Package("k8s.io/klog")),
    (b"k8s.io/klog/v2.", Package("k8s.io/klog/v2")),
    (b"k8s.io/klog.InitFlags", Package("k8s.io/klog.InitFlags")),
    (b"k8s.io/klog/v2.InitFlags", Package("k8s.io/klog/v2.InitFlags")),
    (b"github.com/golang/glog.", Package("github.com/golang/glog")),
    (b"k8s.io/component-base/", Package("k8s.io/component-base")),
    (b"k8s.io/component-base/logs/klogflags.", Package("k8s.io/component-base/logs/klogflags")),
    // Also `WarnWordSepNormalizeFunc`, and `wordSepNormalizeFunc` of pflag's own documentation.
    (b"ordSepNormalizeFunc", Package("WordSepNormalizeFunc")),
    (b"/globalflag.normalize", Package("globalflag.normalize")),
    (b"github.com/spf13/pflag.", Package("github.com/spf13/pflag")),
    (b"os/exec.(*Cmd).Start\0", Package("os/exec")),
    (b"syscall.forkExec\0", Package("syscall.forkExec")),
    (b"syscall.Exec\0", Package("syscall.Exec")),
    (b"\0os/exec.Command\0", GoStarter(NameArgument::First)),
    (b"\0os/exec.CommandContext\0", GoStarter(NameArgument::Second)),
    (b"\0os/exec.LookPath\0", GoStarter(NameArgument::First)),
    (b"\0os.StartProcess\0", GoStarter(NameArgument::First)),
    (b"\0syscall.StartProcess\0", GoStarter(NameArgument::First)),
    // What the three above do, where they are inlined.
    (b"\0os/exec.lookPath\0", GoStarter(NameArgument::First)),
    (b"\0os.startProcess\0", GoStarter(NameArgument::First)),
    (b"\0syscall.forkExec\0", GoStarter(NameArgument::First)),
    (b"\0syscall.Exec\0", GoStarter(NameArgument::First)),
    (b"\0runtime.goexit", GoRuntime),
    (b"/rustc/", RustSource),
    // PyInstaller
    (b"MEI\x0c\x0b\x0a\x0b\x0e", PackedArchive),
    (b"go1.", GoVersion),
    (BUILD_INFO, BuildInfo),
    (MODULE_INFO, ModuleInfo),
    (b" release version 2.", GlibcRelease),
    // Names that the dynamic section will refer to. It comes after them.
    (b".so.", LibraryName),
    (b".so\0", LibraryName),
];

struct Patterns {
    automaton: Option<AhoCorasick>,
    /// For each row, the rows that begin it and itself, one bit each.
    heads: Vec<u64>,
    longest: usize,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    // The longest match: every other row that matches there is the beginning of it.
    automaton: AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(rows()).ok(),
    heads: rows().map(|row| bits(|other| row.starts_with(other))).collect(),
    longest: rows().map(<[u8]>::len).max().unwrap_or(0),
});

fn rows() -> impl Iterator<Item = &'static [u8]> {
    TABLE.iter().map(|(bytes, _)| *bytes)
}

fn bits(is_set: impl Fn(&[u8]) -> bool) -> u64 {
    rows().enumerate().filter(|(_, row)| is_set(row)).fold(0, |bits, (at, _)| bits | 1 << at)
}

/// A row that was found, where its place is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternHit {
    pub meaning: PatternMeaning,
    pub offset: u64,
}

/// Whether the file goes on after the bytes that are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEnd {
    NotYet,
    Reached,
}

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct PatternSearch {
    /// One bit for each row.
    found: u64,
}

impl PatternSearch {
    /// Searches `bytes`, which are at `start` in the file. The first `seen` of them have
    /// been searched before.
    pub fn look(&mut self, bytes: &[u8], start: u64, seen: usize, rest: FileEnd) -> Vec<PatternHit> {
        let Patterns { automaton: Some(automaton), longest, .. } = &*PATTERNS else { return Vec::new() };
        let mut hits = Vec::new();
        let mut from = seen.saturating_sub(*longest);
        while let Some(found) = automaton.find(Input::new(bytes).range(from..)) {
            from = found.start() + 1;
            // Found before, or perhaps the beginning of a longer row that is still to come.
            let may_be_longer = rest == FileEnd::NotYet && found.start().saturating_add(*longest) > bytes.len();
            if found.start().saturating_add(*longest) <= seen || may_be_longer {
                continue;
            }
            let meaning = self.note(found.pattern().as_usize());
            if let Some(meaning) = meaning.filter(|meaning| meaning.has_a_place()) {
                hits.push(PatternHit { meaning, offset: start + found.start() as u64 });
            }
        }
        hits
    }

    fn note(&mut self, row: usize) -> Option<PatternMeaning> {
        self.found |= PATTERNS.heads.get(row).copied().unwrap_or(0);
        TABLE.get(row).map(|(_, meaning)| *meaning)
    }

    /// The meanings of all rows that were found, in the order of the table.
    pub fn found(&self) -> impl Iterator<Item = PatternMeaning> {
        TABLE.iter().enumerate().filter(|(at, _)| self.found >> at & 1 == 1).map(|(_, (_, meaning))| *meaning)
    }
}

impl PatternMeaning {
    fn has_a_place(self) -> bool {
        matches!(
            self,
            Self::LibraryName
                | Self::GoVersion
                | Self::BuildInfo
                | Self::ModuleInfo
                | Self::GoStarter(_)
                | Self::PackedArchive
                | Self::GlibcRelease
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::BUILD_INFO;

    fn found(text: &str) -> Vec<&'static str> {
        let mut search = PatternSearch::default();
        search.look(text.as_bytes(), 0, 0, FileEnd::Reached);
        let word = |meaning| match meaning {
            PatternMeaning::Mention(word) | PatternMeaning::Package(word) => Some(word),
            PatternMeaning::Runs(_, package) => Some(package),
            _ => None,
        };
        search.found().filter_map(word).collect()
    }

    #[test]
    fn the_table_fits_the_search() {
        assert!(TABLE.len() <= 64);
        assert!(PATTERNS.automaton.is_some());
        assert!(rows().all(|row| row.len() >= 4), "shorter rows would be found everywhere");
        // A row inside another one, but not at its beginning, would be missed only if it began earlier.
        assert!(PATTERNS.longest < crate::window::CARRY);
    }

    #[test]
    fn rows_are_found_inside_and_across_each_other() {
        for (text, expected) in [
            ("--log_file_max_size=0", vec!["log_file", "log_file_max_size"]),
            ("log-filelog_file", vec!["log_file", "log-file"]),
            ("k8s.io/klog.InitFlags", vec!["k8s.io/klog", "k8s.io/klog.InitFlags"]),
            ("k8s.io/klog/v2.InitFlags", vec!["k8s.io/klog/v2", "k8s.io/klog/v2.InitFlags"]),
            ("k8s.io/klog/v2.Info", vec!["k8s.io/klog/v2"]),
            ("/go/pkg/mod/k8s.io/klog/v2@v2.80.1/klog.go", vec![]),
            ("k8s.io/kubernetes/vendor/k8s.io/klog.Info", vec!["k8s.io/klog"]),
            (
                "k8s.io/component-base/cli/flag.WordSepNormalizeFunc",
                vec!["k8s.io/component-base", "WordSepNormalizeFunc"],
            ),
            ("main.wordSepNormalizeFunc", vec!["WordSepNormalizeFunc"]),
            ("k8s.io/component-base/cli/globalflag.normalize", vec!["k8s.io/component-base", "globalflag.normalize"]),
            (
                "k8s.io/kubernetes/vendor/k8s.io/component-base/logs/klogflags.Init",
                vec!["k8s.io/component-base", "k8s.io/component-base/logs/klogflags"],
            ),
            ("k8s.io/mount-utils.(*Mounter).Mount", vec!["k8s.io/mount-utils"]),
            ("log_fil", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_stands_across_two_blocks_is_found_once() {
        let bytes = [b"xx", BUILD_INFO, b"\0log_file_max_size"].concat();
        let whole = PatternSearch::default().look(&bytes, 1000, 0, FileEnd::Reached);
        assert_eq!(whole, [PatternHit { meaning: PatternMeaning::BuildInfo, offset: 1002 }]);
        for cut in 0..=bytes.len() {
            let mut search = PatternSearch::default();
            let mut hits = search.look(&bytes[..cut], 1000, 0, FileEnd::NotYet);
            hits.extend(search.look(&bytes, 1000, cut, FileEnd::Reached));
            assert_eq!(hits, whole, "cut at {cut}");
            assert!(search.found().any(|meaning| meaning == PatternMeaning::Mention("log_file_max_size")), "{cut}");
        }
    }
}
