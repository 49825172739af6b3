//! Doing the lookups: what each reads, and how long it takes.

use std::time::Instant;

use minikv::admin::shadow::Outcome;
use minikv::base::stats::{NUM_LEVELS, ReadTrace};
use minikv::{ReadOnlyDb, ReadOptions};

use super::filters::Filters;
use super::lookups::Lookup;
use super::rates::Rate;
use super::source::{Candidate, Source};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::output::Progress;

/// How often the warm lookups are timed.
const WARM_TIMINGS: usize = 3;

/// What one configuration did.
pub struct Measured {
    pub filters: Filters,
    /// Bytes of filter blocks in the files.
    pub bytes_on_disk: u64,
    /// Bytes that filters take while their tables are open.
    pub bytes_in_memory: u64,
    /// With nothing in the block cache at first.
    pub cold: Pass,
    /// The same lookups again, with what the cache kept.
    pub warm: Pass,
    /// How often block filters erred, in all and by level.
    pub rate: Option<Rate>,
    pub level_rates: Vec<(usize, Rate)>,
    /// What was to be expected.
    pub shadow: Outcome,
    /// Data blocks that each lookup read, cold, in the order of the lookups.
    pub blocks: Vec<u16>,
}

/// All lookups, once.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    pub present: Class,
    pub absent: Class,
}

/// The lookups of present keys, or of absent ones.
#[derive(Clone, Debug, Default)]
pub struct Class {
    pub lookups: u64,
    pub trace: ReadTrace,
    pub times: Times,
}

/// Nanoseconds of lookups.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub median: u64,
    pub p99: u64,
    pub mean: f64,
}

impl Pass {
    /// Both classes. Times are of the classes only.
    pub fn all(&self) -> Class {
        let mut trace = self.present.trace.clone();
        trace.add(&self.absent.trace);
        let lookups = self.present.lookups + self.absent.lookups;
        let sum = |class: &Class| class.times.mean * class.lookups as f64;
        let mean = (sum(&self.present) + sum(&self.absent)) / lookups.max(1) as f64;
        Class { lookups, trace, times: Times { mean, ..Times::default() } }
    }

    /// The classes that have lookups, by name.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &Class)> {
        let classes = [("present", &self.present), ("absent", &self.absent)];
        classes.into_iter().filter(|(_, class)| class.lookups > 0)
    }

    fn class(&mut self, present: bool) -> &mut Class {
        if present { &mut self.present } else { &mut self.absent }
    }
}

impl Class {
    /// `n` of all lookups, for each.
    pub fn per_get(&self, n: u64) -> f64 {
        n as f64 / self.lookups.max(1) as f64
    }
}

/// The lookups, and which of them are the first of their key.
pub struct Work<'a> {
    pub lookups: &'a [Lookup],
    pub first_times: &'a [bool],
}

impl Work<'_> {
    /// Does the lookups on a configuration.
    pub fn measure(&self, source: &Source, candidate: Candidate) -> Result<Measured> {
        let read = ReadOptions::default().use_filter(candidate.filters.asked());
        let db = source.open_candidate(&candidate)?;
        let mut tried = ReadTrace::default();
        let mut blocks = Vec::with_capacity(self.lookups.len());
        let mut cold = self.count(&db, &read, |i, trace| {
            blocks.push(u16::try_from(trace.data_blocks()).unwrap_or(u16::MAX));
            if self.first_times[i] {
                tried.add(trace);
            }
        })?;
        let mut warm = self.count(&db, &read, |_, _| {})?;
        drop(db);
        // Counted and timed apart: a trace costs time of its own.
        let db = source.open_candidate(&candidate)?;
        self.time(&db, &read, 1, &mut cold)?;
        self.time(&db, &read, WARM_TIMINGS, &mut warm)?;
        let Candidate { filters, shadow, .. } = candidate;
        let rate_of =
            |levels: std::ops::Range<usize>| Rate::of_block_filters(&tried, &shadow, levels);
        Ok(Measured {
            filters,
            bytes_on_disk: if filters.asked() { shadow.block_filter_bytes } else { 0 },
            bytes_in_memory: if filters.asked() { shadow.block_filter_bytes } else { 0 },
            rate: rate_of(0..NUM_LEVELS),
            level_rates: (0..NUM_LEVELS).filter_map(|l| Some((l, rate_of(l..l + 1)?))).collect(),
            cold,
            warm,
            shadow,
            blocks,
        })
    }

    fn count(
        &self,
        db: &ReadOnlyDb,
        read: &ReadOptions,
        mut each: impl FnMut(usize, &ReadTrace),
    ) -> Result<Pass> {
        let progress = Progress::steps("counting", self.lookups.len() as u64);
        let mut pass = Pass::default();
        for (i, lookup) in self.lookups.iter().enumerate() {
            let (value, trace) = db.get_traced_with(read, &lookup.key)?;
            if value.is_some() != lookup.present {
                return Err(wrong(lookup));
            }
            let class = pass.class(lookup.present);
            class.lookups += 1;
            class.trace.add(&trace);
            each(i, &trace);
            if i % 1000 == 0 {
                progress.set(i as u64);
            }
        }
        Ok(pass)
    }

    fn time(
        &self,
        db: &ReadOnlyDb,
        read: &ReadOptions,
        rounds: usize,
        pass: &mut Pass,
    ) -> Result<()> {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for lookup in self.lookups {
                let start = Instant::now();
                let value = db.get_with(read, &lookup.key)?;
                let nanos = start.elapsed().as_nanos();
                std::hint::black_box(value);
                let nanos = u32::try_from(nanos).unwrap_or(u32::MAX);
                samples[usize::from(lookup.present)].push(nanos);
            }
        }
        let [absent, present] = samples;
        pass.absent.times = Times::of(absent);
        pass.present.times = Times::of(present);
        Ok(())
    }
}

impl Times {
    fn of(mut nanos: Vec<u32>) -> Times {
        if nanos.is_empty() {
            return Times::default();
        }
        nanos.sort_unstable();
        let at = |part: f64| u64::from(nanos[((nanos.len() - 1) as f64 * part).round() as usize]);
        let sum: u64 = nanos.iter().map(|&nanos| u64::from(nanos)).sum();
        Times { median: at(0.5), p99: at(0.99), mean: sum as f64 / nanos.len() as f64 }
    }
}

fn wrong(lookup: &Lookup) -> CliError {
    let found = if lookup.present { "is not found" } else { "is found" };
    let key = Format::Escaped.show(&lookup.key);
    CliError::Db(minikv::Error::corruption(format!("a lookup is wrong: {key} {found}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let times = Times::of((1..=101).rev().collect());
        assert_eq!((times.median, times.p99, times.mean), (51, 100, 51.0));
        assert_eq!(Times::of(Vec::new()).median, 0);
        assert_eq!(Times::of(vec![7]).p99, 7);
    }
}
