//! Formats the report as text.

use std::collections::BTreeMap;

use crate::advice::LevelAdvice;
use crate::advice::judge::Z;
use crate::advice::shadow::TablesRead;
use minikv::files::NUM_LEVELS;
use minikv::stats::AllFilters;

use super::control::Control;
use super::measure::{Class, Measured};
use super::rates::Rate;
use super::rewritten::Rewritten;
use super::scans::Scans;
use super::show_levels;
use super::space::Space;
use super::text::{interval, listed, percent, wrap};
use crate::text::Table;
use crate::text::{count, size, thousands};

/// Maximum width of a line of text, in columns.
const WIDTH: usize = 100;
/// Maximum number of configurations that a remark lists by name. A higher number makes remarks
/// longer.
const MAX_NAMED: usize = 4;
/// Number of blocks below which a ratio of counts is given as a bound. The standard error of this
/// count is 22 %.
const FEW_BLOCKS: u64 = 20;

/// The results of all measurements.
pub struct Report {
    pub(super) data: String,
    pub(super) entries: u64,
    pub(super) lookups: u64,
    pub(super) lookups_named: String,
    /// Number of different keys among the lookups.
    pub(super) different_keys: u64,
    pub(super) cache_bytes: u64,
    pub(super) tables_per_level: [u64; NUM_LEVELS],
    pub(super) held: TablesRead,
    pub(super) measured: Vec<Measured>,
    pub(super) controls: Vec<Control>,
    /// Number of bytes written, and the space that the tables take.
    pub(super) space: Space,
    /// The reads of the scans, if there were scans.
    pub(super) scans: Option<Scans>,
    /// With `--advise`, the division of the filters' memory among the levels.
    pub(super) by_level: Option<LevelAdvice>,
    /// With `--rewrite`, the reads of the same lookups after the data was loaded again with the
    /// filters of `by_level`.
    pub(super) rewritten: Option<Rewritten>,
}

impl Report {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let tables =
            self.all_tables().into_iter().map(|(title, table)| format!("{title}:\n{table}"));
        let parts: Vec<_> = std::iter::once(self.head()).chain(tables).collect();
        format!("{}{}", parts.join("\n\n"), self.remarks_text())
    }

    /// Returns a short report: the tables of reads and of filters, and the remarks.
    pub fn summary(&self) -> String {
        let reads = [true, false].into_iter().filter_map(|absent| self.reads(absent));
        let tables = reads.chain([self.filters()]);
        let parts: Vec<_> = tables.map(|(title, table)| format!("{title}:\n{table}")).collect();
        format!("{}{}", parts.join("\n\n"), self.remarks_text())
    }

    /// Returns all tables, with their titles.
    pub fn all_tables(&self) -> Vec<(String, Table)> {
        let reads = [true, false].into_iter().filter_map(|absent| self.reads(absent));
        let others = [self.levels(), self.filters(), self.times(), self.space.table()];
        reads.chain(others).chain(self.scans.iter().flat_map(Scans::tables)).collect()
    }

    fn remarks_text(&self) -> String {
        let remarks = self.remarks();
        let lines: Vec<_> = remarks.iter().map(|remark| wrap(remark, WIDTH)).collect();
        if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
    }

    /// Returns a description of the data and the lookups.
    pub fn head(&self) -> String {
        let head = format!(
            "{}: {}, {} ({}), {} of {}\n{} ({}), {}; block cache of {}",
            self.data,
            count(self.entries, "entry", "entries"),
            count(self.held.tables, "table", "tables"),
            show_levels(&self.tables_per_level),
            count(self.held.data_blocks, "data block", "data blocks"),
            size(self.held.data_bytes),
            count(self.lookups, "lookup", "lookups"),
            count(self.different_keys, "key", "different keys"),
            self.lookups_named,
            size(self.cache_bytes),
        );
        let scans = self.scans.as_ref().map(|scans| format!("\n{}", scans.head()));
        head + &scans.unwrap_or_default()
    }

    /// Returns a table of the reads by gets of absent or of present keys, with its title, or `None`
    /// if there were no such gets.
    fn reads(&self, absent: bool) -> Option<(String, Table)> {
        let pick = |m: &Measured| match absent {
            true => (m.cold.absent.clone(), m.warm.absent.clone()),
            false => (m.cold.present.clone(), m.warm.present.clone()),
        };
        let lookups = pick(self.measured.first()?).0.lookups;
        if lookups == 0 {
            return None;
        }
        let mut table = Table::grouped(
            &[("", 4), ("cold", 2), ("warm", 2), ("bytes read", 2)],
            [
                "filters", "tables", "probes", "blocks", "file", "cache", "file", "cache", "cold",
                "warm",
            ],
        );
        for m in &self.measured {
            let (cold, warm) = pick(m);
            let (c, w) = (cold.trace.total(), warm.trace.total());
            let bytes = |class: &Class, n| format!("{:.0}", class.per_get(n));
            table.row([
                &m.filters.to_string(),
                &show(cold.per_get(c.tables_considered)),
                &show(cold.per_get(AllFilters::of(&c).checks)),
                &show(cold.per_get(c.data_blocks())),
                &show(cold.per_get(c.data_blocks_from_file)),
                &show(cold.per_get(c.data_blocks_from_cache)),
                &show(warm.per_get(w.data_blocks_from_file)),
                &show(warm.per_get(w.data_blocks_from_cache)),
                &bytes(&cold, c.bytes_read),
                &bytes(&warm, w.bytes_read),
            ]);
        }
        let kind = if absent { "absent" } else { "present" };
        Some((format!("Per get of {kind} keys ({})", thousands(lookups)), table))
    }

    fn levels(&self) -> (String, Table) {
        let with_tables = |level: &usize| self.tables_per_level[*level] > 0;
        let levels: Vec<_> = (0..NUM_LEVELS).filter(with_tables).collect();
        let names = levels.iter().map(|level| format!("L{level}"));
        let mut rows: Vec<Vec<String>> = Vec::new();
        rows.push(["filters", "keys"].map(str::to_string).into_iter().chain(names).collect());
        for m in &self.measured {
            for (kind, class) in m.cold.classes() {
                let blocks = |level: &usize| class.trace.levels[*level].data_blocks();
                let cells = levels.iter().map(|level| show(class.per_get(blocks(level))));
                let head = [m.filters.to_string(), kind.to_string()];
                rows.push(head.into_iter().chain(cells).collect());
            }
        }
        ("Data blocks per get, by level".to_string(), Table::of(rows))
    }

    fn filters(&self) -> (String, Table) {
        let mut table = Table::grouped(
            &[("", 3), ("false positives", 4), ("", 1)],
            ["filters", "size", "probes", "number", "rate", "95 % interval", "predicted", ""],
        );
        for m in &self.measured {
            let (name, bytes) = (m.filters.to_string(), size(m.filter_bytes));
            let Some(rate) = &m.rate else {
                table.row([&name[..], &bytes, "-", "-", "-", "-", "-", ""]);
                continue;
            };
            let (low, high) = rate.interval();
            table.row([
                &name[..],
                &bytes,
                &thousands(rate.tried),
                &thousands(rate.wrong),
                &percent(rate.measured()),
                &interval(low, high),
                &percent(rate.predicted),
                if rate.agrees() { "within" } else { "outside" },
            ]);
        }
        let title = "False positives: filters probed for keys they do not hold, each key once";
        (title.to_string(), table)
    }

    fn times(&self) -> (String, Table) {
        let kinds = ["absent, cold", "absent, warm", "present, cold", "present, warm"];
        let groups: Vec<_> = [("", 1)].into_iter().chain(kinds.map(|kind| (kind, 2))).collect();
        let [median, p99] = ["median", "p99"];
        let head = ["filters", median, p99, median, p99, median, p99, median, p99];
        let mut table = Table::grouped(&groups, head);
        for m in &self.measured {
            let times = [&m.cold.absent, &m.warm.absent, &m.cold.present, &m.warm.present];
            let cells = times.map(|class| match class.lookups {
                0 => ["-".to_string(), "-".to_string()],
                _ => [micros(class.times.median), micros(class.times.p99)],
            });
            let [[a, b], [c, d], [e, f], [g, h]] = &cells;
            table.row([&m.filters.to_string(), a, b, c, d, e, f, g, h]);
        }
        ("Time of a get in microseconds, median and 99th percentile (p99)".to_string(), table)
    }

    /// Returns conclusions, and warnings about numbers that could mislead.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.remarks_on_lookups();
        remarks.extend(self.scans.iter().flat_map(Scans::remarks));
        remarks
    }

    fn remarks_on_lookups(&self) -> Vec<String> {
        let mut remarks: Vec<_> = self.remark_on_savings().into_iter().collect();
        remarks.extend(self.remarks_on_rates());
        let Some(first) = self.measured.first() else { return remarks };
        let all = first.cold.all();
        let in_memory = all.trace.memtable_hits;
        if in_memory > 0 {
            remarks.push(format!(
                "{} answered by the log's memtable, which has no filter.",
                count(in_memory, "lookup was", "lookups were")
            ));
        }
        if self.held.tables == 0 {
            remarks.push("There are no tables, so filters have nothing to save.".to_string());
        } else if all.trace.total().tables_considered <= all.lookups {
            remarks.push(
                "A get searches at most one table, so a present key costs one block with any \
                 filter."
                    .to_string(),
            );
        }
        if first.warm.all().trace.total().data_blocks_from_file == 0 && all.trace.data_blocks() > 0
        {
            remarks.push(
                "All requested blocks fit in the cache, so once it is warm filters save time but \
                 no file reads."
                    .to_string(),
            );
        }
        remarks
    }

    /// Returns a remark about the number of blocks that filters save for absent keys. The remark
    /// covers each configuration if there are few configurations, and otherwise only the worst and
    /// the best.
    fn remark_on_savings(&self) -> Option<String> {
        let blocks = |m: &Measured| m.cold.absent.trace.data_blocks();
        let without = self.measured.iter().find(|m| m.rate.is_none() && blocks(m) > 0)?;
        let fewer = |m: &Measured| times_fewer(blocks(without), blocks(m), m.rate.as_ref());
        let mut with: Vec<_> = self.measured.iter().filter(|m| m.rate.is_some()).collect();
        let per_get = without.cold.absent.per_get(blocks(without));
        let mut parts = vec![format!("{per_get:.2} data blocks without filters")];
        match with.len() {
            0 => return None,
            n if n > MAX_NAMED => {
                with.sort_by_key(|m| std::cmp::Reverse(blocks(m)));
                let (worst, best) = (with[0], with[n - 1]);
                let (fewest, most) = (fewer(worst), fewer(best));
                parts.push(format!("{fewest} with the worst of these ({})", worst.filters));
                parts.push(format!("{most} with the best ({})", best.filters));
            }
            _ => parts.extend(with.iter().map(|m| format!("{} with {}", fewer(m), m.filters))),
        }
        Some(format!("Looking up an absent key reads {}.", listed(&parts)))
    }

    /// Returns one remark for each reason why measured rates differ from predicted rates.
    fn remarks_on_rates(&self) -> Vec<String> {
        let mut outside: BTreeMap<Reason, Vec<Outside<'_>>> = BTreeMap::new();
        for m in &self.measured {
            let Some(rate) = m.rate.filter(|rate| !rate.agrees()) else { continue };
            let control = self.controls.iter().find(|control| control.filters == m.filters);
            let control = control.map(|control| &control.rate);
            let reason = Reason::of(&rate, control);
            outside.entry(reason).or_default().push(Outside { m, rate, control });
        }
        outside.iter().map(|(reason, of_reason)| reason.remark(of_reason)).collect()
    }
}

/// A configuration whose measured rate differs from the predicted rate.
struct Outside<'a> {
    m: &'a Measured,
    rate: Rate,
    control: Option<&'a Rate>,
}

/// The reason why a measured rate differs from the predicted rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// LevelDB's hash function does not spread these keys well.
    Unspread,
    /// The prediction assumes random hashes, but the hashes of these keys are not random.
    NotRandom,
    /// The difference is due to chance: 1 of 20 confidence intervals does not contain the true
    /// rate.
    Chance,
}

impl Reason {
    fn of(rate: &Rate, control: Option<&Rate>) -> Reason {
        match control {
            None => Reason::Chance,
            Some(control) if rate.interval().0 > control.interval().1.max(rate.predicted) => {
                Reason::Unspread
            }
            Some(_) => Reason::NotRandom,
        }
    }

    /// Returns a remark that names all configurations in `outside`, and gives the rates of the
    /// configuration that differs most from its prediction.
    fn remark(self, outside: &[Outside<'_>]) -> String {
        let names: Vec<_> = outside.iter().map(|outside| outside.m.filters.to_string()).collect();
        let names = listed(&names);
        let off = |o: &Outside<'_>| (o.rate.measured() / o.rate.predicted).ln().abs();
        let furthest = outside.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        let Some(furthest) = furthest else { return String::new() };
        let control = furthest.control.map(|control| {
            let (measured, textbook) = (percent(control.measured()), percent(control.textbook));
            format!(", {measured} with an independent 64-bit hash (textbook: {textbook})")
        });
        let figures = format!(
            "{} measured, {} predicted{}",
            percent(furthest.rate.measured()),
            percent(furthest.rate.predicted),
            control.unwrap_or_default(),
        );
        let furthest = match outside.len() {
            1 => String::new(),
            _ => format!("Furthest off is {}: ", furthest.m.filters),
        };
        match self {
            Reason::Unspread => format!(
                "{names}: more false positives than predicted, because LevelDB's 32-bit hash does \
                 not spread these keys. {furthest}{figures}."
            ),
            Reason::NotRandom => format!(
                "{names}: not the predicted rate, which assumes that LevelDB's hashes are random; \
                 those of these keys are not. {furthest}{figures}."
            ),
            Reason::Chance => format!(
                "{names}: prediction outside the 95 % interval, as happens by chance to one \
                 interval in twenty. {furthest}{figures}."
            ),
        }
    }
}

/// Returns a text such as `106 times fewer`. If only a few blocks were counted, the text has the
/// lower bound of the 95 % confidence interval instead of the ratio.
fn times_fewer(without: u64, with: u64, rate: Option<&Rate>) -> String {
    if with >= FEW_BLOCKS {
        return format!("{} times fewer", ratio(without as f64 / with as f64));
    }
    // False positives cluster, so that blocks are fewer independent events than their number says.
    let cluster = rate.map_or(1.0, |rate| rate.tried as f64 / rate.independent);
    let most = poisson_upper(with as f64 / cluster) * cluster;
    let counted = match with {
        0 => "no block was".to_string(),
        n => count(n, "block was", "blocks were"),
    };
    let least = ratio(without as f64 / most);
    format!("at least {least} times fewer (95 % interval: {counted} counted)")
}

/// Returns the upper bound of the 95 % confidence interval for the mean of a Poisson distribution
/// of which `n` was drawn. Uses the approximation of Wilson and Hilferty, which is right to 1 %.
fn poisson_upper(n: f64) -> f64 {
    let m = n + 1.0;
    m * (1.0 - 1.0 / (9.0 * m) + Z / (3.0 * m.sqrt())).powi(3)
}

/// Formats a ratio with one decimal if it is below 10, and otherwise without decimals.
fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 10.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

fn show(n: f64) -> String {
    format!("{n:.3}")
}

fn micros(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_counted_blocks_give_a_bound() {
        // The exact bounds are the quantiles of chi-squared distributions.
        for (n, exact) in [(0.0, 3.689), (1.0, 5.572), (2.0, 7.225), (10.0, 18.391)] {
            assert!((poisson_upper(n) / exact - 1.0).abs() < 0.01, "{n}: {}", poisson_upper(n));
        }
        assert_eq!(times_fewer(2000, 20, None), "100 times fewer");
        assert_eq!(times_fewer(190, 20, None), "9.5 times fewer");
        let two = "at least 277 times fewer (95 % interval: 2 blocks were counted)";
        assert_eq!(times_fewer(2000, 2, None), two);
        let one = "at least 3.6 times fewer (95 % interval: 1 block was counted)";
        assert_eq!(times_fewer(20, 1, None), one);
        let none = "at least 545 times fewer (95 % interval: no block was counted)";
        assert_eq!(times_fewer(2000, 0, None), none);
        // If false positives come in pairs, two blocks are as uncertain as one event.
        let (tried, wrong, predicted) = (1000, 2, 0.002);
        let rate = Rate { tried, wrong, independent: 500.0, predicted, textbook: predicted };
        let clustered = times_fewer(2000, 2, Some(&rate));
        assert!(clustered.starts_with("at least 180 times fewer"), "{clustered}");
    }
}
