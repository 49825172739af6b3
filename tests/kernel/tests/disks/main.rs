//! Runs the crash harness's workloads on ext4, XFS and btrfs, on a disk that records what the
//! kernel asks it to do, and fails on demand. The kernel mounts what is left of the disk, and
//! minikv opens it.
//!
//! | file | contents |
//! | --- | --- |
//! | `crashes` | losses of power after any operation of the disk |
//! | `delays` | the same on a disk that answers late, under several clients |
//! | `faults` | writes and flushes that fail, and a disk that is full |
//!
//! `MINIKV_KERNEL_IMAGES` is the number of losses of power, and a quarter of it that of faults, and
//! of losses on a late disk, on each filesystem (default 60); `MINIKV_SEED` is the first workload.

mod crashes;
mod delays;
mod faults;

use minikv::{Db, verify};
use minikv_kernel::mounts::{MountedDisk, Mounts};
use minikv_support::crash::model::Entries;
use minikv_support::crash::workload::{Disk, Run};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns the entries of the database in `disk`, after its recovery and a check of all its files.
fn recover(run: &Run<MountedDisk>, disk: &MountedDisk) -> Result<Entries, String> {
    let options = run.kind.options(disk, run.seed);
    let db = Db::open(disk.dir(), options).map_err(|error| format!("open: {error}"))?;
    let mut entries = Entries::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| format!("iterating: {error}"))?;
        let got = db.get(&key).map_err(|error| format!("get: {error}"))?;
        if got.as_ref() != Some(&value) {
            return Err(format!("get and iteration differ about {}", key.escape_ascii()));
        }
        entries.insert(key.to_vec(), value.to_vec());
    }
    drop(db);
    match verify(disk.dir(), &run.kind.options(disk, run.seed)) {
        Ok(report) if report.is_sound() => Ok(entries),
        Ok(report) => Err(format!("verify: {:?}", report.faults)),
        Err(error) => Err(format!("verify: {error}")),
    }
}

/// Returns where to run, or prints why there is no such place.
fn mounts() -> Option<Mounts> {
    Mounts::new().inspect_err(|why| println!("skipped: no disk can be served here: {why}")).ok()
}
