//! Speed figures: checks that the short tables and the chart agree with the complete table of
//! `docs/performance.md`.

use std::collections::BTreeMap;

use crate::page;

/// Rows of the short tables, each with the row of the complete table from which it is taken.
const SHORT: &[(&str, &str)] = &[
    ("put, random order", "fillrandom"),
    ("put, synced, 1 thread", "fillsync"),
    ("put, synced, 8 threads", "fillsync8"),
    ("synced put, 8 threads", "fillsync8"),
    ("put, 4 KiB values", "fillrandom-4k"),
    ("get", "readrandom"),
    ("get, compacted", "readrandom"),
    ("get, 2 threads", "readthreads"),
    ("get, 8 MiB cache", "readrandom-cache8m"),
    ("get, 4 KiB values", "readrandom-4k"),
    ("get of 4 KiB values", "readrandom-4k"),
    ("get an absent key", "readmissing"),
    ("the same, minikv with whole-table filters", "readmissing"),
    ("the same, whole-table filters", "readmissing"),
    ("seek and 10 next", "seekrandom"),
    ("scan everything forward", "readseq"),
    ("half get, half put (YCSB-A)", "ycsb-a"),
    ("full compaction, time", "compact"),
    ("reopen with a full log, time", "open"),
    ("longest put of a fill", "fillrandom, longest"),
    ("peak memory of a fill", "fillrandom, peak memory"),
    ("disk after a full compaction", "disk compacted"),
];

/// Columns of the complete table.
const MINIKV: usize = 2;
const MINIKV_TABLE: usize = 3;
const OTHERS: usize = 4;
const ROCKSDB: usize = 5;
const TO_BEST: usize = 8;

/// Returns the rows of all tables on a page, each as a list of cells, keyed by the first cell. If
/// several rows have the same first cell, only the first of these rows is returned.
fn tables(markdown: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut tables = BTreeMap::new();
    for line in markdown.lines() {
        let Some(line) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        tables.entry(cells[0]).or_insert(cells);
    }
    tables
}

/// Returns the number at the start of a cell, or `None` if the cell begins with something else.
fn number(cell: &str) -> Option<f64> {
    cell.trim_matches('*').split(' ').next()?.replace(',', "").parse().ok()
}

/// Returns the complete table, which is below the heading "2 million entries".
fn complete(page: &str) -> BTreeMap<&str, Vec<&str>> {
    tables(page.split_once("\n## 2 million entries").expect("a complete table").1)
}

/// Asserts that `printed` is `value`, rounded to as many decimals as `printed` has. `error` is the
/// relative error of `value` itself.
fn assert_rounded(printed: &str, value: f64, error: f64, what: &str) {
    let digits = printed.trim_matches('*').split_once('.').map_or(0, |(_, digits)| digits.len());
    let found = number(printed).unwrap_or_else(|| panic!("{what}: {printed}"));
    let most = 0.5 * 0.1_f64.powi(digits as i32) + error * value;
    assert!((found - value).abs() <= most, "{what}: {printed}, not {value}");
}

#[test]
fn the_ratios_at_the_top_of_performance_are_those_of_its_table() {
    let page = page("docs/performance.md");
    let (head, _) = page.split_once("\n## ").expect("a head");
    let complete = complete(&page);
    let mut count = 0;
    for (name, cells) in tables(head).into_iter().filter(|(_, cells)| number(cells[1]).is_some()) {
        let (_, workload) = SHORT.iter().find(|(short, _)| *short == name).expect(name);
        let row = &complete[workload];
        let own = number(row[if name.contains("whole-table") { MINIKV_TABLE } else { MINIKV }]);
        let own = own.expect("a figure of minikv");
        for (at, cell) in cells[1..].iter().enumerate() {
            let other = number(row[OTHERS + at]).expect("a figure");
            let is_speed = row[1] == "kop/s";
            let ratio = if is_speed { own / other } else { other / own };
            assert_rounded(cell, ratio, 0.005, &format!("{name}, column {at}"));
            assert_eq!(cell.contains("**"), ratio < 0.995, "{name}: {cell}");
            count += 1;
        }
    }
    assert_eq!(count, 18 * 4);
}

#[test]
fn the_speeds_of_the_readme_are_those_of_the_table() {
    let (readme, page) = (page("README.md"), page("docs/performance.md"));
    let (_, section) = readme.split_once("\n## How fast").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let complete = complete(&page);
    let mut count = 0;
    for (name, cells) in tables(section).into_iter().filter(|(_, cells)| number(cells[1]).is_some())
    {
        let (_, workload) = SHORT.iter().find(|(short, _)| *short == name).expect(name);
        for (at, cell) in cells.iter().enumerate().skip(1).filter(|(_, cell)| !cell.is_empty()) {
            let column = match at {
                1 if name.contains("whole-table") => MINIKV_TABLE,
                1 => MINIKV,
                at => OTHERS + at - 2,
            };
            let figure = number(complete[workload][column]).expect("a figure");
            assert_rounded(cell, figure, 0.0, &format!("{name}, column {at}"));
            count += 1;
        }
    }
    assert_eq!(count, 5 * 5);
}

/// Checks that README.md, the page and the chart name the same number of runs.
#[test]
fn the_number_of_runs_is_the_same_everywhere() {
    let says = |name: &str, words: &str| {
        let text = page(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{name} does not say {words:?}");
    };
    says("docs/performance.md", "A cell is the median of 3 interleaved runs");
    says("docs/performance.svg", "medians of 3 runs in turns");
    says("README.md", "medians of three interleaved runs");
}

/// Checks that the length of each bar of the chart matches the figure beside it, and that these
/// figures are the ones in the column *to best* of the complete table.
#[test]
fn the_chart_of_performance_is_its_table() {
    let (page, chart) = (page("docs/performance.md"), page("docs/performance.svg"));
    let complete = complete(&page);
    let rows = complete.iter().filter(|(name, _)| **name != "disk at rest");
    let bests = rows.filter_map(|(_, cells)| number(cells.get(TO_BEST)?));
    // The chart has one more bar: minikv with whole-table filters, compared with RocksDB, which
    // also has whole-table filters.
    let row = &complete["readmissing"];
    let [own, rocksdb] = [MINIKV_TABLE, ROCKSDB].map(|at| number(row[at]).expect("a figure"));
    let mut bests: Vec<f64> = bests.chain([(100.0 * own / rocksdb).round() / 100.0]).collect();
    let mut bars = Vec::new();
    for line in chart.lines().filter(|line| line.contains("<rect") && line.contains("\"n\"")) {
        let after = |text: &str| line.split_once(text).expect("a part of a bar").1;
        let width: f64 = after("width=\"").split('"').next().unwrap().parse().unwrap();
        let figure = number(&after("class=\"n\">").replace('<', " ")).expect("a figure");
        assert!((width - 33.0 * figure).abs() < 0.1, "{line}");
        assert_eq!(line.contains("<rect class=\"w\""), figure >= 1.0, "{line}");
        bars.push(figure);
    }
    bests.sort_by(f64::total_cmp);
    bars.sort_by(f64::total_cmp);
    assert_eq!(bars, bests);
}
