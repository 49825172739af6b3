//! The memory of a fill: of the memtables, however slow the flushes are, and of a flush.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use minikv::events::StallCause;
use minikv::{Db, FilterGenerator, FilterPolicy, Options};

use crate::{ALLOCATOR, alone};

const BUFFER_BYTES: usize = 8 << 20;

/// Memory, in bytes, of an open database with an empty cache, and of its log and spare log.
const IDLE_BYTES: usize = 512 << 10;

/// Memory, in bytes, of a flush of [`BUFFER_BYTES`] and of the compactions of such a database: the
/// buffers of their tables, and the indexes and filters of the tables that they read.
const BACKGROUND_BYTES: usize = 4 << 20;

/// A policy without filters. It begins no table until the gate is open.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl FilterPolicy for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn create(&self, _: &[&[u8]], _: &mut Vec<u8>) {}

    fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        let (is_open, opened) = &*self.0;
        drop(opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        Box::new(NoFilters)
    }
}

#[derive(Debug)]
struct NoFilters;

impl FilterGenerator for NoFilters {
    fn add_key(&mut self, _: &[u8]) {}

    fn is_empty(&self) -> bool {
        true
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
}

/// Puts `entries` entries with keys of 16 bytes and values of 100 bytes, in a mixed order.
fn fill(db: &Db, entries: u64) {
    for at in 0..entries {
        let number = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.put(format!("{number:016x}"), [b'v'; 100]).unwrap();
    }
}

#[test]
fn memtables_take_at_most_two_write_buffers_however_slow_the_flushes_are() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let options = Options::default().create_if_missing(true).write_buffer_bytes(BUFFER_BYTES);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let peak = || ALLOCATOR.peak_usage() - before;
    let db = Db::open(dir.path(), options.filter_policy(gate.clone())).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| fill(&db, 300_000));
        while db.health().stall != Some(StallCause::Flush) && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (has_stalled, stalled_peak) = (!writer.is_finished(), peak());
        gate.open();
        println!("{stalled_peak} bytes while nothing is flushed");
        assert!(has_stalled, "the writer does not wait for the flush");
        assert!(stalled_peak <= 2 * BUFFER_BYTES + IDLE_BYTES, "{stalled_peak} bytes");
        // Both buffers were used.
        assert!(stalled_peak > 2 * BUFFER_BYTES - IDLE_BYTES, "{stalled_peak} bytes");
    });
    println!("{} bytes for the whole fill", peak());
    assert!(db.stats().flushes > 4, "{} flushes", db.stats().flushes);
    assert!(peak() <= 2 * BUFFER_BYTES + BACKGROUND_BYTES, "{} bytes", peak());
}

#[test]
fn a_flush_takes_sixteen_bytes_for_each_entry() {
    const ENTRIES: usize = 1 << 18;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).write_buffer_bytes(32 << 20);
    let db = Db::open(dir.path(), options.inline_background(Some(1))).unwrap();
    for number in 0..ENTRIES as u64 {
        db.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), b"").unwrap();
    }
    assert_eq!(db.stats().flushes, 0);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    db.flush().unwrap();
    let peak = ALLOCATOR.peak_usage() - before;
    // The keys that are sorted take 12 bytes, and the numbers of the sorted entries 4. The rest is
    // the hash index of the next memtable, and the buffers of the table.
    println!("{peak} bytes for a flush of {ENTRIES} entries");
    assert!(peak > 12 * ENTRIES, "{peak} bytes");
    assert!(peak <= 16 * ENTRIES + (3 << 19), "{peak} bytes");
}
