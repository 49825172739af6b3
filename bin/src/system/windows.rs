//! Windows.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsHandle;
use std::path::Path;

const ERROR_SHARING_VIOLATION: i32 = 32;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Returns the bytes of an argument in UTF-8.
///
/// # Errors
/// The argument has half of a surrogate pair, which UTF-8 cannot express.
pub fn argument_bytes(argument: &OsStr) -> Result<Cow<'_, [u8]>, String> {
    let text = argument.to_str().map(|text| Cow::Borrowed(text.as_bytes()));
    text.ok_or_else(|| "it is not Unicode, so give its bytes escaped or in hex".to_owned())
}

/// Returns the argument or path of these bytes. Bytes that are not UTF-8 are replaced.
pub fn os_string(bytes: Vec<u8>) -> OsString {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned().into(),
    }
}

/// Stdout without a buffer.
#[derive(Debug)]
pub enum RawStdout {
    /// A file or pipe, which takes any bytes.
    File(File),
    /// A console, which takes only text.
    Console {
        /// The console.
        console: io::Stdout,
        /// Bytes at the end of what was written that begin a character.
        begun: Vec<u8>,
    },
}

/// Returns stdout. A console shows a replacement character for each byte that is not text.
pub fn stdout() -> io::Result<RawStdout> {
    let console = io::stdout();
    if console.is_terminal() {
        return Ok(RawStdout::Console { console, begun: Vec::new() });
    }
    Ok(RawStdout::File(File::from(console.as_handle().try_clone_to_owned()?)))
}

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (console, begun) = match self {
            RawStdout::File(file) => return file.write(bytes),
            RawStdout::Console { console, begun } => (console, begun),
        };
        begun.extend_from_slice(bytes);
        let mut shown = 0;
        for chunk in begun.utf8_chunks() {
            console.write_all(chunk.valid().as_bytes())?;
            shown += chunk.valid().len();
            let invalid = chunk.invalid();
            let is_cut = shown + invalid.len() == begun.len() && is_beginning(invalid);
            if !invalid.is_empty() && !is_cut {
                console.write_all("\u{fffd}".as_bytes())?;
                shown += invalid.len();
            }
        }
        begun.drain(..shown);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            RawStdout::File(file) => file.flush(),
            RawStdout::Console { console, .. } => console.flush(),
        }
    }
}

/// Returns whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}

/// Calls `end` in a thread of its own at Ctrl-C, or when the console is closed.
///
/// # Errors
/// If there can be no handler.
pub fn on_interrupt(end: fn()) -> io::Result<()> {
    ctrlc::set_handler(end).map_err(io::Error::other)
}

/// Returns the width of the terminal behind `stream`; `None` if there is none.
pub fn columns(stream: &impl AsHandle) -> Option<u16> {
    let (width, _) = terminal_size::terminal_size_of(stream)?;
    Some(width.0)
}

/// Does nothing: files inherit the access rights of their directory.
pub fn is_readable_by_all<'b, 'a, 'c>(
    builder: &'b mut tempfile::Builder<'a, 'c>,
) -> &'b mut tempfile::Builder<'a, 'c> {
    builder
}

/// Returns `None`: named pipes are no files of a directory.
pub fn stream_identity(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Returns whether two paths lead to the same file, as far as their names tell.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Returns `Some(None)` if another process has the lock file at `path` open for itself; the system
/// does not report which.
pub fn lock_holder(path: &Path) -> Option<Option<u32>> {
    let opened = File::options().read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path);
    match opened {
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => Some(None),
        _ => None,
    }
}
