//! Sizes, times and percents as people write them.

use std::time::Duration;

use bytesize::ByteSize;

use crate::error::{Error, Result};

/// `20GiB`, `500MB`, `1048576`.
pub fn size(text: &str) -> Result<u64> {
    // The crate would take a size that does not fit for the largest there is.
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 24;
    let size = text.parse::<ByteSize>().ok().filter(|size| is_plain && size.as_u64() < u64::MAX);
    size.map(|size| size.as_u64()).ok_or_else(|| {
        Error::usage("not a size: write bytes, or a number with KiB, MiB, GiB, MB, GB").fact("given", text)
    })
}

/// `90s`, `15m`, `36h`, `30d`, `2w`, or several after another: `1d12h`.
pub fn duration(text: &str) -> Result<Duration> {
    let refuse =
        || Error::usage("not a duration: write a number with s, m, h, d or w, such as 30d").fact("given", text);
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = rest.split_at(digits);
        let mut unit = unit.chars();
        let each = match unit.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            _ => return Err(refuse()),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(refuse)?;
        rest = unit.as_str();
    }
    if text.is_empty() { Err(refuse()) } else { Ok(Duration::from_secs(seconds)) }
}

/// `85` or `85%`.
pub fn percent(text: &str) -> Result<u8> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = number.parse().ok().filter(|percent| *percent <= 100 && !number.starts_with('+'));
    percent.ok_or_else(|| Error::usage("not a percentage: write a whole number from 0 to 100").fact("given", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("10", 10), ("2KiB", 2048), ("1 MiB", 1 << 20), ("1.5KiB", 1536), ("3GB", 3_000_000_000)]
        {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("2m", 120), ("36h", 129_600), ("1d12h", 129_600), ("2w", 1_209_600)]
        {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        assert_eq!((percent("85").unwrap(), percent("0%").unwrap(), percent("100").unwrap()), (85, 0, 100));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in ["", "-1", "x", "10 apples", "99999999999999999999", "99999999999GiB", ".5", "1e9"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["", "5", "s", "-5s", "5y", "99999999999999999999s", "99999999999999999w", "1h-1m", "1.5h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["", "-1", "+5", "101", "x", "5%%", "0.5"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
