//! One test for each kind of event that can change the files read by a follower.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use minikv::bulk::TableWriter;
use minikv::fs::sim::SimFs;
use minikv::fs::{DiskFs, Fs};
use minikv::{Comparator, Db, Error, Options, Readable, WriteBatch, WriteOptions, destroy};

use crate::{DIR, entries, of_iter, options};

fn logs(fs: &dyn Fs, dir: &Path) -> Vec<String> {
    let mut names = fs.list(dir).unwrap();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names
}

#[test]
fn a_preallocated_log_on_the_disk_is_followed_record_by_record() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let writer = Db::open(dir.path(), options.clone()).unwrap();
    let follower = Db::open_read_only(dir.path(), options).unwrap();
    for number in 0..3000u32 {
        // Some records take more than a block, or end close to the end of a block.
        let len = if number % 200 == 0 { 70_000 } else { number as usize % 300 };
        writer.put(number.to_be_bytes(), vec![number as u8; len]).unwrap();
        if number % 3 == 0 {
            let refreshed = follower.refresh().unwrap();
            assert_eq!(refreshed.sequence, u64::from(number) + 1);
            assert!(refreshed.changed && !refreshed.restarted, "{number}: {refreshed:?}");
            let value = follower.get(number.to_be_bytes()).unwrap().unwrap();
            assert_eq!((value.len(), value.last()), (len, vec![number as u8; len].last()));
        }
    }
    let path = dir.path().join(&logs(&DiskFs, dir.path())[0]);
    let written = std::fs::read(path).unwrap();
    assert!(written.ends_with(&[0; 5000]), "the log is not preallocated here");
    assert!(!follower.refresh().unwrap().restarted);
    assert!(!follower.refresh().unwrap().changed);
    assert_eq!(entries(&follower).len(), 3000);
    // Closing the writer cuts off the zeros at the end of the log.
    drop(writer);
    assert!(!follower.refresh().unwrap().changed);
}

#[test]
fn iterators_and_snapshots_keep_their_view() {
    let fs = SimFs::new(1);
    let writer = Db::open(DIR, options(&fs, 1)).unwrap();
    for number in 0..200 {
        writer.put(format!("{number:03}"), [1; 50]).unwrap();
    }
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let clone = follower.clone();
    let (mut iter, snapshot) = (follower.iter(), follower.snapshot());
    let mut cursor = follower.cursor().unwrap();
    assert!(cursor.seek("100").unwrap());
    let first = iter.next().unwrap().unwrap();
    for number in 0..200 {
        writer.put(format!("{number:03}"), [2; 60]).unwrap();
        writer.delete(format!("{number:03}")).unwrap();
    }
    writer.put("new", "new").unwrap();
    writer.compact_range(..).unwrap();
    assert!(follower.refresh().unwrap().changed);
    assert_eq!(of_iter(clone.iter()), [(b"new".to_vec(), b"new".to_vec())]);
    assert_eq!(first.1, [1; 50][..]);
    assert!(of_iter(iter).iter().all(|(_, value)| *value == [1; 50]));
    assert_eq!(of_iter(snapshot.iter()).len(), 200);
    assert_eq!(snapshot.get("100").unwrap().as_deref(), Some(&[1; 50][..]));
    assert_eq!((cursor.key(), cursor.value()), (&b"100"[..], &[1; 50][..]));
    assert!(cursor.prev().unwrap() && cursor.key() == b"099");
    // A snapshot also keeps open a table that nobody has read before the writer removes it.
    writer.put("late", "1").unwrap();
    writer.flush().unwrap();
    follower.refresh().unwrap();
    let late = follower.snapshot();
    writer.delete("late").unwrap();
    writer.compact_range(..).unwrap();
    assert_eq!(late.get("late").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_refresh_sees_a_prefix_whatever_the_writer_does_between_two_of_its_operations() {
    for (at, puts) in (0..40).flat_map(|at| [1, 3, 9, 30].map(|puts| (at, puts))) {
        let fs = SimFs::new(1);
        let options = options(&fs, at).manifest_rotate_bytes(1 << 30);
        let writer = Db::open(DIR, options.clone()).unwrap();
        let (ingester, of_tables) = (writer.clone(), options.clone());
        let put = move |number: u64| writer.put(format!("{number:03}"), [7; 300]).unwrap();
        let before = 3 + at % 7;
        (0..before).for_each(&put);
        let follower = Db::open_read_only(DIR, options).unwrap();
        put(before);
        // Operations of the writer itself are not counted.
        let (count, is_writing) = (AtomicU64::new(0), AtomicBool::new(false));
        let ingest = move |number: u64| {
            let tables = format!("/tables{number}");
            let mut tables = TableWriter::create(tables, &of_tables).unwrap();
            tables.put(format!("{number:03}"), [7; 300]).unwrap();
            ingester.ingest(&tables.finish().unwrap()).unwrap();
        };
        fs.set_hook(move |_| {
            if !is_writing.load(Relaxed) && count.fetch_add(1, Relaxed) == at {
                is_writing.store(true, Relaxed);
                for number in before + 1..=before + puts {
                    if number % 10 == 7 { ingest(number) } else { put(number) }
                }
                is_writing.store(false, Relaxed);
            }
        });
        let refreshed = follower.refresh().unwrap();
        assert!(!refreshed.restarted || puts > 3, "at {at}, {puts} puts");
        let shown = entries(&follower);
        fs.clear_hook();
        let count = shown.len() as u64;
        let expected = (0..count).map(|number| format!("{number:03}").into_bytes());
        assert!(shown.into_iter().map(|(key, _)| key).eq(expected), "at {at}, {puts} puts");
        assert!(count > before, "at {at}, {puts} puts: {count}");
        follower.refresh().unwrap();
        assert!(entries(&follower).len() as u64 >= count);
    }
}

/// A reader that had read the MANIFEST before a `resume` and listed the logs after it used to show
/// the failed write together with the writes that got its sequence number.
#[test]
fn a_failed_write_is_never_shown_beside_the_writes_after_a_resume() {
    use minikv::fs::sim::{Fault, OpKind};
    let cases = [(false, false), (false, true), (true, false), (true, true)];
    for (at, (begun, follows)) in (0..40).flat_map(|at| cases.map(|case| (at, case))) {
        let fs = SimFs::new(1);
        let options = options(&fs, 1).keep_logs_bytes(1 << 20);
        let writer = Db::open(DIR, options.clone()).unwrap();
        writer.put("a", "1").unwrap();
        let follower = follows.then(|| Db::open_read_only(DIR, options.clone()).unwrap());
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        writer.writing(WriteOptions::default().sync(true)).put("failed", "2").unwrap_err();
        if begun {
            // A resume that begins a log and then fails, so that the MANIFEST needs both logs.
            fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb"));
            writer.resume().unwrap_err();
        }
        let go_on = move || {
            writer.resume().unwrap();
            writer.put("b", "3").unwrap();
        };
        let (hooked, count) = (go_on.clone(), Arc::new(AtomicU64::new(0)));
        let (counted, is_writing) = (count.clone(), AtomicBool::new(false));
        fs.set_hook(move |_| {
            if !is_writing.load(Relaxed) && counted.fetch_add(1, Relaxed) == at {
                is_writing.store(true, Relaxed);
                hooked();
                is_writing.store(false, Relaxed);
            }
        });
        let follower = match follower {
            None => Db::open_read_only(DIR, options).unwrap(),
            Some(follower) => {
                follower.refresh().unwrap();
                follower
            }
        };
        let has = |key| follower.contains_key(key).unwrap();
        let case = format!("at {at}, begun: {begun}, follows: {follows}");
        assert!(!has("failed") || !has("b"), "{case}");
        fs.clear_hook();
        if count.load(Relaxed) <= at {
            go_on();
        }
        follower.refresh().unwrap();
        assert!(has("a") && has("b") && !has("failed"), "{case}");
    }
}

#[test]
fn damage_in_a_log_is_an_error_that_names_it_and_the_view_stays() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).write_buffer_bytes(1 << 20);
    let writer = Db::open(DIR, options.clone()).unwrap();
    writer.put("1", "1").unwrap();
    let follower = Db::open_read_only(DIR, options).unwrap();
    let path = Path::new(DIR).join(&logs(&fs, Path::new(DIR))[0]);
    let end = fs.len(&path).unwrap();
    for number in 2..100 {
        writer.put(number.to_string(), [7; 1000]).unwrap();
    }
    fs.damage(&path, end + 100, 1).unwrap();
    for _ in 0..2 {
        let error = follower.refresh().unwrap_err();
        let text = error.to_string();
        assert!(error.is_corruption() && text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains(&format!("at {end}")) || text.contains(&end.to_string()), "{text}");
        assert_eq!(entries(&follower), [(b"1".to_vec(), b"1".to_vec())]);
    }
    // The damage does not affect the writer, which has all entries in memory. Its flush writes them
    // to a table and removes the log.
    writer.flush().unwrap();
    assert!(follower.refresh().unwrap().changed);
    assert_eq!(entries(&follower).len(), 99);
}

#[test]
fn a_database_in_the_place_of_another_is_noticed_even_if_all_its_names_and_sizes_are_the_same() {
    let fs = SimFs::new(1);
    let make = |value: u8| {
        let writer = Db::open(DIR, options(&fs, 1)).unwrap();
        for number in 0..100 {
            writer.put(format!("{number:03}"), [value; 50]).unwrap();
        }
        writer.flush().unwrap();
        writer
    };
    let names = || fs.list(Path::new(DIR)).unwrap();
    let writer = make(1);
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let (before, held) = (names(), follower.iter());
    drop(writer);
    destroy(DIR, &options(&fs, 1)).unwrap();
    let writer = make(2);
    assert_eq!(names(), before);
    assert!(follower.refresh().unwrap().restarted);
    assert!(entries(&follower).iter().all(|(_, value)| *value == [2; 50]));
    assert_eq!(of_iter(held).len(), 100);
    // The new database is followed like any other.
    writer.put("new", "new").unwrap();
    let refreshed = follower.refresh().unwrap();
    assert_eq!((refreshed.restarted, refreshed.sequence), (false, 101));
    assert!(follower.contains_key("new").unwrap());
    drop(writer);
    destroy(DIR, &options(&fs, 1)).unwrap();
    let error = follower.refresh().unwrap_err();
    assert!(matches!(error, Error::DatabaseMissing { .. }), "{error}");
    assert!(follower.contains_key("new").unwrap());
}

#[test]
fn sequence_numbers_may_be_lower_in_the_database_that_takes_the_place() {
    let fs = SimFs::new(1);
    let mut writer = Db::open(DIR, options(&fs, 1)).unwrap();
    for number in 0..500 {
        writer.put(format!("{number:03}"), "old").unwrap();
    }
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    drop(writer);
    destroy(DIR, &options(&fs, 1)).unwrap();
    writer = Db::open(DIR, options(&fs, 1)).unwrap();
    writer.put("1", "new").unwrap();
    let refreshed = follower.refresh().unwrap();
    assert_eq!((refreshed.restarted, refreshed.sequence), (true, 1));
    assert_eq!(follower.sequence(), writer.sequence());
    let mut snapshots = Vec::new();
    for number in 2..200u64 {
        writer.put(number.to_string(), [7; 40]).unwrap();
        writer.delete((number - 1).to_string()).unwrap();
        let refreshed = follower.refresh().unwrap();
        assert_eq!(refreshed.sequence, 2 * number - 1);
        assert_eq!(entries(&follower), [(number.to_string().into_bytes(), vec![7; 40])]);
        snapshots.push((number, follower.snapshot()));
    }
    writer.compact_range(..).unwrap();
    follower.refresh().unwrap();
    for (number, snapshot) in snapshots {
        let shown = of_iter(snapshot.iter());
        assert_eq!(shown, [(number.to_string().into_bytes(), vec![7; 40])]);
    }
}

#[derive(Debug)]
struct Reversed;

impl Comparator for Reversed {
    fn name(&self) -> &str {
        "reversed"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn a_database_with_another_comparator_is_refused() {
    let fs = SimFs::new(1);
    drop(Db::open(DIR, options(&fs, 1)).unwrap());
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    destroy(DIR, &options(&fs, 1)).unwrap();
    drop(Db::open(DIR, options(&fs, 1).comparator(Reversed)).unwrap());
    let error = follower.refresh().unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("reversed"), "{error}");
}

#[test]
fn a_failure_to_read_is_reported_or_passes_and_the_view_stays() {
    use minikv::fs::sim::{Fault, OpKind};
    let fs = SimFs::new(1);
    let writer = Db::open(DIR, options(&fs, 1)).unwrap();
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let mut failed = 0;
    for number in 0..60u64 {
        writer.put(format!("{number:03}"), [7; 200]).unwrap();
        let before = entries(&follower);
        let kinds = [OpKind::Open, OpKind::Read, OpKind::Len, OpKind::List];
        let fault = Fault::io_error().on(&kinds).nth(1 + number % 12);
        fs.inject(if number % 2 == 0 { fault } else { fault.sticky() });
        let refreshed = follower.refresh();
        fs.clear_faults();
        match refreshed {
            Ok(_) => assert_eq!(entries(&follower).len() as u64, number + 1),
            Err(_) => {
                failed += 1;
                assert_eq!(entries(&follower), before);
            }
        }
        follower.refresh().unwrap();
        assert_eq!(entries(&follower).len() as u64, number + 1);
    }
    assert!(failed > 10, "{failed} of 60 refreshes failed");
}

#[test]
fn follow_yields_when_something_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let writer = Db::open(dir.path(), options.clone()).unwrap();
    let follower = Db::open_read_only(dir.path(), options).unwrap();
    let sum = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            for refreshed in follower.follow(Duration::from_millis(1)) {
                let refreshed = refreshed.unwrap();
                assert!(refreshed.changed && refreshed.sequence >= last);
                last = refreshed.sequence;
                // Either both keys of a batch are visible, or neither is.
                let values = follower.multi_get(&["a", "b"]).unwrap();
                assert_eq!(values[0], values[1]);
                if last == 200 {
                    break;
                }
            }
            last
        });
        for number in 0..100u32 {
            let mut batch = WriteBatch::new();
            batch.put("a", number.to_be_bytes());
            batch.put("b", number.to_be_bytes());
            let options = WriteOptions::default().sync(number % 10 == 0);
            writer.writing(options).write(batch).unwrap();
        }
        reader.join().unwrap()
    });
    assert_eq!(sum, 200);
}
