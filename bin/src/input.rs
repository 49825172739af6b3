//! Numbered lines of a file or of stdin.

use std::fs::File;
use std::io::{
    BufRead, BufReader, Read, {self},
};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Result};

const BUFFER_BYTES: usize = 128 << 10;

/// Bytes that some editors and spreadsheets put at the start of a text in UTF-8. `dump` escapes a
/// key that begins with them.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads a file, or stdin, line by line.
pub struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    line: Vec<u8>,
    line_number: u64,
    bytes_read: u64,
    total_bytes: Option<u64>,
}

impl Lines {
    /// Opens `file`, or stdin if `file` is `None` or `-`.
    pub fn open(file: Option<&PathBuf>) -> Result<Lines> {
        match file.filter(|path| path.as_os_str() != "-") {
            None => Ok(Lines::new(Box::new(io::stdin().lock()), "stdin".to_string(), None)),
            Some(path) => Lines::open_file(path),
        }
    }

    fn open_file(path: &Path) -> Result<Lines> {
        let file = File::open(path).map_err(|error| CliError::io("open", path, error))?;
        let metadata = file.metadata().map_err(|error| CliError::io("read", path, error))?;
        let total_bytes = metadata.is_file().then_some(metadata.len());
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Lines::new(Box::new(reader), path.display().to_string(), total_bytes))
    }

    /// Returns the lines of `bytes`.
    pub fn of(bytes: &'static [u8], name: &str) -> Lines {
        Lines::new(Box::new(bytes), name.to_string(), Some(bytes.len() as u64))
    }

    fn new(reader: Box<dyn BufRead>, name: String, total_bytes: Option<u64>) -> Lines {
        Lines { reader, name, line: Vec::new(), line_number: 0, bytes_read: 0, total_bytes }
    }

    /// Returns the input, its name and the total number of bytes, if it is known. No line must have
    /// been read.
    pub fn into_parts(self) -> (Box<dyn Read>, String, Option<u64>) {
        (Box::new(self.reader), self.name, self.total_bytes)
    }

    /// Returns the next line without its line end, or `None` after the last line. The last line of
    /// the input need not have a line end. A byte-order mark at the start of the input is left out.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        let read = self
            .reader
            .read_until(b'\n', &mut self.line)
            .map_err(|source| CliError::Io { op: "read", name: self.name.clone(), source })?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes_read += read as u64;
        self.line_number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line_number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(&self.line))
    }

    /// Returns the location of the last line read, for messages: `entries.tsv line 7`.
    pub fn place(&self) -> String {
        format!("{} line {}", self.name, self.line_number)
    }

    /// Returns the number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Returns the total number of bytes, if it is known.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_at_the_start_is_left_out() {
        let mut lines = Lines::of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb", "x");
        assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b"\xef\xbb\xbfb"[..]));
        assert_eq!(lines.bytes_read(), 9);
    }

    #[test]
    fn lines_are_numbered_and_a_last_end_may_lack() {
        let mut lines = Lines::of(b"a\r\n\nb", "x");
        assert_eq!(lines.next_line().unwrap(), Some(&b"a\r"[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b""[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b"b"[..]));
        assert_eq!(lines.place(), "x line 3");
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.bytes_read(), 5);
    }
}
