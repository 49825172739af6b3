//! Charts as SVG, to stand in a page whose style sheet says what the classes look like.

use std::fmt::Write;

/// The height of a row of bars or dots.
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const WIDTH: f64 = 760.0;
/// Room for the names of the rows.
const LEFT: f64 = 150.0;
/// Room for a figure after the longest bar.
const RIGHT: f64 = 70.0;
const AXIS: f64 = 36.0;

/// Text safe inside an element or attribute.
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

fn svg(title: &str, height: f64, body: &str) -> String {
    let title = escape(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{body}</svg>\n"
    )
}

fn text(out: &mut String, x: f64, y: f64, class: &str, said: &str) {
    let said = escape(said);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{said}</text>");
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
    );
}

/// A bar of parts, one after the other.
pub struct Bar {
    pub name: String,
    /// The class and the length of each part, and what it says when pointed at.
    pub parts: Vec<(String, f64, String)>,
}

/// Bars from the left, each with its sum behind it.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let sum = |bar: &Bar| bar.parts.iter().map(|part| part.1).sum::<f64>();
    let most = bars.iter().map(sum).fold(0.0, f64::max);
    let ticks = ticks(most);
    let scale = (WIDTH - LEFT - RIGHT) / ticks.last().copied().unwrap_or(1.0);
    let height = bars.len() as f64 * ROW;
    let mut out = String::new();
    for tick in &ticks {
        let x = LEFT + tick * scale;
        line(&mut out, "grid", (x, 0.0), (x, height));
        text(&mut out, x, height + 16.0, "tick middle", &format!("{tick}"));
    }
    text(&mut out, LEFT, height + 32.0, "axis", unit);
    for (i, bar) in bars.iter().enumerate() {
        let y = i as f64 * ROW;
        text(&mut out, LEFT - 8.0, y + 15.0, "name end", &bar.name);
        let mut x = LEFT;
        for (class, length, said) in bar.parts.iter().filter(|part| part.1 > 0.0) {
            let (width, top, said) = (length * scale, y + (ROW - BAR) / 2.0, escape(said));
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{BAR}\" \
                 class=\"{class}\"><title>{said}</title></rect>"
            );
            x += width;
        }
        text(&mut out, x + 6.0, y + 15.0, "value", &figures(sum(bar)));
    }
    svg(title, height + AXIS, &out)
}

/// A row of a chart of spans: where most of a thing is, and where its end is.
pub struct Span {
    pub name: String,
    pub class: &'static str,
    pub from: f64,
    pub to: f64,
    pub said: String,
}

/// Spans on a logarithmic scale.
pub fn spans(title: &str, unit: &str, spans: &[Span]) -> String {
    let least = spans.iter().map(|span| span.from).fold(f64::INFINITY, f64::min);
    let most = spans.iter().map(|span| span.to).fold(0.0, f64::max);
    let scale = Log::new(least, most, LEFT, WIDTH - RIGHT);
    let height = spans.len() as f64 * ROW;
    let mut out = String::new();
    for tick in scale.ticks() {
        let x = scale.at(tick);
        line(&mut out, "grid", (x, 0.0), (x, height));
        text(&mut out, x, height + 16.0, "tick middle", &format!("{tick}"));
    }
    text(&mut out, LEFT, height + 32.0, "axis", unit);
    for (i, span) in spans.iter().enumerate() {
        let y = i as f64 * ROW + ROW / 2.0;
        text(&mut out, LEFT - 8.0, y + 4.0, "name end", &span.name);
        let (from, to, class) = (scale.at(span.from), scale.at(span.to), span.class);
        let said = escape(&span.said);
        let _ = writeln!(
            out,
            "<g class=\"span {class}\"><title>{said}</title>\
             <line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>\
             <circle cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
             <line x1=\"{to:.1}\" y1=\"{:.1}\" x2=\"{to:.1}\" y2=\"{:.1}\"/></g>",
            y - 5.0,
            y + 5.0,
        );
        text(&mut out, to + 8.0, y + 4.0, "value", &figures(span.to));
    }
    svg(title, height + AXIS, &out)
}

/// A measured point with its interval.
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    pub class: &'static str,
    pub said: String,
}

/// A curve of theory.
pub struct Curve {
    pub class: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Points and curves, with rates upwards on a logarithmic scale.
pub fn rates(title: &str, unit: &str, points: &[Point], curves: &[Curve]) -> String {
    const HEIGHT: f64 = 340.0;
    const INDENT: f64 = 70.0;
    let ys = points.iter().flat_map(|p| [p.low, p.high, p.y]);
    let ys = ys.chain(curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)));
    let ys: Vec<_> = ys.filter(|y| *y > 0.0).collect();
    let least = ys.iter().copied().fold(1.0, f64::min);
    let scale = Log::new(least, ys.iter().copied().fold(least, f64::max), HEIGHT, 10.0);
    let last = curves.iter().flat_map(|c| c.points.iter()).map(|p| p.0).fold(1.0, f64::max);
    let first = curves.iter().flat_map(|c| c.points.iter()).map(|p| p.0).fold(last, f64::min);
    let across = (WIDTH - INDENT - RIGHT) / (last - first).max(1.0);
    let at = |x: f64| INDENT + (x - first) * across;
    let mut out = String::new();
    for tick in scale.decades() {
        let y = scale.at(tick);
        line(&mut out, "grid", (INDENT, y), (WIDTH - RIGHT, y));
        text(&mut out, INDENT - 8.0, y + 4.0, "tick end", &format!("{} %", round(tick * 100.0)));
    }
    let step = if last - first > 24.0 { 4 } else { 1 };
    for tick in (first as u32..=last as u32).step_by(step) {
        text(&mut out, at(f64::from(tick)), HEIGHT + 16.0, "tick middle", &tick.to_string());
    }
    text(&mut out, INDENT, HEIGHT + 32.0, "axis", unit);
    for curve in curves {
        let point = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", at(*x), scale.at(*y));
        let path: Vec<_> = curve.points.iter().map(point).collect();
        let _ =
            writeln!(out, "<polyline points=\"{}\" class=\"{}\"/>", path.join(" "), curve.class);
    }
    for point in points {
        let x = at(point.x);
        let (low, high) = (scale.at(point.low.max(least)), scale.at(point.high));
        let y = scale.at(point.y.max(least));
        let (said, class) = (escape(&point.said), point.class);
        let _ = writeln!(
            out,
            "<g class=\"measured {class}\"><title>{said}</title>\
             <line x1=\"{x:.1}\" y1=\"{low:.1}\" x2=\"{x:.1}\" y2=\"{high:.1}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>"
        );
    }
    svg(title, HEIGHT + AXIS, &out)
}

/// A logarithmic scale onto the way from one coordinate to another.
struct Log {
    least: f64,
    most: f64,
    start: f64,
    end: f64,
}

impl Log {
    /// From a round number below `least` to one above `most`.
    fn new(least: f64, most: f64, start: f64, end: f64) -> Log {
        let usable = least.is_finite() && least > 0.0 && most >= least;
        let (least, most) = if usable { (least, most) } else { (0.1, 1.0) };
        let below = 10f64.powf(least.log10().floor());
        let least = [5.0, 2.0, 1.0].iter().map(|n| n * below).find(|n| *n <= least);
        Log { least: least.unwrap_or(below), most: most * 1.05, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value / self.least).log10() / (self.most / self.least).log10();
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let (first, last) = (self.least.log10().ceil() as i32, self.most.log10().floor() as i32);
        (first..=last).map(|exponent| 10f64.powi(exponent))
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (first, last) = (self.least.log10().floor() as i32, self.most.log10().floor() as i32);
        let (least, most) = (self.least * 0.999, self.most);
        (first..=last)
            .flat_map(|exponent| {
                [1, 2, 5].map(|n| match exponent < 0 {
                    true => f64::from(n) / 10f64.powi(-exponent),
                    false => f64::from(n) * 10f64.powi(exponent),
                })
            })
            .filter(move |tick| (least..=most).contains(tick))
    }
}

/// Round numbers from 0 to `most` or just above.
fn ticks(most: f64) -> Vec<f64> {
    if most.is_nan() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let decade = 10f64.powf(most.log10().floor());
    let fits = |step: &f64| most / (step * decade) <= 6.0;
    let step = [0.2, 0.5, 1.0, 2.0].into_iter().find(fits).unwrap_or(2.0) * decade;
    let last = (most / step).ceil() as u32;
    // Rounded, because a multiple of 0.2 shows as 0.6000000000000001.
    (0..=last).map(|i| (f64::from(i) * step * 1e6).round() / 1e6).collect()
}

/// Without what binary fractions leave behind.
fn round(n: f64) -> f64 {
    (n * 1e9).round() / 1e9
}

/// A figure with as many digits as say something.
fn figures(n: f64) -> String {
    match n {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n => format!("{n:.3}"),
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
        let scale = Log::new(0.3, 40.0, 0.0, 100.0);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(scale.decades().collect::<Vec<_>>(), [1.0, 10.0]);
        assert_eq!((scale.at(0.2), scale.at(0.0), scale.at(1e9)), (0.0, 0.0, 100.0));
        let empty = Log::new(f64::INFINITY, 0.0, 0.0, 1.0);
        assert!(empty.at(0.5).is_finite());
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let bar = Bar { name: "<a&\"b\">\u{1}".to_string(), parts: Vec::new() };
        let chart = bars("t", "u", &[bar]);
        assert!(chart.contains("&lt;a&amp;&quot;b&quot;&gt;\u{fffd}"), "{chart}");
        assert!(!chart.contains("NaN") && !chart.contains("inf"));
    }
}
