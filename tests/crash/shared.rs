//! Tests of crashes, at any operation, of databases that share a memory budget. When one database
//! flushes to free memory for the others, none of the databases may lose data.

use minikv::fs::SimFs;
use minikv::fs::sim::CrashPlan;
use minikv::{Compression, Db, Options, Resources, WriteOptions, verify};

const DIRS: [&str; 3] = ["/a", "/b", "/c"];
const BUDGET_BYTES: usize = 1 << 20;
const PUTS: u32 = 300;
const VALUE_BYTES: usize = 2000;

fn options(fs: &SimFs, resources: &Resources) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .resources(resources)
        .preallocate_logs(false)
        .inline_background(Some(3))
}

fn key(i: u32) -> String {
    format!("key{i:04}")
}

/// The puts and syncs of one database. Times are numbers of filesystem operations.
#[derive(Default)]
struct Written {
    /// For each put, the times when it began and when it returned.
    puts: Vec<(u64, u64)>,
    /// For each sync, the time when it returned, and the number of puts up to the sync.
    synced: Vec<(u64, usize)>,
}

impl Written {
    /// Returns the minimum and the maximum number of puts that may survive a crash at operation
    /// `op`.
    fn bounds(&self, op: u64, power_loss: bool) -> (usize, usize) {
        let acknowledged = self.puts.iter().filter(|(_, after)| *after <= op).count();
        let begun = self.puts.iter().filter(|(before, _)| *before < op).count();
        let synced = self.synced.iter().filter(|(after, _)| *after <= op).map(|&(_, puts)| puts);
        (if power_loss { synced.max().unwrap_or(0) } else { acknowledged }, begun)
    }
}

#[test]
fn databases_that_share_a_budget_lose_nothing_in_a_crash() {
    let fs = SimFs::new(8);
    fs.record_history();
    let resources = Resources::default().memory_bytes(BUDGET_BYTES);
    let dbs = DIRS.map(|dir| Db::open(dir, options(&fs, &resources)).unwrap());
    let mut written = DIRS.map(|_| Written::default());
    for i in 0..PUTS {
        for (db, written) in dbs.iter().zip(&mut written) {
            let before = fs.op_count();
            let sync = i % 50 == 49;
            let value = vec![i as u8; VALUE_BYTES];
            db.writing(WriteOptions::default().sync(sync)).put(key(i), value).unwrap();
            written.puts.push((before, fs.op_count()));
            if sync {
                written.synced.push((fs.op_count(), written.puts.len()));
            }
        }
    }
    for db in &dbs {
        let stats = db.stats();
        let tables: u64 = stats.levels.iter().map(|level| level.files).sum();
        let bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
        // A write buffer may use an eighth of the budget. Tables smaller than that come from
        // flushes that freed memory for other databases.
        assert!(tables > 2 && bytes / tables < BUDGET_BYTES as u64 / 8, "{tables}, {bytes} bytes");
    }
    drop(dbs);
    let mut images = 0;
    for op in (1..=fs.op_count()).step_by(23) {
        for plan in [CrashPlan::process_kill(), CrashPlan::strict(), CrashPlan::random(op)] {
            let image = fs.crash_image(&plan.clone().at_op(op));
            let resources = Resources::default().memory_bytes(BUDGET_BYTES);
            for (dir, written) in DIRS.iter().zip(&written) {
                let (least, most) = written.bounds(op, plan != CrashPlan::process_kill());
                let db = Db::open(dir, options(&image, &resources));
                let db = db.unwrap_or_else(|error| panic!("{dir}, {op}, {plan}: {error}"));
                let keys = db.iter().map(|entry| entry.unwrap().0);
                let keys: Vec<_> = keys.collect();
                assert!(
                    (least..=most).contains(&keys.len()),
                    "{dir}, {op}, {plan}: {least} to \
                    {most}, not {}",
                    keys.len()
                );
                assert!(keys.iter().zip(0..).all(|(found, i)| *found == key(i)), "{dir}, {op}");
                drop(db);
                assert!(verify(dir, &options(&image, &resources)).unwrap().is_sound());
            }
            images += 1;
        }
    }
    assert!(images > 100, "{images} images");
}
