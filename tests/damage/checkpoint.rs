//! Tests that checkpoints are consistent, independent of the original, and never incomplete.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::fs::{Fs, MemFs};
use minikv::{Db, Error, Options, Readable};
use minikv_support::system::CROSSES_DEVICES;

use crate::database::{DIR, Entries, Files, Made, SHAPE, options, options_on, read_all};

const COPY: &str = "/copies/one";

fn open_copy(options: Options) -> Entries {
    let db = Db::open(COPY, options).unwrap();
    let entries = read_all(&db).unwrap();
    db.put("only here", "1").unwrap();
    db.compact_range(..).unwrap();
    entries
}

#[test]
fn a_checkpoint_of_a_closed_database_is_the_same_and_apart() {
    let made = Made::new(SHAPE);
    let fs = made.files.load();
    minikv::checkpoint(DIR, COPY, &options(&fs)).unwrap();
    assert!(Files::of(&fs) == made.files, "the original is as it was");
    assert!(minikv::verify(COPY, &options(&fs)).unwrap().is_sound());
    assert!(open_copy(options(&fs)) == made.entries);
    assert!(Files::of(&fs) == made.files, "writing to the copy does not change the original");
    assert!(read_all(&Db::open(DIR, options(&fs)).unwrap()).unwrap() == made.entries);
}

#[test]
fn a_checkpoint_of_an_open_database_is_one_moment() {
    let fs = MemFs::new();
    let options = options(&fs).create_if_missing(true).inline_background(None);
    let db = Db::open(DIR, options.clone()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, stop) = (db.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut n = 0u64;
            while !stop.load(Relaxed) || n < 2000 {
                // Each round writes key 0 first, so the number under key 0 is equal to that under
                // any other key, or one higher.
                for key in 0..4 {
                    db.put(format!("key{key:04}"), n.to_string()).unwrap();
                }
                n += 1;
            }
        })
    };
    for i in 0..30 {
        let dest = format!("/copies/{i}");
        let least: u64 = number(&db, 3);
        db.checkpoint(&dest).unwrap();
        let copy = Db::open(&dest, options.clone()).unwrap();
        let found: Vec<u64> = (0..4).map(|key| number(&copy, key)).collect();
        assert!(found.is_sorted_by(|a, b| a >= b), "{found:?}");
        assert!(found[0] - found[3] <= 1 && found[3] >= least, "{found:?}, {least}");
        assert!(minikv::verify(&dest, &options).unwrap().is_sound());
    }
    stop.store(true, Relaxed);
    writer.join().unwrap();
}

fn number(db: &Db, key: u32) -> u64 {
    let value = db.get(format!("key{key:04}")).unwrap();
    value.map_or(0, |value| String::from_utf8(value.to_vec()).unwrap().parse().unwrap())
}

#[test]
fn a_directory_with_something_in_it_is_refused() {
    let made = Made::new(SHAPE);
    let fs = made.files.load();
    let db = Db::open(DIR, options(&fs)).unwrap();
    let error = db.checkpoint(DIR).unwrap_err();
    assert!(matches!(error, Error::DatabaseExists { .. }), "{error}");
    fs.create_dir(Path::new("/other")).unwrap();
    fs.create(Path::new("/other/file")).unwrap().write(b"mine").unwrap();
    let error = db.checkpoint("/other").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    assert_eq!(fs.list(Path::new("/other")).unwrap(), ["file"]);
    let error = minikv::checkpoint(DIR, COPY, &options(&fs)).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    // An empty directory is accepted as the destination.
    fs.create_dir(Path::new(COPY)).unwrap();
    db.checkpoint(COPY).unwrap();
    assert!(open_copy(options(&fs)) == made.entries);
}

/// Checks that tables are copied if they cannot be linked: a link from one filesystem to another
/// fails with `EXDEV`.
#[test]
fn a_checkpoint_copies_tables_that_cannot_be_linked() {
    let made = Made::new(SHAPE);
    let fs = made.files.load_sim(1);
    fs.inject(Fault::os_error(CROSSES_DEVICES).on(&[OpKind::HardLink]).sticky());
    let options = options_on(Arc::new(fs.clone()));
    minikv::checkpoint(DIR, COPY, &options).unwrap();
    fs.clear_faults();
    let left = fs.crash_image(&CrashPlan::strict());
    assert!(open_copy(options_on(Arc::new(left))) == made.entries);
}

#[test]
fn a_failed_checkpoint_leaves_nothing() {
    let made = Made::new(SHAPE);
    let counted = made.files.load_sim(1);
    let before = counted.op_count();
    let on = |fs: &SimFs| options_on(Arc::new(fs.clone()));
    minikv::checkpoint(DIR, COPY, &on(&counted)).unwrap();
    let mut failed = 0;
    for nth in 1..=counted.op_count() - before {
        let fs = made.files.load_sim(1);
        fs.inject(Fault::io_error().at_op(fs.op_count() + nth));
        if minikv::checkpoint(DIR, COPY, &on(&fs)).is_ok() {
            continue;
        }
        failed += 1;
        assert!(!fs.exists(Path::new(COPY)).unwrap(), "operation {nth}");
        assert!(Files::of(&fs) == made.files, "operation {nth}");
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_crash_while_a_checkpoint_is_made_leaves_none_or_all_of_it() {
    let made = Made::new(SHAPE);
    let fs = made.files.load_sim(1);
    fs.record_history();
    let begin = fs.op_count();
    let on = |fs: &SimFs| options_on(Arc::new(fs.clone()));
    minikv::checkpoint(DIR, COPY, &on(&fs)).unwrap();
    let (mut none, mut all) = (0, 0);
    for op in begin..=fs.op_count() {
        for seed in 0..12 {
            let plan = if seed == 0 { CrashPlan::strict() } else { CrashPlan::random(seed) };
            let plan = plan.at_op(op);
            let image = fs.crash_image(&plan);
            match Db::open(COPY, on(&image)) {
                Ok(db) => {
                    all += 1;
                    assert!(read_all(&db).unwrap() == made.entries, "{plan}");
                }
                Err(_) => none += 1,
            }
            assert!(Files::of(&image) == made.files, "{plan}: the original changed");
        }
    }
    assert!(none > 0 && all > 0, "{none} {all}");
    let left = fs.crash_image(&CrashPlan::strict());
    assert!(open_copy(on(&left)) == made.entries, "durable when it returns");
}

/// Puts increasing numbers under 200 keys in turn, until `stop` is set.
fn write_rounds(db: &Db, stop: &AtomicBool) {
    for number in 0u64.. {
        db.put((number % 200).to_be_bytes(), [number.to_be_bytes(); 60].concat()).unwrap();
        if number >= 200 && stop.load(Relaxed) {
            break;
        }
    }
}

/// Checks that a checkpoint succeeds even if logs are truncated to their records, or removed, while
/// the checkpoint copies them.
#[test]
fn checkpoints_beside_writes_on_a_disk_succeed() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).write_buffer_bytes(64 << 10);
    let db = Db::open(home.path().join("db"), options.clone()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_rounds(&db, &stop));
        let copies = || {
            for i in 0..60 {
                let copy = home.path().join(i.to_string());
                db.checkpoint(&copy).map_err(|error| error.to_string())?;
                let report = minikv::verify(&copy, &options).unwrap();
                assert!(report.is_sound() && report.notes.is_empty(), "{report:?}");
                std::fs::remove_dir_all(&copy).unwrap();
            }
            Ok::<(), String>(())
        };
        let made = copies();
        stop.store(true, Relaxed);
        writer.join().unwrap();
        made.unwrap();
    });
}

#[test]
fn a_checkpoint_without_a_live_log_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let db = Db::create(&path).unwrap();
    db.put("a", "1").unwrap();
    let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    for log in files.filter(|path| path.extension().is_some_and(|ending| ending == "log")) {
        std::fs::remove_file(log).unwrap();
    }
    let error = db.checkpoint(&copy).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains(".log"), "{error}");
    assert!(!copy.exists());
}

#[test]
fn of_two_checkpoints_in_one_place_one_is_made_and_stays() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).write_buffer_bytes(64 << 10);
    let db = Db::open(home.path().join("db"), options.clone()).unwrap();
    (0..2000u64).for_each(|i| db.put(i.to_be_bytes(), [7; 100]).unwrap());
    for round in 0..30 {
        let copy = home.path().join(round.to_string());
        let both = std::thread::scope(|scope| {
            let made = [(); 2].map(|()| scope.spawn(|| db.checkpoint(&copy)));
            made.map(|made| made.join().unwrap())
        });
        let made = both.iter().filter(|made| made.is_ok()).count();
        assert!(made <= 1, "both say that they made it");
        if made == 1 {
            let report = minikv::verify(&copy, &options).unwrap();
            assert!(report.is_sound(), "{:?}, {both:?}", report.faults);
            let found = Db::open_read_only(&copy, options.clone()).unwrap();
            assert_eq!(found.iter().count(), 2000);
        }
    }
}
