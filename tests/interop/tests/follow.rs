//! minikv follows LevelDB and goleveldb in processes of their own, which are killed and started
//! again. They write numbers to 500 keys in turn, with small write buffers, so that logs and tables
//! come and go.
//!
//! `MINIKV_FOLLOW_KILLS` is the number of kills for each writer (default 6). goleveldb comes from
//! Debian's package; without it, its turn is skipped.

#[allow(dead_code, reason = "tests share it, and each uses a part")]
mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use minikv::{Db, Options, ReadOnlyDb};
use others::goleveldb;

const KEYS: u64 = 500;

/// Checks that the numbers up to some number are there, each key with its last one. Returns that
/// number.
fn last_number(db: &ReadOnlyDb) -> u64 {
    let mut found = BTreeMap::new();
    for entry in db.iter().unwrap() {
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

/// The files that a writer has removed or added, by the end of their names.
fn numbers(dir: &Path, end: &str) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(end)).collect()
}

fn acked(acks: &Path) -> Option<u64> {
    fs::read(acks).ok()?.try_into().ok().map(u64::from_le_bytes)
}

/// A process that writes; killed when dropped.
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

/// Follows writers that are killed. `command` makes a writer of the numbers from the given one on.
fn follow(name: &str, dir: &Path, acks: &Path, command: impl Fn(u64) -> Command) {
    let kills: u64 =
        std::env::var("MINIKV_FOLLOW_KILLS").map_or(6, |text| text.parse().expect("a number"));
    drop(Db::open(dir, Options::default().create_if_missing(true)).unwrap());
    let db = Db::open_read_only(dir, Options::default()).unwrap();
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
            refreshes += 1;
            restarts += u64::from(refreshed.restarted);
            logs.extend(numbers(dir, ".log"));
        }
    }
    let fresh = Db::open_read_only(dir, Options::default()).unwrap();
    assert_eq!(last_number(&fresh), last);
    let logs = logs.len();
    println!("{name}: {refreshes} refreshes, {restarts} from the start, {last} puts, {logs} logs");
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
