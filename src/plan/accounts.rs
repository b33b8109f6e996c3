//! The accounts that go along: that of the user the image runs as, its groups, those that the command or
//! a program names, and all that the image's own layers created, used or not: a program may look them up.
//!
//! What is missing is taken over from the source, line by line. Never the source's files: they describe the
//! old base.

use std::collections::HashSet;

use crate::process::{
    AccountFile, AccountLine, Accounts, Container, Identity, UnknownAccount, UserText, Which, identify, is_name,
};
use start::rootfs::Root;

/// An account that means another number on the new base than it did in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherNumber {
    pub name: String,
    pub which: Which,
    pub before: u64,
    pub after: u64,
}

/// What becomes of the account files.
#[derive(Debug, Clone, Default)]
pub struct AccountPlan {
    /// The files that must be written, whole.
    pub files: Vec<(Which, Vec<u8>)>,
    /// The accounts that they have more than before.
    pub added: Vec<String>,
    pub unknown: Vec<UnknownAccount>,
    pub other_numbers: Vec<OtherNumber>,
    /// Whom the first process of the result runs as, where that is known.
    pub identity: Option<Identity>,
}

/// The roots that accounts are compared between.
pub(super) struct AccountRoots<'a> {
    pub(super) old_base: &'a Root<'a>,
    pub(super) source: &'a Root<'a>,
    pub(super) rebased: &'a Root<'a>,
}

/// Looks the image's user up in the rebased root, and in the source where that does not have it; and takes
/// over what is `named`, and what the image's own layers created. Format 1 had neither.
pub(super) fn look_up(container: &Container, named: &HashSet<String>, roots: &AccountRoots<'_>) -> AccountPlan {
    let (old, source) = (Accounts::of(roots.old_base), Accounts::of(roots.source));
    let mut merge = AccountMerge { now: Accounts::of(roots.rebased), out: AccountPlan::default() };
    let UserText { user, group } = UserText::new(container.text("User"));
    let name = merge.user(user, &source);
    merge.group(group, &source);
    if let Some(name) = name {
        merge.memberships(&name, &source.group);
    }
    merge.named(named, &source);
    merge.created(Which::Passwd, &old.passwd, &source.passwd);
    merge.created(Which::Group, &old.group, &source.group);
    merge.finish(container.text("User"))
}

struct AccountMerge {
    now: Accounts,
    out: AccountPlan,
}

impl AccountMerge {
    /// Takes the user over where it is missing; gives its name where one is known.
    fn user(&mut self, user: &str, source: &Accounts) -> Option<Vec<u8>> {
        let find = |file: &AccountFile| match user.parse::<i64>() {
            _ if user.is_empty() => file.numbered(0).map(|line| line.0.to_vec()),
            Ok(id) => u64::try_from(id).ok().and_then(|id| file.numbered(id)).map(|line| line.0.to_vec()),
            Err(_) => file.named(user.as_bytes()).map(|line| line.0.to_vec()),
        };
        let line = match (find(&self.now.passwd), find(&source.passwd)) {
            (None, None) => {
                self.unknown(user, Which::Passwd);
                return None;
            }
            (Some(now), before) => {
                self.compare(Which::Passwd, &now, before.as_deref());
                now
            }
            // A number whose name means another number by now: the number alone counts.
            (None, Some(before)) if self.now.passwd.named(AccountLine(&before).name()).is_some() => return None,
            (None, Some(before)) => {
                self.add(Which::Passwd, &before);
                before
            }
        };
        let line = AccountLine(&line);
        self.primary_group(line.group_id(), source);
        Some(line.name().to_vec())
    }

    fn primary_group(&mut self, id: u64, source: &Accounts) {
        if self.now.group.numbered(id).is_some() {
            return;
        }
        let Some(line) = source.group.numbered(id) else { return };
        if self.now.group.named(line.name()).is_none() {
            self.add(Which::Group, &line.with_members(b""));
        }
    }

    fn group(&mut self, group: &str, source: &Accounts) {
        if !is_name(group) {
            return;
        }
        let before = source.group.named(group.as_bytes()).map(|line| line.with_members(b""));
        if let Some(now) = self.now.group.named(group.as_bytes()).map(|line| line.0.to_vec()) {
            self.compare(Which::Group, &now, before.as_deref());
        } else if let Some(line) = before {
            self.add(Which::Group, &line);
        } else {
            self.unknown(group, Which::Group);
        }
    }

    /// Runtimes give a process the groups that list its user.
    fn memberships(&mut self, user: &[u8], source: &AccountFile) {
        let of_user = |line: &AccountLine<'_>| line.members().any(|member| member == user);
        for line in source.lines().filter(of_user) {
            self.member(line, user);
        }
    }

    /// Makes the user a member of a group of the source.
    fn member(&mut self, group: AccountLine<'_>, user: &[u8]) {
        let is_member = |line: &AccountLine<'_>| line.members().any(|member| member == user);
        match self.now.group.named(group.name()).map(|now| (now.id(), is_member(&now))) {
            None => self.add(Which::Group, &group.with_members(user)),
            Some((id, false)) if id == group.id() => {
                self.now.group.add_member(group.name(), user);
                let name = String::from_utf8_lossy(group.name());
                self.out.added.push(format!("{} in group {name}", String::from_utf8_lossy(user)));
                self.changed(Which::Group);
            }
            Some((after, _)) if after != group.id() => self.other_number(Which::Group, group, after),
            Some(_) => {}
        }
    }

    /// Accounts of the old base that the command or a program names: they are looked up at run time.
    fn named(&mut self, names: &HashSet<String>, source: &Accounts) {
        let is_named = |line: &AccountLine<'_>| std::str::from_utf8(line.name()).is_ok_and(|name| names.contains(name));
        for line in source.passwd.lines().filter(is_named) {
            self.bring(Which::Passwd, line);
            self.primary_group(line.group_id(), source);
            self.memberships(line.name(), &source.group);
        }
        for line in source.group.lines().filter(is_named) {
            self.bring(Which::Group, line);
        }
    }

    /// What the image's own layers added to an account file of the old base.
    fn created(&mut self, which: Which, old: &AccountFile, source: &AccountFile) {
        for line in source.lines() {
            match old.named(line.name()) {
                None => self.bring(which, line),
                Some(before) if which == Which::Group => {
                    let is_new = |member: &&[u8]| before.members().all(|other| other != *member);
                    let new: Vec<Vec<u8>> = line.members().filter(is_new).map(<[u8]>::to_vec).collect();
                    for member in new {
                        self.member(line, &member);
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn bring(&mut self, which: Which, line: AccountLine<'_>) {
        let now = match which {
            Which::Passwd => &self.now.passwd,
            Which::Group => &self.now.group,
        };
        match now.named(line.name()).map(AccountLine::id) {
            None => self.add(which, line.0),
            Some(after) if after != line.id() => self.other_number(which, line, after),
            Some(_) => {}
        }
    }

    fn compare(&mut self, which: Which, now: &[u8], before: Option<&[u8]>) {
        let (now, before) = (AccountLine(now), before.map(AccountLine));
        if let Some(before) = before.filter(|before| before.id() != now.id()) {
            self.other_number(which, before, now.id());
        }
    }

    fn other_number(&mut self, which: Which, before: AccountLine<'_>, after: u64) {
        let name = String::from_utf8_lossy(before.name()).into_owned();
        let other = OtherNumber { name, which, before: before.id(), after };
        if !self.out.other_numbers.contains(&other) {
            self.out.other_numbers.push(other);
        }
    }

    fn unknown(&mut self, name: &str, which: Which) {
        if is_name(name) {
            self.out.unknown.push(UnknownAccount { name: name.to_owned(), which });
        }
    }

    fn add(&mut self, which: Which, line: &[u8]) {
        let (kind, file) = match which {
            Which::Passwd => ("user", &mut self.now.passwd),
            Which::Group => ("group", &mut self.now.group),
        };
        file.add(line);
        let line = AccountLine(line);
        self.out.added.push(format!("{kind} {} ({})", String::from_utf8_lossy(line.name()), line.id()));
        self.changed(which);
    }

    fn changed(&mut self, which: Which) {
        if !self.out.files.iter().any(|(there, _)| *there == which) {
            self.out.files.push((which, Vec::new()));
        }
    }

    fn finish(self, user: &str) -> AccountPlan {
        let Self { now, mut out } = self;
        out.identity = identify(user, &now).ok();
        let (mut passwd, mut group) = (Some(now.passwd.into_bytes()), Some(now.group.into_bytes()));
        for (which, content) in &mut out.files {
            let written = match which {
                Which::Passwd => passwd.take(),
                Which::Group => group.take(),
            };
            *content = written.unwrap_or_default();
        }
        out
    }
}
