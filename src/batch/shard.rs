//! `--shard`: a fixed part of a batch, for one of several machines.

use std::str::FromStr;

use oci::error::{Error, Result};

/// Part `index` of `count`, from 0. Invariant: `index < count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// `I/N`; or `/N`, where `given` is the index: Kubernetes gives it to a pod of an Indexed Job.
    pub fn read(text: &str, given: Option<&str>) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(what.to_owned())
                .fact("given", text)
                .hint("--shard 0/4 is the first of four; --shard /4 takes the index from JOB_COMPLETION_INDEX")
        };
        let (index, count) = text.split_once('/').ok_or_else(|| wrong("--shard takes I/N"))?;
        let index = match (index, given) {
            ("", Some(given)) => given,
            ("", None) => return Err(wrong("--shard /N needs JOB_COMPLETION_INDEX, which is not set")),
            (index, _) => index,
        };
        let number = |text: &str| usize::from_str(text).ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match (number(index), number(count)) {
            (Some(index), Some(count)) if index < count => Ok(Self { index, count }),
            _ => Err(wrong("--shard I/N: I must be a number from 0 to N-1")),
        }
    }

    /// Whether the item at this position belongs to it.
    #[must_use]
    pub const fn has(self, at: usize) -> bool {
        at % self.count == self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_exactly_one_shard() {
        for count in 1..8 {
            let shards: Vec<Shard> =
                (0..count).map(|index| Shard::read(&format!("{index}/{count}"), None).unwrap()).collect();
            for at in 0..100 {
                assert_eq!(shards.iter().filter(|shard| shard.has(at)).count(), 1, "{at} of {count}");
            }
        }
        assert!((0..100).all(|at| Shard::WHOLE.has(at)));
    }

    #[test]
    fn the_number_may_come_from_kubernetes() {
        assert_eq!(Shard::read("/4", Some("3")).unwrap(), Shard::read("3/4", None).unwrap());
        assert_eq!(Shard::read("1/4", Some("3")).unwrap(), Shard::read("1/4", None).unwrap(), "an explicit index wins");
        for (bad, given) in [
            ("", None),
            ("1", None),
            ("4/4", None),
            ("-1/4", None),
            ("+1/4", None),
            ("1/0", None),
            ("/4", None),
            ("/4", Some("4")),
            ("a/b", None),
            ("1/2/3", None),
        ] {
            assert!(Shard::read(bad, given).is_err(), "{bad} {given:?}");
        }
    }
}
