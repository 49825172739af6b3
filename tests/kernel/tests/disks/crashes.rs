//! Losses of power after any operation of the disk. minikv must find the state after some number of
//! the commits: all synced ones at least, and none that had not begun. After a sample of the
//! recoveries, LevelDB must find the same entries.

use minikv_interop::{LevelDb, Settings};
use minikv_kernel::crash::{LEFT, Left, Past};
use minikv_kernel::device::Pages;
use minikv_kernel::mounts::{BTRFS, EXT4, Kind, MountedDisk, Mounts, XFS};
use minikv_support::crash::model::{Entries, hash_of};
use minikv_support::crash::workload::{Disk, KINDS, LONG_LOGS, Run};
use minikv_support::rng::Rng;

use crate::{maps_a_log, mounts, recover, setting};

/// Number of crash images of a workload.
const IMAGES: usize = 20;

/// One of as many images is read by LevelDB, too.
const LEVELDB_STRIDE: usize = 4;

/// One of as many workloads has logs that are written through a mapping, if the filesystem allows.
const LONG_STRIDE: u64 = 3;

fn by_leveldb(disk: &MountedDisk) -> Result<Entries, String> {
    if !disk.dir().join("CURRENT").exists() {
        return Ok(Entries::new());
    }
    // With `paranoid_checks`, LevelDB refuses a record that a loss of power has torn in a log whose
    // length was set ahead.
    let settings = Settings { paranoid_checks: false, ..Settings::default() };
    let db = LevelDb::open(&disk.dir(), &settings).map_err(|error| format!("LevelDB: {error}"))?;
    Ok(db.entries(false).map_err(|error| format!("LevelDB: {error}"))?.into_iter().collect())
}

/// Runs a workload on a filesystem of its own. Now and then, the kernel writes what nobody synced.
/// Also returns whether a log was written through a mapping.
fn finish(mounts: &Mounts, kind: Kind, before: &Pages, seed: u64) -> (Run<MountedDisk>, bool) {
    let mounted = mounts.mount(kind, before.clone()).unwrap();
    let has_long_logs = seed.is_multiple_of(LONG_STRIDE);
    let mut run = match has_long_logs {
        true => Run::of_kind(LONG_LOGS, mounted.disk(), seed),
        false => Run::on(mounted.disk(), seed),
    };
    run.open().unwrap();
    let mut rng = Rng::new(seed);
    let mut is_mapped = false;
    while run.step().unwrap_or_else(|error| panic!("{}: {error}", run.describe())) {
        if rng.one_in(if has_long_logs { 30 } else { 3 }) {
            mounted.write_back(|| rng.one_in(2)).unwrap();
        }
        is_mapped |= has_long_logs && maps_a_log(&run.fs);
    }
    (run, is_mapped)
}

#[derive(Default)]
struct Tally {
    images: usize,
    /// Images that the kernel did not mount: ext4's superblock is two sectors long.
    refused: usize,
    ops: usize,
    /// Workloads with a log that was written through a mapping.
    mapped: usize,
    by_leveldb: usize,
    /// Images that had lost commits, which were not synced.
    lost: usize,
    /// Images that had kept commits which were not synced.
    kept: usize,
}

impl Tally {
    /// Lets the kernel mount `pages`, and checks what is there.
    fn check(
        &mut self,
        (mounts, kind): (&Mounts, Kind),
        run: &Run<MountedDisk>,
        number: usize,
        pages: Pages,
    ) -> Result<(), String> {
        let number = number as u64;
        let (least, most) = (run.model.least(number, true), run.model.most(number));
        self.images += 1;
        let Ok(mounted) = mounts.mount(kind, pages) else {
            self.refused += 1;
            return Ok(());
        };
        let entries = recover(run, &mounted.disk())?;
        let found = run.model.find(hash_of(&entries), least, most).ok_or_else(|| {
            let count = entries.len();
            format!("{count} entries, which is no state between {least} and {most} commits")
        })?;
        self.lost += usize::from(found < most);
        self.kept += usize::from(found > least);
        if self.images.is_multiple_of(LEVELDB_STRIDE) {
            if by_leveldb(&mounted.disk())? != entries {
                return Err("LevelDB finds other entries after the recovery".to_owned());
            }
            self.by_leveldb += 1;
        }
        Ok(())
    }
}

fn crashes(kind: Kind) {
    let Some(mounts) = mounts() else { return };
    let before = mounts.make(kind).unwrap();
    let (images, mut seed) = (setting("MINIKV_KERNEL_IMAGES", 60), setting("MINIKV_SEED", 1));
    let mut tally = Tally::default();
    let first = seed;
    while tally.images < images as usize {
        let ((run, is_mapped), mut rng) = (finish(&mounts, kind, &before, seed), Rng::new(seed));
        tally.mapped += usize::from(is_mapped);
        let log = run.fs.log();
        tally.ops += log.len();
        let mut numbers: Vec<usize> = (0..IMAGES).map(|_| rng.below(log.len() + 1)).collect();
        numbers.sort_unstable();
        let mut past = Past::new(before.clone(), log);
        for number in numbers {
            let left = *rng.pick(&LEFT);
            let pages = past.crash(number, left, &mut rng);
            let checked = tally.check((&mounts, kind), &run, number, pages);
            checked.unwrap_or_else(|error| {
                let what = run.describe();
                panic!("{}, {what}, operation {number}, {left:?}: {error}", kind.name)
            });
        }
        seed += 1;
    }
    let Tally { images, refused, ops, mapped, by_leveldb, lost, kept } = tally;
    assert!(lost > images / 10 && kept > 0, "{lost} lost something, {kept} kept more");
    assert_eq!(mapped > 0, kind == EXT4, "{mapped} workloads had mapped logs");
    assert!(refused <= images / 20, "the kernel refused to mount {refused} of {images}");
    println!(
        "{}: {images} losses of power at {ops} operations of workloads {first} to {}: 0 \
         violations; {lost} lost commits that were not synced, {kept} kept some; {by_leveldb} \
         read by LevelDB alike, {refused} not mounted by the kernel",
        kind.name,
        seed - 1,
    );
}

#[test]
fn a_loss_of_power_on_ext4_loses_nothing_that_was_synced() {
    crashes(EXT4);
}

#[test]
fn a_loss_of_power_on_xfs_loses_nothing_that_was_synced() {
    crashes(XFS);
}

#[test]
fn a_loss_of_power_on_btrfs_loses_nothing_that_was_synced() {
    crashes(BTRFS);
}

/// A disk that says that it has flushed, and has not, loses what was synced.
#[test]
fn a_disk_that_forgets_flushes_is_noticed() {
    let Some(mounts) = mounts() else { return };
    let before = mounts.make(EXT4).unwrap();
    let (mut wrong, mut images) = (0, 0);
    for seed in 0..KINDS.len() as u64 {
        let run = &finish(&mounts, EXT4, &before, seed).0;
        let mut past = Past::new(before.clone(), run.fs.log()).forget(4);
        let synced = run.model.commits.iter().filter(|commit| commit.sync);
        for commit in synced.step_by(3).take(4) {
            let number = commit.acked as usize;
            let pages = past.crash(number, Left::Nothing, &mut Rng::new(seed));
            let place = (&mounts, EXT4);
            let checked = Tally::default().check(place, run, number, pages);
            wrong += usize::from(checked.is_err());
            images += 1;
        }
    }
    println!("{wrong} of {images} images lack what was synced");
    assert!(images > 20 && wrong > images / 2, "{wrong} of {images}");
}
