//! Checks that draws follow the requested distributions, with Kolmogorov-Smirnov and chi-square
//! tests and fixed seeds. With the correct parameters, each statistic stays below a bound. With
//! wrong parameters, the statistic exceeds a higher bound.

use super::*;

const DRAWS: usize = 200_000;
const ENTRIES: u64 = 3_000_000;

fn requests(profile: Profile) -> Vec<Request> {
    let mut requests = Requests::new(profile, ENTRIES, 11);
    (0..DRAWS).map(|_| requests.next_request()).collect()
}

fn mixgraph() -> Mixgraph {
    Mixgraph::default()
}

/// Returns the Kolmogorov-Smirnov statistic: the largest difference between the distribution of
/// `draws` and `expected`, times the square root of the number of draws. `expected(x)` is the
/// probability that a draw is at most `x`. If the distributions are the same, the statistic exceeds
/// 1.63 in one of a hundred cases.
fn kolmogorov_smirnov(draws: &[u64], expected: impl Fn(u64) -> f64) -> f64 {
    let mut draws = draws.to_vec();
    draws.sort_unstable();
    let n = draws.len() as f64;
    let mut largest: f64 = 0.0;
    let mut from = 0;
    for group in draws.chunk_by(|a, b| a == b) {
        let to = from + group.len();
        let below = expected(group[0].saturating_sub(1));
        let difference = |at: usize, p: f64| (at as f64 / n - p).abs();
        largest = largest.max(difference(from, below)).max(difference(to, expected(group[0])));
        from = to;
    }
    largest * n.sqrt()
}

/// Returns how many standard deviations the chi-square statistic of `counts` against `weights` lies
/// above its expected value.
fn chi_square(counts: &[u64], weights: &[f64]) -> f64 {
    let (n, all) = (counts.iter().sum::<u64>() as f64, weights.iter().sum::<f64>());
    let squares = counts.iter().zip(weights).map(|(&count, weight)| {
        let expected = n * weight / all;
        (count as f64 - expected).powi(2) / expected
    });
    let freedom = counts.len() as f64 - 1.0;
    (squares.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

fn pareto(k: f64, sigma: f64) -> impl Fn(u64) -> f64 {
    move |x| 1.0 - (1.0 + k * x as f64 / sigma).powf(-1.0 / k)
}

/// Returns the distribution of a number drawn from `of` and then, if it is greater than `max`,
/// reduced modulo `max`.
fn folded(of: impl Fn(u64) -> f64, max: u64) -> impl Fn(u64) -> f64 {
    move |x| {
        let over = (1..2000).map(|i| of(i * max + x.min(max - 1)) - of(i * max - 1));
        // `max` itself is not reduced to zero.
        let exact = of(max) - of(max - 1);
        of(x) + over.sum::<f64>() - if x < max { exact } else { 0.0 }
    }
}

#[test]
fn value_lengths_are_pareto_distributed() {
    let profile = Profile::Mixgraph(mixgraph());
    let lengths: Vec<u64> = requests(profile)
        .iter()
        .filter_map(|request| match request {
            Request::Put { value_bytes, .. } => Some(*value_bytes as u64),
            _ => None,
        })
        .collect();
    assert!(lengths.len() > 25_000, "{}", lengths.len());
    let off = kolmogorov_smirnov(&lengths, folded(pareto(0.2615, 25.45), 1024));
    assert!(off < 1.4, "{off}");
    for (k, sigma) in [(0.34, 25.45), (0.2615, 27.0)] {
        let off = kolmogorov_smirnov(&lengths, folded(pareto(k, sigma), 1024));
        assert!(off > 1.8, "{k} {sigma}: {off}");
    }
    let loaded: Vec<u64> = (0..30_000).map(|i| profile.value_bytes(i) as u64).collect();
    let off = kolmogorov_smirnov(&loaded, folded(pareto(0.2615, 25.45), 1024));
    assert!(off < 1.4, "loaded: {off}");
}

#[test]
fn scan_lengths_are_pareto_distributed() {
    let scans = Mixgraph { shares: [0.0, 0.0, 1.0], ..mixgraph() };
    let lengths: Vec<u64> = requests(Profile::Mixgraph(scans))
        .iter()
        .map(|request| match request {
            Request::Scan { entries, .. } => *entries,
            other => panic!("{other:?}"),
        })
        .collect();
    let off = kolmogorov_smirnov(&lengths, folded(pareto(2.517, 14.236), 10_000));
    // The bound is loose, because `folded` ignores the few draws that exceed 2000 times the
    // maximum.
    assert!(off < 3.5, "{off}");
    for (k, sigma) in [(2.7, 14.236), (2.517, 15.5)] {
        let off = kolmogorov_smirnov(&lengths, folded(pareto(k, sigma), 10_000));
        assert!(off > 5.0, "{k} {sigma}: {off}");
    }
}

#[test]
fn ranks_of_keys_follow_the_power_law() {
    let mut rng = SmallRng::seed_from_u64(5);
    let law = mixgraph().keys;
    let ranks: Vec<u64> = (0..DRAWS).map(|_| law.inverse(rng.random())).collect();
    let expected = |a: f64, b: f64| move |x: u64| (a * (x as f64).powf(b)).min(1.0);
    let off = kolmogorov_smirnov(&ranks, expected(0.002312, 0.3467));
    assert!(off < 1.4, "{off}");
    for (a, b) in [(0.0024, 0.3467), (0.002312, 0.35)] {
        let off = kolmogorov_smirnov(&ranks, expected(a, b));
        assert!(off > 5.0, "{a} {b}: {off}");
    }
    assert_eq!(law.inverse(0.0), 1);
}

/// Returns the number of requests for each of the 30 key ranges.
fn asked(profile: Profile) -> Vec<u64> {
    let mut counts = vec![0; 30];
    for request in requests(profile) {
        let (Request::Get { number, .. }
        | Request::Put { number, .. }
        | Request::Scan { number, .. }) = request;
        counts[(number / (ENTRIES / 30)) as usize] += 1;
    }
    counts
}

#[test]
fn key_ranges_have_the_weights_of_the_two_exponentials() {
    let mut counts = asked(Profile::Mixgraph(mixgraph()));
    let in_order = counts.clone();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    assert_ne!(counts, in_order, "the ranges are shuffled");
    // The formula is repeated here, so that the test does not share a mistake with the code.
    let weights = |TwoTermExponential { a, b, c, d }| -> Vec<f64> {
        (1..=30).map(f64::from).map(|x| a * (b * x).exp() + c * (d * x).exp()).collect()
    };
    let right = mixgraph().ranges;
    // Sorting may swap key ranges of nearly equal weight, so the counts fit slightly better than in
    // a random order.
    let off = chi_square(&counts, &weights(right));
    assert!(off < 3.0, "{off}");
    for wrong in [
        TwoTermExponential { a: 15.4, ..right },
        TwoTermExponential { b: -2.85, ..right },
        TwoTermExponential { c: 0.0178, ..right },
        TwoTermExponential { d: -0.085, ..right },
    ] {
        let off = chi_square(&counts, &weights(wrong));
        assert!(off > 4.0, "{wrong:?}: {off}");
    }
}

/// Returns four counts: gets of present keys, gets of absent keys, puts, and scans.
fn kinds(requests: &[Request]) -> [u64; 4] {
    let mut counts = [0; 4];
    for request in requests {
        counts[match request {
            Request::Get { missing: false, .. } => 0,
            Request::Get { missing: true, .. } => 1,
            Request::Put { .. } => 2,
            Request::Scan { .. } => 3,
        }] += 1;
    }
    counts
}

#[test]
fn kinds_of_requests_have_their_shares() {
    let [gets, none, puts, scans] = kinds(&requests(Profile::Mixgraph(mixgraph())));
    assert_eq!(none, 0);
    assert!(chi_square(&[gets, puts, scans], &[0.83, 0.14, 0.03]) < 3.0);
    assert!(chi_square(&[gets, puts, scans], &[0.82, 0.15, 0.03]) > 5.0);

    let profile: Profile = "cache:get=0.8,miss=0.7".parse().unwrap();
    let [found, missed, puts, scans] = kinds(&requests(profile));
    assert_eq!(scans, 0);
    assert!(chi_square(&[found, missed, puts], &[0.8 * 0.3, 0.8 * 0.7, 0.2]) < 3.0);
    assert!(chi_square(&[found, missed, puts], &[0.8 * 0.31, 0.8 * 0.69, 0.2]) > 5.0);
}

/// Returns the result of [`chi_square`] for the counts of `pairs`, against the counts that are
/// expected if the two numbers of a pair are independent.
fn dependence(pairs: &[(usize, usize)], sizes: (usize, usize)) -> f64 {
    let mut counts = vec![0; sizes.0 * sizes.1];
    let (mut first, mut second) = (vec![0.0; sizes.0], vec![0.0; sizes.1]);
    for &(a, b) in pairs {
        counts[a * sizes.1 + b] += 1;
        first[a] += 1.0;
        second[b] += 1.0;
    }
    let weights: Vec<f64> = first.iter().flat_map(|a| second.iter().map(move |b| a * b)).collect();
    chi_square(&counts, &weights)
}

/// Checks that the components of a request are independent. In db_bench, the same random number
/// determines the key range and the length of the value.
#[test]
fn components_do_not_depend_on_each_other() {
    let range = |number: u64| (number / (ENTRIES / 30)) as usize;
    let all = requests(Profile::Mixgraph(mixgraph()));
    let kind_and_range = all.iter().map(|request| match *request {
        Request::Get { number, .. } => (0, range(number)),
        Request::Put { number, .. } => (1, range(number)),
        Request::Scan { number, .. } => (2, range(number)),
    });
    let off = dependence(&kind_and_range.collect::<Vec<_>>(), (3, 30));
    assert!(off < 3.0, "kind and range: {off}");
    let length_and_range = all.iter().filter_map(|request| match *request {
        Request::Put { number, value_bytes } => Some((value_bytes.min(79) / 20, range(number))),
        _ => None,
    });
    let length_and_range: Vec<_> = length_and_range.collect();
    let off = dependence(&length_and_range, (4, 30));
    assert!(off < 3.0, "length and range: {off}");
    // Checks that a length determined by the key range would be detected.
    let tied: Vec<_> = length_and_range.iter().map(|&(_, range)| (range % 4, range)).collect();
    assert!(dependence(&tied, (4, 30)) > 100.0);
}

/// Checks that popular keys are not adjacent, and that every key range has its own popular keys.
#[test]
fn popular_keys_are_spread_over_their_range_and_over_all_ranges() {
    let alone = Profile::Mixgraph(Mixgraph { range_count: 1, ..mixgraph() });
    let mut requests = Requests::new(alone, ENTRIES, 5);
    let mut counts = std::collections::HashMap::new();
    (0..DRAWS).for_each(|_| *counts.entry(requests.next_number()).or_insert(0) += 1);
    let mut popular: Vec<(u64, u32)> = counts.into_iter().collect();
    popular.sort_unstable_by_key(|&(_, count)| std::cmp::Reverse(count));
    assert!((380..550).contains(&popular[0].1), "{:?}", &popular[..5]);
    let mut first: Vec<u64> = popular[..5].iter().map(|(number, _)| *number).collect();
    first.sort_unstable();
    assert!(first.windows(2).all(|pair| pair[1] - pair[0] > 1000), "{first:?}");

    let size = ENTRIES / 30;
    let mut requests = Requests::new(Profile::Mixgraph(mixgraph()), ENTRIES, 5);
    let pairs = (0..DRAWS).map(|_| {
        let number = requests.next_number();
        ((number / size) as usize, usize::from(number % size == mix(1) % size))
    });
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.iter().filter(|(_, popular)| *popular == 1).count() > 380);
    let off = dependence(&pairs, (30, 2));
    assert!(off < 4.0, "range and rank: {off}");
}

#[test]
fn keys_of_a_cache_are_zipf_distributed() {
    let profile: Profile = "cache:get=1,miss=0,zipf=0.9".parse().unwrap();
    let mut requests = Requests::new(profile, 1000, 3);
    let mut counts = vec![0u64; 1000];
    (0..DRAWS).for_each(|_| counts[requests.next_number() as usize] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // Two ranks may be mapped to the same key, so only the share of the first ten ranks is
    // compared.
    let share = |exponent: f64| {
        let weight = |rank: i32| f64::from(rank).powf(-exponent);
        (1..=10).map(weight).sum::<f64>() / (1..=1000).map(weight).sum::<f64>()
    };
    let top = counts[..10].iter().sum::<u64>() as f64 / DRAWS as f64;
    assert!((top - share(0.9)).abs() < 0.02, "{top} {}", share(0.9));
    assert!((top - share(1.0)).abs() > 0.05 && (top - share(0.8)).abs() > 0.05);
}

#[test]
fn keys_are_in_order_with_absent_ones_between_them() {
    for profile in ["mixgraph", "cache:key=20"].map(|text| text.parse::<Profile>().unwrap()) {
        let keys: Vec<_> =
            (0..100).flat_map(|i| [false, true].map(|m| profile.key(i, m))).collect();
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == profile.key_bytes()));
        assert_eq!(profile, profile.to_string().parse().unwrap());
    }
    assert_eq!(Profile::Mixgraph(mixgraph()).key_bytes(), 48);
}

#[test]
fn wrong_parameters_are_refused() {
    for text in
        ["", "ycsb", "cache:miss=2", "cache:key=3", "mixgraph:zipf=1", "mixgraph:get", "cache:=1"]
    {
        assert!(text.parse::<Profile>().is_err(), "{text}");
    }
    assert!("mixgraph:get=0,put=0,scan=0".parse::<Profile>().is_err());
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let profile = Profile::Mixgraph(mixgraph());
    let of = |seed| {
        let mut requests = Requests::new(profile, 1000, seed);
        (0..100).map(|_| requests.next_request()).collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}
