//! Flips bits in every file of a node, and loses sectors of its log. A node with such damage must
//! not start, or must have all of its log, its vote and its state.

use minikv::Readable;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use minikv::fs::{Fs, SimFs, sim::CrashPlan};
use minikv_raft::command::{Command, Op, Request};
use minikv_raft::kv::{Kv, TypeConfig};
use minikv_raft::requests::Requests;
use minikv_raft::store::{Error, Layout, LogStore, StateMachine, Store, StoreOptions};
use minikv_raft::watch::Hub;
use openraft::storage::{RaftLogReaderExt, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{Entry, EntryPayload, RaftSnapshotBuilder, Vote};

use crate::common::{Data, LAYOUTS, Opened, data_after, entry, id, open};

const NODE: &str = "/node";

/// Everything that a node promised to keep.
#[derive(Clone, Debug, PartialEq)]
struct Promised {
    vote: Option<Vote<u64>>,
    purged: Option<u64>,
    log: BTreeMap<u64, Entry<TypeConfig>>,
}

/// A node that has purged a part of its log, and whose databases have tables and write-ahead logs.
async fn node(fs: &SimFs, layout: Layout) -> Opened {
    let (store, mut log, mut machine) =
        open(Arc::new(fs.clone()), Path::new(NODE), layout).unwrap();
    log.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    log.blocking_append((0..150).map(|index| entry(1, index))).await.unwrap();
    store.log_durable().await.unwrap();
    machine.apply((0..120).map(|index| entry(1, index))).await.unwrap();
    machine.build_snapshot().await.unwrap();
    log.purge(id(1, 99)).await.unwrap();
    for first in (150..300).step_by(10) {
        log.blocking_append((first..first + 10).map(|index| entry(1, index))).await.unwrap();
    }
    log.save_committed(Some(id(1, 255))).await.unwrap();
    log.save_vote(&Vote::new(2, 3)).await.unwrap();
    machine.apply((120..256).map(|index| entry(1, index))).await.unwrap();
    log.blocking_append((300..310).map(|index| entry(1, index))).await.unwrap();
    store.log_durable().await.unwrap();
    (store, log, machine)
}

/// Returns what the node in `fs` has kept, or the reason why it does not start.
async fn kept(fs: &SimFs, layout: Layout) -> Result<Promised, String> {
    let opened = open(Arc::new(fs.clone()), Path::new(NODE), layout);
    let (store, mut log, mut machine) = opened.map_err(|e| e.to_string())?;
    let failed = |e: openraft::StorageError<u64>| e.to_string();
    let state = log.get_log_state().await.map_err(failed)?;
    let entries = log.get_log_entries(..).await.map_err(failed)?;
    let (applied, _) = machine.applied_state().await.map_err(failed)?;
    let applied = applied.map(|id| id.index);
    assert_eq!(data(&store)?, data_after(applied), "the state after entry {applied:?}");
    let purged = state.last_purged_log_id.map(|id| id.index);
    assert!(applied >= purged, "the state ends at {applied:?}, the log begins after {purged:?}");
    let log_entries = entries.into_iter().map(|entry| (entry.log_id.index, entry)).collect();
    Ok(Promised { vote: log.read_vote().await.map_err(failed)?, purged, log: log_entries })
}

/// Returns images of one moment of `fs`: what runs on it goes on to write and to remove files.
fn images(fs: &SimFs) -> impl Fn() -> SimFs + use<> {
    let moment = fs.crash_image(&CrashPlan::everything());
    move || moment.crash_image(&CrashPlan::everything())
}

fn data(store: &Store) -> Result<Data, String> {
    let owned = |entry: minikv::Result<(minikv::Bytes, minikv::Bytes)>| {
        let (key, value) = entry.map_err(|e| e.to_string())?;
        Ok((key.to_vec(), value.to_vec()))
    };
    store.state().data().iter().map(owned).collect()
}

/// Returns the files under `dir` with their lengths.
fn files(fs: &SimFs, dir: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for name in fs.list(dir).unwrap() {
        let path = dir.join(name);
        match fs.is_real_dir(&path).unwrap() {
            true => files(fs, &path, found),
            false => found.push((path.clone(), fs.len(&path).unwrap())),
        }
    }
}

async fn every_file(layout: Layout, is_closed: bool) {
    let positions: u64 = match std::env::var("MINIKV_RAFT_FLIPS") {
        Ok(number) => number.parse().unwrap(),
        Err(_) => 60,
    };
    let fs = SimFs::new(5);
    let opened = node(&fs, layout).await;
    if is_closed {
        drop(opened);
    } else {
        std::mem::forget(opened);
    }
    let image = images(&fs);
    let promised = kept(&image(), layout).await.unwrap();
    assert_eq!(promised.log.keys().copied().collect::<Vec<_>>(), (100..310).collect::<Vec<_>>());
    let mut found = Vec::new();
    files(&image(), Path::new(NODE), &mut found);
    let (mut flips, mut refused) = (0, 0);
    for (path, bytes) in found {
        // The last bytes of a write-ahead log, before its zeros, are the likeliest to be mistaken
        // for a write that was cut off.
        let end = content_end(&image(), &path, bytes);
        let step = (end / positions).max(1);
        let positions = (0..end).step_by(step as usize).chain(end.saturating_sub(positions)..end);
        for (number, at) in positions.enumerate() {
            let damaged = image();
            damaged.damage(&path, at, 1 << (number % 8)).unwrap();
            let place = format!("{}, byte {at}, bit {}, {layout:?}", path.display(), number % 8);
            match kept(&damaged, layout).await {
                Ok(kept) => assert_eq!(kept, promised, "{place}"),
                Err(why) => {
                    refused += 1;
                    assert!(why.contains(NODE), "{place}: `{why}` names no file");
                }
            }
            flips += 1;
        }
    }
    println!("{flips} flipped bits, {layout:?}: {refused} refused, all others did no harm");
    assert!(refused > flips / 10, "{refused} of {flips} were refused");
}

/// Returns the offset after the last byte of a file that is not zero.
fn content_end(fs: &SimFs, path: &Path, bytes: u64) -> u64 {
    let mut content = vec![0; bytes as usize];
    fs.open(path).unwrap().read_at(&mut content, 0).unwrap();
    content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_any_file_of_a_running_node_loses_nothing_silently() {
    for layout in LAYOUTS {
        every_file(layout, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_any_file_of_a_closed_node_loses_nothing_silently() {
    for layout in LAYOUTS {
        every_file(layout, true).await;
    }
}

/// Checks that a log from which an open by other means has removed entries is refused, too.
#[tokio::test]
async fn a_log_that_ends_before_the_state_is_refused() {
    let fs = SimFs::new(6);
    let (store, mut log, machine) = node(&fs, Layout::Two).await;
    log.get_log_state().await.unwrap();
    drop((store, log, machine));
    let options = minikv::Options::default().fs(fs.clone());
    let database = minikv::Db::open(Path::new(NODE).join("log"), options).unwrap();
    database.keyspace("log").unwrap().delete_range(200_u64.to_be_bytes()..).unwrap();
    drop(database);
    let why = kept(&fs, Layout::Two).await.unwrap_err();
    assert!(why.contains("ends at entry 199, but the state contains entry 255"), "{why}");
}

/// Zeros in a value look like sectors that a crash kept from being written.
#[tokio::test]
async fn a_flipped_bit_beside_a_value_of_zeros_is_not_taken_for_a_crash() {
    let key = Bytes::from("a key that is found in the log");
    for layout in LAYOUTS {
        let fs = SimFs::new(7);
        let (store, mut log, machine) =
            open(Arc::new(fs.clone()), Path::new(NODE), layout).unwrap();
        for index in 0..4 {
            let ops = vec![Op { key: key.clone(), value: Some(vec![0; 4096].into()) }];
            let command = Command::Write { conditions: Vec::new(), ops };
            let payload = EntryPayload::Normal(Requests::new(&[Request { id: None, command }]));
            log.blocking_append([Entry { log_id: id(1, index), payload }]).await.unwrap();
            store.log_durable().await.unwrap();
        }
        std::mem::forget((store, log, machine));
        let image = images(&fs);
        assert!(open(Arc::new(image()), Path::new(NODE), layout).is_ok());
        let (path, at) = place_of(&image(), &key);
        // The checksum, the length and the type of the record are before the key.
        for before in (0..100).filter(|before| *before <= at) {
            for bit in 0..8 {
                let damaged = image();
                damaged.damage(&path, at - before, 1 << bit).unwrap();
                let result = open(Arc::new(damaged), Path::new(NODE), layout);
                assert!(result.is_err(), "{layout:?}, byte {}, bit {bit}", at - before);
            }
        }
    }
}

/// Returns the first place of `text` in a write-ahead log of the node.
fn place_of(fs: &SimFs, text: &[u8]) -> (PathBuf, u64) {
    places_of(fs, Path::new(NODE), text).remove(0)
}

/// Returns the places of `text` in the write-ahead logs under `dir`.
fn places_of(fs: &SimFs, dir: &Path, text: &[u8]) -> Vec<(PathBuf, u64)> {
    let (mut found, mut places) = (Vec::new(), Vec::new());
    files(fs, dir, &mut found);
    for (path, bytes) in found {
        let mut content = vec![0; bytes as usize];
        fs.open(&path).unwrap().read_at(&mut content, 0).unwrap();
        let at = |(at, window): (usize, &[u8])| (window == text).then_some(at as u64);
        let places_in = content.windows(text.len()).enumerate().filter_map(at);
        if path.extension().is_some_and(|e| e == "log") {
            places.extend(places_in.map(|at| (path.clone(), at)));
        }
    }
    places
}

/// An edit that nobody synced yet: a crash leaves the rest of the MANIFEST, and every log.
#[tokio::test]
async fn a_torn_edit_of_a_manifest_keeps_no_node_from_starting() {
    for layout in LAYOUTS {
        let fs = SimFs::new(8);
        std::mem::forget(node(&fs, layout).await);
        let image = images(&fs);
        let promised = kept(&image(), layout).await.unwrap();
        let mut found = Vec::new();
        files(&image(), Path::new(NODE), &mut found);
        // The files of a snapshot are finished: no crash tears them.
        let is_live = |path: &Path| {
            path.to_str().is_some_and(|p| p.contains("MANIFEST") && !p.contains("snapshots"))
        };
        let manifests: Vec<_> = found.into_iter().filter(|(path, _)| is_live(path)).collect();
        let mut refused = 0;
        for (path, bytes) in manifests {
            let mut record = record_of(&[b'e'; 1200]);
            let (torn, at) = (image(), (512 - bytes % 512) as usize);
            record[at..at + 512].fill(0);
            append(&torn, &path, &record);
            assert_eq!(kept(&torn, layout).await.as_ref(), Ok(&promised), "{}", path.display());
            // The same record with a few bytes that are wrong is no crash. Only a state that has a
            // database of its own may lose edits: the log has its entries.
            let damaged = image();
            record = record_of(&[b'e'; 1200]);
            record[at..at + 8].fill(0);
            append(&damaged, &path, &record);
            match kept(&damaged, layout).await {
                Ok(kept) => assert_eq!((kept, layout), (promised.clone(), Layout::Two)),
                Err(why) => {
                    assert!(why.contains("MANIFEST"), "{why}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 1, "{layout:?}");
    }
}

/// Returns a record of a log with `content`.
fn record_of(content: &[u8]) -> Vec<u8> {
    let mut record = vec![1];
    record.extend(content);
    let sum = crc32c::crc32c(&record).rotate_right(15).wrapping_add(0xa282_ead8);
    let length = u16::try_from(content.len()).unwrap();
    [sum.to_le_bytes().as_slice(), &length.to_le_bytes(), &record].concat()
}

fn append(fs: &SimFs, path: &Path, bytes: &[u8]) {
    fs.append(path).unwrap().write(bytes).unwrap();
}

/// Opens a node whose write buffers keep all records of a test in one write-ahead log.
fn open_unflushed(fs: &SimFs, layout: Layout) -> minikv_raft::store::Result<Opened> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let options = StoreOptions { layout: Some(layout), fs, ..StoreOptions::default() };
    let store = Store::open(NODE, options)?;
    let log = LogStore::new(store.clone())?;
    let machine = StateMachine::new(store.clone(), Kv::new(Arc::new(Hub::new(0))));
    Ok((store, log, machine))
}

fn log_dir(layout: Layout) -> PathBuf {
    Path::new(NODE).join(if layout == Layout::One { "state-000001" } else { "log" })
}

/// An entry with a value of several sectors without zeros.
fn large(index: u64) -> Entry<TypeConfig> {
    let ops = vec![Op { key: large_key(index).into(), value: Some(vec![b'v'; 4096].into()) }];
    let command = Command::Write { conditions: Vec::new(), ops };
    let payload = EntryPayload::Normal(Requests::new(&[Request { id: None, command }]));
    Entry { log_id: id(1, index), payload }
}

fn large_key(index: u64) -> String {
    format!("large/{index:03}")
}

/// Returns an image of a node that has appended and applied entries one by one, all synced, and
/// then, if `more` is true, has appended another one.
async fn large_entries(layout: Layout, more: bool) -> impl Fn() -> SimFs {
    let fs = SimFs::new(9);
    let (store, mut log, mut machine) = open_unflushed(&fs, layout).unwrap();
    for index in 0..100 {
        log.blocking_append([large(index)]).await.unwrap();
        machine.apply([large(index)]).await.unwrap();
    }
    if more {
        log.blocking_append([large(100)]).await.unwrap();
    }
    std::mem::forget((store, log, machine));
    images(&fs)
}

/// Zeros the first whole sector from `at` on.
fn lose_sector(fs: &SimFs, path: &Path, at: u64) {
    let (mut sector, start) = ([0; 512], at.next_multiple_of(512));
    assert_eq!(fs.open(path).unwrap().read_at(&mut sector, start).unwrap(), 512);
    assert_ne!(sector, [0; 512]);
    for (at, byte) in (start..).zip(sector) {
        fs.damage(path, at, byte).unwrap();
    }
}

fn refusal(fs: &SimFs, layout: Layout) -> String {
    match open_unflushed(fs, layout) {
        Err(Error::Damaged { what }) => what,
        opened => panic!("{layout:?}: {opened:?}", opened = opened.map(|_| "opened")),
    }
}

#[tokio::test]
async fn a_lost_sector_before_synced_entries_is_not_taken_for_a_crash() {
    for layout in LAYOUTS {
        let image = large_entries(layout, true).await;
        assert!(open_unflushed(&image(), layout).is_ok());
        // The last of these is followed by what was applied of it, and by an entry.
        for index in [0, 50, 99] {
            let key = large_key(index);
            let (path, at) = places_of(&image(), &log_dir(layout), key.as_bytes()).remove(0);
            let damaged = image();
            lose_sector(&damaged, &path, at + 500);
            let why = refusal(&damaged, layout);
            assert!(why.contains(path.to_str().unwrap()), "{layout:?}, entry {index}: {why}");
        }
    }
}

/// An entry is applied only after it was synced, and so was the entry after the state of another.
#[tokio::test]
async fn a_lost_sector_before_what_needs_it_is_not_taken_for_a_crash() {
    let image = large_entries(Layout::One, false).await;
    let places = |index| places_of(&image(), &log_dir(Layout::One), large_key(index).as_bytes());
    let [(log, entry), _]: [_; 2] = places(99).try_into().unwrap();
    let [_, (_, state)]: [_; 2] = places(97).try_into().unwrap();
    for at in [entry, state] {
        let damaged = image();
        lose_sector(&damaged, &log, at + 500);
        refusal(&damaged, Layout::One);
    }
}

/// The state is not synced, and the entry after it may be on the disk before its sync has ended.
#[tokio::test]
async fn a_write_that_a_crash_tore_keeps_no_node_from_starting() {
    for layout in LAYOUTS {
        let image = large_entries(layout, true).await;
        let index = if layout == Layout::One { 99 } else { 100 };
        let places = places_of(&image(), &log_dir(layout), large_key(index).as_bytes());
        let (path, at) = places.last().unwrap();
        let torn = image();
        lose_sector(&torn, path, at + 500);
        let (_, mut log, _) = open_unflushed(&torn, layout).unwrap();
        let last = log.get_log_state().await.unwrap().last_log_id;
        assert_eq!(last, Some(id(1, 99)), "{layout:?}");
    }
}

#[tokio::test]
async fn a_lost_sector_among_votes_is_not_taken_for_a_crash() {
    for layout in LAYOUTS {
        let fs = SimFs::new(10);
        let (store, mut log, mut machine) = open_unflushed(&fs, layout).unwrap();
        for index in 0..3 {
            log.blocking_append([large(index)]).await.unwrap();
            machine.apply([large(index)]).await.unwrap();
        }
        for term in 5..=40 {
            log.save_vote(&Vote::new(term, 1)).await.unwrap();
        }
        std::mem::forget((store, log, machine));
        let image = images(&fs);
        let votes = places_of(&image(), &log_dir(layout), b"metavote");
        assert_eq!(votes.len(), 36);
        let (damaged, (path, at)) = (image(), &votes[9]);
        lose_sector(&damaged, path, *at);
        refusal(&damaged, layout);
    }
}

/// Edits are synced one by one.
#[tokio::test]
async fn a_lost_sector_inside_a_manifest_is_not_taken_for_a_crash() {
    for layout in LAYOUTS {
        let fs = SimFs::new(11);
        drop(node(&fs, layout).await);
        let dir = log_dir(layout);
        let options = minikv::Options::default().fs(fs.clone());
        let database = minikv::Db::open(&dir, options).unwrap();
        for number in 0..40_u32 {
            database.put(number.to_be_bytes(), "a value").unwrap();
            database.flush().unwrap();
        }
        drop(database);
        let manifest = dir.join(minikv::files::read_current(&fs, &dir).unwrap());
        let (image, sectors) = (images(&fs), fs.len(&manifest).unwrap() / 512 - 1);
        assert!(sectors > 2);
        for sector in 0..sectors {
            let damaged = image();
            lose_sector(&damaged, &manifest, sector * 512);
            let why = refusal(&damaged, layout);
            assert!(why.contains("MANIFEST"), "{layout:?}, sector {sector}: {why}");
        }
    }
}
