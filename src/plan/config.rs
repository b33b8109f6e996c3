//! The config of the result, and in it what a container starts with: three-way merge of old base,
//! source and new base.
//!
//! What the source set itself stays. What it took over from its old base follows the new base where nobody
//! can notice, and is kept where somebody can: [`TABLE`] says it for each member. Where neither
//! the old base's config is known nor the history shows what it set, whatever the source has counts as its own.

use serde_json::{Map, Value};

use super::history;
use super::layers::Layers;
use super::noticed::Noticed;
use super::rebase_options::Epoch;
use crate::examine::PlatformSubject;
use crate::process::{Command, Container, MEMBER_ORDER, set_member};
use oci::{is_dangerous, json};

/// The container as if the source had been built on the new base.
pub(super) fn rebased(subject: &PlatformSubject) -> Container {
    let old = subject.old_base.container();
    let old = old.unwrap_or_default();
    let (source, new) = (Container::of(&subject.source.config), Container::of(&subject.base.config));
    let noticed = Noticed::new(subject);
    let command = inherit_command(&old.command, &source.command, &new.command, |words| noticed.brings(words));
    let keeps = |entry: &str| is_noticed(entry, &new, &noticed);
    let members = merge(&old.members, source.members, &new.members, &command, &keeps);
    Container::new(members, command)
}

/// Whether an inherited variable is kept.
fn is_noticed(entry: &str, new: &Container, noticed: &Noticed<'_>) -> bool {
    match entry.split_once('=') {
        Some(("PATH", before)) => {
            let after = new.environment().filter(|(name, _)| *name == "PATH").last();
            after.is_none_or(|(_, after)| noticed.finds_more(before, after))
        }
        _ => noticed.names(name(entry)),
    }
}

/// How a member of the container is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberMerge {
    /// As one value; an inherited one follows the new base.
    Whole,
    /// As one value; an inherited one is kept, because the process would notice.
    Kept,
    /// Key by key; inherited ones follow the new base.
    Keys,
    /// Key by key; inherited ones are kept.
    KeptKeys,
    /// Entry by entry, see [`merge_variables`].
    Environment,
}

/// The rows, in the order in which they are written. The command has its own rule ([`inherit_command`]).
const TABLE: [(&str, MemberMerge); 10] = [
    ("User", MemberMerge::Kept),
    ("ExposedPorts", MemberMerge::Keys),
    ("Env", MemberMerge::Environment),
    ("Volumes", MemberMerge::KeptKeys),
    ("WorkingDir", MemberMerge::Kept),
    ("Labels", MemberMerge::Keys),
    ("StopSignal", MemberMerge::Kept),
    ("Healthcheck", MemberMerge::Whole),
    ("Shell", MemberMerge::Whole),
    ("OnBuild", MemberMerge::Whole),
];

fn merge(
    old: &Map<String, Value>,
    source: Map<String, Value>,
    new: &Map<String, Value>,
    command: &Command,
    keeps: &impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let mut out = source;
    for (member, how) in TABLE {
        let merged = match how {
            MemberMerge::Whole => whole(old.get(member), out.get(member), new.get(member)),
            MemberMerge::Kept => kept(old.get(member), out.get(member), new.get(member)),
            MemberMerge::Keys => keys(old.get(member), out.get(member), new.get(member)),
            MemberMerge::KeptKeys => keys(None, out.get(member), new.get(member)),
            MemberMerge::Environment => variables(old.get(member), out.get(member), new.get(member), keeps),
        };
        set_member(&mut out, member, merged);
    }
    let words = |words: &Option<Vec<String>>| words.as_ref().map(|words| Value::from(words.clone()));
    set_member(&mut out, "Entrypoint", words(&command.entrypoint));
    set_member(&mut out, "Cmd", words(&command.cmd));
    json::ordered(out, &MEMBER_ORDER)
}

/// `null`, `""`, `[]` and `{}` all mean "not set" to every runtime.
fn set(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    })
}

fn whole(old: Option<&Value>, source: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    if set(source) == set(old) { set(new).cloned() } else { set(source).cloned() }
}

fn kept(old: Option<&Value>, source: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    match set(source) {
        Some(source) => Some(source.clone()),
        None => whole(old, source, new),
    }
}

fn keys(old: Option<&Value>, source: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (old, source, new) = (map(old), map(source), map(new));
    let mut out = Map::new();
    for key in new.keys().chain(source.keys()) {
        let inherited = source.get(key) == old.get(key);
        let value = if inherited { new.get(key) } else { source.get(key) };
        if let Some(value) = value.filter(|_| !is_dangerous(key)) {
            out.insert(key.clone(), value.clone());
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

fn variables(
    old: Option<&Value>,
    source: Option<&Value>,
    new: Option<&Value>,
    keeps: &impl Fn(&str) -> bool,
) -> Option<Value> {
    let words = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let merged = merge_variables(&words(old), &words(source), &words(new), keeps);
    (!merged.is_empty()).then(|| merged.into())
}

/// The environment of the result: the new base's entries first, as if the image had been built on
/// it, then what the source set itself. An entry that the source inherited from its old base counts as
/// its own where it `keeps` it, and gives way to the new base's otherwise.
fn merge_variables(old: &[String], source: &[String], new: &[String], keeps: &impl Fn(&str) -> bool) -> Vec<String> {
    let is_own = |entry: &&String| !old.contains(entry) || keeps(entry);
    let own: Vec<String> = source.iter().filter(is_own).cloned().collect();
    let removed = |entry: &str| is_set(old, entry) && !is_set(source, entry);
    let mut out: Vec<String> = Vec::new();
    for entry in new.iter().filter(|entry| !removed(entry)) {
        if !is_set(&own, entry) {
            out.push(entry.clone());
        } else if !is_set(&out, entry) {
            // A variable that the source changes keeps the place that the new base gives it.
            out.extend(own.iter().filter(|own| name(own) == name(entry)).cloned());
        }
    }
    let placed = out.clone();
    out.extend(own.into_iter().filter(|own| !is_set(&placed, own)));
    out
}

fn name(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn is_set(environment: &[String], entry: &str) -> bool {
    environment.iter().any(|other| name(other) == name(entry))
}

/// The command as if the source had been built on the new base: `FROM`, then what the source set itself.
/// An inherited one whose program the application `brings` was meant for it, and stays.
fn inherit_command(old: &Command, source: &Command, new: &Command, brings: impl Fn(&[String]) -> bool) -> Command {
    let set = |words: &Option<Vec<String>>| words.clone().filter(|words| !words.is_empty());
    let own = |source: &Option<Vec<String>>, old: &Option<Vec<String>>| {
        set(source).filter(|words| set(old).as_ref() != Some(words) || brings(words))
    };
    let is_cleared =
        |source: &Option<Vec<String>>, old: &Option<Vec<String>>| set(source).is_none() && set(old).is_some();
    if let Some(entrypoint) = own(&source.entrypoint, &old.entrypoint) {
        // ENTRYPOINT resets an inherited CMD, so what is there now was set after it.
        return Command { entrypoint: Some(entrypoint), cmd: set(&source.cmd) };
    }
    let entrypoint = if is_cleared(&source.entrypoint, &old.entrypoint) { None } else { set(&new.entrypoint) };
    let cmd = match own(&source.cmd, &old.cmd) {
        Some(cmd) => Some(cmd),
        None if is_cleared(&source.cmd, &old.cmd) => None,
        None => set(&new.cmd),
    };
    Command { entrypoint, cmd }
}

const CONFIG_ORDER: [&str; 10] =
    ["created", "author", "architecture", "os", "os.version", "os.features", "variant", "config", "rootfs", "history"];

/// The whole config but for the layers; members nobody knows survive from the source.
pub(super) fn whole_config(
    subject: &PlatformSubject,
    container: &Container,
    layers: &Layers,
    epoch: Option<Epoch>,
) -> Map<String, Value> {
    let mut config = subject.source.config.object().clone();
    if let Some(epoch) = epoch {
        config.insert("created".into(), epoch.to_rfc3339().into());
    }
    config.insert("config".into(), Value::Object(container.members.clone()));
    config.insert("rootfs".into(), Value::Null);
    config.insert("history".into(), history::merge(subject, layers));
    json::ordered(config, &CONFIG_ORDER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(old: &Value, source: &Value, new: &Value) -> Value {
        let map = |value: &Value| value.as_object().cloned().unwrap();
        Value::Object(merge(&map(old), map(source), &map(new), &Command::default(), &|_: &str| false))
    }

    /// For each row: own stays, unset takes the new base's, removed stays removed; inherited is kept
    /// where the row says so, and is replaced elsewhere.
    #[test]
    fn every_row_of_the_table_keeps_the_rule() {
        for (member, how) in TABLE {
            let (a, b, c) = match how {
                MemberMerge::Environment => (json!(["K=a"]), json!(["K=b"]), json!(["K=c"])),
                MemberMerge::Keys | MemberMerge::KeptKeys => (json!({"k": "a"}), json!({"k": "b"}), json!({"k": "c"})),
                MemberMerge::Whole if matches!(member, "Shell" | "OnBuild") => {
                    (json!(["a"]), json!(["b"]), json!(["c"]))
                }
                MemberMerge::Whole if member == "Healthcheck" => {
                    (json!({"Test": ["a"]}), json!({"Test": ["b"]}), json!({"Test": ["c"]}))
                }
                MemberMerge::Whole | MemberMerge::Kept => (json!("a"), json!("b"), json!("c")),
            };
            let with = |value: &Value| json!({ member: value });
            let is_kept = matches!(how, MemberMerge::Kept | MemberMerge::KeptKeys);
            let inherited = if is_kept { with(&a) } else { with(&c) };
            assert_eq!(merged(&with(&a), &with(&a), &with(&c)), inherited, "{member}: inherited");
            assert_eq!(merged(&with(&a), &with(&b), &with(&c)), with(&b), "{member}: own value stays");
            assert_eq!(merged(&json!({}), &json!({}), &with(&c)), with(&c), "{member}: unset takes the new base's");
            assert_eq!(
                merged(&json!({}), &with(&b), &json!({})),
                with(&b),
                "{member}: own value stays where nobody else has one"
            );
            let alone = if is_kept { with(&a) } else { json!({}) };
            assert_eq!(
                merged(&with(&a), &with(&a), &json!({})),
                alone,
                "{member}: inherited, and the new base has none"
            );
            if how != MemberMerge::KeptKeys {
                assert_eq!(merged(&with(&a), &json!({}), &with(&c)), json!({}), "{member}: removed stays removed");
            }
        }
    }

    #[test]
    fn empty_means_unset() {
        for empty in [json!(null), json!("")] {
            let merged = merged(&json!({}), &json!({ "User": empty }), &json!({"User": "65532"}));
            assert_eq!(merged, json!({"User": "65532"}));
        }
    }

    #[test]
    fn dangerous_labels_stay_behind_and_unknown_members_survive() {
        let source = json!({"ArgsEscaped": true, "Labels": {"a": "1", "containerd.io/restart.loguri": "binary:///x"}, "Odd": [1]});
        let new = json!({"Labels": {"cdi.k8s.io/x": "y"}});
        assert_eq!(merged(&json!({}), &source, &new), json!({"ArgsEscaped": true, "Labels": {"a": "1"}, "Odd": [1]}));
    }
}

#[cfg(test)]
mod environment_tests {
    use super::*;

    #[test]
    fn environment_merges_entry_by_entry() {
        for (why, old, source, new, expected) in [
            ("inherited gives way", &["PATH=/old"][..], &["PATH=/old"][..], &["PATH=/new"][..], &["PATH=/new"][..]),
            ("own value stays", &["PATH=/old"], &["PATH=/app:/old"], &["PATH=/new"], &["PATH=/app:/old"]),
            (
                "own value keeps the base's place",
                &[],
                &["A=1", "PATH=/app"],
                &["PATH=/new", "B=2"],
                &["PATH=/app", "B=2", "A=1"],
            ),
            ("inherited and unknown to the new base goes", &["GONE=1"], &["GONE=1", "A=1"], &[], &["A=1"]),
            ("new base adds", &[], &["A=1"], &["SSL_CERT_FILE=/x"], &["SSL_CERT_FILE=/x", "A=1"]),
            ("removed stays removed", &["X=1"], &[], &["X=2"], &[]),
            ("odd entries are carried", &[], &["*", "NAME", "", "A=1", "A=2"], &[], &["*", "NAME", "", "A=1", "A=2"]),
            ("both values of a doubled name stay in order", &[], &["A=1", "A=2"], &["A=0"], &["A=1", "A=2"]),
        ] {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let merged = merge_variables(&words(old), &words(source), &words(new), &|_: &str| false);
            assert_eq!(merged, words(expected), "{why}");
        }
    }

    #[test]
    fn an_inherited_variable_that_is_noticed_stays() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (old, new) = (words(&["A=1", "B=1"]), words(&["A=2", "C=2"]));
        let merged = merge_variables(&old, &old, &new, &|entry: &str| entry.starts_with('A'));
        assert_eq!(merged, words(&["A=1", "C=2"]));
    }
}

#[cfg(test)]
mod inherited_command_tests {
    use super::*;

    fn command(entrypoint: Option<&[&str]>, cmd: Option<&[&str]>) -> Command {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Command { entrypoint: entrypoint.map(words), cmd: cmd.map(words) }
    }

    #[test]
    fn what_the_source_says_runs() {
        let none = command(None, None);
        let bash = command(None, Some(&["bash"]));
        let tini = command(Some(&["/tini", "--"]), None);
        let debug = command(Some(&["/busybox/sh"]), None);
        let app = command(Some(&["/app"]), None);
        for (why, old, source, new, expected) in [
            ("own entrypoint stays", &bash, app.clone(), &none, app.clone()),
            ("own entrypoint takes no cmd of the new base", &bash, app.clone(), &bash, app.clone()),
            (
                "own cmd is given to the entrypoint of the new base, as after FROM",
                &none,
                command(None, Some(&["/app"])),
                &debug,
                command(Some(&["/busybox/sh"]), Some(&["/app"])),
            ),
            (
                "an entrypoint that was cleared stays cleared",
                &tini,
                command(None, Some(&["/app"])),
                &debug,
                command(None, Some(&["/app"])),
            ),
            (
                "an inherited command whose program is brought stays",
                &command(Some(&["/brought"]), Some(&["x"])),
                command(Some(&["/brought"]), Some(&["x"])),
                &debug,
                command(Some(&["/brought"]), Some(&["x"])),
            ),
            (
                "inherited entrypoint gives way",
                &tini,
                command(Some(&["/tini", "--"]), Some(&["/app"])),
                &none,
                command(None, Some(&["/app"])),
            ),
            ("inherited cmd gives way", &bash, bash.clone(), &none, none.clone()),
            ("no command is the new base's", &none, none.clone(), &debug, debug.clone()),
            (
                "own entrypoint keeps an equal cmd",
                &bash,
                command(Some(&["/app"]), Some(&["bash"])),
                &none,
                command(Some(&["/app"]), Some(&["bash"])),
            ),
        ] {
            let brings = |words: &[String]| words[0] == "/brought";
            assert_eq!(inherit_command(old, &source, new, brings), expected, "{why}");
        }
    }
}
