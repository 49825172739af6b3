//! Space that is reserved ahead of a log's records, pages that are made writable, and mapped
//! tables.

use std::fs::File;
use std::io;

use memmap2::{MmapMut, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MprotectFlags, mprotect};
use rustix::process::{Resource, getrlimit};

/// Reserves blocks of the disk for `bytes` bytes from `start` on. Makes the file longer if it ends
/// before them.
pub(in crate::fs) fn reserve_space(file: &File, start: u64, bytes: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), start, bytes)?)
}

/// Returns the size of the largest file that this process may write, in bytes. Growing a file past
/// it raises a signal that ends the process.
pub(in crate::fs) fn file_size_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Makes pages writable, so that a store to them cannot fail.
#[cfg(target_os = "linux")]
pub(in crate::fs) fn make_writable(map: &MmapMut, from: usize, bytes: usize) -> io::Result<()> {
    map.advise_range(memmap2::Advice::PopulateWrite, from, bytes)
}

/// Always fails: other systems have no call that reports an error where a store would raise a
/// signal.
#[cfg(not(target_os = "linux"))]
pub(in crate::fs) fn make_writable(_: &MmapMut, _: usize, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Maps a whole file for reading.
#[cfg(target_pointer_width = "64")]
pub(in crate::fs) fn map_file(file: &File) -> io::Result<MmapRaw> {
    memmap2::MmapOptions::new().map_raw_read_only(file)
}

/// Always fails: a process has too few addresses for the tables of a large database.
#[cfg(not(target_pointer_width = "64"))]
pub(in crate::fs) fn map_file(_: &File) -> io::Result<MmapRaw> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the size of a page of memory, in bytes.
pub(in crate::fs) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Makes the first `bytes` bytes of a mapping inaccessible: a load or store there ends the process.
#[expect(unsafe_code, reason = "records are protected from stray writes by the program")]
pub(in crate::fs) fn forbid(map: &mut MmapMut, bytes: usize) -> io::Result<()> {
    assert!(bytes <= map.len(), "{bytes} bytes of a mapping of {}", map.len());
    // SAFETY: these pages belong to the mapping. Its owner borrows no byte of them from now on.
    unsafe { mprotect(map.as_mut_ptr().cast(), bytes, MprotectFlags::empty()) }?;
    Ok(())
}

/// Returns the type of the filesystem of `file`, as `fstatfs` numbers it; 0 if unknown.
#[cfg(target_os = "linux")]
pub(in crate::fs) fn filesystem_kind(file: &File) -> u32 {
    rustix::fs::fstatfs(file).map_or(0, |stat| stat.f_type as u32)
}

/// Returns 0: other systems number filesystems differently, so logs are neither mapped nor extended
/// ahead of their records there.
#[cfg(not(target_os = "linux"))]
pub(in crate::fs) fn filesystem_kind(_: &File) -> u32 {
    0
}
