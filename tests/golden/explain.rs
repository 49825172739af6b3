//! Explanations of gets in databases of C++ LevelDB, goleveldb and Chromium, opened read-only.

use minikv::explain::{FilterState, FilterUse, Step, Verdict};
use minikv::{Db, Filters, Options, ReadOnlyDb, Readable};

use crate::databases::{CASES, Copy, Expected, in_tsv};
use crate::recount;

fn open(case: &str, options: Options) -> (Copy, ReadOnlyDb) {
    let copy = Copy::of(case);
    let db = Db::open_read_only(&copy.db, options).unwrap();
    (copy, db)
}

/// Explains gets of every key and of keys that nearly match, with filters and without. Checks that
/// the counters are the sums of the steps, that no filter hides a key, and that with filters fewer
/// blocks are read.
#[test]
fn explanations_add_up_in_every_database() {
    let mut verdicts = 0;
    for case in CASES {
        for policy in [Options::default(), Options::default().filters(Filters::None)] {
            let (_copy, db) = open(case, policy.block_cache_bytes(64 << 10));
            let expected = Expected::read(case);
            let misses = expected.entries.keys().map(|key| [&key[..], b"!"].concat());
            let misses = misses.chain(expected.absent_keys.iter().cloned());
            let keys = expected.entries.keys().cloned().chain(misses);
            for key in keys {
                let told = db.explain(&key).unwrap();
                recount::check(&told);
                let value = told.value.as_deref().map(in_tsv);
                assert_eq!(value.as_ref(), expected.entries.get(&key), "{case}: {told}");
                for step in &told.steps {
                    if let Step::BlockFilter(said) = step {
                        verdicts += 1;
                        let lied =
                            matches!(said, Verdict::FalseNegative | Verdict::UnknownNegative);
                        assert!(!lied, "{case}: {told}");
                    }
                }
                let unfiltered = told.unfiltered.as_ref().unwrap();
                let saved = unfiltered.data_blocks() - told.trace.data_blocks();
                assert_eq!(saved, told.trace.total().filter_negatives, "{case}: {told}");
            }
        }
    }
    assert!(verdicts > 10_000, "{verdicts}");
}

#[test]
fn a_database_without_filters_is_told_to_have_none() {
    for case in ["leveldb-cpp/03-nocompress-nofilter", "goleveldb/03-nocompress-nofilter"] {
        let (_copy, db) = open(case, Options::default());
        let key = Expected::read(case).entries.into_keys().nth(3).unwrap();
        let told = db.explain(&key).unwrap();
        assert_eq!(told.filters, FilterUse::NoneInTables);
        assert!(
            told.to_string().contains("none queried: no table that was searched has one"),
            "{told}"
        );
        let table = told.steps.iter().find_map(|step| match step {
            Step::Table { filter, .. } => Some(*filter),
            _ => None,
        });
        assert_eq!(table, Some(FilterState::Missing));
    }
    let case = "leveldb-cpp/02-flushed-bloom10-snappy";
    let (_copy, db) = open(case, Options::default().filters(Filters::None));
    let key = Expected::read(case).entries.into_keys().next().unwrap();
    assert_eq!(db.explain(&key).unwrap().filters, FilterUse::NoPolicy);
}

/// Checks the exact text of an explanation.
#[test]
fn a_get_through_three_levels_of_leveldb_reads_like_this() {
    let (_copy, db) = open("leveldb-cpp/04-levels", Options::default());
    assert_eq!(
        db.explain("k00026").unwrap().to_string(),
        r#"get               "k00026" as of sequence 13400
memtable          not here
level 0: 000039   "k00019" .. "k04394", 4.0 KiB
  index           up to "k03091": block at 0, 2517 B
  block filter    said "not here" (correct): block skipped
level 0           3 tables skipped: the key is not in range
level 1           1 table skipped: the key is not in range
level 2: 000029   "k00000" .. "k03999", 73.0 KiB
  index           up to "k00110": block at 0, 1898 B
  block filter    said "maybe" (correct): the key is there
  block           at 0, 1903 B from the file, 4103 B decompressed, checksum correct
  entry           put at sequence 6443, 41 B
answer            a value of 41 B
this get          2 tables, 1 data block (0 from the cache), 1.9 KiB read
filters           2 filters queried: 1 "not here", 1 "maybe" correctly, 0 wrongly
without filters   2 tables, 2 data blocks (0 from the cache), 4.3 KiB read
filters saved     1 of 2 data blocks"#
    );
}
