//! Lets minikv and C++ LevelDB open the same databases in turn, and checks both against a model.
//!
//! Each test prints its seed, and `MINIKV_SEED=N` repeats it. `MINIKV_ROUNDS=N` is the number of
//! databases that each test makes.

mod keyspaces;
mod resources;
mod sides;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minikv::{CompactionDecision, Db, Filters};
use minikv_interop::ffi::Op;
use minikv_interop::{LevelDb, Settings, repair};
use minikv_support::comparators;
use minikv_support::rng::{self, Rng};
use sides::{Engine, Shape, Side, check};
use tempfile::TempDir;
use workload::{Model, apply, batch, edges};

fn rounds(default: usize) -> usize {
    match std::env::var("MINIKV_ROUNDS") {
        Ok(text) => text.parse().expect("MINIKV_ROUNDS is a number"),
        Err(_) => default,
    }
}

/// One database, its model, and the options with which it was created.
struct Scene {
    _home: TempDir,
    dir: PathBuf,
    rng: Rng,
    shape: Shape,
    model: Model,
}

impl Scene {
    fn new(test: &str, seed: u64, round: usize) -> Scene {
        let mut rng = Rng::new(seed.wrapping_add(round as u64));
        let shape = Shape::random(&mut rng);
        println!("{test}, round {round} of MINIKV_SEED={seed}: {shape:?}");
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("db");
        Scene { _home: home, dir, rng, shape, model: Model::new() }
    }

    /// Writes `batches` random batches, with an occasional compaction.
    fn write(&mut self, engine: &dyn Engine, batches: usize) {
        for _ in 0..batches {
            let batch = match self.rng.one_in(1000) {
                true => edges(&mut self.rng),
                false => batch(&mut self.rng),
            };
            engine.write(&batch);
            apply(&mut self.model, &batch);
            if self.rng.one_in(1000) {
                self.compact(engine);
            }
        }
    }

    fn compact(&mut self, engine: &dyn Engine) {
        let (Some(first), Some(last)) = (self.model.keys().next(), self.model.keys().last()) else {
            return;
        };
        let middle = self.model.keys().nth(self.model.len() / 2).expect("not empty");
        let bounds: [Option<(&[u8], &[u8])>; 3] =
            [None, Some((first, middle)), Some((middle, last))];
        engine.compact(*self.rng.pick(&bounds));
    }

    /// Lets `side` open, write and close the database a few times. Sets the flag in `levels` of
    /// each level that has tables. If `large` is set, writes the maximum amount of data.
    fn make(&mut self, side: Side, large: bool, levels: &mut [bool; 7]) {
        let spans = if large { 4 } else { 1 + self.rng.below(4) };
        for span in 0..spans {
            let engine = side.open(&self.dir, &self.shape);
            if span == 0 {
                let edges = edges(&mut self.rng);
                engine.write(&edges);
                apply(&mut self.model, &edges);
            }
            let batches = if large { 3000 } else { *self.rng.pick(&[10, 500, 3000]) };
            self.write(&*engine, batches);
            for (level, used) in levels.iter_mut().enumerate() {
                *used |= engine.files_at_level(level) > 0;
            }
        }
    }

    /// Writes too little for LevelDB to start background work.
    fn write_little(&mut self, engine: &dyn Engine) {
        for i in 0..self.rng.below(50) {
            let key = format!("left/{i}").into_bytes();
            let batch = [Op::Put(key, self.rng.bytes(100))];
            engine.write(&batch);
            apply(&mut self.model, &batch);
        }
    }

    fn check_with(&mut self, side: Side, dir: &Path) {
        // The reader may use options that differ from those of the writer.
        let shape = self.shape.other(&mut self.rng);
        check(&*side.open(dir, &shape), &self.model, &shape, &mut self.rng);
    }
}

fn files(dir: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("a UTF-8 name");
        files.insert(name, fs::read(entry.path())?);
    }
    Ok(files)
}

/// Copies a database that may be open. Background work may still be removing files, so all files
/// are read until two readings in a row are the same.
fn copy(dir: &Path, to: &Path) {
    let settled = loop {
        if let (Ok(first), Ok(second)) = (files(dir), files(dir))
            && first == second
        {
            break first;
        }
    };
    fs::create_dir(to).expect("a directory");
    for (name, bytes) in settled {
        fs::write(to.join(name), bytes).expect("a copied file");
    }
}

#[test]
fn leveldb_reads_databases_of_minikv() {
    let (seed, mut levels) = (rng::seed(), [false; 7]);
    let mut round = 0;
    // The random shapes decide which levels fill, so this loop continues, with large databases,
    // until three levels were used.
    while round < rounds(12) || levels.iter().filter(|used| **used).count() < 3 {
        assert!(round < 20 * rounds(12), "levels with tables: {levels:?}");
        let mut scene = Scene::new("minikv writes", seed, round);
        scene.make(Side::Minikv, round >= rounds(12), &mut levels);
        let dir = scene.dir.clone();
        scene.check_with(Side::LevelDb, &dir);
        // minikv reads the tables that LevelDB has compacted.
        scene.check_with(Side::Minikv, &dir);
        round += 1;
    }
}

#[test]
fn minikv_reads_databases_of_leveldb() {
    let (seed, mut levels) = (rng::seed(), [false; 7]);
    let mut round = 0;
    while round < rounds(12) || levels.iter().filter(|used| **used).count() < 3 {
        assert!(round < 20 * rounds(12), "levels with tables: {levels:?}");
        let mut scene = Scene::new("LevelDB writes", seed, round);
        scene.make(Side::LevelDb, round >= rounds(12), &mut levels);
        let dir = scene.dir.clone();
        let before = files(&dir).expect("its files");
        let shape = scene.shape.other(&mut scene.rng);
        let db = Db::open_read_only(&dir, shape.options()).unwrap();
        check(&db, &scene.model, &shape, &mut scene.rng);
        drop(db);
        assert!(files(&dir).expect("its files") == before, "reading changed the directory");
        scene.check_with(Side::Minikv, &dir);
        scene.check_with(Side::LevelDb, &dir);
        round += 1;
    }
}

#[test]
fn both_write_in_turns() {
    let seed = rng::seed();
    for round in 0..rounds(4) {
        let mut scene = Scene::new("turns", seed, round);
        let dir = scene.dir.clone();
        for turn in 0..10 {
            let side = if (turn + round).is_multiple_of(2) { Side::Minikv } else { Side::LevelDb };
            scene.shape = scene.shape.other(&mut scene.rng);
            let engine = side.open(&dir, &scene.shape);
            let batches = *scene.rng.pick(&[0, 20, 300, 1500]);
            scene.write(&*engine, batches);
            check(&*engine, &scene.model, &scene.shape, &mut scene.rng);
            drop(engine);
            let copied = dir.with_extension(format!("copy{turn}"));
            copy(&dir, &copied);
            for side in [Side::LevelDb, Side::Minikv] {
                scene.check_with(side, &copied);
            }
        }
    }
}

/// Checks that LevelDB and minikv can each open a copy made while the other still has the original
/// open. Such a copy has the files that a killed process would leave.
#[test]
fn each_reads_databases_that_the_other_left_open() {
    let seed = rng::seed();
    for round in 0..rounds(10) {
        let mut scene = Scene::new("left open", seed, round);
        let dir = scene.dir.clone();
        let copied = dir.with_extension("copy");

        let db = Db::open(&dir, scene.shape.options()).unwrap();
        scene.write(&db, 2000);
        db.wait_idle().unwrap();
        copy(&dir, &copied);
        scene.check_with(Side::LevelDb, &copied);
        drop(db);

        let engine = Side::LevelDb.open(&copied, &scene.shape);
        engine.compact(None);
        scene.write_little(&*engine);
        let again = dir.with_extension("again");
        copy(&copied, &again);
        scene.check_with(Side::Minikv, &again);
        drop(engine);
    }
}

/// Checks that LevelDB reads tables with minikv's own filters. LevelDB ignores these
/// filters, because it looks only for a filter with the name of its own policy.
#[test]
fn leveldb_reads_tables_with_filters_it_does_not_know() {
    let seed = rng::seed();
    let kinds: [fn(u32) -> Filters; 2] = [Filters::Table, Filters::Both];
    for (round, filters) in kinds.into_iter().cycle().take(rounds(6)).enumerate() {
        let mut scene = Scene::new("other filters", seed, round);
        scene.shape = Shape {
            bloom_bits: Some(10),
            filters,
            prefix_filter: true,
            reverse: false,
            ..scene.shape
        };
        let dir = scene.dir.clone();
        let mut levels = [false; 7];
        while levels[1..] == [false; 6] {
            scene.make(Side::Minikv, false, &mut levels);
        }
        let db = Db::open_read_only(&dir, scene.shape.options()).unwrap();
        check(&db, &scene.model, &scene.shape, &mut scene.rng);
        let reads = db.stats().reads.total();
        assert!(reads.table_filter_checks > 0 && reads.filter_checks == 0, "{reads:?}");
        drop(db);

        let settings = Settings { bloom_bits: Some(10), ..scene.shape.settings() };
        let db = LevelDb::open(&dir, &settings).unwrap();
        check(&db, &scene.model, &scene.shape, &mut scene.rng);
        scene.write(&db, 500);
        db.compact(None);
        check(&db, &scene.model, &scene.shape, &mut scene.rng);
        drop(db);
        scene.check_with(Side::Minikv, &dir);
    }
}

/// Checks that LevelDB's repair of a database written by minikv loses nothing. Before the repair,
/// the database consists of one sorted run and a log. If it had more runs, LevelDB's repair would
/// put every table into level 0, where tables are searched by number, regardless of their age.
#[test]
fn leveldb_repairs_ours_without_loss() {
    let seed = rng::seed();
    for round in 0..rounds(10) {
        let mut scene = Scene::new("repair", seed, round);
        scene.shape.reuse_logs = false;
        let dir = scene.dir.clone();
        let db = Db::open(&dir, scene.shape.options()).unwrap();
        scene.write(&db, 2000);
        db.compact(None);
        scene.write_little(&db);
        db.close().unwrap();
        let shape = scene.shape.other(&mut scene.rng);
        repair(&dir, &shape.settings()).unwrap();
        let db = LevelDb::open(&dir, &shape.settings()).unwrap();
        check(&db, &scene.model, &shape, &mut scene.rng);
        drop(db);
        scene.check_with(Side::Minikv, &dir);
    }
}

/// Checks that LevelDB reads a checkpoint and a restored backup of an open database, and the result
/// of minikv's repair of a database that has lost its CURRENT, its MANIFEST, or the end of its
/// MANIFEST.
#[test]
fn leveldb_reads_checkpoints_backups_and_repaired_databases() {
    let seed = rng::seed();
    for round in 0..rounds(9) {
        let mut scene = Scene::new("repaired", seed, round);
        let (dir, copied) = (scene.dir.clone(), scene.dir.with_extension("checkpoint"));
        let db = Db::open(&dir, scene.shape.options()).unwrap();
        scene.write(&db, 2000);
        db.checkpoint(&copied).unwrap();
        scene.check_with(Side::LevelDb, &copied);
        scene.check_with(Side::Minikv, &copied);

        let [folder, restored] = ["backups", "restored"].map(|name| dir.with_extension(name));
        db.backup(&folder).unwrap();
        scene.write(&db, 200);
        // The second backup shares tables with the first.
        db.backup(&folder).unwrap();
        let backups = minikv::backup::Backups::open(&folder, &scene.shape.options()).unwrap();
        backups.restore(None, &restored, |_| {}).unwrap();
        scene.check_with(Side::LevelDb, &restored);
        scene.check_with(Side::Minikv, &restored);
        db.close().unwrap();

        let names = files(&dir).expect("its files").into_keys();
        let manifest = names.into_iter().find(|name| name.starts_with("MANIFEST")).expect("one");
        match round % 3 {
            0 => fs::remove_file(dir.join("CURRENT")).unwrap(),
            1 => fs::remove_file(dir.join(manifest)).unwrap(),
            _ => fs::write(dir.join(manifest), b"").unwrap(),
        }
        let options = scene.shape.other(&mut scene.rng).options();
        let report = minikv::repair(&dir, &options, minikv::RepairOptions::default()).unwrap();
        assert!(!report.healthy && report.lost.is_empty(), "{report:#?}");
        scene.check_with(Side::LevelDb, &dir);
        scene.check_with(Side::Minikv, &dir);
    }
}

/// Lets both sides read the database in `dir`. Then LevelDB writes to a copy, and both sides read
/// the copy.
fn check_and_continue(scene: &mut Scene, dir: &Path) {
    let continued = dir.with_extension("continued");
    copy(dir, &continued);
    scene.check_with(Side::LevelDb, dir);
    scene.check_with(Side::Minikv, dir);
    let engine = Side::LevelDb.open(&continued, &scene.shape);
    scene.write(&*engine, 500);
    drop(engine);
    scene.check_with(Side::Minikv, &continued);
    scene.check_with(Side::LevelDb, &continued);
}

/// Checks that LevelDB can read a database with ingested tables and continue to write to it, and
/// that minikv ingests LevelDB's tables.
#[test]
fn leveldb_reads_and_continues_ingested_tables() {
    let seed = rng::seed();
    for round in 0..rounds(6) {
        let mut scene = Scene::new("ingested", seed, round);
        let (dir, options) = (scene.dir.clone(), scene.shape.options());
        let db = Db::open(&dir, options.clone()).unwrap();
        for part in 0..4 {
            let batches = *scene.rng.pick(&[0, 20, 1000]);
            scene.write(&db, batches);
            let tables = dir.with_extension(format!("tables{part}"));
            let mut writer = minikv::bulk::TableWriter::create(&tables, &options).unwrap();
            let mut puts = Model::new();
            for i in 0..1 + scene.rng.below(3000) {
                let key = match scene.model.keys().nth(i * 7) {
                    Some(key) if scene.rng.one_in(2) => key.clone(),
                    _ => format!("ingested/{}", scene.rng.below(100_000)).into_bytes(),
                };
                puts.insert(key, scene.rng.bytes(40));
            }
            let mut ascending: Vec<_> = puts.iter().collect();
            if scene.shape.reverse {
                ascending.reverse();
            }
            ascending.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
            db.ingest(&writer.finish().unwrap()).unwrap();
            scene.model.extend(puts);
        }
        db.close().unwrap();
        check_and_continue(&mut scene, &dir);
    }
}

/// Checks that LevelDB can read a database whose compactions used a filter, and continue to write
/// to it.
#[test]
fn leveldb_reads_and_continues_tables_after_a_compaction_filter() {
    let seed = rng::seed();
    // Depending on the length of a value, the filter removes, changes or keeps the value. A changed
    // value is kept when the filter sees it again.
    let rule = |value: &[u8]| match value.len() % 3 {
        0 => CompactionDecision::Remove,
        1 => CompactionDecision::Change([value, b"+"].concat()),
        _ => CompactionDecision::Keep,
    };
    let (mut removed, mut changed) = (0, 0);
    for round in 0..rounds(6) {
        let mut scene = Scene::new("filtered", seed, round);
        let (dir, options) = (scene.dir.clone(), scene.shape.options());
        let is_on = Arc::new(AtomicBool::new(false));
        let on = is_on.clone();
        let options = options.compaction_filter(move |_, value| match on.load(Ordering::Relaxed) {
            true => rule(value),
            false => CompactionDecision::Keep,
        });
        let options = options.write_buffer_bytes(64 << 10).max_file_bytes(32 << 10);
        let db = Db::open(&dir, options).unwrap();
        for _ in 0..3 {
            let batches = *scene.rng.pick(&[20, 200, 1000]);
            scene.write(&db, batches);
            db.wait_idle().unwrap();
            is_on.store(true, Ordering::Relaxed);
            db.compact_range(..).unwrap();
            is_on.store(false, Ordering::Relaxed);
            scene.model.retain(|_, value| {
                let decision = rule(value);
                removed += u32::from(decision == CompactionDecision::Remove);
                if let CompactionDecision::Change(new) = &decision {
                    changed += 1;
                    value.clone_from(new);
                }
                decision != CompactionDecision::Remove
            });
        }
        db.close().unwrap();
        check_and_continue(&mut scene, &dir);
    }
    assert!(removed > 0 && changed > 0, "{removed} removed, {changed} changed");
}

/// Checks that LevelDB can read a database after range deletes that dropped whole tables, and can
/// continue to write to the database.
#[test]
fn leveldb_reads_and_continues_tables_after_range_deletes() {
    let seed = rng::seed();
    let mut dropped = 0;
    for round in 0..rounds(6) {
        let mut scene = Scene::new("range deletes", seed, round);
        let (dir, options) = (scene.dir.clone(), scene.shape.options());
        let db =
            Db::open(&dir, options.write_buffer_bytes(64 << 10).max_file_bytes(32 << 10)).unwrap();
        for _ in 0..4 {
            let batches = *scene.rng.pick(&[0, 20, 1000]);
            scene.write(&db, batches);
            if scene.rng.one_in(2) {
                db.compact_range(..).unwrap();
            }
            let keys: Vec<_> = scene.model.keys().cloned().collect();
            if keys.is_empty() {
                continue;
            }
            let (a, b) = (scene.rng.below(keys.len()), scene.rng.below(keys.len()));
            let (first, last) = (&keys[a.min(b)], &keys[a.max(b)]);
            let done = match scene.shape.reverse {
                false => db.delete_range(first..=last).unwrap(),
                true => db.delete_range(last..=first).unwrap(),
            };
            dropped += done.tables;
            scene.model.retain(|key, _| key < first || key > last);
        }
        db.close().unwrap();
        check_and_continue(&mut scene, &dir);
    }
    assert!(dropped > 0, "no table was dropped");
}
