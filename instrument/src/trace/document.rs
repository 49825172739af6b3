//! Converts a recording into the JSON document that the page's script reads.
//!
//! Each run has an array `steps`, which contains events and lookups in order of time. Each step is
//! an object in which `t` is the type and `us` is the number of microseconds since the open. Tables
//! are identified by their numbers, which are the names in the object `tables`. Keys are identified
//! by their positions in the sorted array `keys`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use minikv::events::{CompactionKind, EventKind, StallCause, TableInfo};
use minikv::explain::{BlockSource, Explanation, Step, Verdict};
use minikv::{BytewiseComparator, Comparator, Error};
use serde_json::{Value, json};

use super::run::{Run, TracedLookup, new_tables};
use crate::text::escaped;

/// Maximum number of steps that show the growth of memtables in a run. More steps make the page
/// slower.
const MAX_GROWTH_STEPS: usize = 20_000;

/// Maximum number of characters of a key. Longer keys are shortened in the middle.
const KEY_CHARS: usize = 160;

/// Returns the document for `runs`. Each lookup lists the blocks that it read from the cache and
/// from files. Its field `without` lists the blocks that the same lookup read without filters.
pub fn document(runs: &[Run]) -> Value {
    json!({ "runs": runs.iter().map(|run| SortedKeys::of(run).run(run)).collect::<Vec<_>>() })
}

/// Sorted keys of a run. The document identifies a key by its position among them.
struct SortedKeys {
    order: std::sync::Arc<dyn Comparator>,
    sorted: Vec<Vec<u8>>,
}

impl SortedKeys {
    fn of(run: &Run) -> SortedKeys {
        let order = run.comparator.clone();
        let mut all: BTreeSet<Vec<u8>> = BTreeSet::new();
        for table in run.events.iter().flat_map(|event| new_tables(&event.kind)) {
            all.extend([table.first_key.clone(), table.last_key.clone()]);
        }
        all.extend(run.lookups.iter().map(|lookup| lookup.explanation.key.clone()));
        let mut sorted: Vec<_> = all.into_iter().collect();
        sorted.sort_by(|a, b| order.compare(a, b));
        SortedKeys { order, sorted }
    }

    fn place(&self, key: &[u8]) -> usize {
        self.sorted.partition_point(|other| self.order.compare(other, key) == Ordering::Less)
    }

    fn run(&self, run: &Run) -> Value {
        let mut tables = BTreeMap::new();
        for table in run.events.iter().flat_map(|event| new_tables(&event.kind)) {
            // A table that was moved has the same number and the same counts as before.
            tables.entry(table.number).or_insert_with(|| self.table(run, table));
        }
        json!({
            "path": run.path.display().to_string(),
            "byte_order": self.order.name() == BytewiseComparator.name(),
            "keys": self.sorted.iter().map(|key| shown(key)).collect::<Vec<_>>(),
            "tables": tables,
            "steps": self.steps(run),
            "replay": run.is_replay,
            "stats": run.stats,
        })
    }

    fn table(&self, run: &Run, table: &TableInfo) -> Value {
        let filter = run.filters.get(&table.number).map(|filters| match *filters {
            f if f.block && f.table => "both",
            f if f.block => "block",
            f if f.table => "table",
            _ => "none",
        });
        json!({
            "bytes": table.file_bytes,
            "first": self.place(&table.first_key),
            "last": self.place(&table.last_key),
            "entries": table.entries,
            "tombstones": table.tombstones,
            "filter": filter,
        })
    }

    /// Returns events and lookups in order of time.
    fn steps(&self, run: &Run) -> Vec<Value> {
        let grown = |kind: &EventKind| matches!(kind, EventKind::MemtableGrew { .. });
        let growth = run.events.iter().filter(|event| grown(&event.kind)).count();
        let every = growth.div_ceil(MAX_GROWTH_STEPS).max(1);
        let (mut steps, mut seen) = (Vec::new(), 0);
        let mut lookups = run.lookups.iter().peekable();
        let mut tables = BTreeSet::new();
        for event in &run.events {
            if grown(&event.kind) {
                seen += 1;
                if seen % every != 0 {
                    continue;
                }
            }
            // The recorded times of lookups are a little late. A lookup must come after the events
            // that add the tables searched by the lookup.
            while let Some(lookup) = lookups.peek()
                && u128::from(lookup.micros) < event.since_open.as_micros()
                && tables_of(&lookup.explanation).all(|number| tables.contains(&number))
            {
                steps.push(self.lookup(lookup));
                lookups.next();
            }
            change(&mut tables, &event.kind);
            let mut step = self.event(&event.kind);
            step["us"] = json!(event.since_open.as_micros() as u64);
            steps.push(step);
        }
        let closed = steps.pop();
        steps.extend(lookups.map(|lookup| self.lookup(lookup)));
        steps.extend(closed);
        steps
    }

    fn event(&self, kind: &EventKind) -> Value {
        match kind {
            EventKind::Opened { tables, .. } => json!({ "t": "open", "add": placed(tables) }),
            EventKind::MemtableGrew { entries, memtable_bytes, log, log_bytes, .. } => json!({
                "t": "grew", "n": entries, "mem": memtable_bytes, "log": log, "wal": log_bytes,
            }),
            EventKind::MemtableFrozen { entries, memtable_bytes, log, log_bytes, .. } => json!({
                "t": "frozen", "n": entries, "mem": memtable_bytes, "log": log, "wal": log_bytes,
            }),
            EventKind::FlushBegan { job, entries, .. } => {
                json!({ "t": "flush", "job": job, "n": entries })
            }
            EventKind::FlushEnded { job, table, took, error, .. } => json!({
                "t": "flushed", "job": job, "add": placed(table.as_slice()),
                "took": took.as_micros() as u64,
                "error": error.as_ref().map(ToString::to_string),
            }),
            EventKind::CompactionBegan { job, kind, inputs, output_level, .. } => json!({
                "t": "compact", "job": job, "kind": kind_name(*kind), "in": placed(inputs),
                "to": output_level,
            }),
            EventKind::CompactionEnded {
                job,
                kind,
                inputs,
                output_level,
                outputs,
                entries_dropped,
                took,
                error,
                ..
            } => json!({
                "t": "compacted", "job": job, "kind": kind_name(*kind), "in": placed(inputs),
                "to": output_level, "add": placed(outputs), "dropped": entries_dropped,
                "took": took.as_micros() as u64, "error": error.as_ref().map(ToString::to_string),
                "gave_up": matches!(error, Some(Error::Closed)),
            }),
            EventKind::TablesChanged { added, removed, .. } => {
                json!({ "t": "tables", "add": placed(added), "in": placed(removed) })
            }
            EventKind::StallBegan { cause, .. } => {
                json!({ "t": "stall", "why": cause_name(*cause) })
            }
            EventKind::StallEnded { cause, took, .. } => json!({
                "t": "stalled", "why": cause_name(*cause), "took": took.as_micros() as u64,
            }),
            EventKind::Closed { .. } => json!({ "t": "close" }),
            _ => json!({ "t": "other" }),
        }
    }

    fn lookup(&self, lookup: &TracedLookup) -> Value {
        let told = &lookup.explanation;
        let total = told.trace.total();
        json!({
            "t": "get",
            "us": lookup.micros,
            "key": self.place(&told.key),
            "found": told.value.is_some(),
            "value": told.value.as_ref().map(|value| value.len()),
            "path": told.steps.iter().map(|step| self.step(step)).collect::<Vec<_>>(),
            "cache": total.data_blocks_from_cache,
            "file": total.data_blocks_from_file,
            "without": told.unfiltered.as_ref().ok().map(|trace| {
                let total = trace.total();
                [total.data_blocks_from_cache, total.data_blocks_from_file]
            }),
        })
    }

    fn step(&self, step: &Step) -> Value {
        match step {
            Step::Memtable { frozen, entry } => {
                json!(["memtable", frozen, entry.map(|entry| entry.seq)])
            }
            Step::Skipped { level, tables } => json!(["skipped", level, tables]),
            Step::Table { table, .. } => json!(["table", table.number, table.level]),
            Step::TableFilter(verdict) => json!(["filter", "table", verdict_name(*verdict)]),
            Step::BlockFilter(verdict) => json!(["filter", "block", verdict_name(*verdict)]),
            Step::Index { block } => json!(["index", block.as_ref().map(|block| block.offset)]),
            Step::Block { offset, stored_bytes, source, .. } => {
                json!(["block", offset, stored_bytes, matches!(source, BlockSource::Cache)])
            }
            Step::Entry(entry) => json!(["entry", entry.seq, entry.value_bytes, entry.kind]),
            Step::NotHere => json!(["not here"]),
            _ => json!(["other"]),
        }
    }
}

/// Returns the numbers of the tables that a lookup searched.
fn tables_of(explanation: &Explanation) -> impl Iterator<Item = u64> {
    explanation.steps.iter().filter_map(|step| match step {
        Step::Table { table, .. } => Some(table.number),
        _ => None,
    })
}

/// Applies an event to a set of tables.
fn change(tables: &mut BTreeSet<u64>, kind: &EventKind) {
    let removed = match kind {
        EventKind::CompactionEnded { inputs, error: None, .. } => &inputs[..],
        EventKind::TablesChanged { removed, .. } => removed,
        _ => &[],
    };
    for table in removed {
        tables.remove(&table.number);
    }
    tables.extend(new_tables(kind).iter().map(|table| table.number));
}

/// Returns the number and the level of each table.
fn placed(tables: &[TableInfo]) -> Vec<[u64; 2]> {
    tables.iter().map(|table| [table.number, table.level as u64]).collect()
}

fn kind_name(kind: CompactionKind) -> &'static str {
    match kind {
        CompactionKind::Merge => "merge",
        CompactionKind::Move => "move",
        CompactionKind::Drop => "drop",
    }
}

fn cause_name(cause: StallCause) -> &'static str {
    match cause {
        StallCause::Flush => "flush",
        StallCause::Level0 => "level0",
        StallCause::Slowdown => "slowdown",
    }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::TruePositive => "true positive",
        Verdict::FalsePositive => "false positive",
        Verdict::TrueNegative => "true negative",
        Verdict::FalseNegative => "false negative",
        _ => "unknown negative",
    }
}

/// Returns a key escaped, and shortened if it is long.
fn shown(key: &[u8]) -> String {
    let text = escaped(&key[..key.len().min(KEY_CHARS)]);
    if key.len() <= KEY_CHARS && text.len() <= KEY_CHARS {
        return text;
    }
    let end = escaped(&key[key.len() - KEY_CHARS.min(key.len()) / 4..]);
    format!("{}…{end}", &text[..KEY_CHARS / 2])
}
