//! Lets minikv crash between file operations. LevelDB and goleveldb then open the files that are
//! left. They must find the state after some prefix of the commits. The prefix must include every
//! acknowledged commit or, if power was lost, every synced commit.
//!
//! `MINIKV_CRASH_STRIDE` is the number of operations between two crashes (default 9; with 1, every
//! operation is followed by a crash). `MINIKV_CRASH_WORKLOADS` is the number of workloads (default:
//! one of each kind).

use std::collections::BTreeMap;
use std::path::Path;

use minikv::fs::Fs;
use minikv::fs::sim::CrashPlan;
use minikv_interop::ffi::Entry;
use minikv_interop::others::{dump, export, goleveldb};
use minikv_interop::{LevelDb, Settings};
use minikv_support::crash::model::hash_of;
use minikv_support::crash::workload::{DIR, KINDS, Run};

/// Stride between the images that goleveldb reads, each in a process of its own. A greater stride
/// makes the test faster and less thorough.
const GOLEVELDB_STRIDE: u64 = 8;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn check(run: &Run, op: u64, plan: &CrashPlan, who: &str, entries: Vec<Entry>) {
    let power_loss = *plan != CrashPlan::process_kill();
    let (least, most) = (run.model.least(op, power_loss), run.model.most(op));
    let count = entries.len();
    let state = hash_of(&entries.into_iter().collect());
    assert!(
        run.model.find(state, least, most).is_some(),
        "{}, operation {op}, {plan}: {who} finds {count} entries, which is no state between \
         {least} and {most} commits",
        run.describe()
    );
}

#[test]
fn leveldb_and_goleveldb_find_a_prefix_after_a_crash_at_any_operation() {
    let home = tempfile::tempdir().unwrap();
    let goleveldb = goleveldb(home.path());
    let (stride, workloads) =
        (number("MINIKV_CRASH_STRIDE", 9), number("MINIKV_CRASH_WORKLOADS", KINDS.len() as u64));
    let (mut images, mut by_goleveldb) = (0, 0);
    let mut by_kind = BTreeMap::<_, u64>::new();
    for seed in 1..=workloads {
        let run = Run::new(seed).finish();
        for op in (1..=run.fs.op_count()).step_by(stride as usize) {
            for plan in
                [CrashPlan::strict(), CrashPlan::process_kill(), CrashPlan::random_prefix(op)]
            {
                let image = run.fs.crash_image(&plan.clone().at_op(op));
                if !image.exists(&Path::new(DIR).join("CURRENT")).unwrap() {
                    continue;
                }
                images += 1;
                *by_kind.entry(run.kind.name).or_default() += 1;
                let asks_goleveldb = images % GOLEVELDB_STRIDE == 0;
                for reuse_logs in [false, true] {
                    let dir = home.path().join("db");
                    export(&image, &dir);
                    let settings = Settings { reuse_logs, ..Settings::default() };
                    let db = LevelDb::open(&dir, &settings).unwrap_or_else(|error| {
                        panic!("{}, {op}, {plan}: {error}", run.describe())
                    });
                    check(&run, op, &plan, "LevelDB", db.entries(false).unwrap());
                    drop(db);
                    std::fs::remove_dir_all(&dir).unwrap();
                }
                if let Some(goleveldb) = goleveldb.as_ref().filter(|_| asks_goleveldb) {
                    let dir = home.path().join("db");
                    export(&image, &dir);
                    let entries = dump(goleveldb, &dir, "default").unwrap_or_else(|error| {
                        panic!("{}, {op}, {plan}: {error}", run.describe())
                    });
                    check(&run, op, &plan, "goleveldb", entries);
                    by_goleveldb += 1;
                    std::fs::remove_dir_all(&dir).unwrap();
                }
            }
        }
    }
    assert!(by_kind.values().all(|&images| images > 20), "{by_kind:?}");
    println!(
        "{images} crash images of {workloads} workloads: LevelDB finds a prefix in each, and \
         goleveldb in the {by_goleveldb} it was asked for"
    );
}
