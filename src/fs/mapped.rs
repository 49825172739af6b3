//! A log on the disk that is written through a mapping of its end, without a system call for each
//! record. The only unsafe code of the library; `docs/performance.md` has what it buys.
//!
//! The system keeps what is stored in a shared mapping when the process is killed, as it keeps what
//! was written, and `fdatasync` makes it durable in the same way. Ahead of the last record the file
//! is zeros, which readers of the format take for its end; dropping the file cuts them off.
//!
//! A log that is synced every few records is written plainly into a file whose length is set ahead:
//! a page of a mapping is protected anew by each sync, and a file that grows has its length to make
//! durable too. One whose records are large is written so as well: a page of a mapping costs more
//! than the system call that it saves.
//!
//! # What a killed process leaves
//! - The file ends with its last record, or at the end of a block: a LevelDB that appends to it
//!   begins a block, and readers find that (`log/reader.rs`). So the length is set ahead before
//!   the first write of more than one page, which may be cut short.
//! - A record is there whole, or its header has no length and no type yet. Of a record in several
//!   blocks the first fragments may be there without the last: for a nanosecond in a mapping, for
//!   the time of a system call where it is written plainly.
//!
//! # Why it is sound
//! Nothing ever borrows from the mapping but [`MappedLog::write`], for one copy. Others may read
//! the file meanwhile, through the system; that they could also change it, or cut it while it is
//! mapped, is so for every file of a database, and kept away by its lock. A store fails (`SIGBUS`)
//! where a block of the file is missing: so blocks are reserved and pages made writable before,
//! with calls that report errors, and only on filesystems that write a reserved block in place.
//! Where a copy may share its blocks with the original, as on XFS and btrfs, a store into a
//! reserved block can need a new one: those are never mapped.
//! Wherever one of these calls fails the log goes on with plain writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Resource, getrlimit};

use super::WriteFile;
use super::ordered::{Held, is_in_one_page};
use super::retry::write_fully_at;
use crate::format::record::{BLOCK_BYTES, MAX_STORED_BYTES, SEAL, header_offsets};

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

/// How far ahead the length of a log is set that is not short.
const AHEAD_BYTES: u64 = 1 << 20;

/// Pages are made writable so many bytes at a time: few enough that no record waits for long, and
/// so many that one in some thousand waits.
const POPULATE_BYTES: usize = 512 << 10;

/// Windows begin at multiples of this, which is one of every page size there is.
const WINDOW_ALIGN: u64 = 64 << 10;

const EXT4: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;
const XFS: u32 = 0x5846_5342;

/// Filesystems (`f_type`) on which a store into a reserved block needs no other block.
const IN_PLACE: [u32; 2] = [EXT4, TMPFS];

/// Filesystems on which a length that is set ahead costs nothing.
const SPARSE: [u32; 3] = [EXT4, TMPFS, XFS];

/// A file for appending whole physical records.
#[derive(Debug)]
pub(super) struct MappedLog {
    file: File,
    position: u64,
    window: Option<Window>,
    next_window_bytes: u64,
    /// The file's length, where that was set ahead: a multiple of a block.
    reserved: u64,
    /// Whether the length may be set ahead.
    may_reserve: bool,
    /// What is left to write of a record that came in part.
    held: Held,
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

/// Type of the filesystem that `file` is on, as `fstatfs` numbers it; 0 if unknown.
#[cfg(target_os = "linux")]
fn filesystem_kind(file: &File) -> u32 {
    rustix::fs::fstatfs(file).map_or(0, |stat| stat.f_type as u32)
}

/// Other systems number filesystems differently: their logs are neither mapped nor set ahead.
#[cfg(not(target_os = "linux"))]
fn filesystem_kind(_: &File) -> u32 {
    0
}

impl Window {
    /// Makes room for a record of the largest size that is stored at `position`.
    fn populate(&mut self, position: u64) -> io::Result<()> {
        let at = (position - self.start) as usize;
        if at + MAX_STORED_BYTES > self.populated && self.populated < self.map.len() {
            let bytes = POPULATE_BYTES.min(self.map.len() - self.populated);
            uninterrupted(|| make_writable(&self.map, self.populated, bytes))?;
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
        let kind = filesystem_kind(&file);
        MappedLog {
            file,
            position: 0,
            window: None,
            next_window_bytes: FIRST_WINDOW_BYTES,
            reserved: 0,
            may_reserve: SPARSE.contains(&kind),
            held: Held::default(),
            synced: 0,
            often_synced: false,
            records: 0,
            chosen: 0,
            plain_until: if IN_PLACE.contains(&kind) { 0 } else { FOREVER },
        }
    }

    /// Stores `bytes` in the window, if they fit. The headers are completed last, from the first
    /// on: what a killed process stored in part, or others see in part, does not look like a
    /// record.
    fn store(&mut self, bytes: &[u8]) -> bool {
        let Some(window) = &mut self.window else { return false };
        if bytes.len() > MAX_STORED_BYTES || !self.held.is_empty() {
            return false;
        }
        let Some(at) = self.position.checked_sub(window.start).map(|at| at as usize) else {
            return false;
        };
        let populated = &mut window.map[..window.populated];
        let Some(place) = populated.get_mut(at..at + bytes.len()) else { return false };
        let mut stored = 0;
        for header in header_offsets(bytes, self.position) {
            let seal = header + SEAL.start;
            place[stored..seal].copy_from_slice(&bytes[stored..seal]);
            stored = header + SEAL.end;
        }
        place[stored..].copy_from_slice(&bytes[stored..]);
        for header in header_offsets(bytes, self.position) {
            let seal = header + SEAL.start;
            fence(Ordering::Release);
            let (to, from) = (place[seal..].first_chunk_mut::<4>(), bytes[seal..].first_chunk());
            if let (Some(to), Some(from)) = (to, from) {
                // A store of four bytes, which nothing interrupts.
                *to = *from;
            }
        }
        true
    }

    /// Writes `bytes` at the position through the system.
    fn write_plainly(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (position, end) = (self.position, self.position + bytes.len() as u64);
        let is_at_once = self.held.is_empty() && is_in_one_page(position, end);
        let is_ahead = !is_at_once && self.reserve(end);
        let write = |bytes: &[u8], offset| {
            write_fully_at(bytes, offset, |bytes, offset| self.file.write_at(bytes, offset))
        };
        match is_ahead || !self.held.is_empty() {
            true => self.held.write(bytes, position, write),
            false => write(bytes, position),
        }
    }

    /// Sees to it that a window is ready at the position. On failure there is none from then on.
    fn move_on(&mut self) {
        if self.position < PLAIN_BYTES {
            return;
        }
        if self.may_reserve && self.often_synced && self.position - self.synced < OFTEN_BYTES {
            self.window = None;
            self.reserve(self.position + AHEAD_BYTES / 16);
            return;
        }
        self.often_synced = false;
        if self.plain_until == FOREVER || self.position < self.plain_until {
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

    /// Sets the length ahead of `end`, to a multiple of a block: whether it is.
    fn reserve(&mut self, end: u64) -> bool {
        if end <= self.reserved || !self.may_reserve {
            return end <= self.reserved;
        }
        let ahead = if end < PLAIN_BYTES { 0 } else { AHEAD_BYTES };
        let block = BLOCK_BYTES as u64;
        let limit = file_size_limit();
        let len = (end + ahead).next_multiple_of(block).min(limit - limit % block);
        // If it cannot be, the file grows with what is written.
        self.may_reserve = end <= len && self.file.set_len(len).is_ok();
        if self.may_reserve {
            self.reserved = len;
        }
        self.may_reserve
    }

    fn open_window(&mut self) -> io::Result<()> {
        self.window = None;
        let start = self.position - self.position % WINDOW_ALIGN;
        let bytes = self.next_window_bytes;
        let map = self.map(start, bytes).inspect_err(|_| {
            // Part of it may have been reserved, and the file be longer by that.
            let _ = self.file.set_len(self.reserved.max(self.position));
        })?;
        self.reserved = self.reserved.max(start + bytes);
        self.next_window_bytes = (2 * bytes).min(MAX_WINDOW_BYTES);
        let window = self.window.insert(Window { start, map, populated: 0 });
        window.populate(self.position)
    }

    #[expect(unsafe_code, reason = "a system call for each record takes most of a put's time")]
    fn map(&self, start: u64, bytes: u64) -> io::Result<MmapMut> {
        if start + bytes > file_size_limit() {
            // Past the limit the system would send a signal that ends the process.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        uninterrupted(|| Ok(fallocate(&self.file, FallocateFlags::empty(), start, bytes)?))?;
        // SAFETY: the file belongs to this log alone and is not cut while the window is open; the
        // range is inside it. See the head of this file.
        unsafe { MmapOptions::new().offset(start).len(bytes as usize).map_mut(&self.file) }
    }
}

/// The largest file that this process may write.
fn file_size_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Calls again for as long as a signal interrupts.
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
        self.may_reserve = false;
        self.held.clear();
        self.file.set_len(len)?;
        self.reserved = 0;
        self.position = self.position.min(len);
        self.synced = self.synced.min(len);
        self.chosen = self.chosen.min(len);
        Ok(())
    }

    fn trim(&mut self) -> io::Result<bool> {
        self.window = None;
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
        // If it fails the zeros stay: they say nothing.
        let _ = self.trim();
    }
}

#[cfg(test)]
#[path = "mapped_tests.rs"]
mod tests;
