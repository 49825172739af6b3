//! RocksDB as a [`Store`].

use std::path::{Path, PathBuf};

use minikv_workloads::{Direction, Ended, Entry, Result, Settings, Source, Store, Transact};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, ErrorKind, IngestExternalFileOptions,
    OptimisticTransactionDB, Options, SstFileWriter, Transaction, WaitForCompactOptions,
    WriteBatch, WriteBatchWithTransaction, WriteOptions,
};

/// Size from which on an ingested table is full, in bytes: that of RocksDB's own tables.
const SST_BYTES: u64 = 64 << 20;

pub struct RocksDb {
    db: DB,
    options: Options,
    /// Where sorted tables are written before they are ingested.
    tables: PathBuf,
    synced: WriteOptions,
}

fn options(settings: &Settings) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(4 << 10);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(settings.write_buffer_bytes);
    options.set_compression_type(DBCompressionType::Snappy);
    options
}

impl RocksDb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<RocksDb> {
        let options = options(settings);
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let (db, tables) = (DB::open(&options, dir)?, dir.with_extension("tables"));
        Ok(RocksDb { db, options, tables, synced })
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

    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        std::fs::create_dir_all(&self.tables)?;
        let mut writer = SstFileWriter::create(&self.options);
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut is_full = true;
        entries(&mut |key, value| {
            if is_full {
                if !paths.is_empty() {
                    writer.finish()?;
                }
                paths.push(self.tables.join(format!("{}.sst", paths.len())));
                writer.open(&paths[paths.len() - 1])?;
            }
            writer.put(key, value)?;
            is_full = writer.file_size() >= SST_BYTES;
            Ok(())
        })?;
        if paths.is_empty() {
            return Ok(());
        }
        writer.finish()?;
        drop(writer);
        let mut moved = IngestExternalFileOptions::default();
        moved.set_move_files(true);
        self.db.ingest_external_file_opts(&moved, paths)?;
        Ok(std::fs::remove_dir_all(&self.tables)?)
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

/// RocksDB opened for transactions, which is another type. It does what the workloads with
/// transactions need.
pub struct RocksTransactions {
    db: OptimisticTransactionDB,
}

impl RocksTransactions {
    pub fn open(dir: &Path, settings: &Settings) -> Result<RocksTransactions> {
        Ok(RocksTransactions { db: OptimisticTransactionDB::open(&options(settings), dir)? })
    }
}

impl Store for RocksTransactions {
    fn put(&self, key: &[u8], value: &[u8], _: bool) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
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

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        let mut transaction = Running(self.db.transaction());
        body(&mut transaction)?;
        match transaction.0.commit() {
            Ok(()) => Ok(Ended::Committed),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(Ended::Conflict)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn scan(
        &self,
        _: Option<&[u8]>,
        _: Direction,
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        Err("no workload with transactions scans".into())
    }

    fn compact(&mut self) -> Result<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn describe(&self) -> String {
        "RocksDB's OptimisticTransactionDB".to_string()
    }
}

/// A transaction.
struct Running<'a>(Transaction<'a, OptimisticTransactionDB>);

impl Transact for Running<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.0.get_pinned_for_update(key, true)? {
            found(&value);
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
}
