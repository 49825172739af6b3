//! `minikv explain KEY`

use std::ffi::OsString;

use minikv::explain::{
    BlockSource, Entry, Explanation, FilterState, FilterUse, SearchedTable, Step, Verdict,
};
use minikv::files::KeyKind;
use minikv::{LevelTrace, ReadTrace};
use serde_json::{Map, Value, json};

use super::inspect::json_bytes;
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::Stdout;

/// Show the read path of one get, step by step
///
/// A line for each memtable and table consulted, what its filters said and whether that was
/// correct, the index entry, the block and where it came from, and what was found; then the cost,
/// and that of the same get without filters. The exit code is 1 if the key is not there.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Key to look up
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key = global.key(&args.key)?;
    let told = super::open_read_only(global)?.explain(&key)?;
    let mut stdout = Stdout::open()?;
    if args.json {
        stdout.line(json(&told).to_string())?;
    } else {
        stdout.line(told.to_string())?;
    }
    stdout.finish()?;
    if told.value.is_some() { Ok(()) } else { Err(CliError::NotFound) }
}

fn json(told: &Explanation) -> Value {
    json!({
        "key": json_bytes(&told.key),
        "sequence": told.seq,
        "found": told.value.is_some(),
        "value_bytes": told.value.as_ref().map(|value| value.len()),
        "steps": told.steps.iter().map(step).collect::<Value>(),
        "filters": filter_use(told.filters),
        "this_get": trace(&told.trace),
        "without_filters": told.unfiltered.as_ref().ok().map(trace),
        "without_filters_error": told.unfiltered.as_ref().err().map(ToString::to_string),
    })
}

fn step(step: &Step) -> Value {
    match step {
        Step::Memtable { frozen, entry: found } => {
            json!({"step": "memtable", "frozen": frozen, "entry": found.as_ref().map(entry)})
        }
        Step::Skipped { level, tables } => {
            json!({"step": "skipped", "level": level, "tables": tables})
        }
        Step::Table(asked) => table(asked),
        Step::TableFilter(said) => verdict("table_filter", *said),
        Step::Index { block } => {
            let block = block.as_ref().map(|block| {
                json!({
                    "separator": json_bytes(&block.separator),
                    "offset": block.offset,
                    "bytes": block.bytes,
                })
            });
            json!({"step": "index", "block": block})
        }
        Step::BlockFilter(said) => verdict("block_filter", *said),
        Step::Block { offset, stored_bytes, source, checksum_verified, decompressed_bytes } => {
            json!({
                "step": "block",
                "offset": offset,
                "stored_bytes": stored_bytes,
                "source": match source {
                    BlockSource::Cache => "cache",
                    BlockSource::File => "file",
                },
                "checksum_verified": checksum_verified,
                "decompressed_bytes": decompressed_bytes,
            })
        }
        Step::Entry(found) => json!({"step": "entry", "entry": entry(found)}),
        Step::NotHere => json!({"step": "entry", "entry": null}),
        other => json!({"step": "other", "text": other.to_string()}),
    }
}

fn table(table: &SearchedTable) -> Value {
    json!({
        "step": "table",
        "level": table.level,
        "number": table.number,
        "file_bytes": table.file_bytes,
        "first_key": json_bytes(&table.first_key),
        "last_key": json_bytes(&table.last_key),
        "filter": match table.filter {
            FilterState::Readable => "readable",
            FilterState::Damaged => "damaged",
            _ => "missing",
        },
    })
}

fn entry(entry: &Entry) -> Value {
    let kind = match entry.kind {
        KeyKind::Value => "put",
        KeyKind::Deletion => "delete",
    };
    json!({"sequence": entry.seq, "kind": kind, "value_bytes": entry.value_bytes})
}

fn verdict(step: &str, said: Verdict) -> Value {
    let truth = match said {
        Verdict::TruePositive | Verdict::TrueNegative => Some(true),
        Verdict::FalsePositive | Verdict::FalseNegative => Some(false),
        _ => None,
    };
    json!({"step": step, "may_match": said.may_match(), "truth": truth})
}

fn filter_use(filters: FilterUse) -> &'static str {
    match filters {
        FilterUse::Asked => "asked",
        FilterUse::NoneInTables => "none_in_tables",
        FilterUse::NoTables => "no_tables",
        FilterUse::NoPolicy => "no_policy",
        _ => "turned_off",
    }
}

/// All counters of a trace: the sums, and the levels that were touched.
fn trace(trace: &ReadTrace) -> Value {
    let mut sums = counters(&trace.total());
    sums.insert("memtables_probed".to_string(), json!(trace.memtables_probed));
    sums.insert("memtable_hits".to_string(), json!(trace.memtable_hits));
    let touched = |(level, counts): (usize, &LevelTrace)| {
        (*counts != LevelTrace::default()).then(|| {
            let mut counts = counters(counts);
            counts.insert("level".to_string(), json!(level));
            Value::Object(counts)
        })
    };
    let levels = trace.levels.iter().enumerate().filter_map(touched).collect::<Value>();
    sums.insert("levels".to_string(), levels);
    Value::Object(sums)
}

/// All counters of a level, by name.
pub fn counters(trace: &LevelTrace) -> Map<String, Value> {
    let counters = trace.counters().into_iter();
    counters.map(|(name, count)| (name.to_string(), json!(count))).collect()
}
