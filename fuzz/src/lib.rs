//! What the fuzz targets do with their input, for libFuzzer and for the replay of the corpus.
//!
//! | target | input |
//! | --- | --- |
//! | [`log`] | a log |
//! | [`edit`] | a record of a MANIFEST |
//! | [`block`] | a block of a table |
//! | [`table`] | a table |
//! | [`batch`] | a batch, as in a log |
//! | [`directory`] | the files of a database, packed: see [`files`] |
//! | [`operations`] | what a database is told to do, see [`operations`](fn@operations) |
//! | [`repair`] | as `directory` |
//!
//! Each takes any bytes, and panics where something is wrong with minikv. [`mend`] puts right the
//! checksums of an input, without which little of it would be read.

mod database;
pub mod files;
pub mod mend;
mod operations;
mod parts;
mod repaired;
mod tables;

pub use database::directory;
pub use operations::operations;
pub use parts::{batch, block, edit, log};
pub use repaired::repair;
pub use tables::table;

use peak_alloc::PeakAlloc;

/// Counts what is allocated, for [`within_bounds`].
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The most memory that any input may take.
pub const LIMIT_BYTES: usize = 128 << 20;

/// Longer inputs are cut: what is promised is promised for a mebibyte.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// What a target does with its input.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 8] = [
    ("log", log),
    ("edit", edit),
    ("block", block),
    ("table", table),
    ("batch", batch),
    ("directory", directory),
    ("operations", operations),
    ("repair", repair),
];

/// Runs a target, and panics if it took too much memory.
pub fn within_bounds(target: Target, data: &[u8]) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    target(&data[..data.len().min(MAX_INPUT_BYTES)]);
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(peak <= LIMIT_BYTES, "{} MiB of memory for {} bytes", peak >> 20, data.len());
}
