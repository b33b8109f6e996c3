//! The rules about the base of an image: whether it is allowed, and whether an exception is recorded,
//! missing, or no longer needed.
//!
//! An exception lets a component stay on its base. It says nothing about a move: what refuses a move
//! refuses it still.

use super::base_policy::{BasePolicy, CurrentBase};
use super::exceptions::Exception;

use crate::rules::{Finding, Level, Rule};
use oci::error::CommandLine;

/// What the policy says of a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseVerdict {
    Allowed,
    /// Allowed with an entry in the list.
    WithException,
    NotAllowed,
}

impl BaseVerdict {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::WithException => "exception",
            Self::NotAllowed => "not-allowed",
        }
    }
}

/// Whether the image could move to an allowed base now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Movable {
    /// It is based on one.
    Already,
    Yes,
    /// What stops it, in one sentence each.
    No(Vec<String>),
    /// It could not be determined; why.
    Unknown(String),
}

impl Movable {
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Already => "already",
            Self::Yes => "yes",
            Self::No(_) => "no",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The move of an image that was tried.
#[derive(Debug)]
pub struct TriedMove<'a> {
    /// The image, as the exception list names it.
    pub component: &'a str,
    pub movable: &'a Movable,
    /// The command that makes this move.
    pub command: &'a CommandLine,
}

/// Judges one platform of an image.
#[must_use]
pub fn judge_base(
    policy: &BasePolicy,
    current: &CurrentBase,
    recorded: Option<&Exception>,
    tried: &TriedMove<'_>,
) -> (BaseVerdict, Vec<Finding>) {
    let TriedMove { component, movable, .. } = tried;
    let verdict = match (policy.allows(current), policy.allows_with_exception(current)) {
        (true, _) => BaseVerdict::Allowed,
        (_, true) => BaseVerdict::WithException,
        _ => BaseVerdict::NotAllowed,
    };
    let findings = match (verdict, recorded) {
        (BaseVerdict::Allowed, None) => Vec::new(),
        (BaseVerdict::Allowed, Some(exception)) => vec![no_longer_needed(current, exception)],
        (_, Some(exception)) => by_exception((policy, verdict), current, exception, movable),
        (BaseVerdict::WithException, None) => vec![
            Finding::new(
                Rule::ExceptionMissing,
                Level::Refuse,
                format!(
                    "{component} is based on {current}, which is allowed only with an exception, and none is recorded"
                ),
            )
            .evidence(why_not_moved(movable))
            .fix(way_out(current, tried)),
        ],
        (BaseVerdict::NotAllowed, None) => vec![
            Finding::new(
                Rule::BaseNotAllowed,
                Level::Refuse,
                format!("{component} is based on {current}, which is not an allowed base"),
            )
            .evidence(why_not_moved(movable))
            .fix(way_out(current, tried)),
        ],
    };
    (verdict, findings)
}

fn no_longer_needed(current: &CurrentBase, exception: &Exception) -> Finding {
    let Exception { component, line, .. } = exception;
    Finding::new(
        Rule::ExceptionRecorded,
        Level::Refuse,
        format!("the exception for {component} is no longer needed: it is based on {current}"),
    )
    .evidence(entry(exception))
    .fix(format!("remove line {line} of the list: {}", removal(component)))
}

fn by_exception(
    (policy, verdict): (&BasePolicy, BaseVerdict),
    current: &CurrentBase,
    exception: &Exception,
    movable: &Movable,
) -> Vec<Finding> {
    let Exception { component, reason, .. } = exception;
    let names = policy.recorded(&exception.base);
    let is_of_this_base = names.iter().any(|base| base.covers(current));
    let is_of_another = !names.is_empty() && !is_of_this_base && *current != CurrentBase::Unnamed;
    if is_of_another && verdict == BaseVerdict::NotAllowed {
        return vec![
            Finding::new(
                Rule::BaseNotAllowed,
                Level::Refuse,
                format!("{component} is based on {current}, but its exception names another base"),
            )
            .evidence(entry(exception))
            .fix("rebase it to an allowed base, or correct the list"),
        ];
    }
    let mut findings = vec![
        Finding::new(Rule::ExceptionRecorded, Level::Excepted, format!("{component} may stay on {current}: {reason}"))
            .evidence(entry(exception)),
    ];
    let warn = |message: String, fix: &str| {
        Finding::new(Rule::ExceptionRecorded, Level::Warn, message).evidence(entry(exception)).fix(fix)
    };
    if !is_of_this_base {
        let message = format!("the list names another base for {component}, or none: it is based on {current}");
        findings.push(warn(message, "correct the base in the list"));
    }
    if *movable == Movable::Yes {
        let message = format!("nothing in the image keeps {component} from moving now");
        findings.push(warn(
            message,
            "rebase it and remove its row, unless the reason is one that no image shows, such as performance",
        ));
    }
    findings
}

fn entry(exception: &Exception) -> String {
    let Exception { component, base, reason, line, .. } = exception;
    format!("line {line} of the list: {component} | {base} | {reason}")
}

fn why_not_moved(movable: &Movable) -> String {
    match movable {
        Movable::Already => String::new(),
        Movable::Yes => "it could move to an allowed base now".to_owned(),
        Movable::No(stops) => format!("it cannot move now: {}", stops.join("; ")),
        Movable::Unknown(why) => format!("whether it could move could not be determined: {why}"),
    }
}

/// The command that takes a component off the list.
#[must_use]
pub fn removal(component: &str) -> CommandLine {
    CommandLine::underpin("exceptions").arg("FILE").flag("--remove", component)
}

fn way_out(current: &CurrentBase, TriedMove { component, movable, command }: &TriedMove<'_>) -> String {
    match movable {
        Movable::No(stops) => {
            let base = if let CurrentBase::Named(base) = current { base.without_digest() } else { "REF".to_owned() };
            let add = CommandLine::underpin("exceptions").arg("FILE").flag("--add", component).flag("--base", base);
            let add = add.flag("--reason", stops.first().map_or("TEXT", String::as_str));
            format!("fix what stops it, or record an exception: {add}")
        }
        _ if *current == CurrentBase::Unnamed => {
            format!("name the base that it may be on with --known-base REF, or rebase it: {command}")
        }
        _ => format!("rebase it: {command}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(base: &str) -> Exception {
        Exception {
            component: "etcd".to_owned(),
            base: base.to_owned(),
            reason: "needs a shell".to_owned(),
            links: Vec::new(),
            section: String::new(),
            owner: String::new(),
            supported: String::new(),
            line: 7,
            lost: String::new(),
        }
    }

    #[test]
    fn a_base_is_allowed_excepted_or_refused() {
        const STATIC: &str = "gcr.io/distroless/static:latest";
        const DEBIAN: &str = "k8s.gcr.io/debian-base:v1";
        const GO_RUNNER: &str = "registry.k8s.io/build-image/go-runner:v2.4.0";
        const IPTABLES: &str = "k8s.gcr.io/debian-iptables:v1";
        let stop = || Movable::No(vec!["it needs a shell".to_owned()]);
        for (stands_on, recorded, movable, expected) in [
            (STATIC, None, Movable::Already, &[][..]),
            (STATIC, Some(DEBIAN), Movable::Already, &["refuse exception-recorded"]),
            (DEBIAN, None, stop(), &["refuse exception-missing"]),
            (DEBIAN, None, Movable::Yes, &["refuse exception-missing"]),
            (DEBIAN, Some("k8s.gcr.io/debian-base"), stop(), &["excepted exception-recorded"]),
            (DEBIAN, Some(""), stop(), &["excepted exception-recorded", "warn exception-recorded"]),
            (DEBIAN, Some(IPTABLES), stop(), &["excepted exception-recorded", "warn exception-recorded"]),
            (
                DEBIAN,
                Some("k8s.gcr.io/debian-base"),
                Movable::Yes,
                &["excepted exception-recorded", "warn exception-recorded"],
            ),
            (IPTABLES, None, stop(), &["refuse base-not-allowed"]),
            (IPTABLES, Some("k8s.gcr.io/debian-iptables"), stop(), &["excepted exception-recorded"]),
            (IPTABLES, Some("k8s.gcr.io/debian-base"), stop(), &["refuse base-not-allowed"]),
            ("", None, stop(), &["refuse base-not-allowed"]),
            ("", Some("k8s.gcr.io/debian-base"), stop(), &["excepted exception-recorded", "warn exception-recorded"]),
            (DEBIAN, Some("debian-base"), stop(), &["excepted exception-recorded"]),
            (GO_RUNNER, Some("go-runner"), stop(), &["excepted exception-recorded"]),
            (GO_RUNNER, Some("distroless-iptables"), stop(), &["refuse base-not-allowed"]),
            ("evil.io/go-runner:v2", Some("go-runner"), stop(), &["refuse base-not-allowed"]),
            ("scratch", None, Movable::Yes, &["refuse base-not-allowed"]),
        ] {
            let current = match stands_on {
                "" => CurrentBase::Unnamed,
                "scratch" => CurrentBase::Scratch,
                name => CurrentBase::Named(name.parse().unwrap()),
            };
            let recorded = recorded.map(exception);
            let command = CommandLine::underpin("rebase");
            let tried = TriedMove { component: "etcd", movable: &movable, command: &command };
            let (_, findings) = judge_base(&BasePolicy::default(), &current, recorded.as_ref(), &tried);
            let said: Vec<String> =
                findings.iter().map(|finding| format!("{} {}", finding.level.word(), finding.rule.id())).collect();
            assert_eq!(said, expected, "{stands_on} {recorded:?} {movable:?}");
        }
    }
}
