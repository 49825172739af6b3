//! The room for what differs between operating systems in the tests of the command. Each system has
//! a module of the same items. A test that needs one that a system lacks fails there;
//! `tests/windows` lists these tests with the reasons.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{Terminal, has_record_lock, interrupt, make_pipe, symlink, unread_bytes};
#[cfg(windows)]
pub use windows::{Terminal, has_record_lock, interrupt, make_pipe, symlink, unread_bytes};

/// The ways to interrupt a command.
#[derive(Clone, Copy, Debug)]
pub enum Interrupt {
    /// As Ctrl-C does.
    ByUser,
    /// As another program does.
    ByProgram,
}
