//! Checks the memory used for hostile files: at most 128 MiB for a database of up to 1 MiB,
//! whatever lengths the files claim. `fill` checks the memory of a fill. The allocator of this
//! binary measures the memory, so only one test runs at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use minikv::files::{KeyKind, NewFile, VersionEdit};
use minikv::fs::MemFs;
use minikv::internals::format::batch;
use minikv::internals::format::coding::{put_varint32, put_varint64};
use minikv::internals::format::key::internal_key;
use minikv::{Db, Options, Readable, RepairOptions};
use minikv_support::forge::*;
use peak_alloc::PeakAlloc;

mod fill;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Waits until no other test measures memory. The returned guard keeps other tests out.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const LIMIT_BYTES: usize = 128 << 20;
const INPUT_BYTES: usize = 1 << 20;

fn options(fs: &MemFs) -> Options {
    Options::default().fs(fs.clone()).inline_background(Some(1))
}

/// Returns a snappy block of one entry whose value is `value_bytes` zeros.
fn snappy_bomb(value_bytes: usize) -> Vec<u8> {
    let mut start = vec![0, 9];
    put_varint32(&mut start, value_bytes as u32);
    start.extend_from_slice(&internal_key(b"k", 1, KeyKind::Value));
    let end = [0, 0, 0, 0, 1, 0, 0, 0];
    let literal = |stored: &mut Vec<u8>, bytes: &[u8]| {
        stored.push(((bytes.len() - 1) << 2) as u8);
        stored.extend_from_slice(bytes);
    };
    let mut stored = Vec::new();
    put_varint32(&mut stored, (start.len() + value_bytes + end.len()) as u32);
    literal(&mut stored, &start);
    let mut left = value_bytes;
    while left > 0 {
        // This element is a copy of the previous byte.
        let len = left.min(64);
        stored.extend_from_slice(&[((len - 1) << 2) as u8 | 2, 1, 0]);
        left -= len;
    }
    literal(&mut stored, &end);
    stored
}

/// Returns a batch whose header claims `count` operations.
fn batch_of(count: u32, ops: &[u8]) -> Vec<u8> {
    let mut bytes = 1u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(ops);
    assert_eq!(batch::HEADER_BYTES, 12);
    bytes
}

fn cases() -> Vec<(&'static str, Files)> {
    let mut cases = Vec::new();
    let mut add = |what, files: Files| cases.push((what, files));

    let deletes = vec![0; 2 * (INPUT_BYTES / 2 - 200)];
    add("empty keys deleted", with_log(log_of(&[batch_of(deletes.len() as u32 / 2, &deletes)])));
    add("a count of 2^32", with_log(log_of(&[batch_of(u32::MAX, &[1, 1, b'a', 1, b'b'])])));
    let mut long = vec![1];
    put_varint32(&mut long, u32::MAX);
    add("a key of 4 GiB", with_log(log_of(&[batch_of(1, &long)])));
    let small: Vec<_> = (0..INPUT_BYTES / 24).map(|_| batch_of(1, &[1, 1, b'a', 0])).collect();
    add("many batches", with_log(log_of(&small)));
    let mut frame = vec![0xff; 4];
    frame.extend_from_slice(&[0xff, 0xff, 2]);
    add("a record without an end", with_log(frame.repeat(INPUT_BYTES / 7)));

    let many = |level: fn(u64) -> usize| {
        let key = |n: u64| internal_key(&n.to_be_bytes()[5..], 1, KeyKind::Value);
        let new_files = (0..27_000)
            .map(|n| NewFile {
                level: level(n),
                number: n + 10,
                file_bytes: u64::MAX,
                smallest: key(n),
                largest: key(n),
            })
            .collect();
        with_edits(vec![VersionEdit { new_files, ..first_edit() }])
    };
    add("27,000 tables of level 0", many(|_| 0));
    add("27,000 tables of level 6", many(|_| 6));
    let pairs: Vec<_> = (0..30_000)
        .map(|n| VersionEdit { deleted_files: vec![(n % 7, n as u64)], ..VersionEdit::default() })
        .collect();
    add("many edits", with_edits([vec![first_edit()], pairs].concat()));
    let mut slice = vec![1];
    put_varint32(&mut slice, u32::MAX);
    let mut manifest = with_edits(vec![first_edit()]);
    manifest.insert("MANIFEST-000002".to_owned(), log_of(&[slice]));
    add("a comparator of 4 GiB", manifest);
    let mut current = with_edits(vec![first_edit()]);
    current.insert("CURRENT".to_owned(), vec![b'M'; INPUT_BYTES]);
    add("a CURRENT of 1 MiB", current);

    let bomb = snappy_bomb(20 << 20);
    assert!((900_000..INPUT_BYTES).contains(&bomb.len()), "{}", bomb.len());
    add("a bomb", with_tables(&[(1, 9, &table_of(&bomb, 1, 1, &[]))]));
    let half = snappy_bomb(10 << 20);
    add("half a bomb thirty times", with_tables(&[(1, 9, &table_of(&half, 1, 30, &[]))]));
    let table = table_of(&half, 1, 1, &[]);
    add("one table at each level", with_tables(&[0, 1, 2, 3, 4, 5, 6].map(|l| (l, 9, &table[..]))));
    let small_bomb = snappy_bomb(3 << 20);
    let table = table_of(&small_bomb, 1, 1, &[]);
    let six: Vec<_> = (0..6).map(|n| (0, 10 + n, &table[..])).collect();
    add("six tables of level 0", with_tables(&six));
    for claimed in [u32::MAX, 1 << 31, 1 << 28] {
        let mut stored = Vec::new();
        put_varint32(&mut stored, claimed);
        stored.resize(1000, 0);
        add("snappy that claims much", with_tables(&[(1, 9, &table_of(&stored, 1, 1, &[]))]));
    }
    let entry = (internal_key(b"key", 1, KeyKind::Value), b"value".to_vec());
    let sound = block(&[entry]);
    let mut filter = vec![0xff; 900_000];
    filter.extend_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0]);
    let name = "filter.leveldb.BuiltinBloomFilter2";
    let odd = table_of(&sound, 0, 1, &[(name, filter), ("minikv.filter", vec![0xff; 1000])]);
    add("odd filters", with_tables(&[(1, 9, &odd)]));
    let mut huge = table_of(&sound, 0, 1, &[]);
    let at = huge.len() - 48;
    let mut handles = Vec::new();
    for number in [0, u64::MAX >> 1, 1 << 62, 1 << 31] {
        put_varint64(&mut handles, number);
    }
    huge[at..at + handles.len()].copy_from_slice(&handles);
    add("handles near 2^63", with_tables(&[(1, 9, &huge)]));
    let mut restarts = vec![0; 900_000];
    restarts.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    add("restarts without number", with_tables(&[(1, 9, &table_of(&restarts, 0, 1, &[]))]));
    let noise: Vec<u8> = (0..INPUT_BYTES as u64).map(|i| ((i * i) >> 7) as u8).collect();
    add("noise for a table", with_tables(&[(1, 9, &noise)]));
    add("noise for a log", with_log(noise));
    cases
}

/// Scans, verifies, writes and repairs a database. Returns, for each of these four uses, whether it
/// succeeded.
fn use_it(fs: &MemFs) -> [bool; 4] {
    let scan = |db: minikv::ReadOnlyDb| -> minikv::Result<usize> {
        for entry in db.iter() {
            entry?;
        }
        for entry in db.iter().rev() {
            entry?;
        }
        db.get("k").map(|value| value.map_or(0, |value| value.len()))
    };
    let write = |fs: &MemFs| -> minikv::Result<()> {
        let db = Db::open(DIR, options(fs))?;
        db.put("new", "1")?;
        for entry in db.iter() {
            entry?;
        }
        db.compact_range(..)
    };
    let scanned = Db::open_read_only(DIR, options(fs)).and_then(scan).is_ok();
    let verified = minikv::verify(DIR, &options(fs)).is_ok_and(|report| report.is_sound());
    let copy = load(&files_of(fs));
    let written = write(&copy).is_ok();
    drop(copy);
    let repaired = minikv::repair(DIR, &options(fs), RepairOptions::default()).is_ok();
    [scanned, verified, written, repaired]
}

#[test]
fn hostile_files_of_a_mebibyte_take_at_most_128_mib() {
    let _alone = alone();
    let mut worst = (0, "");
    for (what, files) in cases() {
        let bytes: usize = files.values().map(Vec::len).sum();
        assert!(bytes <= INPUT_BYTES + 200_000 || what.contains("table"), "{what}: {bytes} bytes");
        let fs = load(&files);
        drop(files);
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let outcomes = use_it(&fs);
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        println!(
            "{:6.1} MiB for {bytes:7} bytes: {what}; scan, verify, write, repair: {outcomes:?}",
            peak as f64 / f64::from(1 << 20)
        );
        worst = worst.max((peak, what));
        assert!(outcomes[3], "{what}: repair failed");
        // The inputs with these names are valid, so a scan must succeed.
        let is_read = matches!(what, "a bomb" | "empty keys deleted" | "six tables of level 0");
        assert!(outcomes[0] || !is_read, "{what}: not read");
        let is_refused = what == "one table at each level";
        assert!(outcomes[..3] == [false; 3] || !is_refused, "{what}: {outcomes:?}");
    }
    let (peak, what) = worst;
    assert!(peak <= LIMIT_BYTES, "{} MiB: {what}", peak >> 20);
    // At least one input takes several megabytes, which shows that the measurement works.
    assert!(peak > 4 << 20, "{peak} bytes: {what}");
}
