//! Tests of the engine under the rules of Windows: a file that is open keeps its name, and
//! directories cannot be synced, but names are kept in order.
//!
//! `MINIKV_CRASH_WINDOWS` is the number of images to check (default 2,000), spread over a workload
//! of each kind; the number of faults is a tenth of it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use minikv::fs::Fs;
use minikv::fs::sim::{CrashPlan, Fault, Lack, OpKind, SimFs};
use minikv::{Db, Error, Options, Readable, RepairOptions, destroy, repair, verify};

use crate::workload::{DIR, KINDS, options};
use crate::{check, faults, setting, sweep};

const RULES: &[Lack] = &[Lack::NamesOfOpenFiles, Lack::NamesOutOfOrder];

/// Mean number of operations of a workload, and of images of a crash point.
const OPERATIONS: u64 = 700;
const IMAGES: u64 = 8;

fn windows() -> SimFs {
    let fs = SimFs::new(setting("MINIKV_SEED", 1));
    RULES.iter().for_each(|rule| fs.set_lack(*rule));
    fs
}

/// Calls `sweep` with a seed for each kind of workload, on all processors.
fn for_each_kind(sweep: impl Fn(u64) -> Result<(), String> + Sync) {
    let first_seed = setting("MINIKV_SEED", 1);
    let is_replay = std::env::var_os("MINIKV_CRASH_OP").is_some()
        || std::env::var_os("MINIKV_CRASH_FAULT").is_some();
    let end = first_seed + if is_replay { 1 } else { KINDS.len() as u64 };
    let next_seed = AtomicU64::new(first_seed);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next_seed.fetch_add(1, Relaxed);
                    if seed >= end {
                        break;
                    }
                    if let Err(failure) = sweep(seed) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "replay with windows as the last word\n{}", failures.join("\n"));
}

#[test]
fn crashes_lose_nothing_under_windows_rules() {
    let wanted = setting("MINIKV_CRASH_WINDOWS", 2_000);
    let every = (OPERATIONS * IMAGES * KINDS.len() as u64 / wanted.max(1)).max(1);
    let tally = sweep::Tally::default();
    for_each_kind(|seed| sweep::sweep(seed, RULES, every, &tally));
    println!("{} images, at one of {every} operations", tally.images.load(Relaxed));
    assert!(tally.images.load(Relaxed) > 0);
}

#[test]
fn faults_lose_nothing_under_windows_rules() {
    let wanted = setting("MINIKV_CRASH_WINDOWS", 2_000) / 10;
    let faults_of_kind = OPERATIONS * 4;
    let stride = (faults_of_kind * KINDS.len() as u64 / wanted.max(1)).max(1) as usize;
    let tally = faults::Tally::default();
    for_each_kind(|seed| faults::sweep(seed, RULES, stride, &tally, &|| false));
    println!("{} faults, one of {stride}", tally.faults.load(Relaxed));
    assert!(tally.errors.load(Relaxed) > 0);
}

/// Writes several tables, and merges them into others.
fn rewrite(db: &Db) {
    for round in 0..4 {
        for key in 0..60 {
            db.put(format!("key{key:04}"), format!("value {round} of {key}")).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
}

fn tables(fs: &SimFs) -> usize {
    let names = fs.list(Path::new(DIR)).unwrap();
    names.iter().filter(|name| name.ends_with(".ldb")).count()
}

#[test]
fn tables_that_a_reader_has_open_stay_until_they_are_closed() {
    let fs = windows();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    rewrite(&db);
    let reader = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let before: Vec<_> = reader.iter().map(Result::unwrap).collect();
    rewrite(&db);
    db.delete_range(..).unwrap();
    db.compact_range(..).unwrap();
    assert!(tables(&fs) > 0, "the reader has them open");
    assert_eq!(reader.iter().map(Result::unwrap).collect::<Vec<_>>(), before);
    db.close().unwrap();
    drop(reader);
    drop(Db::open(DIR, options(&fs, 1)).unwrap());
    check::check_files(&fs, 0).unwrap();
}

#[test]
fn an_iterator_that_outlives_its_database_leaves_no_table() {
    let fs = windows();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    rewrite(&db);
    let mut entries = db.iter();
    let first = entries.next().unwrap().unwrap();
    assert_eq!(&first.0[..], b"key0000");
    rewrite(&db);
    db.close().unwrap();
    assert_eq!(entries.map(Result::unwrap).count(), 59);
    check::check_files(&fs, 0).unwrap();
}

#[test]
fn a_database_is_destroyed_though_its_lock_file_is_open() {
    let fs = windows();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    rewrite(&db);
    let refused = destroy(DIR, &options(&fs, 1));
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    db.close().unwrap();
    destroy(DIR, &options(&fs, 1)).unwrap();
    assert!(!fs.exists(Path::new(DIR)).unwrap());
}

#[test]
fn a_directory_that_is_refused_stays_as_it_was() {
    let fs = windows();
    fs.create_dir(Path::new(DIR)).unwrap();
    fs.create(&Path::new(DIR).join("000005.ldb")).unwrap();
    Db::open(DIR, options(&fs, 1)).map(drop).unwrap_err();
    assert_eq!(fs.list(Path::new(DIR)).unwrap(), ["000005.ldb"]);
}

#[test]
fn a_copy_that_fails_leaves_no_directory() {
    let fs = windows();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    rewrite(&db);
    for kind in [OpKind::HardLink, OpKind::Rename] {
        fs.inject(Fault::io_error().on(&[kind]));
        let copy = Path::new("/copy");
        assert!(db.checkpoint(copy).is_err());
        assert!(!fs.exists(copy).unwrap(), "{kind:?}: {:?}", fs.list(copy));
    }
}

#[test]
fn a_repair_moves_damaged_tables_away_under_windows_rules() {
    let fs = windows();
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    rewrite(&db);
    db.close().unwrap();
    let names = fs.list(Path::new(DIR)).unwrap();
    let table = names.iter().find(|name| name.ends_with(".ldb")).unwrap();
    let table: PathBuf = Path::new(DIR).join(table);
    fs.damage(&table, 10, 1).unwrap();
    let report = repair(DIR, &options(&fs, 1), RepairOptions::default()).unwrap();
    assert!(!report.healthy, "{report:?}");
    let after = Options::default().fs(fs.clone());
    assert!(verify(DIR, &after).unwrap().is_sound());
    let lost = fs.list(&Path::new(DIR).join("lost")).unwrap();
    assert!(!lost.is_empty(), "the damaged table is kept");
    // What was repaired is durable, though no directory was synced.
    let left = fs.crash_image(&CrashPlan::strict());
    let db = Db::open(DIR, options(&left, 1)).unwrap();
    assert!(db.iter().map(Result::unwrap).count() > 0);
}
