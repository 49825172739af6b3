//! fjall as a [`Store`].

use std::path::Path;
use std::time::Duration;

use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    Database, Guard, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticWriteTx,
    PersistMode, Readable,
};
use minikv_workloads::{Direction, Ended, Entry, Result, Settings, Source, Store, Transact};

pub struct Fjall {
    keys: Keyspace,
    db: Database,
    transactions: Option<OptimisticTxDatabase>,
}

impl Fjall {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Fjall> {
        let cache_bytes = settings.cache_bytes as u64;
        let transactions = match settings.transactions {
            true => Some(OptimisticTxDatabase::builder(dir).cache_size(cache_bytes).open()?),
            false => None,
        };
        let db = match &transactions {
            Some(transactions) => transactions.inner().clone(),
            None => Database::builder(dir).cache_size(cache_bytes).open()?,
        };
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
        let keys = db.keyspace("default", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.write_buffer_bytes as u64)
                .data_block_size_policy(BlockSizePolicy::all(4 << 10))
                .filter_policy(FilterPolicy::all(bloom))
        })?;
        Ok(Fjall { keys, db, transactions })
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

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.keys.insert(key, value)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
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
        let Some(transactions) = &self.transactions else { return Ok(Ended::Unsupported) };
        let mut running = Running { transaction: transactions.write_tx()?, keys: &self.keys };
        body(&mut running)?;
        Ok(match running.transaction.commit()? {
            Ok(()) => Ended::Committed,
            Err(_) => Ended::Conflict,
        })
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keys.get(key)?;
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

/// A transaction.
struct Running<'a> {
    transaction: OptimisticWriteTx,
    keys: &'a Keyspace,
}

impl Transact for Running<'_> {
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
