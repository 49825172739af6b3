//! Consistency of reads while writes, flushes and compactions are running.

use std::cell::RefCell;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use minikv::fs::MemFs;
use minikv::fs::sim::{Fault, OpKind, SimFs};
use minikv::{Cursor, Db, Error, Iter, Options, ReadSample, Readable, WriteBatch};

use crate::{disk_bytes, small};

fn keys(iter: Iter) -> Vec<String> {
    iter.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

fn letters(db: &Db) {
    for key in ["a", "b", "ba", "bb", "bb\u{7f}", "c", "d"] {
        db.put(key, key).unwrap();
    }
}

#[test]
fn only_scans_that_the_program_asked_for_are_sampled() {
    let sample = ReadSample::new();
    let db = Db::open("/db", small().fs(MemFs::new()).sample_reads(&sample)).unwrap();
    letters(&db);
    assert_eq!(db.delete_range("b".."c").unwrap().keys, 4);
    assert_eq!((sample.scans(), sample.ranges()), (0, Vec::new()));
    assert_eq!(keys(db.range("a".."d")), ["a", "c"]);
    assert_eq!(keys(db.prefix("c").unwrap()), ["c"]);
    assert_eq!((sample.scans(), sample.ranges().len()), (2, 2));
}

#[test]
fn ranges_and_prefixes_end_at_their_bounds_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    letters(&db);
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        let both = |make: &dyn Fn() -> Iter, expected: &[&str]| {
            assert_eq!(keys(make()), expected);
            let mut back: Vec<_> = make().rev().map(|entry| entry.unwrap().0).collect();
            back.reverse();
            assert!(back.iter().map(|key| &key[..]).eq(expected.iter().map(|key| key.as_bytes())));
        };
        both(&|| db.range("b".."c"), &["b", "ba", "bb", "bb\u{7f}"]);
        both(&|| db.range("b"..="c"), &["b", "ba", "bb", "bb\u{7f}", "c"]);
        both(&|| db.range("bc"..), &["c", "d"]);
        both(&|| db.range(.."b"), &["a"]);
        both(&|| db.range((Bound::Excluded("b"), Bound::Included("bb"))), &["ba", "bb"]);
        both(&|| db.range("x".."a"), &[]);
        both(&|| db.prefix("bb").unwrap(), &["bb", "bb\u{7f}"]);
        both(&|| db.prefix("").unwrap(), &["a", "b", "ba", "bb", "bb\u{7f}", "c", "d"]);
        both(&|| db.prefix("e").unwrap(), &[]);
    }
    db.put([0xff, 0xff], "end").unwrap();
    assert_eq!(db.prefix([0xff]).unwrap().count(), 1);
}

#[test]
fn an_iterator_moved_from_both_ends_gives_each_entry_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    letters(&db);
    let mut iter = db.iter();
    let mut seen = Vec::new();
    for step in 0..10 {
        let entry = if step % 3 == 0 { iter.next_back() } else { iter.next() };
        seen.extend(entry.map(|entry| entry.unwrap().0));
    }
    seen.sort();
    assert_eq!(seen.len(), 7);
    seen.dedup();
    assert_eq!(seen.len(), 7);
    assert!(iter.next().is_none() && iter.next_back().is_none());
}

#[test]
fn a_cursor_turns_round_anywhere_while_writes_land() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..100 {
        db.put(format!("{i:03}"), "old").unwrap();
    }
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek("050").unwrap());
    db.put("049", "new").unwrap();
    db.put("050", "new").unwrap();
    db.put("0495", "new").unwrap();
    db.delete("048").unwrap();
    for expected in ["049", "048", "047"] {
        assert!(cursor.prev().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (expected.as_bytes(), &b"old"[..]));
    }
    for expected in ["048", "049", "050", "051"] {
        assert!(cursor.next().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (expected.as_bytes(), &b"old"[..]));
    }
    assert!(cursor.seek_for_prev("0494").unwrap());
    assert_eq!(cursor.key(), b"049");
    assert!(cursor.seek_for_prev("049").unwrap());
    assert_eq!(cursor.key(), b"049");
    assert!(!cursor.seek_for_prev("").unwrap());
    assert!(!cursor.valid() && !cursor.next().unwrap());
}

#[test]
fn a_snapshot_outlives_compactions_and_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let fill = |round: u32| {
        for i in 0..2000 {
            db.put(format!("{i:04}"), format!("{round}")).unwrap();
        }
    };
    fill(1);
    let first = db.snapshot();
    fill(2);
    db.delete("0007").unwrap();
    let second = db.snapshot();
    fill(3);
    db.compact_range(..).unwrap();
    let at = |snapshot: &minikv::Snapshot| snapshot.get("0007").unwrap();
    assert_eq!(at(&first).as_deref(), Some(&b"1"[..]));
    assert_eq!(at(&second), None);
    assert_eq!(db.get("0007").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(first.iter().count(), 2000);
    assert_eq!(second.iter().rev().count(), 1999);
    drop(first);
    drop(second);
    let with_snapshots = disk_bytes(dir.path());
    db.compact_range(..).unwrap();
    assert!(disk_bytes(dir.path()) < with_snapshots, "dropped versions give their space back");
    let last = db.snapshot();
    drop(db);
    let read = std::thread::spawn(move || last.get("1999").unwrap());
    assert_eq!(read.join().unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn files_stay_while_a_cursor_needs_them_and_go_when_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..5000 {
        db.put(format!("{i:05}"), "x".repeat(20)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    let batch_of_deletes = (0..5000).fold(WriteBatch::new(), |mut batch, i| {
        batch.delete(format!("{i:05}"));
        batch
    });
    db.write(batch_of_deletes).unwrap();
    db.compact_range(..).unwrap();
    let tables = || {
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(".ldb")).count()
    };
    assert!(tables() > 0);
    let mut seen = 1;
    while cursor.next().unwrap() {
        seen += 1;
    }
    assert_eq!(seen, 5000);
    drop(cursor);
    // A background compaction that has just ended may hold its inputs for a moment.
    let deadline = Instant::now() + Duration::from_secs(10);
    while tables() > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(tables(), 0);
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn many_gets_are_one_moment_in_the_order_asked() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    letters(&db);
    let values = db.multi_get(&["d", "x", "a", "d"]).unwrap();
    let values: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
    assert_eq!(values, [Some(&b"d"[..]), None, Some(b"a"), Some(b"d")]);
    assert!(db.contains_key("bb").unwrap() && !db.contains_key("bc").unwrap());
}

#[test]
fn a_read_only_open_sees_the_log_beside_a_writer_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..3000 {
        db.put(format!("{i:04}"), format!("{i}")).unwrap();
    }
    db.wait_idle().unwrap();
    let listing = || {
        let mut files: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            // On Windows, nobody can read the file of a lock that is held.
            .map(|entry| (entry.file_name(), fs::read(entry.path()).ok()))
            .collect();
        files.sort();
        files
    };
    // A background thread may still be creating the next, empty log, and `wait_idle` does not wait
    // for that.
    let mut before = listing();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = listing();
        if now == before {
            break;
        }
        before = now;
    }
    let read = Db::open_read_only(dir.path(), small()).unwrap();
    assert_eq!(read.iter().count(), 3000);
    assert!(read.property("leveldb.num-files-at-level0").is_some());
    assert!(listing() == before, "a file changed");
    for i in 0..3000 {
        db.delete(format!("{i:04}")).unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!(read.iter().count(), 3000, "the view is that of its moment");
    assert_eq!(Db::open_read_only(dir.path(), small()).unwrap().iter().count(), 0);
}

#[test]
fn sizes_and_properties_match_the_contents() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().compression(minikv::Compression::None)).unwrap();
    for i in 0..10_000 {
        db.put(format!("{i:05}"), "x".repeat(90)).unwrap();
    }
    db.compact_range(..).unwrap();
    assert!(db.get("00000").unwrap().is_some());
    let all = db.approximate_size(..).unwrap();
    let half = db.approximate_size("05000"..).unwrap();
    assert!(all > 900_000 && half * 10 > all * 4 && half * 10 < all * 6, "{half} of {all}");
    assert!(db.approximate_size("05000".."05010").unwrap() < all / 100);
    let files: u64 = (0..7)
        .map(|level| db.property(&format!("leveldb.num-files-at-level{level}")).unwrap())
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!(files, db.stats().levels.iter().map(|level| level.files).sum::<u64>());
    // Level 0 is empty now, but the time of the flushes is counted there.
    let table = db.property("leveldb.stats").unwrap();
    let levels: Vec<_> = table.lines().skip(3).map(|line| line.as_bytes()[2]).collect();
    assert!(table.contains("Compactions") && levels.starts_with(b"0") && levels.len() < 7);
    assert!(db.property("leveldb.sstables").unwrap().contains("--- level 6 ---"));
    let stats = db.stats();
    let memory = stats.memtable_bytes + stats.block_cache_bytes + stats.pinned_bytes;
    assert!(stats.block_cache_bytes > 0 && stats.pinned_bytes > 0);
    assert!(stats.flushes > 1 && stats.flush_bytes > 900_000 && !stats.flush_time.is_zero());
    assert_eq!(db.property("leveldb.approximate-memory-usage").unwrap(), memory.to_string());
    assert_eq!(db.property("leveldb.num-files-at-level7"), None);
    assert_eq!(db.property("leveldb.nonsense"), None);
}

#[test]
fn values_larger_than_a_shard_of_the_cache_are_read_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).block_cache_bytes(8 << 20);
    let db = Db::open(dir.path(), options).unwrap();
    let value = |byte: u8| vec![byte; 3_000_000];
    ["a", "b"].iter().for_each(|key| db.put(key, value(key.as_bytes()[0])).unwrap());
    db.compact_range(..).unwrap();
    let before = db.stats().block_cache_hits;
    for turn in 0..100 {
        let key = ["a", "b"][turn % 2];
        assert_eq!(db.get(key).unwrap().unwrap().len(), 3_000_000);
    }
    let hits = db.stats().block_cache_hits - before;
    assert!(hits >= 98, "{hits} of 100");
    assert!(db.stats().block_cache_bytes <= 8 << 20);
}

#[test]
fn a_prefix_is_continued_from_any_key_up_to_its_end() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), crate::small()).unwrap();
    assert!(db.is_empty().unwrap() && db.last_key_value().unwrap().is_none());
    for key in ["a", "b", "b/1", "b/2", "b/3", "c"] {
        db.put(key, key).unwrap();
    }
    let keys = |from: std::ops::Bound<&str>| {
        let entries = db.prefix_from("b/", from).unwrap();
        let forward: Vec<_> = entries.map(|entry| entry.unwrap().0).collect();
        let backward = db.prefix_from("b/", from).unwrap().rev();
        let mut backward: Vec<_> = backward.map(|entry| entry.unwrap().0).collect();
        backward.reverse();
        assert_eq!(forward, backward, "{from:?}");
        forward
    };
    for in_tables in [false, true] {
        assert_eq!(keys(Unbounded), ["b/1", "b/2", "b/3"]);
        assert_eq!(keys(Included("b/2")), ["b/2", "b/3"]);
        assert_eq!(keys(Excluded("b/2")), ["b/3"]);
        assert_eq!(keys(Excluded("b/2/")), ["b/3"]);
        for before in ["", "a", "b", "b/"] {
            assert_eq!(keys(Included(before)).len(), 3, "{before}");
            assert_eq!(keys(Excluded(before)).len(), 3, "{before}");
        }
        for past in ["b/4", "b0", "c", "z"] {
            assert!(keys(Included(past)).is_empty(), "{past}");
        }
        assert_eq!(db.first_key_value().unwrap().unwrap().0, "a");
        assert_eq!(db.last_key_value().unwrap().unwrap(), ("c".into(), "c".into()));
        assert!(!db.is_empty().unwrap());
        assert_eq!(db.path(), dir.path());
        if !in_tables {
            db.compact_range(..).unwrap();
        }
    }
}

/// A thread-local value that reads the database when its thread ends, and reports whether the read
/// succeeded.
struct ReadsLast(RefCell<Option<(Db, mpsc::Sender<bool>)>>);

impl Drop for ReadsLast {
    fn drop(&mut self) {
        let Some((db, went_well)) = self.0.take() else { return };
        // A panic in the destructor of a thread-local value would end the process.
        let reads = AssertUnwindSafe(|| (db.get("c").unwrap(), keys(db.iter()).len()));
        let read = catch_unwind(reads);
        went_well.send(read.is_ok_and(|read| read == (Some("c".into()), 7))).unwrap();
    }
}

#[test]
fn a_destructor_of_a_thread_local_can_read() {
    thread_local! {
        static LAST: ReadsLast = const { ReadsLast(RefCell::new(None)) };
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().block_cache_bytes(0)).unwrap();
    letters(&db);
    db.flush().unwrap();
    let (sender, went_well) = mpsc::channel();
    let read = |db: &Db| assert_eq!(db.get("c").unwrap().unwrap(), "c");
    // The destructors of two thread-local values may run in either order. This loop covers both
    // orders.
    for reads_first in [true, false] {
        let (db, sender) = (db.clone(), sender.clone());
        let thread = thread::spawn(move || {
            if reads_first {
                read(&db);
            }
            LAST.with(|last| *last.0.borrow_mut() = Some((db.clone(), sender)));
            read(&db);
        });
        thread.join().unwrap();
        assert!(went_well.recv().unwrap(), "reads first: {reads_first}");
    }
}

#[test]
fn a_table_that_cannot_be_read_is_an_error_of_every_move() {
    type Move = fn(&mut Cursor) -> Result<bool, Error>;
    let moves: [(&str, Move); 6] = [
        ("seek_to_first", Cursor::seek_to_first),
        ("seek_to_last", Cursor::seek_to_last),
        ("seek", |cursor| cursor.seek("0200")),
        ("seek_for_prev", |cursor| cursor.seek_for_prev("0200")),
        ("next", |cursor| cursor.next()),
        ("prev", |cursor| cursor.prev()),
    ];
    let disk = SimFs::new(1);
    let options = small().fs(disk.clone()).block_cache_bytes(0);
    let db = Db::open("/db", options).unwrap();
    for i in 0..400 {
        db.put(format!("{i:04}"), "v".repeat(100)).unwrap();
        if i % 150 == 149 {
            db.flush().unwrap();
        }
    }
    for (name, step) in moves {
        let mut cursor = db.cursor().unwrap();
        assert!(cursor.seek("0100").unwrap());
        disk.inject(Fault::io_error().on(&[OpKind::Read]).path("*.ldb").sticky());
        // The first steps stay in the block that has already been read.
        let error = (0..100).find_map(|_| step(&mut cursor).err());
        assert!(matches!(error, Some(Error::Io { .. })), "{name}: {error:?}");
        assert!(!cursor.valid(), "{name}");
        disk.clear_faults();
        assert!(cursor.seek_to_first().unwrap() && cursor.key() == b"0000", "{name}");
    }
}

/// Checks that a long value shares the memory of its block, while a short value is copied, so that
/// it does not keep a whole block alive.
#[test]
fn values_of_more_than_a_kibibyte_share_the_memory_of_their_block() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for (key, bytes) in [("a", 10), ("b", 1024), ("c", 1025), ("d", 4000), ("e", 1)] {
        db.put(key, vec![7; bytes]).unwrap();
    }
    db.flush().unwrap();
    for (key, is_shared) in [("a", false), ("b", false), ("c", true), ("d", true)] {
        db.get(key).unwrap().unwrap();
        let [one, two] = [(); 2].map(|()| db.get(key).unwrap().unwrap());
        assert_eq!(one.as_ptr() == two.as_ptr(), is_shared, "a get of {key}");
        let mut cursor = db.cursor().unwrap();
        assert!(cursor.seek_to_last().unwrap());
        while cursor.key() != key.as_bytes() {
            assert!(cursor.prev().unwrap());
        }
        let [one, two] = [(); 2].map(|()| cursor.value_bytes());
        assert_eq!(one.as_ptr() == two.as_ptr(), is_shared, "{key}, from behind");
    }
}

#[test]
fn a_prefix_scan_may_begin_after_the_prefix_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for key in ["a", "ab", "abc", "abd", "b"] {
        db.put(key, "").unwrap();
    }
    let count = |from: Bound<&str>| db.prefix_from("ab", from).unwrap().count();
    assert_eq!(count(Bound::Unbounded), 3);
    assert_eq!(count(Bound::Included("ab")), 3);
    assert_eq!(count(Bound::Excluded("ab")), 2);
    assert_eq!(count(Bound::Excluded("a")), 3);
    assert_eq!(count(Bound::Excluded("abd")), 0);
}

#[test]
fn the_approximate_size_counts_memtables() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), options()).unwrap();
    for i in 0..10_000u32 {
        db.put(format!("{i:05}"), [b'v'; 100]).unwrap();
    }
    let check = |size: &dyn Fn(&str, &str) -> u64| {
        let all = size("00000", "99999");
        assert!((1_050_000..1_250_000).contains(&all), "{all}");
        let half = size("02500", "07500");
        assert!((all * 2 / 5..all * 3 / 5).contains(&half), "{half} of {all}");
        assert_eq!((size("a", "b"), size("07500", "02500")), (0, 0));
    };
    check(&|from, to| db.approximate_size(from..to).unwrap());
    let snapshot = db.snapshot();
    drop(db);
    drop(snapshot);
    // Records that are replayed from a log count as well.
    let db = Db::open(dir.path(), options().reuse_logs(true)).unwrap();
    assert_eq!(db.stats().flushes, 0);
    check(&|from, to| db.approximate_size(from..to).unwrap());
    let reader = Db::open_read_only(dir.path(), options()).unwrap();
    check(&|from, to| reader.approximate_size(from..to).unwrap());
    // A small memtable is counted exactly, and the bounds are those of the range.
    db.flush().unwrap();
    let before = db.approximate_size(..).unwrap();
    db.put("b", [b'v'; 50]).unwrap();
    assert_eq!(db.approximate_size(..).unwrap() - before, 50 + 9);
    assert_eq!(db.approximate_size("a".."b").unwrap(), 0);
    assert_eq!(db.approximate_size("a"..="b").unwrap(), 50 + 9);
}
