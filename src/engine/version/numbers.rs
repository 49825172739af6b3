//! File numbers, shared by tables, logs and MANIFESTs.

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;

/// Hands out file numbers, each only once, even across reopens. Thread-safe.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// Creates a source whose first number is `next`.
    pub(crate) fn new(next: u64) -> FileNumbers {
        FileNumbers(AtomicU64::new(next))
    }

    /// Returns a number that was never returned before.
    pub(crate) fn take(&self) -> u64 {
        let number = self.0.fetch_add(1, Relaxed);
        debug_assert!(number < u64::MAX, "file numbers wrap around");
        number
    }

    /// Returns the number that [`FileNumbers::take`] returns next.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Skips all numbers up to `taken`, which must be below [`MAX_FILE_NUMBER`].
    pub(crate) fn skip(&self, taken: u64) {
        debug_assert!(taken < MAX_FILE_NUMBER, "the number {taken} leaves too few");
        self.0.fetch_max(taken + 1, Relaxed);
    }
}

/// Exclusive upper bound of the file numbers accepted from disk, so that file numbers handed out
/// later never wrap around.
pub(crate) const MAX_FILE_NUMBER: u64 = 1 << 62;

/// Exclusive upper bound of the numbers of files that are far ahead of the MANIFEST, which were
/// made by something else. It leaves half of all numbers for files made later, so that a database
/// that accepts such a file never comes to its last number.
pub(crate) const MAX_FOREIGN_NUMBER: u64 = MAX_FILE_NUMBER / 2;

/// Maximum number of files that are made before the MANIFEST records a higher next file number.
pub(crate) const MAX_AHEAD: u64 = 1 << 40;
