//! Tests that kill a real process that writes to a real disk. The test binary runs itself again as
//! a child process. The child writes, and reports each synced put after the put is acknowledged.
//!
//! `MINIKV_KILLS` is the number of kills (default 20). Another test uses a filesystem that is
//! really full, if this process may mount one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use minikv::{Compression, Db, Error, Iter, Options, Readable, WriteOptions};

use crate::rng::{Rng, seed};
use crate::setting;

const CHILD_DIR: &str = "MINIKV_KILL_CHILD";
const COPIES: &str = "MINIKV_KILL_COPIES";

pub fn options() -> Options {
    Options::default()
        .create_if_missing(true)
        .compression(Compression::None)
        .write_buffer_bytes(16 << 10)
        .max_file_bytes(16 << 10)
}

fn open(dir: &Path, reuse_logs: bool) -> Db {
    Db::open(dir, options().reuse_logs(reuse_logs)).unwrap()
}

/// Writes until the process is killed. Prints a line `acked <n>` each time all puts up to number
/// `n` have been acknowledged and put `n` was synced.
fn write_until_killed(dir: &Path) {
    let first: u64 = std::env::var("MINIKV_KILL_FIRST").unwrap().parse().unwrap();
    let db = open(dir, first.is_multiple_of(2));
    let acked = Arc::new(AtomicU64::new(0));
    if let Some(home) = std::env::var_os(COPIES) {
        let (db, acked) = (db.clone(), acked.clone());
        std::thread::spawn(move || make_copies(&db, Path::new(&home), &acked));
    }
    let mut out = std::io::stdout().lock();
    for number in first.. {
        let sync = WriteOptions::default().sync(number % 8 == 0);
        let value = format!("{number}:{}", "v".repeat(number as usize % 900));
        db.writing(sync).put(format!("{:04}", number % 500), value).unwrap();
        acked.store(number, Relaxed);
        if number % 8 == 0 {
            writeln!(out, "acked {number}").unwrap();
            out.flush().unwrap();
        }
    }
}

/// Makes one checkpoint after another, each named after a put that must be in it.
fn make_copies(db: &Db, home: &Path, acked: &AtomicU64) {
    loop {
        let least = acked.load(Relaxed);
        let dest = home.join(least.to_string());
        if least > 0 && !dest.exists() {
            // A failed checkpoint ends the process, which fails the test.
            if let Err(error) = db.checkpoint(dest) {
                eprintln!("checkpoint: {error}");
                std::process::exit(1);
            }
        }
        std::thread::yield_now();
    }
}

/// Checks that all puts up to the highest number are there, without gaps. Puts are numbered, and go
/// to 500 keys in turn. Returns the highest number.
pub fn check_numbers(entries: Iter) -> u64 {
    let mut found = BTreeMap::new();
    for entry in entries {
        let (key, value) = entry.unwrap();
        let (number, rest) = std::str::from_utf8(&value).unwrap().split_once(':').unwrap();
        let number = number.parse::<u64>().unwrap();
        assert_eq!(rest.len(), number as usize % 900);
        found.insert(std::str::from_utf8(&key).unwrap().parse::<u64>().unwrap(), number);
    }
    let last = found.values().max().copied().unwrap_or(0);
    for number in last.saturating_sub(499).max(1)..=last {
        assert_eq!(found.get(&(number % 500)), Some(&number), "the last is {last}");
    }
    last
}

/// Starts the child and kills it after it has reported `lines` synced puts. Returns the number of
/// the last put that the child reported, which is also stored in `acked`. If `copies` is given, the
/// child makes checkpoints there.
pub fn run_and_kill(
    dir: &Path,
    first: u64,
    lines: usize,
    copies: Option<&Path>,
    acked: &AtomicU64,
) -> u64 {
    let copies = copies.map(|copies| (COPIES, copies));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--nocapture", "--include-ignored"])
        .env(CHILD_DIR, dir)
        .env("MINIKV_KILL_FIRST", first.to_string())
        .envs(copies)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut count = 0;
    // The test runner prints text of its own, possibly before a report on the same line.
    while count < lines {
        let line = told.next().expect("the child goes on").unwrap();
        if let Some((_, number)) = line.split_once("acked ") {
            let number = number.parse().unwrap();
            acked.store(number, Relaxed);
            last = Some(number);
            count += 1;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Also read the reports that the child wrote before it was killed.
    for line in told.map_while(Result::ok) {
        if let Some(Ok(number)) = line.split_once("acked ").map(|(_, number)| number.parse()) {
            acked.store(number, Relaxed);
            last = Some(number);
        }
    }
    last.expect("at least one line")
}

#[test]
#[ignore = "the child of the test below"]
fn child() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        write_until_killed(Path::new(&dir));
    }
}

#[test]
fn a_killed_process_loses_no_acknowledged_put() {
    let kills = setting("MINIKV_KILLS", 20);
    let seed = seed();
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut first = 1;
    for kill in 0..kills {
        let lines = 1 + rng.below(60);
        let acked = run_and_kill(dir.path(), first, lines, None, &AtomicU64::new(0));
        let db = open(dir.path(), kill % 2 == 0);
        assert!(db.recovery().lost.is_empty(), "seed {seed}: {:?}", db.recovery());
        let last = check_numbers(db.iter());
        assert!(last >= acked, "seed {seed}, kill {kill}: {last} is left, {acked} was synced");
        first = last + 1;
    }
    println!("{kills} kills of a process that wrote {} puts, seed {seed}: nothing lost", first - 1);
}

/// Mounts an in-memory filesystem, if this process has the permission.
fn mount(dir: &Path, options: &str) -> Result<(), String> {
    run_mount(Command::new("mount").args(["-t", "tmpfs", "-o", options, "minikv-test"]).arg(dir))
}

fn run_mount(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// A mounted filesystem, unmounted on drop.
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Mounts an in-memory filesystem. If that fails, prints the reason and returns `None`.
    fn new(options: &str) -> Option<Mounted> {
        Mounted::with(|dir| mount(dir, options))
    }

    /// Mounts the filesystem in the file `image`. Returns `None` if it cannot be mounted.
    pub fn of_image(image: &Path) -> Option<Mounted> {
        Mounted::with(|dir| {
            run_mount(Command::new("mount").args(["-o", "loop"]).arg(image).arg(dir))
        })
    }

    fn with(mount: impl FnOnce(&Path) -> Result<(), String>) -> Option<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        match mount(dir.path()) {
            Ok(()) => Some(Mounted(dir)),
            Err(why) => {
                println!("skipped: no filesystem can be mounted here: {why}");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_really_full_filesystem_loses_nothing() {
    let Some(dir) = Mounted::new("size=512k") else { return };
    let home = dir.path().join("db");
    let db = open(&home, false);
    let sync = WriteOptions::default().sync(true);
    let mut acked = 0;
    let put = |number: u32| db.writing(sync).put(number.to_be_bytes(), [7; 500]);
    let error = loop {
        match put(acked) {
            Ok(()) => acked += 1,
            Err(error) => break error,
        }
    };
    assert!(acked > 100, "{error} after {acked}");
    assert_eq!(db.iter().count(), acked as usize);
    mount(dir.path(), "remount,size=16m").unwrap();
    db.resume().unwrap();
    for number in acked..acked + 200 {
        put(number).unwrap();
    }
    assert_eq!(db.iter().count(), acked as usize + 200);
    db.close().unwrap();
    assert_eq!(open(&home, false).iter().count(), acked as usize + 200);
    println!("a full filesystem after {acked} synced puts, then space again: nothing lost");
}

#[test]
fn a_read_only_mount_is_read_and_not_touched() {
    let Some(dir) = Mounted::new("size=16m") else { return };
    let home = dir.path().join("db");
    let db = open(&home, false);
    for number in 0..2000u32 {
        db.put(number.to_be_bytes(), [7; 500]).unwrap();
    }
    db.close().unwrap();
    mount(dir.path(), "remount,ro").unwrap();
    let files = || {
        let entries = std::fs::read_dir(&home).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap(), entry))
            .map(|(name, time, entry)| (name, time, std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let db = Db::open_read_only(&home, options()).unwrap();
    assert_eq!(db.iter().count(), 2000);
    assert_eq!(db.get(7u32.to_be_bytes()).unwrap().as_deref(), Some(&[7; 500][..]));
    drop(db);
    assert!(minikv::verify(&home, &options()).unwrap().is_sound());
    assert!(matches!(Db::open(&home, options()), Err(Error::Io { .. })), "it cannot be locked");
    assert!(files() == before, "a file changed");
    println!("a filesystem mounted read-only: read, and nothing changed");
}
