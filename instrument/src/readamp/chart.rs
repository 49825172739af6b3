//! SVG charts for an HTML page. The page's style sheet defines the classes that the charts use.

use std::fmt::Write;

/// Height of a row of bars or dots, in pixels.
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
/// Height in pixels of a line of text. In a row of several spans, each span has this height.
const TEXT: f64 = 15.0;
pub const AXIS: f64 = 36.0;
/// Width of a character of a label, in pixels, at most.
const CHARACTER: f64 = 7.5;
/// Least space between two labels of an axis, in pixels.
const BETWEEN: f64 = 6.0;

/// Space between the end of a span and its label, in pixels.
const LABEL_GAP: f64 = 8.0;

/// Width of a chart and of its margins, in pixels.
pub struct Frame {
    pub width: f64,
    /// Space for the names of rows.
    left: f64,
    /// Least space for the figures to the right of the longest row.
    right: f64,
}

/// The frame for wide windows.
pub const WIDE: Frame = Frame { width: 760.0, left: 90.0, right: 100.0 };
/// The frame for phones.
pub const NARROW: Frame = Frame { width: 360.0, left: 66.0, right: 84.0 };

impl Frame {
    /// Returns the width between the margins.
    fn across(&self) -> f64 {
        self.width - self.left - self.right
    }

    /// Draws vertical lines and labels at the `ticks` of a horizontal axis, and the name of the
    /// unit.
    ///
    /// Labels that would collide are left out: then each second tick has a label, or each third.
    fn axis(&self, out: &mut String, height: f64, unit: &str, ticks: &[(f64, String)]) {
        let step = labels_apart(ticks);
        for (i, (x, label)) in ticks.iter().enumerate() {
            line(out, "grid", (*x, 0.0), (*x, height));
            if i % step == 0 {
                text(out, *x, height + 16.0, "tick middle", label);
            }
        }
        text(out, self.left, height + 32.0, "axis", unit);
    }

    pub fn svg(&self, title: &str, height: f64, body: &str) -> String {
        let (title, width) = (escape(title), self.width);
        format!(
            "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n{body}</svg>\n"
        )
    }
}

/// Returns the least `n` for which the labels of each `n`-th tick do not collide.
pub fn labels_apart(ticks: &[(f64, String)]) -> usize {
    let half = |label: &str| label.chars().count() as f64 * CHARACTER / 2.0;
    let collide = |a: &(f64, String), b: &(f64, String)| {
        (b.0 - a.0).abs() < half(&a.1) + half(&b.1) + BETWEEN
    };
    let is_free = |n: &usize| {
        let labelled: Vec<_> = ticks.iter().step_by(*n).collect();
        !labelled.windows(2).any(|pair| collide(pair[0], pair[1]))
    };
    (1..ticks.len()).find(is_free).unwrap_or(ticks.len().max(1))
}

/// Returns text escaped for use inside an element or attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

pub fn text(out: &mut String, x: f64, y: f64, class: &str, label: &str) {
    let label = escape(label);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{label}</text>");
}

pub fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
    );
}

/// A stacked bar.
pub struct Bar {
    pub name: String,
    /// Class, length and tooltip of each part.
    pub parts: Vec<(String, f64, String)>,
}

impl Bar {
    /// Returns the total length of the parts.
    pub fn sum(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }
}

/// Returns a chart of horizontal bars on a scale from 0 to `most`. The sum of each bar's parts is
/// written to the right of the bar.
pub fn bars(frame: &Frame, title: &str, unit: &str, bars: &[Bar], most: f64) -> String {
    let ticks = ticks(most);
    let scale = frame.across() / ticks.last().copied().unwrap_or(1.0);
    let height = bars.len() as f64 * ROW;
    let mut out = String::new();
    let ticks: Vec<_> =
        ticks.iter().map(|tick| (frame.left + tick * scale, tick.to_string())).collect();
    frame.axis(&mut out, height, unit, &ticks);
    for (i, bar) in bars.iter().enumerate() {
        let y = i as f64 * ROW;
        text(&mut out, frame.left - 8.0, y + 15.0, "name end", &bar.name);
        let mut x = frame.left;
        for (class, length, tooltip) in bar.parts.iter().filter(|part| part.1 > 0.0) {
            let (width, top, tooltip) = (length * scale, y + (ROW - BAR) / 2.0, escape(tooltip));
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{BAR}\" \
                 class=\"{class}\"><title>{tooltip}</title></rect>"
            );
            x += width;
        }
        text(&mut out, x + 6.0, y + 15.0, "value", &figures(bar.sum()));
    }
    frame.svg(title, height + AXIS, &out)
}

/// A row of a chart of spans.
pub struct Row {
    pub name: String,
    pub spans: Vec<Span>,
}

/// A span from a typical value to a high value.
pub struct Span {
    pub class: &'static str,
    pub from: f64,
    pub to: f64,
    pub tooltip: String,
}

/// Returns a chart of spans on a logarithmic scale. The values at both ends of each span are
/// written to the right of the span.
pub fn spans(frame: &Frame, title: &str, unit: &str, rows: &[Row]) -> String {
    let all = || rows.iter().flat_map(|row| &row.spans);
    let least = all().map(|span| span.from).fold(f64::INFINITY, f64::min);
    let most = all().map(|span| span.to).fold(0.0, f64::max);
    let label = |span: &Span| format!("{} – {}", figures(span.from), figures(span.to));
    let longest = all().map(|span| label(span).chars().count()).max().unwrap_or(0);
    let right = frame.right.max(longest as f64 * CHARACTER + LABEL_GAP);
    let scale = LogScale::new(least, most, frame.left, frame.width - right);
    let mut out = String::new();
    let height = rows.iter().map(|row| row_height(row.spans.len())).sum();
    let ticks: Vec<_> =
        scale.ticks().iter().map(|tick| (scale.at(*tick), tick.to_string())).collect();
    frame.axis(&mut out, height, unit, &ticks);
    let mut top = 0.0;
    for row in rows {
        let middle = top + row_height(row.spans.len()) / 2.0;
        text(&mut out, frame.left - 8.0, middle + 4.0, "name end", &row.name);
        for (i, span) in row.spans.iter().enumerate() {
            let y = middle + TEXT * (i as f64 - (row.spans.len() - 1) as f64 / 2.0);
            let (from, to, class) = (scale.at(span.from), scale.at(span.to), span.class);
            let tooltip = escape(&span.tooltip);
            let _ = writeln!(
                out,
                "<g class=\"span {class}\"><title>{tooltip}</title>\
                 <line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>\
                 <circle cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
                 <line x1=\"{to:.1}\" y1=\"{:.1}\" x2=\"{to:.1}\" y2=\"{:.1}\"/></g>",
                y - 5.0,
                y + 5.0,
            );
            text(&mut out, to + LABEL_GAP, y + 4.0, "value", &label(span));
        }
        top += row_height(row.spans.len());
    }
    frame.svg(title, height + AXIS, &out)
}

/// Returns the height of a row of `spans` spans.
fn row_height(spans: usize) -> f64 {
    ROW.max(spans as f64 * TEXT + 8.0)
}

/// A measured rate and its confidence interval, shown in one row.
pub struct MeasuredRate {
    pub name: String,
    pub class: &'static str,
    pub rate: f64,
    pub low: f64,
    pub high: f64,
    pub predicted: f64,
    pub value: String,
    pub tooltip: String,
}

/// Returns a chart with a rate in percent in each row: a dot at the measured rate, a line for the
/// interval, and a stroke at the predicted rate.
pub fn intervals(frame: &Frame, title: &str, unit: &str, rows: &[MeasuredRate]) -> String {
    let most = rows.iter().map(|row| row.high.max(row.predicted)).fold(0.0, f64::max);
    let ticks = ticks(most * 100.0);
    let scale = frame.across() / ticks.last().copied().unwrap_or(1.0);
    let at = |rate: f64| frame.left + rate * 100.0 * scale;
    let height = rows.len() as f64 * ROW;
    let mut out = String::new();
    let ticks: Vec<_> =
        ticks.iter().map(|tick| (frame.left + tick * scale, format!("{tick} %"))).collect();
    frame.axis(&mut out, height, unit, &ticks);
    for (i, row) in rows.iter().enumerate() {
        let y = i as f64 * ROW + ROW / 2.0;
        text(&mut out, frame.left - 8.0, y + 4.0, "name end", &row.name);
        let (low, high, rate) = (at(row.low), at(row.high), at(row.rate));
        let (predicted, class, tooltip) = (at(row.predicted), row.class, escape(&row.tooltip));
        let _ = writeln!(
            out,
            "<g class=\"measured {class}\"><title>{tooltip}</title>\
             <line x1=\"{low:.1}\" y1=\"{y:.1}\" x2=\"{high:.1}\" y2=\"{y:.1}\"/>\
             <circle cx=\"{rate:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>"
        );
        line(&mut out, "stroke", (predicted, y - 8.0), (predicted, y + 8.0));
        text(&mut out, high.max(predicted) + 8.0, y + 4.0, "value", &row.value);
    }
    frame.svg(title, height + AXIS, &out)
}

/// Maximum number of decades with ticks at 1, 2 and 5. On a scale with more decades, only powers of
/// ten have ticks.
const MOST_DECADES: f64 = 2.4;

/// A logarithmic scale that maps values to a range of coordinates.
pub struct LogScale {
    least: f64,
    most: f64,
    start: f64,
    end: f64,
}

impl LogScale {
    /// Creates a scale that begins at a round number, `least` or lower, and ends a little above
    /// `most`.
    pub fn new(least: f64, most: f64, start: f64, end: f64) -> LogScale {
        let usable = least.is_finite() && least > 0.0 && most >= least;
        let (least, most) = if usable { (least, most) } else { (0.1, 1.0) };
        let below = 10f64.powf(least.log10().floor());
        let least = [5.0, 2.0, 1.0].iter().map(|n| n * below).find(|n| *n <= least);
        LogScale { least: least.unwrap_or(below), most: most * 1.05, start, end }
    }

    /// Returns the coordinate of a value. Values beyond the scale are at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let part = (value / self.least).log10() / (self.most / self.least).log10();
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns ticks at 1, 2 and 5 in each decade or, if there are many decades, only at 1.
    pub fn ticks(&self) -> Vec<f64> {
        let (first, last) = (self.least.log10().floor() as i32, self.most.log10().floor() as i32);
        let (least, most) = (self.least * 0.999, self.most);
        let digits: &[i32] = if (most / least).log10() > MOST_DECADES { &[1] } else { &[1, 2, 5] };
        let ticks = (first..=last).flat_map(|exponent| {
            digits.iter().map(move |&n| match exponent < 0 {
                true => f64::from(n) / 10f64.powi(-exponent),
                false => f64::from(n) * 10f64.powi(exponent),
            })
        });
        ticks.filter(|tick| (least..=most).contains(tick)).collect()
    }
}

/// Returns evenly spaced round numbers from 0 to the first one that is at least `most`.
pub fn ticks(most: f64) -> Vec<f64> {
    if most.is_nan() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let decade = 10f64.powf(most.log10().floor());
    let fits = |step: &f64| most / (step * decade) <= 6.0;
    let step = [0.2, 0.5, 1.0, 2.0].into_iter().find(fits).unwrap_or(2.0) * decade;
    let last = (most / step).ceil() as u32;
    // The numbers are rounded, because a multiple of 0.2 could be shown as 0.6000000000000001.
    (0..=last).map(|i| (f64::from(i) * step * 1e6).round() / 1e6).collect()
}

/// Formats a number with up to four decimals. The larger the number, the fewer decimals it gets.
fn figures(n: f64) -> String {
    match n {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n if n >= 0.001 || n == 0.0 => format!("{n:.3}"),
        n => format!("{n:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_end() {
        assert_eq!(ticks(3.1), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(ticks(0.0), [0.0, 1.0]);
        for most in [0.003, 0.7, 12.0, 99.0, 1e6] {
            let ticks = ticks(most);
            assert!(*ticks.last().unwrap() >= most && ticks.len() <= 8, "{most}: {ticks:?}");
        }
    }

    #[test]
    fn logarithmic_scales_keep_within_their_ends() {
        let scale = LogScale::new(0.3, 40.0, 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(LogScale::new(0.3, 400.0, 0.0, 100.0).ticks(), [1.0, 10.0, 100.0]);
        assert_eq!((scale.at(0.2), scale.at(0.0), scale.at(1e9)), (0.0, 0.0, 100.0));
        let empty = LogScale::new(f64::INFINITY, 0.0, 0.0, 1.0);
        assert!(empty.at(0.5).is_finite());
    }

    #[test]
    fn labels_of_spans_stay_in_the_chart() {
        let span = |from, to| Span { class: "block", from, to, tooltip: String::new() };
        let row = Row { name: "block:10".into(), spans: vec![span(0.555, 0.899), span(1.0, 20.0)] };
        let chart = spans(&NARROW, "Time", "µs", &[row]);
        let mut labels = 0;
        for text in chart.split("<text x=\"").skip(1).filter(|text| text.contains("\"value\"")) {
            let (x, _) = text.split_once('"').unwrap();
            let (_, label) = text.split('<').next().unwrap().split_once('>').unwrap();
            let end = x.parse::<f64>().unwrap() + label.chars().count() as f64 * CHARACTER;
            assert!(end <= NARROW.width + 0.1, "{label} ends at {end}");
            labels += 1;
        }
        assert_eq!(labels, 2);
    }

    #[test]
    fn labels_of_an_axis_do_not_collide() {
        let ticks = |gap: f64| -> Vec<_> {
            (0..12).map(|i| (f64::from(i) * gap, format!("0.{i:02}"))).collect()
        };
        assert_eq!(labels_apart(&ticks(40.0)), 1);
        assert_eq!(labels_apart(&ticks(20.0)), 2);
        assert_eq!(labels_apart(&ticks(9.0)), 4);
        assert_eq!((labels_apart(&ticks(0.0)), labels_apart(&[])), (12, 1));
        let mut out = String::new();
        NARROW.axis(&mut out, 10.0, "unit", &ticks(20.0));
        assert_eq!((out.matches("<line").count(), out.matches("tick middle").count()), (12, 6));
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let bar = Bar { name: "<a&\"b\">\u{1}".to_string(), parts: Vec::new() };
        let chart = bars(&WIDE, "t", "u", &[bar], 1.0);
        assert!(chart.contains("&lt;a&amp;&quot;b&quot;&gt;\u{fffd}"), "{chart}");
        assert!(!chart.contains("NaN") && !chart.contains("inf"));
    }
}
