//! Advice as text.

use std::fmt;

use crate::engine::advice::FilterAdvice;
use crate::engine::advice::judge::{ENOUGH, LEAST_PART, Saving, Sureness};
use crate::engine::explain::show::Size;
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

impl fmt::Display for FilterAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        )?;
        let mut row = |name: &str, saving: &Saving, times: Option<(f64, f64)>| {
            let interval = format!("{:.3} to {:.3}", saving.interval.0, saving.interval.1);
            write!(
                f,
                "{name:<9} {:>10} {:>11.3} {:>7.3} {interval:>16} {:>11.0}",
                Size(saving.filter_bytes).to_string(),
                saving.blocks_per_get,
                saving.saved,
                saving.saved * self.bytes_per_block,
            )?;
            match times {
                Some((asking, saved)) => writeln!(f, " {asking:>6.0} ns {saved:>7.0} ns"),
                None => writeln!(f),
            }
        };
        row("as it is", &self.now, None)?;
        for tried in &self.tried {
            let times = Some((tried.probe_nanos, tried.nanos_saved));
            row(&name(tried.layout, tried.bits_per_key), &tried.saving, times)?;
        }
        match self.layout {
            FilterLayout::None => write!(
                f,
                "Advice: turn filters off. A get looks into {:.3} data blocks without them, and \
                 none of these saves more than {:.0} % of that.",
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
            Sureness::Sure => "\nSure, for lookups like these: all of the 95 % interval says so.",
            Sureness::Likely => "\nLikely, not sure: part of the 95 % interval says otherwise.",
            Sureness::TooFew => "\nNot sure at all: these are too few lookups.",
        })
    }
}
