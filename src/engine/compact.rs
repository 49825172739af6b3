//! A compaction: tables of one or more levels become tables of one, without what nobody can see.

use std::sync::Arc;

use crate::base::stats::NUM_LEVELS;
use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::merge::{LevelCursor, MergeCursor, Run, Source};
use crate::engine::metrics::micros_of;
use crate::engine::pick::{MAX_GRANDPARENT_FACTOR, hull};
use crate::engine::tombstones::Contents;
use crate::engine::version::{TableFile, Version};
use crate::engine::version_set::sync_dir;
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{KeyKind, ParsedKey, SeqNo, UserComparator, user_key};
use crate::format::name;
use crate::table::builder::TableBuilder;
use crate::table::reader::BlockReadOptions;

/// A merge looks this often, in entries, whether it is to be given up.
const STOP_CHECK_ENTRIES: u64 = 1024;

/// Tables by level, from the newest level to the oldest.
#[derive(Debug)]
pub struct Inputs(pub Vec<(usize, Vec<Arc<TableFile>>)>);

impl Inputs {
    fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.0.iter().flat_map(|(level, files)| files.iter().map(move |file| (*level, file)))
    }

    fn bytes(&self) -> u64 {
        self.files().map(|(_, file)| file.file_bytes).sum()
    }
}

/// What is merged, and where to.
#[derive(Debug)]
pub struct Compaction {
    /// The version the inputs are of.
    version: Arc<Version>,
    inputs: Inputs,
    output_level: usize,
    /// Whether the tables can move down as they are.
    is_move: bool,
    /// The first user key of all inputs.
    first_key: Vec<u8>,
    /// The last user key of all inputs.
    last_key: Vec<u8>,
}

impl Compaction {
    /// The compaction of `inputs`, which are everything between their first and last key in the
    /// levels from theirs to `output_level`, but for level 0, whose newer tables may be left out.
    pub fn from_inputs(
        version: Arc<Version>,
        order: &UserComparator,
        inputs: Inputs,
        output_level: usize,
        is_move: bool,
    ) -> Compaction {
        let all: Vec<_> = inputs.files().map(|(_, file)| file.clone()).collect();
        let range = hull(&all, order);
        Compaction {
            first_key: range.from.unwrap_or_default().to_vec(),
            last_key: range.to.unwrap_or_default().to_vec(),
            version,
            inputs,
            output_level,
            is_move,
        }
    }

    /// The same, but merged in any case: moving tables down gives no space back.
    pub fn merging(self) -> Compaction {
        Compaction { is_move: false, ..self }
    }

    /// Whether the outputs of both could overlap. (Inputs in common are seen by their marks.)
    pub fn collides(&self, other: &Compaction, order: &UserComparator) -> bool {
        self.output_level == other.output_level
            && order.compare(&self.first_key, &other.last_key).is_le()
            && order.compare(&other.first_key, &self.last_key).is_le()
    }

    /// Marks the inputs as taken, or as free again. Under the state lock.
    pub fn mark(&self, taken: bool) {
        for (_, file) in self.inputs.files() {
            file.compacting.store(taken, Relaxed);
        }
    }

    /// The input tables.
    pub fn input_files(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.inputs.files().map(|(_, file)| file)
    }

    /// The level its tables go to.
    pub fn output_level(&self) -> usize {
        self.output_level
    }

    /// The bytes of the input tables.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.bytes()
    }

    fn edit(&self, new_files: Vec<NewFile>) -> VersionEdit {
        let deleted = self.inputs.files().map(|(level, file)| (level, file.number));
        VersionEdit { deleted_files: deleted.collect(), new_files, ..VersionEdit::default() }
    }
}

/// Which versions of a key someone may still see. Entries must come in internal key order.
#[derive(Debug)]
pub struct Retention {
    /// Sequences at which the database is read, ascending.
    held: Vec<SeqNo>,
    order: UserComparator,
    key: Vec<u8>,
    /// The sequence of the key's version that came before, if one did.
    newer: Option<SeqNo>,
}

impl Retention {
    /// Keeps what readers at one of the `held` sequences, ascending, see.
    pub fn new(held: Vec<SeqNo>, order: UserComparator) -> Retention {
        Retention { held, order, key: Vec::new(), newer: None }
    }

    /// Whether every reader sees a newer version of the key instead of this one.
    ///
    /// # Errors
    /// Corruption, if the entry comes before the one before it. The same entry twice, from two
    /// tables, is no harm.
    pub fn is_shadowed(&mut self, entry: &ParsedKey<'_>) -> Result<bool> {
        if let Some(newer) = self.newer.replace(entry.seq) {
            let step = self.order.compare(entry.user_key, &self.key);
            if step.then(newer.cmp(&entry.seq)).is_lt() {
                return Err(Error::corruption("the keys of a table do not ascend"));
            }
            if step.is_eq() {
                let at = self.held.partition_point(|&held| held < entry.seq);
                return Ok(self.held.get(at).is_none_or(|&held| held >= newer));
            }
        }
        self.key.clear();
        self.key.extend_from_slice(entry.user_key);
        Ok(false)
    }

    /// Whether every reader sees this entry or a newer one.
    fn all_see(&self, seq: SeqNo) -> bool {
        self.held.first().is_none_or(|&oldest| seq <= oldest)
    }
}

/// Moves through the tables of a level along with a merge, whose keys only ascend.
struct Follower<'a> {
    files: &'a [Arc<TableFile>],
    at: usize,
}

impl<'a> Follower<'a> {
    fn new(version: &'a Version, level: usize) -> Follower<'a> {
        let files = if level < NUM_LEVELS { version.level(level) } else { &[] };
        Follower { files, at: 0 }
    }

    /// Moves past the tables that end before `key`: their bytes.
    fn advance(&mut self, order: &UserComparator, key: &[u8]) -> u64 {
        let mut passed = 0;
        while let Some(file) = self.files.get(self.at)
            && order.compare(file.last_key(), key).is_lt()
        {
            passed += file.file_bytes;
            self.at += 1;
        }
        passed
    }

    /// Whether a table's range holds `key`.
    fn may_hold(&mut self, order: &UserComparator, key: &[u8]) -> bool {
        self.advance(order, key);
        self.files.get(self.at).is_some_and(|file| order.compare(file.first_key(), key).is_le())
    }
}

/// The tables a merge has written, and the one it is writing.
pub struct Outputs<'a> {
    engine: &'a Engine,
    level: usize,
    done: Vec<NewFile>,
    /// What is in them, by number.
    contents: Vec<(u64, Contents)>,
    open: Option<Output>,
    /// The numbers of all tables that may have a file.
    numbers: Vec<u64>,
}

struct Output {
    number: u64,
    builder: TableBuilder,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    contents: Contents,
}

impl<'a> Outputs<'a> {
    /// None yet; they are to be tables of `level`.
    pub fn new(engine: &'a Engine, level: usize) -> Outputs<'a> {
        let (done, contents, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Outputs { engine, level, done, contents, open: None, numbers }
    }

    fn add(&mut self, key: &[u8], entry: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        let output = match &mut self.open {
            Some(output) => output,
            None => {
                let engine = self.engine;
                let number = engine.numbers.take();
                // Known before it is made, so that a failure removes it.
                self.numbers.push(number);
                let path = engine.dir.join(name::table_name(number));
                let file =
                    engine.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
                let options = engine.options.table_options(&engine.reads.order, self.level);
                self.open.insert(Output {
                    number,
                    builder: TableBuilder::new(file, path, options),
                    smallest: key.to_vec(),
                    largest: Vec::new(),
                    contents: Contents::default(),
                })
            }
        };
        output.builder.add(key, value)?;
        output.contents.add(entry);
        output.largest.clear();
        output.largest.extend_from_slice(key);
        Ok(())
    }

    fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |output| output.builder.file_bytes())
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(output) = self.open.take() else { return Ok(()) };
        let number = output.number;
        self.contents.push((number, output.contents));
        self.done.push(NewFile {
            level: self.level,
            number,
            file_bytes: 0,
            smallest: output.smallest,
            largest: output.largest,
        });
        let summary = output.builder.finish()?;
        if let Some(done) = self.done.last_mut() {
            done.file_bytes = summary.file_bytes;
        }
        Ok(())
    }

    /// The tables, all ended, and what is in each, by number.
    pub fn into_files(self) -> (Vec<NewFile>, Vec<(u64, Contents)>) {
        (self.done, self.contents)
    }

    /// The numbers of all tables that may have a file.
    pub fn into_numbers(self) -> impl Iterator<Item = u64> {
        self.numbers.into_iter()
    }
}

impl Engine {
    /// Runs a compaction whose inputs are marked, makes its result the current version, and
    /// frees the marks.
    pub fn run_compaction(&self, compaction: Arc<Compaction>) -> Result<()> {
        let began = Instant::now();
        let merge_or_move = || {
            self.trash.check_directory()?;
            match compaction.is_move {
                true => self.move_down(&compaction),
                false => self.merge_down(&compaction, began),
            }
        };
        let result = self.contain("a compaction", merge_or_move);
        let mut state = self.state.lock();
        compaction.mark(false);
        state.running.retain(|running| !Arc::ptr_eq(running, &compaction));
        match &result {
            Ok(()) => state.compaction_succeeded(),
            // A panic says nothing of the inputs.
            Err(Error::Closed | Error::Panicked { .. }) => {}
            Err(error) => state.compaction_failed(&compaction, error),
        }
        drop(state);
        self.changed.notify_all();
        self.reads.work.notify_all();
        // The last to name the inputs, unless a reader does.
        drop(compaction);
        self.trash.empty();
        result
    }

    fn move_down(&self, compaction: &Compaction) -> Result<()> {
        let output_level = compaction.output_level;
        let moved = compaction.inputs.files().map(|(_, file)| file.to_edit(output_level));
        let moved: Vec<_> = moved.collect();
        self.metrics.levels[output_level].moves.fetch_add(moved.len() as u64, Relaxed);
        self.install(compaction.edit(moved), output_level, &[])
    }

    fn merge_down(&self, compaction: &Compaction, began: Instant) -> Result<()> {
        let merged = self.merge(compaction)?;
        if let Err(error) = sync_dir(&*self.fs, &self.dir) {
            self.trash.remove(merged.files.iter().map(|file| file.number));
            return Err(error);
        }
        let dropped = merged.dropped;
        let written = merged.files.iter().map(|done| done.file_bytes).sum();
        // After a failed commit the MANIFEST may or may not name the outputs: they stay.
        self.install(compaction.edit(merged.files), compaction.output_level, &merged.contents)?;
        let metrics = &self.metrics.levels[compaction.output_level];
        metrics.compactions.fetch_add(1, Relaxed);
        metrics.bytes_read.fetch_add(compaction.inputs.bytes(), Relaxed);
        metrics.bytes_written.fetch_add(written, Relaxed);
        metrics.entries_dropped.fetch_add(dropped, Relaxed);
        metrics.micros.fetch_add(micros_of(began.elapsed()), Relaxed);
        Ok(())
    }

    /// Merges what `merge` stands at, up to the user key `to`, into `outputs`: the entries left
    /// out. Gives up where `stop` says so.
    pub fn merge_into(
        &self,
        compaction: &Compaction,
        merge: &mut MergeCursor,
        to: Option<&[u8]>,
        held: Vec<SeqNo>,
        stop: impl Fn() -> bool,
        outputs: &mut Outputs<'_>,
    ) -> Result<u64> {
        let order = self.reads.order.user();
        let mut retention = Retention::new(held, order.clone());
        let version = &compaction.version;
        let output_level = compaction.output_level;
        let mut deeper: Vec<_> =
            (output_level + 1..NUM_LEVELS).map(|level| Follower::new(version, level)).collect();
        let mut grandparents = Follower::new(version, output_level + 1);
        let max_grandparent_bytes = MAX_GRANDPARENT_FACTOR * self.options.max_file_bytes;
        let mut grandparent_bytes = 0;
        let mut last_key: Vec<u8> = Vec::new();
        let mut dropped = 0;
        let mut entries = 0u64;
        let mut valid = merge.valid();
        while valid {
            if entries.is_multiple_of(STOP_CHECK_ENTRIES) && stop() {
                return Err(Error::Closed);
            }
            entries += 1;
            let key = merge.key();
            let entry = merge.parsed_key()?;
            if to.is_some_and(|to| order.compare(entry.user_key, to).is_ge()) {
                break;
            }
            let useless = retention.is_shadowed(&entry).map_err(|error| merge.place(error))?
                || (entry.kind == KeyKind::Deletion
                    && retention.all_see(entry.seq)
                    && !deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key)));
            if useless {
                dropped += 1;
            } else {
                // Tables end between user keys, so that all versions of one stay together.
                if outputs.open.is_some() && order.compare(entry.user_key, &last_key).is_ne() {
                    grandparent_bytes += grandparents.advance(order, entry.user_key);
                    if outputs.open_bytes() >= self.options.max_file_bytes
                        || grandparent_bytes > max_grandparent_bytes
                    {
                        outputs.end_table()?;
                    }
                }
                if outputs.open.is_none() {
                    grandparents.advance(order, entry.user_key);
                    grandparent_bytes = 0;
                }
                outputs.add(key, &entry, merge.value())?;
                last_key.clear();
                last_key.extend_from_slice(user_key(key));
            }
            valid = merge.next()?;
        }
        outputs.end_table()?;
        Ok(dropped)
    }

    /// A cursor over the inputs, at none of their entries yet.
    pub fn input_cursor(&self, compaction: &Compaction) -> Result<MergeCursor> {
        // What is merged is written again: damage must be found here, or it gets a new checksum.
        let options = BlockReadOptions {
            verify_checksums: true,
            fill_cache: false,
            ..BlockReadOptions::default()
        };
        let mut sources = Vec::new();
        for (level, files) in &compaction.inputs.0 {
            if *level == 0 {
                for file in files {
                    let table = self.reads.tables.table(&file.slot)?;
                    sources.push(Source::Table(Box::new(table.cursor(options)), file.clone()));
                }
            } else if !files.is_empty() {
                let run = Run::Tables(*level, files.clone());
                let cursor = LevelCursor::new(self.reads.clone(), run, options, None);
                sources.push(Source::Level(Box::new(cursor)));
            }
        }
        Ok(MergeCursor::new(self.reads.order.clone(), sources))
    }

    /// Makes `edit` durable and shows its version, with what was `written` at a level.
    fn install(&self, edit: VersionEdit, level: usize, written: &[(u64, Contents)]) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let version = match manifest.commit(edit) {
            Ok(version) => version,
            Err(error) => {
                drop(manifest);
                self.fail(error.clone());
                return Err(error);
            }
        };
        version.set_contents(level, written);
        let mut state = self.state.lock();
        state.version = version;
        self.show(&state);
        Ok(())
    }
}
