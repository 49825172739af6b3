//! Inspection of a MANIFEST: its version edits, and the version that results from them.

use std::collections::BTreeMap;
use std::path::Path;

use minikv::files::{LogReader, NewFile, VersionEdit};
use serde_json::{Value, json};

use super::Report;
use super::log::{each_record, open};
use super::report::json_internal_key;
use crate::commands::{count, size, thousands};
use crate::damage::Damage;
use crate::error::Result;

/// Sizes of tables in bytes, by level and table number.
type Live = BTreeMap<(usize, u64), u64>;

pub fn inspect(path: &Path, report: &mut Report) -> Result<()> {
    report.set("type", json!("manifest"));
    report.line(format!("{}: MANIFEST\n", path.display()))?;
    let mut live = Live::new();
    let (reader, bytes) = open(path, LogReader::new)?;
    report.set("bytes", json!(bytes));
    each_record(reader, report, |offset, record, report| match VersionEdit::decode(record) {
        Ok(edit) => {
            apply(&edit, &mut live);
            report.push("edits", json_edit(offset, &edit));
            show_edit(offset, &edit, report)
        }
        Err(error) => report.damage(error.at(offset)),
    })?;
    summary(&live, report)
}

fn apply(edit: &VersionEdit, live: &mut Live) {
    for key in &edit.deleted_files {
        live.remove(key);
    }
    for file in &edit.new_files {
        live.insert((file.level, file.number), file.file_bytes);
    }
}

fn show_edit(offset: u64, edit: &VersionEdit, report: &mut Report) -> Result<()> {
    let numbers = [
        ("log", edit.log_number),
        ("previous log", edit.prev_log_number),
        ("next file", edit.next_file_number),
        ("last sequence", edit.last_seq),
    ];
    let comparator = edit
        .comparator
        .iter()
        .map(|name| format!("comparator {}", crate::codec::Format::Escaped.show(name.as_bytes())));
    let numbers = numbers.iter().filter_map(|(name, n)| n.map(|n| format!("{name} {n}")));
    let fields: Vec<String> = comparator.chain(numbers).collect();
    report.line(format!("{offset:>10}  {}", fields.join(", ")))?;
    for (level, key) in &edit.compact_pointers {
        let key = report.show_internal_key(key);
        report.line(format!("{:>10}  next compaction of L{level} after {key}", ""))?;
    }
    for (level, number) in &edit.deleted_files {
        report.line(format!("{:>10}  - L{level} {number:06}", ""))?;
    }
    for file in &edit.new_files {
        show_new_file(file, report)?;
    }
    Ok(())
}

fn show_new_file(file: &NewFile, report: &mut Report) -> Result<()> {
    report.line(format!(
        "{:>10}  + L{} {:06}, {} bytes",
        "",
        file.level,
        file.number,
        thousands(file.file_bytes)
    ))?;
    let (smallest, largest) =
        (report.show_internal_key(&file.smallest), report.show_internal_key(&file.largest));
    report.line(format!("{:>14}from {smallest}", ""))?;
    report.line(format!("{:>14}to   {largest}", ""))
}

fn json_edit(offset: u64, edit: &VersionEdit) -> Value {
    let deleted = edit.deleted_files.iter();
    let deleted = deleted.map(|(level, number)| json!({"level": level, "number": number}));
    let pointers = edit.compact_pointers.iter();
    let pointers =
        pointers.map(|(level, key)| json!({"level": level, "after": json_internal_key(key)}));
    let new = edit.new_files.iter().map(|file| {
        json!({
            "level": file.level,
            "number": file.number,
            "bytes": file.file_bytes,
            "smallest": json_internal_key(&file.smallest),
            "largest": json_internal_key(&file.largest),
        })
    });
    json!({
        "offset": offset,
        "comparator": edit.comparator,
        "log": edit.log_number,
        "previous_log": edit.prev_log_number,
        "next_file": edit.next_file_number,
        "last_sequence": edit.last_seq,
        "compact_pointers": pointers.collect::<Value>(),
        "deleted": deleted.collect::<Value>(),
        "new": new.collect::<Value>(),
    })
}

/// Reports the tables of the resulting version, grouped by level.
fn summary(live: &Live, report: &mut Report) -> Result<()> {
    report.line(format!("Resulting tables: {}", count(live.len() as u64, "table", "tables")))?;
    let mut levels: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for (&(level, number), &bytes) in live {
        let sums = levels.entry(level).or_default();
        *sums = (sums.0 + 1, sums.1.saturating_add(bytes));
        report.push("tables", json!({"level": level, "number": number, "bytes": bytes}));
    }
    for (level, (tables, bytes)) in levels {
        let tables = count(tables, "table", "tables");
        report.line(format!("  L{level}: {tables}, {}", size(bytes)))?;
    }
    Ok(())
}
