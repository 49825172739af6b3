//! Tombstones that slow scans down, and the background compactions that remove such tombstones.

use minikv::fs::SimFs;
use minikv::{Db, Options, Readable};

use super::small;

const ENTRIES: u32 = 40_000;
const DELETED: u32 = 20_000;

/// Maximum number of blocks that a scan may read after the compactions. A scan over all tombstones
/// reads 550 blocks. Compactions may leave runs of up to 1,024 tombstones, and a last table, of up
/// to twice the usual size, that is too small for a compaction.
const FEW_BLOCKS: u64 = 100;

fn key(number: u32) -> String {
    format!("{number:08}")
}

/// Puts all entries into one level, deletes the first half of them, and flushes the tombstones.
fn half_deleted(db: &Db) {
    (0..ENTRIES).for_each(|i| db.put(key(i), "a value of some length").unwrap());
    db.compact_range(..).unwrap();
    (0..DELETED).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
}

/// Returns the number of data blocks that a cursor reads to reach the first entry.
fn blocks_to_first(db: &Db) -> u64 {
    let before = db.stats().reads.total().data_blocks();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.key(), key(DELETED).as_bytes());
    drop(cursor);
    db.stats().reads.total().data_blocks() - before
}

fn blocks_to_last(db: &Db) -> u64 {
    let before = db.stats().reads.total().data_blocks();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_for_prev(key(DELETED - 1)).is_ok_and(|valid| !valid));
    drop(cursor);
    db.stats().reads.total().data_blocks() - before
}

fn compactions(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.compactions + level.moves).sum()
}

#[test]
fn a_scan_over_a_deleted_range_reads_a_few_blocks_once_the_background_is_at_rest() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    half_deleted(&db);
    db.wait_idle().unwrap();
    let (first, last) = (blocks_to_first(&db), blocks_to_last(&db));
    assert!(first < FEW_BLOCKS && last < FEW_BLOCKS, "{first}, {last} blocks");
    assert_eq!(db.iter().count() as u32, ENTRIES - DELETED);
}

/// Makes a database whose first half consists of tombstones. The next open does not notice them.
fn with_forgotten_tombstones(options: Options) {
    let db = Db::open("db", options).unwrap();
    (0..ENTRIES).for_each(|i| db.put(key(i), "value").unwrap());
    db.compact_range(..).unwrap();
    let snapshot = db.snapshot();
    (0..DELETED).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    // Dropping the snapshot does not make background work check the tables again.
    drop(snapshot);
    db.close().unwrap();
}

#[test]
fn tables_that_were_there_before_are_compacted_after_a_scan_crawled_over_them() {
    for backward in [false, true] {
        let fs = SimFs::new(1);
        let quiet = || small().fs(fs.clone()).inline_background(Some(1));
        with_forgotten_tombstones(quiet());
        let db = Db::open("db", quiet()).unwrap();
        db.wait_idle().unwrap();
        let scan = if backward { blocks_to_last } else { blocks_to_first };
        assert!(scan(&db) > 2 * FEW_BLOCKS, "nobody knows of them");
        db.wait_idle().unwrap();
        assert!(scan(&db) < FEW_BLOCKS);
        assert_eq!(db.iter().count() as u32, ENTRIES - DELETED);
    }
}

#[test]
fn a_crawl_is_enough_to_wake_the_background() {
    for backward in [false, true] {
        let fs = SimFs::new(1);
        let options = small().fs(fs);
        with_forgotten_tombstones(options.clone().inline_background(Some(1)));
        let db = Db::open("db", options).unwrap();
        db.wait_idle().unwrap();
        let before = compactions(&db);
        let scan = if backward { blocks_to_last } else { blocks_to_first };
        scan(&db);
        let start = std::time::Instant::now();
        while compactions(&db) == before {
            assert!(start.elapsed().as_secs() < 10, "the background sleeps");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn tombstones_that_a_snapshot_holds_are_left_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    (0..ENTRIES).for_each(|i| db.put(key(i), "value").unwrap());
    db.compact_range(..).unwrap();
    let snapshot = db.snapshot();
    (0..DELETED).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    // Level 0 may have been compacted because of its number of tables, but repeated scans must not
    // cause further compactions.
    blocks_to_first(&db);
    db.wait_idle().unwrap();
    let before = compactions(&db);
    for _ in 0..5 {
        assert!(blocks_to_first(&db) > 2 * FEW_BLOCKS);
        db.wait_idle().unwrap();
    }
    assert_eq!(compactions(&db), before);
    assert_eq!(snapshot.iter().count() as u32, ENTRIES);
    drop(snapshot);
    blocks_to_first(&db);
    db.wait_idle().unwrap();
    assert!(blocks_to_first(&db) < FEW_BLOCKS);
    assert_eq!(db.iter().count() as u32, ENTRIES - DELETED);
}

#[test]
fn a_level_of_tombstones_and_nothing_else_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    (0..DELETED).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let left: u64 = db.stats().levels.iter().map(|level| level.bytes).sum();
    assert!(left < 5_000, "{left} bytes: more than the last table");
}

#[test]
fn deletes_all_over_the_keys_wait_for_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), options).unwrap();
    (0..10 * DELETED).for_each(|i| db.put(key(i), "value").unwrap());
    db.compact_range(..).unwrap();
    let before = compactions(&db);
    (0..DELETED).for_each(|i| db.delete(key(10 * i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(compactions(&db), before, "a tenth of the entries is not worth writing all anew");
}
