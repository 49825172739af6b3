//! Windows. The standard library reaches no console of another process, so that there is neither a
//! terminal for a command nor an interrupt; and pipes have no names in directories.

use std::fs::File;
use std::io;
pub use std::os::windows::fs::symlink_file as symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command};

use super::Interrupt;

/// A terminal in which a command can be run.
#[expect(dead_code, reason = "none can be opened")]
pub struct Terminal {
    screen: File,
}

impl Terminal {
    /// Always fails.
    pub fn open(_: Option<u16>) -> io::Result<Terminal> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the outer end.
    pub fn screen(&self) -> &File {
        &self.screen
    }

    /// Starts a command.
    pub fn run(self, command: &mut Command, _: bool) -> (Child, File) {
        (command.spawn().unwrap(), self.screen)
    }
}

/// Always fails.
pub fn interrupt(_: &Child, _: Interrupt) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always fails.
pub fn make_pipe(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always fails.
pub fn unread_bytes(_: &ChildStdout) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always fails.
pub fn has_record_lock(_: &Path) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
