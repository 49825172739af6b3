//! fjall as a [`Store`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};
use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    Database, Guard, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticWriteTx,
    PersistMode, Readable,
};
use minikv_workloads::{
    Direction, Ended, Entry, Group, Result, Settings, Source, Space, Store, Transact, is_removed,
};

pub struct Fjall {
    keys: Keyspace,
    db: Database,
    transactions: Option<OptimisticTxDatabase>,
    settings: Settings,
}

/// The compaction filter, which has no state.
struct Half;

impl Factory for Half {
    fn name(&self) -> &str {
        "half"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Half)
    }
}

impl CompactionFilter for Half {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        Ok(match is_removed(item.key()) {
            true => Verdict::Remove,
            false => Verdict::Keep,
        })
    }
}

/// Returns fjall's default options, changed as this benchmark requires.
fn keyspace_options(write_buffer_bytes: usize) -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(write_buffer_bytes as u64)
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .filter_policy(FilterPolicy::all(bloom))
}

impl Fjall {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Fjall> {
        Fjall::open_keyspace(dir, settings, keyspace_options(settings.write_buffer_bytes))
    }

    /// Opens the database as [`open`](Fjall::open) does, but optionally without filters. The size
    /// of tables has fjall's default ratio to the size of the write buffer, and the first level
    /// holds four tables.
    pub fn open_scaled(dir: &Path, settings: &Settings, filters: bool) -> Result<Fjall> {
        let write_buffer_bytes = settings.write_buffer_bytes;
        let strategy = Leveled::default().with_table_target_size(write_buffer_bytes as u64);
        let mut options =
            keyspace_options(write_buffer_bytes).compaction_strategy(Arc::new(strategy));
        if !filters {
            options = options.filter_policy(FilterPolicy::disabled());
        }
        Fjall::open_keyspace(dir, settings, options)
    }

    /// Returns the keyspace that the [`Store`] reads and writes.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keys
    }

    fn open_keyspace(
        dir: &Path,
        settings: &Settings,
        options: KeyspaceCreateOptions,
    ) -> Result<Fjall> {
        let cache_bytes = settings.cache_bytes as u64;
        let transactions = match settings.transactions {
            true => Some(OptimisticTxDatabase::builder(dir).cache_size(cache_bytes).open()?),
            false => None,
        };
        let db = match &transactions {
            Some(transactions) => transactions.inner().clone(),
            None => {
                let builder = Database::builder(dir).cache_size(cache_bytes);
                let is_filtered = settings.filtered;
                let filters =
                    move |_: &str| is_filtered.then(|| Arc::new(Half) as Arc<dyn Factory>);
                builder.with_compaction_filter_factories(Arc::new(filters)).open()?
            }
        };
        let keys = db.keyspace("default", || options)?;
        Ok(Fjall { keys, db, transactions, settings: *settings })
    }
}

fn visit_all(
    guards: impl Iterator<Item = Guard>,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    for guard in guards {
        let (key, value) = guard.into_inner()?;
        if !visit(&key, &value) {
            break;
        }
    }
    Ok(())
}

fn get(keys: &Keyspace, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
    let value = keys.get(key)?;
    if let Some(value) = &value {
        found(value);
    }
    Ok(value.is_some())
}

impl Store for Fjall {
    fn has(&self, group: Group) -> bool {
        matches!(group, Group::Transactions | Group::Keyspaces | Group::Filtered)
    }

    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.keys.insert(key, value)?;
        if sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn keyspaces(&mut self, count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        let write_buffer_bytes = self.settings.write_buffer_bytes / count;
        let open = |n: usize| -> Result<Box<dyn Space + '_>> {
            let options = || keyspace_options(write_buffer_bytes);
            Ok(Box::new(NamedKeyspace(self.db.keyspace(&n.to_string(), options)?)))
        };
        (0..count).map(open).collect()
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in entries {
            batch.insert(&self.keys, *key, *value);
        }
        Ok(batch.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keys.remove(key)?)
    }

    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        let mut ingestion = self.keys.start_ingestion()?;
        entries(&mut |key, value| Ok(ingestion.write(key, value)?))?;
        Ok(ingestion.finish()?)
    }

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        let transactions = self.transactions.as_ref().ok_or("not opened for transactions")?;
        let mut running =
            FjallTransaction { transaction: transactions.write_tx()?, keys: &self.keys };
        body(&mut running)?;
        Ok(match running.transaction.commit()? {
            Ok(()) => Ended::Committed,
            Err(_) => Ended::Conflict,
        })
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.keys, key, found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        match (direction, from) {
            (Direction::Forward, None) => visit_all(self.keys.iter(), visit),
            (Direction::Forward, Some(from)) => visit_all(self.keys.range(from..), visit),
            (Direction::Backward, None) => visit_all(self.keys.iter().rev(), visit),
            (Direction::Backward, Some(from)) => visit_all(self.keys.range(..=from).rev(), visit),
        }
    }

    fn compact(&mut self) -> Result<()> {
        self.compact_beside().map(drop)
    }

    fn compact_beside(&self) -> Result<bool> {
        self.keys.rotate_memtable_and_wait()?;
        self.keys.major_compact()?;
        Ok(true)
    }

    fn wait_idle(&self) -> Result<bool> {
        while self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(false)
    }

    fn describe(&self) -> String {
        "fjall: whole-table bloom 10 bits, blocks 4 KiB, lz4 from level 2 on (its default; it has \
         no snappy), checksums verified (xxh3)"
            .to_string()
    }
}

/// A keyspace that a workload creates, in addition to the keyspace of the [`Store`].
struct NamedKeyspace(Keyspace);

impl Space for NamedKeyspace {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.insert(key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.0, key, found)
    }
}

/// A transaction.
struct FjallTransaction<'a> {
    transaction: OptimisticWriteTx,
    keys: &'a Keyspace,
}

impl Transact for FjallTransaction<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.transaction.get(self.keys, key)? {
            found(&value);
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.insert(self.keys, key, value);
        Ok(())
    }
}
