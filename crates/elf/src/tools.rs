//! The tools that packages of a Go program are there to run.

use super::go_facts::GoFacts;
use super::patterns::{GO_STARTERS, PatternMeaning, PatternSearch};
use super::program::Tool;

/// Each tool once, in the order of the table. A Go program that cannot start others runs none.
pub(super) fn run_by_packages(search: &PatternSearch, go: Option<&GoFacts>) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for meaning in search.found().filter(|_| go.is_some_and(starts_others)) {
        let PatternMeaning::Runs(names, package) = meaning else { continue };
        for name in names {
            if tools.iter().all(|tool| tool.name != *name) {
                tools.push(Tool { name: (*name).to_owned(), package: package.to_owned() });
            }
        }
    }
    tools
}

/// Every way to start a program goes through one of these functions.
pub(super) fn starts_others(go: &GoFacts) -> bool {
    go.packages.iter().any(|package| GO_STARTERS.contains(&package.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{EXEC, TestElf, probe};
    use crate::{Linkage, Program};

    /// A static program with these words in a tail of 3 MiB, each at its place.
    fn with_words(words: &[(usize, &[u8])]) -> Program {
        let mut tail = vec![b'.'; 3 << 20];
        for (at, word) in words {
            tail[*at..at + word.len()].copy_from_slice(word);
        }
        probe(&TestElf { tail, ..TestElf::new(EXEC) }.build())
    }

    #[test]
    fn flags_of_klog_are_found_wherever_they_stand() {
        let program = with_words(&[((1 << 20) - 3, b"log_file"), (2_000_000, b"log_file_max_size")]);
        assert_eq!(program.linkage, Linkage::Static);
        assert_eq!(program.mentions, ["log_file", "log_file_max_size"]);
        assert_eq!(program.go, None);
    }

    #[test]
    fn a_go_program_runs_nothing_without_the_functions_that_do() {
        let words: &[(usize, &[u8])] = &[(100, b"\0runtime.goexit\0"), (300, b"k8s.io/mount-utils.(*Mounter).Mount\0")];
        let starter: &[(usize, &[u8])] = &[(400, b"\0syscall.forkExec\0"), (500, b"\0os/exec.(*Cmd).Start\0")];
        assert_eq!(with_words(words).runs, []);
        let program = with_words(&[words, starter].concat());
        let names: Vec<&str> = program.runs.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["mount", "umount"]);
        assert_eq!(program.runs[0].package, "k8s.io/mount-utils");
        assert_eq!(program.go.unwrap().packages, ["os/exec", "syscall.forkExec"]);
        assert_eq!(with_words(&[&words[1..], starter].concat()).runs, [], "not Go");
    }

    #[test]
    fn packages_run_all_their_tools_also_where_they_are_vendored() {
        let starter: &[(usize, &[u8])] = &[(100, b"\0runtime.goexit\0"), (200, b"\0syscall.forkExec\0")];
        for (function, expected) in [
            (
                &b"k8s.io/kubernetes/pkg/util/iptables.(*runner).EnsureChain\0"[..],
                &["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"]
                    [..],
            ),
            (b"x.io/a/vendor/github.com/coreos/go-iptables/iptables.(*IPTables).run\0", &["iptables", "ip6tables"]),
            (b"k8s.io/kubernetes/vendor/k8s.io/mount-utils.(*Mounter).Mount\0", &["mount", "umount"]),
            (b"k8s.io/kubernetes/pkg/kubelet/volumemanager.(*volumeManager).Run\0", &["mount", "umount"]),
            (b"k8s.io/kubernetes/pkg/proxy/ipvs/ipset.(*runner).AddEntry\0", &["ipset"]),
            (b"k8s.io/kubernetes/pkg/proxy/conntrack.Exec\0", &["conntrack"]),
            (b"k8s.io/kubernetes/pkg/volume/util/volumepathhandler.(*VolumePathHandler).GetLoopDevice\0", &["losetup"]),
            (b"sigs.k8s.io/knftables.(*realNFTables).Run\0", &["nft"]),
            (b"k8s.io/utils/nsenter.(*NSEnter).Exec\0", &["nsenter"]),
            (b"k8s.io/kubernetes/pkg/util/ebtables.(*runner).EnsureChain\0", &["ebtables"]),
            (b"k8s.io/kubernetes/pkg/util/iptables/iptables.go\0", &[]),
            (b"k8s.io/kubernetes/pkg/util/iptables.init\0", &[]),
        ] {
            let names = |program: Program| program.runs.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
            let text = String::from_utf8_lossy(function).into_owned();
            assert_eq!(names(with_words(&[starter, &[(300, function)]].concat())), expected, "{text}");
            assert!(names(with_words(&[(100, b"\0runtime.goexit\0"), (300, function)])).is_empty(), "{text}");
        }
    }
}
