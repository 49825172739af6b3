//! Draws the chart, which shows reads, writes and space of each case side by side.

use std::path::Path;

use minikv_workloads::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Case, Measured};
use crate::colors::{self, INK};

const NAMES_WIDTH: u32 = 170;
const PANEL_WIDTH: u32 = 250;
const HEAD_HEIGHT: u32 = 64;
const ROW_HEIGHT: u32 = 34;
const BAR_HEIGHT: u32 = 12;
/// Width reserved for the number beside the longest bar, in pixels.
const NUMBER_WIDTH: u32 = 56;
/// Share of the engine's colour in the second bar of a row. The rest is white.
const PALE: f64 = 0.45;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One panel of the chart. In each row, it shows a figure as a bar, and below it a second figure as
/// a paler bar.
struct Panel {
    title: &'static str,
    first: &'static str,
    second: &'static str,
    /// Number of decimal places.
    digits: usize,
    bars: Vec<[Option<f64>; 2]>,
}

/// Draws the chart.
pub fn write(results: &[(Case, Measured)], path: &Path) -> Result<()> {
    let panels = panels(results);
    let width = NAMES_WIDTH + PANEL_WIDTH * panels.len() as u32;
    let height = HEAD_HEIGHT + ROW_HEIGHT * results.len() as u32 + 8;
    let root = SVGBackend::new(path, (width, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (names, rest) = root.split_horizontally(NAMES_WIDTH);
    for (row, (case, _)) in results.iter().enumerate() {
        let name = format!("{}, {}", case.engine.name(), case.filters());
        let middle = Pos::new(HPos::Right, VPos::Center);
        label(&names, &name, (NAMES_WIDTH as i32 - 8, top(row) + BAR_HEIGHT as i32), 12, middle)?;
    }
    let colors: Vec<_> = results.iter().map(|(case, _)| colors::of(case.engine.name())).collect();
    for (panel, area) in panels.iter().zip(rest.split_evenly((1, panels.len()))) {
        draw(panel, &colors, &area)?;
    }
    root.present()?;
    drop((root, names));
    colors::add_dark(path)
}

fn panels(results: &[(Case, Measured)]) -> [Panel; 3] {
    let bars = |of: fn(&Measured) -> [Option<f64>; 2]| results.iter().map(|(_, m)| of(m)).collect();
    [
        Panel {
            title: "Reads: data blocks per get",
            first: "absent keys",
            second: "present keys",
            digits: 3,
            bars: bars(|m| {
                let per_get = |blocks| m.per_get(blocks);
                [m.blocks.map(|b| per_get(b.absent)), m.blocks.map(|b| per_get(b.present))]
            }),
        },
        Panel {
            title: "Writes: bytes per byte put",
            first: "system's count",
            second: "engine's own",
            digits: 2,
            bars: bars(|m| {
                let own = m.own_written_bytes().filter(|_| m.log_bytes.is_some());
                [Some(m.per_put(m.written_bytes)), own.map(|bytes| m.per_put(bytes))]
            }),
        },
        Panel {
            title: "Space: bytes per live byte",
            first: "tables",
            second: "whole directory",
            digits: 2,
            bars: bars(|m| [Some(m.per_live(m.table_bytes)), Some(m.per_live(m.directory_bytes))]),
        },
    ]
}

/// Returns the upper edge of the first bar in a row, in pixels.
fn top(row: usize) -> i32 {
    (HEAD_HEIGHT + ROW_HEIGHT * row as u32) as i32
}

fn draw(panel: &Panel, colors: &[RGBColor], area: &Area<'_>) -> Result<()> {
    let left = Pos::new(HPos::Left, VPos::Center);
    label(area, panel.title, (0, 18), 14, left)?;
    let mut x = 0;
    for (name, strength) in [(panel.first, 1.0), (panel.second, PALE)] {
        let style = INK.mix(strength).filled();
        area.draw(&Rectangle::new([(x, 37), (x + 10, 47)], style))?;
        label(area, name, (x + 14, 42), 11, left)?;
        x += 24 + 6 * name.len() as i32;
    }
    let most = panel.bars.iter().flatten().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let scale = f64::from(PANEL_WIDTH - NUMBER_WIDTH) / most;
    for (row, bars) in panel.bars.iter().enumerate() {
        for (line, (value, strength)) in bars.iter().zip([1.0, PALE]).enumerate() {
            let y = top(row) + line as i32 * BAR_HEIGHT as i32;
            let Some(value) = value else {
                label(area, "not told", (4, y + BAR_HEIGHT as i32 / 2), 10, left)?;
                continue;
            };
            let end = (value * scale).round().max(1.0) as i32;
            let style = colors[row].mix(strength).filled();
            area.draw(&Rectangle::new([(0, y), (end, y + BAR_HEIGHT as i32 - 1)], style))?;
            let number = format!("{value:.*}", panel.digits);
            label(area, &number, (end + 4, y + BAR_HEIGHT as i32 / 2), 10, left)?;
        }
    }
    let bottom = top(panel.bars.len()) - (ROW_HEIGHT - 2 * BAR_HEIGHT) as i32;
    area.draw(&PathElement::new([(0, HEAD_HEIGHT as i32 - 4), (0, bottom + 4)], INK))?;
    Ok(())
}

fn label(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, anchor: Pos) -> Result<()> {
    let style = ("sans-serif", size).into_text_style(area).color(&INK).pos(anchor);
    Ok(area.draw_text(text, &style, at)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amplification::Blocks;
    use crate::engines::Engine;

    #[test]
    fn a_chart_has_each_case_and_marks_figures_without_a_counter() {
        let case = |filters| Case { engine: Engine::LevelDb, filters };
        let told = Measured {
            put_bytes: 100,
            live_bytes: 50,
            written_bytes: 432,
            table_bytes: 40,
            directory_bytes: 45,
            lookups: 1000,
            blocks: Some(Blocks { absent: 12, present: 1050 }),
            ..Measured::default()
        };
        let untold = Measured { blocks: None, ..told.clone() };
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("chart.svg");
        write(&[(case(true), told), (case(false), untold)], &path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        for part in ["leveldb, block:10", "leveldb, none", "0.012", "1.050", "4.32", "0.90"] {
            assert!(svg.contains(part), "{part}");
        }
        // The chart must show "not told" four times: in both rows for the number of bytes written,
        // as counted by the engine, and in the second row for both numbers of blocks.
        assert_eq!(svg.matches("not told").count(), 4);
        assert!(svg.contains("fill=\"#C8553D\"") && svg.contains("prefers-color-scheme: dark"));
    }
}
