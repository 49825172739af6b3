//! Recomputes the counters of a get from the steps of its explanation.

use minikv::ReadTrace;
use minikv::explain::{BlockSource, Explanation, Step, Verdict};
use minikv::stats::LevelTrace;

/// Checks that the counters agree with the steps, and that the answer is the entry of the last
/// step.
pub fn check(told: &Explanation) {
    assert_eq!(recount(&told.steps), told.trace, "{told}");
    let found = match told.steps.last() {
        Some(Step::Memtable { entry, .. }) => *entry,
        Some(Step::Entry(entry)) => Some(*entry),
        _ => None,
    };
    let value = found.filter(|entry| entry.kind == minikv::files::KeyKind::Value);
    let bytes = told.value.as_ref().map(|value| value.len() as u64);
    assert_eq!(bytes, value.map(|entry| entry.value_bytes), "{told}");
    assert!(found.is_none_or(|entry| entry.seq <= told.seq), "{told}");
    check_text(told);
}

fn check_text(told: &Explanation) {
    let text = told.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for (step, line) in told.steps.iter().zip(text.lines().skip(1)) {
        assert_eq!(step.to_string(), line);
    }
}

/// Returns the counters, computed from the steps alone.
pub fn recount(steps: &[Step]) -> ReadTrace {
    let mut trace = ReadTrace::default();
    let mut level = 0;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Memtable { entry, .. } => {
                trace.memtables_probed += 1;
                trace.memtable_hits += u64::from(entry.is_some());
            }
            Step::Skipped { level, tables } => {
                trace.levels[*level].tables_skipped_by_range += tables;
            }
            Step::Table { table, .. } => {
                level = table.level;
                trace.levels[level].tables_considered += 1;
            }
            _ => inside(step, &steps[at + 1..], &mut trace.levels[level]),
        }
    }
    trace
}

/// Updates the counters `trace` for one step of a lookup inside a table.
fn inside(step: &Step, then: &[Step], trace: &mut LevelTrace) {
    let found = || match then.iter().find(|step| ends_table(step)) {
        Some(Step::Entry(_)) => 1,
        _ => 0,
    };
    match step {
        Step::TableFilter(said) => {
            trace.table_filter_checks += 1;
            if said.may_match() {
                trace.table_filter_true_positives += found();
                trace.table_filter_false_positives += 1 - found();
                assert_eq!(*said == Verdict::TruePositive, found() == 1);
            } else {
                trace.table_filter_negatives += 1;
            }
        }
        Step::Index { .. } => trace.index_seeks += 1,
        Step::BlockFilter(said) => {
            trace.filter_checks += 1;
            if said.may_match() {
                trace.filter_true_positives += found();
                trace.filter_false_positives += 1 - found();
                assert_eq!(*said == Verdict::TruePositive, found() == 1);
            } else {
                trace.filter_negatives += 1;
            }
        }
        Step::Block { stored_bytes, source, checksum_verified, decompressed_bytes, .. } => {
            match source {
                BlockSource::Cache => trace.data_blocks_from_cache += 1,
                BlockSource::File => {
                    trace.data_blocks_from_file += 1;
                    trace.bytes_read += stored_bytes;
                }
            }
            trace.checksums_verified += u64::from(*checksum_verified);
            trace.bytes_decompressed += decompressed_bytes.unwrap_or(0);
        }
        _ => {}
    }
}

fn ends_table(step: &Step) -> bool {
    matches!(step, Step::Entry(_) | Step::NotHere | Step::Table { .. } | Step::Skipped { .. })
}
