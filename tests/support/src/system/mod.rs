//! The room for what differs between operating systems in tests. Each system has a module of the
//! same functions. A test that needs what a system lacks fails there; `tests/windows` lists these
//! tests with the reasons.

use std::path::PathBuf;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// Returns the folder for small files that need not outlive the system: in memory, if there is one.
pub fn fast_folder() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}
