//! RocksDB as a [`Store`].

use std::path::{Path, PathBuf};

use minikv_workloads::{
    Direction, Ended, Entry, Follower, Group, Result, Settings, Source, Space, Store, Transact,
    is_removed,
};
use rocksdb::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use rocksdb::statistics::Ticker;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, CompactionDecision, DB, DBCompressionType,
    DBPinnableSlice, Env, Error, ErrorKind, IngestExternalFileOptions, LiveFile,
    OptimisticTransactionDB, Options, SstFileWriter, Transaction, WaitForCompactOptions,
    WriteBatch, WriteBatchWithTransaction, WriteBufferManager, WriteOptions,
};

/// Size in bytes at which a table for ingestion is full. RocksDB's own tables have the same size.
const SST_BYTES: u64 = 64 << 20;
/// Number of flush threads and number of compaction threads for all databases that share an
/// environment.
const SHARED_THREADS: (i32, i32) = (1, 2);

pub struct RocksDb {
    db: DB,
    options: Options,
    settings: Settings,
    synced: WriteOptions,
}

/// A RocksDB database opened for transactions, which require another database type.
pub struct RocksTransactions {
    db: OptimisticTransactionDB,
    synced: WriteOptions,
}

fn block_options(cache: &Cache, filters: bool) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(4 << 10);
    if filters {
        blocks.set_bloom_filter(10.0, false);
    }
    blocks.set_block_cache(cache);
    blocks
}

fn options(blocks: &BlockBasedOptions, settings: &Settings) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(blocks);
    options.set_write_buffer_size(settings.write_buffer_bytes);
    options.set_compression_type(DBCompressionType::Snappy);
    if settings.filtered {
        options.set_compaction_filter("half", |_, key: &[u8], _: &[u8]| match is_removed(key) {
            true => CompactionDecision::Remove,
            false => CompactionDecision::Keep,
        });
    }
    options
}

/// Returns the options of a database that shares nothing with other databases.
fn own_options(settings: &Settings) -> Options {
    options(&block_options(&Cache::new_lru_cache(settings.cache_bytes), true), settings)
}

/// Returns the options of writes that are synced.
fn synced() -> WriteOptions {
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    synced
}

/// Passes the value to `found` if there is one. Returns whether there is a value.
fn show(
    value: Result<Option<DBPinnableSlice<'_>>, Error>,
    found: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    let value = value?;
    if let Some(value) = &value {
        found(value);
    }
    Ok(value.is_some())
}

impl RocksDb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<RocksDb> {
        let options = own_options(settings);
        let db = DB::open(&options, dir)?;
        Ok(RocksDb { db, options, settings: *settings, synced: synced() })
    }

    /// Opens the database as [`open`](RocksDb::open) does, but with statistics and optionally
    /// without filters. The sizes of tables and of the first level have RocksDB's default ratios to
    /// the size of the write buffer.
    pub fn open_counted(dir: &Path, settings: &Settings, filters: bool) -> Result<RocksDb> {
        let blocks = block_options(&Cache::new_lru_cache(settings.cache_bytes), filters);
        let mut options = options(&blocks, settings);
        let write_buffer_bytes = settings.write_buffer_bytes as u64;
        options.set_target_file_size_base(write_buffer_bytes);
        options.set_max_bytes_for_level_base(4 * write_buffer_bytes);
        options.enable_statistics();
        let db = DB::open(&options, dir)?;
        Ok(RocksDb { db, options, settings: *settings, synced: synced() })
    }

    /// Returns a counter. The database must have been opened with statistics.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.options.get_ticker_count(ticker)
    }

    /// Returns the tables of the database.
    pub fn tables(&self) -> Result<Vec<LiveFile>> {
        Ok(self.db.live_files()?)
    }
}

impl RocksTransactions {
    pub fn open(dir: &Path, settings: &Settings) -> Result<RocksTransactions> {
        let db = OptimisticTransactionDB::open(&own_options(settings), dir)?;
        Ok(RocksTransactions { db, synced: synced() })
    }
}

/// The methods of [`Store`] that `RocksDb` and `RocksTransactions` implement in the same way. A
/// macro is needed, because the trait that their database types share cannot be named outside of
/// the `rocksdb` crate.
macro_rules! common_methods {
    () => {
        fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
            Ok(match sync {
                true => self.db.put_opt(key, value, &self.synced)?,
                false => self.db.put(key, value)?,
            })
        }

        fn delete(&self, key: &[u8]) -> Result<()> {
            Ok(self.db.delete(key)?)
        }

        fn sync(&self) -> Result<()> {
            Ok(self.db.flush_wal(true)?)
        }

        fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
            show(self.db.get_pinned(key), found)
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
    };
}

impl Store for RocksDb {
    common_methods!();

    fn has(&self, group: Group) -> bool {
        group != Group::Transactions
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write(batch)?)
    }

    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        // The tables are written to a directory beside the database's directory.
        let tables = self.db.path().with_extension("tables");
        std::fs::create_dir_all(&tables)?;
        let mut writer = SstFileWriter::create(&self.options);
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut is_full = true;
        entries(&mut |key, value| {
            if is_full {
                if !paths.is_empty() {
                    writer.finish()?;
                }
                paths.push(tables.join(format!("{}.sst", paths.len())));
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
        Ok(std::fs::remove_dir_all(&tables)?)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        Ok(self.db.write(batch)?)
    }

    fn keyspaces(&mut self, count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        let mut options = self.options.clone();
        options.set_write_buffer_size(self.settings.write_buffer_bytes / count);
        let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        for name in &names {
            self.db.create_cf(name, &options)?;
        }
        let space = |name: &String| -> Result<Box<dyn Space + '_>> {
            let family = self.db.cf_handle(name).ok_or("a column family is missing")?;
            Ok(Box::new(Family { db: &self.db, family }))
        };
        names.iter().map(space).collect()
    }

    fn open_shared(&self, dirs: &[PathBuf], settings: &Settings) -> Result<Vec<Box<dyn Space>>> {
        let cache = Cache::new_lru_cache(settings.cache_bytes);
        let mut blocks = block_options(&cache, true);
        blocks.set_cache_index_and_filter_blocks(true);
        let mut options = options(&blocks, settings);
        // The size of the cache is the memory budget. Memtables are charged to the cache and take
        // at most a quarter of it.
        let memtables = settings.cache_bytes / 4;
        let manager =
            WriteBufferManager::new_write_buffer_manager_with_cache(memtables, false, cache);
        options.set_write_buffer_manager(&manager);
        let mut env = Env::new()?;
        env.set_high_priority_background_threads(SHARED_THREADS.0);
        env.set_low_priority_background_threads(SHARED_THREADS.1);
        options.set_env(&env);
        let open = |dir| Ok(Box::new(Sharing(DB::open(&options, dir)?)) as Box<dyn Space>);
        dirs.iter().map(open).collect()
    }

    fn backup(&self, folder: &Path) -> Result<()> {
        let mut engine = BackupEngine::open(&BackupEngineOptions::new(folder)?, &Env::new()?)?;
        Ok(engine.create_new_backup(&self.db)?)
    }

    fn restore(&self, folder: &Path, dir: &Path) -> Result<()> {
        let mut engine = BackupEngine::open(&BackupEngineOptions::new(folder)?, &Env::new()?)?;
        Ok(engine.restore_from_latest_backup(dir, dir, &RestoreOptions::default())?)
    }

    fn follow(&self) -> Result<Box<dyn Follower>> {
        // RocksDB writes a log of its own messages into this directory.
        let own_dir = self.db.path().join("secondary");
        let db = DB::open_as_secondary(&self.options, self.db.path(), &own_dir)?;
        Ok(Box::new(Secondary(db)))
    }

    fn describe(&self) -> String {
        "RocksDB of the rocksdb crate: whole-table bloom 10 bits, blocks 4 KiB, LRU cache, snappy, \
         checksums verified; CRC-32C in hardware"
            .to_string()
    }
}

/// A column family.
struct Family<'a> {
    db: &'a DB,
    family: &'a ColumnFamily,
}

impl Space for Family<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_cf(self.family, key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self.db.get_pinned_cf(self.family, key), found)
    }
}

/// One of several databases that share resources.
struct Sharing(DB);

impl Space for Sharing {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self.0.get_pinned(key), found)
    }
}

/// A secondary instance of RocksDB, which follows the database.
struct Secondary(DB);

impl Follower for Secondary {
    fn catch_up(&self) -> Result<()> {
        Ok(self.0.try_catch_up_with_primary()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self.0.get_pinned(key), found)
    }
}

impl Store for RocksTransactions {
    common_methods!();

    fn has(&self, group: Group) -> bool {
        group == Group::Transactions
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write(batch)?)
    }

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        let mut transaction = RocksDbTransaction(self.db.transaction());
        body(&mut transaction)?;
        match transaction.0.commit() {
            Ok(()) => Ok(Ended::Committed),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(Ended::Conflict)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn describe(&self) -> String {
        "RocksDB's OptimisticTransactionDB".to_string()
    }
}

/// A transaction.
struct RocksDbTransaction<'a>(Transaction<'a, OptimisticTransactionDB>);

impl Transact for RocksDbTransaction<'_> {
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
