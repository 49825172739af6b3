//! Numbered lines of a file or of stdin.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Result};
use crate::writer::check_not_lock;

const BUFFER_BYTES: usize = 128 << 10;

/// Number of bytes of a line after which the part read so far is checked.
const CHECKED_BYTES: u64 = 64 << 10;

/// Bytes that some editors and spreadsheets put at the start of a text in UTF-8. `dump` escapes a
/// key that begins with them.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads a file, or stdin, line by line.
pub struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    is_text: bool,
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
        check_not_lock(path)?;
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
        let (is_text, line) = (true, Vec::new());
        Lines { reader, name, is_text, line, line_number: 0, bytes_read: 0, total_bytes }
    }

    /// Returns lines of any bytes: only a newline ends a line. Lines of text may end with CR LF.
    pub fn of_any_bytes(self) -> Lines {
        Lines { is_text: false, ..self }
    }

    /// Returns the input, its name and the total number of bytes, if it is known. No line must have
    /// been read. Input that begins with a NUL byte is refused: it may be endless, as /dev/zero is.
    pub fn into_parts(mut self) -> Result<(Box<dyn Read>, String, Option<u64>)> {
        match self.reader.fill_buf() {
            Ok([0, ..]) => {
                let what = format!("{} begins with a NUL byte, so it is no text", self.name);
                Err(CliError::Usage(what))
            }
            Ok(_) => Ok((Box::new(self.reader), self.name, self.total_bytes)),
            Err(source) => Err(CliError::Io { op: "read", name: self.name, source }),
        }
    }

    /// Returns the next line without its line end, or `None` after the last line. The last line of
    /// the input need not have a line end. A byte-order mark at the start of the input is left out.
    /// A line of text ends early at a NUL byte, which no format contains.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        let read = read_line(&mut *self.reader, self.is_text, &mut self.line)
            .map_err(|source| CliError::Io { op: "read", name: self.name.clone(), source })?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes_read += read;
        self.line_number += 1;
        Ok(Some(line_of(&self.line, self.is_text, self.line_number)))
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

/// Reads a line with its line end. Returns the number of bytes, which is 0 after the last line.
///
/// A long line of text is not read past a part with a NUL byte, so that endless input that is no
/// text, such as /dev/zero, is refused.
pub fn read_line(reader: &mut dyn BufRead, is_text: bool, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    loop {
        let begin = line.len();
        Read::take(&mut *reader, CHECKED_BYTES).read_until(b'\n', line)?;
        let part = &line[begin..];
        let is_last = part.len() < CHECKED_BYTES as usize || part.ends_with(b"\n");
        if is_last || is_text && part.contains(&0) {
            return Ok(line.len() as u64);
        }
    }
}

/// Returns a line without its line end and, if it is the first, without a byte-order mark.
pub fn line_of(line: &[u8], is_text: bool, number: u64) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").filter(|_| is_text).unwrap_or(line);
    line.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(line)
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
    fn lines_of_text_may_end_with_cr_lf_and_stop_at_a_nul() {
        let mut lines = Lines::of(b"a\r\n\r\nb\rc\r", "x");
        for line in [&b"a"[..], b"", b"b\rc"] {
            assert_eq!(lines.next_line().unwrap(), Some(line));
        }
        let zeros: &'static [u8] = &[0; 1 << 20];
        assert_eq!(Lines::of(zeros, "x").next_line().unwrap().unwrap().len(), 64 << 10);
        let mut lines = Lines::of(zeros, "x").of_any_bytes();
        assert_eq!(lines.next_line().unwrap().unwrap().len(), 1 << 20);
    }

    #[test]
    fn lines_are_numbered_and_a_last_end_may_lack() {
        let mut lines = Lines::of(b"a\r\n\nb", "x").of_any_bytes();
        assert_eq!(lines.next_line().unwrap(), Some(&b"a\r"[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b""[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b"b"[..]));
        assert_eq!(lines.place(), "x line 3");
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.bytes_read(), 5);
    }
}
