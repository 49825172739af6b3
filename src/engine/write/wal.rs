//! The files of the write-ahead log.
//!
//! The life of a log:
//! 1. *spare*: created in the background before it is needed, once the memtable is half full
//!    ([`Engine::create_spare_log`]);
//! 2. *current*: begins with an empty batch that carries the next sequence number, and takes a
//!    record for each group of writes;
//! 3. *outgoing*: its memtable was frozen ([`Engine::freeze`]) while the log held unsynced records;
//!    a synced write to the next log syncs the outgoing log first;
//! 4. *done*: the log needs no sync any more, and is closed in the background;
//! 5. removed or [kept](super::kept), once its records are in a table.

use std::io;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::read::view::VisibleSeq;
use crate::engine::report::event::EventKind;
use crate::engine::write::commit::CommitState;
use crate::engine::write::log_file::{OutgoingLog, SpareLog, empty_batch};
use crate::engine::{Engine, Frozen};
use crate::format::key::SeqNo;
use crate::format::name;
use crate::fs::sync_dir;
use crate::log::LogWriter;

/// Returns the error of a writer whose sync of `log` failed. Appends an empty batch at `next_seq`
/// as the log's last record, which tells the next open not to append to the log.
pub(crate) fn failed_sync(
    log: &mut LogWriter,
    path: &Path,
    next_seq: SeqNo,
    error: io::Error,
) -> Error {
    log.mark_failed(empty_batch(next_seq).contents());
    Error::io("sync", path, error)
}

/// Returns the event for the freeze of `mem`, whose log `log` ends at `log_bytes` bytes.
fn frozen_event(mem: &Memtable, log: u64, log_bytes: u64) -> EventKind {
    let (entries, memtable_bytes) = (mem.len() as u64, mem.bytes() as u64);
    EventKind::MemtableFrozen { entries, memtable_bytes, log, log_bytes }
}

impl Engine {
    /// Makes all records logged so far durable. `next_seq` is the sequence number that follows
    /// these records.
    ///
    /// # Errors
    /// I/O errors of the logs and the directory, and of the flush of logs that were replayed.
    pub(crate) fn sync_log(&self, commit: &mut CommitState, next_seq: SeqNo) -> Result<()> {
        if let Some(number) = commit.replayed_log {
            self.wait_for_flush_of(number)?;
            commit.replayed_log = None;
        }
        // A log whose records are all in tables needs no sync.
        drop(self.flushed_logs(commit));
        let numbers = commit.outgoing.iter().map(|outgoing| outgoing.number);
        let numbers = numbers.chain([commit.log_number]);
        debug_assert!(numbers.is_sorted_by(|a, b| a < b), "logs are synced in order");
        for outgoing in &mut commit.outgoing {
            // If `trim` fails, the log ends in zeros, which do no harm.
            let _ = outgoing.log.trim();
            outgoing.log.sync().map_err(|error| {
                failed_sync(&mut outgoing.log, &outgoing.path, outgoing.next_seq, error)
            })?;
        }
        commit.outgoing.clear();
        if !commit.name_synced {
            self.trash.check_directory()?;
            sync_dir(&*self.fs, &self.dir)?;
            commit.name_synced = true;
        }
        let began = Instant::now();
        commit
            .log
            .sync()
            .map_err(|error| failed_sync(&mut commit.log, &commit.log_path, next_seq, error))?;
        commit.last_sync = began.elapsed();
        self.metrics.syncs.fetch_add(1, Relaxed);
        commit.unsynced = false;
        Ok(())
    }

    /// Takes the outgoing logs whose records are all in tables. While they are open, their space is
    /// not free, and on Windows their names stay.
    pub(crate) fn flushed_logs(&self, commit: &mut CommitState) -> Vec<OutgoingLog> {
        if commit.outgoing.is_empty() {
            return Vec::new();
        }
        let oldest_log = self.state.lock().oldest_log();
        commit.outgoing.extract_if(.., |outgoing| outgoing.number < oldest_log).collect()
    }

    /// Waits until the records of the log `number` and of all earlier logs are in tables.
    fn wait_for_flush_of(&self, number: u64) -> Result<()> {
        let mut state = self.state.lock();
        while state.frozen.front().is_some_and(|frozen| frozen.first_log <= number) {
            if let Some(error) = &state.lifecycle.failed {
                return Err(error.clone());
            }
            // While the database is closing, no background thread starts another flush. This thread
            // flushes instead, once the running flush has ended.
            if state.lifecycle.closing && !state.flushing {
                state.flushing = true;
                drop(state);
                let flushed = self.contain("a flush", || self.flush_oldest());
                state = self.state.lock();
                state.flushing = false;
                self.changed.notify_all();
                flushed?;
                continue;
            }
            self.wait_for_change(&mut state);
        }
        Ok(())
    }

    /// Creates the file of the next log.
    fn create_log(&self) -> Result<SpareLog> {
        self.trash.check_directory()?;
        let number = self.numbers.take();
        // The log is listed before its file is created, so that the file is removed even if this
        // attempt fails.
        self.state.lock().logs.on_disk.insert(number, Some(0));
        let plain = !self.options.preallocate_logs;
        SpareLog::create(&*self.fs, &self.dir, number, plain)
            .inspect_err(|_| self.discard_log(number))
    }

    /// Removes a log that could not be created or whose first record could not be written.
    fn discard_log(&self, number: u64) {
        match self.fs.remove(&self.dir.join(name::log_name(number))) {
            Err(error) if error.kind() != ErrorKind::NotFound => {}
            _ => drop(self.state.lock().logs.on_disk.remove(&number)),
        }
    }

    /// Creates the next log before it is needed.
    pub(crate) fn create_spare_log(&self) {
        // If this attempt fails, the next freeze tries again and reports the error.
        let spare = self.create_log().ok();
        self.state.lock().logs.spare = spare;
    }

    /// Freezes the memtable, and begins the next memtable and a new log for it.
    ///
    /// # Errors
    /// I/O errors of the new log, after which nothing has changed.
    pub(crate) fn freeze(&self, commit: &mut CommitState) -> Result<()> {
        debug_assert!(!commit.half_done, "a memtable that was cut short is not frozen");
        let spare = self.state.lock().logs.spare.take();
        let spare = match spare {
            // A spare log that is older than the current log must not follow the current log.
            Some(spare) if spare.number > commit.log_number => spare,
            _ => self.create_log()?,
        };
        let number = spare.number;
        debug_assert!(number > commit.log_number, "log {number} follows a later one");
        let begun = spare.begin(commit.last_seq + 1);
        let (path, log) = begun.inspect_err(|_| self.discard_log(number))?;
        commit.half_done = true;
        let log_bytes = commit.log.len();
        self.metrics.wal_bytes_before.fetch_add(log_bytes, Relaxed);
        let log = std::mem::replace(&mut commit.log, log);
        let path = std::mem::replace(&mut commit.log_path, path);
        let next_seq = commit.last_seq + 1;
        let outgoing = OutgoingLog { number: commit.log_number, path, log, next_seq };
        let mem = Arc::new(Memtable::new(self.reads.order.user(), self.options.write_buffer_bytes));
        let mut state = self.state.lock();
        debug_assert!(Arc::ptr_eq(&state.mem, &commit.mem), "writes go to the state's memtable");
        state.logs.on_disk.insert(outgoing.number, Some(outgoing.log.len()));
        let oldest_log = state.oldest_log();
        let is_done = |outgoing: &mut OutgoingLog| outgoing.number < oldest_log;
        state.logs.done.extend(commit.outgoing.extract_if(.., is_done));
        match commit.unsynced {
            true => commit.outgoing.push(outgoing),
            false => state.logs.done.push(outgoing),
        }
        let first_log = std::mem::replace(&mut state.logs.mem_log, number);
        let full = std::mem::replace(&mut state.mem, mem.clone());
        let bytes = full.bytes() as u64;
        self.pace.frozen(bytes);
        self.observe(|| frozen_event(&full, commit.log_number, log_bytes));
        state.frozen.push_back(Frozen { mem: full, first_log, bytes });
        debug_assert_eq!(state.check(), Ok(()));
        commit.visible = VisibleSeq::new(commit.last_seq);
        self.reads.show_next(state.layers(), commit.visible.clone(), None);
        drop(state);
        self.reads.work.give();
        commit.log_number = number;
        commit.name_synced = false;
        commit.unsynced = false;
        commit.mem = mem;
        commit.check_room_at = 0;
        commit.arena = Arena::default();
        commit.half_done = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::write::queue::Write;
    use crate::format::batch::{WriteBatch, decode_header};
    use crate::fs::Fs;
    use crate::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
    use crate::log::LogReader;

    /// Opens a database in which the next sync of a log fails, and applies `change`. Returns the
    /// sequence number of the last record of each log, or `None` if that record has operations.
    fn marks(change: impl FnOnce(&Arc<Engine>)) -> Vec<Option<SeqNo>> {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let engine = Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap();
        engine.write(&WriteOptions::default(), Write::Put(b"a", b"")).unwrap();
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        change(&engine);
        let mut logs = fs.list(Path::new("/db")).unwrap();
        logs.retain(|name| name.ends_with(".log"));
        logs.sort();
        let last = |name: &String| {
            let path = Path::new("/db").join(name);
            let mut reader = LogReader::of_batches(fs.open(&path).unwrap(), &path).unwrap();
            let mut last = None;
            while let Some(record) = reader.next().unwrap() {
                let (seq, count) = decode_header(record).unwrap();
                last = (count == 0).then_some(seq);
            }
            last
        };
        logs.iter().map(last).collect()
    }

    #[test]
    fn a_log_whose_sync_failed_is_not_continued() {
        let fs = SimFs::new(1);
        let open = || {
            let options = Options::default().create_if_missing(true).inline_background(Some(4));
            let options = options.reuse_logs(true).fs(fs.clone());
            Engine::open(Path::new("/db"), options).unwrap()
        };
        let log = |engine: &Engine| engine.commit.lock().log_number;
        let engine = open();
        engine.write(&WriteOptions::default(), Write::Put(b"a", b"")).unwrap();
        let first = log(&engine);
        drop((engine.close(), engine));
        let engine = open();
        assert_eq!(log(&engine), first, "a sound log is continued");
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        let synced = WriteOptions { sync: true };
        engine.write(&synced, Write::Put(b"b", b"")).unwrap_err();
        drop(engine);
        assert_ne!(log(&open()), first);
    }

    #[test]
    fn a_failed_sync_leaves_a_mark_with_the_next_sequence_number() {
        let synced = WriteOptions { sync: true };
        let mut batch = WriteBatch::new();
        [b"b", b"c", b"d"].iter().for_each(|key| batch.put(key, b""));
        let write = |engine: &Arc<Engine>| {
            engine.write(&synced, Write::Batch(batch)).unwrap_err();
        };
        assert_eq!(marks(write), [Some(5)]);
        let sync = |engine: &Arc<Engine>| {
            engine.write(&synced, Write::Batch(WriteBatch::new())).unwrap_err();
        };
        assert_eq!(marks(sync), [Some(2)]);
        assert_eq!(marks(|engine| drop(engine.close().unwrap_err())), [Some(2)]);
        // The sync of the earlier log fails.
        let outgoing = |engine: &Arc<Engine>| {
            engine.freeze(&mut engine.commit.lock()).unwrap();
            engine.write(&synced, Write::Put(b"b", b"")).unwrap_err();
        };
        assert_eq!(marks(outgoing), [Some(2), None]);
    }

    #[test]
    fn a_spare_log_that_is_older_than_the_current_one_is_not_used() {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let engine = Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap();
        let spare = |engine: &Engine| engine.state.lock().logs.spare.as_ref().unwrap().number;
        engine.create_spare_log();
        let first = spare(&engine);
        engine.write(&WriteOptions::default(), Write::Put(b"a", b"")).unwrap();
        engine.freeze(&mut engine.commit.lock()).unwrap();
        assert_eq!(engine.commit.lock().log_number, first, "it was made for that");
        engine.create_spare_log();
        let second = spare(&engine);
        engine.commit.lock().log_number = second;
        engine.state.lock().logs.mem_log = second;
        engine.write(&WriteOptions::default(), Write::Put(b"a", b"")).unwrap();
        engine.freeze(&mut engine.commit.lock()).unwrap();
        assert!(engine.commit.lock().log_number > second);
    }

    #[test]
    fn a_log_with_unsynced_writes_goes_out_until_its_memtable_is_a_table() {
        let fs = SimFs::new(1);
        let open = |fs: &SimFs| {
            let options = Options::default().create_if_missing(true).inline_background(Some(4));
            Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap()
        };
        let engine = open(&fs);
        let mut logs = Vec::new();
        for key in [b"a", b"b"] {
            engine.write(&WriteOptions::default(), Write::Put(key, b"")).unwrap();
            let mut commit = engine.commit.lock();
            logs.push(commit.log_number);
            engine.freeze(&mut commit).unwrap();
            let outgoing: Vec<u64> = commit.outgoing.iter().map(|log| log.number).collect();
            assert_eq!(outgoing, logs, "a synced write would have to sync all of them");
        }
        let before = engine.reads.visible_seq();
        engine.write(&WriteOptions::default().sync(true), Write::Batch(WriteBatch::new())).unwrap();
        let crashed = open(&fs.crash_image(&CrashPlan::strict()));
        assert_eq!(crashed.reads.visible_seq(), before, "a log was left out of the sync");
        engine.flush().unwrap();
        engine.write(&WriteOptions::default(), Write::Put(b"c", b"")).unwrap();
        let mut commit = engine.commit.lock();
        logs = vec![commit.log_number];
        engine.freeze(&mut commit).unwrap();
        let outgoing: Vec<u64> = commit.outgoing.iter().map(|log| log.number).collect();
        assert_eq!(outgoing, logs, "those of tables need no sync");
    }
}
