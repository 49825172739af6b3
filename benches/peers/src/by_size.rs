//! Draws the cost of an operation against the size of the database, from the results of several
//! runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use minikv_workloads::Result;
use plotters::prelude::*;
use serde_json::Value;

use crate::chart::{LEGEND_HEIGHT, legend};
use crate::colors;

const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (300, 220);

/// The points of one engine: number of entries in the database, and microseconds per operation.
struct EngineLine {
    engine: String,
    points: Vec<(f64, f64)>,
}

/// The chart of one workload, with a line for each engine.
struct WorkloadPanel {
    workload: String,
    lines: Vec<EngineLine>,
}

/// Reads `peers.json` files of runs with different numbers of entries, and writes `by-size.md` and
/// `by-size.svg` into `out`.
pub fn run(files: &[PathBuf], out: &Path) -> Result<()> {
    let mut runs = Vec::new();
    for file in files {
        let read = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let run: Value = serde_json::from_slice(&read)?;
        let entries = run["plan"]["entries"].as_u64().ok_or("a run without its entries")?;
        runs.push((entries, run));
    }
    runs.sort_by_key(|(entries, _)| *entries);
    let panels = panels(&runs);
    let text = markdown(&panels);
    println!("{text}");
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("by-size.md"), text)?;
    draw(&panels, &out.join("by-size.svg"))
}

fn panels(runs: &[(u64, Value)]) -> Vec<WorkloadPanel> {
    let mut panels: Vec<WorkloadPanel> = Vec::new();
    for (entries, run) in runs {
        let figures = run["figures"].as_array().into_iter().flatten();
        for figure in figures.filter(|figure| figure["unit"] == "op/s") {
            let workload = figure["name"].as_str().unwrap_or_default();
            let cells = figure["engines"].as_object().into_iter().flatten();
            for (engine, cell) in cells {
                let Some(per_second) = cell["median"].as_f64().filter(|median| *median > 0.0)
                else {
                    continue;
                };
                let at = find(
                    &mut panels,
                    |panel| panel.workload == workload,
                    || WorkloadPanel { workload: workload.to_owned(), lines: Vec::new() },
                );
                let line = find(
                    &mut at.lines,
                    |line| line.engine == *engine,
                    || EngineLine { engine: engine.clone(), points: Vec::new() },
                );
                line.points.push((*entries as f64, 1e6 / per_second));
            }
        }
    }
    // A line needs at least two sizes, so workloads measured at a single size are left out.
    panels.iter_mut().for_each(|panel| panel.lines.retain(|line| line.points.len() > 1));
    panels.retain(|panel| !panel.lines.is_empty());
    panels
}

fn find<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is_it).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    });
    &mut all[at]
}

fn markdown(panels: &[WorkloadPanel]) -> String {
    let mut text = String::from("| workload | engine | microseconds, by entries |\n");
    text.push_str("| --- | --- | --- |\n");
    for panel in panels {
        for line in &panel.lines {
            let points = line.points.iter();
            let points: Vec<_> =
                points.map(|(entries, micros)| format!("{entries}: {micros:.2}")).collect();
            let (workload, engine) = (&panel.workload, &line.engine);
            let _ = writeln!(text, "| {workload} | {engine} | {} |", points.join(", "));
        }
    }
    text
}

fn draw(panels: &[WorkloadPanel], path: &Path) -> Result<()> {
    if panels.is_empty() {
        return Ok(());
    }
    let rows = panels.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32 + LEGEND_HEIGHT);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, root) = root.split_vertically(LEGEND_HEIGHT);
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let engines: BTreeSet<&str> = lines.map(|line| line.engine.as_str()).collect();
    legend(&top, engines.into_iter())?;
    for (panel, area) in panels.iter().zip(root.split_evenly((rows, COLUMNS))) {
        let points = || panel.lines.iter().flat_map(|line| line.points.iter().copied());
        let most = |of: fn((f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let least = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::MAX, f64::min);
        let x = (least(|p| p.0)..most(|p| p.0)).log_scale();
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("{}: µs, by entries", panel.workload), ("sans-serif", 13))
            .margin(6)
            .x_label_area_size(22)
            .y_label_area_size(38)
            .build_cartesian_2d(x, 0.0..most(|p| p.1) * 1.1)?;
        let label = |entries: &f64| match *entries {
            n if n >= 1e6 => format!("{} M", n / 1e6),
            n => format!("{} k", n / 1e3),
        };
        chart.configure_mesh().x_labels(3).y_labels(5).x_label_formatter(&label).draw()?;
        for line in &panel.lines {
            let style = colors::of(&line.engine).stroke_width(2);
            let series = LineSeries::new(line.points.iter().copied(), style).point_size(3);
            chart.draw_series(series)?;
        }
    }
    root.present()?;
    drop((top, root));
    colors::add_dark(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_of_several_sizes_make_one_line_for_each_engine() {
        let home = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = [(2_000_000, 500e3), (200_000, 1000e3)]
            .map(|(entries, speed)| {
                let of_minikv = |median: f64| json!({"minikv": {"median": median}});
                let figures = json!([
                    {"name": "readrandom", "unit": "op/s", "engines": of_minikv(speed)},
                    {"name": "compact", "unit": "s", "engines": of_minikv(1.0)},
                ]);
                let path = home.path().join(format!("{entries}.json"));
                let run = json!({"plan": {"entries": entries}, "figures": figures});
                std::fs::write(&path, run.to_string()).unwrap();
                path
            })
            .into();
        run(&files, home.path()).unwrap();
        let text = std::fs::read_to_string(home.path().join("by-size.md")).unwrap();
        assert!(text.contains("| readrandom | minikv | 200000: 1.00, 2000000: 2.00 |"), "{text}");
        let svg = std::fs::read_to_string(home.path().join("by-size.svg")).unwrap();
        assert!(svg.contains("readrandom") && !svg.contains("compact"));
        assert_eq!(svg.matches("\nminikv\n").count(), 1, "one legend: {svg}");
        assert!(svg.contains("stroke=\"#3B78B5\"") && svg.contains("prefers-color-scheme: dark"));
    }
}
