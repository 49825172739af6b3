//! The advice as text.

use std::fmt;

use crate::advice::judge::{ENOUGH, LEAST_PART, Saving, Sureness};
use crate::advice::levels::name_by_level;
use crate::advice::plan::FilterKind;
use crate::advice::{Division, FilterAdvice, LevelAdvice, LevelShare, ScanAdvice};
use crate::text::size;
use minikv::{Filters, Options};

/// Returns a name such as `block:10`, as used by `minikv readamp`.
fn name(filters: Filters) -> String {
    match FilterKind::of(filters) {
        (FilterKind::None, _) => "none".to_string(),
        (FilterKind::Block, bits) => format!("block:{bits}"),
        (FilterKind::Table, bits) => format!("table:{bits}"),
        (FilterKind::Both, bits) => format!("both:{bits}"),
    }
}

/// Returns `n` rounded to three decimals, as displayed. Never returns negative zero.
fn thousandths(n: f64) -> f64 {
    (n * 1000.0).round() / 1000.0 + 0.0
}

impl FilterAdvice {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterAdvice { gets, sampled, absent, in_memory, .. } = self;
        writeln!(
            f,
            "{sampled} of {gets} gets replayed: {absent} found nothing, {in_memory} are answered \
             in memory; {} of {} tables read",
            self.tables_read.0, self.tables_read.1
        )?;
        writeln!(
            f,
            "{:<9} {:>10} {:>11} {:>7} {:>16} {:>11} {:>9} {:>10}",
            "filters",
            "memory",
            "blocks/get",
            "saved",
            "95 % interval",
            "bytes saved",
            "query",
            "time saved"
        )
    }

    /// Writes the table row for one kind of filter. `times` contains the time to query the filters
    /// and the time saved by the filters, both in nanoseconds per get.
    fn write_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        saving: &Saving,
        times: Option<(f64, f64)>,
    ) -> fmt::Result {
        let (low, high) = (thousandths(saving.interval.0), thousandths(saving.interval.1));
        let interval = format!("{low:.3} to {high:.3}");
        write!(
            f,
            "{name:<9} {:>10} {:>11.3} {:>7.3} {interval:>16} {:>11.0}",
            size(saving.filter_bytes),
            saving.blocks_per_get,
            thousandths(saving.saved),
            saving.saved * self.bytes_per_block,
        )?;
        match times {
            Some((asking, saved)) => writeln!(f, " {asking:>6.0} ns {saved:>7.0} ns"),
            None => writeln!(f),
        }
    }

    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.filters {
            Filters::None => write!(
                f,
                "Advice: turn filters off. A get looks into {:.3} data blocks without them, and \
                 no filter tried saves more than {:.0} % of that.",
                self.blocks_per_get,
                LEAST_PART * 100.0
            )?,
            filters => write!(
                f,
                "Advice: {}. Larger filters save at most {:.0} % more.",
                name(filters),
                (1.0 / ENOUGH - 1.0) * 100.0
            )?,
        }
        f.write_str(match self.sureness {
            Sureness::Sure => "\nConfident for lookups like these: the whole 95 % interval agrees.",
            Sureness::Likely => "\nLikely, but not certain: part of the 95 % interval disagrees.",
            Sureness::TooFew => "\nNo confidence: there are too few lookups.",
        })
    }
}

impl fmt::Display for FilterAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_row(f, "as it is", &self.now, None)?;
        for tried in &self.tried {
            let times = Some((tried.probe_nanos, tried.nanos_saved));
            self.write_row(f, &name(tried.filters), &tried.saving, times)?;
        }
        self.write_verdict(f)?;
        if let Some(by_level) = &self.by_level {
            write!(f, "\n\n{by_level}")?;
        }
        match &self.scans {
            Some(scans) => write!(f, "\n\n{scans}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ScanAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanAdvice { scans, sampled, pairs, empty, saved_by_prefix, mean_range } = self;
        let share = |n: u64| n as f64 / (*pairs).max(1) as f64 * 100.0;
        write!(
            f,
            "{sampled} of {scans} scans with two bounds replayed: {pairs} tables in their ranges, \
             {empty} of them ({:.1} %) without a key of the range.\n\
             An exact range filter saves these, and no filter more.",
            share(*empty)
        )?;
        if let Some(saved) = saved_by_prefix {
            write!(f, " A prefix filter saves {saved} ({:.1} %).", share(*saved))?;
        }
        if let Some(range) = mean_range {
            let bounds = [10.0, 16.0, 22.0].map(|bits| self.grafite_bound(bits).unwrap_or(1.0));
            let [ten, more, most] = bounds.map(|bound| bound * 100.0);
            write!(
                f,
                "\nRanges span {range:.0} keys on average: a Grafite filter errs in at most \
                 {ten:.3} % at 10 bits per key, {more:.3} % at 16, {most:.3} % at 22."
            )?;
        }
        Ok(())
    }
}

impl LevelAdvice {
    /// Returns the bits per key of each level, from level 0 on. A level without tables gets the
    /// bits of the next deeper level that has tables.
    fn all_levels(&self, bits: impl Fn(&LevelShare) -> u32) -> Vec<u32> {
        let last = self.levels.last().map_or(0, |share| share.level);
        let at = |level| self.levels.iter().find(|share| share.level >= level);
        (0..=last).map(|level| at(level).map_or(0, &bits)).collect()
    }

    /// Returns `options`, changed so that new tables get the filters of the advised division. A
    /// level without tables gets the filters of the next deeper level that has tables.
    #[must_use]
    pub fn advised_options(&self, options: Options) -> Options {
        let bits = self.all_levels(|share| share.advised_bits);
        let last = bits.last().copied().unwrap_or(0);
        let options = options.filters(self.with_bits(last));
        bits.iter().enumerate().fold(options, |options, (level, &bits)| {
            options.filters_at_level(level, self.with_bits(bits))
        })
    }

    fn with_bits(&self, bits: u32) -> Filters {
        FilterKind::of(self.filters).0.with(bits)
    }

    fn write_levels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<6} {:>11} {:>14} {:>13} {:>8} {:>11}",
            "level", "keys", "in vain/get", "uniform bits", "advised", "same reads"
        )?;
        for share in &self.levels {
            let bits = [share.uniform_bits, share.advised_bits, share.smaller_bits];
            let [uniform, advised, smaller] = bits.map(|bits| match bits {
                0 => "none".to_string(),
                bits => bits.to_string(),
            });
            writeln!(
                f,
                "L{:<5} {:>11} {:>14.3} {uniform:>13} {advised:>8} {smaller:>11}",
                share.level, share.keys, share.in_vain_per_get
            )?;
        }
        Ok(())
    }

    fn write_divisions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            (&self.uniform, self.all_levels(|share| share.uniform_bits)),
            (&self.advised, self.all_levels(|share| share.advised_bits)),
            (&self.smaller, self.all_levels(|share| share.smaller_bits)),
        ];
        let rows = rows.map(|(division, bits)| {
            (division, name_by_level(FilterKind::of(self.filters).0, &bits))
        });
        let width = rows.iter().map(|(_, name)| name.len()).max().unwrap_or(0).max(7);
        writeln!(
            f,
            "{:<width$} {:>10} {:>10} {:>10} {:>18}",
            "filters", "memory", "predicted", "measured", "95 % interval"
        )?;
        for (division, name) in &rows {
            let Division { predicted, measured, interval: (low, high), .. } = division;
            let interval = format!("{low:.4} to {high:.4}");
            writeln!(
                f,
                "{name:<width$} {:>10} {predicted:>10.4} {measured:>10.4} {interval:>18}   {}",
                size(division.filter_bytes),
                if division.agrees() { "within" } else { "outside" },
            )?;
        }
        Ok(())
    }

    /// Writes Rust code that sets the options for the advised division.
    fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.all_levels(|share| share.advised_bits);
        let last = bits.last().copied().unwrap_or(0);
        let filters = self.with_bits(last);
        write!(f, "Options::default()\n    .filters(Filters::{filters:?})")?;
        for (level, &bits) in bits.iter().enumerate().filter(|(_, bits)| **bits != last) {
            let filters = self.with_bits(bits);
            write!(f, "\n    .filters_at_level({level}, Filters::{filters:?})")?;
        }
        Ok(())
    }
}

impl fmt::Display for LevelAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The same memory, divided among levels by their lookups in vain:")?;
        self.write_levels(f)?;
        writeln!(f, "\nData blocks per get that are searched in vain:")?;
        self.write_divisions(f)?;
        writeln!(f, "\nOptions of the advised division, for new tables:")?;
        self.write_options(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_is_named_by_the_bits_of_its_levels() {
        let name = |bits: &[u32]| name_by_level(FilterKind::Table, bits);
        assert_eq!(name(&[14, 10, 4]), "table:14/10/4");
        assert_eq!(name(&[14, 10, 10, 10]), "table:14/10");
        assert_eq!((name(&[8, 8]), name(&[])), ("table:8".to_string(), "table:0".to_string()));
    }

    #[test]
    fn an_interval_around_zero_has_no_negative_zero() {
        assert_eq!(format!("{:.3}", thousandths(-0.000_04)), "0.000");
        assert_eq!(
            format!("{:.3} {:.3}", thousandths(-0.000_6), thousandths(0.001)),
            "-0.001 0.001"
        );
    }
}
