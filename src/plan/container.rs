//! What a container of the result starts with: three-way merge of old base, source and new base.
//!
//! One rule for every member: what the source took over from its old base is replaced by the new
//! base's value, what the source set itself stays. [`TABLE`] says how each member is compared.
//! Where the old base's config is not known, whatever the source has counts as its own.

use serde_json::{Map, Value};

use super::environment;
use super::inherited_command;
use crate::examine::PlatformSubject;
use crate::oci::{is_dangerous, json};
use crate::process::{Command, Container, MEMBER_ORDER, set_member};

/// The container as if the source had been built on the new base.
pub(super) fn rebased(subject: &PlatformSubject) -> Container {
    let old = subject.old_base.image.as_ref().map(|image| Container::of(&image.config));
    let old = old.unwrap_or_else(|| Container { members: Map::new(), command: Command::default() });
    let (source, new) = (Container::of(&subject.source.config), Container::of(&subject.base.config));
    let command = inherited_command::three_way(&old.command, &source.command, &new.command);
    let members = merge(&old.members, source.members, &new.members, &command);
    Container { members, command }
}

/// How a member of the container is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// As one value.
    Whole,
    /// Key by key.
    Keys,
    /// Entry by entry, see [`environment`].
    Environment,
}

/// The rows, in the order in which they are written. The command has its own rule ([`inherited_command`]).
const TABLE: [(&str, Merge); 10] = [
    ("User", Merge::Whole),
    ("ExposedPorts", Merge::Keys),
    ("Env", Merge::Environment),
    ("Volumes", Merge::Keys),
    ("WorkingDir", Merge::Whole),
    ("Labels", Merge::Keys),
    ("StopSignal", Merge::Whole),
    ("Healthcheck", Merge::Whole),
    ("Shell", Merge::Whole),
    ("OnBuild", Merge::Whole),
];

fn merge(
    old: &Map<String, Value>,
    source: Map<String, Value>,
    new: &Map<String, Value>,
    command: &Command,
) -> Map<String, Value> {
    let mut out = source;
    for (member, how) in TABLE {
        let merged = match how {
            Merge::Whole => whole(old.get(member), out.get(member), new.get(member)),
            Merge::Keys => keys(old.get(member), out.get(member), new.get(member)),
            Merge::Environment => variables(old.get(member), out.get(member), new.get(member)),
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

fn variables(old: Option<&Value>, source: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let words = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let merged = environment::merge(&words(old), &words(source), &words(new));
    (!merged.is_empty()).then(|| merged.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(old: &Value, source: &Value, new: &Value) -> Value {
        let map = |value: &Value| value.as_object().cloned().unwrap();
        Value::Object(merge(&map(old), map(source), &map(new), &Command::default()))
    }

    /// For each row: inherited is replaced, own stays, unset takes the new base's, removed stays removed.
    #[test]
    fn every_row_of_the_table_keeps_the_rule() {
        for (member, how) in TABLE {
            let (a, b, c) = match how {
                Merge::Environment => (json!(["K=a"]), json!(["K=b"]), json!(["K=c"])),
                Merge::Keys => (json!({"k": "a"}), json!({"k": "b"}), json!({"k": "c"})),
                Merge::Whole if matches!(member, "Shell" | "OnBuild") => (json!(["a"]), json!(["b"]), json!(["c"])),
                Merge::Whole if member == "Healthcheck" => {
                    (json!({"Test": ["a"]}), json!({"Test": ["b"]}), json!({"Test": ["c"]}))
                }
                Merge::Whole => (json!("a"), json!("b"), json!("c")),
            };
            let with = |value: &Value| json!({ member: value });
            assert_eq!(merged(&with(&a), &with(&a), &with(&c)), with(&c), "{member}: inherited is replaced");
            assert_eq!(merged(&with(&a), &with(&b), &with(&c)), with(&b), "{member}: own value stays");
            assert_eq!(merged(&json!({}), &json!({}), &with(&c)), with(&c), "{member}: unset takes the new base's");
            assert_eq!(
                merged(&json!({}), &with(&b), &json!({})),
                with(&b),
                "{member}: own value stays where nobody else has one"
            );
            assert_eq!(
                merged(&with(&a), &with(&a), &json!({})),
                json!({}),
                "{member}: inherited goes with the old base"
            );
            assert_eq!(merged(&with(&a), &json!({}), &with(&c)), json!({}), "{member}: removed stays removed");
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
