//! Losses of power while several clients write, on a disk that answers late. minikv must find a
//! prefix of the clients' common order, with all that was synced.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use minikv::{Compression, Db, Options, verify};
use minikv_kernel::clients::{Clients, Commits};
use minikv_kernel::crash::{LEFT, Past};
use minikv_kernel::device::{LATE_MILLIS, Op, Pages, overtaken};
use minikv_kernel::mounts::{BTRFS, EXT4, Kind, MountedDisk, Mounts, XFS};
use minikv_support::crash::model::Entries;
use minikv_support::crash::workload::Disk;
use minikv_support::rng::Rng;

use crate::{mounts, setting};

/// Number of crash images of a run.
const IMAGES: usize = 20;

fn options(seed: u64) -> Options {
    let options = Options::default().create_if_missing(true).write_buffer_bytes(8 << 10);
    // Every other run has a log that is written through a mapping, where the filesystem allows.
    options.compression(Compression::None).preallocate_logs(seed.is_multiple_of(2))
}

/// Returns the entries after a recovery, once all files were checked.
fn recover(disk: &MountedDisk, seed: u64) -> Result<Entries, String> {
    let db = Db::open(disk.dir(), options(seed)).map_err(|error| format!("open: {error}"))?;
    let entries = db.iter().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
    let entries =
        entries.collect::<minikv::Result<Entries>>().map_err(|error| error.to_string())?;
    drop(db);
    match verify(disk.dir(), &options(seed)) {
        Ok(report) if report.is_sound() => Ok(entries),
        Ok(report) => Err(format!("verify: {:?}", report.faults)),
        Err(error) => Err(format!("verify: {error}")),
    }
}

/// Lets the clients write on a filesystem of their own. Returns their commits, and the disk.
fn run(mounts: &Mounts, kind: Kind, clients: &Clients, before: &Pages) -> (Commits, Vec<Op>) {
    let mounted = mounts.mount(kind, before.clone()).unwrap();
    let disk = mounted.disk();
    let db = Db::open(disk.dir(), options(clients.seed)).unwrap();
    mounted.device().answer_late(Some(clients.seed));
    let commits = clients.run(&db, &disk).unwrap();
    mounted.device().answer_late(None);
    (commits, disk.log())
}

fn delays(kind: Kind) {
    let Some(mounts) = mounts() else { return };
    let before = mounts.make(kind).unwrap();
    let (images, first) = (setting("MINIKV_KERNEL_IMAGES", 60) / 4, setting("MINIKV_SEED", 1));
    let (mut seed, mut done, mut refused, mut lost, mut kept) = (first, 0, 0, 0, 0);
    let (mut longest, mut late) = (Duration::ZERO, 0);
    while done < images {
        let clients = Clients { seed, commits: 40, sync_one_in: 6 };
        let (commits, log) = run(&mounts, kind, &clients, &before);
        longest =
            commits.iter().flatten().map(|commit| commit.took).max().max(Some(longest)).unwrap();
        late += overtaken(&log);
        let mut rng = Rng::new(seed);
        let mut numbers: Vec<usize> = (0..IMAGES).map(|_| rng.below(log.len() + 1)).collect();
        numbers.sort_unstable();
        let mut past = Past::new(before.clone(), log);
        for number in numbers {
            let left = *rng.pick(&LEFT);
            done += 1;
            let Ok(mounted) = mounts.mount(kind, past.crash(number, left, &mut rng)) else {
                refused += 1;
                continue;
            };
            let checked = recover(&mounted.disk(), seed)
                .and_then(|entries| clients.check(&entries, &commits, number as u64));
            let (less, more) = checked.unwrap_or_else(|error| {
                panic!("{}, clients {seed}, operation {number}, {left:?}: {error}", kind.name)
            });
            lost += usize::from(less > 0);
            kept += usize::from(more > 0);
        }
        seed += 1;
    }
    assert!(lost > 0 && kept > 0, "{lost} lost something, {kept} kept more");
    assert!(longest >= Duration::from_millis(LATE_MILLIS.0), "nothing was late: {longest:?}");
    assert!(refused <= done / 20, "the kernel refused to mount {refused} of {done}");
    println!(
        "{}: {done} losses of power on a disk that answers late, clients {first} to {}: 0 \
         violations; {late} requests were overtaken; {lost} lost commits that were not synced, \
         {kept} kept some; the longest put took {longest:.0?}; {refused} not mounted by the kernel",
        kind.name,
        seed - 1,
    );
}

#[test]
fn clients_of_a_late_disk_with_ext4_lose_nothing_that_was_synced() {
    delays(EXT4);
}

#[test]
fn clients_of_a_late_disk_with_xfs_lose_nothing_that_was_synced() {
    delays(XFS);
}

#[test]
fn clients_of_a_late_disk_with_btrfs_lose_nothing_that_was_synced() {
    delays(BTRFS);
}

/// Many requests are under way at once, so some must be done after later ones: if not, the kernel
/// waits for each answer, and no order but its own is tried.
#[test]
fn requests_of_a_late_disk_overtake_each_other() {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 1024;
    let Some(mounts) = mounts() else { return };
    let mounted = mounts.mount(EXT4, mounts.make(EXT4).unwrap()).unwrap();
    let file = File::create(mounted.path().join("file")).unwrap();
    file.write_all_at(&vec![1; (PAGE * PAGES) as usize], 0).unwrap();
    file.sync_all().unwrap();
    let before = mounted.disk().log().len();

    mounted.device().answer_late(Some(1));
    // Every other page, so that the kernel cannot join the requests.
    for page in (0..PAGES).step_by(2) {
        file.write_all_at(&[2; PAGE as usize], page * PAGE).unwrap();
    }
    file.sync_all().unwrap();
    mounted.device().answer_late(None);
    let log = mounted.disk().log().split_off(before);
    let (overtaken, requests) = (overtaken(&log), log.len());
    println!("{overtaken} of {requests} requests of a late disk were overtaken");
    assert!(overtaken > requests / 20, "{overtaken} of {requests} requests were overtaken");
}
