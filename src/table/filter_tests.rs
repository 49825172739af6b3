//! Tests of tables with filters that LevelDB does not have.

use std::sync::Arc;

use crate::base::hash::key_hash;
use crate::block::Block;
use crate::filter::BloomFilterPolicy;
use crate::filter::block::FilterBlockBuilder;
use crate::filter::prefix::{DelimitedPrefix, FixedPrefix};
use crate::filter::whole_table::{TABLE_FILTER_NAME, TableFilterBuilder};
use crate::format::handle::{BlockHandle, block_trailer};
use crate::format::key::{KeyKind, MAX_SEQ_NO, internal_key, user_key};
use crate::table::block_cache::BlockCache;
use crate::table::builder::TableOptions;
use crate::table::counts::{AllFilters, LevelTrace};
use crate::table::index::{Index, IndexSpot};
use crate::table::testing::*;
use crate::table::*;

fn with_table_filter(has_block_filter: bool) -> TableOptions {
    TableOptions {
        filter_policy: bloom().filter(|_| has_block_filter),
        table_filter_bits_per_key: Some(10),
        ..small_blocks(internal_order())
    }
}

/// Returns a context for reading tables that were written with `options`. Filters are enabled.
fn context(options: &TableOptions) -> TableContext {
    TableContext { filter_policy: bloom(), ..context_of(options) }
}

/// Returns entries with keys `000/0000`, `000/0002`, ...: a hundred keys per prefix, and two
/// versions of each key.
fn model() -> Model {
    let key = |i: usize| format!("{:03}/{:04}", i / 100, 2 * i).into_bytes();
    let versions = |i| [9, 5].map(|seq| internal_key(&key(i), seq, KeyKind::Value));
    (0..500).flat_map(versions).map(|key| (key, vec![7; 20])).collect()
}

fn lookup_key(i: usize) -> Vec<u8> {
    internal_key(format!("{:03}/{i:04}", i / 200).as_bytes(), MAX_SEQ_NO, KeyKind::Value)
}

fn get(table: &Table, key: &[u8], use_filter: bool) -> (Option<Found>, LevelTrace) {
    let mut trace = LevelTrace::default();
    let options = BlockReadOptions { use_filter, ..BlockReadOptions::default() };
    (table.get(key, &options, &mut trace).unwrap(), trace)
}

/// Applies `change` to a block in `bytes`, and then writes a correct checksum for the block.
fn patch(bytes: &mut [u8], handle: BlockHandle, change: impl FnOnce(&mut [u8])) {
    let (start, end) = (handle.offset as usize, (handle.offset + handle.size) as usize);
    change(&mut bytes[start..end]);
    let trailer = block_trailer(&bytes[start..end], 0);
    bytes[end..end + 5].copy_from_slice(&trailer);
}

#[test]
fn the_whole_table_filter_is_asked_before_the_index() {
    for has_block_filter in [false, true] {
        let options = with_table_filter(has_block_filter);
        let table = open(build(&options, &model()).0, &context(&options)).unwrap();
        assert_eq!(table.filter_block().is_some(), has_block_filter);
        assert_eq!(table.table_filter().unwrap().keys(), 500, "versions count once");
        let mut sum = LevelTrace::default();
        for i in 0..1000 {
            let (found, trace) = get(&table, &lookup_key(i), true);
            assert_eq!(found.is_some(), i % 2 == 0);
            assert_eq!((trace.table_filter_checks, trace.filter_checks), (1, 0));
            let seeks = 1 - trace.table_filter_negatives;
            assert_eq!((trace.index_seeks, trace.data_blocks()), (seeks, seeks));
            assert_eq!(trace.table_filter_true_positives == 1, found.is_some());
            sum.add(&trace);
        }
        assert_eq!(sum.table_filter_true_positives, 500);
        assert_eq!(sum.table_filter_negatives + sum.table_filter_false_positives, 500);
        assert!(sum.table_filter_false_positives < 15, "{sum:?}");

        let (found, trace) = get(&table, &lookup_key(1), false);
        assert_eq!((found, AllFilters::of(&trace).checks, trace.data_blocks()), (None, 0, 1));
    }
}

#[test]
fn a_table_with_other_filters_is_read_by_them() {
    let options = TableOptions { filter_policy: None, ..small_blocks(internal_order()) };
    let (bytes, _) = build(&options, &model());
    let plain = open(bytes.clone(), &context(&options)).unwrap();
    let mut of_blocks = FilterBlockBuilder::new(&BloomFilterPolicy::new(10));
    let mut of_table = TableFilterBuilder::new(10);
    for (key, _) in model() {
        of_blocks.start_block(plain.approximate_offset_of(&key).unwrap());
        of_blocks.add_key(user_key(&key));
        of_table.add_key(user_key(&key));
    }
    let (of_blocks, of_table) = (of_blocks.finish(), of_table.finish());
    let block = Some(("leveldb.BuiltinBloomFilter2", &of_blocks[..]));
    for (block, table) in [(block, None), (None, Some(&of_table[..])), (block, Some(&of_table))] {
        let tail = plain.with_filters(block, table).unwrap();
        let changed = [&bytes[..tail.offset as usize], &tail.bytes].concat();
        let changed = open(changed, &context(&options)).unwrap();
        assert!(changed.filter_error().is_none(), "{:?}", changed.filter_error());
        assert_eq!(changed.filter_block().is_some(), block.is_some());
        assert_eq!(changed.table_filter().is_some(), table.is_some());
        let (mut negatives, mut sum) = (0, LevelTrace::default());
        for i in 0..1000 {
            let (found, trace) = get(&changed, &lookup_key(i), true);
            assert_eq!(found.is_some(), i % 2 == 0, "{i}");
            negatives += AllFilters::of(&trace).negatives;
            sum.add(&trace);
        }
        // Of 500: LevelDB's hash does not spread these keys well.
        assert!(negatives > 400, "{sum:?}");
    }
}

/// Returns a table of the model's keys with values so long that blocks have heads, and a block
/// cache.
fn cached_table(options: &TableOptions) -> Table {
    let options = &TableOptions { block_bytes: 2048, ..options.clone() };
    let model = model().into_iter().map(|(key, _)| (key, vec![7; 100])).collect();
    let block_cache = Some(Arc::new(BlockCache::new(1 << 20)));
    let context = TableContext { block_cache, ..context(options) };
    Arc::into_inner(open(build(options, &model).0, &context).unwrap()).unwrap()
}

/// Checks that a get of the model's first key says that memory may be damaged, and that an absent
/// key is absent.
fn assert_told(table: &Table) {
    let told = table.get(&lookup_key(0), &BlockReadOptions::default(), &mut LevelTrace::default());
    let told = told.unwrap_err();
    assert!(told.is_corruption() && told.to_string().contains("memory may be damaged"), "{told}");
    assert_eq!(get(table, &lookup_key(499), true).0, None);
}

#[test]
fn a_key_that_a_filter_promised_is_not_lost_to_wrong_heads() {
    for options in [small_blocks(internal_order()), with_table_filter(false)] {
        for heads in [0, 0xff] {
            let table = cached_table(&options);
            let (_, block) = table.read_block(table.blocks().unwrap()[0].handle, true).unwrap();
            let block = Block::with_heads(block, &options.order, &mut Vec::new(), |_| None);
            let block = block.unwrap().with_wrong_heads(heads);
            table.blocks.as_ref().unwrap().insert(0, block);
            assert_told(&table);
        }
    }
}

#[test]
fn a_key_that_a_filter_promised_is_not_lost_to_a_wrong_location() {
    for change in [Index::swap_ends, Index::lose_locations] {
        let mut table = cached_table(&with_table_filter(false));
        change(&mut table.index);
        assert_told(&table);
    }
}

#[test]
fn the_index_confirms_the_block_that_it_names_and_no_other() {
    let table = cached_table(&with_table_filter(false));
    let count = table.index.blocks().unwrap();
    let spots: Vec<_> = (0..1000).map(|i| table.index.seek(&table.order, &lookup_key(i))).collect();
    let spots: Vec<_> = spots.into_iter().map(|spot| spot.unwrap().unwrap()).collect();
    assert_eq!((spots[0].at, spots[999].at), (Some(0), Some(count - 1)));
    for (i, spot) in spots.iter().enumerate() {
        let key = lookup_key(i);
        let confirms = |spot| table.index.confirms(&table.order, &key, spot).unwrap();
        for other in &spots {
            assert_eq!(confirms(Some(*other)), other.at == spot.at, "{i}: {other:?} for {spot:?}");
            let misplaced = IndexSpot { at: other.at, handle: spot.handle };
            assert_eq!(confirms(Some(misplaced)), other.at == spot.at, "{i}: {misplaced:?}");
            let nowhere = IndexSpot { at: None, handle: other.handle };
            assert_eq!(confirms(Some(nowhere)), other.at == spot.at, "{i}: {nowhere:?}");
        }
        assert!(!confirms(None), "{i} is in no block");
    }
    let after_all = internal_key(b"2", MAX_SEQ_NO, KeyKind::Value);
    assert!(table.index.seek(&table.order, &after_all).unwrap().is_none());
    assert!(table.index.confirms(&table.order, &after_all, None).unwrap());
}

#[test]
fn the_rest_of_the_table_is_leveldbs() {
    let plain = small_blocks(internal_order());
    let both = TableOptions {
        prefix_filter: Some((Arc::new(FixedPrefix::new(3)), 10)),
        ..with_table_filter(true)
    };
    let (plain_bytes, plain_summary) = build(&plain, &model());
    let (bytes, summary) = build(&both, &model());
    let plain_table = open(plain_bytes.clone(), &context(&plain)).unwrap();
    let table = open(bytes.clone(), &context(&both)).unwrap();

    let filter_end = plain_table.footer().metaindex.offset as usize;
    assert_eq!(bytes[..filter_end], plain_bytes[..filter_end]);
    let names: Vec<&str> =
        table.meta().iter().map(|(name, _)| str::from_utf8(name).unwrap()).collect();
    assert_eq!(
        names,
        [
            "filter.leveldb.BuiltinBloomFilter2",
            "minikv.prefix-filter.v1.binary-fuse.minikv.fixed.3",
            "minikv.table-filter.v1.binary-fuse",
        ]
    );
    assert_eq!(table.blocks().unwrap(), plain_table.blocks().unwrap());
    let filters = [table.table_filter().unwrap(), table.prefix_filter().unwrap()];
    let more: usize = filters.iter().map(|filter| filter.memory_bytes()).sum();
    assert_eq!(summary.filter_bytes, plain_summary.filter_bytes + more as u64);
    assert_eq!(table.filter_memory_bytes() as u64, summary.filter_bytes);
    assert!(table.pinned_bytes() as u64 >= summary.filter_bytes + summary.index_bytes);
}

#[test]
fn prefixes_have_a_filter_of_their_own() {
    let options = TableOptions {
        prefix_filter: Some((Arc::new(DelimitedPrefix::new(b'/')), 16)),
        ..small_blocks(internal_order())
    };
    let bytes = build(&options, &model()).0;
    let table = open(bytes.clone(), &context(&options)).unwrap();
    let filter = table.prefix_filter().unwrap();
    assert_eq!(filter.keys(), 5);
    assert!((0..5).all(|i| filter.may_match(format!("{i:03}/").as_bytes())));
    let wrong = (5..505).filter(|i| filter.may_match(format!("{i:03}/").as_bytes())).count();
    assert!(wrong < 3, "{wrong}");
    assert!(!table.table_filter().is_some_and(|filter| filter.may_match(b"")));

    let other: TableContext =
        TableContext { prefix_extractor: Some(Arc::new(FixedPrefix::new(4))), ..context(&options) };
    let table = open(bytes.clone(), &other).unwrap();
    assert!(table.prefix_filter().is_none() && table.filter_error().is_none());
    let none = TableContext { prefix_extractor: None, ..context(&options) };
    assert!(open(bytes, &none).unwrap().prefix_filter().is_none());
}

#[test]
fn keys_without_a_prefix_are_in_no_prefix_filter() {
    let options = TableOptions {
        prefix_filter: Some((Arc::new(FixedPrefix::new(100)), 10)),
        ..small_blocks(internal_order())
    };
    let table = open(build(&options, &model()).0, &context(&options)).unwrap();
    let filter = table.prefix_filter().unwrap();
    assert_eq!((filter.keys(), filter.may_match_hash(key_hash(&[b'0'; 100]))), (0, false));
}

#[test]
fn a_damaged_filter_of_a_table_costs_reads_and_no_keys() {
    for has_block_filter in [false, true] {
        let options = with_table_filter(has_block_filter);
        let bytes = build(&options, &model()).0;
        let sound = open(bytes.clone(), &context(&options)).unwrap();
        let is_it = |name: &[u8]| name == TABLE_FILTER_NAME.as_bytes();
        let handle = sound.meta().iter().find(|(name, _)| is_it(name)).unwrap().1;
        let last = (handle.size - 1) as usize;

        let mut bad_checksum = bytes.clone();
        bad_checksum[handle.offset as usize] ^= 1;
        let mut bad_width = bytes.clone();
        patch(&mut bad_width, handle, |block| block[last] ^= 1);
        let mut bad_starts = bytes.clone();
        patch(&mut bad_starts, handle, |block| block[last - 5] = 0xff);
        for damaged in [bad_checksum, bad_width, bad_starts] {
            let table = open(damaged, &context(&options)).unwrap();
            assert!(table.table_filter().is_none());
            let error = table.filter_error().unwrap().to_string();
            assert!(error.contains(&format!("t.ldb at offset {}", handle.offset)), "{error}");
            for i in 0..1000 {
                let (found, trace) = get(&table, &lookup_key(i), true);
                assert_eq!(found.is_some(), i % 2 == 0);
                let checks = (trace.table_filter_checks, trace.filter_checks, trace.index_seeks);
                assert_eq!(checks, (0, u64::from(has_block_filter), 1));
            }
        }
    }
}

#[test]
fn a_filter_of_another_version_is_left_alone() {
    let options = with_table_filter(false);
    let mut bytes = build(&options, &model()).0;
    let metaindex = open(bytes.clone(), &context(&options)).unwrap().footer().metaindex;
    patch(&mut bytes, metaindex, |block| {
        let at = block.windows(2).position(|pair| pair == b"v1").unwrap();
        block[at + 1] = b'2';
    });
    let table = open(bytes, &context(&options)).unwrap();
    assert_eq!(table.meta()[0].0, b"minikv.table-filter.v2.binary-fuse");
    assert!(table.table_filter().is_none() && table.filter_error().is_none());
    assert_eq!(get(&table, &lookup_key(1), true).1.data_blocks(), 1);
}

#[test]
fn without_a_policy_no_filter_is_read() {
    let options = with_table_filter(true);
    let no_policy = TableContext { filter_policy: None, ..context(&options) };
    let table = open(build(&options, &model()).0, &no_policy).unwrap();
    assert!(!table.has_filter() && table.table_filter().is_none());
}
