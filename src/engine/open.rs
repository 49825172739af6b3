//! From files to an engine: the MANIFEST, then every log it does not cover, in order.
//!
//! What is replayed stays in memtables, with its logs on disk, until the background has flushed
//! it: opening writes one MANIFEST and an empty log. Only what is more than the write buffers may
//! hold is flushed on the way.
//!
//! A log that ends inside a record ends there: the process or the machine stopped while writing
//! it. A bad record before that ends the log too, and every later log counts as not there, because
//! what is left must be a prefix of what was written; with `paranoid_checks` it is an error. The
//! logs that lose something so are kept aside in `lost/`.
//!
//! A log that ends too early between two records looks whole. So each begins with an empty batch
//! that says which sequence number comes next: if that is past what was recovered, the log before
//! lost its end, and this one counts as lost too.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Condvar, Mutex};
use crate::base::{Error, Result};
use crate::engine::directory::{
    absolute, check_files, check_numbers, create_dir, has_database, has_other_names, list,
    live_logs, lock, make_lost,
};
use crate::engine::flush::{Target, write_table};
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::metrics::Metrics;
use crate::engine::obsolete::Trash;
use crate::engine::options::Options;
use crate::engine::pace::Pace;
use crate::engine::version_set::{self, FileNumbers, Recovered, VersionSet, sync_dir};
use crate::engine::view::{ReadState, ReadView};
use crate::engine::wal::SpareLog;
use crate::engine::write::CommitState;
use crate::engine::{Engine, Frozen, State};
use crate::format::batch::{HEADER_BYTES, WriteBatch, decode_header, decode_ops};
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{InternalComparator, MAX_SEQ_NO, SeqNo};
use crate::format::name::{self, FileName};
use crate::fs::{FileLock, Fs};
use crate::log::{LogReader, LogWriter, Tail};
use crate::table::block_cache::BlockCache;
use crate::table::reader::TableContext;
use crate::table::table_cache::TableCache;

/// Memtables that recovery keeps before it flushes the oldest itself.
const MAX_RECOVERED_MEMTABLES: usize = 2;

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Logs replayed.
    pub logs: u64,
    /// Records replayed: commit groups.
    pub records: u64,
    /// Logs of which something was left out, because it was damaged or came after damage.
    pub lost: Vec<LostLog>,
}

/// A log of which something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLog {
    /// The log.
    pub path: PathBuf,
    /// Where what was left out begins.
    pub offset: u64,
    /// The bytes from there to the end.
    pub bytes: u64,
    /// What is wrong.
    pub why: String,
}

/// What replaying the logs leaves.
pub struct Replayed {
    /// Full memtables, oldest first, and last the one that is not full.
    pub memtables: VecDeque<Frozen>,
    /// The highest sequence number seen.
    pub last_seq: SeqNo,
    /// What was found.
    pub recovery: Recovery,
    /// The last log, if it ends so that it can be continued: its number and length.
    pub last_log: Option<(u64, u64)>,
}

/// Replays logs into memtables.
pub struct Replay<'a> {
    /// Where the logs are.
    pub fs: &'a dyn Fs,
    /// Their directory.
    pub dir: &'a Path,
    /// The order of keys.
    pub order: &'a InternalComparator,
    /// When a memtable is full.
    pub write_buffer_bytes: usize,
    /// Whether damage inside a log is an error.
    pub paranoid: bool,
    /// Whether another process may be writing the logs.
    pub beside_writer: bool,
}

impl Replay<'_> {
    /// Replays `logs`, ascending. `full` is told when a memtable beyond the first few is full,
    /// and may take the oldest from the queue.
    pub fn run(
        &self,
        logs: &[u64],
        last_seq: SeqNo,
        mut full: impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<Replayed> {
        let mut replayed = Replayed {
            memtables: VecDeque::new(),
            last_seq,
            recovery: Recovery::default(),
            last_log: None,
        };
        let mut arena = Arena::default();
        for &number in logs {
            if replayed.recovery.lost.is_empty() {
                self.replay_log(number, &mut replayed, &mut arena, &mut full)?;
                continue;
            }
            let path = self.dir.join(name::log_name(number));
            let bytes = self.fs.len(&path).map_err(|error| Error::io("read", &path, error))?;
            if bytes > 0 {
                let why = "comes after a damaged log".to_owned();
                replayed.recovery.lost.push(LostLog { path, offset: 0, bytes, why });
            }
        }
        // A batch may be empty, and of no entries no table can be made.
        replayed.memtables.retain(|frozen| !frozen.mem.is_empty());
        Ok(replayed)
    }

    fn replay_log(
        &self,
        number: u64,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(name::log_name(number));
        let file = self.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let file_bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
        let mut reader = LogReader::of_batches(file, &path)?.beside_writer(self.beside_writer);
        // All of a log is in one memtable. Of two, the first could be flushed, the log needed for
        // the second could lose its end, and what is replayed then be older than the table.
        let mut mem = None;
        let mut sync_failed = false;
        let end = loop {
            let is_first = reader.valid_end() == 0;
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => break LogEnd::Whole,
                Err(error) => break LogEnd::Damaged(error),
            };
            if is_first && let Some(gap) = gap_before(record, replayed.last_seq) {
                break LogEnd::Misplaced(gap);
            }
            let mem = match &mem {
                Some(mem) => mem,
                None => {
                    let expected = usize::try_from(file_bytes).unwrap_or(usize::MAX);
                    let log = (number, expected);
                    mem.insert(current_memtable(self, replayed, log, arena, full)?)
                }
            };
            match insert_record(mem, record, arena) {
                Ok(last) => replayed.last_seq = replayed.last_seq.max(last),
                Err(error) => {
                    break LogEnd::Damaged(error.in_file(&path).at(reader.record_offset()));
                }
            }
            let is_empty = record.len() == HEADER_BYTES;
            sync_failed |= is_empty && !is_first;
            replayed.recovery.records += u64::from(!is_empty);
        };
        replayed.recovery.logs += 1;
        replayed.last_log = None;
        let (offset, why) = match end {
            LogEnd::Whole => {
                let is_clean = reader.tail() == Tail::Clean;
                let may_go_on = is_clean && !sync_failed;
                replayed.last_log = may_go_on.then_some((number, reader.valid_end()));
                return Ok(());
            }
            // With nothing after the marker there is nothing to lose.
            LogEnd::Misplaced(_) if matches!(reader.next(), Ok(None)) => return Ok(()),
            LogEnd::Misplaced(gap) => (0, gap),
            LogEnd::Damaged(error) if self.paranoid || !error.is_corruption() => return Err(error),
            LogEnd::Damaged(error) => (reader.valid_end(), error.to_string()),
        };
        let bytes = file_bytes.saturating_sub(offset);
        replayed.recovery.lost.push(LostLog { path, offset, bytes, why });
        Ok(())
    }
}

/// How the replay of a log ended.
enum LogEnd {
    /// At the log's end, torn or not.
    Whole,
    /// Before its first record: the log before must have lost its end.
    Misplaced(String),
    /// At damage.
    Damaged(Error),
}

/// The memtable to replay into: the last, or, if that is full, a new one for a log of a number and
/// a size.
fn current_memtable(
    replay: &Replay<'_>,
    replayed: &mut Replayed,
    (log_number, expected_bytes): (u64, usize),
    arena: &mut Arena,
    full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
) -> Result<Arc<Memtable>> {
    if let Some(last) = replayed.memtables.back()
        && last.mem.bytes() < replay.write_buffer_bytes
    {
        return Ok(last.mem.clone());
    }
    if replayed.memtables.len() > MAX_RECOVERED_MEMTABLES {
        full(&mut replayed.memtables)?;
    }
    *arena = Arena::default();
    let mem =
        Arc::new(Memtable::new(replay.order.user(), replay.write_buffer_bytes.min(expected_bytes)));
    replayed.memtables.push_back(Frozen { mem: mem.clone(), first_log: log_number, bytes: 0 });
    Ok(mem)
}

/// Whether a log's first record says that the log before must have gone on past `last_seq`, and
/// what it says.
fn gap_before(first_record: &[u8], last_seq: SeqNo) -> Option<String> {
    match decode_header(first_record) {
        Ok((next_seq, 0)) if next_seq > last_seq + 1 => Some(format!(
            "begins at sequence number {next_seq}, but the log before ends at {last_seq}"
        )),
        _ => None,
    }
}

/// Inserts a log record, a batch: its last sequence number.
fn insert_record(mem: &Memtable, record: &[u8], arena: &mut Arena) -> Result<SeqNo> {
    let (first_seq, count) = decode_header(record)?;
    let last_seq = (first_seq + u64::from(count)).saturating_sub(1);
    // All or nothing: a batch that is malformed further on must not be half there.
    decode_ops(record).try_for_each(|op| op.map(drop))?;
    mem.insert_batch(record, first_seq, arena)?;
    Ok(last_seq)
}

/// What reading needs, made from the options.
pub fn table_cache(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    order: &InternalComparator,
) -> (TableCache, Option<Arc<BlockCache>>) {
    let bytes = options.block_cache_bytes;
    let block_cache = (bytes > 0).then(|| Arc::new(BlockCache::new(bytes)));
    let context = TableContext {
        order: crate::format::key::KeyOrder::Internal(order.clone()),
        filter_policy: options.usable_filter_policy(),
        prefix_extractor: options.prefix_extractor.clone(),
        block_cache: block_cache.clone(),
        paranoid: options.paranoid_checks,
    };
    let capacity = options.max_open_files.max(16);
    let tables = TableCache::new(fs.clone(), dir.to_path_buf(), context, capacity);
    (tables, block_cache)
}

impl Engine {
    /// Opens the database in `dir`, or makes it.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::DatabaseMissing`], [`Error::DatabaseExists`],
    /// [`Error::Unsupported`] for another comparator, corruption and I/O errors.
    pub fn open(dir: &Path, options: Options) -> Result<Arc<Engine>> {
        let options = options.checked()?;
        let fs = options.fs.clone();
        let dir = &absolute(&*fs, dir)?;
        if !options.allows(dir, has_database(&*fs, dir)?)? {
            create_dir(&*fs, dir)?;
        }
        let lock = lock(&*fs, dir)?;
        // Another process may have made it, or removed it, before the lock was ours.
        if !options.allows(dir, has_database(&*fs, dir)?)? {
            version_set::create(&*fs, dir, options.comparator.name())?;
        }
        Opening::new(dir, options)?.finish(lock)
    }
}

impl Options {
    /// Gives `exists` back: whether there is a database in `dir`.
    ///
    /// # Errors
    /// [`Error::DatabaseExists`] and [`Error::DatabaseMissing`], where the options say so.
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

/// The steps from a locked directory to an engine.
struct Opening {
    dir: PathBuf,
    fs: Arc<dyn Fs>,
    options: Options,
    order: InternalComparator,
    numbers: Arc<FileNumbers>,
    files: Vec<(String, FileName)>,
    recovered: Recovered,
    flushed: RefCell<Flushed>,
}

/// What recovery wrote.
#[derive(Default)]
struct Flushed {
    tables: Vec<NewFile>,
    /// The highest sequence number in them.
    last_seq: SeqNo,
}

impl Opening {
    fn new(dir: &Path, options: Options) -> Result<Opening> {
        let fs = options.fs.clone();
        let recovered = version_set::recover(&*fs, dir, options.comparator.name())?;
        let files = list(&*fs, dir)?;
        check_files(dir, &files, &recovered, options.paranoid_checks)?;
        check_numbers(dir, &files, recovered.next_file_number)?;
        // Numbers on disk may be past what the MANIFEST knows: none is handed out again.
        let numbers = FileNumbers::new(recovered.next_file_number);
        for number in files.iter().filter_map(|(_, name)| name.number()) {
            numbers.skip(number);
        }
        Ok(Opening {
            dir: dir.to_path_buf(),
            fs,
            order: InternalComparator::new(options.comparator.clone()),
            options,
            numbers: Arc::new(numbers),
            files,
            flushed: RefCell::default(),
            recovered,
        })
    }

    fn finish(self, lock: Box<dyn FileLock>) -> Result<Arc<Engine>> {
        let logs = live_logs(&self.files, &self.recovered);
        let mut replayed = self.replay(&logs)?;
        if !replayed.recovery.lost.is_empty() {
            self.keep_lost_logs(&replayed.recovery)?;
            // The damaged log must be done with before the next one is written: replayed again,
            // the damage would take what comes after it along.
            while !replayed.memtables.is_empty() {
                self.flush_oldest(&mut replayed.memtables)?;
            }
        }
        let lock: Arc<dyn FileLock> = lock.into();
        let trash = Arc::new(Trash::new(self.fs.clone(), &self.dir).guarded_by(&lock));
        let mut manifest = VersionSet::new(
            self.fs.clone(),
            &self.dir,
            self.order.clone(),
            trash.clone(),
            self.numbers.clone(),
            &self.recovered,
            self.options.manifest_rotate_bytes,
        )?;
        let mut commit = self.start_log(&mut replayed)?;
        let frozen = replayed.memtables;
        let first_log = frozen.front().map_or(commit.first_log, |frozen| frozen.first_log);
        let may_go_on = self.recovered.clean && !self.recovered.sync_failed;
        if self.options.reuse_logs && may_go_on {
            manifest.reuse_manifest(&self.recovered)?;
        }
        let flushed = self.flushed.take();
        let version = manifest.commit(VersionEdit {
            log_number: Some(first_log),
            last_seq: Some(flushed.last_seq),
            new_files: flushed.tables,
            ..VersionEdit::default()
        })?;
        let mut live: BTreeSet<u64> = logs.into_iter().filter(|&log| log >= first_log).collect();
        live.remove(&commit.state.log_number);
        commit.state.replayed_log = live.last().copied();
        live.insert(commit.state.log_number);
        self.remove_obsolete(&version, &live, manifest.manifest_number());
        let state = State {
            mem: commit.state.mem.clone(),
            mem_log: commit.first_log,
            frozen,
            version,
            logs: live.into_iter().map(|log| (log, None)).collect(),
            spare_log: None,
            wants_spare_log: false,
            done_logs: Vec::new(),
            running: Vec::new(),
            flushing: false,
            manual: None,
            failed: None,
            compaction_error: None,
            compaction_failures: 0,
            compaction_not_before: None,
            pinned: Default::default(),
            stall: None,
            closing: false,
        };
        let (tables, block_cache) = table_cache(&self.fs, &self.dir, &self.options, &self.order);
        let tables = Arc::new(tables.guarded_by(&lock));
        let view = ReadView {
            mem: state.mem.clone(),
            imm: state.frozen.iter().rev().map(|frozen| frozen.mem.clone()).collect(),
            version: state.version.clone(),
        };
        let last_seq = commit.state.last_seq;
        let (order, trash_of_reads) = (self.order, trash.clone());
        let reads =
            ReadState::new(order, tables, block_cache, trash_of_reads, view, last_seq, Some(lock));
        Ok(Arc::new(Engine {
            dir: self.dir,
            fs: self.fs,
            inline: self.options.inline_background.map(Mutex::new),
            options: self.options,
            reads: Arc::new(reads),
            numbers: self.numbers,
            trash,
            metrics: Metrics::default(),
            pace: Pace::default(),
            recovery: replayed.recovery,
            queue: Default::default(),
            commit: Mutex::new(commit.state),
            manifest: Mutex::new(manifest),
            state: Mutex::new(state),
            changed: Condvar::new(),
            has_failed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }))
    }

    fn replay(&self, logs: &[u64]) -> Result<Replayed> {
        let replay = Replay {
            fs: &*self.fs,
            dir: &self.dir,
            order: &self.order,
            write_buffer_bytes: self.options.write_buffer_bytes,
            paranoid: self.options.paranoid_checks,
            beside_writer: false,
        };
        replay.run(logs, self.recovered.last_seq, |memtables| self.flush_oldest(memtables))
    }

    fn flush_oldest(&self, memtables: &mut VecDeque<Frozen>) -> Result<()> {
        let Some(Frozen { mem, .. }) = memtables.pop_front() else { return Ok(()) };
        let number = self.numbers.take();
        // Nobody reads yet: of every key only the newest version is needed.
        let held = vec![MAX_SEQ_NO];
        let (options, order) = (&self.options, &self.order);
        let target = Target { fs: &*self.fs, dir: &self.dir, options, order };
        let (table, _) = write_table(&target, &mem, held, number, |_| {})?;
        let mut flushed = self.flushed.borrow_mut();
        flushed.tables.push(table);
        flushed.last_seq = flushed.last_seq.max(mem.last_seq());
        Ok(())
    }

    /// Continues the last log, or starts a new one.
    fn start_log(&self, replayed: &mut Replayed) -> Result<Started> {
        let reusable = self.options.reuse_logs && replayed.recovery.lost.is_empty();
        // Its memtable goes on too, so no other log may be in that; and an empty log has no
        // first record that tells where it belongs.
        let is_alone =
            |number| replayed.memtables.back().is_none_or(|last| last.first_log == number);
        if let (true, Some((number, len))) = (reusable, replayed.last_log)
            && len > 0
            && is_alone(number)
            && let path = self.dir.join(name::log_name(number))
            && !has_other_names(&*self.fs, &path)?
        {
            let file = self.fs.append(&path).map_err(|error| Error::io("open", &path, error))?;
            let log = LogWriter::new(file, len);
            let last = replayed.memtables.pop_back();
            let mem = last.map_or_else(|| self.new_memtable(), |last| last.mem);
            return Ok(self.started(number, path, log, mem, number, replayed.last_seq));
        }
        let number = self.numbers.take();
        let plain = !self.options.preallocate_logs;
        let log = SpareLog::create(&*self.fs, &self.dir, number, plain)?;
        let (path, log) = log.begin(replayed.last_seq + 1)?;
        let mem = self.new_memtable();
        Ok(self.started(number, path, log, mem, number, replayed.last_seq))
    }

    fn new_memtable(&self) -> Arc<Memtable> {
        Arc::new(Memtable::new(self.order.user(), self.options.write_buffer_bytes))
    }

    fn started(
        &self,
        log_number: u64,
        log_path: PathBuf,
        log: LogWriter,
        mem: Arc<Memtable>,
        first_log: u64,
        last_seq: SeqNo,
    ) -> Started {
        let state = CommitState {
            log_number,
            log_path,
            log,
            name_synced: false,
            outgoing: Vec::new(),
            replayed_log: None,
            mem,
            arena: Arena::default(),
            last_seq,
            // What was replayed may never have been synced.
            unsynced: true,
            half_done: false,
            group: WriteBatch::new(),
            look_at: 0,
            last_sync: Duration::ZERO,
        };
        Started { state, first_log }
    }

    /// Puts a second name on the logs that lose something, out of the way of their removal.
    fn keep_lost_logs(&self, recovery: &Recovery) -> Result<()> {
        if recovery.lost.is_empty() {
            return Ok(());
        }
        let aside = make_lost(&*self.fs, &self.dir)?;
        for lost in &recovery.lost {
            let Some(name) = lost.path.file_name() else { continue };
            let kept = aside.join(name);
            match self.fs.hard_link(&lost.path, &kept) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("keep aside", &lost.path, error));
                }
                _ => {}
            }
        }
        sync_dir(&*self.fs, &aside)
    }

    /// Removes what no MANIFEST names and no log needs. What cannot be removed stays for the
    /// next open.
    fn remove_obsolete(
        &self,
        version: &crate::engine::version::Version,
        live_logs: &BTreeSet<u64>,
        manifest_number: u64,
    ) {
        let tables: BTreeSet<u64> = version.files().map(|(_, file)| file.number).collect();
        for (file_name, name) in &self.files {
            let needed = match name {
                FileName::Log(number) => live_logs.contains(number),
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

/// The log that writes go to, and the first whose records are in its memtable.
struct Started {
    state: CommitState,
    first_log: u64,
}
