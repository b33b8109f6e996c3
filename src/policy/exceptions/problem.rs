//! What is wrong with a list, row by row.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::list::{Exception, ExceptionList};
use crate::oci::Location;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gravity {
    /// The list cannot be relied on.
    Refuse,
    /// It can, but says less than it should.
    Warn,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub gravity: Gravity,
    pub line: usize,
    pub component: String,
    pub message: String,
}

impl ExceptionList {
    /// Everything that is wrong, in the order of the rows.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut first: HashMap<&str, usize> = HashMap::new();
        let mut problems = Vec::new();
        for exception in self.exceptions() {
            let mut say = |gravity, message: String| {
                let component = exception.component.clone();
                problems.push(Problem { gravity, line: exception.line, component, message });
            };
            match first.get(exception.component.as_str()) {
                Some(line) if !exception.component.is_empty() => {
                    say(Gravity::Refuse, format!("the component is recorded twice, first in line {line}"));
                }
                _ => {
                    first.insert(&exception.component, exception.line);
                }
            }
            for (gravity, message) in of_row(exception) {
                say(gravity, message);
            }
        }
        problems
    }
}

impl ExceptionList {
    /// Rows whose component none of these images is.
    #[must_use]
    pub fn strangers<'a>(&self, images: impl Iterator<Item = &'a Location>) -> Vec<Problem> {
        let known: HashSet<String> = images.filter_map(|image| Some(self.of(image)?.component.clone())).collect();
        let strangers = self.exceptions().iter().filter(|exception| !known.contains(&exception.component));
        let problem = |exception: &Exception| Problem {
            gravity: Gravity::Refuse,
            line: exception.line,
            component: exception.component.clone(),
            message: "no image of the batch is this component".to_owned(),
        };
        strangers.map(problem).collect()
    }
}

fn of_row(exception: &Exception) -> Vec<(Gravity, String)> {
    let mut found = Vec::new();
    if exception.component.is_empty() {
        found.push((Gravity::Refuse, "the row names no component".to_owned()));
    } else if exception.component.parse::<super::Component>().is_err() {
        found.push((Gravity::Refuse, "the component is not the name of an image".to_owned()));
    }
    if exception.reason.is_empty() {
        found.push((Gravity::Refuse, "the row gives no reason".to_owned()));
    }
    if !exception.lost.is_empty() {
        let lost = &exception.lost;
        found.push((Gravity::Refuse, format!("the row has more cells than the header, which nobody sees: {lost}")));
    }
    if exception.base.is_empty() {
        found.push((Gravity::Warn, "the row names no base".to_owned()));
    } else if exception.base.parse::<Location>().is_err() {
        found.push((Gravity::Warn, format!("the base is not the name of an image: {}", exception.base)));
    }
    found
}
