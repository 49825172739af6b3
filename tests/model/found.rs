//! Small tests for bugs that the random runs have found.

use std::path::Path;
use std::sync::{Arc, Mutex};

use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::{Db, Options, WriteBatch};

/// Regression test: an empty batch is a record in the log. If a log had no other record, the replay
/// made an empty memtable, and the flush of this memtable made a table without keys, which the next
/// open refused.
#[test]
fn an_empty_batch_alone_in_a_log() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let open = || Db::create(home.path()).unwrap();
    open().write(WriteBatch::new()).unwrap();
    let db = open();
    db.wait_idle().unwrap();
    db.flush().unwrap();
    drop(db);
    assert_eq!(open().iter().count(), 0);
}

/// Two logs are live while a frozen memtable waits for its flush, and neither log is synced. A loss
/// of power may remove the end of the first log and leave the second log. The result must be a
/// prefix of the writes even then, so the second log counts only if the first log is complete.
#[test]
fn a_log_after_one_that_lost_its_end() {
    let open = |fs: &SimFs| {
        let options = Options::default().create_if_missing(true).write_buffer_bytes(64 << 10);
        Db::open(Path::new("/db"), options.fs(fs.clone())).unwrap()
    };
    let fs = SimFs::new(1);
    let db = open(&fs);
    let flushing = Arc::new(Mutex::new(()));
    let held_back = flushing.lock().unwrap();
    fs.set_hook({
        let flushing = flushing.clone();
        move |op| {
            if op.path.extension().is_some_and(|extension| extension == "ldb") {
                drop(flushing.lock());
            }
        }
    });
    let key = |number: u8| vec![b'k', number];
    for number in 0..5 {
        db.put(key(number), [number; 30_000]).unwrap();
    }
    let images: Vec<_> = (0..500)
        .map(|seed| CrashPlan::random(seed).sector_bytes(1 << 20))
        .map(|plan| (fs.crash_image(&plan), plan))
        .collect();
    drop(held_back);
    for (image, plan) in images {
        let db = open(&image);
        let found: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
        let prefix: Vec<_> = (0..found.len() as u8).map(key).collect();
        assert_eq!(found, prefix, "after «{plan}»");
    }
}
