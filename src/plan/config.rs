//! The config of the result: three-way merge of old base, source and new base.
//!
//! One rule for every member: what the source took over from its old base is replaced by the new
//! base's value, what the source set itself stays. [`TABLE`] says how each member is compared.
//! Where the old base's config is not known, whatever the source has counts as its own.

use serde_json::{Map, Value};

use super::{Epoch, environment, history};
use crate::examine::{Command, PlatformSubject};
use crate::oci::{Config, DiffId, is_dangerous, json};

/// How a member of the container is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// As one value.
    Whole,
    /// Key by key.
    Keys,
    /// Entry by entry, see `environment`.
    Environment,
}

/// The rows, in the order in which they are written. The command has its own rule (`command`).
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

const CONTAINER_ORDER: [&str; 12] = [
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

const CONFIG_ORDER: [&str; 10] =
    ["created", "author", "architecture", "os", "os.version", "os.features", "variant", "config", "rootfs", "history"];

/// The whole config; members nobody knows survive from the source.
pub(super) fn merge(
    subject: &PlatformSubject,
    command: &Command,
    diff_ids: &[DiffId],
    epoch: Option<Epoch>,
) -> Map<String, Value> {
    let mut config = subject.source.config.object().clone();
    let old = subject.old_base.image.as_ref().map(|image| image.config.container()).unwrap_or_default();
    let container = merge_container(&old, &subject.source.config, &subject.base.config, command);
    let diff_ids: Vec<Value> = diff_ids.iter().map(|id| id.to_string().into()).collect();
    if let Some(epoch) = epoch {
        config.insert("created".into(), epoch.to_rfc3339().into());
    }
    config.insert("config".into(), Value::Object(container));
    config.insert("rootfs".into(), serde_json::json!({"type": "layers", "diff_ids": diff_ids}));
    config.insert("history".into(), history::merge(subject));
    json::ordered(config, &CONFIG_ORDER)
}

fn merge_container(old: &Map<String, Value>, source: &Config, new: &Config, command: &Command) -> Map<String, Value> {
    let new = new.container();
    let mut out = source.container();
    for (member, how) in TABLE {
        let merged = match how {
            Merge::Whole => whole(old.get(member), out.get(member), new.get(member)),
            Merge::Keys => keys(old.get(member), out.get(member), new.get(member)),
            Merge::Environment => environment(old.get(member), out.get(member), new.get(member)),
        };
        put(&mut out, member, merged);
    }
    let words = |words: &Option<Vec<String>>| words.as_ref().map(|words| Value::from(words.clone()));
    put(&mut out, "Entrypoint", words(&command.entrypoint));
    put(&mut out, "Cmd", words(&command.cmd));
    json::ordered(out, &CONTAINER_ORDER)
}

fn put(out: &mut Map<String, Value>, member: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(out.insert(member.to_owned(), value)),
        None => drop(out.shift_remove(member)),
    }
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

fn environment(old: Option<&Value>, source: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let words = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let merged = environment::merge(&words(old), &words(source), &words(new));
    (!merged.is_empty()).then(|| merged.into())
}

impl Epoch {
    /// The moment as RFC 3339 in UTC, without a fraction.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let (days, seconds) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}

/// Days since 1970 to year, month and day (Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(container: &Value) -> Config {
        let value = json!({"os": "linux", "architecture": "amd64", "config": container, "rootfs": {"diff_ids": []}});
        Config::read(value.to_string().into_bytes()).unwrap()
    }

    fn merged(old: &Value, source: &Value, new: &Value) -> Value {
        let old = old.as_object().cloned().unwrap();
        Value::Object(merge_container(&old, &config(source), &config(new), &Command::default()))
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

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(Epoch(seconds).to_rfc3339(), text);
        }
    }
}
