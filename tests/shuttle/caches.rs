//! The caches of blocks and of open tables.

use std::path::Path;
use std::sync::Arc;

use minikv::files::KeyKind;
use minikv::fs::{Fs, MemFs};
use minikv::internals::block::Block;
use minikv::internals::format::block_builder::BlockBuilder;
use minikv::internals::format::key::{InternalComparator, KeyOrder, internal_key};
use minikv::internals::table::block_cache::{ENTRY_BYTES, TableBlocks};
use minikv::internals::table::{
    BlockCache, BlockReadOptions, TableBuilder, TableCache, TableContext, TableOptions, TableSlot,
};
use minikv::stats::LevelTrace;
use minikv::{BytewiseComparator, Compression};
use shuttle::thread;

use crate::check;

fn block(value_bytes: usize) -> Block {
    let mut builder = BlockBuilder::new(1);
    builder.add(b"key", &vec![b'v'; value_bytes]);
    Block::new(builder.finish()).unwrap()
}

/// Reads a block as a lookup does: takes it from the cache or, if it is missing, inserts it,
/// reusing the memory of an evicted block if possible. Holds the block for a while, and checks its
/// contents.
fn read(table: &TableBlocks, at: usize, value_bytes: usize) {
    let contents = block(value_bytes);
    let here = table.get(at).and_then(|found| found.to_block()).unwrap_or_else(|| {
        let order = KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator)));
        let spare = |len| table.spare(at, len);
        let read = Block::with_heads(&contents, &order, &mut Vec::new(), spare).unwrap();
        table.insert(at, read.clone());
        read
    });
    thread::yield_now();
    assert_eq!(here.as_ref(), contents.as_ref(), "another's block");
}

/// Checks that tables can release their cached blocks while other threads evict blocks. Each table
/// has three blocks, and the cache has room for only two or three blocks in total.
#[test]
fn tables_leave_the_block_cache_while_others_make_room() {
    check(|| {
        let cache = Arc::new(BlockCache::new(700));
        let shared = Arc::new(cache.table(3));
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (cache, shared) = (cache.clone(), shared.clone());
                thread::spawn(move || {
                    let own = cache.table(3);
                    for at in 0..3 {
                        read(&own, at, 100 + 10 * thread + at);
                        read(&shared, at, 50 + at);
                        assert!(cache.usage_bytes() <= 700);
                    }
                    // Other threads may be about to evict one of the table's blocks.
                    thread::yield_now();
                    drop(own);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let held = (0..3).filter_map(|at| shared.get(at)?.to_block());
        let held: u64 = held.map(|block| block.len() as u64 + ENTRY_BYTES).sum();
        assert_eq!(cache.usage_bytes(), held, "no more counts than what is there");
        drop(shared);
        assert_eq!(cache.usage_bytes(), 0, "blocks of tables that are gone");
    });
}

/// Returns three tables, each of which contains its own number, and a cache that keeps at most two
/// tables open.
fn open_tables() -> (TableCache, Vec<Arc<TableSlot>>) {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/db")).unwrap();
    let order = KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator)));
    let options = TableOptions {
        order: order.clone(),
        filter_policy: None,
        table_filter_bits_per_key: None,
        prefix_filter: None,
        block_bytes: 64,
        block_restart_interval: 1,
        compression: Compression::None,
    };
    let mut slots = Vec::new();
    for number in 1..=3u8 {
        let path = Path::new("/db").join(format!("{number:06}.ldb"));
        let mut builder = TableBuilder::new(fs.create(&path).unwrap(), path, options.clone());
        builder.add(&internal_key(b"number", 1, KeyKind::Value), &[number]).unwrap();
        let bytes = builder.finish().unwrap().file_bytes;
        slots.push(Arc::new(TableSlot::new(u64::from(number), bytes)));
    }
    let context = TableContext {
        order,
        filter_policy: None,
        prefix_extractor: None,
        block_cache: Some(Arc::new(BlockCache::new(300))),
        paranoid: false,
    };
    (TableCache::new(Arc::new(fs), "/db".into(), context, 2), slots)
}

fn number_in(cache: &TableCache, slot: &Arc<TableSlot>) -> u64 {
    let key = internal_key(b"number", 1, KeyKind::Value);
    let get = |table: &Arc<_>| {
        let table: &minikv::internals::table::Table = table;
        table.get(&key, &BlockReadOptions::default(), &mut LevelTrace::default())
    };
    u64::from(cache.with(slot, get).unwrap().unwrap().value[0])
}

#[test]
fn more_tables_than_may_be_open_are_read_and_dropped() {
    check(|| {
        let (cache, slots) = open_tables();
        let cache = Arc::new(cache);
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (cache, slots) = (cache.clone(), slots.clone());
                thread::spawn(move || {
                    for i in 0..3 {
                        let slot = &slots[(thread + i) % 3];
                        assert_eq!(number_in(&cache, slot), slot.number);
                        assert!(cache.open_tables() <= 2);
                    }
                    // The slot is dropped as if a compaction had replaced the table.
                    let slot = &slots[thread];
                    let replaced = Arc::new(TableSlot::new(slot.number, slot.file_bytes));
                    assert_eq!(number_in(&cache, &replaced), slot.number);
                    drop(replaced);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let open = slots.iter().filter(|slot| slot.table.load().is_some()).count();
        assert_eq!(cache.open_tables(), open);
        // Checks that the threads have not reduced the capacity of the cache.
        for slot in slots.iter().chain(&slots) {
            assert_eq!(number_in(&cache, slot), slot.number);
        }
        assert_eq!(cache.open_tables(), 2);
    });
}
