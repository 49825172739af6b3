//! The number of bytes that a sender may have under way on a connection.
//!
//! Like LEDBAT (RFC 6817), the sender watches how long its bytes take to arrive. If they take
//! longer than on an idle link, they wait in the link's queues, and so does everything that comes
//! after them, such as heartbeats and other programs' data. TCP itself only stops when the queues
//! are full, which on a slow link can be seconds later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The delay in queues, beyond the delay of an idle link, up to which the window grows.
const GROWING: Duration = Duration::from_millis(20);
/// The delay in queues, beyond the delay of an idle link, from which on the window shrinks. A
/// heartbeat waits about as long.
const SHRINKING: Duration = Duration::from_millis(40);
/// Time for which the highest rate of arrival counts.
const MEMORY: Duration = Duration::from_secs(5);
const FIRST_WINDOW_BYTES: usize = 64 << 10;
const SMALLEST_WINDOW_BYTES: usize = 32 << 10;
const LARGEST_WINDOW_BYTES: usize = 16 << 20;

/// The window of a connection, and the message under way.
pub(crate) struct Pace {
    window: usize,
    /// The shortest delay seen, which is taken for the delay of an idle link.
    shortest: Duration,
    /// The parts of the message that have not arrived.
    under_way: VecDeque<Part>,
    /// The highest rate of arrival seen lately, in bytes per second, and the time of that.
    rate: (f64, Option<Instant>),
    sent: usize,
    arrived: usize,
    shrunk: Option<Instant>,
}

struct Part {
    /// The number of bytes of the message up to the end of the part.
    end: usize,
    sent: Instant,
    /// The number of bytes that had arrived when the part was sent.
    arrived: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            window: FIRST_WINDOW_BYTES,
            shortest: Duration::MAX,
            under_way: VecDeque::new(),
            rate: (0.0, None),
            sent: 0,
            arrived: 0,
            shrunk: None,
        }
    }
}

impl Pace {
    /// Begins a message.
    pub(crate) fn begin(&mut self) {
        self.under_way.clear();
        (self.sent, self.arrived) = (0, 0);
    }

    /// Returns the number of bytes that may be sent now.
    pub(crate) fn free(&self) -> usize {
        self.window.saturating_sub(self.sent - self.arrived)
    }

    /// Records that the message is being sent up to the byte `end`.
    pub(crate) fn sent(&mut self, end: usize, now: Instant) {
        self.sent = end;
        self.under_way.push_back(Part { end, sent: now, arrived: self.arrived });
    }

    /// Records the news that the message has arrived up to the byte `end`, and adapts the window.
    pub(crate) fn arrived(&mut self, end: usize, now: Instant) {
        let end = end.clamp(self.arrived, self.sent);
        let bytes = end - self.arrived;
        self.arrived = end;
        let Some((sent, before)) = self.under_way.front().map(|part| (part.sent, part.arrived))
        else {
            return;
        };
        while self.under_way.front().is_some_and(|part| part.end <= end) {
            self.under_way.pop_front();
        }
        let delay = now.saturating_duration_since(sent);
        self.shortest = self.shortest.min(delay);
        let queued = delay - self.shortest;
        let rate = (end - before) as f64 / delay.as_secs_f64().max(1e-6);
        if rate > self.rate.0 || self.rate.1.is_none_or(|at| now > at + MEMORY) {
            self.rate = (rate, Some(now));
        }
        if queued < GROWING {
            self.window = (self.window + bytes).min(LARGEST_WINDOW_BYTES);
        } else if queued > SHRINKING && self.shrunk.is_none_or(|shrunk| sent > shrunk) {
            // Bytes that were sent before the last change say nothing about the smaller window.
            // A delay at the receiver, such as a busy processor, must not make a fast link slow.
            let needed = self.rate.0 * (self.shortest + GROWING).as_secs_f64();
            let least = (needed as usize).clamp(SMALLEST_WINDOW_BYTES, LARGEST_WINDOW_BYTES);
            self.window = (self.window / 2).max(least);
            self.shrunk = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a message over a simulated link, and returns the time that it took and the longest
    /// time that a byte was under way after the first second.
    fn send(bytes: usize, rate: f64, delay: Duration) -> (Duration, Duration) {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let (mut now, mut link_free, mut longest) = (0.0f64, 0.0f64, 0.0f64);
        // Parts of the message under way: their end, and the times of sending and of the report.
        let mut under_way = VecDeque::new();
        let mut sent = 0;
        pace.begin();
        loop {
            let mut free = pace.free().min(bytes - sent);
            if free > 0 {
                pace.sent(sent + free, at(now));
            }
            while free > 0 {
                let part = free.min(16 << 10);
                (sent, free) = (sent + part, free - part);
                link_free = link_free.max(now) + part as f64 / rate;
                under_way.push_back((sent, now, link_free + delay.as_secs_f64()));
            }
            let Some((end, sent_at, reported)) = under_way.pop_front() else { break };
            now = reported;
            if now > 1.0 {
                longest = longest.max(now - sent_at);
            }
            pace.arrived(end, at(now));
        }
        (Duration::from_secs_f64(now), Duration::from_secs_f64(longest))
    }

    #[test]
    fn a_slow_link_is_used_fully_without_long_queues() {
        for (megabits, delay) in [(10.0, 0), (10.0, 40), (100.0, 0), (100.0, 20), (1000.0, 5)] {
            let (rate, idle) = (megabits * 125_000.0, Duration::from_millis(delay));
            let bytes = (rate * 10.0) as usize;
            let (took, longest) = send(bytes, rate, idle);
            let what = format!("{megabits} Mbit/s, {delay} ms: {took:?}, {longest:?}");
            assert!(took < Duration::from_secs(15), "{what}");
            assert!(longest < idle + Duration::from_millis(130), "{what}");
        }
    }

    #[test]
    fn a_slower_link_than_any_gets_the_smallest_window() {
        let (took, _) = send(1 << 20, 62_500.0, Duration::ZERO);
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}
