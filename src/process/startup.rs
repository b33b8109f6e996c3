//! What happens when a container starts, before the move and after it; what else the application brings
//! that could be started; and what all of these use that only the old root had.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::chain::{ChainEnd, Role};
use super::container::Container;
use super::named_paths::{LostPath, lost_path, paths_in};
use super::needs::{Absent, LeavingPackage, NeedsSearch};
use super::program::{Helper, helpers};
use super::start::{Start, start, start_of};
use crate::elf::{Program, StartsOthers};
use crate::layer::{LayerContents, RootPath};
use crate::rootfs::Root;
use crate::shell::used_commands;

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

/// A word of the command or a variable that names what only the source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWord {
    pub of: WordOf,
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
pub fn look<'l>(
    setup: &Setup<'_>,
    rebased: &Root<'_>,
    source: &Root<'_>,
    own: impl Iterator<Item = LayerContents<'l>>,
) -> Startup {
    let (before, after) = (start(setup.before, source), start(setup.after, rebased));
    let is_of_command = |path: &RootPath| {
        let is_inlined = setup.inlined.is_some_and(|script| path.to_string() == script);
        is_inlined || after.chain.iter().any(|executed| executed.path == *path)
    };
    let mut helpers = helpers(rebased, own, is_of_command);
    name_helpers(&mut helpers, setup, &after, rebased);
    let needs = needs(setup, &after, &helpers, (source, rebased));
    let lost_words = lost_words(&before, &after, setup.after, (source, rebased));
    let health = look_at_health(setup.after, rebased);
    Startup { before, after, health, helpers, needs, lost_words, base_layers: setup.base_layers }
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
        Some((kind, argv)) if kind == "CMD" && !argv.is_empty() => match start_of(container, argv, root).end {
            ChainEnd::Lost { word, reasons } => Health::Lost { name: word, reasons },
            ChainEnd::NoInterpreter { interpreter, reasons } => Health::Lost { name: interpreter, reasons },
            _ => Health::Fine,
        },
        _ => Health::Fine,
    }
}

/// Who is asked for what it uses: the application's programs of the chain, and those that they name; all
/// of them where nobody knows what will be started.
fn needs(
    setup: &Setup<'_>,
    after: &Start,
    helpers: &[Helper],
    (source, rebased): (&Root<'_>, &Root<'_>),
) -> Vec<Absent> {
    let who = after.last_user.as_ref().map(|user| user.credentials.clone()).unwrap_or_default();
    let search = NeedsSearch::new(setup.after, (source, rebased), &who, setup.leaving);
    let is_open = matches!(after.end, ChainEnd::NoCommand | ChainEnd::NothingBehind);
    let own = after.chain.iter().filter(|executed| executed.layer >= setup.base_layers);
    let own = own.filter_map(|executed| Some((&executed.path, executed.program.as_ref()?)));
    let named = helpers.iter().filter(|helper| is_open || helper.named_by.is_some());
    let named = named.map(|helper| (&helper.path, &helper.program));
    let mut found = Vec::new();
    for (path, program) in own.chain(named) {
        match script_commands(rebased, path, program) {
            Some(commands) => found.extend(search.of_script(&path.to_string(), &commands)),
            None => found.extend(search.of_program(path, program)),
        }
    }
    if let ChainEnd::Shell(script) = &after.end {
        found.extend(search.of_script(script.path.as_deref().unwrap_or("the command"), &script.commands));
    }
    found
}

/// What a shell script runs; `None` for what is no script of a shell, or cannot be read.
fn script_commands(root: &Root<'_>, path: &RootPath, program: &Program) -> Option<Vec<String>> {
    let script = program.script.as_ref()?;
    let words = [Some(&script.interpreter), script.argument.as_ref()].into_iter().flatten();
    let is_shell =
        words.flat_map(|word| word.split(['/', ' '])).any(|word| matches!(word, "sh" | "bash" | "dash" | "ash"));
    let text = root.get(path).and_then(|node| root.content(node)).filter(|_| is_shell)?;
    used_commands(std::str::from_utf8(text).ok()?).map(|used| used.commands)
}

/// Finds out who names each helper, from the command on.
fn name_helpers(helpers: &mut [Helper], setup: &Setup<'_>, after: &Start, root: &Root<'_>) {
    let mut names = HelperNames::new(helpers);
    let mut named: VecDeque<(usize, String)> = VecDeque::new();
    let directory = setup.after.working_dir();
    let words = after.argv.iter().map(|word| ("the command".to_owned(), word));
    let variables = after.environment.iter().map(|(name, value)| (format!("the variable {name}"), value));
    for (by, word) in words.chain(variables) {
        named.extend(paths_in(word, &directory).filter_map(|path| Some((names.at_path(&path)?, by.clone()))));
    }
    for executed in after.chain.iter().filter(|executed| executed.layer >= setup.base_layers) {
        if let Some(program) = &executed.program {
            named.extend(names.in_program(root, &executed.path, program));
        }
    }
    if let ChainEnd::Shell(script) = &after.end {
        let by = script.path.clone().unwrap_or_else(|| "the command".to_owned());
        named.extend(script.commands.iter().flat_map(|word| names.by_word(word)).map(|at| (at, by.clone())));
    }
    while let Some((at, by)) = named.pop_front() {
        let Some(helper) = helpers.get_mut(at).filter(|helper| helper.named_by.is_none()) else { continue };
        helper.named_by = Some(by);
        let (path, program) = (helper.path.clone(), helper.program.clone());
        named.extend(names.in_program(root, &path, &program));
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
        let found: Vec<usize> = match script_commands(root, path, program) {
            Some(commands) => commands.iter().flat_map(|word| self.by_word(word)).collect(),
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

/// The words after the programs of the chain, and the variables, that name what only the source has.
fn lost_words(
    before: &Start,
    after: &Start,
    container: &Container,
    (source, rebased): (&Root<'_>, &Root<'_>),
) -> Vec<LostWord> {
    let who = after.credentials();
    let directory = container.working_dir();
    let is_program =
        |word: &str| after.chain.iter().any(|executed| executed.word == word && executed.role != Role::Called);
    let arguments = after.argv.iter().filter(|word| !is_program(word));
    let arguments = arguments.map(|word| (WordOf::Argument(word.clone()), word.as_str()));
    let is_list = |name: &str| SEARCH_LISTS.contains(&name);
    let variables = after.environment.iter().filter(|(name, _)| !is_list(name) && name != "HOME");
    let variables = variables.map(|(name, value)| (WordOf::Variable(name.clone()), value.as_str()));
    let mut lost = Vec::new();
    for (of, word) in arguments.chain(variables) {
        for path in paths_in(word, &directory) {
            lost.extend(lost_path(&path, source, rebased, &who).map(|kind| LostWord {
                of: of.clone(),
                path,
                lost: kind,
            }));
        }
    }
    lost.extend(lost_zone(before, after, source, rebased));
    lost
}

/// `TZ` names a file of the zone database.
fn lost_zone(before: &Start, after: &Start, source: &Root<'_>, rebased: &Root<'_>) -> Option<LostWord> {
    let zone = after.variable("TZ").or_else(|| before.variable("TZ"))?;
    let path = RootPath::new("usr/share/zoneinfo").ok()?.join(zone.trim_start_matches(':')).ok()?;
    let lost = lost_path(&path, source, rebased, &after.credentials())?;
    Some(LostWord { of: WordOf::Variable("TZ".to_owned()), path, lost })
}
