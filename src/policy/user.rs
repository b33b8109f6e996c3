//! The rules about the user that the image runs as.

use crate::plan::{OtherNumber, Pass};
use crate::process::{UnknownAccount, Which};
use crate::rules::{Finding, Level, Rule};

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let accounts = &pass.draft.layers.added.accounts;
    let unknown = accounts.unknown.iter().map(user_missing);
    let lost = pass.startup.after.user.as_ref().err();
    // A source that does not start itself proves nothing; its user is odd, and that is said.
    let lost = lost.filter(|_| accounts.unknown.is_empty() && pass.startup.before.user.is_ok()).map(user_missing);
    unknown.chain(lost).chain(accounts.other_numbers.iter().map(other_number)).chain(user_by_name(pass)).collect()
}

fn user_missing(account: &UnknownAccount) -> Finding {
    let message = format!("the image runs as {}, which exists neither on the new base nor in the source", account.name);
    Finding::new(Rule::UserMissing, Level::Refuse, message)
        .about(account.which.path())
        .evidence(format!("{} has no line for it", account.which.path()))
        .fix("set USER to a number, or pass --user 65532:65532 (Kubernetes' runAsNonRoot requires a number)")
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
        .fix("files owned by the old number no longer belong to the user: set USER to a number")
}

fn user_by_name(pass: &Pass) -> Option<Finding> {
    let user = pass.draft.container.text("User");
    let name = user.split(':').next().filter(|name| !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit()))?;
    let identity = pass.draft.layers.added.accounts.identity.as_ref();
    let number = identity.map_or_else(|| "NUMBER".to_owned(), |user| user.credentials.uid.to_string());
    Some(
        Finding::new(Rule::UserByName, Level::Warn, format!("the image runs as {name}, by name"))
            .evidence("Kubernetes' runAsNonRoot refuses an image whose user is not a number")
            .fix(format!("set USER to a number where the image is built, or pass --user {number}")),
    )
}
