//! Whether what is attached to a result says what underpin would say about it, field by field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::statement::ReadStatement;
use super::{provenance, sbom};

/// More differences are counted, not listed.
const MOST: usize = 20;
/// A longer value is cut off.
const LONGEST: usize = 200;

/// Whether it is a statement that underpin makes.
#[must_use]
pub fn is_ours(statement: &ReadStatement) -> bool {
    provenance::is_provenance(statement) || sbom::is_ours(statement)
}

/// What an attached predicate says otherwise than the derived one.
#[must_use]
pub fn differences(derived: &Value, attached: &Value) -> Vec<String> {
    let comparable = |predicate: &Value| sbom::comparable(provenance::comparable(predicate.clone()));
    let mut found = Vec::new();
    compare("", &comparable(derived), &comparable(attached), &mut found);
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    found.extend((more > 0).then(|| format!("{more} more differences")));
    found
}

fn compare(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (expected, got) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let member = |of: &Map<String, Value>| of.get(key).cloned().unwrap_or(Value::Null);
                compare(&below(key), &member(one), &member(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{at}]"), one, other, found);
            }
        }
        _ if expected == got => {}
        _ => found.push(format!("{path}: expected {}, got {}", shown(expected), shown(got))),
    }
}

/// A value in a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match (value, text.char_indices().nth(LONGEST)) {
        (_, None) => text,
        (Value::Array(list), Some(_)) => format!("a list of {}", list.len()),
        (_, Some((end, _))) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn predicate() -> Value {
        json!({"buildDefinition": {"buildType": "x", "externalParameters": {"options": {"keep": ["/a"]}},
            "resolvedDependencies": [{"name": "source", "digest": {"sha256": "a"}}, {"name": "old-base", "uri": "x"}]}})
    }

    const PLACE: &str = "/buildDefinition/resolvedDependencies/1/uri";

    #[test]
    fn a_field_that_differs_is_named() {
        for (path, value, expected) in [
            (
                "/buildDefinition/externalParameters/options/keep/0",
                json!("/b"),
                "buildDefinition.externalParameters.options.keep[0]: expected \"/a\", got \"/b\"",
            ),
            (
                "/buildDefinition/externalParameters/options",
                json!({}),
                "buildDefinition.externalParameters.options.keep: expected [\"/a\"], got null",
            ),
            (
                "/buildDefinition/resolvedDependencies/0/digest/sha256",
                json!("b"),
                "buildDefinition.resolvedDependencies[0].digest.sha256: expected \"a\", got \"b\"",
            ),
        ] {
            let mut attached = predicate();
            *attached.pointer_mut(path).unwrap() = value;
            assert_eq!(differences(&predicate(), &attached), [expected]);
        }
    }

    #[test]
    fn what_may_have_changed_since_is_not_compared() {
        let mut attached = predicate();
        let inputs = attached.pointer_mut("/buildDefinition/resolvedDependencies").unwrap().as_array_mut().unwrap();
        inputs.push(json!({"name": "source-referrer", "digest": {"sha256": "c"}}));
        inputs[1]["uri"] = "y".into();
        assert_eq!(differences(&predicate(), &attached), [""; 0]);
    }

    /// The version of the tool says nothing about the image; all else of an SBOM does.
    #[test]
    fn an_sbom_of_another_version_of_underpin_is_the_same() {
        let spdx = |tool: &str, name: &str| json!({"creationInfo": {"creators": [tool]}, "packages": [{"name": name}]});
        let cyclonedx = |version: &str, name: &str| {
            let tool = json!({"name": "underpin", "version": version});
            json!({"metadata": {"tools": {"components": [tool]}}, "components": [{"name": name}]})
        };
        let same = [
            (spdx("Tool: underpin-1", "a"), spdx("Tool: underpin-2", "a")),
            (cyclonedx("1", "a"), cyclonedx("2", "a")),
        ];
        for (one, other) in same {
            assert_eq!(differences(&one, &other), [""; 0]);
        }
        assert_eq!(
            differences(&spdx("Tool: underpin-1", "a"), &spdx("Tool: x", "a")),
            ["creationInfo.creators: expected [], got [\"Tool: x\"]"]
        );
        assert_eq!(
            differences(&cyclonedx("1", "a"), &cyclonedx("1", "b")),
            ["components[0].name: expected \"a\", got \"b\""]
        );
    }

    #[test]
    fn what_differs_a_lot_is_told_briefly() {
        let list = |count: usize| json!({"packages": vec!["package"; count]});
        assert_eq!(differences(&list(100), &list(99)), ["packages: expected a list of 100, got a list of 99"]);
        let others = json!({"packages": vec!["other"; 100]});
        let told = differences(&list(100), &others);
        assert_eq!((told.len(), told[MOST].as_str()), (MOST + 1, "80 more differences"));
        let long = differences(&json!({"a": "x".repeat(1000)}), &json!({"a": 1}));
        assert!(long[0].len() < 250, "{long:?}");
    }

    /// Statements with one value changed anywhere: all are told from the derived one.
    #[test]
    fn mutated_statements_differ() {
        let whole = predicate();
        let mut random = fastrand::Rng::with_seed(18);
        for _ in 0..50 {
            let mut mutant = whole.clone();
            mutate(&mut mutant, &mut random);
            // Where the old base was found decides nothing.
            let is_the_same = mutant.pointer(PLACE) != whole.pointer(PLACE);
            assert_eq!(differences(&whole, &mutant).is_empty(), is_the_same, "{mutant}");
        }
    }

    fn mutate(value: &mut Value, random: &mut fastrand::Rng) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let at = random.usize(..map.len());
                if let Some(member) = map.values_mut().nth(at) {
                    mutate(member, random);
                }
            }
            Value::Array(list) if !list.is_empty() => {
                let at = random.usize(..list.len());
                mutate(&mut list[at], random);
            }
            other => *other = json!(random.u32(..)),
        }
    }
}
