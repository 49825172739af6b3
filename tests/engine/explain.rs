//! Explanations of gets, checked against the counters and against the contents of the files.

use std::fs;
use std::path::PathBuf;

use minikv::bulk::TableWriter;
use minikv::explain::{BlockSource, FilterState, FilterUse, Step, Verdict};
use minikv::files::{KeyKind, TableReader};
use minikv::fs::{Fs, MemFs};
use minikv::stats::AllFilters;
use minikv::{
    Compression, Db, Explanation, FilterGenerator, FilterPolicy, Filters, Options, ReadOptions,
    ReadTrace, Readable,
};

use crate::recount;

/// A filter that stores nothing and always gives the same answer.
#[derive(Debug)]
struct Says {
    may_match: bool,
}

impl FilterPolicy for Says {
    fn name(&self) -> &str {
        "test.Says"
    }

    fn create(&self, _: &[&[u8]], dst: &mut Vec<u8>) {
        dst.push(0);
    }

    fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
        self.may_match
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(Keys(0))
    }
}

#[derive(Debug)]
struct Keys(usize);

impl FilterGenerator for Keys {
    fn add_key(&mut self, _: &[u8]) {
        self.0 += 1;
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        self.0 = 0;
        dst.push(0);
    }
}

fn verdicts(told: &Explanation) -> Vec<Verdict> {
    let verdict = |step: &Step| match step {
        Step::BlockFilter(verdict) | Step::TableFilter(verdict) => Some(*verdict),
        _ => None,
    };
    told.steps.iter().filter_map(verdict).collect()
}

fn sources(told: &Explanation) -> Vec<BlockSource> {
    let source = |step: &Step| match step {
        Step::Block { source, .. } => Some(*source),
        _ => None,
    };
    told.steps.iter().filter_map(source).collect()
}

/// Returns options with blocks of 512 bytes. With these options, flushes and compactions run only
/// when a test requests them.
fn small() -> Options {
    Options::default().create_if_missing(true).block_bytes(512)
}

/// Makes a database with one compacted table, two newer tables in level 0, and a memtable. Some
/// keys are overwritten or deleted in the newer layers. All keys have even numbers.
fn layers(options: Options) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options.create_if_missing(true)).unwrap();
    let key = |i: u32| format!("key{:06}", 2 * i);
    for i in 0..3000 {
        db.put(key(i), format!("first value of {i}")).unwrap();
    }
    db.compact_range(..).unwrap();
    for i in (0..3000).step_by(3) {
        db.put(key(i), format!("second value of {i}")).unwrap();
    }
    db.flush().unwrap();
    for i in (0..3000).step_by(7) {
        db.delete(key(i)).unwrap();
    }
    db.flush().unwrap();
    for i in (0..3000).step_by(100) {
        db.put(key(i), "").unwrap();
    }
    db.wait_idle().unwrap();
    (dir, db)
}

#[test]
fn every_counter_is_the_sum_of_the_steps_and_of_the_statistics() {
    for (options, filtered) in [
        (small(), true),
        (small().compression(Compression::None).block_cache_bytes(0), true),
        (small().filters(Filters::None), false),
    ] {
        let (_dir, db) = layers(options);
        let before = db.stats();
        assert!(before.levels.iter().filter(|level| level.files > 0).count() >= 2);
        let (mut with, mut without, mut found) = (ReadTrace::default(), ReadTrace::default(), 0);
        let gets = 1200;
        for i in 0..gets {
            let told = db.explain(format!("key{:06}", i * 5)).unwrap();
            recount::check(&told);
            assert_eq!(told.value, db.snapshot().get(&told.key).unwrap());
            found += u64::from(told.value.is_some());
            with.add(&told.trace);
            without.add(told.unfiltered.as_ref().unwrap());
        }
        assert!(found > 200 && found < gets / 2, "{found}");
        assert_eq!(with.total().filter_checks > 0, filtered);
        assert_eq!(with.total().data_blocks() < without.total().data_blocks() / 2, filtered);
        assert_eq!(AllFilters::of(&without.total()).checks, 0);
        assert_eq!(with.total().tables_considered, without.total().tables_considered);

        // The statistics count both gets of each explanation, and the plain get.
        let after = db.stats();
        assert_eq!(after.gets - before.gets, 3 * gets);
        assert_eq!(after.gets_found - before.gets_found, 3 * found);
        for level in 0..with.levels.len() {
            let difference = |of: fn(&minikv::stats::LevelTrace) -> u64| {
                of(&after.reads.levels[level]) - of(&before.reads.levels[level])
            };
            let (with, without) = (&with.levels[level], &without.levels[level]);
            assert_eq!(difference(|l| l.filter_checks), 2 * with.filter_checks);
            assert_eq!(difference(|l| l.filter_negatives), 2 * with.filter_negatives);
            assert_eq!(difference(|l| l.index_seeks), 2 * with.index_seeks + without.index_seeks);
            assert_eq!(
                difference(|l| l.data_blocks()),
                2 * with.data_blocks() + without.data_blocks()
            );
            assert_eq!(difference(|l| l.tables_considered), 3 * with.tables_considered);
        }
    }
}

#[test]
fn plain_gets_traced_gets_and_explanations_count_alike() {
    let (_dir, db) = layers(small().block_cache_bytes(0));
    let counted = |read: &dyn Fn(&str)| {
        let before = db.stats();
        (0..700).for_each(|i| read(&format!("key{:06}", i * 9)));
        let after = db.stats();
        assert_eq!(after.gets - before.gets, 700);
        let levels = after.reads.levels.iter().zip(&before.reads.levels);
        let levels = levels.flat_map(|(after, before)| {
            let counters = after.counters().into_iter().zip(before.counters());
            counters.map(|((_, after), (_, before))| after - before).collect::<Vec<_>>()
        });
        let memtables = after.reads.memtables_probed - before.reads.memtables_probed;
        let hits = after.reads.memtable_hits - before.reads.memtable_hits;
        (memtables, hits, after.gets_found - before.gets_found, levels.collect::<Vec<_>>())
    };
    let plain = counted(&|key| drop(db.get(key).unwrap()));
    let traced = counted(&|key| drop(db.get_traced(key).unwrap()));
    let many = counted(&|key| drop(db.multi_get(&[key]).unwrap()));
    assert!(plain.3.iter().sum::<u64>() > 700);
    assert_eq!(plain, traced);
    assert_eq!(plain, many);
}

#[test]
fn steps_come_in_the_order_of_the_read_path() {
    let (_dir, db) = layers(small());
    db.put("key000700", "newest").unwrap();
    let told = db.explain("key000700").unwrap();
    let [Step::Memtable { frozen: false, entry: Some(entry) }] = &told.steps[..] else {
        panic!("{told}");
    };
    assert_eq!((entry.kind, entry.value_bytes, entry.seq), (KeyKind::Value, 6, told.seq));
    assert_eq!(told.filters, FilterUse::NoTables);

    // The key has the number 35 and was deleted, because 7 divides 35. Therefore, the tables below
    // the tombstone are not searched.
    let told = db.explain("key000070").unwrap();
    recount::check(&told);
    assert_eq!(told.value, None);
    let Some(Step::Entry(entry)) = told.steps.last() else { panic!("{told}") };
    assert_eq!((entry.kind, entry.value_bytes), (KeyKind::Deletion, 0));
    assert!(told.to_string().contains("the key is deleted"), "{told}");

    // The key was written once, so every table whose range includes it is searched.
    let told = db.explain("key000004").unwrap();
    recount::check(&told);
    assert_eq!(told.value.as_deref(), Some(&b"first value of 2"[..]));
    let levels: Vec<usize> = told
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Table { table, filter } => {
                assert!(table.first_key <= b"key000004".to_vec());
                assert!(table.last_key >= b"key000004".to_vec());
                assert_eq!(*filter, FilterState::Readable);
                assert!(table.entries.is_some(), "this process wrote it");
                Some(table.level)
            }
            _ => None,
        })
        .collect();
    assert!(levels.len() >= 2 && levels.is_sorted(), "{told}");
    let inside = told.steps.iter().rev().take(4).rev().collect::<Vec<_>>();
    assert!(
        matches!(
            inside[..],
            [
                Step::Index { block: Some(_) },
                Step::BlockFilter(Verdict::TruePositive),
                Step::Block { .. },
                Step::Entry(_)
            ]
        ),
        "{told}"
    );
}

#[test]
fn the_second_time_a_block_comes_from_the_cache_and_the_unfiltered_get_fills_none() {
    let (_dir, db) = layers(small());
    let told = db.explain("key000004").unwrap();
    assert_eq!(sources(&told), [BlockSource::File]);
    let unfiltered = told.unfiltered.unwrap().total();
    assert!(unfiltered.data_blocks_from_file > 1);
    assert_eq!(unfiltered.data_blocks_from_cache, 0);

    let told = db.explain("key000004").unwrap();
    assert_eq!(sources(&told), [BlockSource::Cache]);
    recount::check(&told);
    assert_eq!((told.trace.total().bytes_read, told.trace.total().checksums_verified), (0, 0));
    let unfiltered = told.unfiltered.unwrap().total();
    assert_eq!(unfiltered.data_blocks_from_cache, 1, "the block the filtered get put there");
    assert!(unfiltered.data_blocks_from_file > 0, "the others stayed out");
}

#[test]
fn a_false_positive_is_told_as_one() {
    let (_dir, db) = layers(small().filter_policy(Says { may_match: true }));
    let told = db.explain("key000005").unwrap();
    recount::check(&told);
    assert!(told.trace.total().filter_false_positives >= 2, "{told}");
    assert!(verdicts(&told).iter().all(|verdict| *verdict == Verdict::FalsePositive), "{told}");
    assert!(told.to_string().contains("(false positive): the key is not there"), "{told}");
    assert_eq!(told.trace.data_blocks(), told.unfiltered.as_ref().unwrap().data_blocks());

    // A real bloom filter with one bit per key is often wrong.
    let (_dir, db) = layers(small().filters(Filters::Block(1)));
    let told = (0..).map(|i| db.explain(format!("key{:06}", 2 * i + 1)).unwrap());
    let told = told.take(3000).find(|told| verdicts(told).contains(&Verdict::FalsePositive));
    let told = told.expect("a false positive");
    recount::check(&told);
    assert_eq!(told.value, None);
}

#[test]
fn a_filter_that_denies_a_present_key_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().filter_policy(Says { may_match: false });
    let db = Db::open(dir.path(), options).unwrap();
    db.put("a", "1").unwrap();
    db.put("c", "3").unwrap();
    db.flush().unwrap();
    let told = db.explain("a").unwrap();
    assert_eq!(
        (told.value.as_deref(), &verdicts(&told)[..]),
        (None, &[Verdict::FalseNegative][..])
    );
    recount::check(&told);
    assert_eq!(verdicts(&db.explain("b").unwrap()), [Verdict::TrueNegative]);
    let unfiltered = ReadOptions::default().use_filter(false);
    let told = db.reading(unfiltered).explain("a").unwrap();
    assert_eq!((told.value.as_deref(), told.filters), (Some(&b"1"[..]), FilterUse::TurnedOff));
}

#[test]
fn a_snapshot_is_explained_as_of_its_moment() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("a", "old").unwrap();
    let snapshot = db.snapshot();
    db.put("a", "new").unwrap();
    db.put("b", "new").unwrap();
    db.put("c", "new").unwrap();
    db.flush().unwrap();
    let told = snapshot.explain("a").unwrap();
    recount::check(&told);
    assert_eq!((told.seq, told.value.as_deref()), (snapshot.sequence(), Some(&b"old"[..])));
    let told = snapshot.explain("b").unwrap();
    recount::check(&told);
    // Filters ignore sequence numbers, so the filter says "maybe" for a key that is too new to be
    // visible.
    assert_eq!(told.value, None);
    assert_eq!(verdicts(&told), [Verdict::FalsePositive]);
    assert_eq!(db.explain("b").unwrap().value.as_deref(), Some(&b"new"[..]));
}

fn only_table(dir: &std::path::Path) -> PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut tables = paths.filter(|path| path.extension().is_some_and(|end| end == "ldb"));
    let table = tables.next().unwrap();
    assert_eq!(tables.next(), None);
    table
}

#[test]
fn damage_that_a_filter_hides_is_told_and_other_damage_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..40 {
        db.put(format!("key{:02}", 2 * i), "value").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let table = only_table(dir.path());
    let mut bytes = fs::read(&table).unwrap();
    bytes[5] ^= 1;
    fs::write(&table, bytes).unwrap();

    let db = Db::open_read_only(dir.path(), Options::default()).unwrap();
    let told = (0..10).map(|i| db.explain(format!("key{:02}", 2 * i + 1)));
    let told = told.filter_map(Result::ok).next().expect("an absent key that the filter knows");
    assert_eq!(verdicts(&told), [Verdict::UnknownNegative]);
    assert!(told.unfiltered.as_ref().unwrap_err().is_corruption());
    recount::check(&told);
    assert!(db.explain("key00").unwrap_err().is_corruption());
}

#[test]
fn keys_of_any_bytes_and_length_fit_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let keys = [
        vec![],
        vec![0; 3],
        vec![0xff; 1000],
        vec![b'\\'; 500],
        (0..=255).collect(),
        "päckage".repeat(20).into_bytes(),
        vec![b'"'; 20],
        vec![b'k'; 21],
    ];
    for key in &keys {
        db.put(key, key).unwrap();
    }
    db.flush().unwrap();
    for key in &keys {
        let told = db.explain(key).unwrap();
        assert_eq!(told.value.as_deref(), Some(&key[..]));
        recount::check(&told);
        recount::check(&db.explain([&key[..], b"!"].concat()).unwrap());
    }
    let told = db.explain(vec![b'k'; 21]).unwrap().to_string();
    assert!(told.starts_with("get               \"kkkkkkkkkk…kkkkkkkkkk\" as of"), "{told}");
}

#[test]
fn scans_count_at_their_levels_even_if_they_stop_early() {
    let options = small().block_cache_bytes(0);
    let (dir, compacted) = layers(options.clone());
    compacted.compact_range(..).unwrap();
    // Tables that are ingested into an empty database go to its last level.
    let mut writer = TableWriter::create(dir.path().join("tables"), &options).unwrap();
    writer.put("key", "value").unwrap();
    let ingested = Db::open(dir.path().join("ingested"), options).unwrap();
    ingested.ingest(&writer.finish().unwrap()).unwrap();
    for (db, expected) in [(compacted, 1), (ingested, 6)] {
        let level = db.stats().levels.iter().position(|level| level.files > 0).unwrap();
        assert_eq!(level, expected);
        let before = db.stats().reads;
        assert!(db.iter().next().unwrap().is_ok());
        let after = db.stats().reads;
        assert_eq!(after.data_blocks() - before.data_blocks(), 1);
        let at_level = |reads: &ReadTrace| reads.levels[level].data_blocks_from_file;
        assert_eq!(at_level(&after) - at_level(&before), 1);
    }
}

#[test]
fn an_explanation_in_words_tells_what_became_of_the_filters() {
    let fs = MemFs::new();
    let options = Options::default().create_if_missing(true).fs(fs.clone());
    let options = options.inline_background(Some(1)).filters(Filters::Table(10));
    let db = Db::open("/db", options.clone()).unwrap();
    db.put("a", "1").unwrap();
    db.put("z", "2").unwrap();
    db.flush().unwrap();
    let told = db.explain("a").unwrap().to_string();
    assert!(told.contains("table filter    said \"maybe\" (correct): the key is there"), "{told}");
    let absent = (0..).map(|i| db.explain(format!("b{i}")).unwrap().to_string());
    let absent = absent.take(100).find(|told| told.contains("said \"not here\" (correct)"));
    assert!(absent.is_some(), "no key is denied");
    let unasked = db.reading(ReadOptions::default().use_filter(false));
    let told = unasked.explain("a").unwrap().to_string();
    assert!(told.contains("turned off for this read"), "{told}");
    db.close().unwrap();

    let names = fs.list("/db".as_ref()).unwrap();
    let name = names.iter().find(|name| name.ends_with(".ldb")).unwrap();
    let path = PathBuf::from("/db").join(name);
    let table = TableReader::open(&path, &options).unwrap();
    let file = fs.open(&path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes[table.meta()[0].1.offset as usize] ^= 1;
    fs.create(&path).unwrap().write(&bytes).unwrap();
    let db = Db::open("/db", options).unwrap();
    let told = db.explain("a").unwrap().to_string();
    assert!(told.contains(", filter damaged"), "{told}");
}
