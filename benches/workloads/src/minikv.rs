//! minikv as a [`Store`].

use std::path::Path;

use ::minikv::{Db, Options, WriteBatch, WriteOptions};

use crate::store::{Direction, Entry, Result, Store};

/// An open minikv database.
pub struct Minikv {
    db: Db,
    describe: String,
}

impl Minikv {
    /// Opens or creates the database in `dir`. [`Store::describe`] returns `describe`.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(dir: &Path, options: Options, describe: String) -> Result<Minikv> {
        let db = Db::open(dir, options.create_if_missing(true))?;
        Ok(Minikv { db, describe })
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
