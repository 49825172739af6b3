//! Advice on filters from the lookups that a database has served.

use minikv::{Db, Error, Filters, IndexedDbComparator, Options, ReadSample, Readable};
use minikv_instrument::advice::Sureness;
use minikv_instrument::advise;
use serde_json::json;

fn unsampled() -> Options {
    Options::default()
        .create_if_missing(true)
        .write_buffer_bytes(64 << 10)
        .max_file_bytes(16 << 10)
        .block_bytes(512)
}

fn small() -> Options {
    unsampled().sample_reads(&ReadSample::new())
}

fn key(i: u32) -> String {
    format!("key{i:05}")
}

/// Makes overlapping tables in level 0, so that without filters every get reads several blocks.
fn filled(dir: &std::path::Path, options: Options) -> Db {
    let db = Db::open(dir, options.write_buffer_bytes(4 << 20)).unwrap();
    for round in 0..3 {
        for i in (round..6000).step_by(3) {
            db.put(key(i), "a value of some length").unwrap();
        }
        db.flush().unwrap();
    }
    db
}

#[test]
fn absent_keys_want_filters_and_the_figures_are_those_of_the_gets() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path(), small().filters(Filters::Block(10)));
    let mut blocks = 0;
    // The first thousand gets are all sampled.
    for i in 0..900 {
        let (value, trace) = db.get_traced(format!("{}/absent", key(i * 6))).unwrap();
        assert_eq!(value, None);
        blocks += trace.data_blocks();
    }
    let before = db.stats();
    let advice = advise(&db).unwrap();
    assert_eq!((advice.gets, advice.sampled, advice.absent, advice.in_memory), (900, 900, 900, 0));
    // The sampled gets, replayed on the tables, read as many blocks as the real gets did.
    assert_eq!((advice.now.blocks_per_get * 900.0).round() as u64, blocks);
    assert_eq!(advice.now.filter_bytes, filter_bytes(&db));
    assert_eq!(advice.tables_read, (3, 3));
    assert!(advice.blocks_per_get > 2.9, "without filters: {}", advice.blocks_per_get);
    assert_ne!(advice.filters, Filters::None);
    assert_eq!(advice.sureness, Sureness::Sure);
    let (smallest, largest) = (&advice.tried[0], &advice.tried[5]);
    assert!(smallest.saving.saved < largest.saving.saved);
    assert!(smallest.saving.filter_bytes < largest.saving.filter_bytes);
    assert!(advice.nanos_per_block > 0.0 && largest.probe_nanos > 0.0);
    let same = advice.tried.iter().find(|tried| tried.filters == Filters::Block(10));
    assert_eq!(same.unwrap().saving, advice.now, "the same filters, made again");
    // Asking for advice does not count as a lookup.
    let after = db.stats();
    assert_eq!((after.gets, after.reads), (before.gets, before.reads));
    let text = advice.to_string();
    assert!(text.contains("900 of 900 gets replayed: 900 found nothing"), "{text}");
    assert!(text.contains("Confident for lookups like these"), "{text}");
}

#[test]
fn filters_of_every_kind_report_the_memory_they_take() {
    for filters in [Filters::Table(10), Filters::Both(10)] {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), small().filters(filters));
        (0..200).for_each(|i| assert!(db.get(format!("{}/absent", key(i * 9))).unwrap().is_none()));
        let advice = advise(&db).unwrap();
        assert_eq!(advice.now.filter_bytes, filter_bytes(&db), "{filters:?}");
    }
}

/// Returns the memory that filters take, in bytes: the pinned memory of `db`, minus the pinned
/// memory of the same tables opened without filters, which is the memory of the indexes alone.
fn filter_bytes(db: &Db) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let bare = filled(dir.path(), small().filters(Filters::None));
    for i in 0..3 {
        bare.get(key(i)).unwrap();
    }
    assert_eq!((bare.stats().open_tables, db.stats().open_tables), (3, 3));
    db.stats().pinned_bytes - bare.stats().pinned_bytes
}

#[test]
fn hits_in_one_table_want_none() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path(), small());
    db.compact_range(..).unwrap();
    for i in 0..6000 {
        assert!(db.get(key(i)).unwrap().is_some());
    }
    let advice = advise(&db).unwrap();
    assert_eq!(advice.filters, Filters::None);
    assert_eq!((advice.sureness, advice.absent), (Sureness::Sure, 0));
    assert_eq!(advice.blocks_per_get, 1.0);
    assert!(advice.sampled == 6000, "{}", advice.sampled);
    assert!(advice.to_string().contains("turn filters off"));
}

#[test]
fn gets_that_memtables_answer_want_no_filter() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(advise(&db).unwrap().sureness, Sureness::TooFew);
    for i in 0..500 {
        db.put(key(i), "v").unwrap();
        db.get(key(i)).unwrap();
    }
    let advice = advise(&db).unwrap();
    assert_eq!((advice.sampled, advice.in_memory), (500, 500));
    assert_eq!((advice.filters, advice.blocks_per_get), (Filters::None, 0.0));
}

/// Checks that a read-only database also gives advice, based on the lookups that it has served.
#[test]
fn a_database_opened_for_reading_only_advises() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path(), small()));
    let db = Db::open_read_only(dir.path(), small()).unwrap();
    (0..500).for_each(|i| assert!(db.get(format!("{}x", key(i))).unwrap().is_none()));
    assert_ne!(advise(&db).unwrap().filters, Filters::None);
}

#[test]
fn no_advice_is_given_to_a_comparator_that_cannot_use_filters() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().comparator(IndexedDbComparator)).unwrap();
    let error = advise(&db).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    assert!(error.to_string().contains("idb_cmp1"));
}

#[test]
fn without_a_sample_there_is_no_advice() {
    let dir = tempfile::tempdir().unwrap();
    let error = advise(&Db::open(dir.path(), unsampled()).unwrap()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
}

#[test]
fn scans_without_a_key_count_as_savings_of_a_range_filter() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().filter_prefix(minikv::FixedPrefix::new(4)).write_buffer_bytes(4 << 20);
    let db = Db::open(dir.path(), options).unwrap();
    assert!(advise(&db).unwrap().scans.is_none());
    // The first table holds every second group of ten numbers; the second table holds the multiples
    // of a hundred.
    for i in (0..10_000).filter(|i| i / 10 % 2 == 0) {
        db.put(format!("{i:05}"), "v").unwrap();
    }
    db.flush().unwrap();
    for i in (0..10_000).step_by(100) {
        db.put(format!("{i:05}"), "v").unwrap();
    }
    db.put("09999", "the last key is in both tables").unwrap();
    db.flush().unwrap();
    for group in 10..110 {
        let found = db.prefix(format!("{group:04}")).unwrap().count();
        assert_eq!(found, if group % 2 == 0 { 10 } else { 0 });
    }
    let advice = advise(&db).unwrap();
    let scans = advice.scans.as_ref().unwrap();
    assert_eq!((scans.scans, scans.sampled, scans.pairs), (100, 100, 200));
    // Of the groups scanned, half have no key in the first table, and nine in ten have no key in
    // the second table.
    assert_eq!((scans.empty, scans.saved_by_prefix), (50 + 90, Some(50 + 90)));
    // The ranges have no mean length, because some bounds are not numbers: the upper bound of the
    // prefix "0019" is "001:".
    assert_eq!(scans.mean_range, None);
    assert!(advice.to_string().contains("140 of them (70.0 %) without a key"), "{advice}");
    // In the second table, the prefix of each range occurs, but no key of the range does.
    for i in 10..110 {
        db.range(format!("{:05}", i * 100 + 5)..format!("{:05}", i * 100 + 7)).count();
    }
    let scans = advise(&db).unwrap().scans.unwrap();
    assert!(scans.empty > scans.saved_by_prefix.unwrap() + 50, "{scans:?}");
}

#[test]
fn bounds_of_scans_and_ends_of_tables_meet() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    (10..=20).for_each(|i| db.put(format!("{i}"), "v").unwrap());
    db.flush().unwrap();
    // These ranges are outside of the table, as the first and last keys of the table show.
    db.range("01".."05").count();
    db.range("21"..="30").count();
    let scans = advise(&db).unwrap().scans.unwrap();
    assert_eq!((scans.pairs, scans.empty), (0, 0));
    assert_eq!(db.range("05".."10").count(), 0);
    assert_eq!(db.range("111".."12").count(), 0);
    let scans = advise(&db).unwrap().scans.unwrap();
    assert_eq!((scans.pairs, scans.empty), (2, 2));
    // Each range holds exactly one key.
    for (from, to) in [("05", "10"), ("20", "30"), ("12", "12"), ("111", "12")] {
        assert_eq!(db.range(from..=to).count(), 1);
    }
    let scans = advise(&db).unwrap().scans.unwrap();
    assert_eq!((scans.scans, scans.pairs, scans.empty), (8, 6, 2));
}

#[test]
fn advice_is_serialized_with_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("apple", "red").unwrap();
    db.put("banana", "yellow").unwrap();
    db.flush().unwrap();
    db.get("avocado").unwrap();
    let advice = serde_json::to_value(advise(&db).unwrap()).unwrap();
    assert_eq!((&advice["gets"], &advice["sureness"]), (&json!(1), &json!("too few lookups")));
    assert_eq!(advice["tables_read"], json!([1, 1]));
    let tried = &advice["tried"][0];
    assert_eq!((&tried["layout"], &tried["bits_per_key"]), (&json!("block"), &json!(4)));
    let saving = tried["saving"].as_object().unwrap();
    assert_eq!(
        saving.keys().collect::<Vec<_>>(),
        ["blocks_per_get", "blocks_saved_per_get", "filter_bytes", "interval_95_percent"]
    );
}
