//! Listings of files, as LevelDB's `DumpFile` writes them.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use minikv::files::{
    BatchRecord, FileName, KeyKind, LogReader, ParsedKey, TableCursor, VersionEdit,
};
use minikv::fs::Fs;
use minikv::{BatchOp, Error, Options, Result};

use crate::border::{ErrPtr, In, State, export, pointer};
use crate::calls::Take;
use crate::env::{Calls, env};

/// Bytes as LevelDB escapes them.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| match byte {
            b' '..=b'~' => f.write_char(char::from(*byte)),
            _ => write!(f, "\\x{byte:02x}"),
        })
    }
}

/// An internal key in a MANIFEST.
struct Key<'a>(&'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ParsedKey::parse(self.0) {
            Ok(key) => {
                let kind = u8::from(key.kind == KeyKind::Value);
                write!(f, "'{}' @ {} : {kind}", Escaped(key.user_key), key.seq)
            }
            Err(_) => write!(f, "(bad){}", Escaped(self.0)),
        }
    }
}

fn batch(record: &[u8], out: &mut String) -> fmt::Result {
    let Some(sequence) = record.first_chunk().filter(|_| record.len() >= 12) else {
        return writeln!(out, "log record length {} is too small", record.len());
    };
    writeln!(out, "sequence {}", u64::from_le_bytes(*sequence))?;
    let batch = match BatchRecord::parse(record) {
        Ok(batch) => batch,
        Err(error) => return writeln!(out, "  error: {}", minikv_status::text(&error)),
    };
    for op in batch.operations() {
        match op {
            Ok(BatchOp::Put { key, value }) => {
                writeln!(out, "  put '{}' '{}'", Escaped(key), Escaped(value))?;
            }
            Ok(BatchOp::Delete { key }) => writeln!(out, "  del '{}'", Escaped(key))?,
            Err(error) => writeln!(out, "  error: {}", minikv_status::text(&error))?,
        }
    }
    Ok(())
}

fn edit(record: &[u8], out: &mut String) -> fmt::Result {
    let edit = match VersionEdit::decode(record) {
        Ok(edit) => edit,
        Err(error) => return writeln!(out, "{}", minikv_status::text(&error)),
    };
    out.push_str("VersionEdit {");
    if let Some(name) = &edit.comparator {
        write!(out, "\n  Comparator: {name}")?;
    }
    let numbers = [
        ("LogNumber", edit.log_number),
        ("PrevLogNumber", edit.prev_log_number),
        ("NextFile", edit.next_file_number),
        ("LastSeq", edit.last_seq),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            write!(out, "\n  {name}: {number}")?;
        }
    }
    for (level, key) in &edit.compact_pointers {
        write!(out, "\n  CompactPointer: {level} {}", Key(key))?;
    }
    let mut removed = edit.deleted_files.clone();
    removed.sort_unstable();
    for (level, number) in &removed {
        write!(out, "\n  RemoveFile: {level} {number}")?;
    }
    for file in &edit.new_files {
        let (smallest, largest) = (Key(&file.smallest), Key(&file.largest));
        write!(out, "\n  AddFile: {} {} {}", file.level, file.number, file.file_bytes)?;
        write!(out, " {smallest} .. {largest}")?;
    }
    out.push_str("\n}\n");
    Ok(())
}

/// Lists the records of a log or a MANIFEST, and goes on after damage.
fn records(
    fs: &dyn Fs,
    path: &Path,
    take: &mut dyn FnMut(&str),
    list: fn(&[u8], &mut String) -> fmt::Result,
) -> Result<()> {
    let file = fs.open(path).map_err(|source| Error::Io {
        op: "open",
        path: path.to_owned(),
        source: Arc::new(source),
    })?;
    let mut log = LogReader::new(file, path)?;
    loop {
        let mut text = String::new();
        match log.next() {
            Ok(Some(record)) => {
                list(record, &mut text).expect("a String takes all text");
                text.insert_str(0, &format!("--- offset {}; ", log.record_offset()));
            }
            Ok(None) => return Ok(()),
            Err(error) if error.is_corruption() => {
                text = format!("corruption: {}\n", minikv_status::text(&error));
                log.skip_damage();
            }
            Err(error) => return Err(error),
        }
        take(&text);
    }
}

fn table(fs: Arc<dyn Fs>, path: &Path, take: &mut dyn FnMut(&str)) -> Result<()> {
    let mut cursor = TableCursor::open(path, &Options::default().fs(fs))?;
    let mut moved = cursor.seek_to_first();
    while let Ok(true) = moved {
        let value = Escaped(cursor.value());
        take(&match ParsedKey::parse(cursor.key()) {
            Ok(key) => {
                let kind = if key.kind == KeyKind::Value { "val" } else { "del" };
                format!("'{}' @ {} : {kind} => '{value}'\n", Escaped(key.user_key), key.seq)
            }
            Err(_) => format!("badkey '{}' => '{value}'\n", Escaped(cursor.key())),
        });
        moved = cursor.next();
    }
    if let Err(error) = moved {
        take(&format!("iterator error: {}\n", minikv_status::text(&error)));
    }
    Ok(())
}

fn list(fs: Arc<dyn Fs>, path: &Path, take: &mut dyn FnMut(&str)) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    let refused =
        |why: &str| Err(Error::InvalidArgument { what: format!("{}: {why}", path.display()) });
    match name {
        Some(FileName::Log(_)) => records(&*fs, path, take, batch),
        Some(FileName::Manifest(_)) => records(&*fs, path, take, edit),
        Some(FileName::Table { .. }) => table(fs, path, take),
        Some(_) => refused("not a dump-able file type"),
        None => refused("unknown file type"),
    }
}

export! {
    /// Passes a listing of a file to `take`, piece by piece.
    fn cpp_list_file(
        state: State,
        calls: &Calls,
        name: In,
        target: State,
        take: Take,
        errptr: ErrPtr,
    ) {
        let mut pass = |text: &str| take(target, pointer(text.as_bytes()), text.len());
        errptr.report(list(env(state, *calls), name.path(), &mut pass));
    }
}
