//! Every byte of a database is changed in two ways, and every file is truncated to every length.
//! After each change, every read must either return correct data or fail. If a read fails, `verify`
//! must report the damage.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use minikv::files::LogReader;
use minikv::fs::Fs;
use minikv::{Compression, Db, Readable};

use crate::database::{DIR, Entries, Files, Made, SHAPE, Shape, hash_of, options, path, read_all};

/// States that a damaged database is allowed to show, as a range of commit counts: state `n` is the
/// contents after `n` commits.
struct Allowed<'a> {
    made: &'a Made,
    states: Range<usize>,
}

impl Allowed<'_> {
    #[track_caller]
    fn check(&self, entries: &Entries, what: &str) {
        let state = hash_of(entries);
        let found = self.made.states[self.states.clone()].contains(&state);
        assert!(found, "{what}: {} entries that it never held", entries.len());
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Flip,
    Other,
    Cut,
}

/// Verifies, reads, opens and compacts one damaged database. Returns whether any of these steps
/// reported the damage.
fn try_one(files: &Files, allowed: &Allowed<'_>, what: &str) -> bool {
    let fs = files.load();
    let mut seen = false;
    let report = minikv::verify(DIR, &options(&fs));
    let is_sound = report.as_ref().is_ok_and(|report| report.is_sound());
    seen |= !is_sound || report.is_ok_and(|report| !report.notes.is_empty());

    let reader = Db::open_read_only(DIR, options(&fs));
    let scanned = reader.and_then(|db| db.iter().collect::<minikv::Result<Vec<_>>>());
    match scanned {
        Ok(entries) => {
            let entries = entries.into_iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            allowed.check(&entries, what);
        }
        Err(error) => assert!(!is_sound, "{what}: sound, says verify, but {error}"),
    }
    assert!(Files::of(&fs) == *files, "{what}: reading changed something");

    let opened = Db::open(DIR, options(&fs));
    let outcome = opened.and_then(|db| {
        allowed.check(&read_all(&db)?, what);
        let compacted = db.compact_range(..);
        match read_all(&db) {
            Ok(entries) => allowed.check(&entries, what),
            Err(error) => return Err(error),
        }
        compacted
    });
    if let Err(error) = outcome {
        assert!(!is_sound, "{what}: sound, says verify, but {error}");
        seen = true;
    }
    seen
}

/// Changes every `stride`th byte of every file in two ways, and truncates the file before each of
/// these bytes. The first of these bytes is at `offset % stride`. Returns the number of cases, and
/// the number of cases in which the damage was reported.
fn sweep(made: &Made, stride: usize, offset: usize) -> (usize, usize) {
    let all = made.states.len();
    let first_log = made.files.named(".log").into_iter().next().expect("a live log");
    let without_log = Db::open(DIR, options(&made.files.cut(&first_log, 0).load())).unwrap();
    let flushed = hash_of(&read_all(&without_log).unwrap());
    let flushed = made.states.iter().position(|state| *state == flushed).expect("a prefix");
    assert!(flushed > 0 && flushed + 1 < all, "{flushed} of {all} commits are in tables");
    drop(without_log);

    let mut cases = Vec::new();
    for (name, bytes) in &made.files.0 {
        for at in (offset % stride..bytes.len()).step_by(stride) {
            cases.extend(
                [Change::Flip, Change::Other, Change::Cut]
                    .map(|change| (name.as_str(), at, change)),
            );
        }
    }
    let (next, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(&(name, at, change)) = cases.get(next.fetch_add(1, Relaxed)) {
            let files = match change {
                Change::Flip => made.files.flip(name, at, 1 << (at % 8)),
                Change::Other => made.files.flip(name, at, 0x5a ^ (at as u8 & 0x80)),
                Change::Cut => made.files.cut(name, at),
            };
            let states = if name.ends_with(".log") { flushed..all } else { all - 1..all };
            let allowed = Allowed { made, states };
            let what = format!("{name}, byte {at}, {change:?}");
            let is_seen = try_one(&files, &allowed, &what);
            seen.fetch_add(usize::from(is_seen), Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    (cases.len(), seen.into_inner())
}

fn stride(default: usize) -> usize {
    match std::env::var("MINIKV_SWEEP_STRIDE") {
        Ok(text) => text.parse().expect("MINIKV_SWEEP_STRIDE is a number"),
        Err(_) => default,
    }
}

#[test]
fn the_database_has_everything_in_it() {
    let made = Made::new(SHAPE);
    let kib = made.files.bytes() >> 10;
    assert!((56..=80).contains(&kib), "{kib} KiB");
    let db = Db::open_read_only(DIR, options(&made.files.load())).unwrap();
    let tables = |level: usize| {
        let count = db.property(&format!("leveldb.num-files-at-level{level}")).unwrap();
        count.parse::<usize>().unwrap()
    };
    assert!(tables(0) > 0 && tables(1) > 0 && tables(2) + tables(3) > 0);
    assert_eq!(db.iter().count(), made.entries.len());
    let report = minikv::verify(DIR, &options(&made.files.load())).unwrap();
    assert!(report.is_sound(), "{:#?}", report.faults);
}

/// Checks that an open after the MANIFEST was truncated between two records is refused or shows the
/// correct contents. Such a MANIFEST looks complete. An open that trusted it would show an older
/// state of the database, and remove the tables that the truncated MANIFEST does not name.
#[test]
fn a_manifest_cut_between_two_records_is_refused_or_right() {
    let made = Made::new(SHAPE);
    let manifest = made.files.named("MANIFEST").remove(0);
    let fs = made.files.load();
    let mut reader = LogReader::new(fs.open(&path(&manifest)).unwrap(), &path(&manifest)).unwrap();
    let mut ends = Vec::new();
    while reader.next().unwrap().is_some() {
        ends.push(reader.valid_end() as usize);
    }
    assert_eq!(ends.pop(), Some(made.files.0[&manifest].len()));
    let mut refused = 0;
    for &end in &ends {
        let files = made.files.cut(&manifest, end);
        let fs = files.load();
        match Db::open(DIR, options(&fs)).and_then(|db| read_all(&db)) {
            Ok(entries) => assert!(entries == made.entries, "cut at {end}"),
            Err(error) => {
                refused += 1;
                assert!(error.is_corruption(), "cut at {end}: {error}");
                assert!(Files::of(&fs).named(".ldb") == made.files.named(".ldb"), "cut at {end}");
            }
        }
    }
    assert!(refused * 2 > ends.len(), "{refused} of {}", ends.len());
}

#[test]
fn a_changed_byte_gives_right_answers_or_an_error() {
    let made = Made::new(SHAPE);
    let (cases, seen) = sweep(&made, stride(151), 0);
    println!(
        "{cases} changes of {} bytes, {seen} of them seen: no wrong answer",
        made.files.bytes()
    );
    // Damage goes unreported only in bytes that are never read, such as the padding of footers.
    assert!(seen * 100 > cases * 95, "{seen} of {cases} were seen");
}

#[test]
fn a_changed_byte_gives_right_answers_or_an_error_with_snappy() {
    let made = Made::new(Shape { compression: Compression::Snappy, ..SHAPE });
    let (cases, seen) = sweep(&made, stride(151), 17);
    println!(
        "{cases} changes of {} bytes, {seen} of them seen: no wrong answer",
        made.files.bytes()
    );
    assert!(seen * 100 > cases * 95, "{seen} of {cases} were seen");
}
