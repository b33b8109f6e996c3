//! The chain of `execve` calls from the first word of a command to the program that stays: as a runtime,
//! the kernel and each wrapper would make them, for the user that the process has by then.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::accounts::{Accounts, Identity, UnknownAccount, groups_of, identify};
use super::container::DEFAULT_PATH;
use super::pod::PodSurroundings;
use super::wrapper::{self, EnvironmentChange, GroupChange, IdChange, UserChange, Wrapped};
use elf::{Linkage, Program};
use layer::{EntryKind, RootPath};
use shell::{self, CommandContext, ImageContext, Surroundings, UsedCommands, Verdict, used_commands};
use start::link::{Linked, Linker, LoaderEnvironment, Missing, NeededLevel};
use start::rootfs::{Access, Credentials, FoundBy, FoundCommand, Resolved, Root};

/// `#!` lines that the kernel follows in one call.
const MOST_INTERPRETERS: usize = 5;
/// Programs in a chain; real ones have three.
const LONGEST: usize = 32;

/// A file that is executed.
#[derive(Debug, Clone)]
pub struct Executed {
    /// As the command, the `#!` line or the wrapper names it.
    pub word: String,
    /// The path that is executed, before any link.
    pub written: String,
    /// Where the file is.
    pub path: RootPath,
    pub role: Role,
    /// `None` for a file that is neither ELF nor script.
    pub program: Option<Program>,
    pub stamp: FileStamp,
    /// The first thing that its loader would miss.
    pub lacks: Option<Missing>,
    /// The level of its machine that its loader asks for.
    pub level: Option<NeededLevel>,
    /// The number of the layer that put it there.
    pub layer: usize,
}

/// What an executed file is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It hands over to the next.
    Wrapper,
    Script,
    /// It reads a script.
    Interpreter,
    /// It stays.
    Program,
    /// A script runs it, beside others.
    Called,
}

/// What tells one file from another without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    pub kind: EntryKind,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: i64,
}

/// How the chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainEnd {
    /// The image has no command: whoever runs it must give one.
    NoCommand,
    /// The last program of the chain runs.
    Runs,
    /// The last of the chain is a wrapper, and nothing is behind it.
    NothingBehind,
    /// A shell of the root interprets what cannot be reduced to one program.
    Shell(ShellScript),
    /// A word leads to a volume of the pod: what is there is not the image's.
    Mounted(String),
    /// A word leads to no program that the user may execute. The reasons, one for each path that was tried.
    Lost { word: String, reasons: String },
    /// The last of the chain is a script, and this interpreter of it is not there.
    NoInterpreter { interpreter: String, reasons: String },
    /// The last of the chain is no program: text, a library, a damaged file.
    NotAProgram,
    /// `#!` lines that lead from one to the next, or wrappers without end.
    TooDeep,
    /// A wrapper has an option that is not known.
    UnknownOption(String),
    /// A wrapper changes to an account that the root does not have.
    UnknownUser(UnknownAccount),
    /// A wrapper changes the user, which only root may.
    MayNotChangeUser,
}

/// What a shell interprets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellScript {
    /// The file, where it is one.
    pub path: Option<String>,
    /// What it names, with the scripts that it reads in.
    pub used: UsedCommands,
    /// Whether all of it could be read.
    pub is_read: bool,
}

/// The process at one moment of the chain.
#[derive(Debug, Clone)]
pub(super) struct ProcessState {
    pub(super) argv: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) working_dir: RootPath,
    pub(super) identity: Identity,
}

impl ProcessState {
    fn search_path(&self) -> &str {
        let paths = self.environment.iter().filter(|(name, _)| name == "PATH");
        paths.map(|(_, value)| value.as_str()).next_back().unwrap_or(DEFAULT_PATH)
    }

    fn change(&mut self, change: EnvironmentChange) {
        if change.is_cleared {
            self.environment.clear();
        }
        let is_gone = |name: &String| change.removed.contains(name) || change.set.iter().any(|(new, _)| new == name);
        self.environment.retain(|(name, _)| !is_gone(name));
        self.environment.extend(change.set);
    }
}

pub(super) struct ChainWalk<'r> {
    pub(super) root: &'r Root<'r>,
    pub(super) accounts: &'r Accounts,
    pub(super) state: ProcessState,
    pub(super) chain: Vec<Executed>,
    surroundings: &'r PodSurroundings,
    interpreters: usize,
    linker: Linker<'r>,
}

impl<'r> ChainWalk<'r> {
    pub(super) fn new(
        (root, surroundings): (&'r Root<'r>, &'r PodSurroundings),
        accounts: &'r Accounts,
        state: ProcessState,
    ) -> Self {
        Self { root, accounts, state, chain: Vec::new(), surroundings, interpreters: 0, linker: Linker::new(root) }
    }

    /// Goes on until something stays, or nothing can.
    pub(super) fn follow(&mut self) -> ChainEnd {
        if self.state.argv.is_empty() {
            return ChainEnd::NoCommand;
        }
        loop {
            if self.chain.len() >= LONGEST {
                return ChainEnd::TooDeep;
            }
            if let ControlFlow::Break(end) = self.step() {
                return end;
            }
        }
    }

    fn step(&mut self) -> ControlFlow<ChainEnd> {
        let word = self.state.argv.first().cloned().unwrap_or_default();
        let found = match self.search(&word) {
            Ok(found) => found,
            Err(_) if self.is_mounted(&word) => return ControlFlow::Break(ChainEnd::Mounted(word)),
            Err(reasons) => return ControlFlow::Break(ChainEnd::Lost { word, reasons }),
        };
        let program = self.root.program(found.file.node);
        match program.map(|program| program.linkage) {
            Some(Linkage::Script) => self.script(&word, &found),
            Some(Linkage::Static | Linkage::StaticPie | Linkage::Dynamic) => self.program(&word, &found),
            None | Some(Linkage::SharedObject | Linkage::Other) => {
                self.push(&word, &found.written, &found.file, Role::Program);
                ControlFlow::Break(ChainEnd::NotAProgram)
            }
        }
    }

    fn search(&self, word: &str) -> Result<FoundCommand<'r>, String> {
        let ProcessState { working_dir, identity, .. } = &self.state;
        let found = self.root.search_as(word, self.state.search_path(), working_dir, Some(&identity.credentials));
        match found {
            Ok(found) if found.found_by == FoundBy::RelativeDirectory && self.is_searched_by_go() => {
                Err(format!("{}: it is found through a relative directory of PATH, which is refused", found.written))
            }
            found => found.map_err(|lost| lost.to_string()),
        }
    }

    /// Whether a volume may bring what the word leads to.
    fn is_mounted(&self, word: &str) -> bool {
        let is_on_volume = |path: &str| {
            let path =
                if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.state.working_dir) };
            RootPath::new(path).is_ok_and(|path| self.surroundings.mount_of(&path).is_some())
        };
        if word.contains('/') { is_on_volume(word) } else { self.state.search_path().split(':').any(is_on_volume) }
    }

    /// Who looks for the next program: the runtime, or the last of the chain.
    fn is_searched_by_go(&self) -> bool {
        let last = self.chain.iter().rfind(|executed| executed.role == Role::Wrapper);
        last.is_none_or(|last| last.program.as_ref().is_some_and(|program| program.go.is_some()))
    }

    fn push(&mut self, word: &str, written: &str, file: &Resolved<'_>, role: Role) {
        let ProcessState { environment, working_dir, identity, .. } = &self.state;
        let environment = LoaderEnvironment::new(environment, working_dir.clone(), identity.credentials.clone());
        let program = self.root.program(file.node);
        let is_dynamic = program.is_some_and(|program| program.linkage == Linkage::Dynamic);
        let linked = if is_dynamic { self.linker.closure(&file.path, &environment) } else { Linked::default() };
        self.chain.push(executed(self.root, word, written, file, role, linked));
    }

    /// A `#!` line: the kernel starts the interpreter with the path of the script.
    fn script(&mut self, word: &str, found: &FoundCommand<'r>) -> ControlFlow<ChainEnd> {
        self.push(word, &found.written, &found.file, Role::Script);
        self.interpreters += 1;
        if self.interpreters > MOST_INTERPRETERS {
            return ControlFlow::Break(ChainEnd::TooDeep);
        }
        let script = self.root.program(found.file.node).and_then(|program| program.script.as_ref());
        let Some(script) = script else { return ControlFlow::Break(ChainEnd::NotAProgram) };
        // Never searched in PATH: without a slash it is a file of the working directory.
        let is_path = script.interpreter.contains('/');
        let interpreter = if is_path { script.interpreter.clone() } else { format!("./{}", script.interpreter) };
        if let Err(reasons) = self.search(&interpreter) {
            let interpreter = script.interpreter.clone();
            return ControlFlow::Break(ChainEnd::NoInterpreter { interpreter, reasons });
        }
        let rest = self.state.argv.iter().skip(1).cloned();
        let words = [Some(interpreter), script.argument.clone(), Some(found.written.clone())];
        self.state.argv = words.into_iter().flatten().chain(rest).collect();
        ControlFlow::Continue(())
    }

    fn program(&mut self, word: &str, found: &FoundCommand<'r>) -> ControlFlow<ChainEnd> {
        let is_interpreter = self.chain.last().is_some_and(|last| last.role == Role::Script);
        let words = self.applet();
        if shell::starts_shell(&words) {
            let role = if is_interpreter { Role::Interpreter } else { Role::Wrapper };
            self.push(word, &found.written, &found.file, role);
            return self.shell(&words);
        }
        let name = words.first().map_or("", |word| base_name(word));
        match wrapper::read(name, &words) {
            Wrapped::No => {
                let role = if is_interpreter { Role::Interpreter } else { Role::Program };
                self.push(word, &found.written, &found.file, role);
                ControlFlow::Break(ChainEnd::Runs)
            }
            Wrapped::Nothing => {
                self.push(word, &found.written, &found.file, Role::Wrapper);
                ControlFlow::Break(ChainEnd::NothingBehind)
            }
            Wrapped::Unreadable(option) => {
                self.push(word, &found.written, &found.file, Role::Wrapper);
                ControlFlow::Break(ChainEnd::UnknownOption(option))
            }
            Wrapped::To(handover) => {
                self.push(word, &found.written, &found.file, Role::Wrapper);
                let rest = words.into_iter().skip(handover.at);
                self.state.argv = handover.split.into_iter().chain(rest).collect();
                self.state.change(handover.environment);
                if let Some(directory) = handover.working_dir.and_then(|path| RootPath::new(path).ok()) {
                    self.state.working_dir = directory;
                }
                self.become_user(handover.user.as_ref())
            }
        }
    }

    /// The words without `busybox`, which is the program that its first argument names.
    fn applet(&self) -> Vec<String> {
        let argv = &self.state.argv;
        let is_busybox = argv.first().is_some_and(|word| base_name(word) == "busybox") && argv.len() > 1;
        argv.iter().skip(usize::from(is_busybox)).cloned().collect()
    }

    fn become_user(&mut self, user: Option<&UserChange>) -> ControlFlow<ChainEnd> {
        let Some(user) = user else { return ControlFlow::Continue(()) };
        if !self.state.identity.credentials.is_root() {
            return ControlFlow::Break(ChainEnd::MayNotChangeUser);
        }
        let changed = match user {
            UserChange::Account(user) => identify(user, self.accounts),
            UserChange::Ids(ids) => self.with_ids(ids),
        };
        match changed {
            Ok(identity) => {
                self.state.identity = identity;
                ControlFlow::Continue(())
            }
            Err(unknown) => ControlFlow::Break(ChainEnd::UnknownUser(unknown)),
        }
    }

    /// What `setpriv` sets, each on its own; the rest stays.
    fn with_ids(&self, ids: &IdChange) -> Result<Identity, UnknownAccount> {
        let mut identity = self.state.identity.clone();
        let Credentials { uid, gid, groups } = &mut identity.credentials;
        if let Some(user) = &ids.uid {
            let account = identify(user, self.accounts)?;
            *uid = account.credentials.uid;
            identity.name = account.name;
        }
        if let Some(group) = &ids.gid {
            *gid = identify(&format!("0:{group}"), self.accounts)?.credentials.gid;
        }
        match &ids.groups {
            GroupChange::Kept => {}
            GroupChange::Cleared => groups.clear(),
            GroupChange::OfAccount => {
                *groups = identity.name.as_ref().map_or_else(Vec::new, |name| {
                    let listed = groups_of(name.as_bytes(), &self.accounts.group);
                    [*gid].into_iter().chain(listed.into_iter().filter(|id| id != gid)).collect()
                });
            }
            GroupChange::Listed(list) => {
                let found = list.split(',').map(|group| identify(&format!("0:{group}"), self.accounts));
                *groups = found.map(|found| found.map(|one| one.credentials.gid)).collect::<Result<_, _>>()?;
            }
        }
        Ok(identity)
    }

    /// A shell with its script: the one program that it would start, or all that it may.
    fn shell(&mut self, words: &[String]) -> ControlFlow<ChainEnd> {
        let file = shell::script_word(words).and_then(|at| words.get(at)).cloned();
        let content = file.as_ref().map(|file| self.text(file));
        if let (Some(file), Some(Err(reasons))) = (&file, &content) {
            return ControlFlow::Break(ChainEnd::Lost { word: file.clone(), reasons: reasons.clone() });
        }
        let content = content.and_then(Result::ok).flatten();
        let frozen = self.variables();
        let variables = frozen.keys().cloned().collect();
        let surroundings = Surroundings::Known { working_dir: self.state.working_dir.to_string(), variables };
        let place = CommandContext::Image(ImageContext { frozen, surroundings, ..ImageContext::default() });
        match shell::translate(words, content, &place) {
            Verdict::Translate(meaning) => {
                self.state.argv = meaning.argv();
                let set = meaning.environment.clone();
                self.state.change(EnvironmentChange { set, ..EnvironmentChange::default() });
                if let Some(directory) = meaning.workdir.as_ref().and_then(|path| RootPath::new(path).ok()) {
                    self.state.working_dir = directory;
                }
                ControlFlow::Continue(())
            }
            Verdict::Unchanged(_) | Verdict::Refuse(_) => {
                let script = self.interpreted(words, file, content);
                self.call(&script.used.commands);
                ControlFlow::Break(ChainEnd::Shell(script))
            }
        }
    }

    /// The text of a script that the user may read; `None` where the index does not have it.
    fn text(&self, file: &str) -> Result<Option<&'r [u8]>, String> {
        let ProcessState { working_dir, identity, .. } = &self.state;
        let found = self.root.resolve_as(file, working_dir, &identity.credentials).map_err(|lost| lost.to_string())?;
        if !found.node.allows(&identity.credentials, Access::Read) {
            return Err(format!("{file}: the user may not read it"));
        }
        Ok(self.root.content(found.node))
    }

    fn variables(&self) -> BTreeMap<String, String> {
        self.state.environment.iter().cloned().collect()
    }

    fn interpreted(&self, words: &[String], file: Option<String>, content: Option<&[u8]>) -> ShellScript {
        let inline = words.iter().skip_while(|word| !shell::is_command_flag(word)).nth(1);
        let text = match (&file, content, inline) {
            (Some(_), Some(bytes), _) => std::str::from_utf8(bytes).ok(),
            (Some(_), None, _) => None,
            (None, _, inline) => inline.map(String::as_str),
        };
        let used = text.and_then(|text| script_use(self.root, text));
        let is_read = used.is_some();
        let mut used = used.unwrap_or_default();
        // `exec "$@"`: what is given to the script is the command.
        if text.is_some_and(|text| text.contains("$@") || text.contains("$*") || text.contains("$1")) {
            let after = file.as_ref().and_then(|file| words.iter().skip_while(|word| *word != file).nth(1));
            used.commands.extend(after.cloned());
        }
        ShellScript { path: file, used, is_read }
    }

    /// Adds what a script runs, as far as the root has it.
    fn call(&mut self, commands: &[String]) {
        for word in commands {
            if let Ok(found) = self.search(word) {
                let is_there = self.chain.iter().any(|there| there.path == found.file.path);
                if !is_there && self.chain.len() < LONGEST * 8 {
                    self.push(word, &found.written, &found.file, Role::Called);
                }
            }
        }
    }
}

/// Scripts that one script may read in, one after the other.
const MOST_SOURCED: usize = 16;

/// What a script names, with all that it reads in (`. FILE`) and the root has.
pub(super) fn script_use(root: &Root<'_>, text: &str) -> Option<UsedCommands> {
    let mut used = used_commands(text)?;
    let mut seen = 0;
    while let Some(file) = used.sourced.get(seen).filter(|_| seen < MOST_SOURCED).cloned() {
        seen += 1;
        let found = RootPath::new(&file).ok().and_then(|path| root.resolve(&path).ok());
        let text = found.and_then(|found| root.content(found.node)).and_then(|bytes| std::str::from_utf8(bytes).ok());
        if let Some(more) = text.and_then(used_commands) {
            used.join(more);
        }
    }
    Some(used)
}

fn executed(root: &Root<'_>, word: &str, written: &str, file: &Resolved<'_>, role: Role, linked: Linked) -> Executed {
    let node = file.node;
    Executed {
        word: word.to_owned(),
        written: written.to_owned(),
        path: file.path.clone(),
        role,
        program: root.program(node).cloned(),
        stamp: FileStamp {
            kind: node.kind().clone(),
            mode: node.mode(),
            uid: node.uid(),
            gid: node.gid(),
            mtime: node.entry().map_or(0, |entry| entry.mtime),
        },
        lacks: linked.missing,
        level: linked.level,
        layer: node.layer(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
