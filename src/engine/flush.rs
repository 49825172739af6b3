//! A flush: a frozen memtable becomes a table of level 0.

use std::path::Path;
use std::sync::Arc;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::compact::retention::Retention;
use crate::engine::memtable::Memtable;
use crate::engine::options::Options;
use crate::engine::version::tombstones::Contents;
use crate::engine::{Engine, Frozen};
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{InternalComparator, ParsedKey, SeqNo};
use crate::format::name;
use crate::fs::{Fs, sync_dir};
use crate::table::builder::TableBuilder;

/// After so many entries the pace is told.
const TOLD_ENTRIES: u64 = 1024;

/// Where tables of memtables are written, and how.
pub struct Target<'a> {
    /// The filesystem.
    pub fs: &'a dyn Fs,
    /// The database's directory.
    pub dir: &'a Path,
    /// The database's options.
    pub options: &'a Options,
    /// The order of internal keys.
    pub order: &'a InternalComparator,
}

/// Writes the table `number` of what `mem` holds, without the versions that none of the `held`
/// sequences sees, and makes it durable: the table, and what is in it. `written` is told of
/// entries, some thousand at a time.
pub fn write_table(
    target: &Target<'_>,
    mem: &Arc<Memtable>,
    held: Vec<SeqNo>,
    number: u64,
    mut written: impl FnMut(u64),
) -> Result<(NewFile, Contents)> {
    let Target { fs, dir, options, order } = *target;
    let path = dir.join(name::table_name(number));
    let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
    let mut builder = TableBuilder::new(file, path.clone(), options.table_options(order, 0));
    let mut smallest = Vec::new();
    let mut largest = Vec::new();
    let mut contents = Contents::default();
    let fill = || {
        let mut retention = Retention::new(held, order.user().clone());
        let mut entries = 0;
        mem.for_each(|key, value| {
            entries += 1;
            if entries % TOLD_ENTRIES == 0 {
                written(TOLD_ENTRIES);
            }
            let parsed = ParsedKey::parse(key)?;
            if !retention.is_shadowed(&parsed)? {
                builder.add(key, value)?;
                contents.add(&parsed);
                if smallest.is_empty() {
                    smallest.extend_from_slice(key);
                }
                largest.clear();
                largest.extend_from_slice(key);
            }
            Ok(())
        })
    };
    let filled = fill();
    let finished = filled.and_then(|()| builder.finish());
    let synced = finished.and_then(|summary| sync_dir(fs, dir).map(|()| summary));
    match synced {
        Ok(summary) => {
            let file_bytes = summary.file_bytes;
            Ok((NewFile { level: 0, number, file_bytes, smallest, largest }, contents))
        }
        Err(error) => {
            // Nothing names it: the next open would remove it too.
            let _ = fs.remove(&path);
            Err(error)
        }
    }
}

impl Engine {
    /// Flushes the oldest frozen memtable.
    ///
    /// # Errors
    /// I/O errors; the memtable stays, and so do its logs.
    pub fn flush_oldest(&self) -> Result<()> {
        let Some(oldest) = self.state.lock().frozen.front().cloned() else { return Ok(()) };
        self.trash.check_directory()?;
        let began = Instant::now();
        // Of no entries no table can be made; but the logs must go.
        let (new_file, contents) = match oldest.mem.is_empty() {
            true => (None, None),
            false => {
                let (file, contents) = self.write_table(&oldest)?;
                let written = (file.number, contents);
                (Some(file), Some(written))
            }
        };
        let file_bytes = new_file.as_ref().map_or(0, |file| file.file_bytes);
        let table = new_file.as_ref().map(|file| name::table_name(file.number));
        let mut manifest = self.manifest.lock();
        let log_number = {
            let state = self.state.lock();
            state.frozen.get(1).map_or(state.mem_log, |next| next.first_log)
        };
        let version = manifest.commit(VersionEdit {
            log_number: Some(log_number),
            last_seq: Some(oldest.mem.last_seq()),
            new_files: new_file.into_iter().collect(),
            ..VersionEdit::default()
        });
        if let (Err(_), Some(table), false) = (&version, table, manifest.is_in_doubt()) {
            // Left behind, it is removed by the next open; but tries on a full disk would add up.
            let _ = self.fs.remove(&self.dir.join(table));
        }
        let version = version?;
        version.set_contents(0, contents.as_slice());
        let mut state = self.state.lock();
        state.version = version;
        state.frozen.pop_front();
        self.show(&state);
        let live = state.logs.split_off(&log_number);
        let dead = std::mem::replace(&mut state.logs, live);
        drop(state);
        drop(manifest);
        self.metrics.flush(file_bytes, began.elapsed());
        self.changed.notify_all();
        self.reads.work.notify_all();
        for log in dead.into_keys() {
            // Left behind, it is removed by the next open.
            let _ = self.fs.remove(&self.dir.join(name::log_name(log)));
        }
        Ok(())
    }

    fn write_table(&self, frozen: &Frozen) -> Result<(NewFile, Contents)> {
        let began = Instant::now();
        let number = self.numbers.take();
        let (options, order) = (&self.options, &self.reads.order);
        let target = Target { fs: &*self.fs, dir: &self.dir, options, order };
        let held = self.reads.held_seqs();
        let entry_bytes = frozen.bytes / frozen.mem.len().max(1) as u64;
        let mut told = 0;
        let tell = |entries| {
            told += entries * entry_bytes;
            self.pace.flushed(entries * entry_bytes);
        };
        let written = write_table(&target, &frozen.mem, held, number, tell);
        match written {
            Ok(_) => {
                self.pace.flushed(frozen.bytes.saturating_sub(told));
                self.pace.timed(frozen.bytes, began.elapsed());
            }
            Err(_) => self.pace.frozen(told),
        }
        written
    }

    /// Freezes the memtable and waits until it, and every one frozen before, is a table.
    ///
    /// # Errors
    /// What kept a memtable from becoming a table.
    pub fn flush(&self) -> Result<()> {
        let mut commit = self.commit.lock();
        self.contain("a flush", || self.make_room(&mut commit, true))?;
        drop(commit);
        let mut state = self.state.lock();
        // Later writes may freeze more: those are not waited for.
        let Some(last) = state.frozen.back().map(|frozen| frozen.mem.clone()) else {
            return Ok(());
        };
        while state.frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.mem, &last)) {
            if self.has_failed.load(Relaxed) {
                drop(state);
                return Err(self.read_only_error());
            }
            if state.closing {
                return Err(Error::Closed);
            }
            self.wait_for_change(&mut state);
        }
        Ok(())
    }
}
