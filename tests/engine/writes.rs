//! Large writes, small writes, and many writes.

use minikv::fs::MemFs;
use minikv::{Db, Error, Filters, Options, Readable, WriteBatch};

use crate::rng::Rng;
use crate::{disk_bytes, small};

#[test]
fn empty_keys_and_values_are_keys_and_values() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let db = Db::open(dir.path(), small()).unwrap();
        if round == 0 {
            db.put("", "").unwrap();
            db.put("\0", "").unwrap();
            db.put("gone", "").unwrap();
            db.delete("gone").unwrap();
            db.write(WriteBatch::new()).unwrap();
        } else if round == 1 {
            db.flush().unwrap();
        }
        assert_eq!(db.get("").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(db.get("gone").unwrap(), None);
        let entries: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
        assert_eq!(entries, [&b""[..], b"\0"]);
    }
}

#[test]
fn a_value_of_100_mib_goes_in_and_comes_out_through_log_and_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut value = vec![0u8; 100 << 20];
    let mut rng = Rng::new(1);
    for chunk in value.chunks_mut(8) {
        let bytes = rng.next().to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    let db = Db::create(dir.path()).unwrap();
    db.put("big", &value).unwrap();
    db.put("small", "1").unwrap();
    drop(db);
    let db = Db::open(dir.path(), Options::default()).unwrap();
    assert!(db.get("big").unwrap().as_deref() == Some(&value[..]), "after a replay");
    db.compact_range(..).unwrap();
    assert!(db.get("big").unwrap().as_deref() == Some(&value[..]), "from a table");
    assert_eq!(db.get("small").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_batch_of_a_million_operations_is_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::create(dir.path()).unwrap();
    let mut batch = WriteBatch::new();
    for i in 0..1_000_000u32 {
        batch.put(i.to_be_bytes(), i.to_le_bytes());
    }
    batch.delete(7u32.to_be_bytes());
    assert_eq!(batch.len(), 1_000_001);
    db.write(batch).unwrap();
    assert_eq!(db.stats().commit_groups, 1);
    drop(db);
    let db = Db::open(dir.path(), Options::default()).unwrap();
    assert_eq!(db.iter().count(), 999_999);
    assert_eq!(
        db.get(999_999u32.to_be_bytes()).unwrap().as_deref(),
        Some(&999_999u32.to_le_bytes()[..])
    );
}

#[test]
fn overwrites_give_their_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for round in 0..50 {
        for i in 0..1000 {
            db.put(format!("{i:04}"), format!("{round:0100}")).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.compact_range(..).unwrap();
    let bytes = disk_bytes(dir.path());
    assert!(bytes < 300 << 10, "{bytes} bytes for 100 KB of data");
}

#[test]
fn a_partial_compact_range_leaves_the_rest_as_it_is_and_everything_readable() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for round in 0..4 {
        for i in 0..5000 {
            db.put(format!("{:05}", (i * 37) % 5000), format!("{round}/{i}")).unwrap();
        }
    }
    let before: Vec<_> = db.iter().map(Result::unwrap).collect();
    for i in 1000..2000 {
        db.delete(format!("{i:05}")).unwrap();
    }
    db.compact_range("01000".."02000").unwrap();
    db.compact_range("01500"..).unwrap();
    db.compact_range(.."00010").unwrap();
    let after: Vec<_> = db.iter().map(Result::unwrap).collect();
    let expected =
        before.into_iter().filter(|(key, _)| !(&b"01000"[..]..b"02000").contains(&&key[..]));
    assert!(after.into_iter().eq(expected));
}

#[test]
fn a_partial_compact_range_gives_back_the_space_of_keys_deleted_there() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..5000 {
        db.put(format!("{i:05}"), "x".repeat(50)).unwrap();
    }
    db.compact_range(..).unwrap();
    for i in 1000..2000 {
        db.delete(format!("{i:05}")).unwrap();
    }
    db.compact_range("01000"..="01999").unwrap();
    let dropped: u64 = db.stats().levels.iter().map(|level| level.entries_dropped).sum();
    assert_eq!(dropped, 2000, "a thousand values and a thousand tombstones");
    assert_eq!(db.iter().count(), 4000);
}

#[test]
fn tombstones_with_nothing_under_them_are_merged_away_not_moved_down() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..1000 {
        db.put(format!("z{i:05}"), "x".repeat(50)).unwrap();
    }
    db.compact_range(..).unwrap();
    for i in 0..1000 {
        db.delete(format!("a{i:05}")).unwrap();
    }
    db.compact_range("a".."b").unwrap();
    assert_eq!(db.approximate_size("a".."b").unwrap(), 0);
}

#[test]
fn writes_after_close_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let other = db.clone();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    assert!(matches!(other.put("b", "2"), Err(Error::Closed)));
    assert!(matches!(other.flush(), Err(Error::Closed)));
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for options in
        [small().block_bytes(0), small().write_buffer_bytes(0), small().max_file_bytes(0)]
    {
        assert!(matches!(Db::open(dir.path(), options), Err(Error::InvalidArgument { .. })));
    }
}

#[test]
fn options_that_cannot_be_meant_are_refused_for_reading_only_too() {
    let dir = tempfile::tempdir().unwrap();
    Db::open(dir.path(), small()).unwrap().close().unwrap();
    for options in
        [small().block_bytes(0), small().max_open_files(0), small().filters(Filters::Block(65))]
    {
        let error = Db::open_read_only(dir.path(), options).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    Db::open_read_only(dir.path(), small()).unwrap();
}

#[test]
fn stalls_are_counted_with_their_cause() {
    use minikv::fs::SimFs;
    // On a slow disk, either compactions cannot empty level 0 as fast as it fills, or flushes fall
    // behind. Both of these delays are counted as stalls.
    let fs = SimFs::new(3);
    let options = small().write_buffer_bytes(1 << 10).fs(fs);
    let db = Db::open("/db", options).unwrap();
    for i in 0..20_000 {
        db.put(format!("{:05}", (i * 7919) % 20_000), "v".repeat(50)).unwrap();
    }
    let stalls = db.stats().stalls;
    let counted = stalls.count();
    assert!(counted > 0, "{stalls:?}");
    db.wait_idle().unwrap();
    assert!(db.stats().levels[0].files < 20);
}

#[test]
fn a_batch_is_collected_from_entries() {
    let mut batch: WriteBatch = [("a", "1"), ("b", "2")].into_iter().collect();
    batch.extend([("a", "3")]);
    assert_eq!(batch.len(), 3);
    let db = Db::open("/db", small().fs(MemFs::new()).inline_background(Some(1))).unwrap();
    db.write(batch).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"2"[..]));
}
