//! The advice as text.

use std::fmt;

use crate::advice::FilterAdvice;
use crate::advice::judge::{ENOUGH, LEAST_PART, Saving, Sureness};
use crate::base::size::Size;
use crate::engine::options::FilterLayout;

/// Returns a name such as `block:10`, as used by `minikv readamp`.
fn name(layout: FilterLayout, bits_per_key: u32) -> String {
    match layout {
        FilterLayout::None => "none".to_string(),
        FilterLayout::Block => format!("block:{bits_per_key}"),
        FilterLayout::Table => format!("table:{bits_per_key}"),
        FilterLayout::Both => format!("both:{bits_per_key}"),
    }
}

/// Returns `n` rounded to the three decimals shown. A zero has no sign.
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
            "asking",
            "time saved"
        )
    }

    /// Writes the row of some filters. `times` are the nanoseconds per get that their queries take,
    /// and the nanoseconds per get that they save.
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
            Size(saving.filter_bytes).to_string(),
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
        match self.layout {
            FilterLayout::None => write!(
                f,
                "Advice: turn filters off. A get looks into {:.3} data blocks without them, and \
                 no filter tried saves more than {:.0} % of that.",
                self.blocks_per_get,
                LEAST_PART * 100.0
            )?,
            layout => write!(
                f,
                "Advice: {}. Larger filters save at most {:.0} % more.",
                name(layout, self.bits_per_key),
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
            self.write_row(f, &name(tried.layout, tried.bits_per_key), &tried.saving, times)?;
        }
        self.write_verdict(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_around_zero_has_no_negative_zero() {
        assert_eq!(format!("{:.3}", thousandths(-0.000_04)), "0.000");
        assert_eq!(
            format!("{:.3} {:.3}", thousandths(-0.000_6), thousandths(0.001)),
            "-0.001 0.001"
        );
    }
}
