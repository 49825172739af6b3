//! A flush: a frozen memtable becomes a table of level 0.
//!
//! 1. The oldest frozen memtable is written into a table, except for versions that no reader sees.
//!    The table is synced, and then its directory.
//! 2. An edit adds the table to the MANIFEST and records which logs are still needed.
//! 3. Readers see the version with the table and without the memtable.
//! 4. Logs that only the flushed memtables needed are removed.
//!
//! A crash after step 1 leaves a table that no MANIFEST names; a crash after step 2 leaves logs
//! that the MANIFEST does not need. The next open removes such files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::clock::whole_micros;
use crate::base::sync::Instant;
use crate::base::{Error, Result};
use crate::engine::compact::retention::Retention;
use crate::engine::conservation::{Ledger, Reason};
use crate::engine::memtable::Memtable;
use crate::engine::publish::Publication;
use crate::engine::report::event::{EventKind, TableInfo};
use crate::engine::resources::pool::Lane;
use crate::engine::table_writer::{TableOutput, Target};
use crate::engine::throttle::Meter;
use crate::engine::version::Version;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::write::kept::{KeepLimits, KeptLog};
use crate::engine::write::pace::FlushProgress;
use crate::engine::{Engine, Frozen, State};
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{ParsedKey, SeqNo};
use crate::format::name;
use crate::fs::{is_in_use, sync_dir};

/// Number of entries between two progress reports of a flush. With a higher number, throttled
/// writes proceed less evenly.
const REPORT_ENTRIES: u64 = 1024;

/// Writes the entries of `mem` into the table `number` and makes it durable. Leaves out versions
/// that are visible at none of the sequence numbers `read_seqs`. After every [`REPORT_ENTRIES`]
/// entries, calls `written` with the number of entries since the previous call and the length of
/// the table so far. Returns the table and the counts of its entries.
///
/// # Errors
/// I/O errors, and corruption if the table does not hold the entries of `mem`, after which the file
/// is removed.
pub(crate) fn write_table(
    target: &Target<'_>,
    mem: &Arc<Memtable>,
    read_seqs: Vec<SeqNo>,
    number: u64,
    mut written: impl FnMut(u64, u64),
) -> Result<(NewFile, EntryCounts)> {
    let mut ledger = Ledger::default();
    ledger.read(mem.sum());
    let mut table = TableOutput::create(target, 0, number)?;
    let fill = || {
        let mut retention = Retention::new(read_seqs, target.order.user().clone());
        let mut entries = 0;
        mem.for_each(|key, value| {
            entries += 1;
            if entries % REPORT_ENTRIES == 0 {
                written(REPORT_ENTRIES, table.file_bytes());
            }
            let parsed = ParsedKey::parse(key)?;
            if retention.is_shadowed(&parsed)? {
                ledger.drop(Reason::Overwritten, key, value);
                return Ok(());
            }
            table.add(key, &parsed, value)
        })
    };
    let finished = fill().and_then(|()| table.finish());
    let checked = finished.and_then(|table| {
        let (entries, last_seq) = (mem.len(), mem.last_seq());
        let job =
            format!("the flush of {entries} entries up to number {last_seq} into {number:06}");
        ledger.check(table.1.sum.unwrap_or_default(), job)?;
        Ok(table)
    });
    let synced = checked.and_then(|table| sync_dir(target.fs, target.dir).map(|()| table));
    // If the removal fails, the next open removes the file: no MANIFEST names it.
    synced.inspect_err(|_| drop(target.fs.remove(&target.path(number))))
}

/// A flush under way.
struct FlushJob {
    /// The flush's number in events.
    number: u64,
    began: Instant,
}

impl FlushJob {
    fn ended_event(
        &self,
        table: Option<TableInfo>,
        took: Duration,
        error: Option<&Error>,
    ) -> EventKind {
        let (job, took, error) = (self.number, whole_micros(took), error.cloned());
        EventKind::FlushEnded { job, table, took, error }
    }
}

impl State {
    /// Drops `oldest`, whose records are in a table now. Logs before `log_number` are needed no
    /// more; returns them, each with its size.
    fn drop_flushed(&mut self, oldest: &Frozen, log_number: u64) -> BTreeMap<u64, Option<u64>> {
        let flushed = self.frozen.pop_front();
        debug_assert!(
            flushed.is_some_and(|flushed| Arc::ptr_eq(&flushed.mem, &oldest.mem)),
            "the memtable that was flushed is the oldest"
        );
        let live = self.logs.on_disk.split_off(&log_number);
        debug_assert_eq!(log_number, self.oldest_log(), "logs of memtables stay");
        std::mem::replace(&mut self.logs.on_disk, live)
    }
}

impl Engine {
    /// Flushes the oldest frozen memtable. The caller must have set `state.flushing`.
    ///
    /// # Errors
    /// I/O errors; the memtable and its logs are kept.
    pub(crate) fn flush_oldest(&self) -> Result<()> {
        let oldest = {
            let state = self.state.lock();
            debug_assert!(state.flushing, "another thread could flush the same memtable");
            state.frozen.front().cloned()
        };
        let Some(oldest) = oldest else { return Ok(()) };
        self.trash.check_directory()?;
        let job = FlushJob { number: self.next_job(), began: Instant::now() };
        let entries = oldest.mem.len() as u64;
        self.observe(|| EventKind::FlushBegan { job: job.number, entries });
        let flushed = self.write_and_replace(&oldest, &job);
        if let Err(error) = &flushed {
            self.observe(|| job.ended_event(None, job.began.elapsed(), Some(error)));
        }
        flushed
    }

    fn write_and_replace(&self, oldest: &Frozen, job: &FlushJob) -> Result<()> {
        let progress = self.pace.flush(oldest.bytes);
        // An empty memtable is not written to a table, but its logs are removed as usual.
        let (new_file, counts) = match oldest.mem.is_empty() {
            true => {
                // The edit names the next log, whose directory entry no table's sync makes durable.
                sync_dir(&*self.fs, &self.dir)?;
                (None, None)
            }
            false => {
                let (file, counts) = self.write_frozen(oldest, &progress)?;
                let written = (file.number, counts);
                (Some(file), Some(written))
            }
        };
        let file_bytes = new_file.as_ref().map_or(0, |file| file.file_bytes);
        let keep = self.logs_to_keep(oldest);
        let (done, took) = self.replace_oldest(oldest, job, new_file, counts, progress)?;
        self.metrics.flush(file_bytes, took);
        self.wake();
        self.remove_logs(done.into_keys(), keep);
        Ok(())
    }

    /// Replaces the frozen memtable `oldest` with the table `new_file`, in the MANIFEST and in the
    /// state. Returns the logs whose records are now all in tables, and the duration of the flush.
    ///
    /// # Errors
    /// I/O errors of the MANIFEST, after which the memtable is kept.
    fn replace_oldest(
        &self,
        oldest: &Frozen,
        job: &FlushJob,
        new_file: Option<NewFile>,
        counts: Option<(u64, EntryCounts)>,
        progress: FlushProgress<'_>,
    ) -> Result<(BTreeMap<u64, Option<u64>>, Duration)> {
        let table = new_file.as_ref().map(|file| name::table_name(file.number));
        let mut manifest = self.manifest.lock();
        let log_number = self.state.lock().log_after_flush();
        let edit = VersionEdit {
            log_number: Some(log_number),
            last_seq: Some(oldest.mem.last_seq()),
            new_files: new_file.into_iter().collect(),
            ..VersionEdit::default()
        };
        let settle = |state: &mut State| {
            let done = state.drop_flushed(oldest, log_number);
            progress.done();
            self.tell_pace(state);
            (done, job.began.elapsed())
        };
        let event = |version: &Version, (_, took): &(_, Duration)| {
            let table = TableInfo::named(version, 0, counts.map(|(number, _)| number));
            job.ended_event(table.into_iter().next(), *took, None)
        };
        let publication = Publication { edit, counts: counts.as_slice(), ..Publication::default() };
        let published = self.publish(&mut manifest, publication, settle, event);
        if let (Err(_), Some(table), false) = (&published, table, manifest.is_in_doubt()) {
            // The next open would remove the table as well, but until then the tables of repeated
            // attempts would fill the disk.
            let _ = self.fs.remove(&self.dir.join(table));
        }
        published
    }

    /// Writes the entries of `frozen` into a table, and reports the progress for throttling.
    /// Returns the table and the counts of its entries.
    fn write_frozen(
        &self,
        frozen: &Frozen,
        progress: &FlushProgress<'_>,
    ) -> Result<(NewFile, EntryCounts)> {
        let began = Instant::now();
        let number = self.numbers.take();
        let read_seqs = self.reads.read_seqs();
        let entry_bytes = frozen.bytes / frozen.mem.len().max(1) as u64;
        let mut meter = Meter::new(self, Lane::Flush);
        let report = |entries, file_bytes| {
            progress.advance(entries * entry_bytes);
            meter.count_to(file_bytes);
        };
        let written = write_table(&self.table_target(), &frozen.mem, read_seqs, number, report)?;
        meter.count_to(written.0.file_bytes);
        self.pace.timed(frozen.bytes, began.elapsed());
        Ok(written)
    }

    /// If logs are kept, syncs the logs of the `oldest` memtable, which is about to be flushed.
    /// Returns the logs to keep. A log that cannot be synced is left out.
    fn logs_to_keep(&self, oldest: &Frozen) -> Vec<KeptLog> {
        if KeepLimits::of(&self.options).is_none() {
            return Vec::new();
        }
        let logs: Vec<(u64, Option<u64>)> = {
            let state = self.state.lock();
            let logs = state.logs.on_disk.range(oldest.first_log..state.log_after_flush());
            logs.map(|(number, bytes)| (*number, *bytes)).collect()
        };
        let durable = |&(number, bytes): &(u64, Option<u64>)| {
            let log = KeptLog::durable(&*self.fs, &self.dir, number).ok()??;
            // Until the log is closed, its file may be longer than the log itself.
            Some(KeptLog { bytes: bytes.unwrap_or(log.bytes), ..log })
        };
        logs.iter().filter_map(durable).collect()
    }

    /// Removes the logs `done`, whose records are all in tables, except for the logs in `keep`.
    /// Also removes the kept logs that are now outside the limits.
    fn remove_logs(&self, done: impl Iterator<Item = u64>, keep: Vec<KeptLog>) {
        let mut gone: BTreeSet<u64> = done.collect();
        if let Some(limits) = KeepLimits::of(&self.options) {
            gone.retain(|number| keep.iter().all(|log| log.number != *number));
            gone.extend(self.state.lock().logs.kept.renew(keep, limits, SystemTime::now()));
        }
        gone.into_iter().for_each(|log| self.remove_log(log));
    }

    /// Tries again to remove `logs`, which may have been open when they were to be removed.
    pub(crate) fn remove_closed_logs(&self, logs: BTreeSet<u64>) {
        if !logs.is_empty() && self.trash.check_directory().is_ok() {
            logs.into_iter().for_each(|log| self.remove_log(log));
        }
    }

    fn remove_log(&self, number: u64) {
        // If the removal fails, the next open decides again whether to keep the log.
        if let Err(error) = self.fs.remove(&self.dir.join(name::log_name(number)))
            && is_in_use(error.kind())
        {
            self.state.lock().logs.refused.insert(number);
        }
    }

    /// Freezes the memtable and waits until it and all earlier frozen memtables have been flushed.
    ///
    /// # Errors
    /// The error that kept a memtable from being flushed.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut commit = self.commit.lock();
        self.contain("a flush", || self.make_room(&mut commit, true))?;
        drop(commit);
        self.wait_until_flushed()?;
        let closed = self.flushed_logs(&mut self.commit.lock());
        drop(closed);
        let refused = std::mem::take(&mut self.state.lock().logs.refused);
        self.remove_closed_logs(refused);
        Ok(())
    }

    /// Waits until every memtable that is frozen now has been flushed.
    ///
    /// # Errors
    /// The same as for [`Engine::flush`].
    pub(super) fn wait_until_flushed(&self) -> Result<()> {
        let mut state = self.state.lock();
        // Do not wait for memtables frozen by later writes.
        let Some(last) = state.frozen.back().map(|frozen| frozen.mem.clone()) else {
            return Ok(());
        };
        while state.frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.mem, &last)) {
            if let Some(error) = state.lifecycle.refusal() {
                return Err(error);
            }
            self.wait_for_change(&mut state);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::resources::Resources;
    use crate::engine::resources::memory::Pressure;
    use crate::engine::testing::engine_in_memory;
    use crate::engine::write::queue::Write;
    use crate::fs::MemFs;

    #[test]
    fn a_flush_reports_its_progress_every_1024_entries() {
        let engine = engine_in_memory();
        for i in 0..2500u32 {
            engine.write(&WriteOptions::default(), Write::Put(&i.to_be_bytes(), b"")).unwrap();
        }
        let mem = engine.commit.lock().mem.clone();
        let mut reports = Vec::new();
        let report = |entries, _| reports.push(entries);
        let number = engine.numbers.take();
        let (_, counts) =
            write_table(&engine.table_target(), &mem, Vec::new(), number, report).unwrap();
        assert_eq!((counts.entries, reports), (2500, vec![1024, 1024]));
    }

    #[test]
    fn a_flush_of_an_entry_that_changed_in_memory_is_refused_and_its_log_stays() {
        let fs = MemFs::new();
        let open = || {
            let options = Options::default().create_if_missing(true).inline_background(Some(4));
            Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap()
        };
        let engine = open();
        engine.write(&WriteOptions::default(), Write::Put(b"key", b"value")).unwrap();
        engine.commit.lock().mem.change_sum();
        let text = engine.flush().unwrap_err().to_string();
        assert!(text.contains("the flush of 1 entries up to number 1"), "{text}");
        assert!(text.contains("did not conserve"), "{text}");
        drop(engine);
        let view = open().reads.view_owned();
        let found = view.memtables().find_map(|mem| mem.get(b"key", 1));
        assert_eq!(found.map(|found| found.value), Some(b"value"[..].into()));
    }

    #[test]
    fn a_flush_that_ends_after_a_failure_leaves_the_memory_budget_to_other_databases() {
        let resources = Resources::default().memory_bytes(8 << 20);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.resources(&resources).fs(MemFs::new());
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        let other = engine.options.resources.memory.as_ref().unwrap().join();
        for _ in 0..2 {
            engine.write(&WriteOptions::default(), Write::Put(b"a", &[7; 3 << 20])).unwrap();
            engine.freeze(&mut engine.commit.lock()).unwrap();
        }
        assert_eq!(other.grown_to(1), Pressure::Freeze);
        engine.fail(Error::corruption("torn"));
        engine.state.lock().flushing = true;
        engine.flush_oldest().unwrap();
        engine.state.lock().flushing = false;
        assert_eq!(other.grown_to(1), Pressure::None);
        engine.resume().unwrap();
        let share = engine.pace.share().unwrap();
        share.grown_to(3 << 20);
        other.grown_to(1);
        assert!(share.take_request());
    }
}
