//! The merge of a compaction's inputs, divided into parts: ranges of user keys that several threads
//! merge in parallel.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::thread;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::filter::{CompactionDecision, FilterRule};
use crate::engine::compact::output::{Follower, OutputSplitter, Outputs};
use crate::engine::compact::plan::Compaction;
use crate::engine::compact::retention::Retention;
use crate::engine::conservation::{Ledger, Reason, written_to};
use crate::engine::inside::Duty;
use crate::engine::read::input::Inner;
use crate::engine::read::level::{LevelCursor, Run};
use crate::engine::read::merge::{MergeCursor, Source};
use crate::engine::resources::pool::Lane;
use crate::engine::span::Span;
use crate::engine::throttle::Meter;
use crate::engine::version::TableFile;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{
    KIND_FOR_SEEK, KeyKind, MAX_SEQ_NO, ParsedKey, SeqNo, UserComparator, internal_key, user_key,
};
use crate::table::reader::BlockReadOptions;

/// Number of keys that are sampled from each input table, in order to find parts of about the same
/// size. More samples make the parts more even and take longer.
const SAMPLES: usize = 32;

/// Number of input tables above which only the last key of each table is sampled. A higher number
/// makes parts more even, but more tables are opened for sampling.
const MANY_FILES: usize = 64;

/// Smallest part that is worth a thread, in tables of the target size. A higher number uses fewer
/// threads.
const MIN_PART_TABLES: u64 = 2;

/// Maximum number of parts of one compaction. More parts leave fewer processors to reads and
/// writes.
const MAX_PARTS: usize = 4;

/// Number of entries between two checks of whether a merge must stop. A higher number makes `close`
/// wait longer.
const STOP_CHECK_ENTRIES: u64 = 1024;

/// The result of the merge of a part.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The tables that the merge wrote, in key order.
    pub(super) files: Vec<NewFile>,
    /// Counts of the entries of the tables, by table number.
    pub(super) counts: Vec<(u64, EntryCounts)>,
    /// The account of the entries. Tables whose writers' sums are known count as read only once all
    /// parts are joined.
    pub(super) ledger: Ledger,
    /// Sequence number of the newest snapshot; 0 if there was none. The filter was not called for
    /// entries whose sequence numbers are at most this number.
    pub(super) newest_snapshot: SeqNo,
    /// Position in each input before the merge.
    begin: Vec<InputKey>,
    /// Position in each input after the merge.
    end: Vec<InputKey>,
}

/// Internal key of a cursor's current entry; `None` if the cursor is at the end.
type InputKey = Option<Vec<u8>>;

impl Engine {
    /// Merges the inputs of `compaction`, in several parts if that is worthwhile. Returns the
    /// result.
    ///
    /// # Errors
    /// The first error of a part, after which the outputs of all parts are removed.
    pub(super) fn merge(&self, compaction: &Compaction) -> Result<Merged> {
        let parts = self.parts_of(compaction)?;
        let (newest_snapshot, read_seqs) = self.reads.newest_snapshot_and_read_seqs();
        let has_keyspaces = self.reads.order.user().custom().is_none();
        let now = has_keyspaces.then(|| self.reads.clock.now_millis());
        let filter = self.options.compaction_filter.as_ref();
        let filter = FilterRule { filter, now, newest_snapshot };
        let gave_up = AtomicBool::new(false);
        let merge = |part| self.merge_part(compaction, part, read_seqs.clone(), filter, &gave_up);
        let duty = Duty::current();
        let merged: Vec<Result<Merged>> = match parts.split_last() {
            Some((last, others)) if self.inline.is_none() => thread::scope(|scope| {
                let thread = |part| {
                    let (builder, duty) = (thread::Builder::new(), duty.clone());
                    let work = move || {
                        duty.share();
                        merge(part)
                    };
                    let spawned = builder.name("minikv-merge".to_owned()).spawn_scoped(scope, work);
                    spawned.map_err(|error| Error::io("start a thread for", &self.dir, error))
                };
                let threads: Vec<_> = others.iter().map(thread).collect();
                let last = merge(last);
                let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                    let panicked = |payload: Box<_>| Error::panicked("a compaction", &*payload);
                    thread.join().unwrap_or_else(|payload| Err(panicked(payload)))
                };
                let others = threads.into_iter().map(|thread| thread.and_then(join));
                others.chain([last]).collect()
            }),
            _ => parts.iter().map(merge).collect(),
        };
        let mut joined = self.joined(merged)?;
        joined.ledger.read(compaction.inputs.known());
        Ok(Merged { newest_snapshot, ..joined })
    }

    /// Returns the results of all parts as one. If a part failed, removes the outputs of the other
    /// parts.
    fn joined(&self, parts: Vec<Result<Merged>>) -> Result<Merged> {
        let mut all = Merged::default();
        let mut failed = None;
        let mut last_end = None;
        for part in parts {
            let part = match part {
                Ok(part) => part,
                // `Closed` says only that the part was stopped; any other error says more.
                Err(error) if matches!(failed, None | Some(Error::Closed)) => {
                    failed = Some(error);
                    continue;
                }
                Err(_) => continue,
            };
            all.files.extend(part.files);
            all.counts.extend(part.counts);
            all.ledger.add(&part.ledger);
            // If the keys of all tables ascend, each part begins at the entry where the previous
            // part ends. If the keys do not ascend, entries between two parts could be lost.
            if last_end.is_some_and(|last_end| last_end != part.begin) {
                failed.get_or_insert(Error::corruption("the keys of a table do not ascend"));
            }
            last_end = Some(part.end);
        }
        let Some(error) = failed else {
            debug_assert!(self.are_disjoint(&all.files), "outputs overlap: {:?}", all.files);
            return Ok(all);
        };
        self.trash.remove(all.files.iter().map(|file| file.number));
        Err(error)
    }

    /// Returns whether each table ends before the next table begins, in the order of user keys.
    fn are_disjoint(&self, files: &[NewFile]) -> bool {
        let order = self.reads.order.user();
        files
            .is_sorted_by(|a, b| order.compare(user_key(&a.largest), user_key(&b.smallest)).is_lt())
    }

    /// Merges the entries of one part and returns the result. After an error, removes the part's
    /// outputs and stops the other parts.
    fn merge_part(
        &self,
        compaction: &Compaction,
        part: &Span,
        read_seqs: Vec<SeqNo>,
        filter: FilterRule<'_>,
        gave_up: &AtomicBool,
    ) -> Result<Merged> {
        let mut outputs =
            Outputs::new(self.table_target(), &self.numbers, compaction.output_level());
        let run = || {
            let mut merge = self.input_cursor(compaction)?;
            match part.closed().from {
                Some(from) => merge.seek(&internal_key(from, MAX_SEQ_NO, KIND_FOR_SEEK))?,
                None => merge.seek_to_first()?,
            };
            let begin = merge.positions();
            let stop = || gave_up.load(Relaxed) || self.closing.load(Relaxed);
            let to = part.closed().to;
            let retention = Retention::new(read_seqs, self.reads.order.user().clone());
            let mut rule = DropRule::new(compaction, retention, filter);
            self.merge_into(compaction, &mut merge, to, &mut rule, stop, &mut outputs)?;
            rule.ledger.read(merge.inputs_passed()?);
            Ok((rule.ledger, begin, merge.positions()))
        };
        // Contain panics, so that after a panic, too, the outputs are removed and the other parts
        // stop.
        match self.contain("a compaction", run) {
            Ok((ledger, begin, end)) => {
                let (files, counts) = outputs.into_files();
                Ok(Merged { files, counts, ledger, begin, end, ..Merged::default() })
            }
            Err(error) => {
                gave_up.store(true, Relaxed);
                self.trash.remove(outputs.into_numbers());
                Err(error)
            }
        }
    }

    /// Returns a cursor over the inputs, which is not positioned yet.
    ///
    /// # Errors
    /// I/O errors and corruption of tables that must be opened.
    fn input_cursor(&self, compaction: &Compaction) -> Result<MergeCursor> {
        // The outputs get new checksums, so damage in the inputs must be detected while they are
        // read.
        let options = BlockReadOptions {
            verify_checksums: true,
            fill_cache: false,
            twice: self.options.verify_compression,
            ..BlockReadOptions::default()
        };
        let mut sources = Vec::new();
        for (level, files) in compaction.inputs.runs() {
            let is_known = written_to(files).is_some();
            sources.push(if let (0, [file]) = (level, files) {
                let cursor = Box::new(self.reads.tables.table(&file.slot)?.cursor(options));
                match is_known {
                    true => Source::Table(cursor, file.clone()),
                    false => Source::summed(Inner::Table(cursor, file.clone())),
                }
            } else {
                let run = Run::Tables(level, files.to_vec());
                let cursor = LevelCursor::new(self.reads.clone(), run, options, None);
                match is_known {
                    true => Source::Level(Box::new(cursor)),
                    false => Source::summed(Inner::Level(Box::new(cursor))),
                }
            });
        }
        Ok(MergeCursor::new(self.reads.order.clone(), sources))
    }

    /// Merges the entries from the cursor's position up to the user key `to` (exclusive) into
    /// `outputs`.
    ///
    /// # Errors
    /// [`Error::Closed`] once `stop` returns true; corruption of an input; I/O errors.
    fn merge_into(
        &self,
        compaction: &Compaction,
        merge: &mut MergeCursor,
        to: Option<&[u8]>,
        rule: &mut DropRule<'_>,
        stop: impl Fn() -> bool,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        let order = self.reads.order.user();
        let mut splitter = OutputSplitter::new(compaction, self.options.max_file_bytes);
        let mut meter = Meter::new(self, Lane::Compaction);
        let mut entries = 0u64;
        let mut valid = merge.valid();
        while valid {
            if entries.is_multiple_of(STOP_CHECK_ENTRIES) && stop() {
                return Err(Error::Closed);
            }
            entries += 1;
            let (key, value) = (merge.key(), merge.value());
            let entry = ParsedKey::parse(key).map_err(|error| merge.locate(error))?;
            let bytes = entry.user_key.len() + value.len();
            meter.pass(bytes, || merge.bytes_read() + outputs.written_bytes());
            if to.is_some_and(|to| order.compare(entry.user_key, to).is_ge()) {
                break;
            }
            let fate = rule.fate_of(key, &entry, value, order);
            let Some(kept) = fate.map_err(|error| merge.locate(error))? else {
                valid = merge.next()?;
                continue;
            };
            if splitter.ends_table(outputs, order, entry.user_key) {
                outputs.end_table()?;
            }
            match kept {
                KeptForm::AsItIs => outputs.add(key, &entry, value)?,
                KeptForm::Changed(value) => outputs.add(key, &entry, &value)?,
                KeptForm::AsTombstone => {
                    let key = internal_key(entry.user_key, entry.seq, KeyKind::Deletion);
                    rule.ledger.make(&key, b"");
                    outputs.add(&key, &ParsedKey { kind: KeyKind::Deletion, ..entry }, b"")?;
                }
            }
            valid = merge.next()?;
        }
        outputs.end_table()?;
        meter.count_to(merge.bytes_read() + outputs.written_bytes());
        debug_assert!(rule.ledger.left_out() <= entries, "more than {entries} left out");
        Ok(())
    }

    /// Returns ranges of about the same size in bytes, in key order, that together contain all
    /// keys of a compaction.
    fn parts_of(&self, compaction: &Compaction) -> Result<Vec<Span>> {
        let worth =
            compaction.input_bytes() / MIN_PART_TABLES.saturating_mul(self.options.max_file_bytes);
        // The number of cores is read from files, which takes longer than a small merge.
        let count = if worth < 2 { worth } else { worth.min(self.idle_cores() as u64) };
        let mut cuts: Vec<(Vec<u8>, u64)> = Vec::new();
        let files = compaction.input_files().count();
        match count {
            ..2 => {}
            _ if files > MANY_FILES => {
                let ends = compaction.input_files().map(|file| (file.last_key(), file.file_bytes));
                cuts.extend(ends.map(|(key, bytes)| (key.to_vec(), bytes)));
            }
            _ => compaction.input_files().try_for_each(|file| self.sample(file, &mut cuts))?,
        }
        Ok(split(cuts, count, self.reads.order.user()))
    }

    /// Adds some keys of a table to `cuts`, each with the estimated number of bytes since the
    /// previous key.
    fn sample(&self, file: &Arc<TableFile>, cuts: &mut Vec<(Vec<u8>, u64)>) -> Result<()> {
        let blocks = self.reads.tables.table(&file.slot)?.blocks()?;
        let step = blocks.len().div_ceil(SAMPLES).max(1);
        let bytes = file.file_bytes / (blocks.len() / step).max(1) as u64;
        let separators = blocks.iter().skip(step - 1).step_by(step).map(|block| &block.separator);
        // A separator that is too short for an internal key is damage, which the merge will report.
        let keys = separators.filter(|separator| separator.len() >= 8);
        cuts.extend(keys.map(|separator| (user_key(separator).to_vec(), bytes)));
        Ok(())
    }

    /// Returns the number of threads that one running compaction may use.
    fn idle_cores(&self) -> usize {
        // In deterministic mode, there are two parts on every machine, merged one after the other.
        let cores = match &self.inline {
            Some(_) => 2,
            None => thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_PARTS)),
        };
        let running = self.state.lock().compactions.running.len();
        let shared = self.options.resources.pool.as_ref().map_or(0, |pool| pool.busy());
        let running = running.max(shared).max(1);
        (cores / running).max(1)
    }
}

/// The form in which a merge keeps an entry.
enum KeptForm {
    AsItIs,
    /// With the value that the compaction filter returned.
    Changed(Vec<u8>),
    /// As a tombstone: the entry has expired, or the compaction filter removed it. The tombstone
    /// hides the older versions in deeper levels.
    AsTombstone,
}

/// The rule that decides whether and how each entry is kept.
struct DropRule<'a> {
    retention: Retention,
    filter: FilterRule<'a>,
    /// Positions in the levels below the output level.
    deeper: Vec<Follower<'a>>,
    /// The account of the entries that are not kept as they are.
    ledger: Ledger,
}

impl<'a> DropRule<'a> {
    fn new(
        compaction: &'a Compaction,
        retention: Retention,
        filter: FilterRule<'a>,
    ) -> DropRule<'a> {
        let levels = compaction.output_level + 1..NUM_LEVELS;
        let deeper = levels.map(|level| Follower::new(&compaction.version, level)).collect();
        DropRule { retention, filter, deeper, ledger: Ledger::default() }
    }

    /// Decides how the next entry is kept. Returns `None` if the entry is left out. `entry` is the
    /// parsed form of `key`.
    ///
    /// # Errors
    /// Corruption if the entries do not ascend.
    #[inline]
    fn fate_of(
        &mut self,
        key: &[u8],
        entry: &ParsedKey<'_>,
        value: &[u8],
        order: &UserComparator,
    ) -> Result<Option<KeptForm>> {
        if self.retention.is_shadowed(entry)? {
            self.ledger.drop(Reason::Overwritten, key, value);
            return Ok(None);
        }
        if entry.kind == KeyKind::Deletion {
            if self.hides_nothing(entry, order) {
                self.ledger.drop(Reason::Tombstone, key, value);
                return Ok(None);
            }
            return Ok(Some(KeptForm::AsItIs));
        }
        match self.filter.decide(entry, value) {
            CompactionDecision::Keep => Ok(Some(KeptForm::AsItIs)),
            CompactionDecision::Change(changed) => {
                self.ledger.drop(Reason::Changed, key, value);
                self.ledger.make(key, &changed);
                Ok(Some(KeptForm::Changed(changed)))
            }
            CompactionDecision::Remove => {
                let has_expired = self.filter.has_expired(entry, value);
                let reason = if has_expired { Reason::Expired } else { Reason::Removed };
                self.ledger.drop(reason, key, value);
                Ok((!self.hides_nothing(entry, order)).then_some(KeptForm::AsTombstone))
            }
        }
    }

    /// Returns whether a tombstone in the place of the entry would have no effect: every reader
    /// would see the tombstone, and it would hide no entry in a deeper level.
    fn hides_nothing(&mut self, entry: &ParsedKey<'_>, order: &UserComparator) -> bool {
        self.retention.all_see(entry.seq)
            && !self.deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key))
    }
}

/// Returns at most `count` half-open ranges of about the same size in bytes, in key order, that
/// together contain all keys. Adjacent ranges meet at a key in `cuts`. `cuts` contains keys, each
/// with the number of bytes since the previous key.
pub(super) fn split(
    mut cuts: Vec<(Vec<u8>, u64)>,
    count: u64,
    order: &UserComparator,
) -> Vec<Span> {
    cuts.sort_by(|a, b| order.compare(&a.0, &b.0));
    let total: u128 = cuts.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
    let mut parts = vec![Span::ALL];
    let (mut before, count) = (0, u128::from(count));
    for (key, bytes) in cuts {
        before += u128::from(bytes);
        let made = parts.len() as u128;
        let Some(open) = parts.last_mut() else { break };
        let grows = open.closed().from.is_none_or(|from| order.compare(from, &key).is_lt());
        if made < count && before >= total * made / count && grows {
            open.to = Bound::Excluded(key.clone());
            parts.push(Span { from: Bound::Included(key), to: Bound::Unbounded });
        }
    }
    let joins = |pair: &[Span]| pair[0].closed().to == pair[1].closed().from;
    debug_assert!(parts.windows(2).all(joins), "parts leave gaps");
    debug_assert!(parts[0].closed().from.is_none() && parts[parts.len() - 1].closed().to.is_none());
    parts
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::compact::plan::Inputs;
    use crate::engine::conservation::written_in;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::testing::engine_in_memory;
    use crate::engine::version::KeyRange;
    use crate::engine::version::testing::{table, version};
    use crate::engine::write::queue::Write;
    use crate::format::compress::Compression;
    use crate::format::name::table_name;
    use crate::fs::{Fs, MemFs};

    #[test]
    fn outputs_that_share_a_key_are_not_disjoint() {
        let engine = engine_in_memory();
        let disjoint = |tables: &[&str]| {
            let files: Vec<NewFile> = tables.iter().map(|text| table(1, text)).collect();
            engine.are_disjoint(&files)
        };
        assert!(disjoint(&[]) && disjoint(&["3:[a-c]"]));
        assert!(disjoint(&["3:[a-c]", "4:[d-d]", "5:[e-f]"]));
        assert!(!disjoint(&["3:[a-c]", "4:[c#0-d]"]));
        assert!(!disjoint(&["3:[d-f]", "4:[a-c]"]));
    }

    #[test]
    fn running_compactions_share_the_processors() {
        let engine = engine_in_memory();
        let version = version(["L1: 3:[a-c]"]);
        let inputs = || Inputs(vec![(1, version.level(1).to_vec())]);
        let order = engine.reads.order.user();
        let made = || Compaction::from_inputs(version.clone(), order, inputs(), 2);
        let idle = |running: usize| {
            let mut running: Vec<_> = (0..running).map(|_| Arc::new(made())).collect();
            std::mem::swap(&mut engine.state.lock().compactions.running, &mut running);
            let idle = engine.idle_cores();
            engine.state.lock().compactions.running.clear();
            idle
        };
        // In deterministic mode, two cores are assumed on every machine.
        assert_eq!([0, 1, 2, 3].map(idle), [2, 2, 1, 1]);
    }

    fn open(fs: &MemFs, dir: &str) -> Arc<Engine> {
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        let options = options.compression(Compression::None).fs(fs.clone());
        Engine::open(Path::new(dir), options).unwrap()
    }

    /// Writes two tables of level 0 that have key c in common. `value` is the value of key b.
    fn write_two_tables(engine: &Engine, value: &str) {
        for keys in [["a", "b", "c"], ["c", "d", "e"]] {
            for key in keys {
                let value = if key == "b" { value } else { "value" };
                let put = Write::Put(key.as_bytes(), value.as_bytes());
                engine.write(&WriteOptions::default(), put).unwrap();
            }
            engine.flush().unwrap();
        }
    }

    /// Merges the tables of level 0. `disturb` is called when the merge is at its first entry.
    /// Returns the result of the check.
    fn merge_disturbed(
        engine: &Engine,
        disturb: fn(&mut MergeCursor, &mut Outputs<'_>) -> Result<()>,
    ) -> Result<()> {
        let version = engine.state.lock().version.clone();
        let order = engine.reads.order.user();
        let inputs = Inputs(vec![(0, version.level(0).to_vec())]);
        assert_eq!(inputs.files().count(), 2);
        let compaction = Compaction::from_inputs(version, order, inputs, 1);
        let mut outputs = Outputs::new(engine.table_target(), &engine.numbers, 1);
        let mut merge = engine.input_cursor(&compaction)?;
        merge.seek_to_first()?;
        disturb(&mut merge, &mut outputs)?;
        let filter = FilterRule { filter: None, now: None, newest_snapshot: 0 };
        let retention = Retention::new(vec![MAX_SEQ_NO], order.clone());
        let mut rule = DropRule::new(&compaction, retention, filter);
        engine.merge_into(&compaction, &mut merge, None, &mut rule, || false, &mut outputs)?;
        rule.ledger.read(merge.inputs_passed()?);
        rule.ledger.read(compaction.inputs.known());
        assert_eq!(rule.ledger.dropped_for(Reason::Overwritten), 1);
        rule.ledger.check(written_in(&outputs.into_files().1), "a merge")
    }

    #[test]
    fn a_merge_that_loses_changes_or_repeats_an_entry_is_refused() {
        let fs = MemFs::new();
        for is_writer in [true, false] {
            // The second engine did not write the tables, so it sums them while it reads them.
            let engine = open(&fs, "/db");
            if is_writer {
                write_two_tables(&engine, "value");
            }
            let is_refused = |disturb| merge_disturbed(&engine, disturb).is_err();
            assert!(!is_refused(|_, _| Ok(())));
            assert!(is_refused(|merge, _| merge.next().map(drop)), "an entry is lost");
            let change = |merge: &mut MergeCursor, outputs: &mut Outputs<'_>| {
                outputs.add(merge.key(), &merge.parsed_key()?, b"other")?;
                merge.next().map(drop)
            };
            assert!(is_refused(change), "a value is changed");
            let repeat = |merge: &mut MergeCursor, outputs: &mut Outputs<'_>| {
                let entry = merge.parsed_key()?;
                let key = internal_key(entry.user_key, entry.seq + 1, entry.kind);
                outputs.add(&key, &entry, merge.value())
            };
            assert!(is_refused(repeat), "an entry is written twice");
            let keep = |merge: &mut MergeCursor, outputs: &mut Outputs<'_>| {
                outputs.add(merge.key(), &merge.parsed_key()?, merge.value())?;
                merge.next().map(drop)
            };
            assert!(!is_refused(keep), "an entry is only moved");
        }
    }

    #[test]
    fn a_compaction_of_a_table_that_is_not_what_was_written_is_refused() {
        let fs = MemFs::new();
        let (engine, other) = (open(&fs, "/db"), open(&fs, "/other"));
        write_two_tables(&engine, "value");
        write_two_tables(&other, "Value");
        let number = engine.state.lock().version.level(0)[1].number;
        let path = |dir| Path::new(dir).join(table_name(number));
        let len = |dir| fs.open(&path(dir)).unwrap().len().unwrap();
        assert_eq!(len("/db"), len("/other"), "only a value differs");
        fs.rename(&path("/other"), &path("/db")).unwrap();
        let tables = || fs.list(Path::new("/db")).unwrap().len();
        let before = tables();
        let error = engine.compact_range(KeyRange { from: None, to: None }).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        let text = error.to_string();
        for part in ["compaction ", &format!("{number:06} (level 0)"), "did not conserve"] {
            assert!(text.contains(part), "no {part}: {text}");
        }
        assert_eq!(engine.state.lock().version.level(0).len(), 2, "the inputs stay");
        assert_eq!(tables(), before, "the outputs go");
    }
}
