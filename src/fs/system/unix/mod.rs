//! Unix: Linux, macOS and the BSDs.

mod files;
mod lock;
mod space;

pub(in crate::fs) use files::{
    create_dirs, has_other_names, identity, identity_of, max_open_files, not_through_links,
    read_at, remove, rename, skip_hole, sync_dir, write_at,
};
pub(in crate::fs) use lock::{lock_is_replaced, open_lock, release_lock, take_lock};
pub(in crate::fs) use rustix::io::Errno;
pub(in crate::fs) use space::{
    file_size_limit, filesystem_kind, forbid, make_writable, map_file, page_bytes, reserve_space,
};

/// Returns the error with the system's number `code`.
#[cfg(any(test, feature = "sim"))]
pub(in crate::fs) fn os_error(code: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(code)
}

/// Lowers the priority of the calling thread, so that with few cores background work is slowed down
/// rather than reads and writes. Does nothing on systems other than Linux, because on those systems
/// the call would lower the priority of the whole process.
pub(crate) fn lower_priority(nice: i32) {
    #[cfg(target_os = "linux")]
    // If the system refuses, the thread keeps its priority.
    let _ = rustix::process::nice(nice);
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}
