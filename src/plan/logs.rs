//! Who writes the log file: klog where the binary shows that it can, a runner where there is one,
//! or nobody.

use super::rebase_options::{KlogStyle, LogChoice, RebaseOptions};
use crate::examine::klog_support::{self, Klog};
use crate::examine::{RunnerSubject, log_runner_in};
use crate::process::{Container, search};
use elf::Program;
use layer::{LayerIndex, RootPath};
use shell::ExecCommand;
use shell::logs::{Spelling, Strategy};
use start::rootfs::{FileNode, Root, merge};

/// A runner in the rebased root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerAt {
    pub path: String,
    /// Where it came from.
    pub from: &'static str,
}

/// A strategy, and why it.
#[derive(Debug, Clone)]
pub struct ChosenStrategy {
    pub strategy: Strategy,
    pub why: String,
    /// klog's flags were asked for, and the binary does not show that it takes them.
    pub unproven: Option<Klog>,
}

impl ChosenStrategy {
    /// How many words the strategy puts between the init and the program.
    pub(super) fn words_before(&self, meaning: &ExecCommand, argv: &[String]) -> usize {
        match self.strategy {
            Strategy::Runner(_) => argv.len().saturating_sub(meaning.init.len() + meaning.program.len()),
            Strategy::Klog(_) | Strategy::Stdout => 0,
        }
    }
}

/// No strategy can be used.
#[derive(Debug, Clone)]
pub struct NoStrategy {
    pub path: String,
    pub klog: Klog,
}

/// What could keep the log, best first. There is at least one.
pub(super) fn choices(
    options: &RebaseOptions,
    program: Option<&Program>,
    runner: Option<&RunnerAt>,
    path: &str,
) -> Result<Vec<ChosenStrategy>, NoStrategy> {
    let klog = klog_support::look(program);
    // The spelling that all kinds of klog programs take, unless this one shows another.
    let spelling = program.map_or(Spelling::Underscore, klog_support::spelling);
    let by_klog = || by_klog(&klog, options.klog_style, spelling);
    let by_runner = || runner.map(by_runner);
    let found = match options.logs {
        LogChoice::Klog => vec![by_klog()],
        LogChoice::Stdout => vec![stdout("--logs stdout asks for it")],
        LogChoice::Runner => by_runner().into_iter().collect(),
        // Nobody reads it: that it is in the container's log now does no harm.
        LogChoice::Auto if path == "/dev/null" => vec![stdout("the output was thrown away")],
        LogChoice::Auto => {
            let proven = matches!(klog, Klog::Proven(_)).then(by_klog);
            proven.into_iter().chain(by_runner()).collect()
        }
    };
    if found.is_empty() { Err(NoStrategy { path: path.to_owned(), klog }) } else { Ok(found) }
}

fn by_klog(klog: &Klog, style: KlogStyle, shown: Spelling) -> ChosenStrategy {
    let spelling = match style {
        KlogStyle::Dash => Spelling::Dash,
        KlogStyle::Underscore => Spelling::Underscore,
        KlogStyle::Auto => shown,
    };
    let unproven = match klog {
        // Go's `flag` package ends at a name that it does not know, or never gets to see it.
        Klog::Proven(Spelling::Underscore) if spelling == Spelling::Dash => {
            Some(Klog::Unknown("it does not normalize flag names and accepts only log_file".to_owned()))
        }
        Klog::Proven(_) => None,
        Klog::Glog | Klog::Removed(_) | Klog::Unknown(_) => Some(klog.clone()),
    };
    let why = match spelling {
        _ if unproven.is_some() => "it was asked for",
        Spelling::Underscore => "the program takes klog's flags, with underscores",
        Spelling::Dash | Spelling::AssumedDash => "the program takes klog's flags, and normalises their names",
    };
    ChosenStrategy { strategy: Strategy::Klog(spelling), why: why.to_owned(), unproven }
}

fn by_runner(runner: &RunnerAt) -> ChosenStrategy {
    let why = format!("{} is in {}", runner.path, runner.from);
    ChosenStrategy { strategy: Strategy::Runner(runner.path.clone()), why, unproven: None }
}

fn stdout(why: &str) -> ChosenStrategy {
    ChosenStrategy { strategy: Strategy::Stdout, why: why.to_owned(), unproven: None }
}

/// Where one that is brought along goes, should its own path be taken.
const SPARE: [&str; 2] = ["/go-runner", "/kube-log-runner"];

/// The program of a runner image, as an entry of one of its layers.
pub(super) struct Runner<'a> {
    /// Where it goes in the rebased root. Nothing is there.
    pub(super) path: RootPath,
    pub(super) layer: &'a LayerIndex,
    pub(super) position: usize,
}

/// The program that the runner image starts, to be put into the root `to`.
pub(super) fn runner_of_image<'a>(subject: &'a RunnerSubject, to: &Root<'_>) -> Option<Runner<'a>> {
    let root = merge(subject.layers.iter().map(AsRef::as_ref));
    let container = Container::of(&subject.image.config);
    let found = search(&root, &container, &container.command.program()?)?;
    let (layer, position) = found.file.node.place()?;
    let spare = SPARE.iter().filter_map(|path| RootPath::new(path).ok());
    let path = std::iter::once(found.file.path).chain(spare).find(|path| is_free(to, path))?;
    Some(Runner { path, layer: subject.layers.get(layer)?, position })
}

/// Whether a file can be put there without taking the place of anything, nor through a link.
fn is_free(root: &Root<'_>, path: &RootPath) -> bool {
    let mut above = std::iter::successors(path.parent(), RootPath::parent);
    root.get(path).is_none() && above.all(|parent| root.get(&parent).is_none_or(FileNode::is_directory))
}

/// A runner that the root has.
pub(super) fn runner_in_root(root: &Root<'_>, container: &Container) -> Option<RunnerAt> {
    Some(RunnerAt { path: log_runner_in(root, container)?, from: "the rebased image" })
}

#[cfg(test)]
mod log_runner_tests {
    use super::*;
    use crate::examine::testing::{entry, layer};
    use layer::{Entry, EntryKind};

    #[test]
    fn a_path_is_free_where_nothing_is_and_no_link_leads() {
        let mut own = layer("own");
        let link = |path: &str, to: &str| Entry { kind: EntryKind::Symlink(to.into()), ..entry(path) };
        own.entries = vec![entry("app"), link("bin", "usr/bin"), link("run", "app"), entry("usr/bin/x")];
        let root = merge([&own]);
        for (path, free) in [
            ("/go-runner", true),
            ("/usr/bin/go-runner", true),
            ("/opt/a/b", true),
            ("/app", false),
            ("/app/below", false),
            ("/run", false),
            ("/bin/go-runner", false),
            ("/usr/bin", false),
        ] {
            assert_eq!(is_free(&root, &RootPath::new(path).unwrap()), free, "{path}");
        }
    }
}
