//! Draws a chart that compares each figure of each engine with the same figure of the first peer
//! (LevelDB, by default). A ratio above 1 means that the engine is better than the first peer.

use std::path::Path;

use minikv_workloads::{Better, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::colors::{self, INK};
use crate::report::Report;

const WIDTH: u32 = 900;
const BAR: u32 = 9;
const GAP: u32 = 8;
const NAMES_WIDTH: u32 = 210;
/// Height of the row above a chart that names the engines, in pixels.
pub const LEGEND_HEIGHT: u32 = 24;

/// Draws the chart. Writes nothing if there are no figures.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let engines = &report.engines;
    let base = engines.iter().position(|engine| !engine.is_minikv()).unwrap_or(0);
    let mut bars = Vec::new();
    for row in &report.rows {
        let Some(base) = row.cells[base].median().filter(|base| *base > 0.0) else { continue };
        let ratios = row.cells.iter().map(|cell| {
            let own = cell.median().filter(|own| *own > 0.0)?;
            Some(if row.better == Better::Higher { own / base } else { base / own })
        });
        bars.push((row.name.clone(), ratios.collect::<Vec<_>>()));
    }
    if bars.is_empty() {
        return Ok(());
    }
    let row_height = engines.len() as u32 * BAR + GAP;
    let height = bars.len() as u32 * row_height + 90 + LEGEND_HEIGHT;
    let all = || bars.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
    let low = all().fold(0.5, f64::min) / 1.2;
    let high = all().fold(2.0, f64::max) * 1.2;

    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, root) = root.split_vertically(LEGEND_HEIGHT);
    legend(&top, engines.iter().map(|engine| engine.name()))?;
    let title = format!("times as good as {}, logarithmic", engines[base].name());
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(NAMES_WIDTH)
        .build_cartesian_2d((low..high).log_scale(), 0.0..rows)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().x_labels(8).draw()?;
    let bar = f64::from(BAR) / f64::from(row_height);
    for (column, engine) in engines.iter().enumerate() {
        let style = colors::of(engine.name()).filled();
        let boxes = bars.iter().enumerate().filter_map(|(row, (_, ratios))| {
            let top = rows - row as f64 - column as f64 * bar - bar / 2.0;
            Some(Rectangle::new([(1.0, top), (ratios[column]?, top - bar)], style))
        });
        chart.draw_series(boxes)?;
    }
    for (row, (name, _)) in bars.iter().enumerate() {
        let (_, y) = chart.backend_coord(&(1.0, rows - row as f64 - 0.5));
        let style = ("sans-serif", 12).into_text_style(&root);
        root.draw_text(name, &style, (12, y - 6))?;
    }
    root.present()?;
    drop(chart);
    drop((top, root));
    colors::add_dark(path)
}

/// Draws the names and colours of engines side by side. The row is apart from the chart, so that it
/// hides nothing.
pub fn legend<'n>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    engines: impl Iterator<Item = &'n str>,
) -> Result<()> {
    let mut x = 12;
    for engine in engines {
        let style = colors::of(engine).filled();
        area.draw(&Rectangle::new([(x, 7), (x + 10, 17)], style))?;
        let text = ("sans-serif", 12).into_text_style(area).color(&INK);
        area.draw_text(engine, &text, (x + 15, 6))?;
        x += 31 + 7 * engine.len() as i32;
    }
    Ok(())
}
