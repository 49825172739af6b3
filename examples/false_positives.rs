//! Predicts and measures the false-positive rates of bloom filters, for the table in
//! `docs/filters.md`: `cargo run --release --example false_positives`.

use minikv::filter::math::{best_probes, false_positive_probability};
use minikv::{BloomFilterPolicy, FilterPolicy};

const LOOKUPS: u64 = 4_000_000;

/// Returns the next number of SplitMix64, so that every run has the same keys.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn random_key(seed: &mut u64) -> [u8; 16] {
    let (high, low) = (random(seed), random(seed));
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Returns the fraction of absent keys that pass a filter, measured with filters of `keys` keys.
fn measured(policy: &BloomFilterPolicy, keys: usize) -> f64 {
    let mut seed = 1;
    // Query each filter a hundred times per key that it holds, and then create the next filter.
    let lookups_per_filter = 100 * keys as u64;
    let mut wrong = 0u64;
    for _ in 0..LOOKUPS / lookups_per_filter {
        let keys: Vec<[u8; 16]> = (0..keys).map(|_| random_key(&mut seed)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
        let mut filter = Vec::new();
        policy.create(&keys, &mut filter);
        let absent = (0..lookups_per_filter).map(|_| random_key(&mut seed));
        wrong += absent.filter(|key| policy.may_match(key, &filter)).count() as u64;
    }
    wrong as f64 / (LOOKUPS / lookups_per_filter * lookups_per_filter) as f64
}

fn main() {
    println!("| bits a key | k | predicted | best k | predicted | 10,000 keys | 32 keys |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for bits_per_key in 2..=20 {
        let policy = BloomFilterPolicy::new(bits_per_key);
        let (bits, keys) = (policy.filter_bits(10_000), 10_000);
        let percent = |rate: f64| format!("{:.3} %", 100.0 * rate);
        println!(
            "| {bits_per_key} | {} | {} | {} | {} | {} | {} |",
            policy.probes(),
            percent(false_positive_probability(bits, keys, policy.probes())),
            best_probes(bits, keys),
            percent(false_positive_probability(bits, keys, best_probes(bits, keys))),
            percent(measured(&policy, 10_000)),
            percent(measured(&policy, 32)),
        );
    }
}
