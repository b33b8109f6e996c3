//! The variables that a script sets, and which of them its program gets.

use std::collections::BTreeMap;

use super::builtin::is_shells_own;
use super::reason::{Fault, Reason, Span};
use super::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Known to the shell; in the program's environment only if it was there before.
    Shell,
    Program,
}

/// Set by the script, in the order of first mention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Variables {
    list: Vec<(String, Value, Reach, Span)>,
    places: BTreeMap<String, usize>,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.list.get(*self.places.get(name)?).map(|(_, value, ..)| value)
    }

    /// `NAME=value` as a command of its own.
    pub fn assign(&mut self, name: &str, value: Value, span: Span) -> Result<(), Fault> {
        self.set(name, value, Reach::Shell, span)
    }

    /// `export NAME=value`, or `NAME=value program`.
    pub fn export(&mut self, name: &str, value: Value, span: Span) -> Result<(), Fault> {
        self.set(name, value, Reach::Program, span)
    }

    /// `export NAME`: nothing to do where the script has not set it.
    pub fn publish(&mut self, name: &str) {
        if let Some((.., reach, _)) = self.places.get(name).and_then(|place| self.list.get_mut(*place)) {
            *reach = Reach::Program;
        }
    }

    fn set(&mut self, name: &str, value: Value, reach: Reach, span: Span) -> Result<(), Fault> {
        if is_shells_own(name) {
            let detail = format!("{name} has a meaning for the shell itself");
            return Err(Fault::new(Reason::Assignment, detail, span));
        }
        if let Some(known) = self.places.get(name).and_then(|place| self.list.get_mut(*place)) {
            known.1 = value;
            // Once exported, always exported.
            if reach == Reach::Program {
                known.2 = reach;
            }
        } else {
            self.places.insert(name.to_owned(), self.list.len());
            self.list.push((name.to_owned(), value, reach, span));
        }
        Ok(())
    }

    /// What the program gets. Whether it gets a variable that was not exported depends on whether
    /// the container has one of this name.
    pub fn environment(self) -> Result<Vec<(String, Value)>, Fault> {
        let exported = |(name, value, reach, span): (String, Value, Reach, Span)| match reach {
            Reach::Program => Ok((name, value)),
            Reach::Shell => {
                let detail = format!("{name} is set but not exported: the program gets it only if it was there before");
                Err(Fault::new(Reason::Assignment, detail, span))
            }
        };
        self.list.into_iter().map(exported).collect()
    }
}
