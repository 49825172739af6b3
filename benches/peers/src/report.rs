//! The results of all runs, as a table in Markdown and as JSON.

use std::collections::HashMap;
use std::fmt::Write as _;

use minikv_workloads::{Better, Figure};
use serde_json::{Value, json};

use crate::args::Args;
use crate::child::Line;
use crate::engines::Engine;

/// One figure of one engine, as measured in each of its runs.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub runs: Vec<f64>,
}

/// One kind of figure, with a cell for each engine, in the order of [`Report::engines`].
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub unit: String,
    pub better: Better,
    pub cells: Vec<Cell>,
}

/// The figures of all workloads, for all engines.
pub struct Report {
    pub engines: Vec<Engine>,
    pub rows: Vec<Row>,
    described: Vec<Option<String>>,
    head: Vec<String>,
    plan: Value,
    /// Duration of the last run of each workload in seconds, by column and workload.
    seconds: HashMap<(usize, String), f64>,
}

impl Cell {
    fn sorted(&self) -> Vec<f64> {
        let mut runs = self.runs.clone();
        runs.sort_by(f64::total_cmp);
        runs
    }

    pub fn median(&self) -> Option<f64> {
        let runs = self.sorted();
        match runs.len() {
            0 => None,
            n if n % 2 == 1 => Some(runs[n / 2]),
            n => Some((runs[n / 2 - 1] + runs[n / 2]) / 2.0),
        }
    }

    fn bounds(&self) -> Option<(f64, f64)> {
        let runs = self.sorted();
        Some((*runs.first()?, *runs.last()?))
    }
}

impl Row {
    /// Returns the ratio by which the figure of the engine in `column` is better than `other`. If
    /// the figure is worse, the ratio is less than 1.
    fn ratio(&self, column: usize, other: f64) -> Option<f64> {
        let own = self.cells[column].median()?;
        let ratio = match self.better {
            Better::Higher => own / other,
            Better::Lower => other / own,
        };
        // The ratio can be infinite or NaN if a figure is 0, for example the share of conflicts.
        ratio.is_finite().then_some(ratio)
    }

    /// Returns the best median of the engines for which `of` returns true.
    pub fn best(&self, engines: &[Engine], of: impl Fn(Engine) -> bool) -> Option<f64> {
        let of_those = engines.iter().zip(&self.cells).filter(|(engine, _)| of(**engine));
        let medians = of_those.filter_map(|(_, cell)| cell.median());
        match self.better {
            Better::Higher => medians.reduce(f64::max),
            Better::Lower => medians.reduce(f64::min),
        }
    }

    /// Returns the divisor and the unit used to print the figure.
    fn scale(&self) -> (f64, &str) {
        match self.unit.as_str() {
            "op/s" => (1000.0, "kop/s"),
            unit => (1.0, unit),
        }
    }
}

/// Formats a number as `1,234`, `56.7` or `0.89`.
pub fn digits(value: f64) -> String {
    match value {
        v if v >= 1000.0 => {
            let whole = v.round() as u64;
            let (thousands, rest) = (whole / 1000, whole % 1000);
            format!("{thousands},{rest:03}")
        }
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

impl Report {
    pub fn new(args: &Args) -> Report {
        let plan = args.plan();
        let most_operations = Some(plan.most_operations).filter(|&most| most < u64::MAX);
        let mut head = vec![
            format!(
                "{} entries of {}+{} bytes, write buffer {} MiB, cache {} MiB, log on and not \
                 synced but where said; medians of {} interleaved runs",
                plan.entries,
                minikv_workloads::KEY_BYTES,
                plan.value_bytes,
                args.write_buffer_mib(),
                args.cache_mib,
                args.repeats()
            ),
            machine(),
        ];
        if let Some(most) = most_operations {
            head.push(format!("At most {most} gets, seeks, mixed or synced operations a workload"));
        }
        let engines = args.engines();
        Report {
            described: vec![None; engines.len()],
            engines,
            rows: Vec::new(),
            seconds: HashMap::new(),
            head,
            plan: json!({
                "entries": plan.entries,
                "most_operations": most_operations,
                "key_bytes": minikv_workloads::KEY_BYTES,
                "value_bytes": plan.value_bytes,
                "write_buffer_bytes": plan.settings.write_buffer_bytes,
                "cache_bytes": plan.settings.cache_bytes,
                "threads": plan.threads,
                "repeats": args.repeats(),
            }),
        }
    }

    /// Returns the lines that describe the run and the machine.
    pub fn head(&self) -> &[String] {
        &self.head
    }

    pub fn add(&mut self, engine: Engine, line: Line) {
        let column = self.engines.iter().position(|e| *e == engine).expect("an engine that runs");
        self.described[column].get_or_insert(line.engine);
        self.seconds.insert((column, line.outcome.workload), line.outcome.seconds);
        for figure in line.outcome.figures {
            let Figure { name, value, unit, better } = figure;
            let row = match self.rows.iter().position(|row| row.name == name) {
                Some(row) => row,
                None => {
                    let cells = vec![Cell::default(); self.engines.len()];
                    self.rows.push(Row { name, unit, better, cells });
                    self.rows.len() - 1
                }
            };
            self.rows[row].cells[column].runs.push(value);
        }
    }

    /// Returns the duration of the last run of a workload in seconds, or `None` if the workload has
    /// not run.
    pub fn seconds(&self, engine: Engine, workload: &str) -> Option<f64> {
        let column = self.engines.iter().position(|e| *e == engine)?;
        self.seconds.get(&(column, workload.to_string())).copied()
    }

    /// Returns the column of minikv, whose ratios to the other engines are reported.
    fn own(&self) -> Option<usize> {
        self.engines.iter().position(|engine| engine.is_minikv())
    }

    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for line in &self.head {
            let _ = writeln!(text, "{line}.\n");
        }
        for line in self.described.iter().flatten() {
            let _ = writeln!(text, "- {line}");
        }
        let names: Vec<&str> = self.engines.iter().map(|engine| engine.name()).collect();
        let _ =
            writeln!(text, "\n| workload | unit | {} | to best LSM | to best |", names.join(" | "));
        let _ = writeln!(text, "| --- | --- |{}", " ---: |".repeat(names.len() + 2));
        for row in &self.rows {
            let (scale, unit) = row.scale();
            let _ = write!(text, "| {} | {unit} |", row.name);
            for cell in &row.cells {
                let _ = match (cell.median(), cell.bounds()) {
                    (Some(median), Some((low, high))) if cell.runs.len() > 1 => {
                        let [median, low, high] = [median, low, high].map(|v| digits(v / scale));
                        write!(text, " {median} ({low} to {high}) |")
                    }
                    (Some(median), _) => write!(text, " {} |", digits(median / scale)),
                    _ => write!(text, " – |"),
                };
            }
            for ratio in self.ratios(row) {
                let ratio = ratio.map_or("–".to_string(), |ratio| format!("{ratio:.2}"));
                let _ = write!(text, " {ratio} |");
            }
            let _ = writeln!(text);
        }
        let _ = writeln!(
            text,
            "\nA ratio is minikv's to that of the best peer, so that above 1 minikv is better, \
             also where less is better."
        );
        text
    }

    /// Returns two ratios: minikv to the best log-structured peer, and minikv to the best peer of
    /// any kind.
    fn ratios(&self, row: &Row) -> [Option<f64>; 2] {
        let is_peer = |engine: Engine| !engine.is_minikv();
        let best = row.best(&self.engines, is_peer);
        let best_lsm = row.best(&self.engines, |engine| is_peer(engine) && engine.is_lsm());
        let own = self.own().filter(|own| row.cells[*own].median().is_some());
        [best_lsm, best].map(|other| row.ratio(own?, other?))
    }

    pub fn json(&self) -> Value {
        let engines = self.engines.iter().zip(&self.described);
        let rows = self.rows.iter().map(|row| {
            let cells = self.engines.iter().zip(&row.cells).filter(|(_, c)| !c.runs.is_empty());
            let cells = cells.map(|(engine, cell)| {
                let (min, max) = cell.bounds().expect("a run");
                let median = cell.median();
                let cell = json!({"median": median, "min": min, "max": max, "runs": cell.runs});
                (engine.name().to_string(), cell)
            });
            let [to_best_lsm, to_best] = self.ratios(row);
            json!({
                "name": row.name,
                "unit": row.unit,
                "better": row.better,
                "engines": cells.collect::<serde_json::Map<_, _>>(),
                "to_best_lsm": to_best_lsm,
                "to_best": to_best,
            })
        });
        json!({
            "plan": self.plan,
            "machine": machine(),
            "engines": engines
                .map(|(engine, options)| json!({"name": engine.name(), "options": options}))
                .collect::<Vec<_>>(),
            "figures": rows.collect::<Vec<_>>(),
        })
    }
}

/// Returns a text with the processor's name, the number of processors, and the instruction set for
/// which this program was built.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |m| m.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    let built = match cfg!(all(target_feature = "avx2", target_feature = "sse4.2")) {
        true => "engines built here for haswell",
        false => "engines built for the baseline: run cargo inside benches/peers",
    };
    format!("{cores} × {model}; {built}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use minikv_workloads::Outcome;

    use super::*;

    fn add(report: &mut Report, engine: Engine, name: &str, value: f64, better: Better) {
        let unit = if better == Better::Higher { "op/s" } else { "s" };
        let outcome = Outcome {
            workload: name.to_string(),
            operations: 1,
            seconds: 1.0,
            latency: None,
            figures: vec![Figure::new(name, value, unit, better)],
        };
        report.add(engine, Line { engine: format!("{} described", engine.name()), outcome });
    }

    #[test]
    fn medians_and_ratios_are_minikvs() {
        let args = Args::parse_from(["peers", "--engines", "minikv,leveldb", "--repeats", "3"]);
        let mut report = Report::new(&args);
        for (ours, theirs) in [(300e3, 100e3), (100e3, 90e3), (200e3, 120e3)] {
            add(&mut report, Engine::Minikv, "fillseq", ours, Better::Higher);
            add(&mut report, Engine::LevelDb, "fillseq", theirs, Better::Higher);
        }
        add(&mut report, Engine::Minikv, "compact", 3.0, Better::Lower);
        add(&mut report, Engine::LevelDb, "compact", 1.5, Better::Lower);
        let text = report.markdown();
        for line in [
            "- minikv described",
            "| fillseq | kop/s | 200 (100 to 300) | 100 (90.0 to 120) | 2.00 | 2.00 |",
            "| compact | s | 3.00 | 1.50 | 0.50 | 0.50 |",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }

        let home = tempfile::tempdir().unwrap();
        crate::results::write(&report, home.path()).unwrap();
        let json = std::fs::read(home.path().join("peers.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["figures"][0]["engines"]["minikv"]["median"], 200e3);
        assert_eq!(json["figures"][0]["engines"]["leveldb"]["runs"], json!([100e3, 90e3, 120e3]));
        assert_eq!(json["figures"][1]["to_best"], 0.5);
        let svg = std::fs::read_to_string(home.path().join("peers.svg")).unwrap();
        assert!(svg.contains("fillseq") && svg.contains("leveldb"));
    }

    #[test]
    fn an_even_number_of_runs_has_a_median_too() {
        let median = |runs: &[f64]| Cell { runs: runs.to_vec() }.median();
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!([1234.4, 123.4, 12.34, 1.234].map(digits), ["1,234", "123", "12.3", "1.23"]);
    }
}
