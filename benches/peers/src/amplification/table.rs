//! Formats the results as tables in Markdown and as JSON.

use std::fmt::Write as _;

use minikv_workloads::{KEY_BYTES, Plan};
use serde_json::{Value, json};

use super::{Case, Level, Measured};
use crate::report::machine;

const MIB: f64 = 1048576.0;

/// Notes below the tables, which name the source of each figure.
const SOURCES: &str = "
- Written per byte put: /proc/self/io of the engine's process, from the first put until background \
work has settled. Memtables are not flushed at the end.
- By its own count, minikv: its statistics. LevelDB: `leveldb.stats`, in whole MiB; it does not \
count its log. RocksDB: the events in its LOG, which agree with its tickers, and its ticker of log \
bytes. fjall counts neither.
- Space: sizes of files, per byte of live keys and values. By level, those of the tables that the \
engine lists; tables that it no longer lists may still be in the directory.
- Blocks, minikv: its statistics, and traces of the same gets in the closed database, which agree. \
LevelDB: such traces, of gets by minikv in LevelDB's directory. RocksDB: its tickers of data \
blocks in the block cache, hit and missed. fjall: its metrics, if built with `--features metrics`.
";

/// Table cell for a figure that no counter reports.
const UNTOLD: &str = "–";

/// Returns a description of the run, followed by the table of engines and the table of levels.
pub fn markdown(plan: &Plan, results: &[(Case, Measured)]) -> String {
    let lookups = results.first().map_or(0, |(_, measured)| measured.lookups);
    let mut text = format!(
        "{} entries of {KEY_BYTES}+{} bytes put in random order, and as many random ones of them \
         again; write buffer {} MiB; {lookups} gets of absent keys and as many of present keys.\n\n\
         {}.\n\n",
        plan.entries,
        plan.value_bytes,
        plan.settings.write_buffer_bytes >> 20,
        machine(),
    );
    for (_, measured) in results.iter().filter(|(case, _)| case.filters) {
        let _ = writeln!(text, "- {}", measured.described);
    }
    text.push_str(
        "\n| engine | filters | written per byte put | by its own count | tables per live byte | \
         directory per live byte | blocks per get, absent | present |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (case, measured) in results {
        row(&mut text, *case, &totals(measured));
    }
    text.push_str(
        "\n| engine | filters | level | tables | MiB | written per byte put | size per live byte | \
         blocks per get, absent | present |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (case, measured) in results {
        if let Some(log) = measured.log_bytes {
            let written = two(measured.per_put(log));
            let rest = [UNTOLD; 3].map(str::to_string);
            let cells = ["log".to_string(), UNTOLD.to_string(), UNTOLD.to_string(), written];
            row(&mut text, *case, &[&cells[..], &rest].concat());
        }
        for level in &measured.levels {
            row(&mut text, *case, &of_level(measured, level));
        }
    }
    text.push_str(SOURCES);
    text
}

fn row(text: &mut String, case: Case, cells: &[String]) {
    let _ =
        writeln!(text, "| {} | {} | {} |", case.engine.name(), case.filters(), cells.join(" | "));
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn told(value: Option<String>) -> String {
    value.unwrap_or_else(|| UNTOLD.to_string())
}

/// Returns two table cells: the blocks per get of an absent key, and the blocks per get of a
/// present key.
fn reads(measured: &Measured, blocks: Option<super::Blocks>) -> [String; 2] {
    let per_get = |blocks: u64| format!("{:.3}", measured.per_get(blocks));
    [told(blocks.map(|b| per_get(b.absent))), told(blocks.map(|b| per_get(b.present)))]
}

fn totals(measured: &Measured) -> Vec<String> {
    let own = measured.own_written_bytes().map(|bytes| two(measured.per_put(bytes)));
    let own = match measured.log_bytes {
        None => own.map(|own| format!("{own} without the log")),
        Some(_) => own,
    };
    let cells = [
        two(measured.per_put(measured.written_bytes)),
        told(own),
        two(measured.per_live(measured.table_bytes)),
        two(measured.per_live(measured.directory_bytes)),
    ];
    [&cells[..], &reads(measured, measured.blocks)].concat()
}

fn of_level(measured: &Measured, level: &Level) -> Vec<String> {
    let cells = [
        format!("L{}", level.level),
        level.tables.to_string(),
        format!("{:.1}", level.bytes as f64 / MIB),
        told(level.written_bytes.map(|bytes| two(measured.per_put(bytes)))),
        two(measured.per_live(level.bytes)),
    ];
    [&cells[..], &reads(measured, level.blocks)].concat()
}

/// Returns the counts of all cases, with their ratios per byte and per get.
pub fn json(results: &[(Case, Measured)]) -> Value {
    let cases = results.iter().map(|(case, measured)| {
        let own = measured.own_written_bytes();
        let blocks = measured.blocks;
        json!({
            "engine": case.engine.name(),
            "filters": case.filters(),
            "written_per_byte_put": measured.per_put(measured.written_bytes),
            "own_written_per_byte_put": own.map(|bytes| measured.per_put(bytes)),
            "tables_per_live_byte": measured.per_live(measured.table_bytes),
            "directory_per_live_byte": measured.per_live(measured.directory_bytes),
            "blocks_per_get_absent": blocks.map(|blocks| measured.per_get(blocks.absent)),
            "blocks_per_get_present": blocks.map(|blocks| measured.per_get(blocks.present)),
            "counts": measured,
        })
    });
    json!({ "machine": machine(), "cases": cases.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amplification::Blocks;
    use crate::engines::Engine;

    #[test]
    fn figures_are_per_byte_and_per_get_and_the_untold_is_no_number() {
        let told = Measured {
            described: "minikv".to_string(),
            put_bytes: 1000,
            live_bytes: 500,
            written_bytes: 3100,
            log_bytes: Some(1100),
            table_bytes: 300,
            directory_bytes: 400,
            lookups: 1000,
            blocks: Some(Blocks { absent: 12, present: 1050 }),
            levels: vec![Level {
                level: 1,
                tables: 2,
                bytes: 300,
                written_bytes: Some(1900),
                blocks: Some(Blocks { absent: 12, present: 1050 }),
            }],
        };
        let level = Level { written_bytes: None, blocks: None, ..told.levels[0] };
        let untold =
            Measured { log_bytes: None, blocks: None, levels: vec![level], ..told.clone() };
        let case = |filters| Case { engine: Engine::Minikv, filters };
        let text = markdown(&Plan::default(), &[(case(true), told), (case(false), untold)]);
        for line in [
            "- minikv",
            "| minikv | block:10 | 3.10 | 3.00 | 0.60 | 0.80 | 0.012 | 1.050 |",
            "| minikv | none | 3.10 | – | 0.60 | 0.80 | – | – |",
            "| minikv | block:10 | log | – | – | 1.10 | – | – | – |",
            "| minikv | block:10 | L1 | 2 | 0.0 | 1.90 | 0.60 | 0.012 | 1.050 |",
            "| minikv | none | L1 | 2 | 0.0 | – | 0.60 | – | – |",
        ] {
            assert_eq!(text.lines().filter(|l| *l == line).count(), 1, "{line}\n{text}");
        }
    }
}
