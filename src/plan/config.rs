//! The config of the result.

use serde_json::{Map, Value};

use super::history;
use crate::examine::{PlatformFacts, PlatformSubject};
use crate::oci::json;

/// Seconds since 1970, from `SOURCE_DATE_EPOCH`: the only time that can enter a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(pub u64);

const CONFIG_ORDER: [&str; 10] =
    ["created", "author", "architecture", "os", "os.version", "os.features", "variant", "config", "rootfs", "history"];

/// The whole config but for the layers; members nobody knows survive from the source.
pub(super) fn merge(subject: &PlatformSubject, answers: &PlatformFacts, epoch: Option<Epoch>) -> Map<String, Value> {
    let mut config = subject.source.config.object().clone();
    if let Some(epoch) = epoch {
        config.insert("created".into(), epoch.to_rfc3339().into());
    }
    config.insert("config".into(), Value::Object(answers.container.members.clone()));
    config.insert("rootfs".into(), Value::Null);
    config.insert("history".into(), history::merge(subject, &answers.moved));
    json::ordered(config, &CONFIG_ORDER)
}

impl Epoch {
    /// The moment as RFC 3339 in UTC, without a fraction.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let (days, seconds) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}

/// Days since 1970 to year, month and day (Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(Epoch(seconds).to_rfc3339(), text);
        }
    }
}
