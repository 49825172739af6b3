//! Compaction filters: the entries that they remove and change, and the readers that must not see
//! these changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use minikv::fs::sim::CrashPlan;
use minikv::fs::{MemFs, SimFs};
use minikv::{
    CompactionDecision, Compression, Db, Error, HealthState, Options, Readable, Snapshot,
    Transaction,
};

use crate::{small, soon};

type Contents = BTreeMap<String, String>;

fn key(i: u32) -> String {
    format!("key{i:06}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn contents(db: &Db) -> Contents {
    db.iter().map(Result::unwrap).map(|(key, value)| (text(&key), text(&value))).collect()
}

fn shown(snapshot: &Snapshot) -> Contents {
    let entries = snapshot.iter().map(Result::unwrap);
    entries.map(|(key, value)| (text(&key), text(&value))).collect()
}

/// Removes values that begin with "old", and puts "seen " before values that begin with "new".
fn rule(value: &[u8]) -> CompactionDecision {
    match value {
        [b'o', b'l', b'd', ..] => CompactionDecision::Remove,
        [b'n', b'e', b'w', ..] => CompactionDecision::Change([b"seen ", value].concat()),
        _ => CompactionDecision::Keep,
    }
}

fn after_rule(before: &Contents) -> Contents {
    let ruled = before.iter().filter_map(|(key, value)| match rule(value.as_bytes()) {
        CompactionDecision::Remove => None,
        CompactionDecision::Keep => Some((key.clone(), value.clone())),
        CompactionDecision::Change(new) => Some((key.clone(), text(&new))),
    });
    ruled.collect()
}

fn fill(db: &Db, count: u32) {
    for i in 0..count {
        let kind = ["old", "new", "other"][i as usize % 3];
        db.put(key(i), format!("{kind} {i} {i}")).unwrap();
    }
}

#[test]
fn a_compaction_removes_changes_and_keeps_as_the_filter_says() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let options = small().fs(MemFs::new()).compaction_filter(move |_, value| {
        count.fetch_add(1, Ordering::Relaxed);
        rule(value)
    });
    let db = Db::open("/db", options.clone()).unwrap();
    fill(&db, 6000);
    db.delete(key(2)).unwrap();
    db.put(key(1), "other, at last").unwrap();
    // Entries in memory, and in tables that no compaction has read, are unchanged.
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"other, at last"[..]));
    let mut expected = after_rule(&{
        let mut all: Contents = (0..6000)
            .map(|i| (key(i), format!("{} {i} {i}", ["old", "new", "other"][i as usize % 3])))
            .collect();
        all.remove(&key(2));
        all.insert(key(1), "other, at last".into());
        all
    });
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), expected);
    assert!(asked.load(Ordering::Relaxed) >= 5999 - 1);
    for i in 0..100 {
        let found = db.get(key(i)).unwrap().map(|value| text(&value));
        assert_eq!(found.as_ref(), expected.get(&key(i)), "{i}");
    }
    db.put(key(3), "old again").unwrap();
    db.flush().unwrap();
    assert!(db.get(key(3)).unwrap().is_some(), "a flush does not ask");
    db.close().unwrap();
    let db = Db::open("/db", options.clone()).unwrap();
    expected.insert(key(3), "old again".into());
    assert_eq!(contents(&db), expected);
    db.compact_range(key(0)..key(10)).unwrap();
    expected.remove(&key(3));
    assert_eq!(contents(&db), expected);
    db.close().unwrap();
    assert!(minikv::verify("/db", &options).unwrap().is_sound());
}

/// Checks that older versions in deeper levels stay hidden when the filter removes the newer entry.
#[test]
fn older_versions_in_deeper_levels_do_not_come_back() {
    let is_on = Arc::new(AtomicBool::new(false));
    let on = is_on.clone();
    let options = small().write_buffer_bytes(8 << 10).max_file_bytes(4 << 10);
    let options = options.fs(MemFs::new()).inline_background(Some(4));
    let options = options.compaction_filter(move |_, value| match on.load(Ordering::Relaxed) {
        true => rule(value),
        false => CompactionDecision::Keep,
    });
    let db = Db::open("/db", options).unwrap();
    for round in 0..3 {
        (0..3000).for_each(|i| db.put(key(i), format!("{round} kept {i}")).unwrap());
        db.compact_range(..).unwrap();
    }
    is_on.store(true, Ordering::Relaxed);
    // Compactions of the upper levels remove these values. The older versions of the keys are in
    // much deeper levels.
    for round in 0..8 {
        (0..300).for_each(|i| db.put(key(i * 10), format!("old {round} {i}")).unwrap());
        db.wait_idle().unwrap();
    }
    let stats = db.stats();
    assert!(stats.levels.iter().skip(2).any(|level| level.files > 0), "{:?}", stats.levels);
    for i in 0..3000 {
        let found = db.get(key(i)).unwrap().map(|value| text(&value));
        match i % 10 {
            0 => assert!(found.is_none_or(|value| value.starts_with("old 7")), "{i}"),
            _ => assert_eq!(found, Some(format!("2 kept {i}"))),
        }
    }
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 2700);
}

#[test]
fn entries_that_a_snapshot_an_iterator_or_a_cursor_shows_stay() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let taken: Arc<Mutex<Vec<(Snapshot, Contents)>>> = Arc::default();
    let (db_of, snapshots) = (own.clone(), taken.clone());
    let options = small().fs(MemFs::new()).compaction_filter(move |key, value| {
        // Takes more snapshots in the middle of the compaction.
        if key.ends_with(b"00")
            && let Some(db) = db_of.get()
        {
            let snapshot = db.snapshot();
            let then = shown(&snapshot);
            snapshots.lock().unwrap().push((snapshot, then));
        }
        rule(value)
    });
    let db = Db::open("/db", options).unwrap();
    fill(&db, 2000);
    let before = contents(&db);
    let (snapshot, iter) = (db.snapshot(), db.iter());
    let mut transaction = db.transaction();
    assert!(transaction.get(key(0)).unwrap().is_some());
    db.put(key(3), "old, after the snapshot").unwrap();
    db.compact_range(..).unwrap();
    // The filter was not called for the entries that the snapshot shows.
    let mut now = before.clone();
    now.remove(&key(3));
    assert_eq!(contents(&db), now);
    assert_eq!(shown(&snapshot), before);
    assert_eq!(iter.count(), 2000);
    transaction.put("conclusion", "1");
    transaction.commit().unwrap();
    drop(snapshot);
    own.set(db.clone()).unwrap();
    now.insert("conclusion".into(), "1".into());
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), after_rule(&now));
    let taken = std::mem::take(&mut *taken.lock().unwrap());
    assert!(taken.len() >= 10, "{} snapshots", taken.len());
    assert!(taken.iter().any(|(_, then)| *then == now), "all came after a change");
    for _ in 0..2 {
        for (snapshot, then) in &taken {
            assert_eq!(shown(snapshot), *then, "a snapshot changes");
        }
        db.compact_range(..).unwrap();
    }
}

/// Checks that snapshots and transactions that begin after the filter's changes show these changes,
/// even though no write separates them from a snapshot that was taken before and does not.
#[test]
fn a_snapshot_taken_after_a_change_shows_it_beside_one_from_before() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let taken: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let (db_of, first) = (own.clone(), taken.clone());
    let options = small().fs(MemFs::new()).compaction_filter(move |_, value| {
        if let Some(db) = db_of.get() {
            first.lock().unwrap().get_or_insert_with(|| db.snapshot());
        }
        rule(value)
    });
    let db = Db::open("/db", options).unwrap();
    fill(&db, 300);
    let before = contents(&db);
    own.set(db.clone()).unwrap();
    db.compact_range(..).unwrap();
    let earlier = taken.lock().unwrap().take().unwrap();
    let (now, later) = (after_rule(&before), db.snapshot());
    assert_eq!(contents(&db), now);
    assert_eq!(later.sequence(), earlier.sequence());
    assert_eq!((shown(&later), shown(&earlier)), (now.clone(), before.clone()));
    let mut seen = None;
    let update = |old: Option<&[u8]>| {
        seen = old.map(text);
        Some("updated")
    };
    db.update(key(1), update).unwrap();
    assert_eq!(seen, now.get(&key(1)).cloned());
    drop(earlier);
    db.compact_range(..).unwrap();
    assert_eq!(shown(&later), now);
}

#[test]
fn changes_by_the_filter_are_no_writes() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let begun: Arc<Mutex<Vec<Transaction>>> = Arc::default();
    let (db_of, transactions) = (own.clone(), begun.clone());
    let options = small().fs(MemFs::new()).inline_background(Some(4));
    let options = options.keep_logs_bytes(1 << 20).compaction_filter(move |key, value| {
        let Some(db) = db_of.get() else { return CompactionDecision::Keep };
        // The call of `rule` below removes the value of this key.
        if key == b"key000501" {
            let transaction = db.transaction();
            assert!(transaction.get(key).unwrap().is_some());
            assert_eq!(transaction.range(key..).count(), 999);
            transactions.lock().unwrap().push(transaction);
        }
        rule(value)
    });
    let db = Db::open("/db", options).unwrap();
    fill(&db, 1500);
    own.set(db.clone()).unwrap();
    let sequence = db.sequence();
    let before = db.transaction();
    assert!(before.get(key(0)).unwrap().is_some());
    before.commit().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 1000);
    assert_eq!(db.sequence(), sequence);
    assert_eq!(db.changes_since(sequence).unwrap().count(), 0);
    // The transaction has read keys that the filter removed or changed afterwards.
    let begun = std::mem::take(&mut *begun.lock().unwrap());
    assert_eq!(begun.len(), 1);
    for mut transaction in begun {
        transaction.put("conclusion", "1");
        transaction.commit().unwrap();
    }
    let changes: Vec<_> = db.changes_since(sequence).unwrap().map(Result::unwrap).collect();
    assert_eq!(changes.iter().map(|change| change.sequence()).collect::<Vec<_>>(), [sequence + 1]);
}

#[test]
fn a_panic_of_the_filter_is_an_error_and_loses_nothing() {
    let armed = Arc::new(AtomicBool::new(true));
    let trap = armed.clone();
    let options = small().fs(MemFs::new()).compaction_filter(move |key, value| {
        if trap.load(Ordering::Relaxed) && key.ends_with(b"777") {
            std::panic::resume_unwind(Box::new("the filter panics"));
        }
        rule(value)
    });
    let db = Db::open("/db", options).unwrap();
    fill(&db, 900);
    let before = contents(&db);
    let error = db.compact_range(..).unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("the filter panics"), "{error}");
    assert_eq!(contents(&db), before);
    assert!(matches!(db.health().state, HealthState::ReadOnly), "{:?}", db.health());
    assert!(matches!(db.put("a", "b"), Err(Error::ReadOnly { .. })));
    armed.store(false, Ordering::Relaxed);
    db.resume().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), after_rule(&before));
}

/// Checks that a compaction is abandoned soon after the database is closed or after one part of the
/// compaction has failed. Each full compaction in this test has two parts, which run one after the
/// other.
#[test]
fn a_compaction_is_given_up_when_the_database_is_closed_and_when_a_part_fails() {
    type Trap = fn(&Db);
    let close: Trap = |db| db.clone().close().unwrap();
    let fail: Trap = |_| std::panic::resume_unwind(Box::new("the filter panics"));
    for (trap, most) in [(close, 2000), (fail, 1)] {
        let own: Arc<OnceLock<Db>> = Arc::default();
        let asked = Arc::new(AtomicU32::new(0));
        let (db_of, count) = (own.clone(), asked.clone());
        let options = small().fs(MemFs::new()).inline_background(Some(4));
        let options = options.compaction_filter(move |_, _| {
            if let Some(db) = db_of.get()
                && count.fetch_add(1, Ordering::Relaxed) == 0
            {
                trap(db);
            }
            CompactionDecision::Keep
        });
        let db = Db::open("/db", options).unwrap();
        fill(&db, 10_000);
        db.flush().unwrap();
        let before = contents(&db);
        own.set(db.clone()).unwrap();
        let error = db.compact_range(..).unwrap_err();
        assert!(matches!(error, Error::Closed | Error::Panicked { .. }), "{error}");
        let asked = asked.load(Ordering::Relaxed);
        assert!((1..=most).contains(&asked), "asked for {asked} entries");
        assert_eq!(contents(&db), before);
    }
}

#[test]
fn after_a_crash_each_entry_is_as_it_was_put_or_as_the_filter_left_it() {
    let fs = SimFs::new(1);
    let options = |fs: &SimFs| -> Options {
        let options = small().fs(fs.clone()).preallocate_logs(false);
        options.inline_background(Some(4)).compaction_filter(|_, value| rule(value))
    };
    let db = Db::open("/db", options(&fs)).unwrap();
    fill(&db, 1000);
    db.flush().unwrap();
    let before = contents(&db);
    fs.record_history();
    let begins = fs.op_count();
    db.compact_range(..).unwrap();
    let done = after_rule(&before);
    assert_eq!(contents(&db), done);
    let (mut old, mut new) = (0, 0);
    for op in begins..=fs.op_count() {
        for plan in [CrashPlan::strict(), CrashPlan::everything(), CrashPlan::random(op)] {
            let image = fs.crash_image(&plan.at_op(op));
            let db = Db::open(Path::new("/db"), options(&image)).unwrap();
            let shown = contents(&db);
            old += u32::from(shown == before);
            new += u32::from(shown == done);
            for (key, value) in &before {
                let found = shown.get(key);
                assert!(found == Some(value) || found == done.get(key), "{key} at {op}");
            }
        }
    }
    assert!(old > 3 && new > 3, "{old} before, {new} after");
}

/// Checks that a filter that changes its own database gets an error instead of waiting for itself,
/// whether a background thread or a caller compacts, and that it may write to another database.
#[test]
fn a_filter_that_writes_to_its_own_database_gets_an_error() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let other = Db::open("/other", small().fs(MemFs::new())).unwrap();
    let errors: Arc<Mutex<Vec<Error>>> = Arc::default();
    let (db_of, copy, refused) = (own.clone(), other.clone(), errors.clone());
    let options = small().fs(MemFs::new()).compaction_filter(move |key, value| {
        if let Some(db) = db_of.get() {
            copy.put(key, value).unwrap();
            let mut tx = db.transaction();
            tx.put("counter", "1");
            let results = [
                db.put("counter", "1"),
                tx.commit(),
                db.flush(),
                db.wait_idle(),
                db.compact_range(..),
                db.delete_range("a".."b").map(drop),
                db.resume(),
                db.clone().close(),
            ];
            refused.lock().unwrap().extend(results.map(Result::unwrap_err));
            assert!(db.get(key).unwrap().is_some(), "a filter may read");
        }
        CompactionDecision::Keep
    });
    let db = Db::open("/db", options).unwrap();
    own.set(db.clone()).unwrap();
    let (done, finished) = mpsc::channel();
    let _ends_or_hangs = std::thread::spawn(move || {
        fill(&db, 900);
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        done.send(contents(&db).len()).unwrap();
    });
    let left = finished.recv_timeout(Duration::from_secs(60)).expect("it returns");
    assert!(left > 0 && other.iter().count() == left, "{left} entries");
    for error in errors.lock().unwrap().iter() {
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains("compaction filter"), "{error}");
    }
}

/// Checks that a filter can drop the last handle of its database in a thread that merges a part of
/// a compaction. The thread that compacts waits for that part.
#[test]
fn a_filter_may_drop_the_last_handle_of_its_database() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return; // a compaction then has a single part
    }
    let fs = MemFs::new();
    let place: Arc<Mutex<Option<Db>>> = Arc::default();
    let (leave, is_last) = mpsc::channel();
    let (dropped, is_dropped) = mpsc::channel();
    let (inside, is_last) = (place.clone(), Mutex::new(is_last));
    let options = small().fs(fs.clone()).write_buffer_bytes(1 << 20);
    let options = options.compression(Compression::None).compaction_filter(move |_, _| {
        if std::thread::current().name() == Some("minikv-merge") {
            let last = inside.lock().unwrap().take();
            if let Some(db) = last {
                is_last.lock().unwrap().recv().unwrap();
                drop(db);
                dropped.send(()).unwrap();
            }
        }
        CompactionDecision::Keep
    });
    let db = Db::open("/db", options).unwrap();
    *place.lock().unwrap() = Some(db.clone());
    // Four tables of level 0 are due for a compaction.
    for round in 0..4u8 {
        (0..1000).for_each(|i| db.put(key(i), [round; 100]).unwrap());
        db.flush().unwrap();
    }
    drop(db);
    leave.send(()).unwrap();
    is_dropped.recv_timeout(Duration::from_secs(60)).expect("the handle is dropped");
    let mut reopened = None;
    soon("the directory stays locked", || {
        let opened = Db::open("/db", small().fs(fs.clone()));
        let is_locked = matches!(opened, Err(Error::Locked { .. }));
        if !is_locked {
            reopened = Some(opened.unwrap());
        }
        !is_locked
    });
    let db = reopened.unwrap();
    assert_eq!(db.iter().count(), 1000);
    assert_eq!(db.get(key(7)).unwrap().unwrap(), [3; 100][..]);
}

/// A comparator that writes to a database from inside each comparison.
#[derive(Debug)]
struct Writing {
    to: Arc<OnceLock<Db>>,
    results: Arc<Mutex<Vec<minikv::Result<()>>>>,
}

impl minikv::Comparator for Writing {
    fn name(&self) -> &str {
        "test.Writing"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if let Some(db) = self.to.get() {
            self.results.lock().unwrap().push(db.put("counter", "1"));
        }
        a.cmp(b)
    }
}

/// A filter of the first database uses a second one, whose comparator writes to the first: the
/// compaction of the first would wait for itself.
#[test]
fn a_callback_within_a_callback_of_another_database_gets_the_error_too() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let results: Arc<Mutex<Vec<_>>> = Arc::default();
    let comparator = Writing { to: own.clone(), results: results.clone() };
    let on_other = small().fs(MemFs::new()).comparator(comparator);
    let other = Db::open("/other", on_other).unwrap();
    other.put("0", "").unwrap();
    let is_ready = own.clone();
    let options = small().fs(MemFs::new()).compaction_filter(move |key, value| {
        if is_ready.get().is_some() {
            other.put(key, value).unwrap();
            // The read, unlike the put, compares keys.
            assert!(other.first_key_value().unwrap().is_some());
        }
        CompactionDecision::Keep
    });
    let db = Db::open("/db", options).unwrap();
    own.set(db.clone()).unwrap();
    // Two tables of the same keys are merged rather than moved.
    for _ in 0..2 {
        (0..100u32).for_each(|i| db.put(format!("key{i:05}"), "value").unwrap());
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    let results = results.lock().unwrap();
    assert!(results.len() > 50, "{}", results.len());
    for result in results.iter() {
        assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{result:?}");
    }
}

/// The filter of one database compacts another one, whose filter writes to the first. The second
/// filter is called in another thread, for which the first one waits.
#[test]
fn a_filter_of_a_compaction_that_a_filter_asked_for_gets_the_error_too() {
    let own: Arc<OnceLock<Db>> = Arc::default();
    let results: Arc<Mutex<Vec<_>>> = Arc::default();
    let (first, kept) = (own.clone(), results.clone());
    let on_other = small().fs(MemFs::new()).compaction_filter(move |_, _| {
        if let Some(db) = first.get() {
            kept.lock().unwrap().push(db.put("counter", "1"));
        }
        CompactionDecision::Keep
    });
    let other = Db::open("/other", on_other).unwrap();
    fill(&other, 300);
    let is_ready = own.clone();
    let options = small().fs(MemFs::new()).compaction_filter(move |key, _| {
        if is_ready.get().is_some() && key == b"key000000" {
            other.compact_range(..).unwrap();
        }
        CompactionDecision::Keep
    });
    let db = Db::open("/db", options).unwrap();
    fill(&db, 300);
    own.set(db.clone()).unwrap();
    db.compact_range(..).unwrap();
    let results = results.lock().unwrap();
    assert!(results.len() >= 300, "{}", results.len());
    for result in results.iter() {
        assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{result:?}");
    }
}
