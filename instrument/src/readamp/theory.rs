//! `readamp --theory`: the classic table of false-positive rates, predicted and measured.
//!
//! The rows are bits per key (`m/n`) and the columns are probes (`k`), as in L. Fan, P. Cao, J.
//! Almeida and A. Z. Broder, "Summary cache" (2000).

use std::fmt::Write;

use minikv::filter::math::false_positive_probability;
use minikv::{BloomFilterPolicy, FilterPolicy};
use serde::Serialize;

use super::control::Independent;
use super::rates::wilson;
use super::text::{interval, percent, wrap};
use crate::progress::Progress;
use crate::random::Rng;
use crate::text::Table;

/// Number of keys in the filter of each cell. The number is a prime, so that the filter sizes are
/// as irregular as in real tables. A larger number gives more exact rates and takes longer.
const KEYS: u64 = 50_021;
const TRIES: u64 = 400_000;
const MAX_PROBES: u32 = 8;

/// Returns the bits per key for each row.
fn rows() -> impl Iterator<Item = u32> {
    (2..=20).chain([32])
}

/// The table of false-positive rates.
pub struct Theory {
    seed: u64,
    rows: Vec<SizeRow>,
}

/// A row of the table: filters of the same size.
struct SizeRow {
    bits_per_key: u32,
    /// Cells in ascending order of the number of probes, from 1 on.
    cells: Vec<Cell>,
    /// Number of probes that LevelDB uses for this size.
    leveldb_probes: u32,
    leveldb: Cell,
    /// Number of probes with the lowest predicted rate. This may exceed the number of columns.
    best_probes: u32,
    best: f64,
}

/// The false-positive rate of a filter.
#[derive(Clone, Copy)]
struct Cell {
    bits: u64,
    probes: u32,
    predicted: f64,
    wrong: u64,
}

impl Cell {
    fn of(policy: &dyn FilterPolicy, bits_per_key: u32, probes: u32, seed: u64) -> Cell {
        let keys = |seed: u64, n: u64| {
            let mut rng = Rng::new(seed);
            (0..n).map(move |_| rng.next().to_le_bytes())
        };
        let mut generator = policy.generator();
        keys(seed, KEYS).for_each(|key| generator.add_key(&key));
        let mut filter = Vec::new();
        generator.finish(&mut filter);
        // Two keys of 64 random bits are practically never equal, so the queried keys are absent.
        let maybe = |key: &[u8; 8]| policy.may_match(key, &filter);
        let wrong = keys(!seed, TRIES).filter(maybe).count() as u64;
        let bits = u64::from(bits_per_key) * KEYS;
        let predicted = false_positive_probability(bits, KEYS, probes);
        Cell { bits, probes, predicted, wrong }
    }

    fn measured(&self) -> f64 {
        self.wrong as f64 / TRIES as f64
    }

    /// Returns the 95 % confidence interval for the rate of filters with this size and number of
    /// probes. Only one filter was built, so the interval accounts for two random effects: the
    /// sample of queried keys, and the number of bits that are set in the filter.
    fn interval(&self) -> (f64, f64) {
        let rate = self.measured();
        let (bits, probes) = (self.bits as f64, f64::from(self.probes));
        let load = probes * KEYS as f64 / bits;
        let clear = (-load).exp();
        // Variance of the fraction of set bits, and slope of the k-th power of this fraction.
        let of_share = clear * (1.0 - (1.0 + load) * clear) / bits;
        let slope = probes * rate / (1.0 - clear);
        let of_tries = rate * (1.0 - rate) / TRIES as f64;
        let variance = of_tries + slope * slope * of_share;
        let tries = if rate > 0.0 { rate * (1.0 - rate) / variance } else { TRIES as f64 };
        wilson(rate, tries)
    }

    fn agrees(&self) -> bool {
        let (low, high) = self.interval();
        (low..=high).contains(&self.predicted)
    }
}

impl Theory {
    /// Builds and queries a filter for each cell, and returns the table.
    pub fn measure(seed: u64) -> Theory {
        let progress = Progress::steps("measuring", rows().count() as u64);
        let mut measured = Vec::new();
        for bits in rows() {
            let own = |probes| {
                let seed = Rng::new(seed ^ u64::from(bits * 100 + probes)).next();
                Cell::of(&Independent::with_probes(bits, probes), bits, probes, seed)
            };
            let leveldb = BloomFilterPolicy::new(bits);
            let best = |k: &u32| false_positive_probability(u64::from(bits) * KEYS, KEYS, *k);
            let best_probes = (1..=40).min_by(|a, b| best(a).total_cmp(&best(b))).unwrap_or(1);
            measured.push(SizeRow {
                bits_per_key: bits,
                cells: (1..=MAX_PROBES).map(own).collect(),
                leveldb_probes: leveldb.probes(),
                leveldb: Cell::of(&leveldb, bits, leveldb.probes(), seed),
                best_probes,
                best: best(&best_probes),
            });
            progress.set(measured.len() as u64);
        }
        Theory { seed, rows: measured }
    }

    /// Returns the table as text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "False-positive rates of bloom filters in percent: m/n bits a key, k probes.\n\
             Predicted, (1 - (1 - 1/m)^kn)^k; * marks the best k of a row:\n{}",
            self.table(|cell| cell.predicted)
        );
        let _ = write!(
            text,
            "\n\nMeasured, with an independent hash: {KEYS} keys, {TRIES} absent keys queried for \
             each cell; seed {}:\n{}",
            self.seed,
            self.table(Cell::measured)
        );
        let _ = write!(
            text,
            "\n\nLevelDB's filter, with its own hash and its own k:\n{}",
            self.leveldb()
        );
        format!("{text}\n\n{}", self.verdict())
    }

    fn table(&self, value: impl Fn(&Cell) -> f64) -> Table {
        let head = (1..=MAX_PROBES).map(|k| format!("k={k}"));
        let head = ["m/n".to_string()].into_iter().chain(head).collect();
        let row = |row: &SizeRow| {
            let best = row.best_probes.min(MAX_PROBES) as usize;
            let cell = |(i, cell): (usize, &Cell)| {
                let mark = if i + 1 == best { "*" } else { " " };
                format!("{}{mark}", digits(value(cell)))
            };
            let cells = row.cells.iter().enumerate().map(cell);
            [row.bits_per_key.to_string()].into_iter().chain(cells).collect()
        };
        Table::of(std::iter::once(head).chain(self.rows.iter().map(row)).collect())
    }

    fn leveldb(&self) -> Table {
        let mut table = Table::new([
            "m/n",
            "best k",
            "rate",
            "bits needed",
            "LevelDB's k",
            "predicted",
            "measured",
            "95 % interval",
            "",
        ]);
        for row in &self.rows {
            let (low, high) = row.leveldb.interval();
            table.row([
                &row.bits_per_key.to_string(),
                &row.best_probes.to_string(),
                &percent(row.best),
                &format!("{:.2}", bound(row.best)),
                &row.leveldb_probes.to_string(),
                &percent(row.leveldb.predicted),
                &percent(row.leveldb.measured()),
                &interval(low, high),
                if row.leveldb.agrees() { "within" } else { "outside" },
            ]);
        }
        table
    }

    fn verdict(&self) -> String {
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let outside = cells().filter(|cell| !cell.agrees()).count();
        let all = cells().count();
        let verdict = format!(
            "{} of {all} measured rates have the prediction in their 95 % interval; {} of {all} \
             would be expected. A bloom filter needs 1.44 * log2(1/rate) bits a key at \
             best, with k = ln 2 * m/n; no filter at all can do with fewer than log2(1/rate).",
            all - outside,
            (all as f64 * 0.95).round(),
        );
        wrap(&verdict, 100)
    }

    /// Returns the table as JSON.
    pub fn document(&self) -> impl Serialize {
        let row = |row: &SizeRow| RowDocument {
            bits_per_key: row.bits_per_key,
            independent_hash: row.cells.iter().map(CellDocument::of).collect(),
            leveldb: CellDocument::of(&row.leveldb),
            best_probes: row.best_probes,
            best_rate: row.best,
            bits_per_key_needed_for_it: bound(row.best),
        };
        TheoryDocument {
            keys: KEYS,
            tries: TRIES,
            seed: self.seed,
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

#[derive(Serialize)]
struct TheoryDocument {
    keys: u64,
    tries: u64,
    seed: u64,
    rows: Vec<RowDocument>,
}

#[derive(Serialize)]
struct RowDocument {
    bits_per_key: u32,
    independent_hash: Vec<CellDocument>,
    leveldb: CellDocument,
    best_probes: u32,
    best_rate: f64,
    bits_per_key_needed_for_it: f64,
}

#[derive(Serialize)]
struct CellDocument {
    probes: u32,
    predicted: f64,
    measured: f64,
    interval_95_percent: (f64, f64),
    within: bool,
}

impl CellDocument {
    fn of(cell: &Cell) -> CellDocument {
        CellDocument {
            probes: cell.probes,
            predicted: cell.predicted,
            measured: cell.measured(),
            interval_95_percent: cell.interval(),
            within: cell.agrees(),
        }
    }
}

/// Returns `1.44 * log2(1 / rate)`, the minimum number of bits per key of a Bloom filter with this
/// rate.
fn bound(rate: f64) -> f64 {
    std::f64::consts::LOG2_E * (1.0 / rate).log2()
}

/// Formats a rate in percent, with at most four decimals.
fn digits(rate: f64) -> String {
    match rate * 100.0 {
        p if p >= 10.0 => format!("{p:.1}"),
        p if p >= 1.0 => format!("{p:.2}"),
        p if p >= 0.1 => format!("{p:.3}"),
        p => format!("{p:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_the_best_filters_come_near_to() {
        assert!((bound(0.01) - 9.585).abs() < 0.001);
        for bits in rows() {
            let rate = |k| false_positive_probability(u64::from(bits) * KEYS, KEYS, k);
            let best = (1..=40).map(rate).fold(1.0, f64::min);
            let needed = bound(best);
            assert!(
                needed <= f64::from(bits) && needed > f64::from(bits) * 0.97,
                "{bits} {needed}"
            );
        }
    }

    #[test]
    fn measured_cells_agree_with_the_formula() {
        for (bits, probes) in [(2, 1), (8, 5), (10, 7), (16, 8)] {
            let cell = Cell::of(&Independent::with_probes(bits, probes), bits, probes, 11);
            let ratio = cell.measured() / cell.predicted;
            assert!((0.85..1.15).contains(&ratio), "{bits} {probes}: {ratio}");
        }
    }
}
