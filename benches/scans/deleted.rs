//! Deletes the first million of two million entries, and measures the time that a cursor takes to
//! reach the first remaining entry, before and after background work has finished.

use std::time::Duration;

use minikv::{Db, Options, Readable};

use crate::{ENTRIES, disk_mib, fill, key, timed, write};

const DELETED: u64 = 1_000_000;

pub fn run() {
    for large_buffer in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = Options::default().create_if_missing(true);
        if large_buffer {
            options = options.write_buffer_bytes(64 << 20);
        }
        let db = Db::open(dir.path(), options.clone()).expect("a new database");
        fill(&db, 0..ENTRIES);
        db.compact_range(..).expect("room");
        println!(
            "write buffer {}: {:.0} MiB on disk",
            if large_buffer { "64 MiB" } else { "4 MiB" },
            disk_mib(dir.path())
        );
        write(&db, 0..DELETED, |batch, number| batch.delete(key(number)));
        report("deleted", &db, dir.path());
        db.flush().expect("room");
        report("flushed", &db, dir.path());
        let (took, ()) = timed(|| db.wait_idle().expect("no trouble"));
        println!("  the background is at rest after {took:.1?}");
        report("at rest", &db, dir.path());
        db.wait_idle().expect("no trouble");
        report("at rest after a scan", &db, dir.path());
        db.close().expect("no trouble");
        let (took, db) = timed(|| Db::open(dir.path(), options).expect("it is there"));
        println!("  opened in {took:.1?}");
        report("opened again", &db, dir.path());
        db.wait_idle().expect("no trouble");
        report("opened again, after a scan", &db, dir.path());
    }
}

/// Prints the time that a cursor takes to reach the first entry, and the time for the next step.
fn report(when: &str, db: &Db, dir: &std::path::Path) {
    let (first, second) = first_steps(db);
    println!(
        "  {when}: first entry {first:.1?}, next {second:.1?}, {:.0} MiB on disk, tables {:?}",
        disk_mib(dir),
        db.stats().levels.iter().map(|level| level.files).collect::<Vec<_>>(),
    );
}

fn first_steps(db: &Db) -> (Duration, Duration) {
    let mut cursor = db.cursor().expect("no trouble");
    let (first, valid) = timed(|| cursor.seek_to_first().expect("no damage"));
    assert!(valid && cursor.key() == key(DELETED), "the first that was not deleted");
    let (second, valid) = timed(|| cursor.next().expect("no damage"));
    assert!(valid && cursor.key() == key(DELETED + 1));
    (first, second)
}
