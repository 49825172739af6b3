//! Tests of the table builder, reader and cursor together.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use crate::base::comparator::testing::Reverse;
use crate::base::random::Rng;
use crate::base::{BytewiseComparator, Error};
use crate::filter::{BloomFilterPolicy, FilterPolicy};
use crate::format::compress::Compression;
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle, Footer, block_trailer};
use crate::format::key::{KeyKind, KeyOrder, MAX_SEQ_NO, internal_key, user_key};
use crate::fs::ReadFile;
use crate::table::block_cache::BlockCache;
use crate::table::builder::{TableBuilder, TableOptions};
use crate::table::counts::LevelTrace;
use crate::table::iter::TableCursor;
use crate::table::testing::*;
use crate::table::*;

fn get(table: &Table, key: &[u8]) -> (crate::Result<Option<Found>>, LevelTrace) {
    let mut trace = LevelTrace::default();
    (table.get(key, &BlockReadOptions::default(), &mut trace), trace)
}

/// Returns `count` entries. The keys are internal keys of the user keys `key000000`, `key000002`,
/// ..., and each value has 20 bytes.
fn even_keys(count: usize) -> Model {
    let key = |i: usize| format!("key{:06}", 2 * i).into_bytes();
    (0..count)
        .map(|i| (internal_key(&key(i), 9, KeyKind::Value), format!("{i:020}").into_bytes()))
        .collect()
}

fn lookup_key(user_key: &str) -> Vec<u8> {
    internal_key(user_key.as_bytes(), MAX_SEQ_NO, KeyKind::Value)
}

#[test]
fn a_filtered_absent_key_reads_no_data_block() {
    let options = small_blocks(internal_order());
    let table = open(build(&options, &even_keys(500)).0, &context_of(&options)).unwrap();
    let mut sum = LevelTrace::default();
    for i in (1..999).step_by(2) {
        let (found, trace) = get(&table, &lookup_key(&format!("key{i:06}")));
        assert_eq!(found.unwrap(), None);
        assert_eq!((trace.index_seeks, trace.filter_checks), (1, 1));
        assert_eq!(trace.filter_negatives + trace.filter_false_positives, 1);
        assert_eq!(trace.filter_negatives == 1, trace.data_blocks() == 0);
        assert_eq!(trace.filter_negatives == 1, trace.bytes_read == 0);
        sum.add(&trace);
    }
    assert!(sum.filter_negatives > 480, "{sum:?}");
    assert_eq!(sum.data_blocks_from_file, sum.filter_false_positives);

    let unfiltered = BlockReadOptions { use_filter: false, ..BlockReadOptions::default() };
    let mut trace = LevelTrace::default();
    let key = lookup_key("key000101");
    assert_eq!(table.get(&key, &unfiltered, &mut trace).unwrap(), None);
    assert_eq!((trace.filter_checks, trace.data_blocks_from_file), (0, 1));
}

/// Checks that counts do not depend on prefetching. After several consecutive matches, a lookup
/// prefetches the cached block before it queries the filter.
#[test]
fn counts_do_not_depend_on_earlier_answers_of_filters() {
    let options = small_blocks(internal_order());
    let cache = Arc::new(BlockCache::new(1 << 20));
    let context = TableContext { block_cache: Some(cache), ..context_of(&options) };
    let table = open(build(&options, &even_keys(500)).0, &context).unwrap();
    let counts = |i: usize, matches_before: bool| {
        for other in 0..8 {
            let before = lookup_key(&format!("key{:06}", 2 * other + usize::from(!matches_before)));
            assert_eq!(get(&table, &before).0.unwrap().is_some(), matches_before);
        }
        let (found, trace) = get(&table, &lookup_key(&format!("key{i:06}")));
        (found.unwrap(), trace)
    };
    for i in 300..600 {
        let first = counts(i, true).1;
        assert_eq!(first.data_blocks(), 1 - first.filter_negatives);
        let (after_matches, after_others) = (counts(i, true), counts(i, false));
        assert_eq!(after_matches, after_others, "key {i}");
        let (found, trace) = after_matches;
        assert_eq!((found.is_some(), trace.filter_checks), (i % 2 == 0, 1));
        assert_eq!(trace.data_blocks_from_cache, 1 - trace.filter_negatives);
    }
}

#[test]
fn a_cursor_reads_a_block_once_while_it_stays_there() {
    let options = small_blocks(internal_order());
    let table = Arc::new(open(build(&options, &even_keys(500)).0, &context_of(&options)).unwrap());
    let mut cursor = table.cursor(BlockReadOptions::default());
    let mut blocks = std::collections::BTreeSet::new();
    for i in 0..1000 {
        let found = cursor.seek(&lookup_key(&format!("key{i:06}"))).unwrap();
        assert_eq!(found, i < 999, "the last key is 998");
        if found {
            let key = format!("key{:06}", i + i % 2);
            assert_eq!(internal_order().user_key(cursor.key()), key.as_bytes());
            blocks.insert(table.approximate_offset_of(cursor.key()).unwrap());
        }
    }
    assert_eq!(cursor.trace().data_blocks(), blocks.len() as u64);
    assert!(cursor.seek_to_last().unwrap() && cursor.seek_to_last().unwrap());
    assert_eq!(cursor.trace().data_blocks(), blocks.len() as u64);
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.trace().data_blocks(), blocks.len() as u64 + 1);
}

#[test]
fn a_lookup_counts_its_steps() {
    let options = TableOptions {
        compression: Compression::Snappy,
        block_bytes: 1024,
        ..small_blocks(internal_order())
    };
    let cache = Arc::new(BlockCache::new(1 << 20));
    let context = TableContext { block_cache: Some(cache.clone()), ..context_of(&options) };
    let table = open(build(&options, &even_keys(500)).0, &context).unwrap();
    let handle = table.blocks().unwrap()[0].handle;

    let (found, trace) = get(&table, &lookup_key("key000002"));
    let found = found.unwrap().unwrap();
    assert_eq!((found.seq, found.kind), (9, KeyKind::Value));
    assert_eq!(found.value, format!("{:020}", 1));
    assert_eq!((trace.index_seeks, trace.filter_checks, trace.filter_true_positives), (1, 1, 1));
    assert_eq!((trace.data_blocks_from_file, trace.data_blocks_from_cache), (1, 0));
    assert_eq!(trace.bytes_read, handle.size + BLOCK_TRAILER_BYTES as u64);
    assert!(trace.bytes_decompressed > trace.bytes_read);
    assert_eq!(trace.checksums_verified, 1);

    let (again, trace) = get(&table, &lookup_key("key000002"));
    assert_eq!(again.unwrap().unwrap(), found);
    assert_eq!((trace.data_blocks_from_file, trace.data_blocks_from_cache), (0, 1));
    assert_eq!((trace.bytes_read, trace.checksums_verified), (0, 0));

    let frugal = BlockReadOptions {
        fill_cache: false,
        verify_checksums: false,
        ..BlockReadOptions::default()
    };
    let mut trace = LevelTrace::default();
    let key = lookup_key("key000900");
    for _ in 0..2 {
        assert!(table.get(&key, &frugal, &mut trace).unwrap().is_some());
    }
    assert_eq!((trace.data_blocks_from_file, trace.checksums_verified), (2, 0));
}

#[test]
fn a_block_that_is_compressed_wrongly_ends_its_table() {
    for verifies in [false, true] {
        let options = small_blocks(internal_order());
        let builder = TableBuilder::new(Box::new(Sink::default()), "t.ldb".into(), options);
        let mut builder = builder.verify_compression(verifies);
        builder.check = builder.check.and(Some(|_, _| Err(Error::corruption("wrong"))));
        let added = builder.add(&lookup_key("a"), &[7; 1000]);
        assert_eq!(added.is_err_and(|error| error.is_corruption()), verifies);
        assert_eq!(builder.finish().is_err(), verifies);
    }
}

/// A file that gives another byte 20 at each read.
#[derive(Debug)]
struct Fickle(MemFile, AtomicU8);

impl ReadFile for Fickle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let len = self.0.read_at(buf, offset)?;
        if offset == 0 {
            buf[20] ^= self.1.fetch_add(1, Relaxed);
        }
        Ok(len)
    }

    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
}

#[test]
fn a_cursor_that_reads_twice_notices_reads_that_differ() {
    let options = small_blocks(internal_order());
    let bytes = build(&options, &even_keys(100)).0;
    let len = bytes.len() as u64;
    let file = Arc::new(Fickle(MemFile(bytes), AtomicU8::new(0)));
    let table = Table::open(file, len, "t.ldb".into(), &context_of(&options)).unwrap();
    let table = Arc::new(table);
    for twice in [false, true] {
        let options =
            BlockReadOptions { verify_checksums: false, twice, ..BlockReadOptions::default() };
        let moved = table.cursor(options).seek_to_first().map_err(|error| error.to_string());
        match twice {
            true => assert!(moved.unwrap_err().contains("two reads of a block differ")),
            false => assert!(moved.unwrap()),
        }
    }
}

#[test]
fn values_longer_than_the_write_buffer_keep_their_place() {
    let mut rng = Rng::new(1);
    let lens = [10, 70_000, 3, 300_000, 70_000, 50_000, 50_000, 50_000, 1];
    let model: Model = lens
        .iter()
        .zip(b'a'..)
        .map(|(&len, key)| (vec![key], (0..len).map(|_| rng.below(256) as u8).collect()))
        .collect();
    for compression in [Compression::None, Compression::Snappy] {
        let options = TableOptions { compression, ..small_blocks(user_order(BytewiseComparator)) };
        let table = open(build(&options, &model).0, &context_of(&options)).unwrap();
        assert!(scan(&table).unwrap() == model);
    }
}

#[test]
fn versions_are_found_by_sequence() {
    let entries: Model = vec![
        (internal_key(b"a", 7, KeyKind::Deletion), vec![]),
        (internal_key(b"a", 3, KeyKind::Value), b"old".to_vec()),
        (internal_key(b"b", 5, KeyKind::Value), b"b".to_vec()),
    ];
    let options = small_blocks(internal_order());
    let table = open(build(&options, &entries).0, &context_of(&options)).unwrap();
    let at = |user_key: &[u8], seq| {
        let found = get(&table, &internal_key(user_key, seq, KeyKind::Value)).0.unwrap();
        found.map(|found| (found.seq, found.kind))
    };
    assert_eq!(at(b"a", MAX_SEQ_NO), Some((7, KeyKind::Deletion)));
    assert_eq!(at(b"a", 6), Some((3, KeyKind::Value)));
    assert_eq!(at(b"a", 2), None);
    assert_eq!(at(b"b", 5), Some((5, KeyKind::Value)));
    assert_eq!(at(b"c", MAX_SEQ_NO), None);
}

#[test]
fn keys_out_of_order_are_refused_and_the_rest_goes_on() {
    let sink = Sink::default();
    let options = small_blocks(user_order(BytewiseComparator));
    let mut builder = TableBuilder::new(Box::new(sink.clone()), "t.ldb".into(), options.clone());
    builder.add(b"b", b"1").unwrap();
    for key in ["b", "a", ""] {
        let error = builder.add(key.as_bytes(), b"2").unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    builder.add(b"c", b"3").unwrap();
    assert_eq!(builder.sum().unwrap().entries, 2);
    builder.finish().unwrap();
    let bytes = sink.bytes.lock().clone();
    let table = open(bytes, &context_of(&options)).unwrap();
    assert_eq!(scan(&table), Ok(vec![(b"b".into(), b"1".into()), (b"c".into(), b"3".into())]));
}

#[test]
fn a_failed_write_is_remembered_and_writes_are_few() {
    let model = even_keys(20_000);
    let options = small_blocks(internal_order());
    let sink = Sink { fail_at: 2, ..Sink::default() };
    let mut builder = TableBuilder::new(Box::new(sink.clone()), "t.ldb".into(), options.clone());
    let failed = model.iter().find_map(|(key, value)| builder.add(key, value).err()).unwrap();
    assert!(matches!(failed, Error::Io { op: "append", .. }), "{failed}");
    let next = internal_key(b"z", 1, KeyKind::Value);
    assert_eq!(builder.add(&next, b"").unwrap_err().to_string(), failed.to_string());
    assert_eq!(builder.finish().unwrap_err().to_string(), failed.to_string());
    assert_eq!(sink.writes.load(Relaxed), 2);
    assert_eq!(sink.syncs.load(Relaxed), 0);

    let sink = Sink::default();
    let mut builder = TableBuilder::new(Box::new(sink.clone()), "t.ldb".into(), options);
    for (key, value) in &model {
        let before = builder.file_bytes();
        builder.add(key, value).unwrap();
        assert!(builder.file_bytes() > before);
    }
    let estimate = builder.file_bytes();
    let summary = builder.finish().unwrap();
    assert!(summary.file_bytes >= estimate);
    assert_eq!((summary.entries, sink.syncs.load(Relaxed)), (20_000, 1));
    assert!(sink.writes.load(Relaxed) < 15, "{:?} {summary:?}", sink.writes);
}

/// Scans a table forward and backward. Returns all entries, after checking that both scans agree.
/// If a scan fails, returns the entries that each scan returned and the error.
fn scan(table: &Arc<Table>) -> Result<Model, (Model, Model, String)> {
    let mut cursor = table.cursor(BlockReadOptions::default());
    let (mut forward, mut backward) = (Model::new(), Model::new());
    let mut error = None;
    let mut moved = cursor.seek_to_first();
    while *moved.as_ref().unwrap_or(&false) {
        forward.push((cursor.key().to_vec(), cursor.value().to_vec()));
        moved = cursor.next();
    }
    error = moved.err().or(error);
    assert!(!cursor.valid());
    let mut moved = cursor.seek_to_last();
    while *moved.as_ref().unwrap_or(&false) {
        backward.push((cursor.key().to_vec(), cursor.value().to_vec()));
        moved = cursor.prev();
    }
    error = moved.err().or(error);
    backward.reverse();
    match error {
        Some(error) => Err((forward, backward, error.to_string())),
        None => {
            assert_eq!(forward, backward);
            Ok(forward)
        }
    }
}

/// Reads a damaged table in every way, and checks that each result is either correct or an error.
fn right_or_error(bytes: Vec<u8>, context: &TableContext, model: &Model, what: &str) {
    let Ok(table) = open(bytes, context) else { return };
    match scan(&table) {
        Ok(entries) => assert_eq!(&entries, model, "{what}"),
        Err((forward, backward, error)) => {
            assert!(model.starts_with(&forward), "{what}: {error}");
            assert!(model.ends_with(&backward), "{what}: {error}");
            assert!(error.contains("t.ldb"), "{what}: {error}");
        }
    }
    for (key, value) in model {
        match get(&table, key).0 {
            Ok(found) => {
                assert_eq!(found.map(|f| f.value.to_vec()).as_ref(), Some(value), "{what}")
            }
            Err(error) => assert!(error.to_string().contains("t.ldb at offset"), "{error}"),
        }
        let absent = internal_key(&[user_key(key), b"x"].concat(), 9, KeyKind::Value);
        if let Ok(found) = get(&table, &absent).0 {
            assert_eq!(found, None, "{what}");
        }
    }
}

#[test]
fn no_changed_byte_gives_a_wrong_answer() {
    for compression in [Compression::None, Compression::Snappy] {
        let options = TableOptions { compression, ..small_blocks(internal_order()) };
        let model = even_keys(40);
        let bytes = build(&options, &model).0;
        for i in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[i] ^= change;
                let what = format!("byte {i} of {} ^ {change}", bytes.len());
                right_or_error(changed.clone(), &context_of(&options), &model, &what);

                // Without checksums, results may be wrong, but each read must end and must not
                // panic.
                let Ok(table) = open(changed, &context_of(&options)) else { continue };
                let unchecked =
                    BlockReadOptions { verify_checksums: false, ..BlockReadOptions::default() };
                let mut cursor = table.cursor(unchecked);
                let mut moved = cursor.seek_to_first();
                for _ in 0..1000 {
                    if !*moved.as_ref().unwrap_or(&false) {
                        break;
                    }
                    moved = cursor.next();
                }
                assert!(!cursor.valid(), "{what}: endless");
                for (key, _) in &model {
                    let _ = table.get(key, &unchecked, &mut LevelTrace::default());
                }
            }
        }
    }
}

#[test]
fn a_footer_turned_to_another_sound_block_is_noticed() {
    // Without a filter, the metaindex is an empty block. If it were mistaken for the index, the
    // table would seem to have no entries.
    let options = TableOptions { filter_policy: None, ..small_blocks(internal_order()) };
    let model = even_keys(1);
    let mut bytes = build(&options, &model).0;
    let footer = bytes.len() - 48;
    let context = context_of(&options);
    let metaindex = open(bytes.clone(), &context).unwrap().footer().metaindex;
    let mut handle = Vec::new();
    metaindex.encode_to(&mut handle);
    let at = footer + handle.len();
    bytes[at..at + handle.len()].copy_from_slice(&handle);
    let error = open(bytes, &context).unwrap_err();
    assert!(error.to_string().contains("ends at the footer"), "{error}");
}

#[test]
fn a_truncated_table_is_an_error() {
    let options = small_blocks(internal_order());
    let model = even_keys(40);
    let bytes = build(&options, &model).0;
    let context = context_of(&options);
    for len in 0..bytes.len() {
        let cut = bytes[..len].to_vec();
        let error = open(cut.clone(), &context).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("t.ldb"), "{error}");
        let file = Arc::new(MemFile(cut));
        let error = Table::open(file, bytes.len() as u64, "t.ldb".into(), &context).unwrap_err();
        assert!(error.to_string().contains("the file ends inside"), "{error}");
    }
}

#[test]
fn a_damaged_filter_costs_reads_and_no_keys() {
    let options = small_blocks(internal_order());
    let model = even_keys(100);
    let (bytes, summary) = build(&options, &model);
    let context = context_of(&options);
    let sound = open(bytes.clone(), &context).unwrap();
    assert!(sound.filter_error().is_none());
    assert_eq!(sound.filter_policy_name(), Some("leveldb.BuiltinBloomFilter2"));
    let filter = sound.filter_block().unwrap();
    let sizes = (filter.memory_bytes() as u64, filter.empty_filter_count());
    assert_eq!(sizes, (summary.filter_bytes, 0));
    assert!(sound.pinned_bytes() as u64 >= summary.filter_bytes + summary.index_bytes);

    let handle = sound.meta()[0].1;
    let mut bad_checksum = bytes.clone();
    bad_checksum[handle.offset as usize] ^= 1;
    // This filter block has a correct checksum, but the offset of its array is past the block's
    // end.
    let mut bad_shape = bytes.clone();
    let end = (handle.offset + handle.size) as usize;
    bad_shape[end - 2] = 0xff;
    let trailer = block_trailer(&bad_shape[handle.offset as usize..end], 0);
    bad_shape[end..end + 5].copy_from_slice(&trailer);
    let mut bad_metaindex = bytes;
    bad_metaindex[sound.footer().metaindex.offset as usize] ^= 1;

    for damaged in [bad_checksum, bad_shape, bad_metaindex] {
        let table = open(damaged, &context).unwrap();
        let error = table.filter_error().unwrap().to_string();
        assert!(error.contains("t.ldb at offset"), "{error}");
        assert!(table.filter_block().is_none());
        assert_eq!(scan(&table).unwrap(), model);
        let (found, trace) = get(&table, &lookup_key("key000001"));
        assert_eq!(found.unwrap(), None);
        assert_eq!((trace.filter_checks, trace.data_blocks_from_file), (0, 1));
    }
}

/// LevelDB's bloom filter under the older name that goleveldb uses.
#[derive(Debug)]
struct OldName(BloomFilterPolicy);

impl FilterPolicy for OldName {
    fn name(&self) -> &str {
        "leveldb.BuiltinBloomFilter"
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.0.create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match(key, filter)
    }

    fn generator(&self) -> Box<dyn crate::filter::policy::FilterGenerator> {
        self.0.generator()
    }
}

#[test]
fn filters_are_taken_by_name_or_alias_only() {
    let policy: Arc<dyn FilterPolicy> = Arc::new(OldName(BloomFilterPolicy::new(10)));
    let old = TableOptions { filter_policy: Some(policy), ..small_blocks(internal_order()) };
    let new = small_blocks(internal_order());
    let model = even_keys(100);

    let by_alias = open(build(&old, &model).0, &context_of(&new)).unwrap();
    assert_eq!(by_alias.filter_policy_name().unwrap(), "leveldb.BuiltinBloomFilter");
    assert_eq!(get(&by_alias, &lookup_key("key000001")).1.filter_checks, 1);

    let unknown = open(build(&new, &model).0, &context_of(&old)).unwrap();
    assert!(unknown.filter_block().is_none() && unknown.filter_error().is_none());
    assert_eq!(unknown.meta()[0].0, b"filter.leveldb.BuiltinBloomFilter2");
    assert_eq!(get(&unknown, &lookup_key("key000001")).1.filter_checks, 0);
}

/// Checks that a filter stored under an alias is queried by `may_match_alias`, and a filter stored
/// under the policy's own name by `may_match`. LevelDB's earlier filters use a different hash for
/// some keys.
#[test]
fn filters_are_asked_in_the_way_of_their_name() {
    #[derive(Debug)]
    struct Either {
        by_name: bool,
    }

    impl FilterPolicy for Either {
        fn name(&self) -> &str {
            "leveldb.BuiltinBloomFilter2"
        }

        fn aliases(&self) -> &[&str] {
            &["leveldb.BuiltinBloomFilter"]
        }

        fn create(&self, _: &[&[u8]], _: &mut Vec<u8>) {}

        fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
            self.by_name
        }

        fn may_match_alias(&self, _: &[u8], _: &[u8]) -> bool {
            !self.by_name
        }

        fn generator(&self) -> Box<dyn crate::filter::policy::FilterGenerator> {
            unreachable!("nothing is written")
        }
    }

    let policy: Arc<dyn FilterPolicy> = Arc::new(OldName(BloomFilterPolicy::new(10)));
    let new = small_blocks(internal_order());
    let old = TableOptions { filter_policy: Some(policy), ..new.clone() };
    let model = even_keys(100);
    for (writer, is_alias) in [(&new, false), (&old, true)] {
        for by_name in [false, true] {
            let policy: Arc<dyn FilterPolicy> = Arc::new(Either { by_name });
            let reader = TableOptions { filter_policy: Some(policy), ..new.clone() };
            let table = open(build(writer, &model).0, &context_of(&reader)).unwrap();
            let (found, trace) = get(&table, &lookup_key("key000002"));
            assert_eq!(trace.filter_checks, 1);
            assert_eq!(found.unwrap().is_some(), by_name != is_alias);
        }
    }
}

#[test]
fn an_open_checks_the_order_of_blocks_and_a_paranoid_one_that_of_separators() {
    // In the damaged indexes, two separators are swapped, two handles are swapped, two entries
    // point to the same block, or a handle begins one byte too early. All checksums are correct.
    let options = TableOptions { filter_policy: None, ..small_blocks(internal_order()) };
    let model = even_keys(40);
    let bytes = build(&options, &model).0;
    let context = context_of(&options);
    let paranoid = TableContext { paranoid: true, ..context.clone() };
    let table = open(bytes.clone(), &paranoid).unwrap();
    let BlockHandle { offset, size } = table.footer().index;
    let (start, end) = (offset as usize, (offset + size) as usize);

    let sound = table.blocks().unwrap();
    let mut keys_swapped = sound.clone();
    keys_swapped[0].separator.clone_from(&sound[1].separator);
    keys_swapped[1].separator.clone_from(&sound[0].separator);
    let mut handles_swapped = sound.clone();
    handles_swapped[0].handle = sound[1].handle;
    handles_swapped[1].handle = sound[0].handle;
    let mut named_twice = sound.clone();
    let last = sound.len() - 1;
    named_twice[last].handle = sound[last - 1].handle;
    let mut overlapping = sound.clone();
    overlapping[last].handle.offset -= 1;
    let cases = [(keys_swapped, true), (handles_swapped, false), (named_twice, false)];
    for (blocks, is_opened) in cases.into_iter().chain([(overlapping, false)]) {
        let mut index = crate::format::block_builder::BlockBuilder::new(1);
        for block in blocks {
            let mut handle = Vec::new();
            block.handle.encode_to(&mut handle);
            index.add(&block.separator, &handle);
        }
        let mut swapped = bytes.clone();
        swapped[start..end].copy_from_slice(index.finish());
        let trailer = block_trailer(&swapped[start..end], 0);
        swapped[end..end + 5].copy_from_slice(&trailer);
        assert_eq!(open(swapped.clone(), &context).is_ok(), is_opened);
        let error = open(swapped, &paranoid).unwrap_err().to_string();
        assert!(error.contains("index is out of order"), "{error}");
    }
}

#[test]
fn an_index_with_several_entries_to_a_restart_point_is_checked_and_read() {
    let options = TableOptions { filter_policy: None, ..small_blocks(internal_order()) };
    let (model, context) = (even_keys(40), context_of(&options));
    let mut bytes = build(&options, &model).0;
    let table = open(bytes.clone(), &context).unwrap();
    let start = table.footer().index.offset as usize;
    let mut index = crate::format::block_builder::BlockBuilder::new(2);
    for block in table.blocks().unwrap() {
        let mut handle = Vec::new();
        block.handle.encode_to(&mut handle);
        index.add(&block.separator, &handle);
    }
    bytes.truncate(start);
    bytes.extend_from_slice(index.finish());
    let size = bytes.len() - start;
    let trailer = block_trailer(&bytes[start..], 0);
    bytes.extend_from_slice(&trailer);
    let index = BlockHandle { offset: start as u64, size: size as u64 };
    bytes.extend_from_slice(&Footer { index, ..*table.footer() }.encode());
    for paranoid in [false, true] {
        let context = TableContext { paranoid, ..context.clone() };
        let table = open(bytes.clone(), &context).unwrap();
        assert_eq!(scan(&table).unwrap(), model);
    }
}

#[test]
fn offsets_ascend_with_keys() {
    let options = small_blocks(internal_order());
    let model = even_keys(100);
    let (bytes, summary) = build(&options, &model);
    let table = open(bytes, &context_of(&options)).unwrap();
    assert_eq!(table.blocks().unwrap().len() as u64, summary.data_blocks);
    let offsets = model.iter().map(|(key, _)| table.approximate_offset_of(key).unwrap());
    let offsets: Vec<_> = offsets.collect();
    assert!(offsets.is_sorted() && offsets[0] == 0);
    let past = table.approximate_offset_of(&lookup_key("z")).unwrap();
    assert!(past > offsets[99] && past < summary.file_bytes);
}

fn random_options(rng: &mut Rng) -> (TableOptions, TableContext) {
    let order = match rng.index(3) {
        0 => user_order(BytewiseComparator),
        1 => user_order(Reverse),
        _ => internal_order(),
    };
    let options = TableOptions {
        order,
        filter_policy: bloom().filter(|_| rng.index(2) == 0),
        table_filter_bits_per_key: Some(rng.below(12) as u32).filter(|bits| *bits > 0),
        prefix_filter: None,
        block_bytes: 1 + rng.index(2000),
        block_restart_interval: 1 + rng.index(20),
        compression: [Compression::None, Compression::Snappy][rng.index(2)],
    };
    let cache_bytes = [0, 1000, 1 << 20][rng.index(3)];
    let context = TableContext {
        block_cache: Some(Arc::new(BlockCache::new(cache_bytes))),
        filter_policy: bloom(),
        paranoid: rng.index(2) == 0,
        ..context_of(&options)
    };
    (options, context)
}

fn random_key(rng: &mut Rng, order: &KeyOrder) -> Vec<u8> {
    let key = rng.bytes(8, 3);
    match order {
        KeyOrder::Internal(_) => {
            internal_key(&key, rng.below(4), [KeyKind::Deletion, KeyKind::Value][rng.index(2)])
        }
        KeyOrder::User(_) => key,
    }
}

fn random_model(rng: &mut Rng, order: &KeyOrder) -> Model {
    let mut keys: Vec<_> = (0..rng.index(400)).map(|_| random_key(rng, order)).collect();
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup();
    keys.into_iter().map(|key| (key, rng.bytes(120, 256))).collect()
}

/// Without the panic, a missing entry would pass for one with an empty key.
#[test]
fn a_cursor_at_no_entry_has_no_key() {
    let options = small_blocks(internal_order());
    let table = open(build(&options, &even_keys(3)).0, &context_of(&options)).unwrap();
    let mut cursor = table.cursor(BlockReadOptions::default());
    let panics = |cursor: &TableCursor| {
        let key = AssertUnwindSafe(|| cursor.key().len());
        let value = AssertUnwindSafe(|| cursor.value().len());
        catch_unwind(key).is_err() && catch_unwind(value).is_err()
    };
    assert!(panics(&cursor));
    assert!(cursor.seek_to_first().unwrap() && !panics(&cursor));
    assert!(!cursor.seek(&lookup_key("z")).unwrap() && panics(&cursor));
}

/// Makes the same random move with `cursor` and with an index into the model. Returns the new
/// index; the model's length means "not positioned".
fn random_move(
    rng: &mut Rng,
    order: &KeyOrder,
    model: &Model,
    cursor: &mut TableCursor,
    at: usize,
) -> usize {
    let (found, to) = match rng.index(10) {
        0 => (cursor.seek_to_first(), 0),
        1 => (cursor.seek_to_last(), model.len().wrapping_sub(1)),
        2 | 3 => {
            let target = random_key(rng, order);
            let less = |(key, _): &(Vec<u8>, _)| order.compare(key, &target) == Ordering::Less;
            (cursor.seek(&target), model.partition_point(less))
        }
        4..7 => (cursor.next(), at + 1),
        _ if at < model.len() => (cursor.prev(), at.wrapping_sub(1)),
        _ => (cursor.prev(), at),
    };
    let to = to.min(model.len());
    assert_eq!((found.unwrap(), cursor.valid()), (to < model.len(), to < model.len()));
    to
}

#[test]
fn cursors_and_lookups_agree_with_a_sorted_list() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (options, context) = random_options(&mut rng);
        let order = &options.order;
        let model = random_model(&mut rng, order);
        let table = open(build(&options, &model).0, &context).unwrap();
        let mut cursor = table.cursor(BlockReadOptions::default());
        let mut at = model.len();
        for _ in 0..300 {
            at = random_move(&mut rng, order, &model, &mut cursor, at);
            let Some((key, value)) = model.get(at) else {
                assert!(!cursor.valid());
                continue;
            };
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            assert_eq!(cursor.value_bytes(), value);
        }
        for _ in 0..300 {
            let target = random_key(&mut rng, order);
            let wanted = model
                .iter()
                .find(|(key, _)| order.compare(key, &target) != Ordering::Less)
                .filter(|(key, _)| order.user_key(key) == order.user_key(&target))
                .map(|(_, value)| value.clone());
            let found = get(&table, &target).0.unwrap();
            assert_eq!(found.map(|found| found.value.to_vec()), wanted);
        }
    }
}
