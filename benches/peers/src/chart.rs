//! Draws a chart that compares each figure of each engine with the same figure of the first peer
//! (LevelDB, by default). A ratio above 1 means that the engine is better than the first peer.

use std::path::Path;

use minikv_workloads::{Better, Result};
use plotters::prelude::*;

use crate::report::Report;

const WIDTH: u32 = 900;
const BAR: u32 = 9;
const GAP: u32 = 8;
const NAMES_WIDTH: u32 = 210;
pub const COLORS: [RGBColor; 6] = [
    RGBColor(200, 60, 40),
    RGBColor(240, 150, 120),
    RGBColor(60, 100, 180),
    RGBColor(80, 160, 90),
    RGBColor(150, 110, 180),
    RGBColor(130, 130, 130),
];

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
    let height = bars.len() as u32 * row_height + 90;
    let all = || bars.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
    let low = all().fold(0.5, f64::min) / 1.2;
    let high = all().fold(2.0, f64::max) * 1.2;

    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
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
        let style = COLORS[column % COLORS.len()].filled();
        let boxes = bars.iter().enumerate().filter_map(|(row, (_, ratios))| {
            let top = rows - row as f64 - column as f64 * bar - bar / 2.0;
            Some(Rectangle::new([(1.0, top), (ratios[column]?, top - bar)], style))
        });
        chart
            .draw_series(boxes)?
            .label(engine.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 10, y + 4)], style));
    }
    for (row, (name, _)) in bars.iter().enumerate() {
        let (_, y) = chart.backend_coord(&(1.0, rows - row as f64 - 0.5));
        let style = ("sans-serif", 12).into_text_style(&root);
        root.draw_text(name, &style, (12, y - 6))?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
