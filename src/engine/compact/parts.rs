//! A compaction in parts: ranges of user keys that threads merge side by side.

use std::sync::Arc;

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::thread;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::output::Outputs;
use crate::engine::compact::plan::Compaction;
use crate::engine::version::TableFile;
use crate::engine::version::tombstones::Contents;
use crate::format::edit::NewFile;
use crate::format::key::{KIND_FOR_SEEK, MAX_SEQ_NO, SeqNo, internal_key, user_key};

/// As many keys of each table are looked at to find where parts of like size meet.
const SAMPLES: usize = 32;

/// Of more tables than these, only their last keys are looked at.
const MANY_FILES: usize = 64;

/// A part is worth a thread if it has as many bytes, in tables of the size that is aimed at.
const MIN_PART_TABLES: u64 = 2;

/// The most parts of one compaction.
const MAX_PARTS: usize = 4;

/// User keys not before `from` and before `to`, where these are.
#[derive(Debug, Default)]
pub struct Part {
    /// The first key that may be in it.
    pub from: Option<Vec<u8>>,
    /// The first key after it.
    pub to: Option<Vec<u8>>,
}

/// What the merge of a part did.
#[derive(Debug, Default)]
pub struct Merged {
    /// The tables it wrote.
    pub files: Vec<NewFile>,
    /// What is in each, by its number.
    pub contents: Vec<(u64, Contents)>,
    /// The entries it left out.
    pub dropped: u64,
    /// Where each input began, and where it was left: an internal key, or its end.
    ends: [Vec<Option<Vec<u8>>>; 2],
}

impl Engine {
    /// Merges the inputs of `compaction`, in parts where that pays.
    ///
    /// # Errors
    /// The first that a part met; nothing is left of the others then.
    pub fn merge(&self, compaction: &Compaction) -> Result<Merged> {
        let parts = self.parts_of(compaction)?;
        let held = self.reads.held_seqs();
        let gave_up = AtomicBool::new(false);
        let merge = |part| self.merge_part(compaction, part, held.clone(), &gave_up);
        let merged: Vec<Result<Merged>> = match parts.split_last() {
            Some((last, others)) if self.inline.is_none() => thread::scope(|scope| {
                let thread = |part| {
                    let builder = thread::Builder::new().name("minikv-merge".to_owned());
                    let spawned = builder.spawn_scoped(scope, move || merge(part));
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
        self.joined(merged)
    }

    /// The parts as one. If one of them failed, nothing is left of the others.
    fn joined(&self, parts: Vec<Result<Merged>>) -> Result<Merged> {
        let mut all = Merged::default();
        let mut failed = None;
        let mut last_end = None;
        for part in parts {
            let part = match part {
                Ok(part) => part,
                // One that was told to give up says no more than that.
                Err(error) if matches!(failed, None | Some(Error::Closed)) => {
                    failed = Some(error);
                    continue;
                }
                Err(_) => continue,
            };
            all.files.extend(part.files);
            all.contents.extend(part.contents);
            all.dropped += part.dropped;
            let [begin, end] = part.ends;
            // In tables whose keys ascend a part begins at the entry where the one before it ends.
            // In others entries between them could be lost.
            if last_end.is_some_and(|last_end| last_end != begin) {
                failed.get_or_insert(Error::corruption("the keys of a table do not ascend"));
            }
            last_end = Some(end);
        }
        let Some(error) = failed else { return Ok(all) };
        self.trash.remove(all.files.iter().map(|file| file.number));
        Err(error)
    }

    fn merge_part(
        &self,
        compaction: &Compaction,
        part: &Part,
        held: Vec<SeqNo>,
        gave_up: &AtomicBool,
    ) -> Result<Merged> {
        let mut outputs = Outputs::new(self, compaction.output_level());
        let run = || {
            let mut merge = self.input_cursor(compaction)?;
            match &part.from {
                Some(from) => merge.seek(&internal_key(from, MAX_SEQ_NO, KIND_FOR_SEEK))?,
                None => merge.seek_to_first()?,
            };
            let begin = merge.positions();
            let stop = || gave_up.load(Relaxed) || self.closing.load(Relaxed);
            let to = part.to.as_deref();
            let dropped = self.merge_into(compaction, &mut merge, to, held, stop, &mut outputs)?;
            Ok((dropped, [begin, merge.positions()]))
        };
        // Here, so that what it wrote is removed and the other parts give up.
        match self.contain("a compaction", run) {
            Ok((dropped, ends)) => {
                let (files, contents) = outputs.into_files();
                Ok(Merged { files, contents, dropped, ends })
            }
            Err(error) => {
                gave_up.store(true, Relaxed);
                self.trash.remove(outputs.into_numbers());
                Err(error)
            }
        }
    }

    /// Ranges that together are everything, in order, each of about as many bytes as the others.
    fn parts_of(&self, compaction: &Compaction) -> Result<Vec<Part>> {
        let worth = compaction.input_bytes() / (MIN_PART_TABLES * self.options.max_file_bytes);
        let count = worth.min(self.idle_cores() as u64);
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
        let order = self.reads.order.user();
        cuts.sort_by(|a, b| order.compare(&a.0, &b.0));
        let total: u64 = cuts.iter().map(|(_, bytes)| bytes).sum();
        let mut parts = vec![Part::default()];
        let mut before = 0;
        for (key, bytes) in cuts {
            before += bytes;
            let made = parts.len() as u64;
            let Some(open) = parts.last_mut() else { break };
            let grows = open.from.as_ref().is_none_or(|from| order.compare(from, &key).is_lt());
            if made < count && before >= total * made / count && grows {
                open.to = Some(key.clone());
                parts.push(Part { from: Some(key), to: None });
            }
        }
        Ok(parts)
    }

    /// Some keys of a table, each with the bytes that lie before it and after the one before it.
    fn sample(&self, file: &Arc<TableFile>, cuts: &mut Vec<(Vec<u8>, u64)>) -> Result<()> {
        let blocks = self.reads.tables.table(&file.slot)?.blocks()?;
        let step = blocks.len().div_ceil(SAMPLES).max(1);
        let bytes = file.file_bytes / (blocks.len() / step).max(1) as u64;
        let separators = blocks.iter().skip(step - 1).step_by(step).map(|block| &block.separator);
        // A separator too short to be an internal key is damage, which the merge will meet.
        let keys = separators.filter(|separator| separator.len() >= 8);
        cuts.extend(keys.map(|separator| (user_key(separator).to_vec(), bytes)));
        Ok(())
    }

    /// The threads that a compaction may take for itself.
    fn idle_cores(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let running = self.state.lock().compactions.running.len().max(1);
        // In one thread parts come one after the other, so that tests see them everywhere.
        let cores = if self.inline.is_some() { 2 } else { cores.min(MAX_PARTS) };
        (cores / running).max(1)
    }
}
