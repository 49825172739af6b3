//! Tests of truncating logs to their records, of syncing logs, and of the logs that a process
//! leaves when it ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minikv::files::Tail;
use minikv::fs::sim::{CrashPlan, Fault, Lack, OpKind, SimFs};
use minikv::fs::{DiskFs, FileLock, Fs, LockHolder, MemFs, ReadFile, WriteFile};
use minikv::internals::log::of_batches;
use minikv::{Db, WriteOptions};

use crate::{small, soon};

type Events = Arc<Mutex<Vec<&'static str>>>;

/// A filesystem in memory that records what happens to logs and to the lock.
#[derive(Debug, Default)]
struct NotingFs {
    inner: MemFs,
    events: Events,
    /// Whether logs cannot be truncated.
    refuses_trims: bool,
}

/// A log or a lock that records when it is dropped.
#[derive(Debug)]
struct Noting<T> {
    inner: T,
    end: &'static str,
    events: Events,
    refuses_trims: bool,
}

impl<T> Noting<T> {
    fn note(&self, event: &'static str) {
        self.events.lock().unwrap().push(event);
    }
}

impl<T> Drop for Noting<T> {
    fn drop(&mut self) {
        self.note(self.end);
    }
}

impl FileLock for Noting<Box<dyn FileLock>> {}

impl WriteFile for Noting<Box<dyn WriteFile>> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.note("sync");
        self.inner.sync()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn trim(&mut self) -> io::Result<bool> {
        self.note("trim");
        if self.refuses_trims { Err(io::ErrorKind::StorageFull.into()) } else { Ok(true) }
    }
}

impl Fs for NotingFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.inner.create(path)
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = self.inner.create_log(path)?;
        let (end, events, refuses_trims) =
            ("end of a log", self.events.clone(), self.refuses_trims);
        Ok(Box::new(Noting { inner, end, events, refuses_trims }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.inner.append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.inner.len(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        let events = self.events.clone();
        let noting = |inner| {
            let lock = Noting { inner, end: "unlock", events, refuses_trims: false };
            Box::new(lock) as Box<dyn FileLock>
        };
        Ok(self.inner.lock(path)?.map(noting))
    }
}

/// Checks that logs are dropped before the lock is released. A log is truncated to its records when
/// it is dropped; after the release, another process may already have appended to the log.
#[test]
fn logs_are_done_with_before_the_lock_is_given_up() {
    for (puts, close, snapshot) in
        [(10, false, false), (10, true, false), (5000, false, false), (5000, true, true)]
    {
        let fs = NotingFs::default();
        let events = fs.events.clone();
        let db = Db::open("/db", small().fs(fs)).unwrap();
        for i in 0..puts {
            db.put(format!("{i:05}"), [b'v'; 100]).unwrap();
        }
        let held = snapshot.then(|| db.snapshot());
        match close {
            true => db.close().unwrap(),
            false => drop(db),
        }
        drop(held);
        let events = events.lock().unwrap();
        assert!(events.contains(&"end of a log"));
        let unlocked: Vec<_> = (0..events.len()).filter(|&at| events[at] == "unlock").collect();
        assert_eq!(unlocked, [events.len() - 1], "{puts} puts, closed: {close}: {events:?}");
    }
}

#[test]
fn close_cuts_the_log_and_makes_that_durable() {
    for synced in [false, true] {
        let fs = NotingFs::default();
        let events = fs.events.clone();
        let db = Db::open("/db", small().fs(fs)).unwrap();
        db.writing(WriteOptions::default().sync(synced)).put("key", "value").unwrap();
        events.lock().unwrap().clear();
        db.close().unwrap();
        let events = events.lock().unwrap();
        assert_eq!(events[..2], ["trim", "sync"], "{events:?}");
    }
}

#[test]
fn close_syncs_a_log_that_cannot_be_cut() {
    let fs = NotingFs { refuses_trims: true, ..NotingFs::default() };
    let events = fs.events.clone();
    let db = Db::open("/db", small().fs(fs)).unwrap();
    db.put("key", "value").unwrap();
    events.lock().unwrap().clear();
    db.close().unwrap();
    let events = events.lock().unwrap();
    assert_eq!(events[..2], ["trim", "sync"], "{events:?}");
}

fn logs(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

#[test]
fn a_log_that_was_never_synced_is_closed_and_removed_once_its_records_are_in_tables() {
    let fs = SimFs::new(1);
    fs.set_lack(Lack::NamesOfOpenFiles);
    let db = Db::open("/db", small().fs(fs.clone())).unwrap();
    let old = fs.list(Path::new("/db")).unwrap().into_iter().find(|name| name.ends_with(".log"));
    let old = Path::new("/db").join(old.unwrap());
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    soon("the log is still there", || !fs.exists(&old).unwrap());
}

/// Reads a log to which other threads may be writing. Returns the number of records, and the state
/// of the end of the log.
fn read(path: &Path) -> (usize, Tail) {
    let mut reader = of_batches(DiskFs.open(path).unwrap(), path).unwrap();
    let mut records = 0;
    while reader.next().unwrap().is_some() {
        records += 1;
    }
    (records, reader.tail())
}

#[test]
fn logs_that_are_not_preallocated_end_with_their_last_record() {
    for preallocate in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().write_buffer_bytes(8 << 20).preallocate_logs(preallocate);
        let db = Db::open(dir.path(), options).unwrap();
        let mut ended_clean = true;
        for i in 0..2000usize {
            let value = vec![b'v'; [10, 100, 3000, 50_000][i / 500]];
            let sync = WriteOptions::default().sync(i % 500 < 20);
            db.writing(sync).put(format!("{i:05}"), value).unwrap();
            if i % 100 == 0 {
                // The next log may have been created already; it is empty.
                let begun = |path: &PathBuf| path.metadata().unwrap().len() > 0;
                let path = logs(dir.path()).into_iter().rfind(begun).unwrap();
                ended_clean &= read(&path) == (i + 2, Tail::Clean);
            }
            if i == 1600 {
                break;
            }
        }
        assert!(ended_clean || preallocate);
    }
}

#[test]
fn a_sync_is_one_sync_of_the_log_and_none_if_all_is_durable() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", small().fs(fs.clone())).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    for syncs in [1, 0] {
        let (before, syncs_before) = (fs.counts().of(OpKind::Sync), db.stats().wal_syncs);
        db.sync().unwrap();
        assert_eq!(fs.counts().of(OpKind::Sync) - before, syncs);
        assert_eq!(db.stats().wal_syncs - syncs_before, syncs);
    }
    // The first of the eight threads syncs. The others find nothing left to sync.
    db.put("c", "3").unwrap();
    let before = db.stats().wal_syncs;
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(|| db.sync().unwrap()))));
    assert_eq!(db.stats().wal_syncs - before, 1);
    let crashed = fs.crash_image(&CrashPlan::strict());
    let db = Db::open("/db", small().fs(crashed)).unwrap();
    assert_eq!(db.iter().count(), 3);
}

/// Checks that writers that request a sync while another sync is running share the syncs that
/// follow, instead of each causing a sync of its own.
#[test]
fn writers_that_wait_for_a_sync_share_the_next_one() {
    const WRITERS: usize = 12;
    let fs = SimFs::new(1);
    let db = Db::open("/db", small().fs(fs.clone())).unwrap();
    db.put("first", "1").unwrap();
    let (writing, is_syncing) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (others, begun) = (writing.clone(), is_syncing.clone());
    fs.set_hook(move |operation| {
        if operation.kind != OpKind::Sync || begun.swap(true, Relaxed) {
            return;
        }
        while others.load(Relaxed) < WRITERS {
            std::thread::yield_now();
        }
        // Gives the writers time to reach the queue.
        std::thread::sleep(Duration::from_millis(100));
    });
    let before = db.stats().wal_syncs;
    std::thread::scope(|scope| {
        scope.spawn(|| db.sync().unwrap());
        while !is_syncing.load(Relaxed) {
            std::thread::yield_now();
        }
        for i in 0..WRITERS {
            let (db, writing) = (&db, &writing);
            scope.spawn(move || {
                writing.fetch_add(1, Relaxed);
                db.put(format!("key{i}"), "1").unwrap();
                db.sync().unwrap();
            });
        }
    });
    let syncs = db.stats().wal_syncs - before;
    assert!((2..=WRITERS as u64 / 2).contains(&syncs), "{syncs} syncs");
    let crashed = fs.crash_image(&CrashPlan::strict());
    let db = Db::open("/db", small().fs(crashed)).unwrap();
    assert_eq!(db.iter().count(), 1 + WRITERS);
}

#[test]
fn a_sync_that_fails_makes_the_database_read_only_until_it_is_resumed() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", small().fs(fs.clone())).unwrap();
    db.put("a", "1").unwrap();
    fs.inject(Fault::lost_sync().path("*.log"));
    assert!(db.sync().is_err());
    assert!(db.put("b", "2").is_err());
    assert!(db.sync().is_err(), "a failed sync is not tried again on the same log");
    db.resume().unwrap();
    let crashed = fs.crash_image(&CrashPlan::strict());
    let db = Db::open("/db", small().fs(crashed)).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}
