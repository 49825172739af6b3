//! Runs every workload at a small size on minikv, and on faulty stores whose wrong results must be
//! detected.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::minikv::Options;

use crate::run::{Plan, Runner};
use crate::store::{Direction, Ended, Entry, Follower, Result, Settings, Space, Store, Transact};
use crate::workload::{Group, WORKLOADS, find};
use crate::{Better, Minikv, Outcome, is_removed};

const ENTRIES: u64 = 2000;

fn plan() -> Plan {
    // The write buffer is small, so that entries reach tables.
    Plan { entries: ENTRIES, settings: Settings::new(32 << 10, 64 << 10), ..Plan::default() }
}

fn open_minikv(dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
    let options = Options::default()
        .write_buffer_bytes(settings.write_buffer_bytes)
        .block_cache_bytes(settings.cache_bytes);
    Ok(Box::new(Minikv::open(dir, options, settings, "minikv".to_string())?))
}

#[test]
fn every_workload_runs_on_minikv() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut runner = Runner::new(plan(), &dir, &open_minikv);
    for workload in WORKLOADS {
        let outcome = runner.run(workload).unwrap();
        assert_eq!(outcome.workload, workload.name);
        assert!(outcome.operations > 0 && outcome.seconds > 0.0, "{outcome:?}");
        for figure in &outcome.figures {
            // The share of conflicts is 0 if no transaction had a conflict.
            let may_be_none = figure.name == "transact, conflicts" && figure.value == 0.0;
            assert!(may_be_none || figure.value.is_finite() && figure.value > 0.0, "{figure:?}");
            assert!(figure.name.starts_with(workload.name) || workload.name == "compact");
        }
        let first = &outcome.figures[0];
        assert_eq!(first.better == Better::Higher, first.unit == "op/s", "{first:?}");
        if let Some(latency) = outcome.latency {
            assert!(0.0 < latency.median && latency.median <= latency.p99, "{latency:?}");
            assert!(latency.p99 <= latency.p999 && latency.p999 <= latency.max, "{latency:?}");
        }
    }
    assert_eq!(runner.describe().as_deref(), Some("minikv"));
}

#[test]
fn every_workload_runs_alone_and_in_the_opposite_order() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut runner = Runner::new(plan(), &dir, &open_minikv);
    for workload in WORKLOADS.iter().rev() {
        assert_eq!(runner.run(workload).unwrap().workload, workload.name);
    }
    // No workload can start from the state that `deleterandom` leaves. The next workload needs a
    // new database.
    assert!(runner.run(find("deleterandom").unwrap()).is_ok());
    assert!(runner.run(find("readrandom").unwrap()).is_ok());
}

#[test]
fn written_bytes_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut runner = Runner::new(plan(), &dir, &open_minikv);
    runner.run(find("fillrandom").unwrap()).unwrap();
    let outcome = runner.run(find("compact").unwrap()).unwrap();
    let written = outcome.figures.iter().find(|figure| figure.name == "written per byte put");
    // The log, the flush and the compaction each write the data. Other tests in this process may
    // write at the same time, so the test has no upper bound.
    assert!(written.unwrap().value > 1.5, "{written:?}");
}

#[test]
fn features_beside_puts_and_gets_have_plausible_figures() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut runner = Runner::new(plan(), &dir, &open_minikv);
    let mut run = |name: &str| runner.run(find(name).unwrap()).unwrap();
    let names = |outcome: &Outcome| {
        let names = outcome.figures.iter().map(|figure| format!("{} {}", figure.name, figure.unit));
        names.collect::<Vec<_>>()
    };

    let sync = run("sync");
    assert_eq!(names(&sync), ["sync op/s", "sync, 4 threads op/s"]);
    assert_eq!(sync.operations, 20);

    let keyspaces = run("keyspaces");
    assert_eq!(names(&keyspaces), ["keyspaces, puts op/s", "keyspaces, gets op/s"]);
    assert_eq!(keyspaces.operations, ENTRIES);
    let shared = run("shared");
    let peak = "shared, peak memory MiB";
    assert_eq!(names(&shared), ["shared, puts op/s", "shared, gets op/s", peak]);
    assert_eq!(shared.operations, ENTRIES);

    let backup = run("backup");
    let added = "backup, added by the second MiB";
    assert_eq!(names(&backup), ["backup ms", "backup, second ms", added]);
    // The second backup adds a MANIFEST and a log. The log has a hundredth of 2,000 entries of 116
    // bytes, which is about 2 KiB.
    assert!(backup.figures[2].value < 0.1, "{backup:?}");

    let follow = run("follow");
    assert_eq!(names(&follow), ["follow µs", "follow, p99 µs"]);
    assert_eq!(follow.operations, 10);

    let filtered = run("filtered");
    assert_eq!(names(&filtered), ["filtered op/s", "filtered, disk after MiB"]);
    assert_eq!(filtered.operations, ENTRIES);
    // Half of 2,000 entries of 116 bytes remain, and their values compress to half: 70 KiB.
    let disk = filtered.figures[1].value;
    assert!((0.05..0.2).contains(&disk), "{disk}");
}

/// The fault of a test store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Lacks every optional feature.
    HasNothing,
    /// Does not find 3 of every 100 keys.
    Loses,
    /// Returns the value of the next key.
    Confuses,
    /// Changes the last byte of a value.
    Damages,
    /// Always returns the first value that was put for a key.
    Stale,
    /// Ignores deletes.
    Undeletes,
    /// Compares only the first 16 bytes of a key of 17 bytes. For a longer key, finds the last
    /// entry that is not after the key.
    FindsMissing,
    /// Skips entries in scans.
    ScansPartly,
    /// Loses some of the writes in transactions.
    LosesAdditions,
    /// Uses one set of entries for all keyspaces, and for all databases that share resources.
    MixesSpaces,
    /// Makes only the first backup, and ignores later requests for backups.
    BacksUpLate,
    /// Leaves entries out of backups.
    BacksUpPartly,
    /// Shows a follower only the initial state.
    FollowsLate,
    /// Keeps the entries that the compaction filter removes.
    FiltersNothing,
    /// Removes more entries than the compaction filter does.
    FiltersMore,
}

type Map = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Databases and backups, by directory.
type Disk = Arc<Mutex<HashMap<PathBuf, Map>>>;

/// A store that keeps its entries in a map in memory, and has a fault.
struct Faulty {
    map: Map,
    disk: Disk,
    /// Locked while a transaction runs.
    transaction: Mutex<()>,
    filtered: bool,
    fault: Fault,
}

/// Returns an independent map with the same entries.
fn copy(map: &Map) -> Map {
    Arc::new(Mutex::new(map.lock().unwrap().clone()))
}

impl Store for Faulty {
    fn has(&self, group: Group) -> bool {
        self.fault != Fault::HasNothing || !group.is_optional()
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn keyspaces(&mut self, count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        self.open_shared(&vec![PathBuf::new(); count], &plan().settings)
    }

    fn open_shared(&self, dirs: &[PathBuf], _: &Settings) -> Result<Vec<Box<dyn Space>>> {
        let one = Map::default();
        let open = |_| -> Box<dyn Space> {
            match self.fault {
                Fault::MixesSpaces => Box::new(one.clone()),
                _ => Box::new(Map::default()),
            }
        };
        Ok(dirs.iter().map(open).collect())
    }

    fn backup(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut disk = self.disk.lock().unwrap();
        if self.fault != Fault::BacksUpLate || !disk.contains_key(folder) {
            let backup = copy(&self.map);
            if self.fault == Fault::BacksUpPartly {
                backup.lock().unwrap().pop_last();
            }
            disk.insert(folder.to_path_buf(), backup);
        }
        Ok(())
    }

    fn restore(&self, folder: &Path, dir: &Path) -> Result<()> {
        std::fs::create_dir(dir)?;
        let mut disk = self.disk.lock().unwrap();
        let restored = copy(&disk[folder]);
        disk.insert(dir.to_path_buf(), restored);
        Ok(())
    }

    fn follow(&self) -> Result<Box<dyn Follower>> {
        Ok(Box::new(match self.fault {
            Fault::FollowsLate => copy(&self.map),
            _ => self.map.clone(),
        }))
    }

    fn put(&self, key: &[u8], value: &[u8], _: bool) -> Result<()> {
        let mut map = self.map.lock().unwrap();
        if self.fault != Fault::Stale || !map.contains_key(key) {
            map.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        entries.iter().try_for_each(|(key, value)| self.put(key, value, false))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        if self.fault != Fault::Undeletes {
            self.map.lock().unwrap().remove(key);
        }
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.map.lock().unwrap();
        let short = &key[..16];
        let value = match self.fault {
            Fault::FindsMissing if key.len() > 17 => {
                let up_to = (Bound::Unbounded, Bound::Included(key));
                map.range::<[u8], _>(up_to).next_back().map(|(_, value)| value)
            }
            Fault::FindsMissing => map.get(short),
            Fault::Loses if [b"17", b"67", b"24"].iter().any(|end| short.ends_with(*end)) => None,
            Fault::Confuses => map
                .range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded))
                .next()
                .map(|(_, value)| value),
            _ => map.get(key),
        };
        let Some(value) = value else { return Ok(false) };
        let mut value = value.clone();
        if self.fault == Fault::Damages {
            *value.last_mut().unwrap() ^= 1;
        }
        found(&value);
        Ok(true)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let map = self.map.lock().unwrap();
        let wanted = |(key, _): &(&Vec<u8>, &Vec<u8>)| {
            self.fault != Fault::ScansPartly || !matches!(&key[14..16], b"98" | b"99")
        };
        let from = from.unwrap_or(b"");
        let range = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        match direction {
            Direction::Forward => {
                range.filter(wanted).all(|(key, value)| visit(key, value));
            }
            Direction::Backward => {
                range.rev().filter(wanted).all(|(key, value)| visit(key, value));
            }
        }
        Ok(())
    }

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        let _running = self.transaction.lock().unwrap();
        body(&mut Running(self))?;
        Ok(Ended::Committed)
    }

    fn compact(&mut self) -> Result<()> {
        let mut map = self.map.lock().unwrap();
        if self.filtered && self.fault != Fault::FiltersNothing {
            map.retain(|key, _| !is_removed(key));
        }
        if self.filtered && self.fault == Fault::FiltersMore {
            map.pop_last();
        }
        Ok(())
    }

    fn wait_idle(&self) -> Result<bool> {
        Ok(true)
    }

    fn describe(&self) -> String {
        format!("{:?}", self.fault)
    }
}

impl Space for Map {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.lock().unwrap().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.lock().unwrap().get(key).map(|value| found(value)).is_some())
    }
}

impl Follower for Map {
    fn catch_up(&self) -> Result<()> {
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Space::get(self, key, found)
    }
}

/// A running transaction on a map in memory.
struct Running<'a>(&'a Faulty);

impl Transact for Running<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.0.get(key, found).map(drop)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.0.fault == Fault::LosesAdditions && key.ends_with(b"7") {
            return Ok(());
        }
        self.0.put(key, value, false)
    }
}

/// Runs a workload on a store with the given fault.
fn run_faulty(fault: Fault, name: &str) -> Result<Outcome> {
    let home = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let open = |dir: &Path, settings: &Settings| -> Result<Box<dyn Store>> {
        let mut maps = disk.lock().unwrap();
        if !dir.try_exists()? {
            maps.remove(dir);
        }
        std::fs::create_dir_all(dir)?;
        let map = maps.entry(dir.to_path_buf()).or_default().clone();
        let (disk, transaction) = (disk.clone(), Mutex::default());
        let filtered = settings.filtered;
        Ok(Box::new(Faulty { map, disk, transaction, filtered, fault }))
    };
    let mut runner = Runner::new(plan(), &home.path().join("db"), &open);
    runner.run(find(name).unwrap())
}

/// Returns the names of the workloads that fail on a store with the given fault.
fn caught(fault: Fault, names: &[&'static str]) -> Vec<&'static str> {
    names.iter().filter(|name| run_faulty(fault, name).is_err()).copied().collect()
}

#[test]
fn a_store_that_answers_wrongly_is_caught() {
    let gets = ["fillseq", "fillrandom", "fillsync", "readrandom", "readthreads", "ycsb-a"];
    let scans = ["readseq", "readreverse", "seekrandom", "scan100"];
    let spaces = ["keyspaces", "shared"];
    let others = ["deleterandom", "loadsorted", "transact", "sync", "backup", "follow", "filtered"];
    assert_eq!(caught(Fault::None, &[&gets[..], &scans, &spaces, &others].concat()), [""; 0]);
    let requests = ["mixgraph", "cachetrace"];
    assert_eq!(caught(Fault::None, &requests), [""; 0]);
    for fault in [Fault::Loses, Fault::Confuses, Fault::Damages] {
        assert_eq!(caught(fault, &gets), gets, "{fault:?}");
        assert_eq!(caught(fault, &requests), requests, "{fault:?}");
    }
    assert_eq!(caught(Fault::ScansPartly, &["mixgraph"]), ["mixgraph"]);
    assert_eq!(caught(Fault::FindsMissing, &["cachetrace"]), ["cachetrace"]);
    assert_eq!(caught(Fault::ScansPartly, &scans), scans);
    assert_eq!(caught(Fault::Stale, &["overwrite"]), ["overwrite"]);
    assert_eq!(caught(Fault::Undeletes, &["deleterandom"]), ["deleterandom"]);
    assert_eq!(caught(Fault::ScansPartly, &["loadsorted"]), ["loadsorted"]);
    assert_eq!(caught(Fault::LosesAdditions, &["transact"]), ["transact"]);
    assert_eq!(caught(Fault::FindsMissing, &["readmissing"]), ["readmissing"]);
    assert_eq!(caught(Fault::Loses, &["sync"]), ["sync"]);
    assert_eq!(caught(Fault::MixesSpaces, &spaces), spaces);
    for fault in [Fault::BacksUpLate, Fault::BacksUpPartly] {
        assert_eq!(caught(fault, &["backup"]), ["backup"], "{fault:?}");
    }
    assert_eq!(caught(Fault::FollowsLate, &["follow"]), ["follow"]);
    for fault in [Fault::FiltersNothing, Fault::FiltersMore] {
        assert_eq!(caught(fault, &["filtered"]), ["filtered"], "{fault:?}");
    }
}

#[test]
fn features_that_an_engine_lacks_have_no_figures() {
    for workload in WORKLOADS.iter().filter(|workload| workload.group.is_optional()) {
        let outcome = run_faulty(Fault::HasNothing, workload.name).unwrap();
        assert_eq!((outcome.operations, outcome.figures), (0, Vec::new()), "{}", workload.name);
    }
}
