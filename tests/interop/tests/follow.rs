//! Lets minikv follow databases of LevelDB and goleveldb, which run in processes that are killed
//! and started again. These processes put ascending numbers under 500 keys in turn, with small
//! write buffers, so that logs and tables are often created and removed.
//!
//! LevelDB and goleveldb also open databases with logs that minikv has kept.
//!
//! `MINIKV_FOLLOW_KILLS` is the number of kills for each writer (default 6). goleveldb comes from
//! Debian's package; without the package, the test of goleveldb is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use minikv::follow::Changes;
use minikv::{BatchOp, Db, Error, Options, ReadOnlyDb, Readable};
use minikv_interop::ffi::Entry;
use minikv_interop::others::{dump, goleveldb};
use minikv_interop::{LevelDb, Settings};

const KEYS: u64 = 500;

/// Returns the highest number in the database. Checks that the database shows the state after the
/// put of that number: each key must have the last number put under it.
fn last_number(db: &ReadOnlyDb) -> u64 {
    let mut found = BTreeMap::new();
    for entry in db.iter() {
        let (key, value) = entry.unwrap();
        let (number, rest) = std::str::from_utf8(&value).unwrap().split_once(':').unwrap();
        let number: u64 = number.parse().unwrap();
        assert_eq!(rest.len() as u64, number % 900);
        found.insert(std::str::from_utf8(&key).unwrap().parse::<u64>().unwrap(), number);
    }
    let last = found.values().max().copied().unwrap_or(0);
    for number in last.saturating_sub(KEYS - 1).max(1)..=last {
        assert_eq!(found.get(&(number % KEYS)), Some(&number), "the last is {last}");
    }
    last
}

/// Returns the names of the files in `dir` that end with `end`.
fn numbers(dir: &Path, end: &str) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(end)).collect()
}

fn acked(acks: &Path) -> Option<u64> {
    fs::read(acks).ok()?.try_into().ok().map(u64::from_le_bytes)
}

/// A writing process, which is killed when this value is dropped.
struct Writer(Child);

impl Writer {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads the changes of a running writer. The writer keeps no logs, so its flushes make some of the
/// changes unavailable.
struct Reader {
    db: ReadOnlyDb,
    changes: Changes,
    /// Value that the last change that was read has put; `None` after changes were lost.
    last: Option<u64>,
    read: u64,
    lost: u64,
}

impl Reader {
    fn new(dir: &Path) -> Reader {
        let db = Db::open_read_only(dir, Options::default()).unwrap();
        let changes = db.changes_since(db.sequence()).unwrap();
        Reader { db, changes, last: None, read: 0, lost: 0 }
    }

    /// Reads the available changes. Checks that no number is skipped, because each put writes the
    /// next number.
    fn read(&mut self, name: &str) {
        while let Some(batch) = self.changes.next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(Error::ChangesLost { .. }) => {
                    self.lost += 1;
                    self.db.refresh().unwrap();
                    self.changes = self.db.changes_since(self.db.sequence()).unwrap();
                    self.last = None;
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            for op in &batch {
                let BatchOp::Put { value, .. } = op.unwrap() else { panic!("a deletion") };
                let number = std::str::from_utf8(value).unwrap().split_once(':').unwrap().0;
                let number: u64 = number.parse().unwrap();
                assert!(self.last.is_none_or(|last| number == last + 1), "{name}: {number}");
                self.last = Some(number);
                self.read += 1;
            }
        }
    }
}

/// Follows writers that are killed. `command` returns a command that writes numbers, beginning with
/// the given number.
fn follow(name: &str, dir: &Path, acks: &Path, command: impl Fn(u64) -> Command) {
    let kills: u64 =
        std::env::var("MINIKV_FOLLOW_KILLS").map_or(6, |text| text.parse().expect("a number"));
    drop(Db::create(dir).unwrap());
    let db = Db::open_read_only(dir, Options::default()).unwrap();
    let mut reader = Reader::new(dir);
    let (mut last, mut refreshes, mut restarts) = (0, 0, 0);
    let mut logs = BTreeSet::new();
    for kill in 0..kills {
        let _ = fs::remove_file(acks);
        let mut writer = Writer(command(last + 1).stdout(Stdio::null()).spawn().unwrap());
        let began = Instant::now();
        let after = Duration::from_millis(150 + 100 * (kill % 4));
        let mut is_over = false;
        while !is_over {
            if began.elapsed() > after && acked(acks).is_some() {
                writer.end();
                is_over = true;
            }
            assert!(is_over || writer.0.try_wait().unwrap().is_none(), "{name} has ended");
            let least = acked(acks).unwrap_or(0).max(last);
            let held = db.snapshot();
            let refreshed = db.refresh().unwrap();
            let now = last_number(&db);
            assert!(now >= least, "{name}: {now} is seen, {least} was acknowledged");
            assert!(refreshed.changed || now == last, "{name}: {last} became {now} unnoticed");
            let kept = held.first_key_value().unwrap();
            assert!(kept.is_some() || last == 0, "{name}: a snapshot lost its entries");
            last = now;
            reader.read(name);
            refreshes += 1;
            restarts += u64::from(refreshed.restarted);
            logs.extend(numbers(dir, ".log"));
        }
        // The next writer begins after the last number that the follower saw, even if the killed
        // writer had written more.
        reader.last = None;
    }
    let fresh = Db::open_read_only(dir, Options::default()).unwrap();
    assert_eq!(last_number(&fresh), last);
    let logs = logs.len();
    println!("{name}: {refreshes} refreshes, {restarts} from the start, {last} puts, {logs} logs");
    println!("{name}: {} changes read, {} times some were lost", reader.read, reader.lost);
    assert!(reader.read > kills, "{name}: changes were not read");
    assert!(logs as u64 > 2 * kills, "{name}: too few logs came and went");
    assert!(restarts <= 4 * kills && refreshes > restarts, "{name}: it was not followed");
}

struct Home {
    dir: tempfile::TempDir,
    acks: PathBuf,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        let acks = dir.path().join("acks");
        Home { dir, acks }
    }
}

#[test]
fn leveldb_is_followed() {
    for program in ["cycle", "cycle-reuse"] {
        let home = Home::new();
        let dir = home.dir.path().join("db");
        follow(program, &dir, &home.acks, |first| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
            command.arg(program).arg(&dir).arg(&home.acks).arg(first.to_string());
            command.args(["100000000", "0"]);
            command
        });
    }
}

#[test]
fn goleveldb_is_followed() {
    let home = Home::new();
    let Some(goleveldb) = goleveldb(home.dir.path()) else { return };
    let dir = home.dir.path().join("db");
    follow("goleveldb", &dir, &home.acks, |first| {
        let mut command = Command::new(&goleveldb);
        command.arg("cycle").arg(&dir).arg("default").arg(&home.acks).arg(first.to_string());
        command.arg("100000000");
        command
    });
}

fn keeping() -> Options {
    Options::default().create_if_missing(true).keep_logs_bytes(1 << 30)
}

/// Makes a database with kept logs. Most entries in these logs have been overwritten since. Returns
/// the entries of the database.
fn with_kept_logs(dir: &Path) -> Vec<Entry> {
    let db = Db::open(dir, keeping()).unwrap();
    for value in ["first", "second", "last"] {
        for key in 0..100 {
            db.put(format!("{key:03}"), format!("{value} {key}")).unwrap();
            if key % 20 == 19 {
                db.flush().unwrap();
            }
        }
        db.delete("007").unwrap();
    }
    db.compact_range(..).unwrap();
    db.put("live", "1").unwrap();
    let entries = db.iter().map(|entry| entry.unwrap());
    let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    db.close().unwrap();
    assert!(numbers(dir, ".log").len() > 15, "{:?}", numbers(dir, ".log"));
    entries
}

/// Checks that kept logs do not mislead another engine, and that earlier changes are reported as
/// lost afterwards. `opens` lets the other engine read all entries and put `more` new entries; the
/// engine then leaves `skips` sequence numbers unused.
fn check_kept(dir: &Path, skips: u64, more: u64, opens: impl FnOnce(&Path) -> Vec<Entry>) {
    let entries = with_kept_logs(dir);
    let follower = Db::open_read_only(dir, keeping()).unwrap();
    let last = follower.sequence();
    assert_eq!(last, 304);
    let mut changes = follower.changes_since(0).unwrap();
    assert_eq!(changes.next().unwrap().unwrap().sequence(), 1);
    assert_eq!(follower.changes_since(0).unwrap().map(Result::unwrap).count(), 304);
    assert!(opens(dir) == entries, "it sees something else");
    assert!(numbers(dir, ".log").len() < 3, "{:?}", numbers(dir, ".log"));
    // `changes` can still read the log that it was reading and the next log, because both are open.
    let error = changes.find_map(Result::err).unwrap();
    assert!(matches!(error, Error::ChangesLost { after: 40, .. }), "{error}");
    let error = follower.changes_since(last - 1).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ChangesLost { .. }), "{error}");
    if skips > 0 {
        // minikv cannot tell skipped sequence numbers from lost writes.
        let error = follower.changes_since(last).unwrap().next().unwrap().unwrap_err();
        assert!(matches!(error, Error::ChangesLost { .. }), "{error}");
    }
    let last = last + skips;
    assert_eq!(follower.changes_since(last).unwrap().map(Result::unwrap).count() as u64, more);
    assert_eq!(follower.sequence(), last + more);
    drop((changes, follower));
    let db = Db::open(dir, keeping()).unwrap();
    assert_eq!(db.iter().count() as u64, entries.len() as u64 + more);
    assert_eq!(db.changes_since(last).unwrap().map(Result::unwrap).count() as u64, more);
}

#[test]
fn leveldb_sees_no_kept_logs_and_removes_them() {
    let home = Home::new();
    check_kept(&home.dir.path().join("db"), 0, 1, |dir| {
        let db = LevelDb::open(dir, &Settings::default()).unwrap();
        let entries = db.entries(false).unwrap();
        db.put(b"more", b"1").unwrap();
        entries
    });
}

#[test]
fn goleveldb_sees_no_kept_logs_and_removes_them() {
    let home = Home::new();
    let Some(goleveldb) = goleveldb(home.dir.path()) else { return };
    // goleveldb leaves the first sequence number after a replayed log unused.
    check_kept(&home.dir.path().join("db"), 1, 2, |dir| {
        let entries = dump(&goleveldb, dir, "default").unwrap();
        let mut write = Command::new(&goleveldb);
        write.arg("write").arg(dir).arg("default").arg(&home.acks).args(["more", "2"]);
        assert!(write.status().unwrap().success());
        entries
    });
}

#[test]
fn a_repair_by_leveldb_makes_tables_of_kept_logs_which_hide_nothing() {
    let home = Home::new();
    let dir = home.dir.path().join("db");
    let entries = with_kept_logs(&dir);
    minikv_interop::repair(&dir, &Settings::default()).unwrap();
    let db = LevelDb::open(&dir, &Settings::default()).unwrap();
    assert_eq!(db.entries(false).unwrap(), entries);
    drop(db);
    let db = Db::open(&dir, keeping()).unwrap();
    let found = db.iter().map(|entry| entry.unwrap());
    let found: Vec<Entry> = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(found, entries);
    let error = db.changes_since(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ChangesLost { .. }), "{error}");
}
