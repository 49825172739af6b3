//! A log on the disk that is written through a memory mapping of its end, without a system call for
//! each record. `docs/history/performance.md` says how much time the mapping saves. The only unsafe
//! code of the library is here, in the call `forbid`, and in `mapped_table.rs`.
//!
//! When a process is killed, the system keeps the bytes that the process stored in a shared
//! mapping, just like written bytes, and `fdatasync` makes both kinds of bytes durable. After the
//! last record the file holds zeros, which readers of the format treat as the end of the log. When
//! the log is dropped, the zeros are cut off.
//!
//! Two kinds of logs are written with system calls instead (see [`Mode`]):
//! - Logs that are synced every few records. Each sync write-protects the mapped pages again, and
//!   when the file has grown, a sync must make its length durable, too. So these logs are
//!   written to a file whose length is set ahead of the records.
//! - Logs of large records: mapping a page costs more than the system call that the mapping saves.
//!
//! # What a killed process leaves
//! - The file ends with its last record or at the end of a block. If LevelDB appends to the file,
//!   it starts a new block, which readers find (`log/reader.rs`). A write that crosses a page
//!   boundary may be cut short, so the length is set ahead before the first such write.
//! - A record is complete, or its header has no length and no type yet. A record that spans several
//!   blocks may lack its last fragments if the process is killed before they are written: within
//!   about a nanosecond in a mapping, or during a system call otherwise.
//!
//! # Why it is sound
//! Nothing borrows from the mapping except [`MappedLog::write`], for one copy. Other code may read
//! the file at the same time, with system calls. Another process could also change the file, or
//! truncate it while it is mapped; that is true of every file of a database, and the database's
//! lock prevents it. A store raises `SIGBUS` where the file has no disk block. So blocks are
//! reserved and pages made writable first, by calls that report errors, and only on filesystems
//! that write a reserved block in place. On filesystems where a copy may share blocks with the
//! original, such as XFS and btrfs, a store into a reserved block may need a new block, so logs on
//! these filesystems are never mapped. If reserving blocks or making pages writable fails, the log
//! continues with plain writes.

use std::fs::File;
use std::io;
use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapMut, MmapOptions};

use super::WriteFile;
use super::ordered::{DeferredParts, is_in_one_page};
use super::retry::write_fully_at;
use super::system::{
    file_size_limit, filesystem_kind, forbid, make_writable, page_bytes, reserve_space, write_at,
};
use crate::format::record::{BLOCK_BYTES, SEAL, header_offsets};

/// Largest write, in bytes, that is stored in a mapping; larger writes use a system call. A larger
/// limit makes readers search further for a record that a killed process left unfinished.
pub(crate) const MAX_STORED_BYTES: usize = 64 << 10;

/// Minimum length, in bytes, of a log that may be mapped. Mapping a shorter log costs more than it
/// saves.
const MIN_MAPPED_BYTES: u64 = 16 << 10;

/// Size of the first window, in bytes. Each further window is twice as large as the one before, up
/// to [`MAX_WINDOW_BYTES`]. Larger windows reserve more disk space ahead of the records.
const FIRST_WINDOW_BYTES: u64 = 128 << 10;
/// Maximum size of a window, in bytes. A higher limit maps the file less often, and reserves more
/// disk space ahead of the records.
const MAX_WINDOW_BYTES: u64 = 1 << 20;

/// Number of bytes between two syncs below which a log counts as synced often. With a larger limit,
/// fewer logs are mapped.
const OFTEN_BYTES: u64 = 64 << 10;

/// Alignment of the ends of windows, in bytes, a multiple of the size of a block.
const WINDOW_ALIGN: u64 = 64 << 10;

/// Minimum mean size, in bytes, of records that count as large. With a larger minimum, more logs
/// are mapped. The value was measured by filling databases with values of 1 to 4 KiB
/// (`docs/history/performance.md`).
const MIN_LARGE_BYTES: u64 = 2 << 10;

/// Distance, in bytes, by which the length of a log is set ahead once the log has
/// [`MIN_MAPPED_BYTES`]. With a larger distance, syncs make a new length durable less often, but
/// more disk space is reserved.
const AHEAD_BYTES: u64 = 1 << 20;

/// Number of bytes that are made writable at a time. With a larger number, fewer writes have to
/// make bytes writable (now one write in a few thousand), but each of these writes takes longer.
const POPULATE_BYTES: usize = 512 << 10;

const EXT4: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;
const XFS: u32 = 0x5846_5342;

/// Types of filesystems (`f_type`) on which a store into a reserved block needs no other block.
const IN_PLACE: [u32; 2] = [EXT4, TMPFS];

/// Types of filesystems (`f_type`) on which setting the length ahead takes no space.
const SPARSE: [u32; 3] = [EXT4, TMPFS, XFS];

/// A file to which whole physical records are appended.
#[derive(Debug)]
pub(super) struct MappedLog {
    file: File,
    /// Offset of the end of the written bytes.
    position: u64,
    mode: Mode,
    /// Size of the next window, in bytes.
    next_window_bytes: u64,
    /// The length to which the file was extended beyond `position`, a multiple of the block size.
    /// If the file is not extended now, this is any number up to `position`.
    reserved: u64,
    /// Whether the length may be set ahead.
    may_reserve: bool,
    /// The parts of an unfinished record that are held back until the write that ends the record.
    deferred: DeferredParts,
    syncs: Syncs,
    sizes: RecordSizes,
}

/// The way in which the next record is written.
#[derive(Debug)]
enum Mode {
    /// With a system call, until the mode is chosen again at position `until`.
    Plain { until: u64 },
    /// By a store into a window, or with a system call if the record does not fit into the window.
    Mapped(Window),
    /// With a system call from now on: the filesystem cannot map logs, or a call for mapping
    /// failed.
    Unmappable,
}

/// The frequency with which the log is synced.
#[derive(Debug, Default)]
struct Syncs {
    /// Position of the last sync.
    last: u64,
    /// Whether the last sync came less than [`OFTEN_BYTES`] after the sync before it.
    are_frequent: bool,
}

/// The records written since the last choice between a window and plain writes.
#[derive(Debug, Default)]
struct RecordSizes {
    /// Position at which the last choice was made.
    from: u64,
    records: u64,
}

/// A mapped part of the file. Its first page is a guard that nobody may touch: code that writes
/// past the end of its own memory then ends the process before it overwrites records. In the middle
/// of a log, zeros look like its end. Only a window at the start of the file has no guard.
#[derive(Debug)]
struct Window {
    /// Offset in the file, in bytes.
    start: u64,
    map: MmapMut,
    /// Number of bytes up to which the window is writable. A store to these bytes cannot fail.
    populated: usize,
}

impl Window {
    /// Makes writable all pages that a store of the maximum size at `position` may touch.
    fn populate(&mut self, position: u64) -> io::Result<()> {
        debug_assert!(self.start <= position, "{position} is before the window");
        let at = (position - self.start) as usize;
        if at + MAX_STORED_BYTES > self.populated && self.populated < self.map.len() {
            let bytes = POPULATE_BYTES.min(self.map.len() - self.populated);
            uninterrupted(|| make_writable(&self.map, self.populated, bytes))?;
            self.populated += bytes;
        }
        debug_assert!(self.populated <= self.map.len(), "more is writable than is mapped");
        Ok(())
    }

    /// Returns whether `position` is before the window's end.
    fn reaches(&self, position: u64) -> bool {
        position < self.end()
    }

    fn end(&self) -> u64 {
        self.start + self.map.len() as u64
    }
}

impl MappedLog {
    /// Creates a log in `file`, which must be empty and open for reading and writing.
    pub(super) fn new(file: File) -> MappedLog {
        let kind = filesystem_kind(&file);
        let can_be_mapped = IN_PLACE.contains(&kind);
        MappedLog {
            file,
            position: 0,
            mode: if can_be_mapped { Mode::Plain { until: 0 } } else { Mode::Unmappable },
            next_window_bytes: FIRST_WINDOW_BYTES,
            reserved: 0,
            may_reserve: SPARSE.contains(&kind),
            deferred: DeferredParts::default(),
            syncs: Syncs::default(),
            sizes: RecordSizes::default(),
        }
    }

    /// Stores `bytes` in the window. Returns false if there is no window or `bytes` do not fit.
    /// Headers are completed last, in ascending order, so that a partly stored record never looks
    /// complete to other readers, not even after the process is killed.
    fn store(&mut self, bytes: &[u8]) -> bool {
        let Mode::Mapped(window) = &mut self.mode else { return false };
        if bytes.len() > MAX_STORED_BYTES || !self.deferred.is_empty() {
            return false;
        }
        let Some(at) = self.position.checked_sub(window.start).map(|at| at as usize) else {
            return false;
        };
        let populated = &mut window.map[..window.populated];
        let Some(target) = populated.get_mut(at..at + bytes.len()) else { return false };
        let mut stored = 0;
        for header in header_offsets(bytes, self.position) {
            let seal = header + SEAL.start;
            target[stored..seal].copy_from_slice(&bytes[stored..seal]);
            stored = header + SEAL.end;
        }
        target[stored..].copy_from_slice(&bytes[stored..]);
        for header in header_offsets(bytes, self.position) {
            let seal = header + SEAL.start;
            fence(Ordering::Release);
            let (to, from) = (target[seal..].first_chunk_mut::<4>(), bytes[seal..].first_chunk());
            if let (Some(to), Some(from)) = (to, from) {
                // A single store of four bytes is either complete or absent.
                *to = *from;
            }
        }
        true
    }

    /// Writes `bytes` at `self.position` with a system call.
    fn write_plainly(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (position, end) = (self.position, self.position + bytes.len() as u64);
        let is_atomic = self.deferred.is_empty() && is_in_one_page(position, end);
        let is_ahead = !is_atomic && self.reserve(end);
        let write = |bytes: &[u8], offset| {
            write_fully_at(bytes, offset, |bytes, offset| write_at(&self.file, bytes, offset))
        };
        match is_ahead || !self.deferred.is_empty() {
            true => self.deferred.write(bytes, position, write),
            false => write(bytes, position),
        }
    }

    /// Chooses how the next record is written, and prepares for that write: sets the length of the
    /// file ahead, or opens a window and makes the pages at the position writable.
    fn prepare_next(&mut self) {
        if self.position < MIN_MAPPED_BYTES {
            return;
        }
        let since_sync = self.position - self.syncs.last;
        if self.may_reserve && self.syncs.are_frequent && since_sync < OFTEN_BYTES {
            self.unmap();
            self.reserve(self.position + AHEAD_BYTES / 16);
            return;
        }
        self.syncs.are_frequent = false;
        let ready = match &mut self.mode {
            Mode::Unmappable => return,
            Mode::Plain { until } if self.position < *until => return,
            Mode::Mapped(window) if window.reaches(self.position) => window.populate(self.position),
            Mode::Plain { .. } | Mode::Mapped(_) => {
                self.unmap();
                if self.sizes.choose(self.position) {
                    self.mode = Mode::Plain { until: self.position + MAX_WINDOW_BYTES };
                    return;
                }
                self.open_window()
            }
        };
        if ready.is_err() {
            self.mode = Mode::Unmappable;
        }
    }

    /// Closes the window, if there is one. The next call of `prepare_next` may open another window.
    fn unmap(&mut self) {
        if let Mode::Mapped(_) = self.mode {
            self.mode = Mode::Plain { until: self.position };
        }
    }

    /// Panics if fields contradict each other.
    #[cfg(debug_assertions)]
    fn check(&self) {
        assert!(self.syncs.last <= self.position, "synced past the end");
        assert!(self.sizes.from <= self.position, "sizes count from past the end");
        let block = BLOCK_BYTES as u64;
        assert!(self.reserved.is_multiple_of(block), "{} is within a block", self.reserved);
        if let Mode::Mapped(window) = &self.mode {
            let page = page_bytes();
            assert!(window.start.is_multiple_of(page), "a window starts within a page");
            assert!(window.start <= self.position, "the window is past the position");
            assert!(window.end() <= self.reserved, "the window is larger than the file");
        }
    }

    /// Sets the length of the file ahead of `end`, to a multiple of the block size. Returns whether
    /// the length is now at least `end`.
    fn reserve(&mut self, end: u64) -> bool {
        if end <= self.reserved || !self.may_reserve {
            return end <= self.reserved;
        }
        let ahead = if end < MIN_MAPPED_BYTES { 0 } else { AHEAD_BYTES };
        let block = BLOCK_BYTES as u64;
        let limit = file_size_limit();
        let len = (end + ahead).next_multiple_of(block).min(limit - limit % block);
        // If the length cannot be set, the file grows with each write instead.
        self.may_reserve = end <= len && self.file.set_len(len).is_ok();
        if self.may_reserve {
            self.reserved = len;
        }
        self.may_reserve
    }

    /// Maps the next part of the file. There must be no window yet.
    fn open_window(&mut self) -> io::Result<()> {
        debug_assert!(!matches!(self.mode, Mode::Mapped(_)), "two windows");
        let end = self.position - self.position % WINDOW_ALIGN + self.next_window_bytes;
        let start = self.position - self.position % page_bytes();
        let guard = page_bytes().min(start);
        let map = self.map(start - guard, end, guard).inspect_err(|_| {
            // The failed `map` may have made the file longer.
            let _ = self.file.set_len(self.reserved.max(self.position));
        })?;
        self.reserved = self.reserved.max(end);
        self.next_window_bytes = (2 * self.next_window_bytes).min(MAX_WINDOW_BYTES);
        let mut window = Window { start: start - guard, map, populated: guard as usize };
        let populated = window.populate(self.position);
        self.mode = Mode::Mapped(window);
        populated
    }

    #[expect(unsafe_code, reason = "a system call for each record takes most of a put's time")]
    fn map(&self, start: u64, end: u64, guard: u64) -> io::Result<MmapMut> {
        if end > file_size_limit() {
            // Growing a file past the limit raises a signal that ends the process.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        uninterrupted(|| reserve_space(&self.file, start, end - start))?;
        // SAFETY: the file belongs to this log alone and is not truncated while the window is open;
        // the range is inside the file. See the head of this module.
        let mut map = unsafe {
            MmapOptions::new().offset(start).len((end - start) as usize).map_mut(&self.file)?
        };
        forbid(&mut map, guard as usize)?;
        Ok(map)
    }
}

impl RecordSizes {
    /// Restarts the count at `position`. Returns whether the records counted so far are large.
    fn choose(&mut self, position: u64) -> bool {
        let bytes = position - self.from;
        let are_large = bytes >= MIN_LARGE_BYTES * self.records;
        *self = RecordSizes { from: position, records: 0 };
        are_large
    }
}

/// Repeats `call` while signals interrupt it.
fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl WriteFile for MappedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.store(bytes) {
            self.write_plainly(bytes)?;
        }
        self.position += bytes.len() as u64;
        self.sizes.records += 1;
        self.prepare_next();
        #[cfg(debug_assertions)]
        self.check();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let are_frequent = self.position - self.syncs.last < OFTEN_BYTES;
        self.syncs = Syncs { last: self.position, are_frequent };
        self.file.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.mode = Mode::Unmappable;
        self.may_reserve = false;
        self.deferred.clear();
        self.file.set_len(len)?;
        self.reserved = 0;
        self.position = self.position.min(len);
        self.syncs.last = self.syncs.last.min(len);
        self.sizes.from = self.sizes.from.min(len);
        #[cfg(debug_assertions)]
        self.check();
        Ok(())
    }

    fn trim(&mut self) -> io::Result<bool> {
        self.unmap();
        if self.reserved <= self.position {
            return Ok(false);
        }
        self.file.set_len(self.position)?;
        self.reserved = 0;
        Ok(true)
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        // If the truncation fails, the zeros stay in the file, and readers ignore them.
        let _ = self.trim();
    }
}

#[cfg(test)]
mod tests;
