//! Speed figures: checks that the short table of README.md and the chart agree with the complete
//! table of `docs/performance.md`, and its ratios with its figures.

use std::collections::BTreeMap;

use crate::page;

/// Rows of the short table of README.md, each with the row of the complete table from which it is
/// taken.
const SHORT: &[(&str, &str)] = &[
    ("put, random order", "fillrandom"),
    ("synced put, 8 threads", "fillsync8"),
    ("get, compacted", "readrandom"),
    ("get of 4 KiB values", "readrandom-4k"),
    ("seek and 10 next", "seekrandom"),
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

/// Checks that the column *to best* of the complete table follows from the other columns.
#[test]
fn the_ratios_of_the_complete_table_are_those_of_its_figures() {
    let page = page("docs/performance.md");
    let mut count = 0;
    for (name, row) in complete(&page) {
        let Some(cell) = row.get(TO_BEST).filter(|cell| number(cell).is_some()) else { continue };
        let own = number(row[MINIKV]).expect("a figure of minikv");
        let others = row[OTHERS..TO_BEST].iter().filter_map(|cell| number(cell));
        let is_speed = row[1] == "kop/s";
        let ratio = match is_speed {
            true => own / others.fold(0.0, f64::max),
            false => others.fold(f64::INFINITY, f64::min) / own,
        };
        assert_rounded(cell, ratio, 0.005, name);
        count += 1;
    }
    assert!(count >= 30, "{count} ratios");
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
