//! A log on the disk that is written through a mapping of its end, without a system call for each
//! record. The only unsafe code of the library; `docs/performance.md` has what it buys.
//!
//! The system keeps what is stored in a shared mapping when the process is killed, as it keeps what
//! was written, and `fdatasync` makes it durable in the same way. Ahead of the last record the file
//! is zeros, which readers of the format take for its end; dropping the file cuts them off.
//!
//! A log that is synced every few records is written plainly into a file whose length is set ahead:
//! a page of a mapping is protected anew by each sync, and a file that grows has its length to make
//! durable too. One whose records are large is written plainly as well: a page of a mapping costs
//! more than the system call that it saves.
//!
//! # Why it is sound
//! Nothing ever borrows from the mapping but [`MappedLog::write`], for one copy. Others may read
//! the file meanwhile, through the system; that they could also change it, or cut it while it is
//! mapped, is so for every file of a database, and kept away by its lock. A store fails (`SIGBUS`)
//! where a block of the file is missing: so blocks are reserved and pages made writable before,
//! with calls that report errors, and only on filesystems that write a reserved block in place.
//! Wherever one of these calls fails the log goes on with plain writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, fallocate};

use super::WriteFile;
use super::retry::write_fully_at;
use crate::format::record::{HEADER_BYTES, MAX_STORED_BYTES};

/// Logs that stay shorter are written plainly: mapping costs more.
const PLAIN_BYTES: u64 = 16 << 10;

/// The first window over the file's end; each is twice as long as the one before, up to the last.
const FIRST_WINDOW_BYTES: u64 = 128 << 10;
const MAX_WINDOW_BYTES: u64 = 1 << 20;

/// A log of which no more than this is written between syncs is synced often.
const OFTEN_BYTES: u64 = 64 << 10;

/// Records of so many bytes and more, in the mean, are large. From the times of fills with values
/// of 1 to 4 KiB (`docs/performance.md`).
const LARGE_BYTES: u64 = 2 << 10;

/// How far ahead its length is set.
const AHEAD_BYTES: u64 = 1 << 20;

/// Pages are made writable so many bytes at a time: few enough that no record waits for long, and
/// so many that one in some thousand waits.
const POPULATE_BYTES: usize = 512 << 10;

/// Windows begin at multiples of this, which is one of every page size there is.
const WINDOW_ALIGN: u64 = 64 << 10;

/// `f_type` of ext2, ext3 and ext4, of XFS, and of tmpfs.
#[cfg(target_os = "linux")]
const IN_PLACE: [u32; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// A file for appending small pieces.
#[derive(Debug)]
pub(super) struct MappedLog {
    file: File,
    position: u64,
    window: Option<Window>,
    next_window_bytes: u64,
    /// The file's length, where that was set ahead.
    reserved: u64,
    /// Where it was synced last, and whether that was soon after the time before.
    synced: u64,
    often_synced: bool,
    /// Records since the last choice between a window and plain writes, and where that was.
    records: u64,
    chosen: u64,
    /// Plain writes are chosen up to here.
    plain_until: u64,
}

/// Of a log that is never mapped: [`MappedLog::plain_until`].
const FOREVER: u64 = u64::MAX;

/// A mapped part of the file.
#[derive(Debug)]
struct Window {
    /// Where in the file it begins.
    start: u64,
    map: MmapMut,
    /// How much of it is writable without a fault.
    populated: usize,
}

/// Makes pages writable, so that a store into them cannot fail.
#[cfg(target_os = "linux")]
fn make_writable(map: &MmapMut, from: usize, bytes: usize) -> io::Result<()> {
    map.advise_range(memmap2::Advice::PopulateWrite, from, bytes)
}

/// No other system reports here what would be a signal at the store: logs are written plainly.
#[cfg(not(target_os = "linux"))]
fn make_writable(_: &MmapMut, _: usize, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the filesystem of `file` writes a reserved block in place, as far as is known.
#[cfg(target_os = "linux")]
fn writes_in_place(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| IN_PLACE.contains(&(stat.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn writes_in_place(_: &File) -> bool {
    false
}

impl Window {
    /// Makes room for a record of the largest size that is stored at `position`.
    fn populate(&mut self, position: u64) -> io::Result<()> {
        let at = (position - self.start) as usize;
        if at + MAX_STORED_BYTES > self.populated && self.populated < self.map.len() {
            let bytes = POPULATE_BYTES.min(self.map.len() - self.populated);
            make_writable(&self.map, self.populated, bytes)?;
            self.populated += bytes;
        }
        Ok(())
    }

    fn holds(&self, position: u64) -> bool {
        position < self.start + self.map.len() as u64
    }
}

impl MappedLog {
    /// Takes a file that is empty and open for reading and writing.
    pub(super) fn new(file: File) -> MappedLog {
        let in_place = writes_in_place(&file);
        MappedLog {
            file,
            position: 0,
            window: None,
            next_window_bytes: FIRST_WINDOW_BYTES,
            reserved: 0,
            synced: 0,
            often_synced: false,
            records: 0,
            chosen: 0,
            plain_until: if in_place { 0 } else { FOREVER },
        }
    }

    /// Stores `bytes` in the window, if they fit. The header goes last: a record of which a killed
    /// process stored a part, or others see a part, does not look like one.
    fn store(&mut self, bytes: &[u8]) -> bool {
        let Some(window) = &mut self.window else { return false };
        if bytes.len() > MAX_STORED_BYTES {
            return false;
        }
        let Some(at) = self.position.checked_sub(window.start).map(|at| at as usize) else {
            return false;
        };
        let populated = &mut window.map[..window.populated];
        let Some(place) = populated.get_mut(at..at + bytes.len()) else { return false };
        let header = bytes.len().min(HEADER_BYTES);
        place[header..].copy_from_slice(&bytes[header..]);
        fence(Ordering::Release);
        place[..header].copy_from_slice(&bytes[..header]);
        true
    }

    /// Sees to it that a window is ready at the position. On failure there is none from then on.
    fn move_on(&mut self) {
        if self.plain_until == FOREVER || self.position < PLAIN_BYTES {
            return;
        }
        if self.often_synced && self.position - self.synced < OFTEN_BYTES {
            self.window = None;
            return self.set_ahead();
        }
        self.often_synced = false;
        if self.position < self.plain_until {
            return;
        }
        let held = self.window.as_ref().is_some_and(|window| window.holds(self.position));
        if !held && self.has_large_records() {
            self.window = None;
            self.plain_until = self.position + MAX_WINDOW_BYTES;
            return;
        }
        let ready = match &mut self.window {
            Some(window) if held => window.populate(self.position),
            _ => self.open_window(),
        };
        if ready.is_err() {
            self.window = None;
            self.plain_until = FOREVER;
        }
    }

    /// Whether those since the last time this was asked are.
    fn has_large_records(&mut self) -> bool {
        let bytes = self.position - self.chosen;
        let large = bytes >= LARGE_BYTES * self.records;
        (self.chosen, self.records) = (self.position, 0);
        large
    }

    fn set_ahead(&mut self) {
        let len = self.position + AHEAD_BYTES;
        // If it cannot be, the file grows with what is written.
        if self.position + AHEAD_BYTES / 16 > self.reserved && self.file.set_len(len).is_ok() {
            self.reserved = len;
        }
    }

    fn open_window(&mut self) -> io::Result<()> {
        self.window = None;
        let start = self.position - self.position % WINDOW_ALIGN;
        let bytes = self.next_window_bytes;
        let map = self.map(start, bytes)?;
        self.reserved = self.reserved.max(start + bytes);
        self.next_window_bytes = (2 * bytes).min(MAX_WINDOW_BYTES);
        let window = self.window.insert(Window { start, map, populated: 0 });
        window.populate(self.position)
    }

    #[expect(unsafe_code, reason = "a system call for each record takes most of a put's time")]
    fn map(&self, start: u64, bytes: u64) -> io::Result<MmapMut> {
        fallocate(&self.file, FallocateFlags::empty(), start, bytes)?;
        // SAFETY: the file belongs to this log alone and is not cut while the window is open; the
        // range is inside it. See the head of this file.
        unsafe { MmapOptions::new().offset(start).len(bytes as usize).map_mut(&self.file) }
    }
}

impl WriteFile for MappedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.store(bytes) {
            write_fully_at(bytes, self.position, |b, offset| self.file.write_at(b, offset))?;
        }
        self.position += bytes.len() as u64;
        self.records += 1;
        self.move_on();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.often_synced = self.position - self.synced < OFTEN_BYTES;
        self.synced = self.position;
        self.file.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.window = None;
        self.plain_until = FOREVER;
        self.file.set_len(len)?;
        self.reserved = 0;
        self.position = self.position.min(len);
        self.synced = self.synced.min(len);
        self.chosen = self.chosen.min(len);
        Ok(())
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        self.window = None;
        if self.reserved > self.position {
            // If not, the zeros stay: they say nothing.
            let _ = self.file.set_len(self.position);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn log(dir: &std::path::Path) -> MappedLog {
        let mut options = super::super::disk::not_through_links();
        let options = options.read(true).write(true).create(true);
        MappedLog::new(options.open(dir.join("log")).unwrap())
    }

    /// The file as a process that is killed now leaves it: what was written, and zeros. So many.
    fn zeros_behind(path: &std::path::Path, written: &[u8]) -> usize {
        let left = fs::read(path).unwrap();
        assert!(left.starts_with(written));
        assert!(left[written.len()..].iter().all(|&byte| byte == 0));
        left.len() - written.len()
    }

    /// Pieces of all sizes, across windows and larger than them: by turns many small ones, which
    /// are stored in a window, and some large ones, which are not.
    #[test]
    fn what_was_written_is_there_and_behind_it_zeros_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = log(dir.path());
        let mut expected = Vec::new();
        let small = [1usize, 7, 100, 1500, 3, 2000, 133, 0, 8, 1800, 90];
        let large = [60_000usize, 7, 5000, 300_000, 3, 2_500_000, 90];
        let mut mapped = [0; 2];
        for round in 0..8000 {
            let is_large = round % 4000 >= 3950;
            let size = if is_large { large[round % 7] } else { small[round % 11] };
            let piece: Vec<u8> = (0..size).map(|i| (i * 31 + round) as u8 | 1).collect();
            log.write(&piece).unwrap();
            expected.extend_from_slice(&piece);
            mapped[usize::from(is_large)] += usize::from(log.window.is_some());
            if round % 1000 == 999 {
                log.sync().unwrap();
                zeros_behind(&path, &expected);
            }
        }
        assert!(
            log.plain_until == FOREVER || (mapped[0] > 5000 && mapped[1] < 20),
            "{mapped:?} left a window"
        );
        drop(log);
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn a_log_that_is_synced_often_is_written_ahead_of_its_end_and_then_mapped_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = log(dir.path());
        let mut expected = Vec::new();
        let mut seen = [0; 2];
        for round in 0..3000u32 {
            let piece = [round as u8 | 1; 1000];
            log.write(&piece).unwrap();
            expected.extend_from_slice(&piece);
            // In the middle of the rounds it is not synced at all.
            if !(1000..2000).contains(&round) {
                log.sync().unwrap();
            }
            if round % 100 == 99 {
                let ahead = zeros_behind(&path, &expected) > 0;
                seen[usize::from(log.window.is_some())] += usize::from(ahead);
            }
        }
        assert!(log.plain_until == FOREVER || seen == [20, 10], "{seen:?}");
        drop(log);
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn a_length_that_was_set_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path());
        for _ in 0..100 {
            log.write(&[1; 1000]).unwrap();
        }
        log.set_len(100_001).unwrap();
        drop(log);
        assert_eq!(fs::metadata(dir.path().join("log")).unwrap().len(), 100_001);
    }

    #[test]
    fn short_logs_are_never_longer_than_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path());
        log.write(&[1; 5000]).unwrap();
        assert_eq!(fs::metadata(dir.path().join("log")).unwrap().len(), 5000);
        assert!(log.window.is_none());
    }
}
