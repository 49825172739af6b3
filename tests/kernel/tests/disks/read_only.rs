//! A filesystem that becomes read-only while a database is written, as ext4 does after an error.
//! The open database answers from what it has, and refuses writes with the system's error; its
//! directory can be read; and after a loss of power, no synced commit is missing.

use minikv::Db;
use minikv_kernel::device::Pages;
use minikv_kernel::mounts::{EXT4, Mounted, MountedDisk, Mounts};
use minikv_support::crash::model::hash_of;
use minikv_support::crash::workload::{Disk, MAPPED_LOGS, Run};
use minikv_support::rng::Rng;

use crate::{check_losses, entries_of, maps_a_log, mounts, setting};

/// One of as many workloads has logs that are written through a mapping.
const MAPPED_STRIDE: u64 = 2;

/// A workload that ended when its filesystem became read-only.
struct Ended {
    run: Run<MountedDisk>,
    error: minikv::Error,
    /// Whether a log was written through a mapping at that moment.
    is_mapped: bool,
}

/// Runs a workload on `mounted`, which becomes read-only within it. Returns `None` if the workload
/// reaches its end.
fn run_until_refused(mounted: &Mounted, seed: u64, rng: &mut Rng) -> Option<Ended> {
    let (mut run, steps) = match seed.is_multiple_of(MAPPED_STRIDE) {
        true => (Run::of_kind(MAPPED_LOGS, mounted.disk(), seed), 400 + rng.below(600)),
        false => (Run::on(mounted.disk(), seed), rng.below(60)),
    };
    run.open().unwrap();
    for _ in 0..steps {
        if !run.step().unwrap() {
            return None;
        }
    }
    // The kernel protects pages that it has written, mapped ones, too.
    mounted.write_back(|| rng.one_in(2)).unwrap();
    let is_mapped = maps_a_log(&run.fs);
    mounted.turn_read_only().unwrap();
    loop {
        match run.step() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Ended { run, error, is_mapped }),
        }
    }
}

/// Checks what can be read of the database of `run` while its filesystem is read-only.
fn check_reads(run: &mut Run<MountedDisk>) -> Result<(), String> {
    if run.is_open() {
        run.check_after_fault(hash_of(&entries_of(run.db())?), false)?;
    }
    run.end();
    let (dir, options) = (run.fs.dir(), run.kind.options(&run.fs, run.seed));
    let db = Db::open_read_only(&dir, options.clone()).map_err(|error| error.to_string())?;
    run.check_after_fault(hash_of(&entries_of(&db)?), false)?;
    drop(db);
    match Db::open(dir, options) {
        Err(error) if error.to_string().contains("Read-only file system") => Ok(()),
        Err(error) => Err(format!("an open says: {error}")),
        Ok(_) => Err("an open for writing".to_owned()),
    }
}

fn check(mounts: &Mounts, seed: u64, before: &Pages) -> Option<Ended> {
    let mut rng = Rng::new(seed);
    let mounted = mounts.mount(EXT4, before.clone()).unwrap();
    let mut ended = run_until_refused(&mounted, seed, &mut rng)?;
    let checked = check_reads(&mut ended.run);
    drop(mounted);
    let Ended { run, error, .. } = &ended;
    checked
        .and_then(|()| match error.to_string().contains("Read-only file system") {
            true => match check_losses((mounts, EXT4), run, before, &mut rng)? {
                0 => Ok(()),
                _ => Err("the kernel gave the filesystem up".to_owned()),
            },
            false => Err("another error".to_owned()),
        })
        .unwrap_or_else(|wrong| panic!("{}, after {error}: {wrong}", run.describe()));
    Some(ended)
}

#[test]
fn a_filesystem_that_becomes_read_only_refuses_writes_and_answers_reads() {
    let Some(mounts) = mounts() else { return };
    let before = mounts.make(EXT4).unwrap();
    let (number, first) = (setting("MINIKV_KERNEL_IMAGES", 60) / 4, setting("MINIKV_SEED", 1));
    let (mut refused, mut mapped) = (0, 0);
    for ended in (first..first + number).filter_map(|seed| check(&mounts, seed, &before)) {
        refused += 1;
        mapped += u64::from(ended.is_mapped);
    }
    assert!(refused > number / 2, "{refused} of {number} were refused");
    assert!(mapped > number / 5, "{mapped} of {number} had mapped logs");
    println!(
        "ext4: {number} filesystems became read-only: {refused} workloads were refused, {mapped} \
         of them with mapped logs, and {} losses of power after it: 0 violations",
        2 * refused,
    );
}
