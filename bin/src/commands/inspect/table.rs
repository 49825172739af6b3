//! Inspection of a table: footer, index, data blocks, filters.

use std::path::Path;

use minikv::files::{BlockHandle, KeyKind, ParsedKey, TableReader};
use minikv::filter::TABLE_FILTER_NAME;
use serde_json::{Value, json};

use super::Report;
use super::report::{json_bytes, json_internal_key};
use crate::commands::{count, size, thousands};
use crate::damage::Damage;
use crate::error::Result;
use crate::table_file::open_table;

/// Totals over all data blocks.
#[derive(Default)]
struct TableTotals {
    blocks: u64,
    entries: u64,
    deletions: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    smallest: Option<Vec<u8>>,
    largest: Option<Vec<u8>>,
}

pub fn inspect(path: &Path, report: &mut Report) -> Result<()> {
    report.set("type", json!("table"));
    let table = match open_table(path) {
        Ok(table) => table,
        Err(crate::error::CliError::Db(error)) => return report.damage(error),
        Err(error) => return Err(error),
    };
    frame(&table, report)?;
    let totals = data_blocks(&table, report)?;
    summary(&table, &totals, report)
}

/// Reports all parts of the file except the data blocks.
fn frame(table: &TableReader, report: &mut Report) -> Result<()> {
    report.set("bytes", json!(table.file_bytes()));
    let part =
        |name: &str, offset: u64, size: u64| json!({"name": name, "offset": offset, "size": size});
    report.line(format!(
        "{}: table, {} bytes",
        table.path().display(),
        thousands(table.file_bytes())
    ))?;
    let mut parts =
        vec![("metaindex".to_string(), table.metaindex()), ("index".to_string(), table.index())];
    for (name, handle) in table.meta() {
        parts.push((report.show_key(name), *handle));
    }
    for (name, handle) in parts {
        report.line(format!("{name}: offset {}, {} bytes", handle.offset, handle.size))?;
        report.push("parts", part(&name, handle.offset, handle.size));
    }
    match table.filter_error() {
        Some(error) => report.damage(error.clone()),
        None => Ok(()),
    }
}

fn data_blocks(table: &TableReader, report: &mut Report) -> Result<TableTotals> {
    let mut totals = TableTotals::default();
    let blocks = match table.blocks() {
        Ok(blocks) => blocks,
        Err(error) => {
            report.damage(error)?;
            return Ok(totals);
        }
    };
    report.line(format!(
        "\n{:>12} {:>9} {:>9}  {:<11} {:>7}  first key",
        "offset", "stored", "raw", "compression", "entries"
    ))?;
    for block in blocks {
        totals.blocks += 1;
        totals.stored_bytes += block.handle.size;
        data_block(table, block.handle, &mut totals, report)?;
    }
    Ok(totals)
}

fn data_block(
    table: &TableReader,
    handle: BlockHandle,
    totals: &mut TableTotals,
    report: &mut Report,
) -> Result<()> {
    let contents = match Contents::read(table, handle) {
        Ok(contents) => contents,
        Err(error) => return report.damage(error),
    };
    totals.add(&contents);
    let first = contents.entries.first().map(|(key, _)| key.as_slice());
    report.line(format!(
        "{:>12} {:>9} {:>9}  {:<11} {:>7}  {}",
        handle.offset,
        handle.size,
        contents.raw_bytes,
        contents.compression,
        contents.entries.len(),
        first.map(|key| report.show_internal_key(key)).unwrap_or_default(),
    ))?;
    if report.entries() {
        for (key, value) in &contents.entries {
            report.line(format!("    {}", report.show_entry(key, value)))?;
        }
    }
    let mut block = json!({
        "offset": handle.offset,
        "size": handle.size,
        "raw_size": contents.raw_bytes,
        "compression": contents.compression,
        "entries": contents.entries.len(),
        "first": first.map(json_internal_key),
    });
    if report.entries() && report.is_json() {
        let entries = contents.entries.iter().map(|(key, value)| json_entry(key, value));
        block["contents"] = entries.collect();
    }
    report.push("blocks", block);
    contents.damage.map_or(Ok(()), |error| report.damage(error))
}

/// The entries of a data block, up to the first damage in the block.
struct Contents {
    compression: &'static str,
    raw_bytes: usize,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    damage: Option<minikv::Error>,
}

impl Contents {
    fn read(table: &TableReader, handle: BlockHandle) -> Result<Contents, minikv::Error> {
        let block = table.read_block(handle)?;
        let (compression, raw_bytes) = (block.compression(), block.raw_bytes());
        let (mut entries, mut no_key, mut damage) = (Vec::new(), None, None);
        let mut rest = block.entries();
        loop {
            match rest.next() {
                Ok(None) => break,
                Ok(Some((key, value))) => {
                    if let Err(error) = ParsedKey::parse(key) {
                        no_key.get_or_insert(error.at(handle.offset));
                    }
                    entries.push((key.to_vec(), value.to_vec()));
                }
                Err(error) => {
                    damage = Some(error);
                    break;
                }
            }
        }
        Ok(Contents { compression, raw_bytes, entries, damage: damage.or(no_key) })
    }
}

impl TableTotals {
    fn add(&mut self, contents: &Contents) {
        self.entries += contents.entries.len() as u64;
        self.raw_bytes += contents.raw_bytes as u64;
        let deletions = contents.entries.iter().filter(|(key, _)| {
            ParsedKey::parse(key).is_ok_and(|key| key.kind == KeyKind::Deletion)
        });
        self.deletions += deletions.count() as u64;
        if let (Some((first, _)), Some((last, _))) =
            (contents.entries.first(), contents.entries.last())
        {
            self.smallest.get_or_insert_with(|| first.clone());
            self.largest = Some(last.clone());
        }
    }
}

fn summary(table: &TableReader, totals: &TableTotals, report: &mut Report) -> Result<()> {
    report.line(format!(
        "\n{}, {} ({}), {} stored, {} raw",
        count(totals.blocks, "data block", "data blocks"),
        count(totals.entries, "entry", "entries"),
        count(totals.deletions, "deletion", "deletions"),
        size(totals.stored_bytes),
        size(totals.raw_bytes),
    ))?;
    report.set("data_blocks", json!(totals.blocks));
    report.set("entries", json!(totals.entries));
    report.set("deletions", json!(totals.deletions));
    report.set("stored_bytes", json!(totals.stored_bytes));
    report.set("raw_bytes", json!(totals.raw_bytes));
    if let (Some(smallest), Some(largest)) = (&totals.smallest, &totals.largest) {
        report.line(format!("smallest: {}", report.show_internal_key(smallest)))?;
        report.line(format!("largest:  {}", report.show_internal_key(largest)))?;
        report.set("smallest", json_internal_key(smallest));
        report.set("largest", json_internal_key(largest));
    }
    filter(table, totals, report)?;
    table_filter(table, report)
}

fn filter(table: &TableReader, totals: &TableTotals, report: &mut Report) -> Result<()> {
    let (Some(filter), Some(name)) = (table.filter_block(), table.filter_policy()) else {
        report.set("filter", Value::Null);
        return report.line("filter: none");
    };
    let (bytes, empty) = (filter.memory_bytes(), filter.empty_filter_count());
    let bits_per_entry = bytes as f64 * 8.0 / totals.entries.max(1) as f64;
    // A filter block also stores an offset for every 2 KiB of data. If values are large, these
    // offsets make up most of the filter block.
    let bits_per_entry = match bits_per_entry < 100.0 {
        true => format!("{bits_per_entry:.1}"),
        false => thousands(bits_per_entry.round() as u64),
    };
    report.set(
        "filter",
        json!({
            "name": name,
            "bytes": bytes,
            "filters": filter.filter_count(),
            "empty_filters": empty,
        }),
    );
    report.line(format!(
        "filter: {name}, {}, {} ({} empty), {bits_per_entry} bits per entry with its offsets",
        size(bytes as u64),
        count(filter.filter_count() as u64, "filter", "filters"),
        thousands(empty as u64),
    ))
}

fn table_filter(table: &TableReader, report: &mut Report) -> Result<()> {
    let Some(filter) = table.table_filter() else {
        report.set("table_filter", Value::Null);
        return Ok(());
    };
    let (bytes, keys) = (filter.memory_bytes(), filter.keys());
    report.set(
        "table_filter",
        json!({
            "name": TABLE_FILTER_NAME,
            "bytes": bytes,
            "keys": keys,
            "fingerprint_bits": filter.fingerprint_bits(),
            "false_positive_rate": filter.false_positive_rate(),
        }),
    );
    report.line(format!(
        "table filter: {TABLE_FILTER_NAME}, {}, {} keys, {:.1} bits per key, wrong for one absent \
         key in {}",
        size(bytes as u64),
        thousands(keys),
        bytes as f64 * 8.0 / keys.max(1) as f64,
        thousands(1 << filter.fingerprint_bits()),
    ))
}

fn json_entry(key: &[u8], value: &[u8]) -> Value {
    let mut entry = json_internal_key(key);
    entry["value"] = json_bytes(value);
    entry
}
