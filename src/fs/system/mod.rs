//! The room for what differs between operating systems. Each system has a module of the same
//! functions; the rest of the library calls them and asks for no system.
//!
//! | function | Unix | Windows |
//! | --- | --- | --- |
//! | `not_through_links` | `O_NOFOLLOW`, mode 0600 | `FILE_FLAG_OPEN_REPARSE_POINT` |
//! | `identity`, `identity_of` | device and inode | serial number of the volume, and file index |
//! | `open_lock`, `take_lock`, `release_lock` | `fcntl` and `flock` | share mode and `LockFileEx` |
//! | `lock_is_replaced` | another identity | never: nobody can remove the file |
//! | `rename`, `remove` | one system call | retried while another process has the file open |
//! | `sync_dir` | `fsync` of the directory | a check only: there is no such call |
//! | `reserve_space`, `make_writable` | of Linux; else refused | refused, so no log is mapped |
//! | `forbid` | `mprotect` | refused |
//! | `map_file` | `mmap`, with addresses of 64 bits; else refused | refused |

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Returns the part of `buf` that a read at `offset` may fill. To the systems, offsets are signed
/// numbers of 64 bits: no file has bytes beyond the largest one, and a call refuses to read there,
/// or takes the offset for something else.
fn readable_part(buf: &mut [u8], offset: u64) -> &mut [u8] {
    let left = i64::MAX.unsigned_abs().saturating_sub(offset);
    let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    &mut buf[..len]
}

/// The identity of a file: two numbers that no other existing file has. Two paths to the same file
/// have the same identity.
pub(super) type FileIdentity = (u64, u64);
