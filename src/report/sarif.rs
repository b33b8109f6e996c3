//! The rows as SARIF 2.1.0: one run, its rules, one result for each finding.

use serde::Serialize;
use serde_json::{Value, json};

use super::rows::{Row, RowFinding, Rows};
use super::rules::{explained, fix_sentence};
use super::to_json;
use crate::rules::{Level, Rule};
use oci::error::{printable, printable_lines};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifLog {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [SarifRun; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifRun {
    tool: Value,
    column_kind: &'static str,
    results: Vec<SarifResult>,
    invocations: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: &'static str,
    level: &'static str,
    message: Value,
    locations: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Value>,
    properties: Value,
}

#[must_use]
pub fn to_sarif(rows: &Rows<'_>) -> String {
    let results: Vec<SarifResult> =
        rows.list.iter().flat_map(|row| row.findings.iter().map(|finding| result(row, finding))).collect();
    let rules: Vec<Value> = rows.rules().into_iter().map(descriptor).collect();
    let driver = json!({
        "name": "underpin", "version": env!("CARGO_PKG_VERSION"), "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules,
    });
    let failed = rows.list.iter().filter_map(|row| Some((row, row.error?)));
    let notifications: Vec<Value> = failed
        .map(|(row, error)| json!({"level": "error", "message": {"text": error.to_string()}, "locations": [location(row, None)]}))
        .collect();
    let invocation =
        json!({"executionSuccessful": notifications.is_empty(), "toolExecutionNotifications": notifications});
    let tool = json!({"driver": driver});
    let run = SarifRun { tool, column_kind: "unicodeCodePoints", results, invocations: vec![invocation] };
    to_json(&SarifLog { schema: "https://json.schemastore.org/sarif-2.1.0.json", version: "2.1.0", runs: [run] })
}

/// The rule with its explanation, which viewers show beside a result.
fn descriptor(rule: Rule) -> Value {
    let row = rule.row();
    let fix = fix_sentence(rule);
    let markdown = format!(
        "{}\n\n**Why:** {}\n\n**Example:**\n\n```text\n{}\n```\n\n**Fix:** {fix}\n\n`underpin explain {rule}` prints this, too.",
        row.means, row.why, row.example
    );
    json!({
        "id": row.id,
        "name": row.id,
        "shortDescription": {"text": row.means},
        "fullDescription": {"text": format!("{} {}", row.means, row.why)},
        "help": {"text": explained(rule), "markdown": markdown},
        "properties": {"tags": [row.family.word()]},
    })
}

fn result(row: &Row<'_>, it: &RowFinding<'_>) -> SarifResult {
    let finding = &it.finding;
    let text = [&finding.message, &finding.evidence, &finding.fix];
    let text: Vec<&str> = text.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let (level, suppressed) = match finding.level {
        Level::Refuse => ("error", false),
        Level::Excepted => ("error", true),
        Level::Warn => ("warning", false),
        Level::Note => ("note", false),
    };
    let suppression = json!({"kind": "external", "status": "accepted"});
    SarifResult {
        rule_id: finding.rule.id(),
        level,
        message: json!({"text": printable_lines(&text.join("\n"))}),
        locations: vec![location(row, Some(it))],
        suppressions: if suppressed { vec![suppression] } else { Vec::new() },
        properties: json!({"name": row.name, "platform": it.platform, "level": finding.level}),
    }
}

/// An image is no file. Its reference takes the place of a file name, so that viewers can group by it.
fn location(row: &Row<'_>, it: Option<&RowFinding<'_>>) -> Value {
    let platform = it.map_or("", |it| it.platform);
    let name = [&*row.name, platform].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let region = match it.and_then(|it| it.at) {
        Some(at) => json!({"startLine": at.line, "startColumn": at.column}),
        None => json!({"startLine": 1}),
    };
    json!({
        "physicalLocation": {"artifactLocation": {"uri": as_uri(row.file.unwrap_or(&row.name))}, "region": region},
        "logicalLocations": [{"fullyQualifiedName": printable(&name), "kind": "module"}],
    })
}

/// A relative reference of RFC 3986: everything that could be taken for a scheme or a path step is encoded.
fn as_uri(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_uris() {
        assert_eq!(as_uri("a/b c%é.yaml"), "a/b%20c%25%C3%A9.yaml");
        assert_eq!(as_uri("r.example:5000/a@sha256:0"), "r.example%3A5000/a%40sha256%3A0");
    }
}
