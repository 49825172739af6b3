//! The report as a page: one file with its charts inside, which asks nothing of any network.

use std::fmt::Write;

use minikv::filter::math::false_positive_probability;
use minikv::{BloomFilterPolicy, base::stats::NUM_LEVELS};

use super::chart::{self, Bar, Curve, Point, Span, escape};
use super::filters::Filters;
use super::measure::{Class, Measured, Pass};
use super::report::{Report, percent};
use crate::output::Table;

const STYLE: &str = include_str!("page.css");

/// Nothing is fetched, and nothing but the style sheet runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The size at which theory's curve is drawn: so large that rounding does not show.
const CURVE_KEYS: u64 = 1_000_000;

impl Report {
    pub fn page(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>What filters save</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>What filters save</h1>\n"
        );
        for line in self.head().lines() {
            let _ = writeln!(page, "<p class=\"data\">{}</p>", escape(line));
        }
        let remarks = self.remarks();
        if !remarks.is_empty() {
            page.push_str("<ul>\n");
            for remark in remarks {
                let _ = writeln!(page, "<li>{}</li>", escape(&remark));
            }
            page.push_str("</ul>\n");
        }
        self.blocks_chart(&mut page);
        self.rates_chart(&mut page);
        self.times_chart(&mut page);
        self.tables(&mut page);
        page.push_str("</body>\n</html>\n");
        page
    }

    fn blocks_chart(&self, page: &mut String) {
        page.push_str("<h2>Data blocks per get, by level</h2>\n");
        let levels: Vec<_> = (0..NUM_LEVELS).filter(|&l| self.tables_per_level[l] > 0).collect();
        let keys = levels
            .iter()
            .map(|l| format!("<span><i style=\"background:var(--l{l})\"></i>L{l}</span>"));
        let _ = writeln!(page, "<p class=\"key\">{}</p>", keys.collect::<String>());
        for (kind, _) in self.measured.first().into_iter().flat_map(|m| m.cold.classes()) {
            let bar = |m: &Measured| {
                let class = class_of(&m.cold, kind);
                let part = |&level: &usize| {
                    let blocks = class.per_get(class.trace.levels[level].data_blocks());
                    (format!("l{level}"), blocks, format!("{} L{level}: {blocks:.4}", m.filters))
                };
                Bar { name: m.filters.to_string(), parts: levels.iter().map(part).collect() }
            };
            let bars: Vec<_> = self.measured.iter().map(bar).collect();
            let title = format!("Data blocks per get of {kind} keys, by configuration and level");
            let unit = format!("data blocks per get of {kind} keys");
            page.push_str(&chart::bars(&title, &unit, &bars));
        }
    }

    fn rates_chart(&self, page: &mut String) {
        let point = |m: &Measured| {
            let (rate, bits) = (m.rate?, m.filters.bits()?);
            let (low, high) = rate.interval();
            let said = format!(
                "{}: measured {}, 95 % interval {} to {}, predicted {}",
                m.filters,
                percent(rate.measured()),
                percent(low),
                percent(high),
                percent(rate.predicted),
            );
            let class = family(m);
            Some(Point { x: f64::from(bits), y: rate.measured(), low, high, class, said })
        };
        let points: Vec<_> = self.measured.iter().filter_map(point).collect();
        let (Some(most), Some(least)) =
            (points.iter().map(|p| p.x as u32).max(), points.iter().map(|p| p.x as u32).min())
        else {
            return;
        };
        let (least, most) = (least.saturating_sub(2).max(1), (most + 2).max(12));
        let textbook = |bits: u32| {
            let probes = BloomFilterPolicy::new(bits).probes();
            let rate = false_positive_probability(u64::from(bits) * CURVE_KEYS, CURVE_KEYS, probes);
            (f64::from(bits), rate)
        };
        let predicted = |of: &'static str| {
            let point = |m: &Measured| Some((f64::from(m.filters.bits()?), m.rate?.predicted));
            let of_family = self.measured.iter().filter(|m| family(m) == of);
            let mut points: Vec<_> = of_family.filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let curves = [
            Curve { class: "textbook", points: (least..=most).map(textbook).collect() },
            Curve { class: "predicted bloom", points: predicted("bloom") },
            Curve { class: "predicted fuse", points: predicted("fuse") },
        ];
        page.push_str(
            "<h2>False positives against bits per key</h2>\n<p class=\"key\">\
             <span><i style=\"background:var(--bloom)\"></i>LevelDB's block filters, measured, \
             with 95 % interval</span>\
             <span><i style=\"background:var(--fuse)\"></i>table filters, measured</span>\
             <span><i class=\"line\" style=\"color:var(--soft)\"></i>theory of bloom filters, for \
             large ones</span><span><i class=\"line dashed\" style=\"color:var(--soft)\"></i>\
             predicted for each kind: block filters are small and hash twice</span></p>\n",
        );
        let title = "False-positive rate against bits per key";
        page.push_str(&chart::rates(title, "bits per key", &points, &curves));
    }

    fn times_chart(&self, page: &mut String) {
        page.push_str(
            "<h2>Time of a get</h2>\n<p class=\"key\">\
             <span><i style=\"background:var(--absent)\"></i>absent keys</span>\
             <span><i style=\"background:var(--present)\"></i>present keys</span>\
             <span>dot: median, bar: 99th percentile; the block cache is warm</span></p>\n",
        );
        let mut spans = Vec::new();
        for m in &self.measured {
            for (i, (kind, class)) in m.warm.classes().enumerate() {
                let (median, p99) = (class.times.median, class.times.p99);
                spans.push(Span {
                    name: if i == 0 { m.filters.to_string() } else { String::new() },
                    class: kind,
                    from: median as f64 / 1000.0,
                    to: p99 as f64 / 1000.0,
                    said: format!("{}, {kind} keys: median {median} ns, p99 {p99} ns", m.filters),
                });
            }
        }
        page.push_str(&chart::spans("Time of a get", "microseconds", &spans));
    }

    fn tables(&self, page: &mut String) {
        page.push_str("<h2>The figures</h2>\n");
        for (title, table) in self.all_tables() {
            let _ = writeln!(page, "<p>{}</p>\n{}", escape(&title), html_table(&table));
        }
    }
}

/// Which theory the filters that are asked follow.
fn family(m: &Measured) -> &'static str {
    match m.filters {
        Filters::Table(_) | Filters::Both(_) => "fuse",
        _ => "bloom",
    }
}

fn class_of<'a>(pass: &'a Pass, kind: &str) -> &'a Class {
    if kind == "present" { &pass.present } else { &pass.absent }
}

fn html_table(table: &Table) -> String {
    let mut html = "<div class=\"scroll\"><table>\n".to_string();
    for (i, row) in table.rows().iter().enumerate() {
        let cell = if i == 0 { "th" } else { "td" };
        let cells = row.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text)));
        let cells = cells.collect::<String>();
        let _ = match i {
            0 => writeln!(html, "<thead><tr>{cells}</tr></thead>\n<tbody>"),
            _ => writeln!(html, "<tr>{cells}</tr>"),
        };
    }
    html.push_str("</tbody></table></div>\n");
    html
}
