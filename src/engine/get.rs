//! A get: memtables first, then tables from the newest to the oldest, each asked through its
//! filter before any data block is read. The first version found is the answer.

use bytes::Bytes;

use crate::base::Result;
use crate::base::stats::{NUM_LEVELS, ReadTrace};
use crate::engine::version::TableFile;
use crate::engine::view::{ReadState, ReadView};
use crate::format::key::{KIND_FOR_SEEK, KeyKind, SeqNo, TRAILER_BYTES, pack_trailer};
use crate::table::reader::{BlockReadOptions, Found};

/// Keys up to this long are looked up without an allocation.
const STACK_KEY_BYTES: usize = 120;

/// The internal key of a lookup: the first that a reader at a sequence may see.
struct LookupKey {
    stack: [u8; STACK_KEY_BYTES + TRAILER_BYTES],
    heap: Vec<u8>,
    len: usize,
}

impl LookupKey {
    fn new(user_key: &[u8], seq: SeqNo) -> LookupKey {
        let len = user_key.len() + TRAILER_BYTES;
        let mut key =
            LookupKey { stack: [0; STACK_KEY_BYTES + TRAILER_BYTES], heap: Vec::new(), len };
        if len > key.stack.len() {
            key.heap.resize(len, 0);
        }
        let bytes = key.bytes_mut();
        bytes[..user_key.len()].copy_from_slice(user_key);
        let trailer = pack_trailer(seq, KIND_FOR_SEEK).to_le_bytes();
        bytes[user_key.len()..].copy_from_slice(&trailer);
        key
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.heap.is_empty() { &mut self.stack[..self.len] } else { &mut self.heap }
    }

    fn bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.stack[..self.len] } else { &self.heap }
    }
}

/// The value of `key` for a reader at `seq`.
pub fn get(
    state: &ReadState,
    view: &ReadView,
    seq: SeqNo,
    key: &[u8],
    options: &BlockReadOptions,
    trace: &mut ReadTrace,
) -> Result<Option<Bytes>> {
    for mem in view.memtables() {
        trace.memtables_probed += 1;
        if let Some(found) = mem.get(key, seq) {
            trace.memtable_hits += 1;
            return Ok(value_of(found.kind, found.value));
        }
    }
    let lookup = LookupKey::new(key, seq);
    let found = find_in_tables(state, view, key, lookup.bytes(), options, trace)?;
    Ok(found.and_then(|found| value_of(found.kind, found.value)))
}

fn value_of(kind: KeyKind, value: Bytes) -> Option<Bytes> {
    match kind {
        KeyKind::Value => Some(value),
        KeyKind::Deletion => None,
    }
}

fn find_in_tables(
    state: &ReadState,
    view: &ReadView,
    key: &[u8],
    lookup: &[u8],
    options: &BlockReadOptions,
    trace: &mut ReadTrace,
) -> Result<Option<Found>> {
    let order = state.order.user();
    let ask = |file: &TableFile, trace: &mut ReadTrace| {
        state.tables.with(&file.slot, |table| table.get(lookup, options, trace))
    };
    for file in view.version.level(0) {
        let outside = order.compare(key, file.first_key()).is_lt()
            || order.compare(key, file.last_key()).is_gt();
        if outside {
            trace.tables_skipped_by_range[0] += 1;
            continue;
        }
        trace.tables_considered[0] += 1;
        if let Some(found) = ask(file, trace)? {
            return Ok(Some(found));
        }
    }
    for level in 1..NUM_LEVELS {
        let files = view.version.level(level);
        if files.is_empty() {
            continue;
        }
        let Some(file) = view.version.find_table(level, order, key) else {
            trace.tables_skipped_by_range[level] += files.len() as u64;
            continue;
        };
        trace.tables_considered[level] += 1;
        trace.tables_skipped_by_range[level] += files.len() as u64 - 1;
        if let Some(found) = ask(file, trace)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The values of many keys, all as of one moment. Keys are asked in key order, so that
/// neighbours share blocks while these are in the caches; values come in the order asked.
pub fn multi_get<K: AsRef<[u8]>>(
    state: &ReadState,
    view: &ReadView,
    seq: SeqNo,
    keys: &[K],
    options: &BlockReadOptions,
) -> Result<Vec<Option<Bytes>>> {
    let mut by_key: Vec<usize> = (0..keys.len()).collect();
    by_key.sort_by(|&a, &b| state.order.user().compare(keys[a].as_ref(), keys[b].as_ref()));
    let mut values = vec![None; keys.len()];
    for at in by_key {
        let mut trace = ReadTrace::default();
        values[at] = get(state, view, seq, keys[at].as_ref(), options, &mut trace)?;
        state.totals.add_get(&trace, values[at].is_some());
    }
    Ok(values)
}
