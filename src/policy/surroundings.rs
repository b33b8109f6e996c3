//! The rules about what a process finds when it starts: its user, its folders, its health check.

use crate::plan::{DirectoryState, OtherNumber, Pass, UnknownAccount, Which};
use crate::process::Health;
use crate::rules::Rule;
use crate::rules::{Finding, Level};

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let added = &pass.draft.layers.added;
    let accounts = &added.accounts;
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(accounts.unknown.iter().map(user_missing));
    findings.extend(accounts.other_numbers.iter().map(other_number));
    findings.extend(user_by_name(pass));
    findings.extend(workdir_missing(&added.working_dir));
    findings.extend(log_dir_missing(&added.log_dir));
    findings.extend(healthcheck_shell(&pass.startup.health));
    findings
}

fn user_missing(account: &UnknownAccount) -> Finding {
    let message = format!("the image runs as {}, which neither the new base nor the source knows", account.name);
    Finding::new(Rule::UserMissing, Level::Refuse, message)
        .about(account.which.path())
        .evidence(format!("{} has no line for it", account.which.path()))
        .fix("write USER as a number, such as 65532:65532 (Kubernetes' runAsNonRoot wants one, too)")
}

fn other_number(account: &OtherNumber) -> Finding {
    let kind = match account.which {
        Which::Passwd => "user",
        Which::Group => "group",
    };
    let message = format!("{kind} {} has another number on the new base", account.name);
    Finding::new(Rule::AccountNumber, Level::Warn, message)
        .about(account.which.path())
        .evidence(format!("{} in the source, {} on the new base", account.before, account.after))
        .fix("files that belong to the old number are not the user's any more: write USER as a number")
}

fn user_by_name(pass: &Pass) -> Option<Finding> {
    let user = pass.draft.container.text("User");
    let name = user.split(':').next().filter(|name| !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit()))?;
    let number = pass.draft.layers.added.accounts.uid.map_or_else(|| "a number".to_owned(), |uid| uid.to_string());
    Some(
        Finding::new(Rule::UserByName, Level::Warn, format!("the image runs as {name}, by name"))
            .evidence("Kubernetes' runAsNonRoot refuses an image whose user is not a number")
            .fix(format!("write USER as {number}")),
    )
}

fn workdir_missing(state: &DirectoryState) -> Option<Finding> {
    let DirectoryState::Blocked { path, why } = state else { return None };
    Some(
        Finding::new(Rule::WorkdirMissing, Level::Refuse, format!("the working folder {path} cannot be used"))
            .about(path)
            .evidence(why)
            .fix("let WORKDIR name a folder that the image brings along"),
    )
}

fn log_dir_missing(state: &DirectoryState) -> Option<Finding> {
    let (path, evidence) = match state {
        DirectoryState::Blocked { path, why } => (path, why.clone()),
        DirectoryState::ReadOnly { path, uid } => (path, format!("user {uid} may not write to {path}")),
        _ => return None,
    };
    Some(
        Finding::new(Rule::LogDirMissing, Level::Refuse, format!("the log cannot be written in {path}"))
            .about(path)
            .evidence(evidence)
            .fix("declare the folder as a VOLUME, or make it in the image for the user that it runs as"),
    )
}

fn healthcheck_shell(health: &Health) -> Option<Finding> {
    let (message, evidence) = match health {
        Health::Fine => return None,
        Health::Lost { name, reasons } => {
            (format!("the health check runs {name}, which is not in the rebased image"), reasons)
        }
    };
    Some(
        Finding::new(Rule::HealthcheckShell, Level::Refuse, message)
            .evidence(evidence)
            .fix("write HEALTHCHECK in exec form with a program of the image, such as HEALTHCHECK CMD [\"/app\", \"health\"], or leave it to the orchestrator"),
    )
}
