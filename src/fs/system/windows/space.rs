//! Space ahead of a log's records: none is reserved, so that no log is mapped.

use std::fs::File;
use std::io;

use memmap2::{MmapMut, MmapRaw};

/// Always fails: an allocation may be given up again before it is written.
pub(in crate::fs) fn reserve_space(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the largest number: the system limits no process.
pub(in crate::fs) fn file_size_limit() -> u64 {
    u64::MAX
}

/// Always fails: no call reports an error where a store would raise an exception.
pub(in crate::fs) fn make_writable(_: &MmapMut, _: usize, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always fails: the name of a mapped file cannot be removed.
pub(in crate::fs) fn map_file(_: &File) -> io::Result<MmapRaw> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the size of a page of memory, in bytes.
pub(in crate::fs) fn page_bytes() -> u64 {
    4 << 10
}

/// Always fails: no log is mapped.
pub(in crate::fs) fn forbid(_: &mut MmapMut, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns 0, which stands for a filesystem of an unknown type.
pub(in crate::fs) fn filesystem_kind(_: &File) -> u32 {
    0
}
