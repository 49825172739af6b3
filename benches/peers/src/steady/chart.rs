//! Draws the seconds of each engine: a panel for each figure, a line for each engine.

use std::path::Path;

use minikv_workloads::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Second, SteadyRun};
use crate::chart::{LEGEND_HEIGHT, legend};
use crate::colors;

const COLUMNS: usize = 2;
const PANEL: (u32, u32) = (450, 190);
/// Number of points of a line. Each stands for the same number of seconds: a long run has several
/// thousand seconds, which nobody could tell apart.
const POINTS: usize = 240;

/// A figure of a second.
struct SecondsPanel {
    title: &'static str,
    of: fn(&Second) -> f64,
    /// Whether the greatest figure stands for several seconds, or their mean.
    greatest: bool,
    logarithmic: bool,
}

const PANELS: [SecondsPanel; 6] = [
    SecondsPanel {
        title: "longest put, ms",
        of: |second| second.longest_put,
        greatest: true,
        logarithmic: true,
    },
    SecondsPanel {
        title: "longest get, ms",
        of: |second| second.longest_get,
        greatest: true,
        logarithmic: true,
    },
    SecondsPanel {
        title: "thousand puts a second",
        of: |second| second.puts as f64 / 1e3,
        greatest: false,
        logarithmic: false,
    },
    SecondsPanel {
        title: "memory of its own, MiB",
        of: |second| second.memory,
        greatest: true,
        logarithmic: false,
    },
    SecondsPanel {
        title: "open files",
        of: |second| second.files as f64,
        greatest: true,
        logarithmic: false,
    },
    SecondsPanel {
        title: "space on disk, MiB",
        of: |second| second.disk,
        greatest: true,
        logarithmic: false,
    },
];

/// Draws the chart.
pub fn write(results: &[SteadyRun], path: &Path) -> Result<()> {
    let rows = PANELS.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32 + LEGEND_HEIGHT);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND_HEIGHT);
    legend(&top, results.iter().map(|measured| &*measured.engine))?;
    for (panel, area) in PANELS.iter().zip(rest.split_evenly((rows, COLUMNS))) {
        draw(panel, results, &area)?;
    }
    root.present()?;
    drop((top, rest, root));
    colors::add_dark(path)
}

fn draw(
    panel: &SecondsPanel,
    results: &[SteadyRun],
    area: &DrawingArea<SVGBackend<'_>, Shift>,
) -> Result<()> {
    let lines: Vec<_> = results.iter().map(|measured| panel.points(&measured.seconds)).collect();
    let all = || lines.iter().flatten();
    let minutes = all().map(|(minute, _)| *minute).fold(0.1, f64::max);
    let most = all().map(|(_, figure)| *figure).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area);
    chart.caption(panel.title, ("sans-serif", 13));
    chart.margin(6).x_label_area_size(22).y_label_area_size(44);
    let style = |at: usize| colors::of(&results[at].engine).stroke_width(1);
    if panel.logarithmic {
        let least = all().map(|(_, figure)| *figure).fold(1.0, f64::min).max(0.001);
        let mut chart = chart.build_cartesian_2d(0.0..minutes, (least..most * 1.2).log_scale())?;
        chart.configure_mesh().x_labels(6).y_labels(5).x_desc("minutes").draw()?;
        for (at, line) in lines.iter().enumerate() {
            let points = line.iter().map(|(minute, figure)| (*minute, figure.max(least)));
            chart.draw_series(LineSeries::new(points, style(at)))?;
        }
    } else {
        let mut chart = chart.build_cartesian_2d(0.0..minutes, 0.0..most * 1.1)?;
        chart.configure_mesh().x_labels(6).y_labels(5).x_desc("minutes").draw()?;
        for (at, line) in lines.iter().enumerate() {
            chart.draw_series(LineSeries::new(line.iter().copied(), style(at)))?;
        }
    }
    Ok(())
}

impl SecondsPanel {
    /// Returns the points of a line: minutes since the beginning, and the figure.
    fn points(&self, seconds: &[Second]) -> Vec<(f64, f64)> {
        let each = seconds.len().div_ceil(POINTS).max(1);
        let figure = |chunk: &[Second]| match self.greatest {
            true => chunk.iter().map(self.of).fold(0.0, f64::max),
            false => chunk.iter().map(self.of).sum::<f64>() / chunk.len() as f64,
        };
        let chunks = seconds.chunks(each).enumerate();
        chunks.map(|(at, chunk)| (((at + 1) * each) as f64 / 60.0, figure(chunk))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_longest_put_of_its_seconds_and_their_mean_rate() {
        let second = |puts, longest_put| Second { puts, longest_put, ..Second::default() };
        let seconds: Vec<_> =
            [second(1000, 1.0), second(3000, 7.0)].into_iter().cycle().take(2 * POINTS).collect();
        let points = |panel: usize| PANELS[panel].points(&seconds);
        assert_eq!(points(0).len(), POINTS);
        assert!(points(0).iter().all(|(_, longest)| *longest == 7.0));
        assert!(points(2).iter().all(|(_, rate)| *rate == 2.0));
        assert_eq!(points(0).last().unwrap().0, 2.0 * POINTS as f64 / 60.0);
    }
}
