//! The theory of bloom filters: false-positive rates and their cost in bits.
//!
//! A filter has `m` bits, `n` keys and `k` probes per key. A bit remains 0 with probability `(1 -
//! 1/m)^(kn)`, and an absent key is a false positive if all its `k` bits are 1. The rates of real
//! filters are close to the computed rates: because of double hashing, the probes of a key are not
//! independent, but this matters only for small `m`.

/// Returns the probability that a filter of `bits` bits over `keys` keys, with `probes` probes per
/// key, answers "maybe" for an absent key. The result is 1 for a filter without bits, and 0 for a
/// filter without keys.
///
/// ```
/// use minikv::filter::math::false_positive_probability;
///
/// let p = false_positive_probability(10_000, 1_000, 6);
/// assert!((p - 0.00844).abs() < 0.00001);
/// ```
pub fn false_positive_probability(bits: u64, keys: u64, probes: u32) -> f64 {
    if keys == 0 && probes > 0 {
        return 0.0;
    }
    if bits <= 1 || probes == 0 {
        return 1.0;
    }
    let probes = f64::from(probes);
    // ln near 1 and exp near 0 lose significant digits; ln_1p and exp_m1 keep them.
    let clear_ln = probes * keys as f64 * (-1.0 / bits as f64).ln_1p();
    (-clear_ln.exp_m1()).powf(probes)
}

/// Returns the number of probes that minimizes the false-positive rate of a filter of `bits` bits
/// over `keys` keys: about `ln 2 * bits / keys`, and at least 1.
pub fn best_probes(bits: u64, keys: u64) -> u32 {
    if keys == 0 {
        return 1;
    }
    let exact = std::f64::consts::LN_2 * bits as f64 / keys as f64;
    let below = (exact as u32).max(1);
    let above = below.saturating_add(1);
    let rate = |probes| false_positive_probability(bits, keys, probes);
    if rate(above) < rate(below) { above } else { below }
}

/// Returns the smallest number of bits for which a filter over `keys` keys, with the best number of
/// probes, has a false-positive rate of at most `rate`. Returns 0 if `rate` is 1 or more. Returns
/// `None` if `rate` is not above 0, or if no 64-bit number of bits suffices.
///
/// ```
/// use minikv::filter::math::smallest_bits;
///
/// assert_eq!(smallest_bits(1_000, 0.01), Some(9_594));
/// ```
pub fn smallest_bits(keys: u64, rate: f64) -> Option<u64> {
    if rate.is_nan() || rate <= 0.0 {
        return None;
    }
    if keys == 0 || rate >= 1.0 {
        return Some(0);
    }
    let reaches = |bits| false_positive_probability(bits, keys, best_probes(bits, keys)) <= rate;
    let mut enough = 2u64;
    while !reaches(enough) {
        enough = enough.checked_mul(2)?;
    }
    let mut short = enough / 2;
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if reaches(middle) { enough = middle } else { short = middle }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_formula() {
        let approx = |bits: f64, keys: f64, k: f64| (1.0 - (-k * keys / bits).exp()).powf(k);
        for (per_key, probes) in [(1, 1), (5, 3), (10, 6), (20, 13), (50, 30)] {
            let exact = false_positive_probability(per_key * 100_000, 100_000, probes);
            let limit = approx(per_key as f64 * 1e5, 1e5, f64::from(probes));
            assert!((exact / limit - 1.0).abs() < 1e-3, "{per_key} bits: {exact} {limit}");
        }
    }

    #[test]
    fn edges_are_probabilities_too() {
        assert_eq!(false_positive_probability(0, 5, 3), 1.0);
        assert_eq!(false_positive_probability(1, 5, 3), 1.0);
        assert_eq!(false_positive_probability(64, 0, 6), 0.0);
        assert_eq!(false_positive_probability(64, 5, 0), 1.0);
        assert_eq!(false_positive_probability(64, 0, 0), 1.0);
        assert_eq!(false_positive_probability(2, 1, 1), 0.5);
        let huge = false_positive_probability(u64::MAX, u64::MAX, 1);
        assert!((huge - (1.0 - (-1.0f64).exp())).abs() < 1e-9, "{huge}");
    }

    #[test]
    fn the_best_number_of_probes_has_no_better_neighbour() {
        for per_key in 1..40u64 {
            let best = best_probes(per_key * 1000, 1000);
            let rate = |k| false_positive_probability(per_key * 1000, 1000, k);
            for other in 1..60 {
                assert!(rate(best) <= rate(other), "{per_key} bits: {best} against {other}");
            }
        }
        assert_eq!(
            (best_probes(10_000, 1000), best_probes(0, 1000), best_probes(64, 0)),
            (7, 1, 1)
        );
    }

    #[test]
    fn the_smallest_size_is_the_smallest() {
        for keys in [1, 10, 1000, 1_000_000] {
            for rate in [0.5, 0.1, 0.01, 1e-6] {
                let bits = smallest_bits(keys, rate).unwrap();
                let reached =
                    |bits| false_positive_probability(bits, keys, best_probes(bits, keys)) <= rate;
                assert!(reached(bits) && !reached(bits - 1), "{keys} keys at {rate}: {bits}");
            }
        }
        assert_eq!(smallest_bits(10, 0.0), None);
        assert_eq!(smallest_bits(10, f64::NAN), None);
        assert_eq!(smallest_bits(10, 1.0), Some(0));
        assert_eq!(smallest_bits(0, 0.01), Some(0));
        assert_eq!(smallest_bits(u64::MAX, 1e-9), None);
    }
}
