//! The fuzz targets, as used by libFuzzer and by the replay of the corpus.
//!
//! | target | input |
//! | --- | --- |
//! | [`log`] | a log |
//! | [`edit`] | a record of a MANIFEST |
//! | [`block`] | a block of a table |
//! | [`table`] | a table |
//! | [`batch`] | a batch, as in a log |
//! | [`directory`] | the files of a database, packed: see [`files`] |
//! | [`operations`] | operations on a database, see [`operations`](fn@operations) |
//! | [`repair`] | the files of a database, packed as for [`directory`] |
//! | [`indexed_db`] | three keys of Chromium's IndexedDB |
//!
//! Each target accepts any bytes, and panics if minikv has a bug. [`mend`] corrects the checksums
//! of an input, because little of an input with wrong checksums would be read.

mod database;
pub mod files;
pub mod mend;
mod operations;
mod parts;
mod repaired;
mod tables;

pub use database::directory;
pub use operations::operations;
pub use parts::{batch, block, edit, indexed_db, log};
pub use repaired::repair;
pub use tables::table;

use peak_alloc::PeakAlloc;

/// Counts allocated memory, for [`within_bounds`].
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Maximum memory that an input may take, in bytes.
pub const LIMIT_BYTES: usize = 128 << 20;

/// Maximum length of an input, in bytes. Longer inputs are truncated, because [`LIMIT_BYTES`] is a
/// limit for databases of up to 1 MiB.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// The function of a target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 9] = [
    ("log", log),
    ("edit", edit),
    ("block", block),
    ("table", table),
    ("batch", batch),
    ("directory", directory),
    ("operations", operations),
    ("repair", repair),
    ("indexed_db", indexed_db),
];

/// Runs a target. Panics if it takes too much memory.
pub fn within_bounds(target: Target, data: &[u8]) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    target(&data[..data.len().min(MAX_INPUT_BYTES)]);
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(peak <= LIMIT_BYTES, "{} MiB of memory for {} bytes", peak >> 20, data.len());
}
