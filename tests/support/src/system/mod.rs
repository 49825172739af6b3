//! The room for what differs between operating systems in tests. Each system has a module of the
//! same functions. A test that needs what a system lacks fails there; `tests/windows` lists these
//! tests with the reasons.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
