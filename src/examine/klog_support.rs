//! Whether a program takes klog's flags for one log file, and how it spells them: facts of the binary.
//!
//! The rule it owns: proven means that the package's flags are registered by a function that is
//! linked in, that the names stand in the program, and that its version still has them. Kubernetes'
//! own components dropped them in 1.26, which came with klog 2.80; before 0.4.0 klog wrote lines twice.

use crate::elf::{GoFacts, Program};
use crate::shell::logs::Spelling;

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
    if has("k8s.io/component-base") {
        return component(go, spelling(has));
    }
    Klog::Proven(spelling(has))
}

fn spelling(has: impl Fn(&str) -> bool) -> Spelling {
    if has("WordSepNormalizeFunc") { Spelling::Dash } else { Spelling::Underscore }
}

/// A program built with Kubernetes' own library for components, which decides on the flags.
fn component(go: &GoFacts, spelling: Spelling) -> Klog {
    let version = |path: &str| go.modules.iter().find(|(module, _)| module == path).and_then(|(_, text)| number(text));
    let klog = version("k8s.io/klog/v2").or_else(|| version("k8s.io/klog"));
    let is_core = go.module.as_deref() == Some("k8s.io/kubernetes")
        || go.path.as_deref().is_some_and(|path| path.starts_with("k8s.io/kubernetes/"));
    match klog {
        Some(klog) if klog < DROPPED => Klog::Proven(spelling),
        Some((major, minor)) if is_core => {
            Klog::Removed(format!("it has klog {major}.{minor}, and Kubernetes' components dropped the flags in 1.26"))
        }
        Some((major, minor)) => Klog::Unknown(format!(
            "it has klog {major}.{minor} and k8s.io/component-base, which from 1.26 on registers the flags no more; its own code may"
        )),
        None => Klog::Unknown("it is built with k8s.io/component-base, and does not say of which version".to_owned()),
    }
}

/// Major and minor of `v2.80.1`.
fn number(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.rsplit(' ').next()?.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Linkage;
    use crate::examine::testing::program;

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
        let packages = ["k8s.io/klog/v2.InitFlags", "k8s.io/component-base", "WordSepNormalizeFunc"];
        let of = |version: &str, path: &str| {
            let mut program = with(&packages, &ALL, &[("k8s.io/klog/v2", version)]);
            program.go.as_mut().unwrap().path = Some(path.to_owned());
            look(Some(&program))
        };
        let core = "k8s.io/kubernetes/cmd/kube-apiserver";
        assert_eq!(of("v2.70.1", core), Klog::Proven(Spelling::Dash));
        assert!(matches!(of("v2.80.1", core), Klog::Removed(_)));
        assert!(matches!(of("v2.130.1", "k8s.io/autoscaler/cluster-autoscaler"), Klog::Unknown(_)));
        assert!(matches!(look(Some(&with(&packages, &ALL, &[]))), Klog::Unknown(_)), "of unknown version");
    }
}
