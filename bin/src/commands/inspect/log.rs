//! Inspection of a write-ahead log: its batches, and the state of its end.

use std::path::Path;
use std::sync::Arc;

use minikv::BatchOp;
use minikv::files::{BatchRecord, LogReader, Tail};
use minikv::fs::{DiskFs, Fs, ReadFile};
use serde_json::{Value, json};

use super::Report;
use super::report::json_bytes;
use crate::commands::{count, thousands};
use crate::damage::Damage;
use crate::error::{CliError, Result};

/// Totals over all batches.
#[derive(Default)]
struct LogTotals {
    batches: u64,
    puts: u64,
    deletes: u64,
    first_seq: Option<u64>,
    last_seq: u64,
}

impl LogTotals {
    /// Returns the range of the operations' sequence numbers as text. If there are batches but no
    /// operations, returns the next sequence number instead.
    fn sequences(&self) -> String {
        let first = self.first_seq.unwrap_or(0);
        match self.puts + self.deletes {
            0 if self.batches == 0 => String::new(),
            0 => format!("; next sequence {first}"),
            1 => format!("; sequence {}", self.last_seq),
            _ => format!("; sequences {first} to {}", self.last_seq),
        }
    }
}

pub fn inspect(path: &Path, report: &mut Report) -> Result<()> {
    let mut totals = LogTotals::default();
    let (reader, bytes) = open(path, LogReader::of_batches)?;
    report.set("type", json!("log"));
    report.set("bytes", json!(bytes));
    report.line(format!("{}: log, {} bytes", path.display(), thousands(bytes)))?;
    report.line(format!("\n{:>12} {:>9} {:>15}  operations", "offset", "bytes", "sequence"))?;
    each_record(reader, report, |offset, record, report| {
        batch(offset, record, &mut totals, report)
    })?;
    report.line(format!(
        "{}: {}, {}{}",
        count(totals.batches, "batch", "batches"),
        count(totals.puts, "put", "puts"),
        count(totals.deletes, "delete", "deletes"),
        totals.sequences(),
    ))?;
    report.set("puts", json!(totals.puts));
    report.set("deletes", json!(totals.deletes));
    let operations = totals.puts + totals.deletes;
    let if_any = |seq| (operations > 0).then_some(seq);
    report.set("first_sequence", json!(if_any(totals.first_seq)));
    report.set("last_sequence", json!(if_any(totals.first_seq.map(|_| totals.last_seq))));
    Ok(())
}

/// Opens a log or MANIFEST with one of the constructors of its reader. Returns the reader, and the
/// length of the file in bytes.
pub fn open(
    path: &Path,
    reader: fn(Arc<dyn ReadFile>, &Path) -> minikv::Result<LogReader>,
) -> Result<(LogReader, u64)> {
    let file = DiskFs.open(path).map_err(|error| CliError::io("open", path, error))?;
    let bytes = file.len().map_err(|error| CliError::io("read", path, error))?;
    Ok((reader(file, path)?.beside_writer(true), bytes))
}

/// Visits the records of a log or MANIFEST, skips and reports damage, and reports how the file
/// ends.
pub fn each_record(
    mut reader: LogReader,
    report: &mut Report,
    mut visit: impl FnMut(u64, &[u8], &mut Report) -> Result<()>,
) -> Result<()> {
    loop {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(record)) => {
                // The record borrows the reader, so it must be copied before `record_offset` is
                // called.
                let record = record.to_vec();
                visit(reader.record_offset(), &record, report)?;
            }
            Err(error) => {
                report.damage(error)?;
                reader.skip_damage();
            }
        }
    }
    let (kind, text) = match reader.tail() {
        Tail::Clean => ("clean", "with its last record".to_string()),
        Tail::Torn { offset, bytes } => (
            "torn",
            format!("in {bytes} bytes of an incomplete record at {offset}, as after a crash"),
        ),
        Tail::Zeros { offset, bytes } => {
            ("zeros", format!("in {bytes} zeros at {offset}: allocated but not used"))
        }
    };
    report.set("tail", json!({"kind": kind, "offset": reader.valid_end()}));
    report.line(format!("\nIt ends {text}."))
}

fn batch(offset: u64, record: &[u8], totals: &mut LogTotals, report: &mut Report) -> Result<()> {
    let at = |error: minikv::Error| error.at(offset);
    let batch = match BatchRecord::parse(record) {
        Ok(batch) => batch,
        Err(error) => return report.damage(at(error)),
    };
    let seq = batch.sequence;
    let (mut puts, mut deletes) = (0, 0);
    let mut listed = Vec::new();
    let mut damage = None;
    for (i, operation) in batch.operations().enumerate() {
        match operation {
            Ok(BatchOp::Put { .. }) => puts += 1,
            Ok(BatchOp::Delete { .. }) => deletes += 1,
            Err(error) => {
                damage = Some(at(error));
                break;
            }
        }
        if let (true, Ok(operation)) = (report.entries(), &operation) {
            listed.push((seq + i as u64, *operation));
        }
    }
    totals.batches += 1;
    totals.puts += puts;
    totals.deletes += deletes;
    totals.first_seq.get_or_insert(seq);
    totals.last_seq = (seq + puts + deletes).saturating_sub(1);
    let what = format!("{}, {}", count(puts, "put", "puts"), count(deletes, "delete", "deletes"));
    report.line(format!("{offset:>12} {:>9} {seq:>15}  {what}", record.len()))?;
    for (seq, operation) in &listed {
        report.line(format!("    {}", show_operation(*seq, operation, report)))?;
    }
    let mut item = json!({
        "offset": offset,
        "bytes": record.len(),
        "sequence": seq,
        "puts": puts,
        "deletes": deletes,
    });
    if report.entries() && report.is_json() {
        item["operations"] =
            listed.iter().map(|(_, operation)| json_operation(operation)).collect();
    }
    report.push("batches", item);
    damage.map_or(Ok(()), |error| report.damage(error))
}

fn show_operation(seq: u64, operation: &BatchOp<'_>, report: &Report) -> String {
    match operation {
        BatchOp::Put { key, value } => {
            format!("{seq} put\t{}\t{}", report.show_whole(key), report.show_whole(value))
        }
        BatchOp::Delete { key } => format!("{seq} delete\t{}", report.show_whole(key)),
    }
}

fn json_operation(operation: &BatchOp<'_>) -> Value {
    match operation {
        BatchOp::Put { key, value } => {
            json!({"put": json_bytes(key), "value": json_bytes(value)})
        }
        BatchOp::Delete { key } => json!({"delete": json_bytes(key)}),
    }
}
