//! The `config` member of an image's config as a runtime reads it: what a container starts with.

use serde_json::{Map, Value};

use super::pod::PodSurroundings;
use layer::RootPath;
use oci::{Config, json};

/// The directories that runtimes search where the image sets no `PATH`.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The order in which the members are written.
pub const MEMBER_ORDER: [&str; 12] = [
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "Healthcheck",
    "Shell",
    "OnBuild",
];

/// The `config` member, with the command read out of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Container {
    pub members: Map<String, Value>,
    pub command: Command,
    /// What a pod adds, where it runs in one.
    pub pod: PodSurroundings,
}

impl Container {
    /// As the config has it.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self::new(config.container(), Command::of(config))
    }

    #[must_use]
    pub fn new(members: Map<String, Value>, command: Command) -> Self {
        Self { members, command, pod: PodSurroundings::default() }
    }

    /// `PATH`, or what runtimes search without one.
    #[must_use]
    pub fn search_path(&self) -> &str {
        // Of several, the last counts.
        self.environment().filter_map(|(name, value)| (name == "PATH").then_some(value)).last().unwrap_or(DEFAULT_PATH)
    }

    /// The variables that have a name and a value.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.members.get("Env").and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| entry.as_str()?.split_once('='))
    }

    /// A variable without a name, or without a `=`.
    #[must_use]
    pub fn bad_variable(&self) -> Option<&str> {
        let entries = self.members.get("Env").and_then(Value::as_array).into_iter().flatten();
        let is_bad = |entry: &&str| entry.find('=').is_none_or(|at| at == 0);
        entries.filter_map(Value::as_str).find(is_bad)
    }

    /// `WorkingDir` as a path of the root, without `..`; the root itself where none is set.
    #[must_use]
    pub fn working_dir(&self) -> RootPath {
        RootPath::new(cleaned(self.text("WorkingDir"))).unwrap_or_else(|_| RootPath::root())
    }

    /// Whether a volume will be mounted over the path.
    #[must_use]
    pub fn mounts(&self, path: &RootPath) -> bool {
        let volumes = self.members.get("Volumes").and_then(Value::as_object);
        let mut volumes = volumes.into_iter().flat_map(|volumes| volumes.keys());
        volumes.any(|key| RootPath::new(key).is_ok_and(|volume| path.is_within(&volume)))
    }

    /// A member that is a text; empty where it is not set.
    #[must_use]
    pub fn text(&self, member: &str) -> &str {
        self.members.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// Another command.
    pub fn set_command(&mut self, command: Command) {
        let words = |words: &Option<Vec<String>>| words.as_ref().map(|words| Value::from(words.clone()));
        self.set("Entrypoint", words(&command.entrypoint));
        self.set("Cmd", words(&command.cmd));
        self.command = command;
    }

    /// Variables that take the place of those of the same name.
    pub fn add_environment(&mut self, variables: &[(String, String)]) {
        if variables.is_empty() {
            return;
        }
        let new = variables.iter().map(|(name, value)| Value::from(format!("{name}={value}")));
        let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        let entries: Vec<Value> = self.environment_without(&names).into_iter().chain(new).collect();
        self.set("Env", Some(entries.into()));
    }

    /// Takes variables away.
    pub(super) fn remove_environment(&mut self, names: &[&str]) {
        if !names.is_empty() && self.members.contains_key("Env") {
            let left = self.environment_without(names);
            self.set("Env", Some(left.into()));
        }
    }

    fn environment_without(&self, names: &[&str]) -> Vec<Value> {
        let there = self.members.get("Env").and_then(Value::as_array).cloned().unwrap_or_default();
        let name = |entry: &Value| entry.as_str().map(|entry| entry.split('=').next().unwrap_or_default().to_owned());
        there.into_iter().filter(|entry| !name(entry).is_some_and(|name| names.contains(&name.as_str()))).collect()
    }

    pub fn set_working_dir(&mut self, directory: &str) {
        self.set("WorkingDir", Some(directory.into()));
    }

    /// Sets or removes a member, and keeps the order.
    pub(super) fn set(&mut self, member: &str, value: Option<Value>) {
        set_member(&mut self.members, member, value);
        self.members = json::ordered(std::mem::take(&mut self.members), &MEMBER_ORDER);
    }
}

/// A path whose `..` have taken the name before them away, as Docker cleans it.
fn cleaned(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            ".." => drop(names.pop()),
            "" | "." => {}
            name => names.push(name),
        }
    }
    names.join("/")
}

/// Sets a member, or removes it where there is no value.
pub fn set_member(members: &mut Map<String, Value>, member: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(members.insert(member.to_owned(), value)),
        None => drop(members.shift_remove(member)),
    }
}

/// Entrypoint and cmd as the config holds them. `None` is "not set", which is not the same as
/// an empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub entrypoint: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
}

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "mksh", "busybox"];

impl Command {
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let list =
            |key: &str| config.container().get(key).filter(|value| value.is_array()).map(|_| config.strings(key));
        Self { entrypoint: list("Entrypoint"), cmd: list("Cmd") }
    }

    /// The words a runtime executes: the entrypoint followed by the cmd.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).flatten().cloned().collect()
    }

    #[must_use]
    pub fn program(&self) -> Option<String> {
        self.argv().into_iter().next()
    }

    /// Whether the first word is a shell, under any path: then it says nothing of the program.
    #[must_use]
    pub fn starts_shell(&self) -> bool {
        let first = self.program();
        first.is_some_and(|word| SHELLS.contains(&word.rsplit('/').next().unwrap_or(&word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(entrypoint: &[&str], cmd: &[&str]) -> Command {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        Command { entrypoint: words(entrypoint), cmd: words(cmd) }
    }

    #[test]
    fn finds_a_shell_under_any_path() {
        for (entrypoint, cmd, expected) in [
            (&["/bin/sh", "-c", "exec app"][..], &[][..], true),
            (&["bash", "-euo", "pipefail", "-c", "app"], &[], true),
            (&["/bin/busybox", "sh", "-ec", "app"], &[], true),
            (&[], &["/usr/bin/dash", "-c", "app"], true),
            (&["/bin/sh"], &["/run.sh"], true),
            (&["/app"], &["/bin/sh", "-c", "x"], false),
            (&["/usr/bin/shell"], &[], false),
            (&[], &[], false),
        ] {
            assert_eq!(command(entrypoint, cmd).starts_shell(), expected, "{entrypoint:?} {cmd:?}");
        }
    }
}
