//! Tests of crashes after every operation of a repair. After a crash, a second repair must produce
//! a database as good as that of a repair that did not crash.

use std::sync::Arc;

use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::{Db, Readable, RepairOptions, RepairReport};

use crate::database::{
    DIR, Entries, Files, Made, SHAPE, Shape, is_lost, options, options_on, read_all,
};

fn sim_options(fs: &SimFs) -> minikv::Options {
    options_on(Arc::new(fs.clone()))
}

fn check(made: &Made, found: &Entries, first: &RepairReport, again: &RepairReport, what: &str) {
    for key in Made::keys() {
        let is_lost = is_lost(&first.lost, &key) || is_lost(&again.lost, &key);
        match found.get(&key) {
            got if !is_lost => assert_eq!(got, made.entries.get(&key), "{what}\n{again:#?}"),
            Some(got) => assert!(made.history[&key].contains(got), "{what}"),
            None => {}
        }
    }
}

/// Checks crashes after every operation of the repair of `files`. Returns the number of images
/// tried.
fn crash_everywhere(made: &Made, files: &Files, exact: Option<&Entries>, what: &str) -> usize {
    let fs = files.load_sim(7);
    fs.record_history();
    let begin = fs.op_count();
    let first = minikv::repair(DIR, &sim_options(&fs), RepairOptions::default()).unwrap();
    assert!(!first.healthy, "{what}");
    let mut images = 0;
    for op in begin..=fs.op_count() {
        let plans = [CrashPlan::strict(), CrashPlan::everything(), CrashPlan::process_kill()];
        let random = [op, op + 1000].map(CrashPlan::random);
        for plan in plans.into_iter().chain(random) {
            let plan = plan.at_op(op);
            let what = format!("{what}: {plan}");
            let image = fs.crash_image(&plan);
            // Even without a second repair, each read returns the right entries or an error.
            if let Ok(db) = Db::open_read_only(DIR, sim_options(&image))
                && let Ok(entries) = db.iter().collect::<minikv::Result<Vec<_>>>()
            {
                let found: Entries =
                    entries.into_iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                match exact {
                    Some(exact) => assert!(found == *exact, "{what}"),
                    None => check(made, &found, &first, &first, &what),
                }
            }
            let again = minikv::repair(DIR, &sim_options(&image), RepairOptions::default());
            let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
            let db = Db::open(DIR, sim_options(&image)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = read_all(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
            match exact {
                Some(exact) => assert!(found == *exact, "{what}\n{again:#?}"),
                None => check(made, &found, &first, &again, &what),
            }
            images += 1;
        }
    }
    images
}

#[test]
fn a_crash_at_every_operation_of_a_repair() {
    let made = Made::new(Shape { commits: 900, ..SHAPE });
    let manifest = made.files.named("MANIFEST").remove(0);
    let tables = made.files.named(".ldb");
    let len = |name: &str| made.files.0[name].len();
    let all = Some(&made.entries);
    let (first, last) = (&tables[0], &tables[tables.len() - 1]);
    let log = made.files.named(".log").pop().unwrap();
    let by_open =
        |files: &Files| read_all(&Db::open(DIR, options(&files.load())).unwrap()).unwrap();
    let bad_log = made.files.flip(&log, len(&log) / 2, 4);
    let from_log = by_open(&bad_log);
    let cases = [
        ("no CURRENT", made.files.without("CURRENT"), all),
        ("no MANIFEST", made.files.without(&manifest), all),
        ("half a MANIFEST", made.files.flip(&manifest, len(&manifest) / 2, 1), all),
        ("a bad table", made.files.flip(first, len(first) / 3, 1), None),
        ("a bad index", made.files.flip(last, len(last) - 60, 1), all),
        ("no table", made.files.without(last), None),
        ("a bad log", bad_log.clone(), Some(&from_log)),
        ("a bad log, no CURRENT", bad_log.without("CURRENT"), Some(&from_log)),
    ];
    let mut images = 0;
    for (what, files, exact) in &cases {
        images += crash_everywhere(&made, files, *exact, what);
    }
    println!("{images} crash images of {} repairs: all repaired again", cases.len());
    assert!(images > 500, "{images}");
}
