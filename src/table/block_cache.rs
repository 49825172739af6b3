//! Uncompressed data blocks in memory, within a number of bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::format::block::Block;

/// Which block: the number the cache gave its table, and the block's offset in the file.
type BlockKey = (u64, u64);

/// What a block costs beside its bytes: the cache's own entry, the handle, the allocation.
const ENTRY_BYTES: u64 = 128;

#[derive(Clone, Debug)]
struct BlockWeight;

impl Weighter<BlockKey, Block> for BlockWeight {
    fn weight(&self, _: &BlockKey, block: &Block) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

/// A cache of data blocks, shared by all tables of a database. Thread-safe: sharded, and a hit
/// takes a shard's read lock only.
///
/// A scan does not push out what lookups use: blocks asked for once leave first. Hits and misses
/// are counted by those who ask: [`LevelTrace`](crate::base::stats::LevelTrace).
#[derive(Debug)]
pub struct BlockCache {
    /// `None`: keeps nothing.
    blocks: Option<Cache<BlockKey, Block, BlockWeight>>,
    next_id: AtomicU64,
}

impl BlockCache {
    /// A cache of at most `bytes`; 0 keeps none.
    pub fn new(bytes: usize) -> BlockCache {
        const USUAL_BLOCK_BYTES: usize = 4 << 10;
        let blocks = (bytes > 0).then(|| {
            Cache::with_weighter(bytes.div_ceil(USUAL_BLOCK_BYTES), bytes as u64, BlockWeight)
        });
        BlockCache { blocks, next_id: AtomicU64::new(1) }
    }

    /// A number for a table, which no other table of this cache has.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The block at `offset` of the table with this number, if it is in memory.
    pub fn get(&self, table_id: u64, offset: u64) -> Option<Block> {
        self.blocks.as_ref().and_then(|blocks| blocks.get(&(table_id, offset)))
    }

    /// Keeps a block, and lets others go if need be. A block too large to share the room stays
    /// out.
    pub fn insert(&self, table_id: u64, offset: u64, block: Block) {
        if let Some(blocks) = &self.blocks {
            blocks.insert((table_id, offset), block);
        }
    }

    /// The bytes in use.
    pub fn usage_bytes(&self) -> u64 {
        self.blocks.as_ref().map_or(0, |blocks| blocks.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::block_builder::BlockBuilder;

    fn block(value_bytes: usize) -> Block {
        let mut builder = BlockBuilder::new(1);
        builder.add(b"key", &vec![b'v'; value_bytes]);
        Block::new(builder.finish().to_vec().into()).unwrap()
    }

    #[test]
    fn blocks_are_kept_by_table_and_offset() {
        let cache = BlockCache::new(1 << 20);
        let (one, two) = (cache.new_id(), cache.new_id());
        assert_ne!(one, two);
        cache.insert(one, 0, block(10));
        cache.insert(one, 4096, block(20));
        assert_eq!(cache.get(one, 0).unwrap().len(), block(10).len());
        assert_eq!(cache.get(one, 4096).unwrap().len(), block(20).len());
        assert!(cache.get(two, 0).is_none());
        assert_eq!(cache.usage_bytes(), (block(10).len() + block(20).len()) as u64 + 256);
    }

    #[test]
    fn the_bytes_in_use_stay_within_the_bound() {
        let cache = BlockCache::new(256 << 10);
        for offset in 0..1000 {
            cache.insert(1, offset, block(4096));
            assert!(cache.usage_bytes() <= 256 << 10);
        }
        assert!(cache.usage_bytes() > 128 << 10);
    }

    #[test]
    fn a_cache_of_no_bytes_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(1, 0, block(1));
        assert!(cache.get(1, 0).is_none());
        assert_eq!(cache.usage_bytes(), 0);
    }
}
