//! A table that is read through a memory mapping: a block in the system's page cache then costs no
//! system call. `docs/performance.md` says how much time that saves.
//!
//! # When reads leave the mappings
//! A load from a page that is not in memory makes the system read many pages around it. That is
//! good while the page cache is being filled, and very bad once the cache is too small for the
//! tables: each read then evicts what others need. So one read in `SAMPLED` is timed, through a
//! mapping or not, and while too many of these reads wait for the disk, all reads use system calls.
//! One average serves all tables of the process, because they share the machine's memory.
//!
//! # Why it is sound
//! Nothing borrows from the mapping: bytes are copied out of it, and decoders see only the copy,
//! which no other process can change. A load raises `SIGBUS` if another process has made the file
//! shorter or if the disk fails. That ends the process, which is why tables are mapped only on
//! request ([`Options::map_tables`](crate::Options::map_tables)). Tables never change once they are
//! open, and the database's lock keeps other writers out.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use memmap2::MmapRaw;

use super::system::map_file;

/// One read in this many is timed. With a higher number, timing costs less and a change of the
/// machine's memory is noticed later.
const SAMPLED: u32 = 16;

/// Largest read, in bytes, that is timed: copying more may take as long as a read from a disk.
const MAX_SAMPLED_BYTES: usize = 16 << 10;

/// A read that takes longer than this has waited for the disk: copying takes about a microsecond,
/// and fast disks take some fifty. With a longer time, fast disks count as memory.
const MAX_COPY_TIME: Duration = Duration::from_micros(20);

/// The value of [`Residency::slow`] if all reads waited for the disk.
const ALL_SLOW: u32 = 1 << 16;
/// Fraction of slow reads above which reads leave the mappings. With a higher one, they leave
/// later.
const MANY_SLOW: u32 = ALL_SLOW / 16;
/// Fraction of slow reads below which reads return to the mappings. The closer it is to
/// [`MANY_SLOW`], the more often reads go back and forth.
const FEW_SLOW: u32 = ALL_SLOW / 64;

/// Number of timed reads over which [`Residency::slow`] is averaged. With a higher number, a change
/// of the machine's memory is noticed later, and chance decides less.
const AVERAGED: u32 = 64;

/// The mapping of a whole table.
#[derive(Debug)]
pub(super) struct TableMap(MmapRaw);

/// The fraction of reads that find their pages in memory.
#[derive(Debug)]
pub(super) struct Residency {
    /// Moving average of the fraction of reads that waited for the disk, in units of 1 /
    /// [`ALL_SLOW`].
    slow: AtomicU32,
    /// Whether reads use system calls.
    is_low: AtomicBool,
}

/// The residency of all mapped tables of the process.
pub(super) static RESIDENCY: Residency = Residency::new();

impl TableMap {
    /// Maps `file`.
    ///
    /// # Errors
    /// `Unsupported`, if the system cannot map tables, or an error of the system, such as that the
    /// process has no addresses left.
    pub(super) fn new(file: &File) -> io::Result<TableMap> {
        Ok(TableMap(map_file(file)?))
    }

    /// Copies the bytes at `offset` to `buf`. Returns false, and does nothing, if the mapping does
    /// not have all of these bytes.
    #[expect(unsafe_code, reason = "a system call for each block takes a third of a get's time")]
    pub(super) fn copy(&self, buf: &mut [u8], offset: u64) -> bool {
        let Ok(at) = usize::try_from(offset) else { return false };
        if at.checked_add(buf.len()).is_none_or(|end| end > self.0.len()) {
            return false;
        }
        // SAFETY: the range lies within the mapping, which lives as long as `self`, and cannot
        // overlap a buffer of the program. See the head of this module about other processes.
        unsafe { ptr::copy_nonoverlapping(self.0.as_ptr().add(at), buf.as_mut_ptr(), buf.len()) };
        true
    }
}

impl Residency {
    const fn new() -> Residency {
        Residency { slow: AtomicU32::new(0), is_low: AtomicBool::new(false) }
    }

    /// Returns whether reads should use the mappings.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        !self.is_low.load(Relaxed)
    }

    /// Calls `read`, which reads `bytes` bytes, and returns its result. Times one call in
    /// [`SAMPLED`].
    #[inline]
    pub(super) fn watch<R>(&self, bytes: usize, read: impl FnOnce() -> R) -> R {
        thread_local! {
            static UNTIL_SAMPLE: Cell<u32> = const { Cell::new(0) };
        }
        let until = UNTIL_SAMPLE.get();
        if until > 0 || bytes > MAX_SAMPLED_BYTES {
            UNTIL_SAMPLE.set(until.saturating_sub(1));
            return read();
        }
        UNTIL_SAMPLE.set(SAMPLED - 1);
        let start = Instant::now();
        let result = read();
        self.record(start.elapsed() > MAX_COPY_TIME);
        result
    }

    /// Adds a timed read to the average. Of reads that are added at the same time, some are lost.
    fn record(&self, is_slow: bool) {
        let before = self.slow.load(Relaxed);
        let sample = if is_slow { ALL_SLOW } else { 0 };
        let slow = before - before / AVERAGED + sample / AVERAGED;
        self.slow.store(slow, Relaxed);
        if slow > MANY_SLOW {
            self.is_low.store(true, Relaxed);
        } else if slow < FEW_SLOW && !self.is_high() {
            self.is_low.store(false, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_leave_the_mappings_while_many_wait_for_the_disk() {
        let residency = Residency::new();
        let record = |count: u32, slow_in: u32| {
            for i in 0..count {
                residency.record(slow_in > 0 && i % slow_in == 0);
            }
            residency.is_high()
        };
        assert!(record(1000, 0), "no read is slow");
        assert!(record(1000, 100), "a thread loses its core now and then");
        assert!(!record(1000, 4), "the page cache is too small");
        assert!(!record(1000, 32), "not yet: reads would go back and forth");
        assert!(record(1000, 0), "the tables are in memory again");
        residency.record(true);
        assert!(residency.is_high(), "one slow read shows nothing");
    }

    #[test]
    fn one_read_in_a_number_is_timed_and_no_long_one() {
        let residency = Residency::new();
        let slow = |bytes| {
            let before = residency.slow.load(Relaxed);
            residency.watch(bytes, || std::thread::sleep(2 * MAX_COPY_TIME));
            residency.slow.load(Relaxed) > before
        };
        let times = |bytes: usize| (0..4 * SAMPLED).filter(|_| slow(bytes)).count();
        assert_eq!(times(MAX_SAMPLED_BYTES), 4);
        assert_eq!(times(MAX_SAMPLED_BYTES + 1), 0);
    }

    #[test]
    #[cfg(all(unix, target_pointer_width = "64"))]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_mapping_has_the_bytes_of_its_file_and_no_others() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let map = TableMap::new(&file).unwrap();
        for (offset, len) in [(0, 10_000), (9_999, 1), (4_000, 200), (10_000, 0), (3, 0)] {
            let mut buf = vec![0; len];
            assert!(map.copy(&mut buf, offset as u64));
            assert_eq!(buf, bytes[offset..offset + len]);
        }
        for (offset, len) in [(0, 10_001), (9_999, 2), (10_001, 0), (u64::MAX, 1)] {
            assert!(!map.copy(&mut vec![0; len], offset), "{len} bytes at {offset}");
        }
    }
}
