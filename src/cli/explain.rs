//! `underpin explain`: what a rule means, why it exists, an example, and what to do.

use clap::Args;

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use crate::report::{explained, listed, rules_to_json};
use crate::rules::Rule;
use oci::error::{Error, Result};

/// Explain a rule: what it means, why it exists, an example, and what to do
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    /// The id of the rule, as reports show it in brackets [default: list all rules]
    #[arg(value_name = "RULE")]
    rule: Option<String>,
    /// Print the rule, or all of them, as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  # a report says [log-flag-unknown]
  underpin explain log-flag-unknown

  # all rules, by subject
  underpin explain

  # the rules that --allow takes
  underpin explain --json | jq -r '.rules[] | select(.allow).rule'

Exit codes: 0 explained; 2 there is no such rule.";

/// So many ids are suggested for one that does not exist.
const SUGGESTED: usize = 3;
/// How alike an id must be to be suggested, of 1.
const ALIKE: f32 = 0.5;

impl Explain {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let rule = self.rule.as_deref().map(find).transpose()?;
        match (console.form, rule) {
            (Form::Json, Some(rule)) => console.json(&rules_to_json(std::iter::once(rule)).to_string()),
            (Form::Json, None) => console.json(&rules_to_json(Rule::all()).to_string()),
            (Form::Text, Some(rule)) => console.show(&explained(rule)),
            (Form::Text, None) => console.show(&listed()),
        }
        Ok(Ended::Done)
    }
}

/// The rule with this id, which may be in its brackets still.
fn find(text: &str) -> Result<Rule> {
    let id = text.trim().trim_start_matches('[').trim_end_matches(']');
    Rule::find(id).ok_or_else(|| {
        let ids: Vec<&str> = Rule::all().map(Rule::id).collect();
        let near = similar::get_close_matches(id, &ids, SUGGESTED, ALIKE);
        let error = Error::usage("there is no such rule").fact("rule", text);
        let error = if near.is_empty() { error } else { error.fact("similar", near.join(", ")) };
        error.hint("`underpin explain` lists all rules")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_in_its_brackets_and_a_misspelled_one_has_neighbours() {
        assert_eq!(find("[needs-shell]").unwrap(), Rule::NeedsShell);
        for (text, near) in [("need-shell", "needs-shell"), ("log-flag", "log-flags"), ("user_missing", "user-missing")]
        {
            let error = find(text).unwrap_err().to_string();
            assert!(error.contains(near), "{error}");
        }
        assert!(!find("xyzzy").unwrap_err().to_string().contains("similar"));
    }
}
