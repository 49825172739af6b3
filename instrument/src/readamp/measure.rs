//! Measures the lookups: the blocks that they read, and the time that they take.

use std::time::Instant;

use hdrhistogram::Histogram;
use minikv::files::NUM_LEVELS;
use minikv::stats::AllFilters;
use minikv::{ReadOnlyDb, ReadOptions, ReadTrace, Readable};
use serde::Serialize;

use super::filters::FilterCase;
use super::lookups::Lookup;
use super::rates::Rate;
use super::source::{Candidate, Source};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::text::escaped;

/// Number of rounds in which the lookups are timed. More rounds take longer and give more stable
/// times.
const ROUNDS: usize = 3;

/// Maximum latency that the histogram records, in nanoseconds: one hour.
const MAX_NANOS: u64 = 3_600_000_000_000;

/// Resolution of latencies, in significant decimal digits. Each additional digit takes about ten
/// times as much memory.
const SIGNIFICANT_DIGITS: u8 = 2;

/// The measurements of one configuration.
pub struct Measured {
    pub filters: FilterCase,
    /// Size of the filters in bytes. While the tables are open, the filters take the same size in
    /// memory as in the files.
    pub filter_bytes: u64,
    /// The first pass, which begins with an empty block cache.
    pub cold: Pass,
    /// The second pass, which begins with the block cache that the first pass left.
    pub warm: Pass,
    /// The false-positive rate, if filters were queried for absent keys.
    pub rate: Option<Rate>,
    pub level_rates: Vec<(usize, Rate)>,
    /// Number of data blocks searched by each lookup in the cold pass.
    pub blocks: Vec<u16>,
}

/// One pass over all lookups.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    pub present: Class,
    pub absent: Class,
}

/// The lookups of present keys, or the lookups of absent keys.
#[derive(Clone, Debug, Default)]
pub struct Class {
    pub lookups: u64,
    pub trace: ReadTrace,
    pub times: Times,
}

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    pub median: u64,
    pub p99: u64,
    pub mean: f64,
}

impl Pass {
    /// Returns the sum of both classes. The times have a mean, but no percentiles.
    pub fn all(&self) -> Class {
        let mut trace = self.present.trace.clone();
        trace.add(&self.absent.trace);
        let lookups = self.present.lookups + self.absent.lookups;
        let sum = |class: &Class| class.times.mean * class.lookups as f64;
        let mean = (sum(&self.present) + sum(&self.absent)) / lookups.max(1) as f64;
        Class { lookups, trace, times: Times { mean, ..Times::default() } }
    }

    /// Returns the classes that have lookups, and their names.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &Class)> {
        let classes = [("absent", &self.absent), ("present", &self.present)];
        classes.into_iter().filter(|(_, class)| class.lookups > 0)
    }

    fn class(&mut self, present: bool) -> &mut Class {
        if present { &mut self.present } else { &mut self.absent }
    }
}

impl Class {
    /// Returns `n` divided by the number of lookups.
    pub fn per_get(&self, n: u64) -> f64 {
        n as f64 / self.lookups.max(1) as f64
    }
}

/// The lookups, and a flag for each lookup that says whether it is the first lookup of its key.
pub struct Work<'a> {
    pub lookups: &'a [Lookup],
    pub first_times: &'a [bool],
}

impl Work<'_> {
    /// Runs the lookups with each configuration, and returns the measurements.
    pub fn measure(&self, source: &Source, candidates: Vec<Candidate>) -> Result<Vec<Measured>> {
        let progress = Progress::steps("counting", candidates.len() as u64);
        let mut measured = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            measured.push(self.counted(source, candidate)?);
            progress.set(measured.len() as u64);
        }
        drop(progress);
        // Each round runs all configurations, so that other activity on the machine affects them
        // equally.
        let progress = Progress::steps("timing", (candidates.len() * ROUNDS) as u64);
        let mut clocks: Vec<_> = candidates.iter().map(|_| [Clock::new(), Clock::new()]).collect();
        for round in 0..ROUNDS {
            for (i, candidate) in candidates.iter().enumerate() {
                // The timed passes are separate from the passes that count reads, because tracing
                // takes time.
                let db = source.open_candidate(candidate)?;
                let read = ReadOptions::default().use_filter(candidate.filters.asked());
                let [cold, warm] = &mut clocks[i];
                self.time(&db, &read, cold)?;
                self.time(&db, &read, warm)?;
                progress.set((round * candidates.len() + i) as u64);
            }
        }
        for (measured, [cold, warm]) in measured.iter_mut().zip(&clocks) {
            cold.set_times(&mut measured.cold);
            warm.set_times(&mut measured.warm);
        }
        Ok(measured)
    }

    fn counted(&self, source: &Source, candidate: &Candidate) -> Result<Measured> {
        let Candidate { filters, shadow, .. } = candidate;
        let read = ReadOptions::default().use_filter(filters.asked());
        let db = source.open_candidate(candidate)?;
        let mut tried = ReadTrace::default();
        let mut blocks = Vec::with_capacity(self.lookups.len());
        let cold = self.count(&db, &read, |i, trace| {
            blocks.push(u16::try_from(trace.data_blocks()).unwrap_or(u16::MAX));
            if self.first_times[i] {
                tried.add(trace);
            }
        })?;
        let warm = self.count(&db, &read, |_, _| {})?;
        let rate_of = |levels: std::ops::Range<usize>| {
            let traces = tried.levels[levels.clone()].iter();
            let wrong = traces.clone().map(|level| AllFilters::of(level).false_positives).sum();
            let negatives = traces.map(|level| AllFilters::of(level).negatives).sum::<u64>();
            Rate::of_filters(wrong + negatives, wrong, shadow, levels)
        };
        Ok(Measured {
            filters: *filters,
            filter_bytes: shadow.filter_bytes,
            rate: rate_of(0..NUM_LEVELS),
            level_rates: (0..NUM_LEVELS).filter_map(|l| Some((l, rate_of(l..l + 1)?))).collect(),
            cold,
            warm,
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
            let (value, trace) = db.reading(*read).get_traced(&lookup.key)?;
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

    fn time(&self, db: &ReadOnlyDb, read: &ReadOptions, clock: &mut Clock) -> Result<()> {
        for lookup in self.lookups {
            let start = Instant::now();
            let value = db.reading(*read).get(&lookup.key)?;
            let nanos = start.elapsed().as_nanos();
            std::hint::black_box(value);
            let histogram = if lookup.present { &mut clock.present } else { &mut clock.absent };
            histogram.saturating_record(u64::try_from(nanos).unwrap_or(MAX_NANOS));
        }
        Ok(())
    }
}

/// Latencies of the lookups, in nanoseconds.
struct Clock {
    present: Histogram<u64>,
    absent: Histogram<u64>,
}

impl Clock {
    fn new() -> Clock {
        let histogram =
            || Histogram::new_with_bounds(1, MAX_NANOS, SIGNIFICANT_DIGITS).expect("valid bounds");
        Clock { present: histogram(), absent: histogram() }
    }

    fn set_times(&self, pass: &mut Pass) {
        pass.present.times = times(&self.present);
        pass.absent.times = times(&self.absent);
    }
}

fn times(histogram: &Histogram<u64>) -> Times {
    let at = |quantile| histogram.value_at_quantile(quantile);
    Times { median: at(0.5), p99: at(0.99), mean: histogram.mean() }
}

fn wrong(lookup: &Lookup) -> Error {
    let found = if lookup.present { "is not found" } else { "is found" };
    let key = escaped(&lookup.key);
    Error::corruption(format!("a lookup is wrong: {key} {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let times_of = |samples: &mut dyn Iterator<Item = u64>| {
            let mut clock = Clock::new();
            samples.for_each(|nanos| clock.present.saturating_record(nanos));
            times(&clock.present)
        };
        let hundred = times_of(&mut (1..=101).rev());
        assert_eq!((hundred.median, hundred.p99), (51, 100));
        assert!((hundred.mean - 51.0).abs() < 1e-9, "{}", hundred.mean);
        assert_eq!(times_of(&mut [].into_iter()).median, 0);
        assert_eq!(times_of(&mut [7].into_iter()).p99, 7);
        for nanos in [1u64, 127, 128, 255, 256, 300, 1 << 20, 123_456_789] {
            let median = times_of(&mut [nanos].into_iter()).median;
            assert!(nanos.abs_diff(median) <= nanos / 100, "{nanos} is shown as {median}");
        }
    }
}
