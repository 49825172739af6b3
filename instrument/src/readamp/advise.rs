//! `readamp --advise`: recommends filters for the given data and lookups.

use crate::advice::LevelAdvice;
use crate::advice::judge::{Advice, ENOUGH, Evidence, LEAST_PART, Saving, Sureness, advise};
use crate::advice::levels::Divisions;
use crate::advice::plan::FilterKind;
use serde::Serialize;

use super::filters::FilterCase;
use super::lookups::Lookup;
use super::measure::Measured;
use super::report::Report;
use super::rewritten::Rewritten;
use super::scans::Scans;
use super::source::Source;
use super::text::wrap;
use crate::error::Result;
use crate::text::Table;
use crate::text::{size, thousands};

/// Returns the configurations that are compared by default.
pub fn default_filters() -> Vec<FilterCase> {
    let block = [4, 6, 8, 10, 12, 16].map(FilterCase::Block);
    let table = [4, 6, 8, 10, 12, 16].map(FilterCase::Table);
    [FilterCase::None].into_iter().chain(block).chain(table).collect()
}

/// Divides the memory of the advised filters among the levels in several ways, and replays the
/// lookups with each division. If the advice is to use no filters, divides the memory of block
/// filters with 10 bits per key. Returns `None` if there are no tables, or if the report has no
/// configuration without filters.
pub fn by_level(
    report: &Report,
    source: &Source,
    lookups: &[Lookup],
) -> Result<Option<LevelAdvice>> {
    let Some(advised) = Advised::of(report, true).filter(|_| report.held.tables > 0) else {
        return Ok(None);
    };
    let plan = advised.advice.plan.map(|plan| advised.with[plan].filters);
    let (layout, bits) = match plan {
        Some(FilterCase::Table(bits)) => (FilterKind::Table, bits),
        Some(FilterCase::Both(bits)) => (FilterKind::Both, bits),
        Some(FilterCase::Block(bits)) => (FilterKind::Block, bits),
        _ => (FilterKind::Block, 10),
    };
    let levels = &report.held.levels;
    let divisions = Divisions::of(levels, layout, bits);
    let outcomes = source.replay(divisions.plans(), source.reaching_tables(lookups)?)?;
    let false_blocks = [0, 1, 2].map(|i| outcomes[i].false_blocks(levels));
    Ok(Some(divisions.measured(levels, lookups.len() as u64, false_blocks)))
}

/// A report, and the advice derived from it.
pub struct Advised<'a> {
    report: &'a Report,
    without: &'a Measured,
    /// The configurations with filters, in the same order as the savings in `advice`.
    with: Vec<&'a Measured>,
    advice: Advice,
    /// Whether the lookups were given by the user.
    own_lookups: bool,
}

impl<'a> Advised<'a> {
    /// Derives advice from a report. Returns `None` if every configuration in the report has
    /// filters.
    pub fn of(report: &'a Report, own_lookups: bool) -> Option<Advised<'a>> {
        let without = report.measured.iter().find(|m| m.filters == FilterCase::None)?;
        let with: Vec<_> = report.measured.iter().filter(|m| m.filters.bits().is_some()).collect();
        let evidence =
            with.iter().map(|m| Evidence { blocks: &m.blocks, filter_bytes: m.filter_bytes });
        let advice = advise(&without.blocks, &evidence.collect::<Vec<_>>());
        Some(Advised { report, without, with, advice, own_lookups })
    }

    /// Returns the advice as text.
    pub fn text(&self) -> String {
        let verdict: Vec<_> = self.verdict().iter().map(|line| wrap(line, 100)).collect();
        let verdict = verdict.join("\n");
        let mut text = format!("{}\n\n{}\n\n{verdict}", self.report.head(), self.table());
        for (title, table) in self.report.scans.iter().flat_map(Scans::tables) {
            text.push_str(&format!("\n\n{title}:\n{table}"));
        }
        if let Some(scans) = &self.report.scans {
            let remarks: Vec<_> = scans.remarks().iter().map(|line| wrap(line, 100)).collect();
            text.push_str(&format!("\n\n{}", remarks.join("\n")));
        }
        if let Some(by_level) = &self.report.by_level {
            text.push_str(&format!("\n\n{by_level}"));
        }
        if let Some(rewritten) = &self.report.rewritten {
            text.push_str(&format!("\n\n{}", rewritten.text()));
        }
        text
    }

    /// Returns a table of the savings of each configuration.
    pub fn table(&self) -> Table {
        let mut table = Table::grouped(
            &[("", 2), ("data blocks per get", 3), ("file reads", 1), ("ns per get", 2)],
            ["filters", "memory", "read", "saved", "95 % interval", "saved", "time", "saved"],
        );
        let all = self.without.warm.all();
        let blocks = self.without.cold.all();
        let per_get = blocks.per_get(blocks.trace.data_blocks());
        let nanos = |m: &Measured| m.warm.all().times.mean;
        let first = [format!("{per_get:.3}"), format!("{:.0}", nanos(self.without))];
        table.row(["none", "0 B", &first[0], "-", "-", "-", &first[1], "-"]);
        let reads = |m: &Measured| m.warm.all().trace.total().data_blocks_from_file as f64;
        for (m, saving) in self.with.iter().zip(&self.advice.savings) {
            let (low, high) = saving.interval;
            let reads_saved = (reads(self.without) - reads(m)) / all.lookups as f64;
            table.row([
                &m.filters.to_string(),
                &size(m.filter_bytes),
                &format!("{:.3}", saving.blocks_per_get),
                &signed(saving.saved),
                &format!("{} to {}", signed(low), signed(high)),
                &format!("{reads_saved:.3}"),
                &format!("{:.0}", nanos(m)),
                &format!("{:.0}", nanos(self.without) - nanos(m)),
            ]);
        }
        table
    }

    /// Returns the lines of the advice: the recommendation, its certainty, and remarks.
    pub fn verdict(&self) -> Vec<String> {
        let mut remarks = vec![self.recommendation(), self.sureness()];
        let warm = |m: &Measured| m.warm.all().trace.total().data_blocks_from_file;
        if warm(self.without) == 0 {
            remarks.push(format!(
                "With a block cache of {}, nothing is read from files once it is warm: filters \
                 then save only time.",
                size(self.report.cache_bytes)
            ));
        }
        if self
            .advice
            .plan
            .is_some_and(|plan| matches!(self.with[plan].filters, FilterCase::Table(_)))
        {
            remarks.push(
                "LevelDB can read such tables but ignores whole-table filters; use `both` to give \
                 it per-block ones too."
                    .to_string(),
            );
        }
        if !self.own_lookups {
            remarks.push(format!(
                "These {} lookups were generated, {} of them for absent keys. Give your own with \
                 --lookups FILE, one key per line.",
                thousands(self.report.lookups),
                thousands(self.without.cold.absent.lookups),
            ));
        }
        remarks
    }

    fn recommendation(&self) -> String {
        let blocks = self.without.cold.all();
        let per_get = blocks.per_get(blocks.trace.data_blocks());
        let Some(plan) = self.advice.plan else {
            return format!(
                "Advice: turn filters off. A get reads {per_get:.3} data blocks without them, and \
                 no filter tried here saves more than {:.0} % of that.",
                LEAST_PART * 100.0
            );
        };
        let (m, saving) = (self.with[plan], &self.advice.savings[plan]);
        let nanos = self.without.warm.all().times.mean - m.warm.all().times.mean;
        let time = match nanos {
            n if n > 0.0 => format!("{n:.0} ns less"),
            n => format!("{:.0} ns more", -n),
        };
        format!(
            "Advice: {}. For {} of memory it saves {:.3} of {per_get:.3} data blocks per get, and \
             a get takes {time} on this machine with the files in the system's cache. Larger \
             filters save at most {:.0} % more.",
            m.filters,
            size(m.filter_bytes),
            saving.saved,
            (1.0 / ENOUGH - 1.0) * 100.0,
        )
    }

    fn sureness(&self) -> String {
        match self.advice.sureness {
            Sureness::Sure => "Confident for lookups like these: the whole 95 % interval agrees.",
            Sureness::Likely => {
                "Likely, but not certain: part of the 95 % interval disagrees. More lookups would \
                 decide."
            }
            Sureness::TooFew => "No confidence: there are too few lookups.",
        }
        .to_string()
    }

    /// Returns the advice as JSON.
    pub fn document(&self) -> impl Serialize + use<'_> {
        let row = |(m, &saving): (&&Measured, &Saving)| AdviceRow {
            filters: m.filters.to_string(),
            saving,
            time_mean_ns: m.warm.all().times.mean,
        };
        let all = self.without.cold.all();
        AdviceDocument {
            advice: self.advice.plan.map_or(FilterCase::None, |p| self.with[p].filters).to_string(),
            sureness: self.advice.sureness,
            own_lookups: self.own_lookups,
            without_filters: Without {
                blocks_per_get: all.per_get(all.trace.data_blocks()),
                time_mean_ns: self.without.warm.all().times.mean,
            },
            savings: self.with.iter().zip(&self.advice.savings).map(row).collect(),
            by_level: self.report.by_level.as_ref(),
            rewritten: self.report.rewritten.as_ref(),
            scans: self.report.scans.as_ref(),
            said: self.verdict(),
        }
    }
}

#[derive(Serialize)]
struct AdviceDocument<'a> {
    advice: String,
    sureness: Sureness,
    own_lookups: bool,
    without_filters: Without,
    savings: Vec<AdviceRow>,
    by_level: Option<&'a LevelAdvice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewritten: Option<&'a Rewritten>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scans: Option<&'a Scans>,
    said: Vec<String>,
}

#[derive(Serialize)]
struct Without {
    blocks_per_get: f64,
    time_mean_ns: f64,
}

#[derive(Serialize)]
struct AdviceRow {
    filters: String,
    #[serde(flatten)]
    saving: Saving,
    time_mean_ns: f64,
}

/// Formats a number with three decimals. A negative number that rounds to zero has no sign.
fn signed(n: f64) -> String {
    format!("{:.3}", (n * 1000.0).round() / 1000.0 + 0.0)
}
