//! Unix: Linux, macOS and the BSDs.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
pub use std::fs::File as RawStdout;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Returns the bytes of an argument, which may be any.
///
/// # Errors
/// None on this system.
pub fn argument_bytes(argument: &OsStr) -> Result<Cow<'_, [u8]>, String> {
    Ok(Cow::Borrowed(argument.as_bytes()))
}

/// Returns the argument or path of these bytes.
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// Returns stdout without a buffer and without a search for line ends.
pub fn stdout() -> io::Result<RawStdout> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Calls `end` in a thread of its own at Ctrl-C, SIGTERM or SIGHUP.
///
/// # Errors
/// If there can be no handler or no thread.
pub fn on_interrupt(end: fn()) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || signals.forever().for_each(|_| end());
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// Returns the width of the terminal behind `stream`, which may be 0 for one that does not report
/// it; `None` if there is no terminal.
pub fn columns(stream: &impl AsFd) -> Option<u16> {
    Some(rustix::termios::tcgetwinsize(stream).ok()?.ws_col)
}

/// Makes the files of `builder` readable for all, as far as the process allows new files to be.
pub fn is_readable_by_all<'b, 'a, 'c>(
    builder: &'b mut tempfile::Builder<'a, 'c>,
) -> &'b mut tempfile::Builder<'a, 'c> {
    builder.permissions(Permissions::from_mode(0o666))
}

/// Returns an identity of the named pipe or socket at `path`; `None` for other files. The path `-`
/// means stdin.
pub fn stream_identity(path: &Path) -> Option<(u64, u64)> {
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
    let metadata = path.metadata().ok()?;
    let kind = metadata.file_type();
    (kind.is_fifo() || kind.is_socket()).then(|| (metadata.dev(), metadata.ino()))
}

/// Returns whether two paths lead to the same file, which is not opened.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns the process that holds the lock on the file at `path`: `None` if nobody holds it, and
/// `Some(None)` if the system does not report who does.
///
/// A `flock` lock, the only lock that goleveldb takes, is detected only on Linux.
pub fn lock_holder(path: &Path) -> Option<Option<u32>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    if let Ok(Some(lock)) = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
        // The process id is 0 for a process outside the pid namespace of this process.
        return Some(lock.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()));
    }
    flock_holder(&file)
}

/// Returns the process that holds a `flock` lock on the file, according to Linux's list of locks. A
/// line of the list is `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`.
#[cfg(target_os = "linux")]
fn flock_holder(file: &File) -> Option<Option<u32>> {
    let metadata = file.metadata().ok()?;
    let (dev, ino) = (metadata.dev(), metadata.ino());
    let name = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file == name => Some(pid.parse().ok()),
            _ => None,
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn flock_holder(_: &File) -> Option<Option<u32>> {
    None
}
