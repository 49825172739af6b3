//! Write batches.

use minikv::{BatchOp, WriteBatch};

use crate::border::{In, Kept, State, export, pointer};
use std::ffi::c_char;

#[derive(Default)]
pub struct leveldb_writebatch_t {
    pub batch: WriteBatch,
}

type Put = extern "C" fn(State, *const c_char, usize, *const c_char, usize);
type Deleted = extern "C" fn(State, *const c_char, usize);

export! {
    fn leveldb_writebatch_create() -> Kept<leveldb_writebatch_t> {
        Kept::new(leveldb_writebatch_t::default())
    }

    fn leveldb_writebatch_destroy(batch: Kept<leveldb_writebatch_t>) {
        drop(batch.take());
    }

    fn leveldb_writebatch_clear(batch: &mut leveldb_writebatch_t) {
        batch.batch.clear();
    }

    fn leveldb_writebatch_put(
        batch: &mut leveldb_writebatch_t,
        key: In,
        key_len: usize,
        value: In,
        value_len: usize,
    ) {
        batch.batch.put(key.bytes(key_len), value.bytes(value_len));
    }

    fn leveldb_writebatch_delete(batch: &mut leveldb_writebatch_t, key: In, key_len: usize) {
        batch.batch.delete(key.bytes(key_len));
    }

    fn leveldb_writebatch_iterate(
        batch: &leveldb_writebatch_t,
        state: State,
        put: Put,
        deleted: Deleted,
    ) {
        for op in batch.batch.iter() {
            match op.expect("a batch made here can be read") {
                BatchOp::Put { key, value } => {
                    put(state, pointer(key), key.len(), pointer(value), value.len());
                }
                BatchOp::Delete { key } => deleted(state, pointer(key), key.len()),
            }
        }
    }

    /// Appends the operations of `source` to `destination`; both may be the same batch.
    fn leveldb_writebatch_append(
        destination: Kept<leveldb_writebatch_t>,
        source: Kept<leveldb_writebatch_t>,
    ) {
        let Some(operations) = source.get().map(|source| source.batch.clone()) else { return };
        append(destination, &operations);
    }
}

fn append(destination: Kept<leveldb_writebatch_t>, operations: &WriteBatch) {
    if let Some(mut batch) = destination.take() {
        batch.batch.append(operations);
        // The batch stays at its address, and C still owns it.
        Box::leak(batch);
    }
}
