//! Tests of every workload at a small size, on minikv and on stores whose wrong answers must be
//! caught.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Mutex;

use ::minikv::Options;

use crate::run::{Plan, Runner};
use crate::store::{Direction, Ended, Entry, Result, Settings, Store, Transact};
use crate::workload::{WORKLOADS, find};
use crate::{Better, Minikv};

const ENTRIES: u64 = 2000;

fn plan() -> Plan {
    // The write buffer is small, so that there are tables.
    let settings =
        Settings { write_buffer_bytes: 32 << 10, cache_bytes: 64 << 10, transactions: false };
    Plan { entries: ENTRIES, settings, ..Plan::default() }
}

fn open_minikv(dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
    let options = Options::default()
        .write_buffer_bytes(settings.write_buffer_bytes)
        .block_cache_bytes(settings.cache_bytes);
    Ok(Box::new(Minikv::open(dir, options, "minikv".to_string())?))
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
            // Transactions may all be lucky.
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
    // No workload can start from the state that `deleterandom` leaves; it needs a new database.
    assert!(runner.run(find("deleterandom").unwrap()).is_ok());
    assert!(runner.run(find("readrandom").unwrap()).is_ok());
}

#[test]
fn what_is_written_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut runner = Runner::new(plan(), &dir, &open_minikv);
    runner.run(find("fillrandom").unwrap()).unwrap();
    let outcome = runner.run(find("compact").unwrap()).unwrap();
    let written = outcome.figures.iter().find(|figure| figure.name == "written per byte put");
    // The log, the flush and the compaction each write the data. Other tests of the process may
    // write at the same time, so there is no upper bound.
    assert!(written.unwrap().value > 1.5, "{written:?}");
}

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Finds nothing for one key in fifty.
    Loses,
    /// Returns the value of the next key.
    Confuses,
    /// Changes the last byte of a value.
    Damages,
    /// Keeps the first value of a key.
    Stale,
    /// Ignores deletes.
    Undeletes,
    /// Finds a key by its first 16 bytes alone.
    FindsMissing,
    /// Skips entries in scans.
    ScansPartly,
    /// Loses some writes of transactions.
    LosesAdditions,
}

/// A map in memory, with a fault.
struct Faulty {
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Held by the transaction that runs.
    transaction: Mutex<()>,
    fault: Fault,
}

impl Store for Faulty {
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
            Fault::FindsMissing => map.get(short),
            Fault::Loses if key.ends_with(b"17") || key.ends_with(b"67") => None,
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
            self.fault != Fault::ScansPartly || !key.ends_with(b"99")
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
        Ok(())
    }

    fn wait_idle(&self) -> Result<bool> {
        Ok(true)
    }

    fn describe(&self) -> String {
        format!("{:?}", self.fault)
    }
}

/// The transaction that runs on a map in memory.
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

/// Returns the names of the workloads that fail on a store with this fault.
fn caught(fault: Fault, names: &[&'static str]) -> Vec<&'static str> {
    let home = tempfile::tempdir().unwrap();
    let open = |dir: &Path, _: &Settings| -> Result<Box<dyn Store>> {
        std::fs::create_dir_all(dir)?;
        Ok(Box::new(Faulty { map: Mutex::default(), transaction: Mutex::default(), fault }))
    };
    let fails = |name: &&&str| {
        let mut runner = Runner::new(plan(), &home.path().join("db"), &open);
        runner.run(find(name).unwrap()).is_err()
    };
    names.iter().filter(fails).copied().collect()
}

#[test]
fn a_store_that_answers_wrongly_is_caught() {
    let gets = ["fillseq", "fillrandom", "fillsync", "readrandom", "readthreads", "ycsb-a"];
    let scans = ["readseq", "readreverse", "seekrandom", "scan100"];
    let others = ["deleterandom", "loadsorted", "transact"];
    assert_eq!(caught(Fault::None, &[&gets[..], &scans, &others].concat()), [""; 0]);
    for fault in [Fault::Loses, Fault::Confuses, Fault::Damages] {
        assert_eq!(caught(fault, &gets), gets, "{fault:?}");
    }
    assert_eq!(caught(Fault::ScansPartly, &scans), scans);
    assert_eq!(caught(Fault::Stale, &["overwrite"]), ["overwrite"]);
    assert_eq!(caught(Fault::Undeletes, &["deleterandom"]), ["deleterandom"]);
    assert_eq!(caught(Fault::ScansPartly, &["loadsorted"]), ["loadsorted"]);
    assert_eq!(caught(Fault::LosesAdditions, &["transact"]), ["transact"]);
    assert_eq!(caught(Fault::FindsMissing, &["readmissing"]), ["readmissing"]);
}
