//! What a started container said of itself, and in what one that was moved does worse.

use std::collections::BTreeMap;

use crate::support::tools::Ended;

/// One start. `facts` are of the last program that spoke: wrappers hand over to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    pub code: Option<i32>,
    /// The tags of the programs that spoke, in order.
    pub programs: Vec<String>,
    pub facts: BTreeMap<String, String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// What was tried, and what came of it.
    pub did: Vec<(String, String)>,
    /// What was printed beside all that.
    pub said: Vec<String>,
    pub stderr: String,
}

impl Observation {
    pub fn of(ended: &Ended) -> Self {
        let mut seen = Self { code: ended.code, stderr: ended.stderr.trim().to_owned(), ..Self::default() };
        for line in ended.stdout.lines() {
            seen.take(line);
        }
        seen
    }

    /// One that did not even get as far as a runtime.
    pub fn failed(why: &str) -> Self {
        Self { stderr: why.to_owned(), ..Self::default() }
    }

    fn take(&mut self, line: &str) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "observed" => self.programs.push(rest.to_owned()),
            "fact" => self.facts.extend([pair(rest, ' ')]),
            "env" => self.env.extend([pair(rest, '=')]),
            "arg" => self.argument(rest),
            "did" => self.did.extend(rest.rsplit_once(": ").map(|(what, how)| (what.to_owned(), how.to_owned()))),
            // Where a file lies may change with a link; which file it is may not, and the tag says that.
            "exe" => {}
            _ => self.said.push(line.to_owned()),
        }
    }

    fn argument(&mut self, rest: &str) {
        let Some((at, word)) = rest.split_once(' ') else { return };
        self.args.truncate(at.parse().unwrap());
        self.args.push(word.to_owned());
    }

    pub fn all_done(&self) -> bool {
        self.did.iter().all(|(_, how)| how.starts_with("ok"))
    }

    fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    fn is_root(&self) -> bool {
        self.fact("uid").split(' ').any(|uid| uid == "0")
    }
}

fn pair(text: &str, by: char) -> (String, String) {
    // A fact without a value, such as no groups, is a fact.
    let (key, value) = text.split_once(by).unwrap_or((text, ""));
    (key.to_owned(), value.to_owned())
}

/// A way in which the result is not what the source was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It does not start, ends otherwise, is another program, says other things, or is now root: nothing
    /// excuses that.
    Worse(String),
    /// It could do something, and cannot now. A warning that names the thing excuses it where the case says so.
    Lost { what: String, how: String },
    /// User, groups, directory or variables differ, and the program runs. A warning by one of these rules that
    /// names one of these words excuses it.
    Changed { what: String, rules: &'static [&'static str], word: String },
}

const USER_RULES: &[&str] = &["user-changed", "account-number"];
const HOME_RULES: &[&str] = &["user-changed", "account-number", "env-lost"];
const WORKDIR_RULES: &[&str] = &["workdir-changed"];
const ENV_RULES: &[&str] = &["env-lost"];

/// Everything in which `after` is not what `before` was. Of the environment only `noticed` counts.
pub fn differences(before: &Observation, after: &Observation, noticed: &[String]) -> Vec<Difference> {
    if after.programs.is_empty() && !before.programs.is_empty() {
        let why = after.stderr.lines().last().unwrap_or("it said nothing");
        return vec![Difference::Worse(format!("does not start: {why}"))];
    }
    let mut found = worse(before, after);
    found.extend(changed(before, after));
    found.extend(noticed.iter().filter_map(|name| changed_variable(before, after, name)));
    found.extend(before.did.iter().filter_map(|(what, how)| lost(after, what, how)));
    found
}

fn worse(before: &Observation, after: &Observation) -> Vec<Difference> {
    let mut found = Vec::new();
    // One that both bases have may be another one; between a base and the image it is never excused.
    if before.programs != after.programs {
        let what = format!("program was {}, is {}", before.programs.join(" "), after.programs.join(" "));
        found.push(Difference::Changed { what, rules: &["program-changed"], word: "new base's program".to_owned() });
    }
    let mut differ = |what: &str, one: String, other: String| {
        if one != other {
            found.push(Difference::Worse(format!("{what} was {one}, is {other}")));
        }
    };
    differ("argv", format!("{:?}", before.args), format!("{:?}", after.args));
    differ("umask", before.fact("umask").to_owned(), after.fact("umask").to_owned());
    differ("output", format!("{:?}", before.said), format!("{:?}", after.said));
    // What could not be done is told below, with the words for it.
    if after.did.iter().all(|(_, how)| how.starts_with("ok")) {
        differ("exit code", format!("{:?}", before.code), format!("{:?}", after.code));
    }
    if after.is_root() && !before.is_root() {
        found.push(Difference::Worse(format!("runs as root, was {}", before.fact("uid"))));
    }
    found
}

fn changed(before: &Observation, after: &Observation) -> Vec<Difference> {
    let user = ["uid", "gid", "groups"].map(|name| (name, USER_RULES));
    let table = [&user[..], &[("home", HOME_RULES), ("cwd", WORKDIR_RULES)]].concat();
    let differs = table.iter().filter(|(name, _)| before.fact(name) != after.fact(name));
    let told = differs.map(|(name, rules)| Difference::Changed {
        what: format!("{name} was {:?}, is {:?}", before.fact(name), after.fact(name)),
        rules,
        word: String::new(),
    });
    told.collect()
}

fn changed_variable(before: &Observation, after: &Observation, name: &str) -> Option<Difference> {
    let (one, other) = (before.env.get(name), after.env.get(name));
    let what = format!("{name} was {one:?}, is {other:?}");
    (one != other).then(|| Difference::Changed { what, rules: ENV_RULES, word: name.to_owned() })
}

fn lost(after: &Observation, what: &str, how: &str) -> Option<Difference> {
    let now = after.did.iter().find(|(did, _)| did == what).map_or("not tried", |(_, how)| how.as_str());
    if now == how || !how.starts_with("ok") {
        return None;
    }
    let (verb, thing) = what.split_once(' ').unwrap_or((what, ""));
    let told = format!("{what} was {how}, is {now}");
    Some(match verb {
        "from-env" | "maybe-env" => Difference::Changed { what: told, rules: ENV_RULES, word: thing.to_owned() },
        // Without TZ this file says which zone it is.
        "zone" => Difference::Lost { what: "/etc/localtime".to_owned(), how: told },
        _ => Difference::Lost { what: thing.to_owned(), how: told },
    })
}
