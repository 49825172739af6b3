//! Checks that, after each step of a random writer, a refresh shows what a new open shows.

use std::collections::BTreeMap;

use minikv::bulk::TableWriter;
use minikv::fs::sim::CrashPlan;
use minikv::{Db, Iter, Options, ReadOnlyDb, Readable, Snapshot, WriteBatch, WriteOptions};

use crate::rng::{Rng, seed};
use crate::switched::SwitchedFs;
use crate::{DIR, Entries, entries, of_iter, options};

/// Two readers that keep a view alive, and the entries that the view shows.
struct Held {
    shown: Entries,
    iter: Iter,
    snapshot: Snapshot,
}

struct Scene {
    rng: Rng,
    fs: SwitchedFs,
    options: Options,
    /// `None` while there is no writer.
    writer: Option<Db>,
    follower: ReadOnlyDb,
    held: Vec<Held>,
    /// Lower bound of the sequence number after the next refresh: the sequence number after the
    /// last refresh, or 0 if writes may have been lost since then.
    least: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let fs = SwitchedFs::new(seed);
        let mut rng = Rng::new(seed);
        // The number of kept logs varies, because it must not affect a reader.
        let keep_bytes = [0, 5000, u64::MAX][seed as usize % 3];
        let options = options(&fs, seed).reuse_logs(rng.one_in(2)).keep_logs_bytes(keep_bytes);
        let writer = Db::open(DIR, options.clone()).unwrap();
        let follower = Db::open_read_only(DIR, options.clone()).unwrap();
        let (held, counts) = (Vec::new(), BTreeMap::new());
        Scene { rng, fs, options, writer: Some(writer), follower, held, least: 0, counts }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn open_writer(&mut self) {
        self.writer = None;
        self.writer = Some(Db::open(DIR, self.options.clone()).unwrap());
    }

    fn put(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.below(3) {
            let key = format!("key{:03}", self.rng.below(60));
            match self.rng.one_in(5) {
                true => batch.delete(key),
                false => {
                    let len = self.rng.below(120);
                    batch.put(key, self.rng.bytes(len));
                }
            }
        }
        let sync = WriteOptions::default().sync(self.rng.one_in(6));
        self.writer.as_ref().unwrap().writing(sync).write(batch).unwrap();
    }

    /// Performs one step of the writer. Returns the name of the step.
    fn step(&mut self) -> &'static str {
        let Some(writer) = self.writer.clone() else {
            self.open_writer();
            return "open";
        };
        match self.rng.below(200) {
            0..150 => {
                self.put();
                return "put";
            }
            150..165 => writer.flush().unwrap(),
            165..168 => {
                let from = self.rng.below(60);
                let to = from + 1 + self.rng.below(30);
                let range = format!("key{from:03}")..format!("key{to:03}");
                writer.delete_range(range).unwrap();
                return "range delete";
            }
            168..175 => writer.compact_range(..).unwrap(),
            175..180 => writer.compact_range("key010".."key030").unwrap(),
            180..185 => {
                drop(writer);
                self.writer = None;
                return "close";
            }
            185..190 => {
                drop(writer);
                self.open_writer();
                return "reopen";
            }
            190..194 => return self.crash(&CrashPlan::process_kill(), "kill"),
            194..196 => {
                let plan = CrashPlan::random(self.rng.next());
                return self.crash(&plan, "power loss");
            }
            196..198 => {
                drop(writer);
                self.writer = None;
                minikv::repair(DIR, &self.options, Default::default()).unwrap();
                return "repair";
            }
            198 => {
                let dir = format!("/tables{}", self.rng.next());
                let mut tables = TableWriter::create(dir, &self.options).unwrap();
                let first = self.rng.below(60);
                for key in first..(first + 1 + self.rng.below(9)).min(60) {
                    tables.put(format!("key{key:03}"), self.rng.bytes(30)).unwrap();
                }
                writer.ingest(&tables.finish().unwrap()).unwrap();
                return "ingest";
            }
            _ => {
                drop(writer);
                self.writer = None;
                minikv::destroy(DIR, &self.options).unwrap();
                self.open_writer();
                for _ in 0..self.rng.below(4) {
                    self.put();
                }
                return "another database";
            }
        }
        "flush or compaction"
    }

    /// Replaces the files with those that a crash leaves.
    fn crash(&mut self, plan: &CrashPlan, name: &'static str) -> &'static str {
        self.fs.crash(plan);
        self.writer = None;
        name
    }

    /// Refreshes the follower and compares it with a newly opened handle. If a loss of power has
    /// destroyed a part of the database, opening the new handle must report the loss or fail, and
    /// the refresh must fail and leave the view unchanged.
    fn check(&mut self, step: &'static str) {
        let before = entries(&self.follower);
        let image = self.fs.now().fingerprint();
        let refreshed = self.follower.refresh();
        assert_eq!(self.fs.now().fingerprint(), image, "a refresh changed something");
        let fresh = Db::open_read_only(DIR, self.options.clone());
        let fresh = match (fresh, &refreshed) {
            (Ok(fresh), Ok(_)) => fresh,
            (Ok(fresh), Err(error)) => {
                assert!(!fresh.recovery().lost.is_empty(), "after {step}: {error}");
                assert_eq!(entries(&self.follower), before, "a failed refresh changed the view");
                return self.count("failed");
            }
            (Err(error), refreshed) => {
                assert!(refreshed.is_err(), "after {step}: {error}");
                return self.count("failed");
            }
        };
        let shown = entries(&self.follower);
        assert!(shown == entries(&fresh), "after {step}: {refreshed:?}");
        let mut reverse = of_iter(self.follower.iter().rev());
        reverse.reverse();
        assert!(reverse == shown, "after {step}, backward");
        for key in (0..60).map(|key| format!("key{key:03}")) {
            let value = self.follower.get(&key).unwrap();
            assert!(value == fresh.get(&key).unwrap(), "after {step}: {key}");
        }
        let refreshed = refreshed.unwrap();
        assert!(refreshed.sequence >= self.least, "after {step}: {refreshed:?} is less");
        self.least = refreshed.sequence;
        assert!(refreshed.changed || shown == before, "after {step}: changed unnoticed");
        self.count(if refreshed.restarted { "from the start" } else { "read on" });
        if self.rng.one_in(4) {
            let (iter, snapshot) = (self.follower.iter(), self.follower.snapshot());
            self.held.push(Held { shown, iter, snapshot });
        }
        if self.held.len() > self.rng.below(12) {
            let at = self.rng.below(self.held.len());
            let held = self.held.swap_remove(at);
            assert!(of_iter(held.snapshot.iter()) == held.shown, "snapshot");
            assert!(of_iter(held.iter) == held.shown, "iterator");
        }
    }
}

#[test]
fn a_refresh_shows_the_entries_of_a_new_open() {
    let writers: u64 = std::env::var("MINIKV_FOLLOW").map_or(40, |n| n.parse().expect("a number"));
    let first = seed();
    let mut counts = BTreeMap::new();
    for seed in first..first + writers {
        println!("seed {seed}");
        let mut scene = Scene::new(seed);
        for _ in 0..400 {
            let step = scene.step();
            if ["power loss", "repair", "another database"].contains(&step) {
                scene.least = 0;
            }
            scene.count(step);
            // Sometimes many steps pass between two refreshes.
            if !scene.rng.one_in(3) {
                scene.check(step);
            }
        }
        for (what, count) in scene.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    println!("followed {writers} writers from seed {first}: {counts:?}");
    assert!(counts["read on"] > counts["from the start"], "{counts:?}");
}
