//! Runs the crash harness's workloads on ext4, XFS and btrfs, on a disk that records what the
//! kernel asks it to do, and fails on demand. The kernel mounts what is left of the disk, and
//! minikv opens it.
//!
//! | file | contents |
//! | --- | --- |
//! | `crashes` | losses of power after any operation of the disk |
//! | `delays` | the same on a disk that answers late, under several clients |
//! | `faults` | writes and flushes that fail, and a disk that is full |
//! | `read_only` | a filesystem that becomes read-only while a database is written |
//!
//! `MINIKV_KERNEL_IMAGES` is the number of losses of power, and a quarter of it that of faults, and
//! of losses on a late disk, on each filesystem (default 60); `MINIKV_SEED` is the first workload.

mod crashes;
mod delays;
mod faults;
mod read_only;

use minikv::{Db, Readable, verify};
use minikv_kernel::crash::{LEFT, Past};
use minikv_kernel::device::Pages;
use minikv_kernel::mounts::{Kind, MountedDisk, Mounts};
use minikv_support::crash::model::{Entries, hash_of};
use minikv_support::crash::workload::{Disk, Run};
use minikv_support::rng::Rng;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns all entries, each read twice.
fn entries_of(db: &impl Readable) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| format!("iterating: {error}"))?;
        let got = db.get(&key).map_err(|error| format!("get: {error}"))?;
        if got.as_ref() != Some(&value) {
            return Err(format!("get and iteration differ about {}", key.escape_ascii()));
        }
        entries.insert(key.to_vec(), value.to_vec());
    }
    Ok(entries)
}

/// Returns the entries of the database in `disk`, after its recovery and a check of all its files.
fn recover(run: &Run<MountedDisk>, disk: &MountedDisk) -> Result<Entries, String> {
    let options = run.kind.options(disk, run.seed);
    let db = Db::open(disk.dir(), options).map_err(|error| format!("open: {error}"))?;
    let entries = entries_of(&db)?;
    drop(db);
    match verify(disk.dir(), &run.kind.options(disk, run.seed)) {
        Ok(report) if report.is_sound() => Ok(entries),
        Ok(report) => Err(format!("verify: {:?}", report.faults)),
        Err(error) => Err(format!("verify: {error}")),
    }
}

/// Returns the entries of the database in `disk`, without a change of its files. There are none
/// where a recovery would have made a new database.
fn read(run: &Run<MountedDisk>, disk: &MountedDisk) -> Result<Entries, String> {
    let current = disk.dir().join("CURRENT");
    if !current.try_exists().map_err(|error| format!("{}: {error}", current.display()))? {
        return Ok(Entries::new());
    }
    let options = run.kind.options(disk, run.seed);
    let db = Db::open_read_only(disk.dir(), options).map_err(|error| format!("open: {error}"))?;
    entries_of(&db)
}

/// Lets the power fail twice after the end of `run`, which began with the disk `before`, and checks
/// what is there. Nothing that was synced may be missing.
///
/// A failed flush can leave ext4 with metadata that the kernel refuses to mount, or finds wrong at
/// the next write and makes read-only; what can be read then must have what was synced. Returns the
/// number of both.
fn check_losses(
    (mounts, kind): (&Mounts, Kind),
    run: &Run<MountedDisk>,
    before: &Pages,
    rng: &mut Rng,
) -> Result<u64, String> {
    let log = run.fs.log();
    let mut past = Past::new(before.clone(), log.clone());
    let mut spoilt = 0;
    for left in [*rng.pick(&LEFT), *rng.pick(&LEFT)] {
        let mounted = match mounts.mount(kind, past.crash(log.len(), left, rng)) {
            Err(error) if error.starts_with("\"mount\"") => {
                spoilt += 1;
                continue;
            }
            mounted => mounted?,
        };
        // A recovery needs a little space.
        let _ = std::fs::remove_file(mounted.path().join("filler"));
        let entries = match recover(run, &mounted.disk()) {
            Ok(entries) => entries,
            Err(_) if mounted.is_read_only() => {
                spoilt += 1;
                // The kernel may refuse reads, too.
                let Ok(entries) = read(run, &mounted.disk()) else { continue };
                entries
            }
            Err(error) => return Err(format!("{left:?}: {error}")),
        };
        run.check_after_fault(hash_of(&entries), true)
            .map_err(|error| format!("{left:?}: {error}"))?;
    }
    Ok(spoilt)
}

/// Returns whether this process maps a log in `disk`.
fn maps_a_log(disk: &MountedDisk) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let dir = disk.dir().display().to_string();
    maps.lines().any(|map| map.contains(&dir) && map.ends_with(".log"))
}

/// Returns where to run, or prints why there is no such place.
fn mounts() -> Option<Mounts> {
    Mounts::new().inspect_err(|why| println!("skipped: no disk can be served here: {why}")).ok()
}
