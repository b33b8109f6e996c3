//! What happens when a container starts, before the move and after it; what else the application brings
//! that could be started; and what all of these use that only the old root had.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::chain::{ChainEnd, Executed, Role};
use super::container::Container;
use super::interpreted::{self, Interpreted};
use super::named_paths::{LostPath, MoveView, ProcessView, parts_of};
use super::needs::{Absent, LeavingPackage, NeedsSearch};
use super::program::{Helper, helpers};
use super::start::{Start, start, start_of};
use elf::{Program, StartsOthers};
use layer::{LayerContents, RootPath};
use shell::UsedCommands;
use start::link::LoaderEnvironment;
use start::rootfs::Root;

/// What is started, on both sides of the move.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// As the source has it.
    pub before: &'a Container,
    /// As the result will have it.
    pub after: &'a Container,
    /// The script that the command was made from, which is started no more.
    pub inlined: Option<&'a str>,
    /// How many layers of the result's root are the new base's.
    pub base_layers: usize,
    pub leaving: &'a [LeavingPackage],
}

#[derive(Debug, Clone)]
pub struct Startup {
    pub before: Start,
    pub after: Start,
    pub health: Health,
    /// The application's executables beside the command's.
    pub helpers: Vec<Helper>,
    pub needs: Vec<Absent>,
    pub lost_words: Vec<LostWord>,
    /// Packages that the image's own layers installed and that stay behind.
    pub leaving: Vec<LeavingPackage>,
    /// The program is one that an interpreter of the source runs.
    pub interpreted: Option<Interpreted>,
    /// How many layers of the result's root are the new base's.
    pub base_layers: usize,
}

impl Startup {
    /// Whether nobody knows what will be started: then every executable of the application may be.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.after.end, ChainEnd::NoCommand | ChainEnd::NothingBehind)
    }
}

/// One image on its own root, which nobody moves.
#[derive(Debug, Clone)]
pub struct OwnStartup {
    pub start: Start,
    /// Its executables, where nobody knows which of them will be started.
    pub open: Vec<Helper>,
}

/// Looks at an image for itself. `own` are the layers above its base.
#[must_use]
pub fn look_alone<'l, 'r>(
    container: &Container,
    root: &'r Root<'r>,
    own: impl Iterator<Item = LayerContents<'l>>,
) -> OwnStartup {
    let start = start(container, root);
    let is_open = matches!(start.end, ChainEnd::NoCommand | ChainEnd::NothingBehind);
    let is_of_command = |path: &RootPath| start.chain.iter().any(|executed| executed.path == *path);
    let environment = loader_environment(&start);
    let open = if is_open { helpers(root, own, is_of_command, &environment) } else { Vec::new() };
    OwnStartup { start, open }
}

/// What a program that the process starts is loaded with.
fn loader_environment(start: &Start) -> LoaderEnvironment {
    let who = start.last_user.as_ref().map(|user| user.credentials.clone()).unwrap_or_default();
    LoaderEnvironment::new(&start.environment, start.last_directory.clone(), who)
}

/// A word of the command or a variable that names what only the source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWord {
    pub of: WordOf,
    /// As the word has it: absolute, or seen from the working directory.
    pub written: String,
    /// Where the source has it.
    pub path: RootPath,
    pub lost: LostPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordOf {
    Argument(String),
    /// The variable's name.
    Variable(String),
}

/// Looks at everything that `setup` leads to. `own` are the layers above the new base.
#[must_use]
pub fn look<'l, 'r>(
    setup: &Setup<'_>,
    rebased: &'r Root<'r>,
    source: &'r Root<'r>,
    own: impl Iterator<Item = LayerContents<'l>>,
) -> Startup {
    let (before, after) = (start(setup.before, source), start(setup.after, rebased));
    let is_of_command = |path: &RootPath| {
        let is_inlined = setup.inlined.is_some_and(|script| path.to_string() == script);
        is_inlined || after.chain.iter().any(|executed| executed.path == *path)
    };
    let own: Vec<LayerContents<'l>> = own.collect();
    let environment = loader_environment(&after);
    let mut helpers = helpers(rebased, own.iter().copied(), is_of_command, &environment);
    let interpreted = interpreted::look((&before, source), (&after, rebased), &own, &environment);
    name_helpers(&mut helpers, setup, &after, rebased);
    let view = view((&before, source), (&after, rebased));
    let needs = needs(setup, &after, &helpers, &view);
    let lost_words = lost_words(&before, &after, setup.after, &view);
    let health = look_at_health(setup.after, rebased);
    let leaving = setup.leaving.to_vec();
    Startup { before, after, health, helpers, needs, lost_words, leaving, interpreted, base_layers: setup.base_layers }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none, or what it runs is there, or it is a shell's: see `plan::command`.
    Fine,
    /// Its program is not in the rebased root, or the user may not execute it.
    Lost { name: String, reasons: String },
}

fn look_at_health(container: &Container, root: &Root<'_>) -> Health {
    let test = container.members.get("Healthcheck").and_then(|check| check.get("Test")).and_then(Value::as_array);
    let words: Vec<String> = test.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    match words.split_first() {
        Some((kind, argv)) if kind == "CMD" && !argv.is_empty() => health_of(start_of(container, argv, root)),
        _ => Health::Fine,
    }
}

fn health_of(start: Start) -> Health {
    let lacks = start.chain.iter().find_map(|executed| Some((executed, executed.lacks.as_ref()?)));
    if let Some((executed, lacks)) = lacks {
        return Health::Lost { name: executed.word.clone(), reasons: lacks.in_place("the rebased image") };
    }
    match start.end {
        ChainEnd::Lost { word, reasons } => Health::Lost { name: word, reasons },
        ChainEnd::NoInterpreter { interpreter, reasons } => Health::Lost { name: interpreter, reasons },
        _ => Health::Fine,
    }
}

/// Both roots as the last program of each chain sees them.
#[must_use]
pub fn view<'a>((before, source): (&Start, &'a Root<'a>), (after, rebased): (&Start, &'a Root<'a>)) -> MoveView<'a> {
    let side = |start: &Start, root| ProcessView {
        root,
        working_dir: start.last_directory.clone(),
        who: start.last_user.as_ref().map(|user| user.credentials.clone()).unwrap_or_default(),
    };
    MoveView { before: side(before, source), after: side(after, rebased) }
}

/// Who is asked for what it uses: the application's programs of the chain, and those that they name; all
/// of them where nobody knows what will be started.
fn needs(setup: &Setup<'_>, after: &Start, helpers: &[Helper], view: &MoveView<'_>) -> Vec<Absent> {
    let search = NeedsSearch::new(setup.after, view, setup.leaving, loader_environment(after));
    let is_open = matches!(after.end, ChainEnd::NoCommand | ChainEnd::NothingBehind);
    // What a wrapper runs is what stands behind it.
    let is_asked = |executed: &&Executed| executed.layer >= setup.base_layers && executed.role != Role::Wrapper;
    let own = after.chain.iter().filter(is_asked);
    let own = own.filter_map(|executed| Some((&executed.path, executed.program.as_ref()?)));
    let named = helpers.iter().filter(|helper| is_open || helper.named_by.is_some());
    let named = named.map(|helper| (&helper.path, &helper.program));
    let mut found = Vec::new();
    for (path, program) in own.chain(named) {
        match script_use(view.after.root, path, program) {
            Some(used) => found.extend(search.of_script(&path.to_string(), &used)),
            None => found.extend(search.of_program(path, program)),
        }
    }
    if let ChainEnd::Shell(script) = &after.end {
        found.extend(search.of_script(script.path.as_deref().unwrap_or("the command"), &script.used));
    }
    // What the chain does not find has a rule of its own.
    let is_lost = |word: &str| matches!(&after.end, ChainEnd::Lost { word: lost, .. } if lost == word);
    let is_executed = |word: &str| is_lost(word) || after.chain.iter().any(|executed| executed.word == word);
    let words = after.argv.iter().flat_map(|word| parts_of(word)).filter(|part| !part.contains('/'));
    found.extend(words.filter(|word| !is_executed(word)).filter_map(|word| search.of_word(word)));
    found
}

/// What a shell script uses; `None` for what is no script of a shell, or cannot be read.
fn script_use(root: &Root<'_>, path: &RootPath, program: &Program) -> Option<UsedCommands> {
    let script = program.script.as_ref()?;
    let words = [Some(&script.interpreter), script.argument.as_ref()].into_iter().flatten();
    let is_shell =
        words.flat_map(|word| word.split(['/', ' '])).any(|word| matches!(word, "sh" | "bash" | "dash" | "ash"));
    let text = root.get(path).and_then(|node| root.content(node)).filter(|_| is_shell)?;
    super::chain::script_use(root, std::str::from_utf8(text).ok()?)
}

/// Finds out who names each helper, from the command on.
fn name_helpers(helpers: &mut [Helper], setup: &Setup<'_>, after: &Start, root: &Root<'_>) {
    let mut index = HelperNames::new(helpers);
    let mut named: VecDeque<(usize, String)> = VecDeque::new();
    let directory = setup.after.working_dir();
    let read = interpreted::script_word(after);
    let words = after.argv.iter().filter(|word| read != Some(word.as_str()));
    let words = words.map(|word| ("the command".to_owned(), word));
    let variables = after.environment.iter().map(|(name, value)| (format!("the variable {name}"), value));
    for (by, word) in words.chain(variables) {
        let paths = parts_of(word).filter_map(|part| root.resolve_as(part, &directory, &after.credentials()).ok());
        named.extend(paths.filter_map(|found| Some((index.at_path(&found.path)?, by.clone()))));
    }
    for executed in after.chain.iter().filter(|executed| executed.layer >= setup.base_layers) {
        if let Some(program) = &executed.program {
            named.extend(index.in_program(root, &executed.path, program));
        }
    }
    if let ChainEnd::Shell(script) = &after.end {
        let by = script.path.clone().unwrap_or_else(|| "the command".to_owned());
        let words = script.used.commands.iter().chain(&script.used.paths);
        named.extend(words.flat_map(|word| index.by_word(word)).map(|at| (at, by.clone())));
    }
    while let Some((at, by)) = named.pop_front() {
        let Some(helper) = helpers.get_mut(at).filter(|helper| helper.named_by.is_none()) else { continue };
        helper.named_by = Some(by);
        let (path, program) = (helper.path.clone(), helper.program.clone());
        named.extend(index.in_program(root, &path, &program));
    }
}

/// Helpers by path and by name. What was found once is not looked for again.
struct HelperNames {
    paths: HashMap<RootPath, usize>,
    words: HashMap<Vec<u8>, Vec<usize>>,
}

impl HelperNames {
    fn new(helpers: &[Helper]) -> Self {
        let mut names = Self { paths: HashMap::new(), words: HashMap::new() };
        for (at, helper) in helpers.iter().enumerate() {
            names.paths.insert(helper.path.clone(), at);
            if let Some(name) = helper.path.name() {
                names.words.entry(name.to_vec()).or_default().push(at);
            }
        }
        names
    }

    fn at_path(&self, path: &RootPath) -> Option<usize> {
        self.paths.get(path).copied()
    }

    fn by_word(&self, word: &str) -> Vec<usize> {
        let by_path = RootPath::new(word).ok().filter(|_| word.starts_with('/')).and_then(|path| self.at_path(&path));
        let name = word.rsplit('/').next().unwrap_or(word);
        let by_name = self.words.get(name.as_bytes()).cloned().unwrap_or_default();
        by_path.into_iter().chain(by_name).collect()
    }

    /// The helpers that a program or a script names.
    fn in_program(&mut self, root: &Root<'_>, path: &RootPath, program: &Program) -> Vec<(usize, String)> {
        let by = path.to_string();
        let found: Vec<usize> = match script_use(root, path, program) {
            Some(used) => used.commands.iter().chain(&used.paths).flat_map(|word| self.by_word(word)).collect(),
            None if program.starts == StartsOthers::Never => Vec::new(),
            None => {
                let strings = &program.strings;
                let paths = strings.paths.iter().map(|string| &string.text);
                paths.chain(&strings.words).chain(&strings.command_words).flat_map(|word| self.by_word(word)).collect()
            }
        };
        found.into_iter().map(|at| (at, by.clone())).collect()
    }
}

/// Variables that hold lists of directories to search: one that is gone is passed over.
const SEARCH_LISTS: [&str; 4] = ["PATH", "MANPATH", "INFOPATH", "XDG_DATA_DIRS"];

/// The words after the programs of the chain, and the variables, that name what the process of the result
/// cannot use as before.
fn lost_words(before: &Start, after: &Start, container: &Container, view: &MoveView<'_>) -> Vec<LostWord> {
    // What is started, or was to be, has rules of its own.
    let lost_program = match &after.end {
        ChainEnd::Lost { word, .. } => Some(word.as_str()),
        _ => after.argv.first().map(String::as_str),
    };
    let is_program = |word: &str| {
        let is_executed = |executed: &Executed| executed.word == word && executed.role != Role::Called;
        lost_program == Some(word) || after.chain.iter().any(is_executed)
    };
    let arguments = after.argv.iter().filter(|word| !is_program(word));
    let arguments = arguments.map(|word| (WordOf::Argument(word.clone()), word.as_str()));
    let is_list = |name: &str| SEARCH_LISTS.contains(&name);
    let variables = after.environment.iter().filter(|(name, _)| !is_list(name) && name != "HOME");
    let variables = variables.map(|(name, value)| (WordOf::Variable(name.clone()), value.as_str()));
    let mut lost = Vec::new();
    for (of, word) in arguments.chain(variables) {
        let is_argument = matches!(of, WordOf::Argument(_));
        for part in parts_of(word).filter(|part| is_argument || part.starts_with('/')) {
            if let (Some(kind), Some(path)) = (view.lost(part), view.place(part))
                && !container.mounts(&path)
            {
                lost.push(LostWord { of: of.clone(), written: part.to_owned(), path, lost: kind });
            }
        }
    }
    lost.extend(lost_zone(before, after, view));
    lost
}

/// `TZ` names a file of the zone database.
fn lost_zone(before: &Start, after: &Start, view: &MoveView<'_>) -> Option<LostWord> {
    let zone = after.variable("TZ").or_else(|| before.variable("TZ"))?.trim_start_matches(':');
    let path = format!("/usr/share/zoneinfo/{zone}");
    let lost = view.lost(&path).filter(|_| !zone.is_empty())?;
    Some(LostWord { of: WordOf::Variable("TZ".to_owned()), path: view.place(&path)?, lost, written: path })
}
