//! Tables whose entries expire: reads the expiry times, and wakes the background threads in time.
//!
//! The process that writes a table knows when the table's entries expire, and records the expiry
//! times in the table ([`format::expiry`](crate::format::expiry)), but the MANIFEST has no field
//! for them. Background threads that have nothing else to do therefore open the tables written by
//! earlier processes and read the expiry times. They open only tables that can contain keys of
//! expiring keyspaces, and they read no entries.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Result;
use crate::base::sync::Instant;
use crate::engine::health::backoff;
use crate::engine::read::view::ReadState;
use crate::engine::state::FailedLook;
use crate::engine::version::{TableFile, Version};
use crate::engine::{Engine, State};
use crate::format::expiry::NEVER;

/// Shortest time until the next search for expired tables, in milliseconds. With a higher number,
/// expired tables stay longer, but many expiring tables cause fewer searches.
const MIN_WAIT_MILLIS: u64 = 1000;

/// Longest time until the next search for expired tables, in milliseconds. The time is limited
/// because the system's clock may be changed. A higher number delays the reaction to such a change.
const MAX_WAIT_MILLIS: u64 = 60_000;

/// Totals of the tables whose entries have all expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredTables {
    /// Number of tables.
    pub tables: u64,
    /// Total length of the tables, in bytes.
    pub file_bytes: u64,
    /// Number of entries in the tables.
    pub entries: u64,
}

impl ReadState {
    /// Returns the totals of the tables of `version` whose entries are all known to have expired.
    pub(crate) fn expired_tables(&self, version: &Version) -> ExpiredTables {
        let mut expired = ExpiredTables::default();
        let known = version.files().filter(|(_, file)| file.known_expiry().is_some());
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            return expired;
        }
        let now = self.clock.now_millis();
        for (_, file) in known {
            if file.has_expired(now) {
                expired.tables += 1;
                expired.file_bytes = expired.file_bytes.saturating_add(file.file_bytes);
                expired.entries += file.known_expiry().map_or(0, |expiry| expiry.entries);
            }
        }
        expired
    }

    /// Returns the tables of `version` whose entries may expire at times that are not known yet.
    fn tables_without_expiry<'a>(
        &self,
        version: &'a Version,
    ) -> impl Iterator<Item = &'a Arc<TableFile>> {
        // Only a database in byte order has keyspaces.
        let has_keyspaces = self.order.user().custom().is_none();
        let files = version.files().map(|(_, file)| file);
        files.filter(move |file| has_keyspaces && file.lacks_expiry())
    }

    /// Reads the expiry times of a table's entries from the table. Ignores damage, because
    /// compactions and reads that find the damage will report it.
    ///
    /// # Errors
    /// An I/O error that may not occur again, after which the expiry times are still unknown.
    fn load_expiry(&self, file: &TableFile) -> Result<()> {
        let expiry = self.tables.table(&file.slot).and_then(|table| table.expiry());
        if let Err(error) = &expiry
            && error.io_kind().is_some_and(|kind| kind != ErrorKind::NotFound)
        {
            return Err(error.clone());
        }
        let _ = file.expiry.set(expiry.unwrap_or_default());
        Ok(())
    }

    /// Reads the expiry times of the entries of all tables of `version`, as far as they can be read
    /// now.
    pub(crate) fn load_all_expiry(&self, version: &Version) {
        for file in self.tables_without_expiry(version) {
            let _ = self.load_expiry(file);
        }
    }
}

impl Engine {
    /// Returns a table whose expiry times a background thread should read.
    pub(crate) fn table_without_expiry(&self, state: &State) -> Option<Arc<TableFile>> {
        let is_due = |file: &&Arc<TableFile>| {
            let failed = state.failed_looks.get(&file.number);
            failed.is_none_or(|failed| failed.not_before <= Instant::now())
        };
        self.reads.tables_without_expiry(&state.version).find(is_due).cloned()
    }

    /// Reads the expiry times of a table's entries from the table. After an I/O error, the table is
    /// looked into again after a back-off, which doubles with each failure. The caller must not
    /// hold the state lock.
    pub(crate) fn load_expiry(&self, file: &TableFile) {
        let load = || Ok(self.reads.load_expiry(file));
        let loaded = self.contain("a look into a table", load).unwrap_or_else(|_| {
            // A panic, which `contain` has recorded in the state.
            let _ = file.expiry.set(None);
            Ok(())
        });
        // A thread that saw the table before its expiry was set holds the state lock until it
        // waits. Taking the lock here ensures that the thread does not miss the notification.
        let mut state = self.state.lock();
        let before = state.failed_looks.remove(&file.number);
        if loaded.is_err() {
            let failures = before.map_or(0, |before| before.failures).saturating_add(1);
            let not_before = Instant::now() + backoff(failures);
            state.failed_looks.insert(file.number, FailedLook { failures, not_before });
            let State { version, failed_looks, .. } = &mut *state;
            failed_looks.retain(|&number, _| version.files().any(|(_, of)| of.number == number));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the time of the next search for expired tables, or of the next look into a table
    /// that could not be read; `None` if no table will expire.
    pub(crate) fn next_expiry(&self, state: &State) -> Option<Instant> {
        let unread = self.reads.tables_without_expiry(&state.version);
        let failed = unread.filter_map(|file| state.failed_looks.get(&file.number));
        let retry = failed.map(|failed| failed.not_before).min();
        let known = state.version.files().filter_map(|(_, file)| file.known_expiry());
        let last = known.map(|expiry| expiry.last).filter(|&last| last != NEVER).min();
        let search = last.map(|last| {
            let millis = last.saturating_sub(self.reads.clock.now_millis());
            let millis = millis.clamp(MIN_WAIT_MILLIS, MAX_WAIT_MILLIS);
            Instant::now() + Duration::from_millis(millis)
        });
        retry.into_iter().chain(search).min()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::engine::Options;
    use crate::engine::version::testing::version;
    use crate::format::expiry::TableExpiry;
    use crate::fs::{MemFs, SimFs};

    /// Checks that expiry times are read from a table only once, even if the table is gone or the
    /// read panics.
    #[test]
    fn a_table_with_unreadable_expiry_is_read_only_once() {
        let fs = SimFs::new(1);
        fs.set_hook(|operation| {
            if operation.path.ends_with("000011.ldb") {
                std::panic::resume_unwind(Box::new("no table is opened"));
            }
        });
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let engine = Engine::open(Path::new("/db"), options.fs(fs)).unwrap();
        let version = version(["L1: 10:[a-b] 11:[c-d]"]);
        for (_, file) in version.files() {
            engine.load_expiry(file);
            assert_eq!(file.expiry.get(), Some(&None), "{}", file.number);
        }
        let failed = engine.health().error.map(|error| error.to_string());
        assert!(failed.is_some_and(|error| error.contains("no table is opened")));
    }

    /// Checks that the next search for expired tables takes place when the first table will have
    /// expired, but no sooner than [`MIN_WAIT_MILLIS`] and no later than [`MAX_WAIT_MILLIS`] from
    /// now.
    #[test]
    fn the_next_search_is_when_the_first_table_expires() {
        const NOW: u64 = 1_000_000;
        let cases: [(&[Option<u64>], Option<u64>); 8] = [
            (&[], None),
            (&[None, None], None),
            (&[Some(NEVER)], None),
            (&[Some(NOW + 5000)], Some(5000)),
            (&[None, Some(NOW + 9000), Some(NEVER), Some(NOW + 7000)], Some(7000)),
            (&[Some(NOW + 1)], Some(1000)),
            (&[Some(5)], Some(1000)),
            (&[Some(NOW + 10_000_000)], Some(60_000)),
        ];
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.clock(|| UNIX_EPOCH + Duration::from_millis(NOW));
        let options = options.fs(MemFs::new());
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        let mut state = engine.state.lock();
        for (tables, expected) in cases {
            let names = (0..tables.len()).map(|i| format!(" {}:[{i}-{i}]", i + 10));
            let line = format!("L1:{}", names.collect::<String>());
            state.version = version([line.as_str()]);
            for ((_, file), last) in state.version.files().zip(tables) {
                let expiry = last.map(|last| TableExpiry { last, entries: 1 });
                file.expiry.set(expiry).unwrap();
            }
            let before = Instant::now();
            let wait = engine.next_expiry(&state).map(|until| until - before);
            let most = before.elapsed();
            match (wait, expected.map(Duration::from_millis)) {
                (Some(wait), Some(expected)) => {
                    assert!(wait >= expected && wait <= expected + most, "{tables:?}: {wait:?}");
                }
                (wait, expected) => assert_eq!(wait, expected, "{tables:?}"),
            }
        }
    }
}
