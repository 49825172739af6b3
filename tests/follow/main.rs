//! Tests of read-only handles that follow a writer.
//!
//! | file | contents |
//! | --- | --- |
//! | `oracle` | a random writer: after each step, a refresh shows what a new open shows |
//! | `changes` | the batches that a writer commits |
//! | `kept` | logs that are kept after their writes were flushed, and reading changes from them |
//! | `cost` | the file operations and the bytes read by a refresh |
//! | `cases` | one test for each kind of event that can change the files |
//! | `switched` | a filesystem whose files a simulated crash replaces with those that are left |
//!
//! `MINIKV_FOLLOW` is the number of writers that the oracle follows (default 40), `MINIKV_SEED` the
//! first seed.

mod cases;
mod changes;
mod cost;
mod kept;
mod oracle;
mod switched;

use minikv::fs::Fs;
use minikv::{Compression, Options, ReadOnlyDb, Readable};
use minikv_support::rng;

const DIR: &str = "/db";

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns options with which a few hundred puts create several levels and several MANIFESTs.
fn options(fs: &(impl Fs + Clone), seed: u64) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .block_bytes(256)
        .max_file_bytes(2 << 10)
        .write_buffer_bytes(2 << 10)
        .manifest_rotate_bytes(2 << 10)
        .inline_background(Some(seed))
}

fn entries(db: &ReadOnlyDb) -> Entries {
    of_iter(db.iter())
}

fn of_iter(iter: impl Iterator<Item = minikv::Result<(minikv::Bytes, minikv::Bytes)>>) -> Entries {
    iter.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}
