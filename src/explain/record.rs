//! The sink that records every step of a get.

use std::sync::Arc;

use crate::base::Result;
use crate::engine::memtable::MemFound;
use crate::engine::read::get::{LookupKey, ReadSink};
use crate::engine::read::point::ReadPoint;
use crate::engine::report::event::TableInfo;
use crate::engine::stats::trace::ReadTrace;
use crate::engine::version::TableFile;
use crate::explain::{Entry, FilterState, IndexedBlock, Step, Verdict};
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::format::key::user_key;
use crate::table::reader::Found;
use crate::table::{BlockSource, IndexEntry, TableSink, TableSlot};

/// Records and counts the steps of a get.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    steps: Vec<Step>,
    trace: ReadTrace,
    /// The level of the table being searched.
    level: usize,
    /// The tables searched, in order.
    slots: Vec<Arc<TableSlot>>,
}

impl Recorder {
    /// Returns the counts of the work of the get.
    pub(super) fn trace(&self) -> &ReadTrace {
        &self.trace
    }

    /// Returns the steps and counts, completed with information from the tables: whether the tables
    /// have filters, and whether filters that answered "not here" were right.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub(super) fn finish(
        mut self,
        point: &ReadPoint<'_>,
        key: &[u8],
    ) -> Result<(Vec<Step>, ReadTrace)> {
        let count = |is_it: fn(&Step) -> bool| self.steps.iter().filter(|step| is_it(step)).count();
        debug_assert_eq!(
            count(|step| matches!(step, Step::Table { .. })),
            self.slots.len(),
            "a table without a slot"
        );
        debug_assert_eq!(
            count(|step| matches!(step, Step::Block { .. })) as u64,
            self.trace.data_blocks(),
            "a block that is not counted"
        );
        let lookup = LookupKey::new(key, point.seq);
        let tables = &point.state.tables;
        let mut slots = self.slots.iter();
        let mut slot = None;
        for step in &mut self.steps {
            match step {
                // Only sequence numbers of records from logs are shifted.
                Step::Memtable { entry: Some(entry), .. } => entry.seq -= point.view().shift(),
                Step::Table { filter, .. } => {
                    slot = slots.next();
                    if let Some(slot) = slot {
                        *filter = tables.with(slot, |table| Ok(filter_of(table)))?;
                    }
                }
                Step::TableFilter(verdict) | Step::BlockFilter(verdict) if !verdict.may_match() => {
                    if let Some(slot) = slot {
                        let held = tables.with(slot, |table| table.holds(lookup.bytes()));
                        *verdict = match held {
                            Ok(false) => Verdict::TrueNegative,
                            Ok(true) => Verdict::FalseNegative,
                            Err(_) => Verdict::UnknownNegative,
                        };
                    }
                }
                _ => {}
            }
        }
        Ok((self.steps, self.trace))
    }

    fn level(&mut self) -> &mut impl TableSink {
        &mut self.trace.levels[self.level]
    }

    /// If `found` is true, sets the verdict of the last filter query to `TruePositive`. The last
    /// filter query is the last step for which `verdict_of` returns a verdict.
    fn outcome(&mut self, found: bool, verdict_of: fn(&mut Step) -> Option<&mut Verdict>) {
        let asked = self.steps.iter_mut().rev().find_map(verdict_of);
        if let (true, Some(verdict)) = (found, asked) {
            *verdict = Verdict::TruePositive;
        }
    }

    /// Applies `change` to the two fields of the step for the block being read: whether the
    /// checksum was verified, and the size after decompression.
    fn in_block(&mut self, change: impl FnOnce(&mut bool, &mut Option<u64>)) {
        if let Some(Step::Block { checksum_verified, decompressed_bytes, .. }) =
            self.steps.last_mut()
        {
            change(checksum_verified, decompressed_bytes);
        }
    }
}

fn filter_of(table: &crate::table::Table) -> FilterState {
    match (table.has_filter(), table.filter_error()) {
        (true, _) => FilterState::Readable,
        (false, Some(_)) => FilterState::Damaged,
        (false, None) => FilterState::Missing,
    }
}

/// Returns the provisional verdict on a filter's answer, before the lookup shows whether the answer
/// was right.
fn said(may_match: bool) -> Verdict {
    if may_match { Verdict::FalsePositive } else { Verdict::UnknownNegative }
}

impl ReadSink for Recorder {
    type Table = Recorder;

    fn memtable(&mut self, found: Option<&MemFound>) {
        let frozen = !self.steps.is_empty();
        let entry = found.map(|found| Entry {
            seq: found.seq,
            kind: found.kind,
            value_bytes: found.value.len() as u64,
        });
        self.steps.push(Step::Memtable { frozen, entry });
        self.trace.memtable(found);
    }

    fn skipped(&mut self, level: usize, tables: u64) {
        self.trace.skipped(level, tables);
        match self.steps.last_mut() {
            Some(Step::Skipped { level: before, tables: sum }) if *before == level => {
                *sum += tables;
            }
            _ if tables > 0 => self.steps.push(Step::Skipped { level, tables }),
            _ => {}
        }
    }

    fn table(&mut self, level: usize, file: &TableFile) -> &mut Recorder {
        let table = TableInfo::of(level, file);
        self.steps.push(Step::Table { table, filter: FilterState::Missing });
        self.slots.push(file.slot.clone());
        self.level = level;
        self.trace.table(level, file);
        self
    }
}

impl TableSink for Recorder {
    const HEARS_SEPARATORS: bool = true;

    fn table_filter(&mut self, may_match: bool) {
        self.steps.push(Step::TableFilter(said(may_match)));
        self.level().table_filter(may_match);
    }

    fn table_filter_outcome(&mut self, found: bool) {
        self.outcome(found, |step| match step {
            Step::TableFilter(verdict) => Some(verdict),
            _ => None,
        });
        self.level().table_filter_outcome(found);
    }

    fn index_seek(&mut self, entry: Option<IndexEntry<'_>>) {
        let block = entry.map(|entry| IndexedBlock {
            separator: user_key(entry.separator).to_vec(),
            offset: entry.handle.offset,
            bytes: entry.handle.size,
        });
        self.steps.push(Step::Index { block });
        self.level().index_seek(entry);
    }

    fn block_filter(&mut self, may_match: bool) {
        self.steps.push(Step::BlockFilter(said(may_match)));
        self.level().block_filter(may_match);
    }

    fn block_filter_outcome(&mut self, found: bool) {
        self.outcome(found, |step| match step {
            Step::BlockFilter(verdict) => Some(verdict),
            _ => None,
        });
        self.level().block_filter_outcome(found);
    }

    fn data_block(&mut self, handle: BlockHandle, source: BlockSource) {
        self.steps.push(Step::Block {
            offset: handle.offset,
            stored_bytes: handle.size.saturating_add(BLOCK_TRAILER_BYTES as u64),
            source,
            checksum_verified: false,
            decompressed_bytes: None,
        });
        self.level().data_block(handle, source);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.level().bytes_read(bytes);
    }

    fn checksum_verified(&mut self) {
        self.in_block(|checksum_verified, _| *checksum_verified = true);
        self.level().checksum_verified();
    }

    fn bytes_decompressed(&mut self, bytes: u64) {
        self.in_block(|_, decompressed_bytes| *decompressed_bytes = Some(bytes));
        self.level().bytes_decompressed(bytes);
    }

    fn block_searched(&mut self, found: Option<&Found>) {
        self.steps.push(match found {
            Some(found) => Step::Entry(Entry {
                seq: found.seq,
                kind: found.kind,
                value_bytes: found.value.len() as u64,
            }),
            None => Step::NotHere,
        });
        self.level().block_searched(found);
    }
}
