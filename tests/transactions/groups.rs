//! Transactions in the queue of writers. They share a sync, but each is checked for conflicts on
//! its own.

use std::cmp;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use minikv::fs::sim::{OpKind, SimFs};
use minikv::{
    Comparator, Db, Error, HealthState, Options, Readable, Result, Transaction, WriteOptions,
};

use crate::text;

/// A database in which the next sync of the log can be held until all writers have arrived.
struct Scene {
    fs: SimFs,
    db: Db,
    arrived: Arc<AtomicUsize>,
}

impl Scene {
    fn new(options: Options) -> Scene {
        let fs = SimFs::new(1);
        let db = Db::open("/db", options.create_if_missing(true).fs(fs.clone())).unwrap();
        db.writing(synced()).put("0", "first").unwrap();
        Scene { fs, db, arrived: Arc::default() }
    }

    /// Holds the next sync of the log until `writers` writers have arrived. Then calls `then` and
    /// lets the sync continue.
    fn hold(&self, writers: usize, then: impl Fn() + Send + Sync + 'static) {
        let (arrived, syncs) = (self.arrived.clone(), AtomicUsize::new(0));
        self.fs.set_hook(move |operation| {
            let is_log = operation.path.extension().is_some_and(|extension| extension == "log");
            if operation.kind != OpKind::Sync || !is_log || syncs.fetch_add(1, SeqCst) > 0 {
                return;
            }
            while arrived.load(SeqCst) < writers {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(120));
            then();
        });
    }

    /// Commits the transactions in threads of their own, behind a plain write of `first` whose sync
    /// is held. Returns the results of the transactions.
    fn commit(&self, first: &str, transactions: Vec<Transaction>) -> Vec<Result<()>> {
        thread::scope(|scope| {
            let leader = scope.spawn(|| self.db.writing(synced()).put(first, "plain"));
            thread::sleep(Duration::from_millis(120));
            let commit = |tx: Transaction| {
                scope.spawn(move || {
                    self.arrived.fetch_add(1, SeqCst);
                    tx.writing(synced()).commit()
                })
            };
            let threads: Vec<_> = transactions.into_iter().map(commit).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            leader.join().unwrap().unwrap();
            results
        })
    }
}

fn synced() -> WriteOptions {
    WriteOptions::default().sync(true)
}

/// Returns an uncommitted transaction that has read the keys `read` and written the keys `written`.
fn reads_and_writes(db: &Db, read: &[&str], written: &[&str]) -> Transaction {
    let mut tx = db.transaction();
    read.iter().for_each(|key| drop(tx.get(key).unwrap()));
    written.iter().for_each(|key| tx.put(key, "transaction"));
    tx
}

#[test]
fn synced_transactions_share_a_sync() {
    let scene = Scene::new(Options::default());
    let keys: Vec<String> = (1..=8).map(|number| number.to_string()).collect();
    let transaction = |key: &String| reads_and_writes(&scene.db, &[key, "read"], &[key]);
    let transactions: Vec<_> = keys.iter().map(transaction).collect();
    let before = scene.db.stats();
    scene.hold(transactions.len(), || {});
    let results = scene.commit("plain", transactions);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let after = scene.db.stats();
    assert_eq!(after.wal_syncs - before.wal_syncs, 2, "one for the plain write, one for the group");
    assert_eq!(after.commit_groups - before.commit_groups, 2);
    assert_eq!(scene.db.iter().count(), 10);
}

#[test]
fn of_two_transactions_in_a_group_that_read_each_others_writes_one_is_refused() {
    let mut winners = [0, 0];
    for _ in 0..6 {
        let scene = Scene::new(Options::default());
        let pair = vec![
            reads_and_writes(&scene.db, &["a"], &["b", "first"]),
            reads_and_writes(&scene.db, &["b"], &["a", "second"]),
            reads_and_writes(&scene.db, &["unrelated"], &["third"]),
        ];
        scene.hold(pair.len(), || {});
        let results = scene.commit("plain", pair);
        let winner = match &results[..] {
            [Ok(()), Err(Error::Conflict { key, .. }), Ok(())] if key == "b" => 0,
            [Err(Error::Conflict { key, .. }), Ok(()), Ok(())] if key == "a" => 1,
            _ => panic!("{results:?}"),
        };
        winners[winner] += 1;
        let written = ["first", "second"].map(|key| scene.db.contains_key(key).unwrap());
        assert_eq!(written, [winner == 0, winner == 1], "the other wrote nothing");
        assert!(scene.db.contains_key("third").unwrap(), "a refusal is not everybody's");
    }
    println!("{winners:?}");
}

/// Checks that a transaction conflicts with a write that is still in progress when the transaction
/// enters the queue. Transactions are checked for conflicts before they enter the queue, and again
/// when their turn comes.
#[test]
fn a_write_that_was_under_way_is_seen() {
    for by_range in [false, true] {
        let scene = Scene::new(Options::default());
        let mut tx = scene.db.transaction();
        match by_range {
            false => assert!(tx.get("plain").unwrap().is_none()),
            true => assert_eq!(tx.range("p".."q").count(), 0),
        }
        tx.put("written", "");
        scene.hold(1, || {});
        let results = scene.commit("plain", vec![tx]);
        assert!(matches!(&results[0], Err(Error::Conflict { key, .. }) if key == "plain"));
        assert_eq!(text(scene.db.get("plain").unwrap()), "plain");
        assert!(scene.db.get("written").unwrap().is_none());
    }
}

/// Byte order that panics while the trap is set.
#[derive(Debug)]
struct TrapOrder(Arc<AtomicBool>);

impl Comparator for TrapOrder {
    fn name(&self) -> &str {
        "test.TrapOrder"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> cmp::Ordering {
        if self.0.load(SeqCst) {
            std::panic::resume_unwind(Box::new("the trap was sprung"));
        }
        a.cmp(b)
    }
}

#[test]
fn a_comparator_that_panics_in_a_check_stops_writes_and_nobody_waits_for_ever() {
    let trap = Arc::new(AtomicBool::new(false));
    let scene = Scene::new(Options::default().comparator(TrapOrder(trap.clone())));
    let keys = ["1", "2", "3"];
    let transactions = keys.map(|key| reads_and_writes(&scene.db, &["read"], &[key]));
    let armed = trap.clone();
    scene.hold(keys.len(), move || armed.store(true, SeqCst));
    let results = scene.commit("plain", transactions.into());
    for result in &results {
        assert!(
            matches!(result, Err(Error::Panicked { .. } | Error::ReadOnly { .. })),
            "{result:?}"
        );
    }
    trap.store(false, SeqCst);
    assert_eq!(scene.db.health().state, HealthState::ReadOnly);
    scene.db.resume().unwrap();
    assert_eq!(scene.db.iter().count(), 2);
    reads_and_writes(&scene.db, &["read"], &["1"]).commit().unwrap();
}
