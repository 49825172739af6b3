//! redb as a [`Store`]: a B-tree, whose writes are transactions.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use minikv_workloads::{
    Direction, Ended, Entry, Group, Result, Settings, Source, Space, Store, Transact,
};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

const TABLE: Definition<'_> = Definition::new("default");

/// Number of writes from one durable commit to the next. Without durable commits, redb frees no
/// pages.
const DURABLE_EVERY: u64 = 1000;

pub struct Redb {
    db: Database,
    commits: AtomicU64,
}

impl Redb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Redb> {
        std::fs::create_dir_all(dir)?;
        let db =
            Database::builder().set_cache_size(settings.cache_bytes).create(dir.join("redb"))?;
        let redb = Redb { db, commits: AtomicU64::new(0) };
        // Reads fail if the table does not exist.
        redb.sync()?;
        Ok(redb)
    }

    fn write(
        &self,
        is_durable: bool,
        change: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<()>,
    ) -> Result<()> {
        self.write_in(TABLE, is_durable, change)
    }

    fn write_in(
        &self,
        table: Definition<'_>,
        is_durable: bool,
        change: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        transaction.set_durability(match is_durable || number.is_multiple_of(DURABLE_EVERY) {
            true => Durability::Immediate,
            false => Durability::None,
        })?;
        change(&mut transaction.open_table(table)?)?;
        Ok(transaction.commit()?)
    }

    fn get_in(
        &self,
        table: Definition<'_>,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(table)?;
        let value = table.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }
}

impl Store for Redb {
    fn has(&self, group: Group) -> bool {
        matches!(group, Group::Transactions | Group::Keyspaces)
    }

    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.write(sync, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        self.write(false, |table| {
            for (key, value) in entries {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(false, |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        // A durable commit makes the commits before it durable, too.
        self.write(true, |_| Ok(()))
    }

    fn keyspaces(&mut self, count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        let space =
            |n: usize| Box::new(NamedTable { redb: self, name: n.to_string() }) as Box<dyn Space>;
        Ok((0..count).map(space).collect())
    }

    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        self.write(true, |table| {
            entries(&mut |key, value| {
                table.insert(key, value)?;
                Ok(())
            })
        })
    }

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        self.write(false, |table| body(&mut RedbTransaction(table)))?;
        Ok(Ended::Committed)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_in(TABLE, key, found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut range = match (direction, from) {
            (_, None) => table.iter()?,
            (Direction::Forward, Some(from)) => table.range(from..)?,
            (Direction::Backward, Some(from)) => table.range(..=from)?,
        };
        let mut next = || match direction {
            Direction::Forward => range.next(),
            Direction::Backward => range.next_back(),
        };
        while let Some(entry) = next() {
            let (key, value) = entry?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.write(true, |table| Ok(table.retain_in(from..to, |_, _| false)?))
    }

    fn compact(&mut self) -> Result<()> {
        self.db.compact()?;
        Ok(())
    }

    fn describe(&self) -> String {
        format!(
            "redb: a B-tree, no filter, no compression, no log; a put is a transaction of \
             Durability::None, which a crash undoes, every {DURABLE_EVERY}th durable"
        )
    }
}

/// A table that serves as a keyspace, in addition to the table of the [`Store`].
struct NamedTable<'a> {
    redb: &'a Redb,
    name: String,
}

impl Space for NamedTable<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.redb.write_in(Definition::new(&self.name), false, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.redb.get_in(Definition::new(&self.name), key, found)
    }
}

/// A running transaction. Only one transaction runs at a time.
struct RedbTransaction<'t, 'd>(&'t mut Table<'d, &'static [u8], &'static [u8]>);

impl Transact for RedbTransaction<'_, '_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.0.get(key)? {
            found(value.value());
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value)?;
        Ok(())
    }
}
