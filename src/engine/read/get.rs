//! A get: a search of the memtables and then of the tables, from the newest to the oldest. A
//! table's filters are queried before its data blocks are read. The first version found is the
//! answer.

use bytes::Bytes;

use crate::base::Result;
use crate::base::hash::KeyHash;
use crate::engine::memtable::MemFound;
use crate::engine::read::point::ReadPoint;
use crate::engine::stats::sample::ReadSample;
use crate::engine::stats::trace::{ReadTally, ReadTrace};
use crate::engine::version::TableFile;
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{KIND_FOR_SEEK, KeyKind, SeqNo, TRAILER_BYTES, pack_trailer};
use crate::table::counts::{LevelTally, LevelTrace};
use crate::table::reader::Found;
use crate::table::sink::TableSink;

/// Receives each step of a get, in order. Steps inside a table go to a [`TableSink`].
/// There are three sinks: `Tallying` adds to the database's totals, [`ReadTrace`] counts for the
/// caller, and the recorder of [`explain`](crate::explain) keeps the steps.
pub(crate) trait ReadSink {
    /// The sink for the steps inside a table.
    type Table: TableSink;

    /// A memtable was searched.
    fn memtable(&mut self, found: Option<&MemFound>);

    /// `tables` tables of a level were skipped because their key ranges do not contain the key.
    fn skipped(&mut self, level: usize, tables: u64);

    /// A table is about to be searched. Returns the sink for the steps inside the table.
    fn table(&mut self, level: usize, file: &TableFile) -> &mut Self::Table;
}

impl ReadSink for ReadTrace {
    type Table = LevelTrace;

    #[inline]
    fn memtable(&mut self, found: Option<&MemFound>) {
        self.memtables_probed += 1;
        self.memtable_hits += u64::from(found.is_some());
    }

    #[inline]
    fn skipped(&mut self, level: usize, tables: u64) {
        self.levels[level].tables_skipped_by_range += tables;
    }

    #[inline]
    fn table(&mut self, level: usize, _: &TableFile) -> &mut LevelTrace {
        let trace = &mut self.levels[level];
        trace.tables_considered += 1;
        trace
    }
}

/// A sink that counts steps in the calling thread's own tally.
struct Tallying<'a> {
    tally: &'a ReadTally,
    /// The counts of the level of the table being searched.
    level: &'a LevelTally,
}

impl<'a> ReadSink for Tallying<'a> {
    type Table = &'a LevelTally;

    #[inline]
    fn memtable(&mut self, found: Option<&MemFound>) {
        self.tally.memtables_probed.count(1);
        if found.is_some() {
            self.tally.memtable_hits.count(1);
        }
    }

    #[inline]
    fn skipped(&mut self, level: usize, tables: u64) {
        self.tally.levels[level].tables_skipped_by_range.count(tables);
    }

    #[inline]
    fn table(&mut self, level: usize, _: &TableFile) -> &mut &'a LevelTally {
        self.level = &self.tally.levels[level];
        self.level.tables_considered.count(1);
        &mut self.level
    }
}

/// Maximum length, in bytes, of a user key that is looked up without an allocation. With a greater
/// length, every lookup clears a larger buffer on the stack.
const MAX_STACK_KEY_BYTES: usize = 120;

/// The internal key for a lookup. It sorts directly before the newest version that is visible to a
/// reader at a given sequence number.
pub(crate) struct LookupKey {
    stack: [u8; MAX_STACK_KEY_BYTES + TRAILER_BYTES],
    heap: Vec<u8>,
    len: usize,
}

impl LookupKey {
    /// Returns the key with which a reader at `seq` looks up `user_key`.
    pub(crate) fn new(user_key: &[u8], seq: SeqNo) -> LookupKey {
        let len = user_key.len() + TRAILER_BYTES;
        let mut key =
            LookupKey { stack: [0; MAX_STACK_KEY_BYTES + TRAILER_BYTES], heap: Vec::new(), len };
        if len > key.stack.len() {
            key.heap.resize(len, 0);
        }
        let bytes = key.bytes_mut();
        bytes[..user_key.len()].copy_from_slice(user_key);
        let trailer = pack_trailer(seq, KIND_FOR_SEEK).to_le_bytes();
        bytes[user_key.len()..].copy_from_slice(&trailer);
        debug_assert!(key.bytes().starts_with(user_key) && key.bytes().ends_with(&trailer));
        key
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.heap.is_empty() { &mut self.stack[..self.len] } else { &mut self.heap }
    }

    /// Returns the encoded internal key.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.stack[..self.len] } else { &self.heap }
    }
}

/// Returns the value of `key`. Counts the get in the database's totals.
pub(crate) fn counted_get(point: &ReadPoint<'_>, key: &[u8]) -> Result<Option<Bytes>> {
    let Some(tally) = point.state.totals.own() else {
        return traced_get(point, key, &mut ReadTrace::default());
    };
    let sink = &mut Tallying { tally, level: &tally.levels[0] };
    let value = get(point, key, sink)?;
    tally.get(value.is_some());
    ReadSample::looked_up(point.state.sample.as_ref(), key, tally);
    Ok(value)
}

/// Returns the value of `key`. Counts the get in `trace` and in the database's totals.
pub(crate) fn traced_get(
    point: &ReadPoint<'_>,
    key: &[u8],
    trace: &mut ReadTrace,
) -> Result<Option<Bytes>> {
    let (state, value) = (point.state, get(point, key, trace)?);
    let sample = |tally: &ReadTally| ReadSample::looked_up(state.sample.as_ref(), key, tally);
    state.totals.add_get(trace, value.is_some(), sample);
    Ok(value)
}

/// Returns the value of `key`. Reports each step to `sink`.
pub(crate) fn get<S: ReadSink>(
    point: &ReadPoint<'_>,
    key: &[u8],
    sink: &mut S,
) -> Result<Option<Bytes>> {
    let seq = point.seq;
    for mem in point.view().memtables() {
        let found = mem.get(key, seq);
        sink.memtable(found.as_ref());
        if let Some(found) = found {
            debug_assert!(found.seq <= seq, "a memtable's version is newer than the read");
            return Ok(value_of(found.kind, found.value));
        }
    }
    let lookup = LookupKey::new(key, seq);
    let found = find_in_tables(point, key, lookup.bytes(), sink)?;
    debug_assert!(
        found.as_ref().is_none_or(|found| found.seq <= seq),
        "a table's version is newer than the read"
    );
    Ok(found.and_then(|found| value_of(found.kind, found.value)))
}

fn value_of(kind: KeyKind, value: Bytes) -> Option<Bytes> {
    match kind {
        KeyKind::Value => Some(value),
        KeyKind::Deletion => None,
    }
}

/// Returns the newest version of `key` in the tables that the reader sees. `lookup` is the
/// [`LookupKey`] of `key`.
fn find_in_tables<S: ReadSink>(
    point: &ReadPoint<'_>,
    key: &[u8],
    lookup: &[u8],
    sink: &mut S,
) -> Result<Option<Found>> {
    let ReadPoint { state, options, .. } = point;
    let (order, version) = (state.order.user(), &point.view().version);
    let hash = KeyHash::new(key);
    let ask = |level: usize, file: &TableFile, sink: &mut S| {
        let sink = sink.table(level, file);
        state.tables.with(&file.slot, |table| table.get_hashed(lookup, &hash, options, sink))
    };
    for file in version.level(0) {
        let outside = order.compare(key, file.first_key()).is_lt()
            || order.compare(key, file.last_key()).is_gt();
        if outside {
            sink.skipped(0, 1);
            continue;
        }
        if let Some(found) = ask(0, file, sink)? {
            return Ok(Some(found));
        }
    }
    for level in 1..NUM_LEVELS {
        let files = version.level(level);
        if files.is_empty() {
            continue;
        }
        let Some(file) = version.find_table(level, order, key) else {
            sink.skipped(level, files.len() as u64);
            continue;
        };
        sink.skipped(level, files.len() as u64 - 1);
        if let Some(found) = ask(level, file, sink)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_fits_is_kept_on_the_stack() {
        for (bytes, on_heap) in
            [(0, false), (MAX_STACK_KEY_BYTES, false), (MAX_STACK_KEY_BYTES + 1, true)]
        {
            let key = LookupKey::new(&vec![7; bytes], 9);
            assert_eq!(!key.heap.is_empty(), on_heap, "{bytes} bytes");
            assert_eq!(key.bytes().len(), bytes + TRAILER_BYTES);
        }
    }
}
