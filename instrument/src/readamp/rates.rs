//! False-positive rates: measured, with confidence intervals, and predicted by theory.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::advice::judge::Z;
use crate::advice::levels::double_hashing_probability;
use crate::advice::shadow::{FilterShape, Outcome};
use minikv::filter::math::false_positive_probability;

/// The rate at which filters answered "maybe" for keys that they do not contain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Number of filter queries for keys that the filter does not contain.
    pub tried: u64,
    /// Number of queries in `tried` that were answered "maybe".
    pub wrong: u64,
    /// Number of independent queries that would give the same certainty. Queries to one filter are
    /// correlated, and queries for one key in several tables are correlated, too.
    pub independent: f64,
    /// The predicted probability, averaged over the filters that were queried.
    pub predicted: f64,
    /// The probability according to the textbook formula, which assumes that the probes of a key
    /// are independent.
    pub textbook: f64,
}

impl Rate {
    /// Returns the rate at some levels. `tried` is the number of queries for keys that the filters
    /// do not contain, and `wrong` is the number of these queries that were answered "maybe".
    /// Returns `None` if `tried` is 0.
    pub fn of_filters(
        tried: u64,
        wrong: u64,
        shadow: &Outcome,
        levels: Range<usize>,
    ) -> Option<Rate> {
        let independent = tried as f64 / design_effect(shadow);
        let mut rate = Rate { tried, wrong, independent, predicted: 0.0, textbook: 0.0 };
        let mut shapes: BTreeMap<FilterShape, u64> = BTreeMap::new();
        for level in levels {
            for (shape, asked) in &shadow.tried[level] {
                *shapes.entry(*shape).or_insert(0) += asked;
            }
        }
        let asked: u64 = shapes.values().sum();
        for (shape, times) in shapes {
            let weight = times as f64 / asked as f64;
            let (textbook, predicted) = match shape {
                FilterShape::Bloom { bits, keys, probes } => (
                    false_positive_probability(bits, keys, probes),
                    double_hashing_probability(bits, keys, probes),
                ),
                FilterShape::Fingerprints { bits } => {
                    let rate = (-f64::from(bits)).exp2();
                    (rate, rate)
                }
            };
            rate.textbook += weight * textbook;
            rate.predicted += weight * predicted;
        }
        (rate.tried > 0).then_some(rate)
    }

    /// Returns the measured rate.
    pub fn measured(&self) -> f64 {
        self.wrong as f64 / self.tried as f64
    }

    /// Returns the 95 % confidence interval of the measured rate.
    pub fn interval(&self) -> (f64, f64) {
        wilson(self.measured(), self.independent)
    }

    /// Returns whether the predicted probability is in the confidence interval.
    pub fn agrees(&self) -> bool {
        let (low, high) = self.interval();
        (low..=high).contains(&self.predicted)
    }
}

/// Returns the factor, at least 1, by which the variance of a rate exceeds the variance of a rate
/// of independent queries. Queries are clustered by filter and by key, as in Cameron, Gelbach and
/// Miller, "Robust inference with multiway clustering" (2011).
pub fn design_effect(shadow: &Outcome) -> f64 {
    let tried: u64 = shadow.tried.iter().flat_map(|shapes| shapes.values()).sum();
    let wrong: u64 = shadow.wrong.iter().sum();
    let rate = wrong as f64 / tried as f64;
    let alone = tried as f64 * rate * (1.0 - rate);
    let clustered = shadow.among_filters.deviation(rate) + shadow.among_keys.deviation(rate);
    let effect = (clustered - alone) / alone;
    if effect.is_finite() { effect.max(1.0) } else { 1.0 }
}

/// Returns Wilson's 95 % interval for a probability that was measured as `rate` in `tries` tries.
pub fn wilson(rate: f64, tries: f64) -> (f64, f64) {
    if tries.is_nan() || tries <= 0.0 {
        return (0.0, 1.0);
    }
    let middle = rate + Z * Z / (2.0 * tries);
    let spread = Z * (rate * (1.0 - rate) / tries + Z * Z / (4.0 * tries * tries)).sqrt();
    let scale = 1.0 + Z * Z / tries;
    // For a rate of 0, the exact lower bound is 0, and for a rate of 1, the exact upper bound is 1.
    // Floating-point results would have rounding errors.
    let low = if rate <= 0.0 { 0.0 } else { ((middle - spread) / scale).max(0.0) };
    let high = if rate >= 1.0 { 1.0 } else { ((middle + spread) / scale).min(1.0) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use minikv::{BloomFilterPolicy, FilterPolicy};

    use super::*;
    use crate::random::Rng;

    #[test]
    fn wilson_is_wilson() {
        // The expected values were computed by hand, and agree with statistics packages.
        let (low, high) = wilson(0.1, 100.0);
        assert!((low - 0.05523).abs() < 1e-5 && (high - 0.17437).abs() < 1e-5, "{low} {high}");
        let (low, high) = wilson(0.0, 1000.0);
        assert!(low == 0.0 && (high - 0.003827).abs() < 1e-6, "{low} {high}");
        for tries in 1..2000 {
            assert_eq!(wilson(0.0, f64::from(tries)).0, 0.0, "{tries} tries");
            assert_eq!(wilson(1.0, f64::from(tries)).1, 1.0, "{tries} tries");
        }
        assert_eq!(wilson(0.0, 0.0), (0.0, 1.0));
    }

    /// Builds filters of random keys and queries them for other keys. Checks that the prediction is
    /// close to the measured rate, and that the result of the textbook formula is not.
    #[test]
    fn double_hashing_is_predicted() {
        let policy = BloomFilterPolicy::new(10);
        let mut rng = Rng::new(42);
        let keys_per_filter = 19;
        let (mut asked, mut wrong) = (0, 0);
        for _ in 0..2000 {
            let keys: Vec<_> = (0..keys_per_filter).map(|_| rng.next().to_le_bytes()).collect();
            let mut filter = Vec::new();
            policy.create(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>(), &mut filter);
            for _ in 0..100 {
                asked += 1;
                wrong += u64::from(policy.may_match(&rng.next().to_le_bytes(), &filter));
            }
        }
        let bits = policy.filter_bits(keys_per_filter);
        let shape = (bits, keys_per_filter as u64, policy.probes());
        let predicted = double_hashing_probability(shape.0, shape.1, shape.2);
        let textbook = false_positive_probability(shape.0, shape.1, shape.2);
        let rate = Rate { tried: asked, wrong, independent: asked as f64, predicted, textbook };
        assert!((rate.measured() / predicted - 1.0).abs() < 0.1, "{rate:?}");
        assert!(rate.measured() / textbook > 1.25, "{rate:?}");
    }
}
