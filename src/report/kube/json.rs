//! What became of manifests, as the object of `docs/reports.md`. Keys may be added, never changed.

use serde_json::{Map, Value, json};

use super::{File, verdict};
use crate::kube::{Command, Outcome, Position, Remark, Why};
use crate::report::translation::log;

#[must_use]
pub fn to_json(files: &[File]) -> Value {
    let has = |wanted: &str| files.iter().any(|file| file.outcome() == wanted);
    let outcome = ["error", "refused", "changed"].into_iter().find(|word| has(word)).unwrap_or("unchanged");
    json!({
        "schema": "underpin.kube/v1",
        "outcome": outcome,
        "files": files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn file(file: &File) -> Value {
    let refused = file.result.as_ref().ok().and_then(|judged| judged.refused.as_ref());
    json!({
        "path": file.path,
        "outcome": file.outcome(),
        "changed": file.is_changed(),
        "error": file.result.as_ref().err().map(|error| error.what().to_owned()),
        "refused": refused.map(|(why, at)| refusal(why, *at)),
        "commands": file.commands().iter().map(command).collect::<Vec<_>>(),
    })
}

fn refusal(why: &Why, at: Position) -> Value {
    json!({"reason": why.rule.id(), "detail": why.detail, "line": at.line, "column": at.column})
}

fn command(command: &Command) -> Value {
    let (changed, why) = match &command.outcome {
        Outcome::Changed(changed) => (Some(changed), None),
        Outcome::Refused(why) | Outcome::Kept(why) => (None, Some(why)),
        Outcome::Unchanged => (None, None),
    };
    let env: Map<String, Value> = changed
        .map(|changed| changed.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect())
        .unwrap_or_default();
    json!({
        "object": {"kind": command.object.kind, "name": command.object.name},
        "container": command.container,
        "place": command.what.word(),
        "line": command.position.line,
        "column": command.position.column,
        "verdict": verdict(command),
        "before": command.before,
        "command": changed.map(|changed| &changed.command),
        "args": changed.map(|changed| &changed.args),
        "env": env,
        "workdir": changed.and_then(|changed| changed.workdir.as_ref()),
        "log": changed.and_then(|changed| changed.log.as_ref()).map(log),
        "reason": why.map_or("", |why| why.rule.id()),
        "detail": why.map_or("", |why| why.detail.as_str()),
        "notes": command.remarks.iter().map(remark).collect::<Vec<_>>(),
    })
}

fn remark(remark: &Remark) -> Value {
    json!({"note": remark.rule, "message": remark.message})
}
