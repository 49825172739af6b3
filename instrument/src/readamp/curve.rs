//! SVG charts of measured points and theoretical curves against bits per key.

use std::fmt::Write;

use super::chart::{AXIS, Frame, LogScale, escape, labels_apart, line, text, ticks};

const TOP: f64 = 26.0;
const HEIGHT: f64 = 340.0;
/// Space for the labels of the vertical axis, in pixels.
const INDENT: f64 = 66.0;
const RIGHT: f64 = 12.0;

/// A measured point and its interval.
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    pub class: &'static str,
    pub tooltip: String,
}

/// A curve: a theoretical one, or the line through measured points.
pub struct Curve {
    pub class: String,
    pub points: Vec<(f64, f64)>,
}

/// Unit of a vertical axis, which determines its scale.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Rates, as percentages on a logarithmic scale.
    Percent,
    /// Numbers on a logarithmic scale.
    Logarithmic,
    /// Numbers on a linear scale that begins at 0.
    Linear,
}

/// Names of the axes of a chart, and the unit of the vertical axis.
pub struct Axes {
    pub across: &'static str,
    pub upwards: &'static str,
    pub unit: Unit,
}

/// A vertical scale.
enum Upwards {
    Log(LogScale),
    Linear { ticks: Vec<f64> },
}

impl Upwards {
    /// Creates a scale that has room for all points and curves.
    fn of(unit: Unit, points: &[Point], curves: &[Curve]) -> Upwards {
        let ys = points.iter().flat_map(|p| [p.low, p.high, p.y]);
        let ys = ys.chain(curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)));
        let ys: Vec<_> = ys.filter(|y| *y > 0.0 && y.is_finite()).collect();
        // Without values, both scales have ends of their own.
        let most = ys.iter().copied().fold(0.0, f64::max);
        let least = ys.iter().copied().fold(f64::INFINITY, f64::min);
        match unit {
            Unit::Linear => Upwards::Linear { ticks: ticks(most) },
            Unit::Percent | Unit::Logarithmic => {
                Upwards::Log(LogScale::new(least, most, HEIGHT, TOP))
            }
        }
    }

    /// Returns the coordinate of a value. Values beyond the scale are at its ends.
    fn at(&self, value: f64) -> f64 {
        match self {
            Upwards::Log(log) => log.at(value.max(f64::MIN_POSITIVE)),
            Upwards::Linear { ticks } => {
                let most = ticks.last().copied().unwrap_or(1.0);
                HEIGHT - (value / most).clamp(0.0, 1.0) * (HEIGHT - TOP)
            }
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Upwards::Log(log) => log.ticks(),
            Upwards::Linear { ticks } => ticks.clone(),
        }
    }
}

/// Returns a chart of points and curves.
pub fn against(
    frame: &Frame,
    title: &str,
    axes: &Axes,
    points: &[Point],
    curves: &[Curve],
) -> String {
    let scale = Upwards::of(axes.unit, points, curves);
    let xs = || {
        let of_curves = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
        of_curves.chain(points.iter().map(|point| point.x))
    };
    let last = xs().fold(1.0, f64::max);
    let first = xs().fold(last, f64::min);
    let across = (frame.width - INDENT - 2.0 * RIGHT) / (last - first).max(1.0);
    let at = |x: f64| INDENT + RIGHT + (x - first) * across;
    let mut out = String::new();
    for tick in scale.ticks() {
        let y = scale.at(tick);
        line(&mut out, "grid", (INDENT, y), (frame.width - RIGHT, y));
        text(&mut out, INDENT - 8.0, y + 4.0, "tick end", &label(axes.unit, tick));
    }
    let bits = first as u32..=last as u32;
    let labels: Vec<_> = bits.map(|bits| (at(f64::from(bits)), bits.to_string())).collect();
    for (x, bits) in labels.iter().step_by(labels_apart(&labels)) {
        text(&mut out, *x, HEIGHT + 16.0, "tick middle", bits);
    }
    text(&mut out, INDENT, HEIGHT + 32.0, "axis", axes.across);
    text(&mut out, 0.0, 12.0, "axis", axes.upwards);
    for curve in curves {
        let point = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", at(*x), scale.at(*y));
        let path: Vec<_> = curve.points.iter().map(point).collect();
        let _ =
            writeln!(out, "<polyline points=\"{}\" class=\"{}\"/>", path.join(" "), curve.class);
    }
    for point in points {
        let (low, high) = (scale.at(point.low), scale.at(point.high));
        let (x, y) = (at(point.x), scale.at(point.y));
        let (tooltip, class) = (escape(&point.tooltip), point.class);
        let _ = writeln!(
            out,
            "<g class=\"measured {class}\"><title>{tooltip}</title>\
             <line x1=\"{x:.1}\" y1=\"{low:.1}\" x2=\"{x:.1}\" y2=\"{high:.1}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>"
        );
    }
    frame.svg(title, HEIGHT + AXIS, &out)
}

fn label(unit: Unit, tick: f64) -> String {
    // Without the rounding errors of binary fractions.
    let round = |n: f64| (n * 1e9).round() / 1e9;
    match unit {
        Unit::Percent => format!("{} %", round(tick * 100.0)),
        Unit::Logarithmic | Unit::Linear => round(tick).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readamp::chart::{NARROW, WIDE};

    #[test]
    fn each_unit_has_its_scale_and_its_labels() {
        let point = |x: f64, y: f64| Point {
            x,
            y,
            low: y / 2.0,
            high: y * 2.0,
            class: "bloom",
            tooltip: "<t>".to_string(),
        };
        let points = [point(0.0, 1.0), point(10.0, 0.01), point(20.0, 0.0)];
        let curve = Curve { class: "textbook".to_string(), points: vec![(0.0, 1.0), (20.0, 1e-4)] };
        let chart = |unit, frame: &Frame| {
            let axes = Axes { across: "bits", upwards: "y", unit };
            against(frame, "title", &axes, &points, std::slice::from_ref(&curve))
        };
        let percent = chart(Unit::Percent, &WIDE);
        assert!(percent.contains(">100 %</text>") && percent.contains(">0.01 %</text>"));
        let linear = chart(Unit::Linear, &NARROW);
        assert!(linear.contains(">0</text>") && linear.contains(">2</text>"), "{linear}");
        assert_eq!(linear.matches("<circle").count(), 3);
        assert!(linear.contains("&lt;t&gt;") && linear.contains("cy=\"340.0\""), "{linear}");
        let log = chart(Unit::Logarithmic, &NARROW);
        assert!(log.contains(">0.001</text>") && !log.contains("NaN") && !log.contains("inf"));
        assert!(log.contains(">20</text>"), "the last size has a label: {log}");
        assert!(
            !against(&WIDE, "", &Axes { across: "", upwards: "", unit: Unit::Linear }, &[], &[])
                .contains("NaN")
        );
    }
}
