//! Whether a program takes klog's flags for one log file, and how it spells them: facts of the binary.
//!
//! The rule it owns: proven means that the package's flags are registered by a function that is
//! linked in, that the names stand in the program, and that its version still has them. Before 0.4.0 klog
//! wrote lines twice. Kubernetes' own library for components, k8s.io/component-base, registers them no more
//! since 1.26: from then on its logging goes through its package `logs/klogflags`, which calls klog's
//! `InitFlags` on a set of its own and passes only `v` and `vmodule` on. The function table shows that
//! package also where a build names no modules, as Kubernetes' own releases up to 1.24 (`GO111MODULE=off`).

use elf::{GoFacts, Program};
use shell::logs::Spelling;

/// What the binary shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Klog {
    Proven(Spelling),
    /// glog cannot be given the name of a file.
    Glog,
    /// The flags were there once: why they are not any more.
    Removed(String),
    /// Not shown: why.
    Unknown(String),
}

const FLAGS: [&str; 2] = ["log_file", "log_file_max_size"];
const REGISTERS: [&str; 2] = ["k8s.io/klog.InitFlags", "k8s.io/klog/v2.InitFlags"];
/// What turns underscores into dashes.
const NORMALISES: [&str; 2] = ["WordSepNormalizeFunc", "globalflag.normalize"];
/// What registers fewer flags.
const KLOGFLAGS: &str = "k8s.io/component-base/logs/klogflags";
/// The version of klog that came with Kubernetes 1.26.
const DROPPED: (u64, u64) = (2, 80);

#[must_use]
pub fn look(program: Option<&Program>) -> Klog {
    let unknown = |why: &str| Klog::Unknown(why.to_owned());
    let Some(program) = program else { return unknown("the program is not there to be looked at") };
    let Some(go) = &program.go else { return unknown("it is not a Go program") };
    let has = |package: &str| go.packages.iter().any(|there| there == package);
    if !REGISTERS.iter().any(|function| has(function)) {
        if has("github.com/golang/glog") {
            return Klog::Glog;
        }
        return unknown("it does not register klog's flags");
    }
    // Programs that have both give klog a set of flags that the command line does not reach.
    if has("github.com/golang/glog") {
        return unknown("it has glog beside klog, and flags of one name can only be those of one of them");
    }
    if let Some(missing) = FLAGS.iter().find(|flag| !program.mentions.iter().any(|word| word == *flag)) {
        return unknown(&format!("the flag {missing} is not in it"));
    }
    if !program.mentions.iter().any(|word| word == "add_dir_header") {
        return unknown("its klog is older than 0.4.0, which wrote warnings and errors more than once");
    }
    match without_flags(go, has(KLOGFLAGS)) {
        Some(why) if is_core(go) => Klog::Removed(why),
        Some(why) => Klog::Unknown(format!("{why}; its own code may still register them")),
        None => Klog::Proven(spelling(program)),
    }
}

/// Names are normalised by `WordSepNormalizeFunc` (k8s.io/component-base/cli/flag, before 1.14
/// k8s.io/apiserver/pkg/util/flag; cluster-autoscaler gets it by `InitFlags` of that package), or registered with
/// dashes to begin with (k8s.io/component-base/cli/globalflag up to 1.21). Many of these reject underscores.
///
/// Nothing of this depends on whether the flags are proven.
#[must_use]
pub fn spelling(program: &Program) -> Spelling {
    let normalises = |package: &String| NORMALISES.contains(&package.as_str());
    let takes_dashes = program.go.as_ref().is_some_and(|go| go.packages.iter().any(normalises));
    if takes_dashes { Spelling::Dash } else { Spelling::Underscore }
}

/// Why the `InitFlags` that is linked in may not be about the program's own flags.
fn without_flags(go: &GoFacts, has_klogflags: bool) -> Option<String> {
    if has_klogflags {
        return Some(format!("it has {KLOGFLAGS}: Kubernetes' components dropped the flags in 1.26"));
    }
    let version = |path: &str| go.modules.iter().find(|(module, _)| module == path).and_then(|(_, text)| number(text));
    let (major, minor) = version("k8s.io/klog/v2").filter(|klog| is_core(go) && *klog >= DROPPED)?;
    Some(format!("it has klog {major}.{minor}, and Kubernetes' components dropped the flags in 1.26"))
}

fn is_core(go: &GoFacts) -> bool {
    go.module.as_deref() == Some("k8s.io/kubernetes")
        || go.path.as_deref().is_some_and(|path| path.starts_with("k8s.io/kubernetes/"))
}

/// Major and minor of `v2.80.1`.
fn number(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.rsplit(' ').next()?.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::testing::program;
    use elf::Linkage;

    fn with(packages: &[&str], mentions: &[&str], modules: &[(&str, &str)]) -> Program {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let go = GoFacts {
            packages: own(packages),
            modules: modules.iter().map(|(path, version)| ((*path).to_owned(), (*version).to_owned())).collect(),
            ..GoFacts::default()
        };
        Program { go: Some(go), mentions: own(mentions), ..program(Linkage::Static) }
    }

    const ALL: [&str; 3] = ["log_file", "log_file_max_size", "add_dir_header"];

    #[test]
    fn proven_needs_the_function_the_flags_and_a_version_that_has_them() {
        let klog = "k8s.io/klog/v2.InitFlags";
        assert_eq!(look(Some(&with(&[klog], &ALL, &[]))), Klog::Proven(Spelling::Underscore));
        assert_eq!(look(Some(&with(&[klog, "WordSepNormalizeFunc"], &ALL, &[]))), Klog::Proven(Spelling::Dash));
        assert_eq!(look(Some(&with(&["k8s.io/klog.InitFlags"], &ALL, &[]))), Klog::Proven(Spelling::Underscore));
        for missing in ALL {
            let mentions: Vec<&str> = ALL.into_iter().filter(|word| *word != missing).collect();
            assert!(matches!(look(Some(&with(&[klog], &mentions, &[]))), Klog::Unknown(_)), "without {missing}");
        }
        assert!(matches!(look(Some(&with(&["k8s.io/klog/v2"], &ALL, &[]))), Klog::Unknown(_)), "never registered");
        assert!(matches!(look(Some(&program(Linkage::Static))), Klog::Unknown(_)), "not Go");
        assert!(matches!(look(None), Klog::Unknown(_)));
    }

    #[test]
    fn glog_has_no_such_flag() {
        assert_eq!(look(Some(&with(&["github.com/golang/glog"], &ALL, &[]))), Klog::Glog);
        let both = with(&["github.com/golang/glog", "k8s.io/klog.InitFlags"], &ALL, &[]);
        assert!(matches!(look(Some(&both)), Klog::Unknown(_)), "whose flags they are is not shown");
    }

    #[test]
    fn components_have_the_flags_up_to_kubernetes_1_25() {
        let before = ["k8s.io/klog/v2.InitFlags", "k8s.io/component-base", "WordSepNormalizeFunc"];
        let after = [&before[..], &[KLOGFLAGS]].concat();
        let of = |packages: &[&str], modules: &[(&str, &str)], path: Option<&str>| {
            let mut program = with(packages, &ALL, modules);
            program.go.as_mut().unwrap().path = path.map(str::to_owned);
            look(Some(&program))
        };
        let core = Some("k8s.io/kubernetes/cmd/kube-apiserver");
        let old: &[(&str, &str)] = &[("k8s.io/klog/v2", "v2.70.1")];
        let new: &[(&str, &str)] = &[("k8s.io/klog/v2", "v2.80.1")];
        assert_eq!(of(&before, old, core), Klog::Proven(Spelling::Dash));
        assert!(matches!(of(&after, new, core), Klog::Removed(_)));
        assert!(matches!(of(&before, new, core), Klog::Removed(_)), "by its version");
        let autoscaler = Some("k8s.io/autoscaler/cluster-autoscaler");
        assert!(matches!(of(&after, new, autoscaler), Klog::Unknown(_)), "who registers the flags is not shown");
        assert_eq!(of(&before, new, autoscaler), Klog::Proven(Spelling::Dash), "nothing but its own code can");
        // Built with GO111MODULE=off, before Go 1.18 without a path as well.
        assert_eq!(of(&before, &[], None), Klog::Proven(Spelling::Dash));
        assert!(matches!(of(&after, &[], core), Klog::Removed(_)));
        assert!(matches!(of(&after, &[], None), Klog::Unknown(_)));
    }

    #[test]
    fn dashes_are_shown_by_what_normalises_names() {
        for (package, spelling) in [
            ("WordSepNormalizeFunc", Spelling::Dash),
            ("globalflag.normalize", Spelling::Dash),
            ("github.com/spf13/pflag", Spelling::Underscore),
        ] {
            let program = with(&["k8s.io/klog.InitFlags", package], &ALL, &[]);
            assert_eq!(look(Some(&program)), Klog::Proven(spelling), "{package}");
            // Also where klog is too old, or gone: whoever asks for the flags all the same gets them spelt right.
            assert_eq!(super::spelling(&with(&[package], &[], &[])), spelling, "{package}");
        }
    }
}
