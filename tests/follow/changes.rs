//! The batches that a writer commits, read from its logs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use minikv::follow::Changes;
use minikv::fs::sim::SimFs;
use minikv::fs::{Fs, MemFs};
use minikv::{BatchOp, Bytes, Db, Error, Readable, WriteBatch, destroy};

use crate::rng::{Rng, seed};
use crate::{DIR, options};

/// One write: its sequence number, its key, and its value unless it is a deletion.
pub type Write = (u64, Vec<u8>, Option<Vec<u8>>);

/// Appends to `writes` all writes that `changes` can return now.
pub fn read(changes: &mut Changes, writes: &mut Vec<Write>) -> Result<(), Error> {
    for batch in changes {
        let batch = batch?;
        for (operation, sequence) in batch.iter().zip(batch.sequence()..) {
            let operation = operation.unwrap();
            let value = match operation {
                BatchOp::Put { value, .. } => Some(value.to_vec()),
                BatchOp::Delete { .. } => None,
            };
            writes.push((sequence, operation.key().to_vec(), value));
        }
    }
    Ok(())
}

/// Commits a random batch, and appends the writes of the batch to `writes`.
pub fn write(db: &Db, rng: &mut Rng, writes: &mut Vec<Write>) {
    let mut batch = WriteBatch::new();
    for _ in 0..1 + rng.below(3) {
        let key = rng.bytes(3);
        let value = if rng.one_in(5) { None } else { Some(rng.bytes(100)) };
        match &value {
            None => batch.delete(&key),
            Some(value) => batch.put(&key, value),
        }
        writes.push((writes.len() as u64 + 1, key, value));
    }
    db.write(batch).unwrap();
}

#[test]
fn changes_are_complete_and_in_order_whatever_becomes_of_the_logs() {
    let mut rng = Rng::new(seed());
    for round in 0..20 {
        let fs = SimFs::new(round);
        let options = options(&fs, round).reuse_logs(round % 2 == 0);
        let mut db = Db::open(DIR, options.clone()).unwrap();
        let follower = Db::open_read_only(DIR, options.clone()).unwrap();
        let (mut written, mut found) = (Vec::new(), Vec::new());
        let mut changes = follower.changes_since(0).unwrap();
        for _ in 0..300 {
            write(&db, &mut rng, &mut written);
            if rng.one_in(40) {
                drop(db);
                db = Db::open(DIR, options.clone()).unwrap();
            }
            read(&mut changes, &mut found).unwrap();
            assert!(found == written, "round {round}");
            assert_eq!(changes.sequence(), written.len() as u64);
        }
        // Another handle can continue reading the changes where the first handle stopped.
        let middle = written.len() as u64;
        write(&db, &mut rng, &mut written);
        let other = Db::open_read_only(DIR, options).unwrap();
        read(&mut other.changes_since(middle).unwrap(), &mut found).unwrap();
        assert!(found == written, "round {round}, another handle");
    }
}

#[test]
fn changes_that_are_missing_are_an_error_and_never_left_out() {
    let mut rng = Rng::new(seed());
    let mut lost = 0;
    for round in 0..200 {
        let fs = SimFs::new(round);
        let db = Db::open(DIR, options(&fs, round)).unwrap();
        let follower = Db::open_read_only(DIR, options(&fs, round)).unwrap();
        let (mut written, mut found) = (Vec::new(), Vec::new());
        let mut changes = follower.changes_since(0).unwrap();
        for _ in 0..5 {
            for _ in 0..rng.below(14) {
                write(&db, &mut rng, &mut written);
            }
            if rng.one_in(4) {
                db.flush().unwrap();
            }
            let all = read(&mut changes, &mut found);
            assert!(written.starts_with(&found), "round {round}");
            match all {
                Ok(()) => assert!(found == written, "round {round}: left out in silence"),
                Err(Error::ChangesLost { after, next }) => {
                    assert_eq!(after, found.len() as u64);
                    assert!(next > after + 1 || next == written.len() as u64);
                    assert!(read(&mut changes, &mut found).is_err(), "it goes on after a gap");
                    lost += 1;
                    break;
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        }
    }
    assert!((10..190).contains(&lost), "{lost} of 200");
}

#[test]
fn changes_of_the_past_are_there_or_lost() {
    let fs = SimFs::new(1);
    let db = Db::open(DIR, options(&fs, 1).write_buffer_bytes(1 << 20)).unwrap();
    let (mut rng, mut written) = (Rng::new(1), Vec::new());
    (0..20).for_each(|_| write(&db, &mut rng, &mut written));
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let last = follower.sequence();
    assert_eq!(last, written.len() as u64);
    for since in 0..=last {
        let mut found = Vec::new();
        read(&mut follower.changes_since(since).unwrap(), &mut found).unwrap();
        // The first batch may begin before `since`.
        let first = found.first().map_or(since, |write| write.0 - 1);
        assert!(first <= since && since - first < 3);
        assert!(found == written[first as usize..]);
    }
    db.flush().unwrap();
    let error = follower.changes_since(last - 1).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ChangesLost { .. }), "{error}");
    assert!(follower.changes_since(last).unwrap().next().is_none());
    let mut changes = follower.changes_since(last).unwrap();
    drop(db);
    destroy(DIR, &options(&fs, 1)).unwrap();
    Db::open(DIR, options(&fs, 1)).unwrap().put("another", "database").unwrap();
    let error = changes.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ChangesLost { next: 1, .. }), "{error}");
}

/// Checks copies that are made of a snapshot and of the changes after its sequence number, beside
/// refreshes. Each write sets the next key to its own sequence number, so a copy that lacks a write
/// has a gap.
#[test]
fn a_copy_of_a_snapshot_and_the_changes_after_it_lacks_nothing() {
    const WRITES: u64 = 5000;
    let fs = MemFs::new();
    let options = options(&fs, 1).inline_background(None).keep_logs_bytes(1 << 30);
    let writer = Db::open(DIR, options.clone()).unwrap();
    let follower = Db::open_read_only(DIR, options).unwrap();
    let written = AtomicU64::new(0);
    let copies = thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=WRITES {
                writer.put(format!("key{:03}", i % 100), i.to_string()).unwrap();
                written.store(i, Relaxed);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while written.load(Relaxed) < WRITES {
                    follower.refresh().unwrap();
                }
            });
        }
        let mut copies = 0;
        while written.load(Relaxed) < WRITES {
            let snapshot = follower.snapshot();
            let values = snapshot.iter().map(|entry| entry.unwrap().1);
            let last = values.map(|value| str::from_utf8(&value).unwrap().parse().unwrap()).max();
            assert_eq!(last.unwrap_or(0), snapshot.sequence(), "copy {copies}");
            copies += 1;
        }
        copies
    });
    assert!(copies > 10, "{copies} copies");
    let snapshot = follower.snapshot();
    writer.put("later", "1").unwrap();
    let mut copy: BTreeMap<_, _> = snapshot.iter().map(|entry| entry.unwrap()).collect();
    for batch in follower.changes_since(snapshot.sequence()).unwrap() {
        for op in batch.unwrap().iter() {
            let BatchOp::Put { key, value } = op.unwrap() else { panic!("nothing is deleted") };
            copy.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        }
    }
    assert!(copy.into_iter().eq(writer.iter().map(Result::unwrap)));
}

/// Checks the numbers of a snapshot after another database, with lower sequence numbers, has taken
/// the place of the one that was followed.
#[test]
fn a_snapshot_of_a_replaced_database_continues_with_its_changes() {
    let fs = MemFs::new();
    let options = options(&fs, 2).keep_logs_bytes(1 << 30);
    let writer = Db::open(DIR, options.clone()).unwrap();
    (0..300).for_each(|i| writer.put(format!("key{i:03}"), "old").unwrap());
    let follower = Db::open_read_only(DIR, options.clone()).unwrap();
    drop(writer);
    destroy(DIR, &options).unwrap();
    let writer = Db::open(DIR, options).unwrap();
    (0..10).for_each(|i| writer.put(format!("key{i:03}"), "new").unwrap());
    assert_eq!(follower.refresh().unwrap().sequence, 10);
    let snapshot = follower.snapshot();
    assert_eq!((snapshot.sequence(), follower.sequence()), (10, 10));
    assert_eq!(follower.explain("key009").unwrap().seq, 10);
    writer.put("later", "1").unwrap();
    let changes = follower.changes_since(snapshot.sequence()).unwrap();
    assert_eq!(changes.map(|batch| batch.unwrap().sequence()).collect::<Vec<_>>(), [11]);
    assert_eq!(snapshot.iter().count(), 10);
}

/// The name `99.log` was read as the number of a log, and that log was looked for without end.
#[test]
fn entries_that_only_look_like_logs_are_no_logs_to_a_reader_of_changes() {
    let fs = MemFs::new();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    db.put("a", "1").unwrap();
    let dir = Path::new(DIR);
    fs.create(&dir.join("99.log")).unwrap().write(b"a note").unwrap();
    fs.create_dir(&dir.join("98.log")).unwrap();
    fs.create_dir(&dir.join("000001.log")).unwrap();
    let changes = || db.changes_since(0).unwrap().map(|batch| batch.unwrap().len()).sum::<usize>();
    assert_eq!(changes(), 1);
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    db.put("b", "2").unwrap();
    follower.refresh().unwrap();
    assert_eq!(follower.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!((changes(), follower.changes_since(0).unwrap().count()), (2, 2));
    db.close().unwrap();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    for n in 0..300 {
        db.put(format!("{n}"), vec![0; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    assert!(minikv::verify(DIR, &options(&fs, 1)).unwrap().is_sound());
    let kept = ["99.log", "98.log", "000001.log"].map(|name| dir.join(name));
    assert!(kept.iter().all(|path| fs.exists(path).unwrap()));
}
