//! Windows.
//!
//! No directory can be synced: a renamed file is written through instead, and NTFS's journal keeps
//! names in the order in which they were made. No log is mapped, because no call reserves space for
//! sure. There are no modes: files inherit the access rights of their directory.

mod files;
mod lock;
mod space;

pub(in crate::fs) use files::{
    create_dirs, has_other_names, identity, identity_of, max_open_files, not_through_links,
    read_at, remove, rename, skip_hole, sync_dir, write_at,
};
pub(in crate::fs) use lock::{lock_is_replaced, open_lock, release_lock, take_lock};
pub(in crate::fs) use space::{
    file_size_limit, filesystem_kind, forbid, make_writable, map_file, page_bytes, reserve_space,
};

/// An error number of the system, by the name of its counterpart on Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Errno(i32);

#[allow(dead_code, reason = "some are injected by tests only")]
impl Errno {
    pub(in crate::fs) const NOENT: Errno = Errno(2);
    pub(in crate::fs) const MFILE: Errno = Errno(4);
    pub(in crate::fs) const ACCESS: Errno = Errno(5);
    pub(in crate::fs) const PERM: Errno = Errno(5);
    pub(in crate::fs) const ROFS: Errno = Errno(19);
    pub(in crate::fs) const INVAL: Errno = Errno(87);
    pub(in crate::fs) const NOSPC: Errno = Errno(112);
    pub(in crate::fs) const NOTEMPTY: Errno = Errno(145);
    pub(in crate::fs) const BUSY: Errno = Errno(170);
    pub(in crate::fs) const EXIST: Errno = Errno(183);
    pub(in crate::fs) const FBIG: Errno = Errno(223);
    pub(in crate::fs) const NOTDIR: Errno = Errno(267);
    pub(in crate::fs) const ISDIR: Errno = Errno(336);
    pub(in crate::fs) const IO: Errno = Errno(1117);
    /// No call of files is interrupted, so the number is that of sockets.
    pub(in crate::fs) const INTR: Errno = Errno(10004);

    pub(in crate::fs) fn raw_os_error(self) -> i32 {
        self.0
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

/// Returns the error with the system's number `code`.
#[cfg(any(test, feature = "sim"))]
pub(in crate::fs) fn os_error(code: i32) -> std::io::Error {
    match code {
        code if code == Errno::INTR.0 => std::io::ErrorKind::Interrupted.into(),
        code => std::io::Error::from_raw_os_error(code),
    }
}

/// Does nothing: threads keep their priority.
pub(crate) fn lower_priority(_: i32) {}

#[cfg(test)]
mod tests;
