//! The clock that decides when entries expire, and conversions of times and durations.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that a program supplies.
type Now = dyn Fn() -> SystemTime + Send + Sync;

/// The system's clock, or a clock that the program supplies.
#[derive(Clone, Default)]
pub(crate) struct Clock(Option<Arc<Now>>);

impl Clock {
    pub(crate) fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Clock {
        Clock(Some(Arc::new(now)))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.as_ref().map_or_else(SystemTime::now, |now| now())
    }

    /// Returns the current time in whole milliseconds since the Unix epoch.
    pub(crate) fn now_millis(&self) -> u64 {
        millis_of(self.now())
    }

    /// Returns the time at which `ttl` will have elapsed, in whole milliseconds since the Unix
    /// epoch. Returns `u64::MAX` if the system cannot represent that time.
    pub(crate) fn millis_after(&self, ttl: Duration) -> u64 {
        self.now().checked_add(ttl).map_or(u64::MAX, millis_of)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(own)" } else { "Clock(system)" })
    }
}

/// Returns a time in whole milliseconds since the Unix epoch. Returns 0 for times before the epoch,
/// and `u64::MAX` for times that do not fit in 64 bits.
pub(crate) fn millis_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time in whole seconds since the Unix epoch. Returns 0 for times before the epoch.
pub(crate) fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a duration in whole microseconds.
pub(crate) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns `duration`, rounded down to whole microseconds.
pub(crate) fn whole_micros(duration: Duration) -> Duration {
    Duration::from_micros(micros_of(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_down_to_microseconds() {
        assert_eq!(whole_micros(Duration::from_nanos(5999)), Duration::from_micros(5));
        assert_eq!(micros_of(Duration::MAX), u64::MAX);
    }

    #[test]
    fn times_are_whole_milliseconds_since_the_epoch() {
        let after = |nanos| millis_of(UNIX_EPOCH + Duration::from_nanos(nanos));
        assert_eq!([0, 999_999, 1_000_000, 1_999_999].map(after), [0, 0, 1, 1]);
        assert_eq!(millis_of(UNIX_EPOCH - Duration::from_secs(1)), 0);
        let clock = Clock::new(|| UNIX_EPOCH + Duration::from_micros(2500));
        assert_eq!((clock.now_millis(), clock.millis_after(Duration::from_micros(500))), (2, 3));
        assert_eq!(clock.millis_after(Duration::MAX), u64::MAX);
    }
}
