//! Entries read from a file or from stdin, in any format.

use std::io::{self, Chain, Read};
use std::path::PathBuf;

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::input::Lines;

/// Reads entries.
pub enum EntryReader {
    Lines(Lines, Format),
    Csv(CsvReader),
}

impl EntryReader {
    /// Opens `file`, or stdin if `file` is `None` or `-`.
    pub fn open(file: Option<&PathBuf>, format: Format) -> Result<EntryReader> {
        let lines = Lines::open(file)?;
        Ok(match format {
            Format::Csv => EntryReader::Csv(CsvReader::new(lines, &["key", "value"])?),
            format => EntryReader::Lines(lines, format),
        })
    }

    /// Returns the next entry, or `None` after the last entry.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match self {
            EntryReader::Lines(lines, format) => {
                let Some(line) = lines.next_line()? else { return Ok(None) };
                match format.decode_entry(line) {
                    Ok(entry) => Ok(Some(entry)),
                    Err(what) => Err(self.refuse(what)),
                }
            }
            EntryReader::Csv(records) => {
                let Some(fields) = records.next()? else { return Ok(None) };
                match <[_; 2]>::try_from(fields) {
                    Ok([Some(key), Some(value)]) => Ok(Some((key, value))),
                    _ => Err(self.refuse("not a key and a value")),
                }
            }
        }
    }

    /// Returns an error about the last entry read.
    pub fn refuse(&self, what: impl std::fmt::Display) -> CliError {
        CliError::Usage(format!("{}: {what}", self.place()))
    }

    /// Returns the place of the last entry in the input.
    pub fn place(&self) -> String {
        match self {
            EntryReader::Lines(lines, _) => lines.place(),
            EntryReader::Csv(records) => records.place(),
        }
    }

    /// Returns the number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        match self {
            EntryReader::Lines(lines, _) => lines.bytes_read(),
            EntryReader::Csv(records) => {
                let read = records.reader.position().byte();
                // The line end that is added does not count.
                records.total_bytes.map_or(read, |total| read.min(total))
            }
        }
    }

    /// Returns the total number of bytes, if it is known.
    pub fn total_bytes(&self) -> Option<u64> {
        match self {
            EntryReader::Lines(lines, _) => lines.total_bytes(),
            EntryReader::Csv(records) => records.total_bytes,
        }
    }
}

/// Reads records of CSV, whose first record names the columns.
pub struct CsvReader {
    reader: Reader<CsvInput>,
    name: String,
    total_bytes: Option<u64>,
    record: ByteRecord,
    /// Position in a record of each column, in the order in which the columns are returned.
    positions: Vec<usize>,
}

impl CsvReader {
    /// Reads the header, which must name `columns`, in any order. Input without a header has no
    /// records.
    pub fn new(lines: Lines, columns: &[&str]) -> Result<CsvReader> {
        let (input, name, total_bytes) = lines.into_parts()?;
        let mut builder = ReaderBuilder::new();
        let input = CsvInput::new(input);
        let reader = builder.has_headers(false).flexible(true).from_reader(input);
        let record = ByteRecord::new();
        let mut records = CsvReader { reader, name, total_bytes, record, positions: Vec::new() };
        if records.read()? {
            let header = &records.record;
            let position = |column: &&str| header.iter().position(|name| name == column.as_bytes());
            match columns.iter().map(position).collect::<Option<Vec<_>>>() {
                Some(positions) if header.len() == columns.len() => records.positions = positions,
                _ => {
                    let wanted = columns.join(",");
                    return Err(records.refuse(format!("the header is not {wanted}")));
                }
            }
        }
        Ok(records)
    }

    /// Returns the fields of the next record, or `None` after the last record. A field is `None` if
    /// the record has too few fields.
    pub fn next(&mut self) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        if !self.read()? {
            return Ok(None);
        }
        if self.record.len() > self.positions.len() {
            let (found, wanted) = (self.record.len(), self.positions.len());
            return Err(self.refuse(format!("{found} fields; the header has {wanted}")));
        }
        let field = |position: &usize| self.record.get(*position);
        let decode = |text| Format::Csv.decode(text).map_err(|what| self.refuse(what));
        let fields = self.positions.iter().map(|at| field(at).map(decode).transpose());
        fields.collect::<Result<_>>().map(Some)
    }

    fn read(&mut self) -> Result<bool> {
        let read = self.reader.read_byte_record(&mut self.record);
        let is_record = read.map_err(|error| match error.into_kind() {
            ErrorKind::Io(source) => CliError::Io { op: "read", name: self.name.clone(), source },
            kind => CliError::Usage(format!("{}: {kind:?}", self.name)),
        })?;
        if is_record && self.is_unclosed() {
            return Err(self.refuse("a quote is not closed"));
        }
        Ok(is_record)
    }

    /// Returns whether the end of the input ended the last record. Only a record with a quote that
    /// is not closed goes on after the line end that [`CsvInput`] adds.
    fn is_unclosed(&self) -> bool {
        self.reader.get_ref().is_at_end
    }

    /// Returns an error about the last record read.
    pub fn refuse(&self, what: impl std::fmt::Display) -> CliError {
        CliError::Usage(format!("{}: {what}", self.place()))
    }

    /// Returns the place of the last record in the input.
    pub fn place(&self) -> String {
        // The position of a record is that of the end of the record before it. Empty lines may be
        // between the two, and so may the second half of CR LF.
        let end = self.reader.position();
        let within = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count();
        let is_behind_line_end =
            !self.is_unclosed() && self.reader.get_ref().byte_before(end.byte()) == Some(b'\n');
        let line = end.line().saturating_sub(within as u64 + u64::from(is_behind_line_end));
        format!("{} line {line}", self.name)
    }
}

/// The input of a [`CsvReader`], with a line end added.
struct CsvInput {
    input: Chain<Box<dyn Read>, &'static [u8]>,
    /// The bytes of the last read that returned any.
    last: Vec<u8>,
    /// Total number of bytes read.
    bytes: u64,
    is_at_end: bool,
}

impl CsvInput {
    fn new(input: Box<dyn Read>) -> CsvInput {
        CsvInput { input: input.chain(&b"\n"[..]), last: Vec::new(), bytes: 0, is_at_end: false }
    }

    /// Returns the byte before `offset`, if the last read returned it.
    fn byte_before(&self, offset: u64) -> Option<u8> {
        let back = self.bytes.checked_sub(offset)?;
        let at = self.last.len().checked_sub(usize::try_from(back).ok()? + 1)?;
        self.last.get(at).copied()
    }
}

impl Read for CsvInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buf)?;
        self.is_at_end = read == 0;
        if read > 0 {
            self.last.clear();
            self.last.extend_from_slice(&buf[..read]);
            self.bytes += read as u64;
        }
        Ok(read)
    }
}

#[cfg(test)]
impl EntryReader {
    /// Returns the entries of `text`.
    pub fn of(text: &'static [u8], format: Format) -> EntryReader {
        let lines = Lines::of(text, "text");
        match format {
            Format::Csv => EntryReader::Csv(CsvReader::new(lines, &["key", "value"]).unwrap()),
            format => EntryReader::Lines(lines, format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &'static [u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut reader = EntryReader::of(text, Format::Csv);
        std::iter::from_fn(|| reader.next().unwrap()).collect()
    }

    #[test]
    fn every_byte_string_comes_back_from_csv() {
        let mut strings: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        strings.extend((0..=255).map(|byte| vec![b'a', byte, b'"', byte, b'\n', byte]));
        strings.extend(
            [&b""[..], b"base64:", b"base64:AA==", b" a ", b"\r\n", b"\"\"", b"#"].map(Vec::from),
        );
        let mut text = b"key,value\n".to_vec();
        for bytes in &strings {
            Format::Csv.encode_entry(bytes, bytes, &mut text);
        }
        let read = entries(text.leak());
        assert_eq!(read.len(), strings.len());
        for ((key, value), bytes) in read.iter().zip(&strings) {
            assert_eq!((key, value), (bytes, bytes));
        }
    }

    #[test]
    fn csv_of_other_programs_is_read() {
        let text = b"\xef\xbb\xbfvalue,key\r\n\"1,\n2\",a\r\n\r\nC:\\new,\xc3\xa9";
        let of = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(entries(text), [of("a", "1,\n2"), of("é", "C:\\new")]);
        assert_eq!(entries(b""), []);
    }

    #[test]
    fn a_bad_record_is_refused_with_its_line() {
        let refused = |text: &'static [u8]| {
            let mut reader = EntryReader::of(text, Format::Csv);
            reader.next().unwrap();
            reader.next().unwrap_err().message().unwrap()
        };
        assert_eq!(refused(b"key,value\n\"a\n\",b\nc\n"), "text line 4: not a key and a value");
        let three = "text line 3: 3 fields; the header has 2";
        assert_eq!(refused(b"key,value\na,b\nc,d,e\n"), three);
        let base64 = refused(b"key,value\na,b\nc,base64:=\n");
        assert!(base64.starts_with("text line 3: base64: "), "{base64}");
        let header = CsvReader::new(Lines::of(b"id,value\n1,2\n", "text"), &["key", "value"]);
        let header = header.err().unwrap().message().unwrap();
        assert_eq!(header, "text line 1: the header is not key,value");
    }

    /// Returns the message about the first record of `text` that is refused, or `none`.
    fn first_refusal(text: String) -> String {
        let lines = Lines::of(text.leak().as_bytes(), "text");
        let mut records = match CsvReader::new(lines, &["key", "value"]) {
            Ok(records) => records,
            Err(error) => return error.message().unwrap(),
        };
        loop {
            match records.next() {
                Ok(Some(fields)) if fields.iter().all(Option::is_some) => {}
                Ok(Some(_)) => return records.refuse("a field is missing").message().unwrap(),
                Ok(None) => return "none".to_string(),
                Err(error) => return error.message().unwrap(),
            }
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_refused_with_the_line_where_its_record_begins() {
        let begins = [
            ("", 1, "\"key,value"),
            ("key,value\n", 2, "a,\"1"),
            ("key,value\na,\"1\n2\"\n", 4, "b,\""),
            ("key,value\n\n\na,b\n", 5, "\"c"),
            ("key,value\r\na,\"b\r\n\"\r\n\r\n", 5, "c,\"d\"\""),
            ("key,value\ra,b\r", 1, "c,\"d"),
        ];
        let commas = ",".repeat(9000);
        let rests = ["", "\n", "\r\n", "\nb,2\nc,3\n", "\r\nb,2\r\n\r\n", "\n\"\"", &commas];
        for (before, line, begin) in begins {
            for rest in rests {
                let refused = first_refusal(format!("{before}{begin}{rest}"));
                let expected = format!("text line {line}: a quote is not closed");
                assert_eq!(refused, expected, "{begin:?} and {rest:?}");
            }
        }
        for sound in ["\"1\"", "\"1\"\r", "\"1\"\"\"", "\"\"", "b\"c", "\"b\"c\"", "b\"\n\n"] {
            assert_eq!(first_refusal(format!("key,value\na,{sound}")), "none", "{sound:?}");
        }
    }

    #[test]
    fn the_line_of_a_record_counts_every_line_end_before_it() {
        // With these lengths, records end at every place of a part of the input.
        for padding in 0..20 {
            for end in ["\n", "\r\n", "\n\r\n\n"] {
                let records = format!("a,\"\n\"{end}").repeat(3000);
                let before = format!("key,value{end}{},b{end}{records}", "x".repeat(padding));
                let line = 1 + before.matches('\n').count();
                for last in ["c", "c\r", "c\n", "c\r\nd,e"] {
                    let expected = format!("text line {line}: a field is missing");
                    assert_eq!(first_refusal(format!("{before}{last}")), expected);
                }
            }
        }
    }
}
