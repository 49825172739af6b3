//! Opening a database: from its files to an engine.
//!
//! 1. Create the directory and the database if they are missing, and take the lock.
//! 2. Read the MANIFEST, and check that its tables exist.
//! 3. Replay each log that the MANIFEST does not cover, in order, into memtables. The memtables
//!    stay in memory, and the logs on disk, until background work has flushed the memtables. If too
//!    many memtables are full, the oldest one is flushed at once.
//! 4. Start a log for new writes, and record the state in the MANIFEST.
//! 5. Remove files that are not needed.
//!
//! A record that is cut off at the end of a log is ignored, because the process or the machine
//! stopped while the record was being written. A bad record elsewhere ends the log too, and all
//! later logs are ignored, because the result must be a prefix of the writes. With
//! `paranoid_checks`, such a record is an error instead. Logs that were not replayed completely are
//! kept in `lost/`.
//!
//! A log that lost its end between two records looks complete. Therefore each log begins with an
//! empty batch that states the next sequence number. If that number is higher than the next
//! sequence number according to the replay, the previous log lost its end. The log that begins with
//! that batch is then ignored, like a log that follows a damaged log.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::process::ProcessId;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Condvar, LockRank, Mutex};
use crate::base::{Error, Result};
use crate::engine::checkpoint::{cannot_link, copy_whole};
use crate::engine::compression::Compressions;
use crate::engine::flush::write_table;
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::observe::queue::Observing;
use crate::engine::open::check::check_entries;
use crate::engine::open::directory::{
    NewLock, check_numbers, create_dir, find_database, has_database, live_logs, make_lost,
};
use crate::engine::open::entries::{DirListing, entries};
use crate::engine::open::replay::{LogReplay, Replayed};
use crate::engine::options::Options;
use crate::engine::read::view::{ReadState, VisibleSeq};
use crate::engine::report::recovery::Recovery;
use crate::engine::stats::metrics::Metrics;
use crate::engine::table_writer::Target;
use crate::engine::version::manifest::Recovered;
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::set::VersionSet;
use crate::engine::version::{Version, manifest};
use crate::engine::write::commit::CommitState;
use crate::engine::write::kept::{KeepLimits, KeptLogs};
use crate::engine::write::log_file::SpareLog;
use crate::engine::write::pace::Pace;
use crate::engine::{Engine, Frozen, FsAbilities, State};
use crate::format::batch::{MAX_OPERATIONS, WriteBatch};
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{InternalComparator, MAX_SEQ_NO, SeqNo};
use crate::format::name::{self, FileName};
use crate::fs::{FileLock, Fs, absolute, has_other_names, sync_dir, try_append};
use crate::log::LogWriter;
use crate::table::block_cache::BlockCache;
use crate::table::block_cache::budget::OpenTables;
use crate::table::table_cache::TableCache;

pub(crate) mod check;
pub(crate) mod directory;
pub(crate) mod entries;
pub(crate) mod held;
pub(crate) mod read_only;
pub(crate) mod replay;

/// Returns the table cache and the block cache for the database in `dir`. The block cache is `None`
/// if the options turn it off.
pub(crate) fn table_cache(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    order: &InternalComparator,
    lock: Option<&Arc<dyn FileLock>>,
) -> (Arc<TableCache>, Option<Arc<BlockCache>>) {
    let block_cache = options.resources.block_cache(options.block_cache_bytes);
    let context = options.table_context(order, block_cache.clone());
    let capacity = options.max_open_files.max(16);
    let tables = TableCache::new(fs.clone(), dir.to_path_buf(), context, capacity)
        .map_files(options.map_tables);
    let tables = Arc::new(match lock {
        Some(lock) => tables.guarded_by(lock),
        None => tables,
    });
    if let Some(cache) = &block_cache {
        let tables: Arc<dyn OpenTables> = tables.clone();
        cache.may_close(Arc::downgrade(&tables));
    }
    (tables, block_cache)
}

impl Engine {
    /// Opens the database in `dir`, or creates it.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::DatabaseMissing`], [`Error::DatabaseExists`],
    /// [`Error::Unsupported`] for another comparator, [`Error::InvalidArgument`] for an invalid
    /// option, corruption and I/O errors.
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Arc<Engine>> {
        let options = options.checked()?;
        let fs = options.fs.clone();
        let dir = &absolute(&*fs, dir)?;
        if !options.allows(dir, has_database(&*fs, dir)?)? {
            create_dir(&*fs, dir)?;
        }
        let lock = NewLock::take(&*fs, dir, options.allow_no_lock)?;
        // Another process may have created or removed the database before this process took the
        // lock.
        let found = find_database(&*fs, dir)?;
        options.allows(dir, found.is_some())?;
        let entries = match found {
            Some(entries) => {
                // A process that was killed while it made the database may have left the name of
                // CURRENT unsynced. If a loss of power took that name, but not the names of the
                // files that this open makes, they would look like what is left of a database.
                sync_dir(&*fs, dir)?;
                entries
            }
            None => {
                manifest::create(&*fs, dir, options.comparator.name())?;
                entries(&*fs, dir)?
            }
        };
        let engine = Opening::new(dir, options, entries)?.finish(lock.guard().clone())?;
        lock.keep();
        Ok(engine)
    }
}

impl Options {
    /// Checks that the options allow the database in `dir` to be opened. `exists` tells whether
    /// `dir` contains a database. Returns `exists`.
    ///
    /// # Errors
    /// [`Error::DatabaseExists`] and [`Error::DatabaseMissing`], according to the options.
    fn allows(&self, dir: &Path, exists: bool) -> Result<bool> {
        match exists {
            true if self.error_if_exists => Err(Error::DatabaseExists { path: dir.to_path_buf() }),
            false if !self.create_if_missing => {
                Err(Error::DatabaseMissing { path: dir.to_path_buf() })
            }
            exists => Ok(exists),
        }
    }
}

/// A database that is being opened, with its directory locked. [`Opening::finish`] performs the
/// remaining steps in order.
struct Opening {
    dir: PathBuf,
    fs: Arc<dyn Fs>,
    options: Options,
    compression: Compressions,
    order: InternalComparator,
    numbers: Arc<FileNumbers>,
    /// Files of the database before the open changes anything.
    files: Vec<(String, FileName)>,
    recovered: Recovered,
}

/// The tables that an open writes before the engine exists.
#[derive(Default)]
struct Flushed {
    tables: Vec<NewFile>,
    /// The highest sequence number in `tables`.
    last_seq: SeqNo,
}

/// A database whose recovery is recorded in the MANIFEST.
struct Recorded {
    manifest: VersionSet,
    commit: CommitState,
    state: State,
    recovery: Recovery,
}

impl Opening {
    /// Reads the MANIFEST. `entries` are the entries of `dir`, listed with the lock held.
    fn new(dir: &Path, mut options: Options, entries: DirListing) -> Result<Opening> {
        let fs = options.fs.clone();
        let recovered = manifest::recover_manifest(&*fs, dir, options.comparator.name())?;
        check_entries(&*fs, dir, &options, &entries, &recovered)?;
        let DirListing { files, directories } = entries;
        // Files may have higher numbers than the MANIFEST knows. The numbers of existing files must
        // not be assigned again.
        let taken = [&files[..], &directories].concat();
        check_numbers(dir, &taken, recovered.next_number())?;
        let numbers = FileNumbers::new(recovered.next_number());
        for number in taken.iter().filter_map(|(_, name)| name.number()) {
            numbers.skip(number);
        }
        debug_assert!(
            files.iter().filter_map(|(_, name)| name.number()).all(|taken| taken < numbers.next()),
            "the number of a file is handed out again"
        );
        let tables = recovered.edit.new_files.iter().map(|file| file.number).collect();
        let compression = Compressions::at_open(&*fs, dir, &options, tables)?;
        options.compression = Some(compression.new);
        Ok(Opening {
            dir: dir.to_path_buf(),
            fs,
            compression,
            order: InternalComparator::new(options.comparator.clone()),
            options,
            numbers: Arc::new(numbers),
            files,
            recovered,
        })
    }

    /// Finishes the open and returns the engine.
    fn finish(self, lock: Arc<dyn FileLock>) -> Result<Arc<Engine>> {
        let trash = Arc::new(Trash::new(self.fs.clone(), &self.dir).guarded_by(&lock));
        let Recorded { manifest, commit, state, recovery } = self.recover(&trash)?;
        let syncs_names = manifest.syncs_names();
        let fs_abilities = FsAbilities { has_lock: lock.excludes_processes(), syncs_names };
        let reads = self.read_state(&state, commit.visible.clone(), trash.clone(), lock);
        Ok(Arc::new(Engine {
            dir: self.dir,
            fs: self.fs,
            opener: ProcessId::current(),
            fs_abilities,
            inline: self.options.inline_background.map(|seed| Mutex::ranked(LockRank::Leaf, seed)),
            observing: self.options.observer.clone().map(Observing::new),
            pace: Pace::new(self.options.resources.memory.as_ref()),
            options: self.options,
            compression: self.compression,
            reads: Arc::new(reads),
            numbers: self.numbers,
            trash,
            metrics: Metrics::default(),
            recovery,
            queue: Default::default(),
            ingests: Mutex::ranked(LockRank::Ingest, ()),
            commit: Mutex::ranked(LockRank::Commit, commit),
            manifest: Mutex::ranked(LockRank::Manifest, manifest),
            state: Mutex::ranked(LockRank::State, state),
            changed: Condvar::new(),
            has_failed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }))
    }

    /// Replays the logs, starts a log for new writes, and records the result in the MANIFEST. No
    /// file is removed before the MANIFEST records what replaces the file. After a failure, the
    /// files that were made are removed, unless the MANIFEST may name them.
    fn recover(&self, trash: &Arc<Trash>) -> Result<Recorded> {
        let first_made = self.numbers.next();
        let logs = live_logs(&self.files, &self.recovered);
        let prepared = self.prepare(&logs, trash);
        let (mut manifest, mut commit, replayed, flushed) =
            prepared.inspect_err(|_| self.discard_from(first_made, trash))?;
        let frozen = replayed.memtables;
        let first_log = frozen.front().map_or(commit.log_number, |frozen| frozen.first_log);
        debug_assert!(
            flushed.last_seq <= commit.last_seq,
            "a flushed entry has a sequence number that will be used again"
        );
        let kept = self.kept_logs(first_log, &replayed.recovery);
        let version = self.record(&mut manifest, first_log, flushed);
        let version = match version {
            Ok(version) => version,
            Err(error) => {
                // An open file cannot be removed everywhere.
                drop(commit);
                if !manifest.is_in_doubt() {
                    self.discard_from(first_made, trash);
                }
                return Err(error);
            }
        };
        let live = live_after(first_log, logs, &mut commit);
        self.remove_obsolete(&version, &live, &kept, manifest.manifest_number());
        let (mem, log) = (commit.mem.clone(), commit.log_number);
        let mut state = State::new(mem, log, frozen, version, live.into_iter());
        state.logs.kept = kept;
        Ok(Recorded { manifest, commit, state, recovery: replayed.recovery })
    }

    /// Replays `logs`, and starts a log for new writes. Changes nothing that the MANIFEST names.
    fn prepare(
        &self,
        logs: &[u64],
        trash: &Arc<Trash>,
    ) -> Result<(VersionSet, CommitState, Replayed, Flushed)> {
        let (mut replayed, flushed) = self.replay(logs)?;
        let manifest = self.version_set(trash)?;
        let commit = self.start_log(&mut replayed)?;
        Ok((manifest, commit, replayed, flushed))
    }

    /// Removes the tables and the log that this open has made, which have the number `first_made`
    /// or higher numbers. Without this, the tables and logs of repeated attempts would fill the
    /// disk.
    fn discard_from(&self, first_made: u64, trash: &Trash) {
        let made = first_made..self.numbers.next();
        trash.remove(made.clone());
        if trash.check_directory().is_ok() {
            for number in made {
                let _ = self.fs.remove(&self.dir.join(name::log_name(number)));
            }
        }
    }

    /// Replays `logs`. If too many memtables are full, the oldest one is flushed during the replay.
    /// If a log is damaged, or if the MANIFEST names a previous log, all memtables are flushed.
    /// Returns the remaining memtables, and the tables written.
    fn replay(&self, logs: &[u64]) -> Result<(Replayed, Flushed)> {
        let replay = LogReplay {
            fs: &*self.fs,
            dir: &self.dir,
            order: &self.order,
            write_buffer_bytes: self.options.write_buffer_bytes,
            max_entries: MAX_OPERATIONS as usize,
            paranoid: self.options.paranoid_checks,
            beside_writer: false,
        };
        let mut flushed = Flushed::default();
        let mut replayed = replay.run(logs, self.recovered.last_seq, |memtables| {
            self.flush_oldest(memtables, &mut flushed)
        })?;
        let has_lost = !replayed.recovery.lost.is_empty();
        if has_lost {
            self.keep_lost_logs(&replayed.recovery)?;
        }
        // Later logs must not depend on a damaged log: the next replay would stop at the damage
        // again, and leave out everything written later. If the MANIFEST names a previous log, the
        // records of that log must not stay in a memtable either: the MANIFEST's log number would
        // go back to the number of that log, and all logs in between would be live again.
        if has_lost || self.recovered.prev_log_number != 0 {
            replayed.last_log = None;
            while !replayed.memtables.is_empty() {
                self.flush_oldest(&mut replayed.memtables, &mut flushed)?;
            }
        }
        Ok((replayed, flushed))
    }

    fn flush_oldest(&self, memtables: &mut VecDeque<Frozen>, flushed: &mut Flushed) -> Result<()> {
        let Some(Frozen { mem, .. }) = memtables.pop_front() else { return Ok(()) };
        let number = self.numbers.take();
        // There are no readers yet, so only the newest version of each key is needed.
        let read_seqs = vec![MAX_SEQ_NO];
        let (options, order) = (&self.options, &self.order);
        let target = Target::new(&*self.fs, &self.dir, options, order);
        let (table, _) = write_table(&target, &mem, read_seqs, number, |_, _| {})?;
        debug_assert!(
            flushed.tables.last().is_none_or(|older| older.number < table.number),
            "a newer table has a lower number"
        );
        flushed.tables.push(table);
        flushed.last_seq = flushed.last_seq.max(mem.last_seq());
        Ok(())
    }

    fn version_set(&self, trash: &Arc<Trash>) -> Result<VersionSet> {
        VersionSet::new(
            self.fs.clone(),
            &self.dir,
            self.order.clone(),
            trash.clone(),
            self.numbers.clone(),
            &self.recovered,
            self.options.manifest_rotate_bytes,
        )
    }

    /// Continues the last log, or starts a new log. Returns the commit state with that log.
    fn start_log(&self, replayed: &mut Replayed) -> Result<CommitState> {
        let reusable = self.options.reuse_logs && replayed.recovery.lost.is_empty();
        // The memtable of the log is continued too, so it must not hold records of another log. An
        // empty log is not continued, because it lacks the first record, which states the sequence
        // number at which the log begins.
        let is_alone =
            |number| replayed.memtables.back().is_none_or(|last| last.first_log == number);
        if let (true, Some((number, len))) = (reusable, replayed.last_log)
            && len > 0
            && is_alone(number)
            && let path = self.dir.join(name::log_name(number))
            && !has_other_names(&*self.fs, &path)?
            && let Some(file) = try_append(&*self.fs, &path)?
        {
            let log = CurrentLog { number, path, log: LogWriter::new(file, len) };
            let last = replayed.memtables.pop_back();
            let mem = last.map_or_else(|| self.new_memtable(), |last| last.mem);
            return Ok(log.into_commit_state(mem, replayed.last_seq));
        }
        let number = self.numbers.take();
        let plain = !self.options.preallocate_logs;
        let log = SpareLog::create(&*self.fs, &self.dir, number, plain)?;
        let (path, log) = log.begin(replayed.last_seq + 1)?;
        let log = CurrentLog { number, path, log };
        Ok(log.into_commit_state(self.new_memtable(), replayed.last_seq))
    }

    fn new_memtable(&self) -> Arc<Memtable> {
        Arc::new(Memtable::new(self.order.user(), self.options.write_buffer_bytes))
    }

    /// Records in the MANIFEST which tables were written, and that logs before `first_log` are no
    /// longer needed. Returns the resulting version.
    fn record(
        &self,
        manifest: &mut VersionSet,
        first_log: u64,
        flushed: Flushed,
    ) -> Result<Arc<Version>> {
        let can_continue = self.recovered.clean && !self.recovered.sync_failed;
        if self.options.reuse_logs && can_continue {
            manifest.reuse_manifest(&self.recovered)?;
        }
        manifest.commit(VersionEdit {
            log_number: Some(first_log),
            last_seq: Some(flushed.last_seq),
            new_files: flushed.tables,
            ..VersionEdit::default()
        })
    }

    fn read_state(
        &self,
        state: &State,
        visible: Arc<VisibleSeq>,
        trash: Arc<Trash>,
        lock: Arc<dyn FileLock>,
    ) -> ReadState {
        let (tables, block_cache) =
            table_cache(&self.fs, &self.dir, &self.options, &self.order, Some(&lock));
        let order = self.order.clone();
        ReadState::new(order, tables, block_cache, trash, state.layers(), visible, Some(lock))
            .with_clock(self.options.clock.clone())
            .with_sample(self.options.sample.clone())
    }

    /// Keeps the logs that were not replayed completely in `lost/`, so that removing these logs
    /// from the database loses no data: as hard links or, if the filesystem cannot link, as copies.
    fn keep_lost_logs(&self, recovery: &Recovery) -> Result<()> {
        let fs = &*self.fs;
        let aside = make_lost(fs, &self.dir)?;
        for lost in &recovery.lost {
            let file = lost.path.file_name().and_then(|file| file.to_str());
            let Some(FileName::Log(number)) = file.and_then(FileName::parse) else { continue };
            let kept = aside.join(name::log_name(number));
            match fs.hard_link(&lost.path, &kept) {
                Err(error) if cannot_link(error.kind()) => {
                    copy_whole(fs, &lost.path, &aside.join(name::temp_name(number)), &kept)?;
                }
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("keep aside", &lost.path, error));
                }
                _ => {}
            }
        }
        sync_dir(fs, &aside)
    }

    /// Returns the logs before `first_log` that are kept for readers of changes, according to the
    /// options. A log that was not replayed completely is not kept, because its sequence numbers
    /// will be assigned again.
    fn kept_logs(&self, first_log: u64, recovery: &Recovery) -> KeptLogs {
        let Some(limits) = KeepLimits::of(&self.options) else { return KeptLogs::default() };
        let is_lost = |number: u64| {
            let path = self.dir.join(name::log_name(number));
            recovery.lost.iter().any(|lost| lost.path == path)
        };
        let logs: BTreeSet<u64> = self
            .files
            .iter()
            .filter_map(|(_, name)| match name {
                FileName::Log(number) if *number < first_log => Some(*number),
                _ => None,
            })
            .filter(|&number| !is_lost(number))
            .collect();
        let logs: Vec<u64> = logs.into_iter().collect();
        let mut kept = KeptLogs::at_open(&*self.fs, &self.dir, &logs, self.recovered.log_number);
        kept.renew(Vec::new(), limits, SystemTime::now());
        kept
    }

    /// Removes the tables, logs, MANIFESTs and temporary files that are no longer needed. Files
    /// that cannot be removed stay until the next open.
    fn remove_obsolete(
        &self,
        version: &Version,
        live_logs: &BTreeSet<u64>,
        kept: &KeptLogs,
        manifest_number: u64,
    ) {
        let logs: BTreeSet<u64> = live_logs.iter().copied().chain(kept.numbers()).collect();
        let tables: BTreeSet<u64> = version.files().map(|(_, file)| file.number).collect();
        for (file_name, name) in &self.files {
            let needed = match name {
                FileName::Log(number) => logs.contains(number),
                FileName::Table { number, .. } => tables.contains(number),
                FileName::Manifest(number) => *number == manifest_number,
                FileName::Temp(_) => false,
                FileName::Current | FileName::Lock | FileName::InfoLog { .. } => true,
            };
            if !needed {
                let _ = self.fs.remove(&self.dir.join(file_name));
            }
        }
    }
}

/// Returns the logs that are still needed: the new log, and those in `replayed` from `first_log`
/// on. Records in `commit` which of the replayed logs is the newest.
fn live_after(first_log: u64, replayed: Vec<u64>, commit: &mut CommitState) -> BTreeSet<u64> {
    let new = commit.log_number;
    let mut live: BTreeSet<u64> = replayed.into_iter().filter(|&log| log >= first_log).collect();
    live.remove(&new);
    commit.replayed_log = live.last().copied();
    let is_older = first_log <= new && commit.replayed_log.is_none_or(|older| older < new);
    debug_assert!(is_older, "a replayed log is newer than the new one");
    live.insert(new);
    live
}

/// The log that new writes go to.
struct CurrentLog {
    number: u64,
    path: PathBuf,
    log: LogWriter,
}

impl CurrentLog {
    /// Returns the commit state with this log, its memtable `mem`, and the last sequence number
    /// assigned to a write.
    fn into_commit_state(self, mem: Arc<Memtable>, last_seq: SeqNo) -> CommitState {
        CommitState {
            log_number: self.number,
            log_path: self.path,
            log: self.log,
            name_synced: false,
            outgoing: Vec::new(),
            replayed_log: None,
            mem,
            visible: VisibleSeq::new(last_seq),
            arena: Arena::default(),
            last_seq,
            // The replayed records may never have been synced.
            unsynced: true,
            half_done: false,
            group: WriteBatch::new(),
            max_entries: MAX_OPERATIONS as usize,
            check_room_at: 0,
            last_sync: Duration::ZERO,
        }
    }
}
