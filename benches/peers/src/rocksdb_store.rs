//! RocksDB as a [`Store`].

use std::path::Path;

use minikv_workloads::{Direction, Entry, Result, Settings, Store};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, WaitForCompactOptions, WriteBatch,
    WriteOptions,
};

pub struct RocksDb {
    db: DB,
    synced: WriteOptions,
}

impl RocksDb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<RocksDb> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_size(4 << 10);
        blocks.set_bloom_filter(10.0, false);
        blocks.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes));
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(settings.write_buffer_bytes);
        options.set_compression_type(DBCompressionType::Snappy);
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(RocksDb { db: DB::open(&options, dir)?, synced })
    }
}

impl Store for RocksDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Ok(match sync {
            true => self.db.put_opt(key, value, &self.synced)?,
            false => self.db.put(key, value)?,
        })
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write(batch)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut iter = self.db.raw_iterator();
        match (direction, from) {
            (Direction::Forward, None) => iter.seek_to_first(),
            (Direction::Forward, Some(from)) => iter.seek(from),
            (Direction::Backward, None) => iter.seek_to_last(),
            (Direction::Backward, Some(from)) => iter.seek_for_prev(from),
        }
        while let Some((key, value)) = iter.item() {
            if !visit(key, value) {
                break;
            }
            match direction {
                Direction::Forward => iter.next(),
                Direction::Backward => iter.prev(),
            }
        }
        Ok(iter.status()?)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        Ok(self.db.write(batch)?)
    }

    fn compact(&mut self) -> Result<()> {
        self.compact_beside().map(drop)
    }

    fn compact_beside(&self) -> Result<bool> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(true)
    }

    fn wait_idle(&self) -> Result<bool> {
        self.db.wait_for_compact(&WaitForCompactOptions::default())?;
        Ok(false)
    }

    fn describe(&self) -> String {
        "RocksDB of the rocksdb crate: whole-table bloom 10 bits, blocks 4 KiB, LRU cache, snappy, \
         checksums verified; CRC-32C in hardware"
            .to_string()
    }
}
