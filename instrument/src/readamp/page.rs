//! Writes the report as an HTML page. The page includes its charts and loads nothing from the
//! network.

use std::fmt::Write;

use minikv::files::NUM_LEVELS;

use super::advise::Advised;
use super::chart::{self, Bar, Frame, NARROW, Row, Span, WIDE, escape};
use super::filters::FilterCase;
use super::measure::{Class, Measured, Pass};
use super::provenance::Provenance;
use super::report::Report;
use super::text::percent;
use crate::text::Table;

const STYLE: &str = include_str!("page.css");

/// Content security policy, which allows only the page's own style sheet and its empty icon.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

impl Report {
    /// Returns the page. It includes the advice if `advised` is not `None`.
    pub fn page(&self, advised: Option<&Advised<'_>>, provenance: &Provenance) -> String {
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
                let _ = writeln!(page, "<li>{}</li>", prose(&remark));
            }
            page.push_str("</ul>\n");
        }
        if let Some(advised) = advised {
            advice(&mut page, advised);
        }
        let in_rows = match self.is_sweep() {
            true => self.sweep_charts(&mut page),
            false => self.measured.iter().collect(),
        };
        if !in_rows.is_empty() {
            self.blocks_charts(&mut page, &in_rows);
            rates_chart(&mut page, &in_rows);
            times_chart(&mut page, &in_rows);
        }
        self.tables(&mut page);
        footer(&mut page, provenance);
        page.push_str("</body>\n</html>\n");
        page
    }

    /// Adds a chart for absent keys and a chart for present keys, with the same scale.
    fn blocks_charts(&self, page: &mut String, measured: &[&Measured]) {
        page.push_str("<h2>Data blocks per get, by level</h2>\n");
        let levels: Vec<_> = (0..NUM_LEVELS).filter(|&l| self.tables_per_level[l] > 0).collect();
        let keys = levels
            .iter()
            .map(|l| format!("<span><i style=\"background:var(--l{l})\"></i>L{l}</span>"));
        let _ = writeln!(page, "<p class=\"key\">{}</p>", keys.collect::<String>());
        let bars = |kind: &str| -> Vec<Bar> {
            let bar = |m: &Measured| {
                let class = class_of(&m.cold, kind);
                let part = |&level: &usize| {
                    let blocks = class.per_get(class.trace.levels[level].data_blocks());
                    (format!("l{level}"), blocks, format!("{} L{level}: {blocks:.4}", m.filters))
                };
                Bar { name: m.filters.to_string(), parts: levels.iter().map(part).collect() }
            };
            measured.iter().copied().map(bar).collect()
        };
        let kinds = measured.first().into_iter().flat_map(|m| m.cold.classes());
        let charts: Vec<_> = kinds.map(|(kind, _)| (kind, bars(kind))).collect();
        let most = charts.iter().flat_map(|(_, bars)| bars.iter().map(Bar::sum));
        let most = most.fold(0.0, f64::max);
        for (kind, bars) in charts {
            let _ = writeln!(page, "<h3>{}</h3>", title_of(kind));
            let title = format!("Data blocks per get of {kind} keys, by configuration and level");
            let unit = "data blocks per get";
            page.push_str(&both(|frame| chart::bars(frame, &title, unit, &bars, most)));
        }
    }

    fn tables(&self, page: &mut String) {
        page.push_str("<h2>The figures</h2>\n");
        for (title, table) in self.all_tables() {
            let _ = writeln!(page, "<h3>{}</h3>\n{}", escape(&title), html_table(&table));
        }
    }
}

/// Adds a chart with a row for the rate of each configuration, if there are rates.
fn rates_chart(page: &mut String, measured: &[&Measured]) {
    if measured.iter().all(|m| m.rate.is_none()) {
        return;
    }
    let row = |m: &Measured| {
        let rate = m.rate?;
        let (low, high) = rate.interval();
        Some(chart::MeasuredRate {
            name: m.filters.to_string(),
            class: family(m),
            rate: rate.measured(),
            low,
            high,
            predicted: rate.predicted,
            value: percent(rate.measured()),
            tooltip: rate_in_words(m)?,
        })
    };
    let rows: Vec<_> = measured.iter().copied().filter_map(row).collect();
    page.push_str(
        "<h2>False-positive rates</h2>\n<p class=\"key\">\
         <span>dot: measured, with 95 % interval</span><span>stroke: predicted</span></p>\n",
    );
    let unit = "absent keys for which a filter says \"maybe\"";
    let title = "False-positive rate of each configuration";
    page.push_str(&both(|frame| chart::intervals(frame, title, unit, &rows)));
}

fn times_chart(page: &mut String, measured: &[&Measured]) {
    let mut keys = String::new();
    for (kind, _) in measured.first().into_iter().flat_map(|m| m.warm.classes()) {
        let _ = write!(keys, "<span><i style=\"background:var(--{kind})\"></i>{kind} keys</span>");
    }
    let _ = writeln!(
        page,
        "<h2>Time of a get</h2>\n<p class=\"key\">{keys}\
         <span>from the median (dot) to the 99th percentile (stroke); the block cache is \
         warm</span></p>"
    );
    let row = |m: &Measured| {
        let span = |(kind, class): (&'static str, &Class)| {
            let (median, p99) = (class.times.median, class.times.p99);
            Span {
                class: kind,
                from: median as f64 / 1000.0,
                to: p99 as f64 / 1000.0,
                tooltip: format!("{}, {kind} keys: median {median} ns, p99 {p99} ns", m.filters),
            }
        };
        Row { name: m.filters.to_string(), spans: m.warm.classes().map(span).collect() }
    };
    let rows: Vec<_> = measured.iter().copied().map(row).collect();
    let unit = "microseconds, logarithmic";
    page.push_str(&both(|frame| chart::spans(frame, "Time of a get", unit, &rows)));
}

/// Returns the same chart for wide and for narrow windows. The style sheet shows only one of the
/// two.
pub fn both(draw: impl Fn(&Frame) -> String) -> String {
    let (wide, narrow) = (draw(&WIDE), draw(&NARROW));
    format!("<div class=\"wide\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>\n")
}

/// Returns `text` escaped for an HTML element, with a non-breaking space between a number and its
/// `%`.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "&nbsp;%")
}

fn advice(page: &mut String, advised: &Advised<'_>) {
    page.push_str("<h2>Advice</h2>\n");
    for (i, line) in advised.verdict().iter().enumerate() {
        let class = if i == 0 { " class=\"advice\"" } else { "" };
        let line = line.strip_prefix("Advice: ").unwrap_or(line);
        let _ = writeln!(page, "<p{class}>{}</p>", prose(line));
    }
    let _ = writeln!(page, "<h3>What each would save</h3>\n{}", html_table(&advised.table()));
}

fn footer(page: &mut String, from: &Provenance) {
    let _ = writeln!(
        page,
        "<footer>\n<p><code>{}</code></p>\n<p>minikv {}, {}, {}</p>\n</footer>",
        escape(&from.command),
        from.version,
        escape(&from.date),
        escape(&from.machine),
    );
}

/// Returns a text with a configuration's false-positive rate, or `None` if it has no rate.
pub fn rate_in_words(m: &Measured) -> Option<String> {
    let rate = m.rate?;
    let (low, high) = rate.interval();
    Some(format!(
        "{}: measured {}, 95 % interval {} to {}, predicted {}",
        m.filters,
        percent(rate.measured()),
        percent(low),
        percent(high),
        percent(rate.predicted),
    ))
}

pub fn title_of(kind: &str) -> &'static str {
    if kind == "present" { "Present keys" } else { "Absent keys" }
}

/// Returns the class of a configuration's kind of filter. Each class has a colour.
pub fn family(m: &Measured) -> &'static str {
    match m.filters {
        FilterCase::Table(_) => "fuse",
        FilterCase::Both(_) => "both",
        FilterCase::None => "none",
        _ => "bloom",
    }
}

pub fn class_of<'a>(pass: &'a Pass, kind: &str) -> &'a Class {
    if kind == "present" { &pass.present } else { &pass.absent }
}

/// Returns an HTML table with one or two header rows.
fn html_table(table: &Table) -> String {
    let mut html = "<div class=\"scroll\"><table>\n<thead>".to_string();
    let mut rows = table.rows().iter();
    let head = rows.next().map_or(&[][..], |head| head);
    let mut below = String::new();
    if table.groups().is_empty() {
        head.iter().for_each(|name| below.push_str(&format!("<th>{}</th>", escape(name))));
    } else {
        html.push_str("<tr>");
        let mut column = 0;
        for (group, columns) in table.groups() {
            let names = head[column..column + columns].iter().map(|name| escape(name));
            if group.is_empty() {
                names.for_each(|name| html.push_str(&format!("<th rowspan=\"2\">{name}</th>")));
            } else {
                let group = escape(group);
                let _ = write!(html, "<th colspan=\"{columns}\" class=\"group\">{group}</th>");
                names.for_each(|name| below.push_str(&format!("<th>{name}</th>")));
            }
            column += columns;
        }
        html.push_str("</tr>\n");
    }
    let _ = writeln!(html, "<tr>{below}</tr></thead>\n<tbody>");
    for row in rows {
        let cells = row.iter().map(|text| format!("<td>{}</td>", escape(text)));
        let _ = writeln!(html, "<tr>{}</tr>", cells.collect::<String>());
    }
    html.push_str("</tbody></table></div>\n");
    html
}
