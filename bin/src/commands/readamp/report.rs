//! The report for people.

use minikv::base::stats::NUM_LEVELS;
use minikv::engine::advice::shadow::Held;

use super::control::Control;
use super::measure::{Class, Measured};
use super::rates::Rate;
use super::{count, show_levels, size, thousands};
use crate::output::Table;

/// The columns of text.
const WIDTH: usize = 100;
/// More configurations than this are not all named in a remark.
const MAX_NAMED: usize = 4;

/// What was measured.
pub struct Report {
    pub data: String,
    pub entries: u64,
    pub lookups: u64,
    pub lookups_named: String,
    /// Keys among the lookups.
    pub different_keys: u64,
    pub cache_bytes: u64,
    pub tables_per_level: [u64; NUM_LEVELS],
    pub held: Held,
    pub measured: Vec<Measured>,
    pub controls: Vec<Control>,
}

impl Report {
    pub fn text(&self) -> String {
        let tables =
            self.all_tables().into_iter().map(|(title, table)| format!("{title}:\n{table}"));
        let parts: Vec<_> = std::iter::once(self.head()).chain(tables).collect();
        format!("{}{}", parts.join("\n\n"), self.remarks_text())
    }

    /// The report without levels and times.
    pub fn summary(&self) -> String {
        let reads = [true, false].into_iter().filter_map(|absent| self.reads(absent));
        let tables = reads.chain([self.filters()]);
        let parts: Vec<_> = tables.map(|(title, table)| format!("{title}:\n{table}")).collect();
        format!("{}{}", parts.join("\n\n"), self.remarks_text())
    }

    /// All tables with their titles.
    pub fn all_tables(&self) -> Vec<(String, Table)> {
        let reads = [true, false].into_iter().filter_map(|absent| self.reads(absent));
        reads.chain([self.levels(), self.filters(), self.times()]).collect()
    }

    fn remarks_text(&self) -> String {
        let remarks = self.remarks();
        let lines: Vec<_> = remarks.iter().map(|remark| wrap(remark, WIDTH)).collect();
        if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
    }

    /// What the data and the lookups are.
    pub fn head(&self) -> String {
        format!(
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
        )
    }

    /// What gets of absent keys, or of present ones, read.
    fn reads(&self, absent: bool) -> Option<(String, Table)> {
        let pick = |m: &Measured| match absent {
            true => (m.cold.absent.clone(), m.warm.absent.clone()),
            false => (m.cold.present.clone(), m.warm.present.clone()),
        };
        let lookups = pick(self.measured.first()?).0.lookups;
        if lookups == 0 {
            return None;
        }
        let mut table = Table::new([
            "filters",
            "tables",
            "asked",
            "blocks",
            "cold file",
            "cache",
            "warm file",
            "cache",
            "cold bytes",
            "warm",
        ]);
        for m in &self.measured {
            let (cold, warm) = pick(m);
            let (c, w) = (cold.trace.total(), warm.trace.total());
            let bytes = |class: &Class, n| format!("{:.0}", class.per_get(n));
            table.row([
                &m.filters.to_string(),
                &show(cold.per_get(c.tables_considered)),
                &show(cold.per_get(c.all_filter_checks())),
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
        let mut table = Table::new([
            "filters",
            "on disk",
            "in memory",
            "tried",
            "wrong",
            "measured",
            "95 % interval",
            "predicted",
            "",
        ]);
        for m in &self.measured {
            let (disk, memory) = (size(m.bytes_on_disk), size(m.bytes_in_memory));
            let Some(rate) = &m.rate else {
                table.row([&m.filters.to_string(), &disk, &memory, "-", "-", "-", "-", "-", ""]);
                continue;
            };
            let (low, high) = rate.interval();
            table.row([
                &m.filters.to_string(),
                &disk,
                &memory,
                &thousands(rate.tried),
                &thousands(rate.wrong),
                &percent(rate.measured()),
                &interval(low, high),
                &percent(rate.predicted),
                if rate.agrees() { "within" } else { "outside" },
            ]);
        }
        let title = "Filters asked about keys they do not hold, each key counted once";
        (title.to_string(), table)
    }

    fn times(&self) -> (String, Table) {
        let mut table = Table::new([
            "filters",
            "absent: cold",
            "p99",
            "warm",
            "p99",
            "present: cold",
            "p99",
            "warm",
            "p99",
        ]);
        for m in &self.measured {
            let times = [&m.cold.absent, &m.warm.absent, &m.cold.present, &m.warm.present];
            let cells = times.map(|class| match class.lookups {
                0 => ["-".to_string(), "-".to_string()],
                _ => [micros(class.times.median), micros(class.times.p99)],
            });
            let [[a, b], [c, d], [e, f], [g, h]] = &cells;
            table.row([&m.filters.to_string(), a, b, c, d, e, f, g, h]);
        }
        ("Time of a get in microseconds, median and 99th percentile".to_string(), table)
    }

    /// What the figures come to, and where they do not say what they seem to.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        self.remark_on_savings(&mut remarks);
        self.remark_on_rates(&mut remarks);
        let Some(first) = self.measured.first() else { return remarks };
        let all = first.cold.all();
        let in_memory = all.trace.memtable_hits;
        if in_memory > 0 {
            remarks.push(format!(
                "{} answered by the log's memtable: no filter is asked there.",
                count(in_memory, "lookup was", "lookups were")
            ));
        }
        if self.held.tables == 0 {
            remarks.push("There are no tables, so no filter has anything to save.".to_string());
        } else if all.trace.total().tables_considered <= all.lookups {
            remarks.push(
                "A get comes to one table at most: a present key costs its block, whatever the \
                 filter."
                    .to_string(),
            );
        }
        if first.warm.all().trace.total().data_blocks_from_file == 0 && all.trace.data_blocks() > 0
        {
            remarks.push(
                "The block cache holds all blocks that are asked for: once warm, filters save time \
                 and no reads."
                    .to_string(),
            );
        }
        remarks
    }

    fn remark_on_savings(&self, remarks: &mut Vec<String>) {
        let blocks = |m: &Measured| m.cold.absent.trace.data_blocks();
        let unfiltered = self.measured.iter().find(|m| m.rate.is_none() && blocks(m) > 0);
        let Some(without) = unfiltered else { return };
        let with: Vec<_> = self.measured.iter().filter(|m| m.rate.is_some()).collect();
        let times_fewer = |m: &Measured| match blocks(m) {
            0 => format!("with {} none", m.filters),
            n => format!("with {} {} times fewer", m.filters, ratio(blocks(without), n)),
        };
        let said: Vec<_> = match &with[..] {
            [] => return,
            [first, _, .., last] if with.len() > MAX_NAMED => {
                vec![times_fewer(first), times_fewer(last)]
            }
            few => few.iter().map(|m| times_fewer(m)).collect(),
        };
        remarks.push(format!(
            "A get of an absent key reads {:.2} data blocks with {}; {}.",
            without.cold.absent.per_get(blocks(without)),
            without.filters,
            said.join(", "),
        ));
    }

    fn remark_on_rates(&self, remarks: &mut Vec<String>) {
        for m in &self.measured {
            let Some(rate) = m.rate.filter(|rate| !rate.agrees()) else { continue };
            remarks.push(format!("{}: {}", m.filters, self.why_outside(m, &rate)));
        }
    }

    /// Why a rate is not what was predicted, as far as the control tells.
    fn why_outside(&self, m: &Measured, rate: &Rate) -> String {
        let control = self.controls.iter().find(|control| control.filters == m.filters);
        let measured = percent(rate.measured());
        let predicted = percent(rate.predicted);
        let Some(Control { rate: control, .. }) = control else {
            return format!(
                "wrong for {measured} where {predicted} is predicted; of twenty intervals of 95 %, \
                 one does not hold what it should."
            );
        };
        let (good, theory) = (percent(control.measured()), percent(rate.textbook));
        let (_, high) = control.interval();
        let verdict = if rate.interval().0 > high.max(rate.predicted) {
            "LevelDB's 32-bit hash does not spread these keys"
        } else {
            "the prediction takes LevelDB's hashes for random, and those of these keys are not"
        };
        format!(
            "wrong for {measured} where {predicted} is predicted. With an independent hash of 64 \
             bits the same filters are wrong for {good} ({theory} by the textbook): {verdict}."
        )
    }
}

/// How many times `b` goes into `a`, with as many digits as say something.
fn ratio(a: u64, b: u64) -> String {
    match a as f64 / b as f64 {
        ratio if ratio < 10.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

/// Breaks a text into lines of at most `width` characters.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if used > 0 {
            let fits = used + 1 + len <= width;
            lines.push_str(if fits { " " } else { "\n  " });
            used = if fits { used + 1 } else { 2 };
        }
        lines.push_str(word);
        used += len;
    }
    lines
}

fn show(n: f64) -> String {
    format!("{n:.3}")
}

/// `0.84 %`; small ones with more digits.
pub fn percent(rate: f64) -> String {
    let percent = rate * 100.0;
    match percent {
        0.0 => "0 %".to_string(),
        p if p < 0.0001 => format!("{p:.1e} %"),
        p if p < 0.01 => format!("{p:.4} %"),
        p if p < 0.1 => format!("{p:.3} %"),
        p => format!("{p:.2} %"),
    }
}

/// `0.82 to 0.98 %`.
pub fn interval(low: f64, high: f64) -> String {
    let (low, high) = (percent(low), percent(high));
    format!("{} to {high}", low.trim_end_matches(" %"))
}

fn micros(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1000.0)
}
