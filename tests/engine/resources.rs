//! Block cache, threads, I/O limit and memory budget shared by several databases.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use minikv::fs::sim::SimFs;
use minikv::fs::{Fs, MemFs};
use minikv::{CompactionDecision, Db, Options, Resources};
use tempfile::TempDir;

use crate::{small, soon};

fn key(i: u32) -> String {
    format!("key{i:06}")
}

fn fill(db: &Db, entries: u32, value_bytes: usize) {
    (0..entries).for_each(|i| db.put(key(i), vec![i as u8; value_bytes]).unwrap());
}

#[test]
fn databases_share_one_block_cache() {
    let shared = Resources::default().block_cache_bytes(4 << 20);
    let fs = Arc::new(MemFs::new());
    let open = |name: &str| {
        let options = small().fs(fs.clone()).block_cache_bytes(0).resources(&shared);
        Db::open(format!("/{name}"), options).unwrap()
    };
    let (a, b) = (open("a"), open("b"));
    for db in [&a, &b] {
        fill(db, 3000, 100);
        db.compact_range(..).unwrap();
    }
    let used = || [&a, &b].map(|db| db.stats().block_cache_bytes);
    assert_eq!(used(), [0, 0]);
    for i in 0..3000 {
        a.get(key(i)).unwrap();
        a.get(key(i)).unwrap();
    }
    let after_a = used();
    assert!(after_a[0] > 100_000 && after_a[0] == after_a[1], "{after_a:?}");
    for i in 0..3000 {
        assert_eq!(b.get(key(i)).unwrap().unwrap(), vec![i as u8; 100]);
        b.get(key(i)).unwrap();
    }
    let after_b = used();
    assert!(after_b[0] > after_a[0] + 100_000, "{after_a:?}, then {after_b:?}");
    assert!(after_b[0] <= 4 << 20);
    // Closing a database frees its blocks in the cache.
    a.clone().close().unwrap();
    drop(a);
    assert!(b.stats().block_cache_bytes < after_b[0]);
    let off = Resources::default().block_cache_bytes(0);
    let none = Db::open("/c", small().fs(fs.clone()).resources(&off)).unwrap();
    fill(&none, 3000, 100);
    none.compact_range(..).unwrap();
    (0..3000).for_each(|i| assert!(none.get(key(i)).unwrap().is_some()));
    assert_eq!(none.stats().block_cache_bytes, 0);
}

#[test]
fn ten_databases_use_one_set_of_threads() {
    let home = TempDir::new().unwrap();
    let shared = Resources::default().compaction_threads(2);
    let most = Arc::new(AtomicU32::new(0));
    let running = Arc::new(AtomicU32::new(0));
    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    // Compactions wait for each other once, however slow the machine is.
    let patience = Instant::now() + Duration::from_secs(60);
    let open = |i: u32| {
        let (most, running, threads) = (most.clone(), running.clone(), threads.clone());
        let options = Options::default().create_if_missing(true).resources(&shared);
        let options = options.write_buffer_bytes(32 << 10).max_file_bytes(16 << 10);
        let options = options.compaction_filter(move |key, _| {
            let thread = std::thread::current();
            // The parts of a merge run in threads of their own, which end with the merge.
            if thread.name() == Some("minikv-compact") {
                threads.lock().unwrap().insert(thread.id());
            }
            if key == b"key000001" {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                while most.load(Ordering::SeqCst) < 2 && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(1));
                }
                running.fetch_sub(1, Ordering::SeqCst);
            }
            CompactionDecision::Keep
        });
        Db::open(home.path().join(i.to_string()), options).unwrap()
    };
    let dbs: Vec<Db> = (0..10).map(open).collect();
    std::thread::scope(|scope| {
        for db in &dbs {
            scope.spawn(|| {
                (0..3).for_each(|_| fill(db, 2000, 50));
                db.wait_idle().unwrap();
            });
        }
    });
    assert_eq!(threads.lock().unwrap().len(), 2);
    assert_eq!(most.load(Ordering::SeqCst), 2, "compactions at a time");
    for db in &dbs {
        assert_eq!(db.iter().count(), 2000);
        let stats = db.stats();
        assert!(stats.levels.iter().map(|level| level.compactions).sum::<u64>() > 0);
    }
    // After one database is closed, the threads still work for the other databases.
    dbs[0].clone().close().unwrap();
    fill(&dbs[1], 2000, 60);
    dbs[1].wait_idle().unwrap();
    drop(dbs);
    let last = Db::open(home.path().join("0"), Options::default().resources(&shared)).unwrap();
    last.flush().unwrap();
    assert_eq!(last.iter().count(), 2000);
}

/// Checks that a compaction filter cannot make its thread wait for work that only this thread could
/// do.
#[test]
fn a_filter_may_not_change_a_database_that_shares_its_threads() {
    let threads = Resources::default().compaction_threads(1);
    let memory = Resources::default().memory_bytes(8 << 20);
    // Each put makes a table.
    let options = || small().write_buffer_bytes(1).fs(MemFs::new());
    let shares = Db::open("/shares", options().resources(&threads)).unwrap();
    let own = Db::open("/own", options().resources(&memory)).unwrap();
    shares.put("a", "1").unwrap();
    let (refusing, taking, (told, tells)) = (shares.clone(), own.clone(), mpsc::channel());
    let filtered = small().fs(MemFs::new()).resources(&threads);
    let db = Db::open(
        "/db",
        filtered.compaction_filter(move |key, value| {
            taking.put(key, value).unwrap();
            taking.flush().unwrap();
            assert_eq!(refusing.get("a").unwrap().as_deref(), Some(&b"1"[..]));
            let attempts = [
                refusing.put(key, value),
                refusing.delete_range(..).map(drop),
                refusing.flush(),
                refusing.compact_range(..),
                refusing.wait_idle(),
                refusing.resume(),
            ];
            told.send(attempts.map(|attempt| attempt.unwrap_err().to_string())).unwrap();
            CompactionDecision::Keep
        }),
    );
    let db = db.unwrap();
    fill(&db, 30, 10);
    let (done, is_done) = mpsc::channel();
    let _ends_or_hangs = std::thread::spawn(move || done.send(db.compact_range(..)).unwrap());
    is_done.recv_timeout(Duration::from_secs(60)).expect("nobody waits for ever").unwrap();
    let errors: Vec<String> = tells.try_iter().flatten().collect();
    assert_eq!(errors.len(), 30 * 6);
    assert!(errors.iter().all(|error| error.contains("shares its threads")), "{errors:?}");
    assert_eq!((own.iter().count(), shares.iter().count()), (30, 1));
    shares.put("b", "1").unwrap();
}

#[test]
fn background_io_stays_within_the_limit() {
    let home = TempDir::new().unwrap();
    let rate = 4 << 20;
    let shared = Resources::default().background_bytes_per_second(rate);
    let open = |name: &str| {
        let options = Options::default().create_if_missing(true).resources(&shared);
        let options = options.compression(minikv::Compression::None);
        Db::open(home.path().join(name), options.write_buffer_bytes(256 << 10)).unwrap()
    };
    let dbs = [open("a"), open("b")];
    let began = Instant::now();
    for db in &dbs {
        fill(db, 3000, 400);
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
    }
    let took = began.elapsed();
    let done = |db: &Db| {
        let stats = db.stats();
        let levels = stats.levels.iter();
        stats.flush_bytes + levels.map(|level| level.bytes_read + level.bytes_written).sum::<u64>()
    };
    let bytes = dbs.iter().map(done).sum::<u64>();
    assert!(bytes > 2 << 20, "{bytes} bytes");
    // The statistics count whole tables as read, including their indexes and filters.
    let least = Duration::from_secs_f64(0.7 * bytes as f64 / rate as f64);
    assert!(took >= least, "{bytes} bytes in {took:?}");
}

#[test]
fn a_limited_compaction_waits_as_it_goes_and_not_at_its_end() {
    let fs = Arc::new(MemFs::new());
    let shared = Resources::default().background_bytes_per_second(8 << 20);
    let options = Options::default().create_if_missing(true).resources(&shared).fs(fs.clone());
    let options = options.compression(minikv::Compression::None).max_file_bytes(64 << 20);
    let db = Db::open("/db", options.write_buffer_bytes(16 << 20)).unwrap();
    for _ in 0..2 {
        fill(&db, 2000, 1000);
        db.flush().unwrap();
    }
    let bytes = || {
        let files = fs.list(Path::new("/db")).unwrap_or_default();
        let tables = files.iter().filter(|name| name.ends_with(".ldb"));
        let sizes = tables.map(|name| fs.len(&Path::new("/db").join(name)).unwrap_or(0));
        sizes.sum::<u64>()
    };
    let (began, mut grown, mut most) = (Instant::now(), Duration::ZERO, bytes());
    let merging = std::thread::spawn({
        let db = db.clone();
        move || db.compact_range(..).unwrap()
    });
    while !merging.is_finished() {
        if bytes() > most {
            (grown, most) = (began.elapsed(), bytes());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    merging.join().unwrap();
    assert!(took > Duration::from_millis(500), "{took:?}");
    assert!(grown > took / 2, "the output grew for {grown:?} of {took:?}");
}

#[test]
fn a_database_closes_while_its_background_waits_for_the_limit() {
    let home = TempDir::new().unwrap();
    let shared = Resources::default().background_bytes_per_second(1000);
    let options = Options::default().create_if_missing(true).resources(&shared);
    let db = Db::open(home.path(), options.write_buffer_bytes(64 << 10)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Writes wait for the flush, until the database is closed.
            while !stop.load(Ordering::Relaxed) {
                if db.put("key", vec![7; 1000]).is_err() {
                    break;
                }
            }
        });
        while db.stats().stalls.flush.count == 0 && db.stats().memtable_bytes < 60_000 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        db.clone().close().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_budget_covers_memtables_tables_and_blocks_of_all_databases() {
    const BUDGET: u64 = 8 << 20;
    let shared = Resources::default().memory_bytes(BUDGET as usize);
    let fs = Arc::new(MemFs::new());
    // Small blocks make large indexes.
    let options = Options::default().create_if_missing(true).resources(&shared).fs(fs);
    let options = options.block_bytes(256).max_file_bytes(256 << 10).write_buffer_bytes(64 << 20);
    let dbs = ["a", "b", "c"].map(|name| Db::open(name, options.clone()).unwrap());
    let [idle, second, busy] = &dbs;
    assert_eq!(shared.memory_used_bytes(), 0);
    fill(idle, 900, 1000);
    fill(second, 800, 1000);
    let memtables = |db: &Db| db.stats().memtable_bytes;
    let waiting = memtables(idle) + memtables(second);
    assert!((1_700_000..2_300_000).contains(&waiting), "{waiting}");
    // A memtable's size is updated whenever it has grown by a quarter of its buffer, here 256 KiB.
    assert!(waiting <= shared.memory_used_bytes() + (512 << 10));
    assert_eq!((idle.stats().flushes, second.stats().flushes), (0, 0));

    let mut most = 0;
    let mut write = |range: std::ops::Range<u32>| {
        for i in range {
            busy.put(key(i), [i as u8; 1000]).unwrap();
            if i % 100 == 0 {
                most = most.max(shared.memory_used_bytes());
            }
        }
        dbs.iter().for_each(|db| db.wait_idle().unwrap());
        assert!((BUDGET / 8..=BUDGET).contains(&most), "{most} bytes at most");
    };
    let tables = || dbs.iter().map(|db| db.stats().pinned_bytes).sum::<u64>();
    let read = |entries: u32| {
        let (mut most, mut most_tables) = (0, 0);
        for i in 0..20_000u32 {
            let at = i.wrapping_mul(2_654_435_761) % entries;
            assert_eq!(busy.get(key(at)).unwrap().unwrap(), [at as u8; 1000][..]);
            if i % 100 == 0 {
                most = most.max(shared.memory_used_bytes());
                most_tables = most_tables.max(tables());
            }
        }
        assert!(most <= BUDGET, "{most} bytes at most");
        most_tables
    };
    write(0..15_000);
    soon("the idle memtables stay", || idle.stats().flushes > 0 && second.stats().flushes > 0);
    // All tables fit, and blocks use the rest of the budget.
    assert!(read(15_000) < BUDGET / 4);
    let used = shared.memory_used_bytes();
    assert!(used > BUDGET / 8 * 7, "{used} of {BUDGET} bytes");
    // The indexes would take more than their share, so tables are closed.
    write(15_000..60_000);
    let most_tables = read(60_000);
    assert!((BUDGET / 8..=BUDGET / 4).contains(&most_tables), "{most_tables} bytes of tables");

    dbs.into_iter().for_each(|db| db.close().unwrap());
    assert_eq!(shared.memory_used_bytes(), 0);
}

/// Checks that a database whose disk is full costs only its own memory: the memtables of the other
/// databases are flushed as if it were not there.
#[test]
fn a_database_that_cannot_flush_leaves_the_budget_to_the_others() {
    const BUDGET: u64 = 8 << 20;
    let shared = Resources::default().memory_bytes(BUDGET as usize).compaction_threads(1);
    let options = Options::default().create_if_missing(true).resources(&shared);
    let full = SimFs::new(1);
    let stuck = Db::open("stuck", options.clone().fs(full.clone())).unwrap();
    fill(&stuck, 900, 1000);
    full.set_capacity(Some(full.used_bytes()));
    let mut numbers = 900..2000;
    assert!(numbers.any(|i| stuck.put(key(i), vec![7; 1000]).is_err()), "the disk is not full");
    let held = stuck.stats().memtable_bytes;
    assert!(held > 800_000 && stuck.stats().flushes == 0, "{held} bytes");

    let options = options.fs(MemFs::new());
    let mut most = 0;
    let dbs: Vec<Db> = (0..60)
        .map(|i| {
            let db = Db::open(format!("db{i}"), options.clone()).unwrap();
            fill(&db, 600, 1000);
            most = most.max(shared.memory_used_bytes());
            db
        })
        .collect();
    assert!(most <= BUDGET, "{most} bytes at most");
    let memtables = || dbs.iter().map(|db| db.stats().memtable_bytes).sum::<u64>();
    soon("the memtables stay", || memtables() <= BUDGET / 4 + (2 << 20));
    let flushes: u64 = dbs.iter().map(|db| db.stats().flushes).sum();
    assert!((30..=300).contains(&flushes), "{flushes} flushes");
    // Once the disk has room, the database takes part again.
    full.set_capacity(None);
    stuck.resume().unwrap();
    assert!(stuck.stats().flushes > 0);
    fill(&stuck, 900, 1000);
}
