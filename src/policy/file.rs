//! The policy file: which bases are allowed, and where the exceptions are kept.
//!
//! ```yaml
//! allow_bases: [gcr.io/distroless/static]
//! exception_bases: [registry.k8s.io/build-image/debian-base]
//! exceptions: base-image-exception-list.md
//! excepted_rules: [needs-tool]
//! ```

use super::allow::Allow;
use super::bases::{BaseName, BasePolicy};
use crate::error::{Error, Result};
use crate::yaml::{self, Members};

const KEYS: [&str; 4] = ["allow_bases", "exception_bases", "exceptions", "excepted_rules"];

#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub policy: BasePolicy,
    /// The exception list, from the policy file's own folder.
    pub exceptions: Option<String>,
}

impl PolicyFile {
    /// Reads the file; what it does not say is as by default.
    pub fn read(text: &str) -> Result<Self> {
        let document = yaml::read(text)?;
        let members = document.members(&KEYS)?;
        let mut policy = BasePolicy::default();
        if let Some(names) = list::<BaseName>(members, "allow_bases")? {
            policy.allowed = names;
        }
        if let Some(names) = list::<BaseName>(members, "exception_bases")? {
            policy.with_exception = names;
        }
        if let Some(rules) = list::<Allow>(members, "excepted_rules")? {
            policy.excepted_rules = rules;
        }
        let exceptions = members.get("exceptions").map(|node| node.text().map(str::to_owned)).transpose()?;
        Ok(Self { policy, exceptions })
    }
}

fn list<T: std::str::FromStr<Err = Error>>(members: Members<'_>, key: &str) -> Result<Option<Vec<T>>> {
    let Some(node) = members.get(key) else { return Ok(None) };
    node.texts()?.into_iter().map(yaml::Node::parse).collect::<Result<Vec<T>>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_says_takes_the_place_of_the_default() {
        let file = PolicyFile::read("allow_bases: [a.io/b, scratch]\nexceptions: list.md\n").unwrap();
        assert_eq!(file.policy.allowed, ["a.io/b".parse().unwrap(), BaseName::Scratch]);
        assert_eq!(file.policy.with_exception, BasePolicy::default().with_exception);
        assert_eq!(file.exceptions.as_deref(), Some("list.md"));
        let rules = PolicyFile::read("excepted_rules: needs-tool\n").unwrap().policy.excepted_rules;
        assert_eq!(rules, ["needs-tool".parse().unwrap()]);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for (text, place) in [
            ("allow_bases: [a]\nexcept: x\n", "line 2, column 1"),
            ("allow_bases:\n  - NOT A NAME\n", "line 2, column 5"),
            ("excepted_rules: [no-such-rule]\n", "line 1, column 18"),
            ("allow_bases: {a: b}\n", "line 1, column 14"),
        ] {
            let error = PolicyFile::read(text).unwrap_err();
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
    }
}
