//! The numbers in the names of files.

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;

/// Hands out file numbers. None is ever handed out twice, across reopens too.
#[derive(Debug)]
pub struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// The first number to hand out is `next`.
    pub fn new(next: u64) -> FileNumbers {
        FileNumbers(AtomicU64::new(next))
    }

    /// A number that nobody has.
    pub fn take(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    /// The number that comes next.
    pub fn next(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Makes sure that `taken`, which is below [`MAX_FILE_NUMBER`], is not handed out.
    pub fn skip(&self, taken: u64) {
        self.0.fetch_max(taken + 1, Relaxed);
    }
}

/// Numbers of files are below this one, so that those handed out never wrap round to numbers that
/// are taken.
pub const MAX_FILE_NUMBER: u64 = 1 << 62;
