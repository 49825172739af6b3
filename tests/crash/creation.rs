//! A process is killed while it creates a database, and power is lost while the next one opens it.

use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::{Db, Options, Result};

const DIR: &str = "/db";

fn open(fs: &SimFs) -> Result<Db> {
    let options = Options::default().create_if_missing(true).inline_background(Some(1));
    Db::open(DIR, options.fs(fs.clone()))
}

#[test]
fn a_database_opens_after_a_kill_in_its_creation_and_a_loss_of_power_in_the_next_open() {
    let created = SimFs::new(1);
    created.record_history();
    drop(open(&created).unwrap());
    let mut images = 0;
    for killed_at in 1..=created.op_count() {
        let killed = created.crash_image(&CrashPlan::process_kill().at_op(killed_at));
        killed.record_history();
        drop(open(&killed).unwrap_or_else(|error| panic!("after a kill at {killed_at}: {error}")));
        for lost_at in 1..=killed.op_count() {
            for seed in 0..16 {
                let left = killed.crash_image(&CrashPlan::random(seed).at_op(lost_at));
                if let Err(error) = open(&left) {
                    panic!("killed at {killed_at}, power lost at {lost_at}, seed {seed}: {error}");
                }
                images += 1;
            }
        }
    }
    println!("{images} images of opens after a killed creation");
    assert!(images > 1000);
}
