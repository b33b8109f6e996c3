//! How long the client waits, and how often it tries. Every time constant of the directory is here.

use std::time::Duration;

/// Tries per request, the first included.
pub(super) const ATTEMPTS: u32 = 6;
/// The longest `Retry-After` that is waited for. The registry chose it, so it is never scaled.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes per second that a body must bring, measured over [`Timeouts::window`].
pub(super) const FLOOR: u64 = 1024;

/// The waits of the client. The default is what `docs/` promises; tests shrink it as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is established, TLS included.
    pub connect: Duration,
    /// Until the head of an answer is there, counted from the end of the request's body.
    pub header: Duration,
    /// Between two pieces of a body, in either direction.
    pub idle: Duration,
    /// The time over which the floor rate is measured.
    pub window: Duration,
    /// Before the second try; doubles with each further one, and is drawn with full jitter.
    pub delay: Duration,
    /// Before a manifest is put again whose blobs the registry does not see yet; doubles.
    pub settle: Duration,
    /// Until a credential helper has answered.
    pub helper: Duration,
    /// For the end of a body whose bytes are all there.
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            header: Duration::from_secs(30),
            idle: Duration::from_secs(30),
            window: Duration::from_secs(60),
            delay: Duration::from_millis(500),
            settle: Duration::from_secs(1),
            helper: Duration::from_secs(30),
            linger: Duration::from_secs(1),
        }
    }
}

impl Timeouts {
    /// The same pace, `divisor` times as fast. Attempts and `Retry-After` do not change.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let by = divisor.max(1);
        let whole = Self::default();
        Self {
            connect: whole.connect / by,
            header: whole.header / by,
            idle: whole.idle / by,
            window: whole.window / by,
            delay: whole.delay / by,
            settle: whole.settle / by,
            helper: whole.helper / by,
            linger: whole.linger / by,
        }
    }

    /// The longest wait before the next try, after `made` tries: 0.5, 1, 2, 4, 8 s.
    pub(super) fn ceiling(&self, made: u32) -> Duration {
        self.delay * 2_u32.pow(made.saturating_sub(1).min(ATTEMPTS - 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_double_from_half_a_second_to_eight() {
        let timeouts = Timeouts::default();
        let ceilings: Vec<u128> = (1..=7).map(|made| timeouts.ceiling(made).as_millis()).collect();
        assert_eq!(ceilings, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
    }

    #[test]
    fn scaling_by_nothing_is_the_default() {
        assert_eq!((Timeouts::scaled(0), Timeouts::scaled(1)), (Timeouts::default(), Timeouts::default()));
        assert_eq!(Timeouts::scaled(10).header, Duration::from_secs(3));
    }
}
