//! Logs that are kept for [`Changes`] to read, although all their records are in tables.
//!
//! Kept logs have lower numbers than the log number in the MANIFEST, so an open does not replay
//! them. LevelDB and goleveldb remove kept logs when they open the database; a reader of the
//! changes in those logs then gets an error. A log is synced before the edit that makes it a kept
//! log, so that a crash does not damage it.
//!
//! [`Changes`]: crate::engine::follow::changes::Changes

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::base::{Error, Result};
use crate::engine::checkpoint::sync_or_replace;
use crate::engine::options::Options;
use crate::format::name;
use crate::format::record::HEADER_BYTES;
use crate::fs::Fs;

/// Limits on the kept logs. A log is kept while it is within either limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepLimits {
    /// Total size, in bytes, up to which the newest logs are kept.
    pub bytes: u64,
    /// Age below which a log is kept.
    pub age: Duration,
}

/// A log whose records are all in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLog {
    /// File number of the log.
    pub number: u64,
    /// Size of the log, in bytes.
    pub bytes: u64,
    /// Time of the last write to the log.
    pub modified: SystemTime,
}

/// The kept logs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptLogs(VecDeque<KeptLog>);

impl KeepLimits {
    /// Returns the limits set by the options, or `None` if the options keep no logs.
    pub(crate) fn of(options: &Options) -> Option<KeepLimits> {
        let limits = KeepLimits { bytes: options.keep_logs_bytes, age: options.keep_logs_for };
        (limits.bytes > 0 || !limits.age.is_zero()).then_some(limits)
    }
}

impl KeptLog {
    /// Makes the log `number` durable and returns it. Returns `None` if the log has no records.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn durable(fs: &dyn Fs, dir: &Path, number: u64) -> Result<Option<KeptLog>> {
        let log = KeptLog::found(fs, dir, number)?;
        if log.is_some() {
            let path = dir.join(name::log_name(number));
            sync_or_replace(fs, dir, &path, &dir.join(name::temp_name(number)))?;
        }
        Ok(log)
    }

    /// Returns the log `number` without syncing it. Returns `None` if the log has no records.
    fn found(fs: &dyn Fs, dir: &Path, number: u64) -> Result<Option<KeptLog>> {
        let path = dir.join(name::log_name(number));
        let failed = |error| Error::io("read", &path, error);
        let file = fs.open(&path).map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        file.read_at(&mut header, 0).map_err(failed)?;
        if header == [0; HEADER_BYTES] {
            return Ok(None);
        }
        let bytes = file.len().map_err(failed)?;
        let modified = fs.modified(&path).map_err(failed)?.unwrap_or_else(SystemTime::now);
        Ok(Some(KeptLog { number, bytes, modified }))
    }
}

impl KeptLogs {
    /// Returns the kept logs of a database that is being opened. `numbers` are the file numbers of
    /// the logs, ascending. Syncs the logs from `first_new` on, which the open has replayed. Leaves
    /// out every log that cannot be read or synced.
    pub(crate) fn at_open(fs: &dyn Fs, dir: &Path, numbers: &[u64], first_new: u64) -> KeptLogs {
        let look = |&number: &u64| match number < first_new {
            true => KeptLog::found(fs, dir, number).ok()?,
            false => KeptLog::durable(fs, dir, number).ok()?,
        };
        KeptLogs(numbers.iter().filter_map(look).collect())
    }

    /// Adds the logs `newest`, which are newer than all kept logs. Then finds the last log that is
    /// outside both limits at the time `now`, and removes this log and all older logs. Returns the
    /// numbers of the removed logs.
    pub(crate) fn renew(
        &mut self,
        newest: Vec<KeptLog>,
        limits: KeepLimits,
        now: SystemTime,
    ) -> Vec<u64> {
        self.0.extend(newest);
        debug_assert!(
            self.0.iter().is_sorted_by(|a, b| a.number < b.number),
            "kept logs are out of order"
        );
        let mut bytes: u64 = 0;
        let last_gone = self.0.iter().rev().position(|log| {
            bytes = bytes.saturating_add(log.bytes);
            let age = now.duration_since(log.modified).unwrap_or_default();
            bytes > limits.bytes && age >= limits.age
        });
        let gone = last_gone.map_or(0, |at| self.0.len() - at);
        self.0.drain(..gone).map(|log| log.number).collect()
    }

    /// Returns the numbers of the kept logs.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|log| log.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::{OpKind, SimFs};

    /// Creates `logs` logs of 100 bytes each, with numbers from 5 on, and returns the numbers of
    /// the logs that are kept. The logs were last written to at intervals of one minute, the newest
    /// log just now.
    fn kept(logs: u64, bytes: u64, minutes: u64) -> Vec<u64> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
        let log = |at| KeptLog {
            number: 5 + at,
            bytes: 100,
            modified: now - Duration::from_secs(60 * (logs - 1 - at)),
        };
        let limits = KeepLimits { bytes, age: Duration::from_secs(60 * minutes) };
        let mut kept = KeptLogs::default();
        let gone = kept.renew((0..logs).map(log).collect(), limits, now);
        let all: Vec<u64> = gone.into_iter().chain(kept.numbers()).collect();
        assert_eq!(all, (5..5 + logs).collect::<Vec<_>>());
        kept.numbers().collect()
    }

    #[test]
    fn a_log_stays_while_either_limit_keeps_it() {
        let none: [u64; 0] = [];
        assert_eq!(kept(3, 0, 0), none);
        assert_eq!(kept(3, 99, 0), none);
        assert_eq!(kept(3, 100, 0), [7]);
        assert_eq!(kept(3, 299, 0), [6, 7]);
        assert_eq!(kept(3, 300, 0), [5, 6, 7]);
        assert_eq!(kept(3, u64::MAX, 0), [5, 6, 7]);
        assert_eq!(kept(3, 0, 1), [7]);
        assert_eq!(kept(3, 0, 3), [5, 6, 7]);
        assert_eq!(kept(3, 100, 2), [6, 7]);
        assert_eq!(kept(3, 200, 1), [6, 7]);
    }

    #[test]
    fn an_open_syncs_the_logs_that_it_has_replayed() {
        let (fs, dir) = (SimFs::new(1), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        for number in 3..=6 {
            let mut log = fs.create(&dir.join(name::log_name(number))).unwrap();
            log.write(&[number as u8; 20]).unwrap();
        }
        fs.record_history();
        let kept = KeptLogs::at_open(&fs, dir, &[3, 4, 5, 6], 5);
        assert_eq!(kept.numbers().collect::<Vec<_>>(), [3, 4, 5, 6]);
        let syncs = fs.journal().into_iter().filter(|entry| entry.kind == OpKind::Sync);
        let synced: Vec<_> = syncs.map(|entry| entry.path).collect();
        assert_eq!(synced, [5, 6].map(|number| dir.join(name::log_name(number))));
    }

    #[test]
    fn kept_logs_have_no_gap() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
        let old = now - Duration::from_secs(99);
        // The clock was set back, so the log in the middle looks older than the first log.
        let log = |number, modified| KeptLog { number, bytes: 1, modified };
        let logs = vec![log(3, now), log(4, old), log(7, now + Duration::from_secs(9))];
        let mut kept = KeptLogs::default();
        let limits = KeepLimits { bytes: 1, age: Duration::from_secs(60) };
        assert_eq!(kept.renew(logs, limits, now), [3, 4]);
        assert_eq!(kept.numbers().collect::<Vec<_>>(), [7]);
        let none: [u64; 0] = [];
        assert_eq!(kept.renew(Vec::new(), limits, now), none);
    }
}
