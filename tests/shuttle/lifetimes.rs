//! Iterators, cursors and snapshots that outlive the handle.

use std::sync::Arc;

use minikv::fs::MemFs;
use minikv::{CompactionDecision, Db, Error, Readable, WriteBatch};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::{check, live_tables, open, options, tables};

/// Returns a database with the keys "0", "1", "2", each in a table of its own.
fn filled(fs: &MemFs) -> Db {
    let db = open(fs);
    for key in ["0", "1", "2"] {
        db.put(key, "old").unwrap();
        db.flush().unwrap();
    }
    db
}

/// Overwrites all entries, and compacts the new entries together with the old ones.
fn overwrite(db: &Db) {
    for key in ["0", "1", "2"] {
        db.put(key, "new").unwrap();
    }
    db.compact_range(..).unwrap();
}

fn assert_there(fs: &MemFs, names: &[String]) {
    let there = tables(fs);
    assert!(names.iter().all(|name| there.contains(name)), "{names:?} needed, {there:?} there");
}

#[test]
fn a_table_is_removed_after_its_last_reader_and_not_before() {
    check(|| {
        let fs = MemFs::new();
        let db = filled(&fs);
        let old = tables(&fs);
        let (snapshot, mut cursor, iter) = (db.snapshot(), db.cursor().unwrap(), db.iter());
        let writer = thread::spawn(move || {
            overwrite(&db);
            live_tables(&db)
        });
        let readers = [
            thread::spawn({
                let (fs, old) = (fs.clone(), old.clone());
                move || {
                    let entries: Vec<_> = iter.map(Result::unwrap).collect();
                    assert_eq!(entries.len(), 3);
                    assert!(entries.iter().all(|(_, value)| value == "old"));
                    assert_there(&fs, &old[..0]);
                }
            }),
            thread::spawn({
                let fs = fs.clone();
                move || {
                    assert!(cursor.seek_to_last().unwrap());
                    assert_there(&fs, &old);
                    for key in ["2", "1", "0"] {
                        assert_eq!((cursor.key(), cursor.value()), (key.as_bytes(), &b"old"[..]));
                        cursor.prev().unwrap();
                    }
                    assert_there(&fs, &old);
                }
            }),
        ];
        assert_eq!(snapshot.get("1").unwrap().as_deref(), Some(&b"old"[..]));
        let live = writer.join().unwrap();
        assert_eq!(snapshot.get("2").unwrap().as_deref(), Some(&b"old"[..]));
        let reopened = Db::open(crate::DIR, options(&fs));
        assert!(matches!(reopened, Err(Error::Locked { .. })), "a snapshot holds the directory");
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        drop(snapshot);
        assert_eq!(tables(&fs).len(), live, "what nobody needs is gone");
        let db = open(&fs);
        assert_eq!(db.get("0").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(tables(&fs).len(), live_tables(&db));
    });
}

/// Drops the last handle in one thread, while other threads drop iterators and snapshots of the
/// database.
#[test]
fn handle_and_readers_go_in_any_order() {
    check(|| {
        let fs = MemFs::new();
        let db = filled(&fs);
        let (mut iter, cursor, snapshot) = (db.iter(), db.cursor(), db.snapshot());
        let threads = [
            thread::spawn(move || {
                overwrite(&db);
                drop(db);
            }),
            thread::spawn(move || {
                assert_eq!(iter.next().unwrap().unwrap().1, "old");
                drop(iter);
            }),
            thread::spawn(move || drop(cursor)),
        ];
        assert_eq!(snapshot.iter().count(), 3);
        assert_eq!(snapshot.iter().next_back().unwrap().unwrap().0, "2");
        drop(snapshot);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let left = tables(&fs);
        let db = open(&fs);
        assert_eq!(left.len(), live_tables(&db), "{left:?}");
        assert!(db.iter().all(|entry| entry.unwrap().1 == "new"));
    });
}

/// Drops the last handle in a compaction filter, in the thread of a compaction's part. (The thread
/// that began the part may not wait meanwhile: shuttle wakes it when the part ends, whatever it
/// waits for.)
#[test]
fn a_filter_that_drops_the_last_handle_waits_for_nobody() {
    check(|| {
        let fs = MemFs::new();
        let place = Arc::new(Mutex::new(None::<Db>));
        let inside = place.clone();
        let options = options(&fs).compaction_filter(move |_, _| {
            if thread::current().name() == Some("minikv-merge") {
                let last = inside.lock().unwrap().take();
                drop(last);
            }
            CompactionDecision::Keep
        });
        let db = Db::open(crate::DIR, options).unwrap();
        for round in 0..4 {
            let mut batch = WriteBatch::new();
            (0..8).for_each(|n| batch.put(format!("key {n}"), format!("{round}").repeat(100)));
            db.write(batch).unwrap();
            db.flush().unwrap();
        }
        *place.lock().unwrap() = Some(db);
        thread::yield_now();
        // The compaction may have ended before.
        let left = place.lock().unwrap().take();
        drop(left);
        let db = loop {
            match Db::open(crate::DIR, crate::options(&fs)) {
                Err(Error::Locked { .. }) => thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        assert_eq!(db.iter().count(), 8);
    });
}
