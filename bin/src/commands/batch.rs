//! `minikv batch [FILE]`

use std::collections::HashMap;
use std::path::PathBuf;

use minikv::{Db, WriteBatch, WriteOptions};
use serde_json::value::RawValue;

use super::count;
use crate::args::Global;
use crate::codec::Format;
use crate::entry_reader::CsvReader;
use crate::error::{CliError, Result};
use crate::input::Lines;
use crate::key_check::KeyCheck;
use crate::keyspace::{InKeyspace, Target};
use crate::output::Stdout;

/// Apply operations in atomic batches
///
/// Reads one operation per line, its fields separated by one TAB, its key and value in --format:
/// `put KEY VALUE`, `delete KEY`, or `commit`, which ends a batch. The end of the input also ends a
/// batch. With --format json, lines can also be {"put":KEY,"value":VALUE}, {"delete":KEY} and
/// {"commit":true}; VALUE may be any JSON. CSV begins with the line operation,key,value.
///
/// A batch is applied whole or not at all. After each batch, prints `committed N`, where N is its
/// number of operations. An invalid line stops the command (exit code 2): earlier batches stay, and
/// the batch with the invalid line is not applied. If stdout is closed, batches are still applied.
/// Creates the database if there is none.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to read [default: stdin, also `-`]
    file: Option<PathBuf>,
    /// Print `committed N` only once the batch would survive a loss of power
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    keyspace: InKeyspace,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let name = args.keyspace.name(global)?;
    let mut operations = Operations::open(&args, global.format())?;
    let db = super::open(global, true)?;
    let mut committer = Committer {
        db: &db,
        target: name.of_writer(&db)?,
        check: KeyCheck::new(global.comparator(db.path())?),
        options: WriteOptions::default().sync(args.sync),
        batch: WriteBatch::new(),
        batches: 0,
        stdout: Stdout::open_to_go_on()?,
    };
    match committer.read(&mut operations) {
        Ok(()) => db.close(),
        Err(error) => {
            let batches = count(committer.batches, "batch", "batches");
            Err(error.after(format!("kept {batches} before it")))
        }
    }
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Commit,
}

impl Line {
    fn parse(line: &[u8], format: Format) -> Result<Line, String> {
        if format == Format::Json && line.starts_with(b"{") {
            return Line::parse_object(line);
        }
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        let key = |text| format.decode(text).map_err(|what| format!("key: {what}"));
        match fields[..] {
            [b"put", k, v] => {
                let value = format.decode_value(v).map_err(|what| format!("value: {what}"))?;
                Ok(Line::Put(key(k)?, value))
            }
            [b"delete", k] => Ok(Line::Delete(key(k)?)),
            [b"commit"] => Ok(Line::Commit),
            _ => Err("not put<TAB>KEY<TAB>VALUE, delete<TAB>KEY or commit".to_string()),
        }
    }

    /// Parses a JSON object in the format that `inspect --json --entries` prints for operations.
    fn parse_object(line: &[u8]) -> Result<Line, String> {
        let object: HashMap<String, &RawValue> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let field = |name| object.get(name).map(|json| json.get().as_bytes());
        let key = |text| Format::Json.decode(text);
        match (object.len(), field("put"), field("value"), field("delete"), field("commit")) {
            (2, Some(k), Some(v), _, _) => Ok(Line::Put(key(k)?, Format::Json.decode_value(v)?)),
            (1, _, _, Some(k), _) => Ok(Line::Delete(key(k)?)),
            (1, _, _, _, Some(b"true")) => Ok(Line::Commit),
            _ => Err("not {\"put\":KEY,\"value\":VALUE}, {\"delete\":KEY} or {\"commit\":true}"
                .to_string()),
        }
    }
}

impl Line {
    /// Returns the operation in the fields `operation`, `key` and `value` of CSV.
    fn of_fields(fields: Vec<Option<Vec<u8>>>) -> Result<Line, String> {
        let mut fields = fields.into_iter();
        let mut field = || fields.next().flatten();
        let (operation, key, value) = (field(), field(), field());
        let is_empty = |field: &Option<Vec<u8>>| field.as_ref().is_none_or(Vec::is_empty);
        match (operation.as_deref(), key, value) {
            (Some(b"put"), Some(key), Some(value)) => Ok(Line::Put(key, value)),
            (Some(b"delete"), Some(key), value) if is_empty(&value) => Ok(Line::Delete(key)),
            (Some(b"commit"), key, value) if is_empty(&key) && is_empty(&value) => Ok(Line::Commit),
            _ => Err("not put,KEY,VALUE or delete,KEY or commit".to_string()),
        }
    }
}

/// Reads operations.
enum Operations {
    Lines(Lines, Format),
    Csv(CsvReader),
}

impl Operations {
    fn open(args: &Args, format: Format) -> Result<Operations> {
        let lines = Lines::open(args.file.as_ref())?;
        Ok(match format {
            Format::Csv => Operations::Csv(CsvReader::new(lines, &["operation", "key", "value"])?),
            format => Operations::Lines(lines, format),
        })
    }

    /// Returns the place of the last operation in the input.
    fn place(&self) -> String {
        match self {
            Operations::Lines(lines, _) => lines.place(),
            Operations::Csv(records) => records.place(),
        }
    }

    /// Returns the next operation, or `None` at the end.
    fn next(&mut self) -> Result<Option<Line>> {
        let refused = |what: &String| format!("{what}; its batch is not applied");
        match self {
            Operations::Lines(lines, format) => {
                let Some(line) = lines.next_line()? else { return Ok(None) };
                Line::parse(line, *format).map(Some).map_err(|what| {
                    CliError::Usage(format!("{}: {}", lines.place(), refused(&what)))
                })
            }
            Operations::Csv(records) => {
                let Some(fields) = records.next()? else { return Ok(None) };
                let line = Line::of_fields(fields).map(Some);
                line.map_err(|what| records.refuse(refused(&what)))
            }
        }
    }
}

struct Committer<'a> {
    db: &'a Db,
    target: Target,
    check: KeyCheck,
    options: WriteOptions,
    batch: WriteBatch,
    /// Number of batches applied.
    batches: u64,
    stdout: Stdout,
}

impl Committer<'_> {
    fn read(&mut self, operations: &mut Operations) -> Result<()> {
        while let Some(operation) = operations.next()? {
            match operation {
                Line::Put(key, value) => {
                    self.check.check(&key, || operations.place());
                    self.target.put(&mut self.batch, &key, &value);
                }
                Line::Delete(key) => self.target.delete(&mut self.batch, &key),
                Line::Commit => self.commit()?,
            }
        }
        if self.batch.is_empty() { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let operations = batch.len();
        self.db.writing(self.options).write(batch)?;
        self.batches += 1;
        self.stdout.line(format!("committed {operations}"))?;
        self.stdout.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_operations_in_each_format() {
        let put = Ok(Line::Put(b"a".to_vec(), b"\0".to_vec()));
        assert_eq!(Line::parse(b"put\ta\t\\x00", Format::Escaped), put);
        assert_eq!(Line::parse(b"put\t61\t00", Format::Hex), put);
        assert_eq!(Line::parse(b"put\t\"a\"\t\"\\u0000\"", Format::Json), put);
        let object = |line: &[u8]| Line::parse(line, Format::Json);
        assert_eq!(object(br#"{"put":"a","value":{"base64":"AA=="}}"#), put);
        assert_eq!(object(br#"{"delete":"a"}"#), Ok(Line::Delete(b"a".to_vec())));
        assert_eq!(object(br#"{"commit":true}"#), Ok(Line::Commit));
        assert!(object(br#"{"put":"a"}"#).unwrap_err().starts_with("not {"));
        assert!(object(br#"{"put":1,"value":"b"}"#).is_err());
        assert_eq!(Line::parse(b"delete\t", Format::Escaped), Ok(Line::Delete(Vec::new())));
        assert_eq!(Line::parse(b"commit", Format::Escaped), Ok(Line::Commit));
        for bad in [&b""[..], b"put\ta", b"put\ta\tb\tc", b"delete", b"commit\t", b"PUT\ta\tb"] {
            let what = Line::parse(bad, Format::Escaped).unwrap_err();
            assert!(what.starts_with("not put"), "{bad:?}: {what}");
        }
        assert!(Line::parse(b"delete\t\\q", Format::Escaped).unwrap_err().starts_with("key: "));
    }
}
