//! Filters of every kind and layout: checks that they save reads and never change a result.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use minikv::stats::{AllFilters, LevelTrace};
use minikv::{
    BloomFilterPolicy, Db, DelimitedPrefix, FilterPolicy, Filters, FixedPrefix, Options,
    ReadOptions, Readable,
};

use crate::rng::{Rng, seed};
use crate::small;

const ALL: [Filters; 4] =
    [Filters::None, Filters::Block(10), Filters::Table(10), Filters::Both(10)];

/// Returns a database whose keys are even numbers. Some keys were put twice, and some were deleted.
/// Level 0 and one deeper level have tables.
fn fill(dir: &Path, options: Options) -> Db {
    let db = Db::open(dir, options).unwrap();
    let key = |i: u32| format!("{:06}", 2 * i);
    (0..4_000).for_each(|i| db.put(key(i), format!("value {i}")).unwrap());
    db.compact_range(..).unwrap();
    (0..4_000).step_by(7).for_each(|i| db.put(key(i), format!("new value {i}")).unwrap());
    (0..4_000).step_by(11).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db
}

#[test]
fn an_absent_key_costs_no_index_search_in_tables_with_their_own_filter() {
    for filters in ALL {
        let dir = tempfile::tempdir().unwrap();
        let db = fill(dir.path(), small().filters(filters));
        let mut sum = LevelTrace::default();
        for i in 0..2_000 {
            let (value, trace) = db.get_traced(format!("{:06}", 2 * i + 1)).unwrap();
            assert_eq!(value, None);
            sum.add(&trace.total());
        }
        let considered = sum.tables_considered;
        assert!(considered > 3_000, "{considered}");
        let (by_table, by_block, none) = match (filters.has_table(), filters.has_block()) {
            (false, false) => (0, 0, considered),
            (false, true) => (0, considered, 0),
            (true, _) => (considered, 0, 0),
        };
        assert_eq!((sum.table_filter_checks, sum.filter_checks), (by_table, by_block));
        let wrong = sum.table_filter_false_positives;
        assert_eq!(sum.index_seeks, by_block + none + wrong, "{filters:?}");
        assert_eq!(sum.data_blocks(), none + wrong + sum.filter_false_positives, "{filters:?}");
        assert!(wrong < 45 && sum.filter_false_positives < 90, "{filters:?}: {sum:?}");
    }
}

#[test]
fn filters_of_every_kind_give_the_same_answers() {
    let dirs = ALL.map(|filters| (filters, tempfile::tempdir().unwrap()));
    let dbs: Vec<Db> =
        dirs.iter().map(|(filters, dir)| fill(dir.path(), small().filters(*filters))).collect();
    let keys: Vec<String> = (0..8_100).map(|i| format!("{i:06}")).collect();
    let expected: Vec<_> = dbs[0].iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(expected.len(), 4_000 - 4_000usize.div_ceil(11));
    let unfiltered = ReadOptions::default().use_filter(false);
    let answers = dbs[0].reading(unfiltered).multi_get(&keys).unwrap();
    for db in &dbs {
        assert!(db.iter().map(|entry| entry.unwrap()).eq(expected.iter().cloned()));
        assert_eq!(db.multi_get(&keys).unwrap(), answers);
        assert_eq!(db.reading(unfiltered).multi_get(&keys).unwrap(), answers);
        for (key, answer) in keys.iter().zip(&answers) {
            assert_eq!(db.get(key).unwrap(), *answer);
            assert_eq!(db.reading(unfiltered).get(key).unwrap(), *answer);
        }
    }
    // A database opened with other filters still uses those that its tables have.
    drop(dbs);
    for (filters, dir) in &dirs {
        for other in [Filters::Block(16), Filters::Table(16), Filters::Both(16)] {
            let db = Db::open_read_only(dir.path(), small().filters(other)).unwrap();
            assert_eq!(db.multi_get(&keys).unwrap(), answers);
            let totals = db.stats().reads.total();
            let of_table = matches!(filters, Filters::Table(_) | Filters::Both(_));
            assert_eq!(totals.table_filter_checks > 0, of_table, "{filters:?} {other:?}");
            assert_eq!(totals.filter_checks > 0, *filters == Filters::Block(10));
        }
        let db = Db::open_read_only(dir.path(), small().filters(Filters::None)).unwrap();
        assert_eq!(db.multi_get(&keys).unwrap(), answers);
        assert_eq!(AllFilters::of(&db.stats().reads.total()).checks, 0);
    }
}

#[test]
fn multi_get_asks_whole_table_filters() {
    let dir = tempfile::tempdir().unwrap();
    let db = fill(dir.path(), small().filters(Filters::Table(16)));
    let absent: Vec<String> = (0..1_000).map(|i| format!("{:06}", 2 * i + 1)).collect();
    assert!(db.multi_get(&absent).unwrap().iter().all(Option::is_none));
    let totals = db.stats().reads.total();
    assert!(totals.table_filter_checks > 1_500, "{totals:?}");
    assert_eq!(totals.index_seeks, totals.table_filter_false_positives);
}

#[test]
fn levels_may_have_filters_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let options = (1..7)
        .fold(small().filters(Filters::Table(12)), |options, level| {
            options.filters_at_level(level, Filters::None)
        })
        .filters_at_level(2, Filters::Both(3))
        .filters_at_level(2, Filters::None);
    let db = fill(dir.path(), options.clone());
    let stats = db.stats();
    let deepest = stats.levels.iter().rposition(|level| level.files > 0).unwrap();
    assert!(deepest > 0 && stats.levels[0].files > 0);
    for i in 0..8_000 {
        db.get(format!("{i:06}")).unwrap();
    }
    let reads = db.stats().reads;
    let checks =
        |level: usize| (reads.levels[level].table_filter_checks, reads.levels[level].filter_checks);
    assert_eq!(checks(0), (reads.levels[0].tables_considered, 0));
    assert_eq!(checks(deepest), (0, 0));
    assert!(reads.levels[deepest].data_blocks() > 5_000);

    // Opens the same database with LevelDB's filters on the deepest level only.
    let options = options.filters_at_level(deepest, Filters::Block(10));
    db.close().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    db.compact_range(..).unwrap();
    let before = db.stats().reads.levels[deepest].clone();
    for i in 0..8_000 {
        db.get(format!("{i:06}")).unwrap();
    }
    let reads = db.stats().reads.levels[deepest].clone();
    assert_eq!(AllFilters::of(&before).checks, 0);
    assert!(reads.filter_checks > 7_000 && reads.table_filter_checks == 0);
}

#[test]
fn a_moved_table_keeps_its_filter() {
    let dir = tempfile::tempdir().unwrap();
    let options = (1..7).fold(small().filters(Filters::Both(10)), |options, level| {
        options.filters_at_level(level, Filters::None)
    });
    let db = Db::open(dir.path(), options.write_buffer_bytes(16 << 10)).unwrap();
    for i in 0..3_000 {
        db.put(format!("{i:06}"), format!("{i:030}")).unwrap();
    }
    db.wait_idle().unwrap();
    let levels = db.stats().levels;
    assert!(levels[1..].iter().any(|level| level.moves > 0), "{levels:?}");
    (0..3_000).for_each(|i| assert!(db.get(format!("{i:06}")).unwrap().is_some()));
    let below = db.stats().reads.levels[1..].iter().fold(0, |n, l| n + l.table_filter_checks);
    assert!(below > 0, "tables came below with their filters");
}

/// A filter policy other than LevelDB's.
#[derive(Debug)]
struct Custom(BloomFilterPolicy);

impl FilterPolicy for Custom {
    fn name(&self) -> &str {
        "test.Custom"
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.0.create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match(key, filter)
    }

    fn generator(&self) -> Box<dyn minikv::FilterGenerator> {
        self.0.generator()
    }
}

#[test]
fn a_custom_policy_makes_the_block_filters_of_every_level() {
    let custom = || Custom(BloomFilterPolicy::new(10));
    let dir = tempfile::tempdir().unwrap();
    let options = small().filter_policy(custom()).filters_at_level(0, Filters::Block(16));
    fill(dir.path(), options).close().unwrap();
    // Every table has a filter of the custom policy, which LevelDB's policy ignores.
    let with_custom = |filters| small().filter_policy(custom()).filters(filters);
    for (options, known) in [
        (with_custom(Filters::Block(10)), true),
        (with_custom(Filters::Table(10)), true),
        (with_custom(Filters::None), false),
        (small(), false),
    ] {
        let db = Db::open_read_only(dir.path(), options).unwrap();
        for i in 0..1_000 {
            db.get(format!("{i:06}")).unwrap();
        }
        let reads = db.stats().reads;
        assert_eq!(reads.levels[0].filter_checks > 0, known);
        assert_eq!(reads.levels[1..].iter().any(|level| level.filter_checks > 0), known);
    }
}

#[test]
fn filters_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for options in [
        small().filters(Filters::Table(0)),
        small().filters(Filters::Block(65)),
        small().filters_at_level(0, Filters::Both(0)),
        small().filters_at_level(7, Filters::Block(10)),
    ] {
        let error = Db::open(dir.path(), options).unwrap_err().to_string();
        assert!(error.contains("bits per key") || error.contains("for level 7"), "{error}");
    }
    Db::open(dir.path(), small().filters(Filters::None)).unwrap();
}

/// Returns a database with keys of forty prefixes and some keys without a prefix, over several
/// levels, and its expected entries.
fn fill_prefixes(dir: &Path, options: Options) -> (Db, BTreeMap<Vec<u8>, Vec<u8>>) {
    let db = Db::open(dir, options).unwrap();
    let mut model = BTreeMap::new();
    let seed = seed();
    println!("MINIKV_SEED={seed}");
    let mut rng = Rng::new(seed);
    for round in 0..6 {
        for _ in 0..400 {
            let key = match rng.below(9) {
                0 => format!("{:02}", rng.below(40)),
                // Each round leaves some prefixes out, so that filters can exclude the tables of
                // that round.
                _ => format!("{:02}/{:03}", rng.below(8) * 5 + round % 5, rng.below(60)),
            };
            if rng.one_in(6) {
                db.delete(&key).unwrap();
                model.remove(key.as_bytes());
            } else {
                // Long values, so that the keys of one prefix fill several tables.
                let value = format!("{round:0500}");
                db.put(&key, &value).unwrap();
                model.insert(key.into_bytes(), value.into_bytes());
            }
        }
        db.flush().unwrap();
        if round == 2 {
            db.compact_range(..).unwrap();
        }
    }
    (db, model)
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(iter: impl Iterator<Item = minikv::Result<(bytes::Bytes, bytes::Bytes)>>) -> Entries {
    iter.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

#[test]
fn scans_of_a_prefix_leave_tables_out_and_miss_nothing() {
    for filters in [Filters::Block(16), Filters::Table(16)] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().filters(filters).filter_prefix(DelimitedPrefix::new(b'/'));
        // Deterministic background work makes the same tables each time.
        let (db, model) = fill_prefixes(dir.path(), options.inline_background(Some(1)));
        let unfiltered = ReadOptions::default().use_filter(false);
        let mut prefixes: Vec<String> = (0..45).map(|i| format!("{i:02}/")).collect();
        prefixes.extend((0..45).map(|i| format!("{i:02}/0")));
        prefixes.extend(["", "0", "07", "1"].map(String::from));
        for prefix in &prefixes {
            let wanted: Entries = model
                .iter()
                .filter(|(key, _)| key.starts_with(prefix.as_bytes()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(entries(db.prefix(prefix).unwrap()), wanted, "{prefix}");
            let mut backward = entries(db.prefix(prefix).unwrap().rev());
            backward.reverse();
            assert_eq!(backward, wanted, "{prefix}");
            let before = db.stats().reads.total().prefix_filter_checks;
            assert_eq!(entries(db.reading(unfiltered).prefix(prefix).unwrap()), wanted);
            assert_eq!(db.stats().reads.total().prefix_filter_checks, before);
        }
        let reads = db.stats().reads.total();
        assert!(reads.prefix_filter_negatives > 100, "{reads:?}");
        assert!(reads.prefix_filter_checks > reads.prefix_filter_negatives);

        // A scan of a prefix that is in no table searches no index and reads no block.
        let before = db.stats().reads.total();
        assert_eq!(db.prefix("17x/").unwrap().count(), 0);
        let after = db.stats().reads.total();
        assert_eq!(after.index_seeks, before.index_seeks);
        assert_eq!(after.data_blocks(), before.data_blocks());
    }
}

#[test]
fn ranges_within_a_prefix_leave_tables_out_and_miss_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (db, model) = fill_prefixes(dir.path(), small().filter_prefix(FixedPrefix::new(3)));
    let mut rng = Rng::new(seed());
    let key = |rng: &mut Rng, prefix| match rng.below(4) {
        0 => format!("{prefix:02}/"),
        1 => format!("{prefix:02}0"),
        2 => format!("{:02}", rng.below(40)),
        _ => format!("{prefix:02}/{:03}", rng.below(60)),
    };
    for _ in 0..2_000 {
        let prefix = rng.below(42);
        let (a, b) = (key(&mut rng, prefix).into_bytes(), key(&mut rng, prefix).into_bytes());
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        let lower = if rng.one_in(4) { Bound::Excluded(&from) } else { Bound::Included(&from) };
        let upper = if rng.one_in(2) { Bound::Excluded(&to) } else { Bound::Included(&to) };
        let is_empty = from == to
            && (matches!(lower, Bound::Excluded(_)) || matches!(upper, Bound::Excluded(_)));
        let wanted: Entries = match is_empty {
            true => Vec::new(),
            false => model
                .range::<Vec<u8>, _>((lower, upper))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        };
        assert_eq!(entries(db.range((lower, upper))), wanted, "{lower:?} {upper:?}");
        let mut both_ends = db.range((lower, upper));
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            let from_front = rng.one_in(2);
            let entry = if from_front { both_ends.next() } else { both_ends.next_back() };
            let Some(entry) = entry else { break };
            let (key, value) = entry.unwrap();
            let side = if from_front { &mut front } else { &mut back };
            side.push((key.to_vec(), value.to_vec()));
        }
        front.extend(back.into_iter().rev());
        assert_eq!(front, wanted, "{lower:?} {upper:?}");
    }
    let total = db.stats().reads.total();
    assert!(total.prefix_filter_negatives > 100, "{total:?}");
}

#[test]
fn levels_without_filters_have_no_prefix_filters() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().filters(Filters::None).filter_prefix(FixedPrefix::new(2));
    let (db, model) = fill_prefixes(dir.path(), options);
    assert_eq!(
        db.prefix("01").unwrap().count(),
        model.range(b"01".to_vec()..b"02".to_vec()).count()
    );
    assert_eq!(db.stats().reads.total().prefix_filter_checks, 0);
}
