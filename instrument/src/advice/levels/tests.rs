use super::*;
use crate::advice::plan::{FilterKind, TableFilters};
use minikv::filter::math::best_probes;

/// Returns levels 1 to 4 of a database whose levels are full, each ten times as large as the level
/// above. Filters have 10,000 keys, and each level is searched in vain `times` times.
fn full(times: u64) -> Vec<LevelUse> {
    let level = |level: u32| {
        let mut used = LevelUse::default();
        if (1..=4).contains(&level) {
            let filters: BTreeMap<u64, u64> = (0..10u64.pow(level)).map(|i| (i, 10_000)).collect();
            used.add_table(&filters);
            // Each key is looked up once, so the sum of the squares equals the number of lookups.
            used.of_filters.insert(10_000, Asked { times, squares: times });
        }
        used
    };
    (0..NUM_LEVELS as u32).map(level).collect()
}

/// Returns the average number of blocks that a get reads in vain, for two divisions of the same
/// memory: the same number of bits per key on all levels, and false-positive rates proportional to
/// the number of keys on each level. Assumes the textbook's false-positive rate of bloom filters,
/// and allows a fractional number of bits.
fn closed_form(bits: f64) -> (f64, f64) {
    let keys = [10.0, 100.0, 1000.0, 10_000.0f64];
    let all: f64 = keys.iter().sum();
    let ln2 = std::f64::consts::LN_2;
    let alike = 4.0 * (-bits * ln2 * ln2).exp();
    let entropy = keys.iter().map(|n| n * n.ln()).sum::<f64>() / all;
    (alike, all * (-bits * ln2 * ln2 - entropy).exp())
}

/// Returns the choices for textbook filters with 0 to 29.9 bits per key, in steps of 0.1.
fn textbook() -> Choices {
    let ln2 = std::f64::consts::LN_2;
    let level = |level: u32| {
        let keys = if (1..=4).contains(&level) { 10u64.pow(level + 3) } else { 0 };
        let choice = |tenths: u64| SizeChoice {
            bytes: keys * tenths / 80,
            false_blocks: match keys {
                0 => (0.0, 0.0),
                _ => ((-(tenths as f64) / 10.0 * ln2 * ln2).exp(), 0.0),
            },
        };
        (0..300).map(choice).collect()
    };
    Choices { levels: (0..NUM_LEVELS as u32).map(level).collect() }
}

#[test]
fn the_division_is_that_of_the_closed_form() {
    for (bits, alike, divided) in [(10, 0.033, 0.012), (5, 0.362, 0.130)] {
        let exact = closed_form(f64::from(bits));
        assert!((exact.0 - alike).abs() < 0.001 && (exact.1 - divided).abs() < 0.001, "{exact:?}");
        let choices = textbook();
        let uniform = [bits * 10; NUM_LEVELS];
        assert!((choices.left(&uniform).0 / exact.0 - 1.0).abs() < 0.001);
        let advised = choices.within(choices.bytes(&uniform));
        let ratio = choices.left(&advised).0 / exact.1;
        assert!((0.995..1.02).contains(&ratio), "{bits}: {ratio} {advised:?}");
        // Each level has ten times as many keys as the level above and the same number of
        // unsuccessful lookups, so its filters get ln 10 / (ln 2)^2 = 4.8 fewer bits per key. The
        // results are only close to this number, because memory is divided into equal parts, which
        // are coarse for small levels.
        for levels in advised[2..=4].windows(2) {
            assert!((43..=54).contains(&(levels[0] - levels[1])), "{advised:?}");
        }
    }
}

/// Checks how memory is divided among LevelDB's filters, which have whole numbers of bits and
/// probes. The last of the four levels has nine tenths of the keys, so the total memory depends
/// mostly on whether the bits per key of that level are rounded to 9 or to 10.
#[test]
fn whole_bits_come_near_to_the_closed_form() {
    for (bits, alike, divided) in [(10, 0.033, 0.012), (5, 0.362, 0.130)] {
        let levels = full(1_000_000);
        let divisions = Divisions::of(&levels, FilterKind::Block, bits);
        let advice = divisions.measured(&levels, 1_000_000, [0; 3]);
        let ratio = advice.uniform.predicted / alike;
        assert!((0.97..1.05).contains(&ratio), "{bits}: {advice:?}");
        let ratio = advice.advised.predicted / divided;
        assert!((0.95..1.25).contains(&ratio), "{bits}: {advice:?}");
        assert!(advice.advised.filter_bytes <= advice.uniform.filter_bytes);
        assert!(advice.smaller.predicted <= advice.uniform.predicted);
        assert!(advice.smaller.filter_bytes < advice.uniform.filter_bytes * 9 / 10, "{advice:?}");
        let bits: Vec<u32> = advice.levels.iter().map(|level| level.advised_bits).collect();
        assert!(bits.is_sorted_by(|above, below| above >= below), "{bits:?}");
    }
}

/// Tries all divisions of `bytes` bytes, and returns the smallest number of blocks read in vain.
fn best_of_all(choices: &Choices, bytes: u64) -> f64 {
    let mut best = f64::MAX;
    for i in 0..(MOST_BITS + 1).pow(3) {
        let step = MOST_BITS + 1;
        let bits = [i % step, i / step % step, i / step / step, 0, 0, 0, 0];
        if choices.bytes(&bits) <= bytes {
            best = best.min(choices.left(&bits).0);
        }
    }
    best
}

#[test]
fn hardly_any_other_division_is_better() {
    let mut levels = vec![LevelUse::default(); NUM_LEVELS];
    for (level, tables, times) in [(0, 1, 50), (1, 7, 9000), (2, 60, 30)] {
        for _ in 0..tables {
            levels[level].add_table(&(0..50).map(|i| (i, 25 + i)).collect());
        }
        (0..times).for_each(|i| levels[level].add_asked(25 + i % 50, 2475, 1));
    }
    for layout in [FilterKind::Block, FilterKind::Table] {
        let choices = Choices::of(&levels, layout);
        for bits in [1, 3, 6, 10] {
            let bytes = choices.bytes(&[bits; NUM_LEVELS]);
            let divided = choices.within(bytes);
            assert!(choices.bytes(&divided) <= bytes, "{divided:?}");
            let (left, best) = (choices.left(&divided).0, best_of_all(&choices, bytes));
            assert!(left <= best * 1.05 + 1e-9, "{layout:?} {bits}: {divided:?} {left} {best}");
        }
    }
}

#[test]
fn a_level_that_is_not_asked_gets_no_filter() {
    let mut levels = full(1000);
    levels[4].of_filters.clear();
    let divisions = Divisions::of(&levels, FilterKind::Block, 10);
    let [_, advised, smaller] = divisions.bits;
    assert_eq!((advised[4], smaller[4]), (0, 0));
    // More memory is available than the filters of the other levels can use.
    assert!(advised[1..4].iter().all(|&bits| bits > 16), "{advised:?}");
    let nothing = Divisions::of(&vec![LevelUse::default(); NUM_LEVELS], FilterKind::Table, 10);
    assert_eq!(nothing.bits[1..], [[0; NUM_LEVELS]; 2]);
}

#[test]
fn a_popular_key_widens_the_interval() {
    let mut once = LevelUse::default();
    (0..1000).for_each(|_| once.add_asked(30, 3000, 1));
    let mut popular = LevelUse::default();
    popular.add_asked(30, 3000, 1000);
    let of = |used: &LevelUse| used.false_blocks(FilterKind::Block, 10);
    assert_eq!(of(&once).0, of(&popular).0);
    assert!((of(&popular).1 / of(&once).1 - 1000.0).abs() < 1e-6);
}

#[test]
fn filters_of_both_kinds_err_as_whole_table_filters_do() {
    let mut used = LevelUse::default();
    used.add_asked(3, 3000, 100);
    for bits in 1..=MOST_BITS {
        let of = |layout| used.false_blocks(layout, bits);
        assert_eq!(of(FilterKind::Both), of(FilterKind::Table), "{bits}");
        assert_ne!(of(FilterKind::Both), of(FilterKind::Block), "{bits}");
    }
}

/// Returns two levels of 40 and 4000 keys. The first level is searched in vain a hundred times as
/// often as the second.
fn two_levels() -> Vec<LevelUse> {
    [(40, 50_000), (4000, 500)]
        .map(|(keys, asked)| {
            let mut used = LevelUse::default();
            used.add_table(&BTreeMap::from([(0, keys)]));
            (0..asked).for_each(|_| used.add_asked(keys, keys, 1));
            used
        })
        .to_vec()
}

#[test]
fn the_plans_have_the_bits_of_each_level() {
    let levels = two_levels();
    let divisions = Divisions::of(&levels, FilterKind::Table, 10);
    let advice = divisions.measured(&levels, 50_000, [0; 3]);
    let plans = divisions.plans();
    for share in &advice.levels {
        let bits = [share.uniform_bits, share.advised_bits, share.smaller_bits];
        for (plan, bits) in plans.iter().zip(bits) {
            assert_eq!(plan.0[share.level].table, TableFilters::New(bits), "{share:?}");
        }
    }
    assert!(advice.levels[0].advised_bits > advice.levels[1].advised_bits + 4, "{advice:?}");
}

#[test]
fn intervals_are_those_of_independent_tries() {
    let levels = two_levels();
    let divisions = Divisions::of(&levels, FilterKind::Table, 10);
    let advice = divisions.measured(&levels, 50_000, [197, 0, 0]);
    // 50,500 queries at a false-positive rate of 1/256 have a variance of 196.5.
    let uniform = advice.uniform;
    assert!((uniform.predicted * 50_000.0 - 197.3).abs() < 0.1, "{uniform:?}");
    let (low, high) = uniform.interval;
    let expected = (197.0 - 27.5, 197.0 + 27.5);
    assert!((low * 50_000.0 - expected.0).abs() < 0.1, "{uniform:?}");
    assert!((high * 50_000.0 - expected.1).abs() < 0.1, "{uniform:?}");
    let (low, high) = advice.advised.interval;
    assert!(low == 0.0 && high > 0.0, "nothing is less than none: {advice:?}");
}

#[test]
fn twice_the_tables_have_twice_the_filters() {
    let mut used = LevelUse::default();
    used.add_table(&BTreeMap::from([(0, 40), (3, 50)]));
    let sizes = |used: &LevelUse| {
        let layouts = [FilterKind::Block, FilterKind::Table, FilterKind::Both];
        layouts.map(|layout| used.filter_bytes(layout, 10))
    };
    let once = sizes(&used);
    used.scale(2.0);
    assert_eq!(sizes(&used), once.map(|bytes| 2 * bytes));
}

/// Compares [`double_hashing_probability`] with a sum over all deltas. The function itself only
/// considers the deltas that share a factor with the number of bits.
#[test]
fn probes_that_coincide_are_those_of_every_delta() {
    for (bits, keys, probes) in
        [(64, 6, 6), (240, 24, 6), (320, 32, 11), (1000, 50, 13), (77, 9, 5)]
    {
        let distinct = |delta| u64::from(probes).min(bits / greatest_common_divisor(bits, delta));
        let mean = (0..bits).map(distinct).sum::<u64>() as f64 / bits as f64;
        let clear = (mean * keys as f64 * (-1.0 / bits as f64).ln_1p()).exp();
        let all_set = |delta| (1.0 - clear).powi(distinct(delta) as i32);
        let expected = (0..bits).map(all_set).sum::<f64>() / bits as f64;
        let found = double_hashing_probability(bits, keys, probes);
        assert!((found / expected - 1.0).abs() < 1e-9, "{bits} {keys}: {found} {expected}");
        assert!(found >= false_positive_probability(bits, keys, best_probes(bits, keys)));
    }
}
