//! Unix: Linux, macOS and the BSDs.

use std::fs::File;
use std::io;
pub use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::io::ioctl_fionread;
use rustix::process::{Flock, FlockType, Pid, Signal, fcntl_getlk, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Interrupt;

/// A terminal in which a command can be run.
pub struct Terminal {
    screen: File,
    inner: File,
}

impl Terminal {
    /// Opens a terminal, which has as many columns if that is given, and reports no size otherwise.
    pub fn open(columns: Option<u16>) -> io::Result<Terminal> {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&screen)?;
        unlockpt(&screen)?;
        let name = ptsname(&screen, Vec::new())?.into_string().map_err(io::Error::other)?;
        let inner = File::options().read(true).write(true).open(name)?;
        if let Some(ws_col) = columns {
            tcsetwinsize(&inner, Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
        }
        Ok(Terminal { screen: File::from(screen), inner })
    }

    /// Returns the outer end: writes to it are typed, and reads from it are what is shown.
    pub fn screen(&self) -> &File {
        &self.screen
    }

    /// Starts a command whose stdout and stderr are the terminal, and whose stdin is, too, or is
    /// empty. A read from the screen, which is returned, ends when the command has ended.
    pub fn run(self, command: &mut Command, is_typed: bool) -> (Child, File) {
        let end = || Stdio::from(self.inner.try_clone().unwrap());
        let stdin = if is_typed { end() } else { Stdio::null() };
        let child = command.stdin(stdin).stdout(end()).stderr(end()).spawn().unwrap();
        // The read from the screen ends when no process has the terminal open. From here on, only
        // the child has it open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        (child, self.screen)
    }
}

/// Asks a command to end.
pub fn interrupt(child: &Child, how: Interrupt) -> io::Result<()> {
    let signal = match how {
        Interrupt::ByUser => Signal::INT,
        Interrupt::ByProgram => Signal::TERM,
    };
    Ok(kill_process(Pid::from_child(child), signal)?)
}

/// Makes a named pipe.
pub fn make_pipe(path: &Path) -> io::Result<()> {
    match Command::new("mkfifo").arg(path).status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("mkfifo failed")),
    }
}

/// Returns the number of bytes that wait in a pipe.
pub fn unread_bytes(pipe: &ChildStdout) -> io::Result<u64> {
    Ok(ioctl_fionread(pipe)?)
}

/// Returns whether another process holds an `fcntl` lock on a file.
pub fn has_record_lock(path: &Path) -> io::Result<bool> {
    let file = File::options().read(true).write(true).open(path)?;
    Ok(fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))?.is_some())
}
