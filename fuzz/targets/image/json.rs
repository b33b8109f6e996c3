//! Documents that are odd: a member that is gone, of another type, out of range, or there twice.

use serde_json::{Value, json};

use super::choices::Choices;

/// Changes a few values, as often as the input says.
pub fn distort(choices: &mut Choices<'_>, document: &mut Value) {
    let mut left = 4;
    while left > 0 && choices.rarely() {
        left -= 1;
        distort_one(choices, document);
    }
}

/// Walks down to some value and changes it.
fn distort_one(choices: &mut Choices<'_>, value: &mut Value) {
    let count = match value {
        Value::Object(members) => members.len(),
        Value::Array(values) => values.len(),
        _ => 0,
    };
    if count == 0 || choices.below(4) == 3 {
        *value = odd(choices, value);
        return;
    }
    let at = choices.below(count);
    match value {
        Value::Object(members) => {
            let key = members.keys().nth(at).cloned().unwrap_or_default();
            match choices.below(5) {
                4 => drop(members.remove(&key)),
                _ => distort_one(choices, &mut members[&key]),
            }
        }
        Value::Array(values) => match choices.below(6) {
            4 => drop(values.remove(at)),
            5 => values.push(values[at].clone()),
            _ => distort_one(choices, &mut values[at]),
        },
        _ => {}
    }
}

fn odd(choices: &mut Choices<'_>, before: &Value) -> Value {
    match choices.below(14) {
        0 => Value::Null,
        1 => json!(""),
        2 => json!(choices.text()),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(1e300),
        6 => json!([]),
        7 => json!({}),
        8 => json!(true),
        9 => json!("a".repeat(choices.below(256) * 64)),
        10 => json!([before, before]),
        11 => json!({ "": before }),
        12 => json!(format!("{}{}", before.as_str().unwrap_or_default(), choices.text())),
        _ => (0..choices.below(200)).fold(before.clone(), |inner, _| json!([inner])),
    }
}

/// The bytes of a document; now and then with a member twice, or cut off.
pub fn written(choices: &mut Choices<'_>, document: &Value) -> Vec<u8> {
    let mut text = document.to_string();
    if choices.rarely() {
        match choices.below(3) {
            0 => text = text.replacen('{', "{\"schemaVersion\":2,", 1),
            1 => text = text.replacen('{', "{\"Config\":{},", 1),
            _ => text.truncate(text.floor_char_boundary(choices.below(256) * 8)),
        }
    }
    text.into_bytes()
}
