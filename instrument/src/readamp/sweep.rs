//! Charts of a sweep: blocks, false positives and times against bits per key, with the predicted
//! curves.

use std::fmt::Write;

use minikv::BloomFilterPolicy;
use minikv::filter::math::false_positive_probability;
use minikv::stats::AllFilters;

use super::curve::{self, Axes, Curve, Point, Unit};
use super::filters::FilterCase;
use super::measure::{Class, Measured};
use super::page::{both, class_of, family, rate_in_words, title_of};
use super::report::Report;

/// Number of keys for the theoretical curve. The number is so large that rounding is not visible.
const CURVE_KEYS: u64 = 1_000_000;

/// Minimum number of sizes of one kind of filter that make a sweep. With fewer sizes, the charts
/// have a row for each configuration.
const MIN_SIZES: usize = 3;

/// Classes of the filters that have a size, and the names of these filters.
const FAMILIES: [(&str, &str); 3] =
    [("bloom", "LevelDB's block filters"), ("fuse", "table filters"), ("both", "both filters")];

impl Report {
    /// Returns whether some kind of filter was measured in enough sizes for a curve.
    pub fn is_sweep(&self) -> bool {
        let sizes = |class: &str| self.sized().filter(|(_, m)| family(m) == class).count();
        FAMILIES.iter().any(|(class, _)| sizes(class) >= MIN_SIZES)
    }

    /// Adds the charts of a sweep. Returns the configurations that have no place in them, because
    /// their filters have no bits per key.
    pub fn sweep_charts(&self, page: &mut String) -> Vec<&Measured> {
        self.blocks_by_bits(page);
        self.rates_by_bits(page);
        self.times_by_bits(page);
        self.measured.iter().filter(|m| bits(m).is_none()).collect()
    }

    /// Returns the configurations with a number of bits per key, which is 0 without filters.
    fn sized(&self) -> impl Iterator<Item = (f64, &Measured)> {
        self.measured.iter().filter_map(|m| Some((bits(m)?, m)))
    }

    /// Returns the kinds of lookups: of absent keys, of present keys.
    fn kinds(&self) -> Vec<&'static str> {
        let first = self.measured.first().into_iter();
        first.flat_map(|m| m.cold.classes().map(|(kind, _)| kind)).collect()
    }

    fn blocks_by_bits(&self, page: &mut String) {
        page.push_str("<h2>Data blocks per get against bits per key</h2>\n");
        for kind in self.kinds() {
            let point = |(x, m): (f64, &Measured)| {
                let class = class_of(&m.cold, kind);
                let y = class.per_get(class.trace.data_blocks());
                let (low, high) = m.rate.map_or((y, y), |rate| {
                    let (low, high) = rate.interval();
                    (predicted_blocks(class, low), predicted_blocks(class, high))
                });
                let predicted = m.rate.map(|rate| predicted_blocks(class, rate.predicted));
                let predicted = predicted.map(|blocks| format!(", predicted {blocks:.4}"));
                let tooltip = format!("{}: {y:.4}{}", m.filters, predicted.unwrap_or_default());
                Point { x, y, low, high, class: family(m), tooltip }
            };
            let points: Vec<_> = self.sized().map(point).collect();
            let of_rate = |m: &Measured, rate| predicted_blocks(class_of(&m.cold, kind), rate);
            let (curves, keys) = self.curves(of_rate);
            let title = format!("Data blocks per get of {kind} keys against bits per key");
            // For present keys, the block with the value remains, whatever the filter.
            let unit = if kind == "absent" { Unit::Logarithmic } else { Unit::Linear };
            let axes = Axes { across: "bits per key", upwards: "data blocks per get", unit };
            let _ = writeln!(page, "<h3>{}</h3>\n<p class=\"key\">{keys}</p>", title_of(kind));
            page.push_str(&both(|frame| curve::against(frame, &title, &axes, &points, &curves)));
        }
    }

    fn rates_by_bits(&self, page: &mut String) {
        let point = |(x, m): (f64, &Measured)| {
            let rate = m.rate?;
            let (low, high) = rate.interval();
            let (y, class) = (rate.measured(), family(m));
            Some(Point { x, y, low, high, class, tooltip: rate_in_words(m)? })
        };
        let points: Vec<_> = self.sized().filter_map(point).collect();
        let (curves, keys) = self.curves(|_, rate| rate);
        let title = "False-positive rate against bits per key";
        let axes =
            Axes { across: "bits per key", upwards: "false-positive rate", unit: Unit::Percent };
        let _ = writeln!(page, "<h2>{title}</h2>\n<p class=\"key\">{keys}</p>");
        page.push_str(&both(|frame| curve::against(frame, title, &axes, &points, &curves)));
    }

    /// Returns the predicted curves of `value`, a function of a configuration and the rate of its
    /// filters, and the legend of points and curves.
    fn curves(&self, value: impl Fn(&Measured, f64) -> f64) -> (Vec<Curve>, String) {
        let mut curves = Vec::new();
        let mut keys = String::new();
        if let Some((_, asked)) = self.sized().find(|(_, m)| m.rate.is_some()) {
            let least = self.sized().map(|(bits, _)| bits as u32).min().unwrap_or(1);
            let most = self.sized().map(|(bits, _)| bits as u32).max().unwrap_or(1).max(12);
            let textbook = |bits| (f64::from(bits), value(asked, textbook(bits)));
            let points = (least..=most).map(textbook).collect();
            curves.push(Curve { class: "textbook".to_string(), points });
        }
        for (class, name) in FAMILIES {
            let predicted = |(bits, m): (f64, &Measured)| match m.filters {
                FilterCase::None => Some((bits, value(self.filtered(class)?, 1.0))),
                _ if family(m) == class => Some((bits, value(m, m.rate?.predicted))),
                _ => None,
            };
            let mut points: Vec<_> = self.sized().filter_map(predicted).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if self.filtered(class).is_none() {
                continue;
            }
            let _ = write!(
                keys,
                "<span><i style=\"background:var(--{class})\"></i>{name}, measured, with 95 % \
                 interval</span>"
            );
            if points.len() > 1 {
                let _ = write!(
                    keys,
                    "<span><i class=\"line dashed\" style=\"color:var(--{class})\"></i>predicted \
                     for these filters</span>"
                );
            }
            curves.push(Curve { class: format!("predicted {class}"), points });
        }
        keys.push_str(
            "<span><i class=\"line\" style=\"color:var(--soft)\"></i>theory of large bloom \
             filters</span>",
        );
        (curves, keys)
    }

    /// Returns a configuration of a class whose filters were asked.
    fn filtered(&self, class: &str) -> Option<&Measured> {
        self.measured.iter().find(|m| family(m) == class && m.rate.is_some())
    }

    fn times_by_bits(&self, page: &mut String) {
        page.push_str("<h2>Time of a get against bits per key</h2>\n");
        for kind in self.kinds() {
            let point = |(x, m): (f64, &Measured)| {
                let times = &class_of(&m.warm, kind).times;
                let [median, p99] = [times.median, times.p99];
                let tooltip =
                    format!("{}, {kind} keys: median {median} ns, p99 {p99} ns", m.filters);
                let [y, high] = [median, p99].map(|nanos| nanos as f64 / 1000.0);
                Point { x, y, low: y, high, class: family(m), tooltip }
            };
            let points: Vec<_> = self.sized().map(point).collect();
            let mut keys = String::new();
            let mut curves = Vec::new();
            for (class, name) in FAMILIES.iter().filter(|(class, _)| self.filtered(class).is_some())
            {
                let ours = points.iter().filter(|point| [class, "none"].contains(&point.class));
                let mut line: Vec<_> = ours.map(|point| (point.x, point.y)).collect();
                line.sort_by(|a, b| a.0.total_cmp(&b.0));
                curves.push(Curve { class: (*class).to_string(), points: line });
                let _ =
                    write!(keys, "<span><i style=\"background:var(--{class})\"></i>{name}</span>");
            }
            let _ = writeln!(
                page,
                "<h3>{}</h3>\n<p class=\"key\">{keys}<span>from the median (dot) to the 99th \
                 percentile (end of the stroke); the block cache is warm</span></p>",
                title_of(kind)
            );
            let title = format!("Time of a get of {kind} keys against bits per key");
            let (upwards, unit) = ("microseconds", Unit::Logarithmic);
            let axes = Axes { across: "bits per key", upwards, unit };
            page.push_str(&both(|frame| curve::against(frame, &title, &axes, &points, &curves)));
        }
    }
}

/// Returns a configuration's number of bits per key, or `None` if it has no such number.
fn bits(m: &Measured) -> Option<f64> {
    match m.filters {
        FilterCase::None => Some(0.0),
        filters => filters.bits().map(f64::from),
    }
}

/// Returns the data blocks per get if the filters that were asked had the given false-positive
/// rate: one block for each key that a filter holds, and one for each false positive.
fn predicted_blocks(class: &Class, rate: f64) -> f64 {
    let asked = AllFilters::of(&class.trace.total());
    let held = class.per_get(asked.true_positives);
    held + rate * (class.per_get(asked.checks) - held)
}

/// Returns the false-positive rate of a large bloom filter of LevelDB's with this many bits per
/// key. Without bits, every key may be there.
fn textbook(bits: u32) -> f64 {
    let probes = BloomFilterPolicy::new(bits).probes();
    match bits {
        0 => 1.0,
        _ => false_positive_probability(u64::from(bits) * CURVE_KEYS, CURVE_KEYS, probes),
    }
}
