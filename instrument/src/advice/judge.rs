//! Judges which filters are worthwhile. The evidence is a set of lookups that were done or replayed
//! under several plans.
//!
//! The lookups are the same under each plan, so a plan's saving is a mean of differences, and its
//! confidence interval follows from the variance of these differences. The saving is measured in
//! data blocks, whose number is the same on every machine. The time that a block costs depends on
//! caches and disks, and is not part of the judgement.

/// The results of one plan.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// Number of data blocks that each lookup read, in the same order for all plans.
    pub blocks: &'a [u16],
    /// Memory that the plan's filters take while the tables are open, in bytes.
    pub filter_bytes: u64,
}

/// The savings of one plan compared with no filters.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Saving {
    /// Average number of data blocks read per lookup.
    pub blocks_per_get: f64,
    /// Average number of data blocks saved per lookup, compared with no filters.
    #[serde(rename = "blocks_saved_per_get")]
    pub saved: f64,
    /// The 95 % confidence interval of `saved`.
    #[serde(rename = "interval_95_percent")]
    pub interval: (f64, f64),
    /// Size of the filters, in bytes.
    pub filter_bytes: u64,
}

/// The certainty of the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sureness {
    /// The whole confidence interval agrees with the advice.
    Sure,
    /// The middle of the confidence interval agrees with the advice, but not all of the interval.
    Likely,
    /// There are too few lookups to decide.
    #[serde(rename = "too few lookups")]
    TooFew,
}

/// The advice that follows from the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The index, in the evidence, of the plan to choose; `None` if filters do not pay.
    pub plan: Option<usize>,
    /// Certainty of the advice.
    pub sureness: Sureness,
    /// The savings of each plan, in the order of the evidence.
    pub savings: Vec<Saving>,
}

/// Minimum saving, as a fraction of all data blocks, for filters to be worth having. With a larger
/// fraction, filters are recommended less often.
pub const LEAST_PART: f64 = 0.02;

/// Fraction of the best plan's saving that a smaller plan must reach to be chosen instead. A larger
/// fraction leads to larger filters.
pub const ENOUGH: f64 = 0.95;

/// Minimum number of lookups for advice to be called certain. With a higher number, more samples
/// count as too small.
pub const LEAST_LOOKUPS: usize = 100;

/// The normal distribution's quantile of a two-sided 95 % interval.
pub const Z: f64 = 1.959_963_985;

/// Returns the advice that follows from `plans`. The plans are compared with `without`: the number
/// of data blocks that each of the same lookups reads without filters.
pub fn advise(without: &[u16], plans: &[Evidence<'_>]) -> Advice {
    let savings: Vec<_> = plans.iter().map(|plan| Saving::of(without, plan)).collect();
    let worth = LEAST_PART * mean(without.iter().map(|&blocks| f64::from(blocks)));
    let best = savings.iter().map(|saving| saving.saved).fold(0.0, f64::max);
    let enough = |saving: &Saving| saving.saved >= ENOUGH * best && saving.saved > worth;
    let good = savings.iter().enumerate().filter(|(_, saving)| enough(saving));
    let plan = good.min_by_key(|(_, saving)| saving.filter_bytes).map(|(plan, _)| plan);
    let sure = match plan {
        Some(plan) => savings[plan].interval.0 > worth,
        None => savings.iter().all(|saving| saving.interval.1 <= worth),
    };
    let sureness = match sure {
        _ if without.len() < LEAST_LOOKUPS => Sureness::TooFew,
        true => Sureness::Sure,
        false => Sureness::Likely,
    };
    Advice { plan, sureness, savings }
}

impl Saving {
    fn of(without: &[u16], plan: &Evidence<'_>) -> Saving {
        let differences = || {
            let pairs = without.iter().zip(plan.blocks);
            pairs.map(|(&without, &with)| f64::from(without) - f64::from(with))
        };
        let saved = mean(differences());
        let n = without.len() as f64;
        let squares: f64 = differences().map(|difference| (difference - saved).powi(2)).sum();
        // Even if all differences are equal, a further lookup could have a different difference.
        let variance = (squares / (n - 1.0).max(1.0)).max(1.0 / n.max(1.0));
        let spread = Z * (variance / n.max(1.0)).sqrt();
        debug_assert!(spread >= 0.0, "a confidence interval of {spread}");
        Saving {
            blocks_per_get: mean(plan.blocks.iter().map(|&blocks| f64::from(blocks))),
            saved,
            interval: (saved - spread, saved + spread),
            filter_bytes: plan.filter_bytes,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(every: usize, n: usize) -> Vec<u16> {
        (0..n).map(|i| u16::from(i % every == 0)).collect()
    }

    #[test]
    fn the_smallest_filters_that_save_enough_are_taken() {
        let without = vec![2; 10_000];
        let blocks = [some(3, 10_000), some(40, 10_000), some(100, 10_000), some(1000, 10_000)];
        let plans: Vec<_> = blocks
            .iter()
            .zip([500, 800, 1000, 1600])
            .map(|(blocks, filter_bytes)| Evidence { blocks, filter_bytes })
            .collect();
        let advice = advise(&without, &plans);
        assert_eq!((advice.plan, advice.sureness), (Some(1), Sureness::Sure));
        assert!((advice.savings[0].saved - 1.6666).abs() < 1e-3);
        let (low, high) = advice.savings[2].interval;
        assert!(low < 1.99 && 1.99 < high && high - low < 0.005, "{low} {high}");
    }

    /// Checks that filters are turned off if every key is present and in a single table. A lookup
    /// then reads the block of the key, whatever the filters say.
    #[test]
    fn filters_that_save_nothing_are_turned_off() {
        let without = vec![1; 10_000];
        let plan = Evidence { blocks: &without, filter_bytes: 1000 };
        let advice = advise(&without, &[plan]);
        assert_eq!((advice.plan, advice.sureness), (None, Sureness::Sure));
        assert_eq!(advice.savings[0].saved, 0.0);
    }

    #[test]
    fn few_lookups_make_no_certainty() {
        let without = vec![2; 20];
        let with = some(100, 20);
        let plan = Evidence { blocks: &with, filter_bytes: 10 };
        assert_eq!(advise(&without, &[plan]).sureness, Sureness::TooFew);
        let none = advise(&[], &[]);
        assert_eq!((none.plan, none.sureness), (None, Sureness::TooFew));
        // One block in sixty is saved: less than 2 %, but the interval extends above 2 %.
        let without = vec![1; 600];
        let with: Vec<u16> = some(60, 600).iter().map(|n| 1 - n).collect();
        let advice = advise(&without, &[Evidence { blocks: &with, filter_bytes: 10 }]);
        assert_eq!((advice.plan, advice.sureness), (None, Sureness::Likely));
    }
}
