//! minikv as a [`Store`].

use std::path::{Path, PathBuf};

use ::minikv::{Db, Error, Options, TableWriter, Transaction, WriteBatch, WriteOptions};

use crate::store::{Direction, Ended, Entry, Result, Source, Store, Transact};

/// An open minikv database.
pub struct Minikv {
    db: Db,
    /// Where sorted tables are written before they are ingested.
    tables: PathBuf,
    options: Options,
    describe: String,
}

impl Minikv {
    /// Opens or creates the database in `dir`. [`Store::describe`] returns `describe`.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(dir: &Path, options: Options, describe: String) -> Result<Minikv> {
        let db = Db::open(dir, options.clone().create_if_missing(true))?;
        Ok(Minikv { db, tables: dir.with_extension("tables"), options, describe })
    }
}

impl Store for Minikv {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Ok(self.db.put_with(&WriteOptions::default().sync(sync), key, value)?)
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write(batch)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get(key)?;
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
        let mut cursor = self.db.cursor()?;
        let mut at_entry = match (direction, from) {
            (Direction::Forward, None) => cursor.seek_to_first()?,
            (Direction::Forward, Some(from)) => cursor.seek(from)?,
            (Direction::Backward, None) => cursor.seek_to_last()?,
            (Direction::Backward, Some(from)) => cursor.seek_for_prev(from)?,
        };
        while at_entry && visit(cursor.key(), cursor.value()) {
            at_entry = match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            };
        }
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.db.delete_range(from..to)?;
        Ok(())
    }

    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        let mut writer = TableWriter::create(&self.tables, &self.options)?;
        entries(&mut |key, value| Ok(writer.put(key, value)?))?;
        self.db.ingest(&writer.finish()?)?;
        Ok(std::fs::remove_dir_all(&self.tables)?)
    }

    fn transact(&self, body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        let mut transaction = self.db.transaction();
        body(&mut transaction)?;
        match transaction.commit() {
            Ok(()) => Ok(Ended::Committed),
            Err(Error::Conflict { .. }) => Ok(Ended::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    fn compact(&mut self) -> Result<()> {
        self.compact_beside().map(drop)
    }

    fn compact_beside(&self) -> Result<bool> {
        self.db.compact_range::<&[u8]>(..)?;
        Ok(true)
    }

    fn wait_idle(&self) -> Result<bool> {
        self.db.wait_idle()?;
        Ok(true)
    }

    fn describe(&self) -> String {
        self.describe.clone()
    }
}

impl Transact for Transaction {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = Transaction::get(self, key)? {
            found(&value);
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Transaction::put(self, key, value);
        Ok(())
    }
}
