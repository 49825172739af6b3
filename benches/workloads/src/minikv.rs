//! minikv as a [`Store`].

use minikv::Readable;
use std::path::{Path, PathBuf};

use ::minikv::backup::Backups;
use ::minikv::bulk::TableWriter;
use ::minikv::{
    CompactionDecision, Db, Error, Keyspace, Options, ReadOnlyDb, Resources, Transaction,
    WriteBatch, WriteOptions,
};

use crate::data::is_removed;
use crate::store::{
    Direction, Ended, Entry, Follower, Result, Settings, Source, Space, Store, Transact,
};
use crate::workload::Group;

/// Number of compaction threads for all databases that share resources.
const SHARED_COMPACTION_THREADS: usize = 2;

/// An open minikv database.
pub struct Minikv {
    db: Db,
    /// The directory in which sorted tables are written before they are ingested.
    tables: PathBuf,
    options: Options,
    describe: String,
}

impl Minikv {
    /// Opens or creates the database in `dir` with `options`, whose sizes must equal those in
    /// `settings`. [`Store::describe`] returns `describe`.
    ///
    /// # Errors
    /// See [`Db::open`].
    pub fn open(
        dir: &Path,
        options: Options,
        settings: &Settings,
        describe: String,
    ) -> Result<Minikv> {
        let mut options = options.create_if_missing(true);
        if settings.filtered {
            options = options.compaction_filter(|key, _| match is_removed(key) {
                true => CompactionDecision::Remove,
                false => CompactionDecision::Keep,
            });
        }
        let db = Db::open(dir, options.clone())?;
        Ok(Minikv { db, tables: dir.with_extension("tables"), options, describe })
    }

    /// Returns the database.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

fn get(
    value: ::minikv::Result<Option<impl AsRef<[u8]>>>,
    found: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    let value = value?;
    if let Some(value) = &value {
        found(value.as_ref());
    }
    Ok(value.is_some())
}

impl Store for Minikv {
    fn has(&self, _: Group) -> bool {
        true
    }

    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Ok(self.db.writing(WriteOptions::default().sync(sync)).put(key, value)?)
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
        get(self.db.get(key), found)
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

    fn sync(&self) -> Result<()> {
        Ok(self.db.sync()?)
    }

    fn keyspaces(&mut self, count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        let open = |n| Ok(Box::new(self.db.keyspace(format!("{n}"))?) as Box<dyn Space>);
        (0..count).map(open).collect()
    }

    fn open_shared(&self, dirs: &[PathBuf], settings: &Settings) -> Result<Vec<Box<dyn Space>>> {
        let shared = Resources::default()
            .memory_bytes(settings.cache_bytes)
            .compaction_threads(SHARED_COMPACTION_THREADS);
        let options = self.options.clone().resources(&shared);
        let open = |dir| Ok(Box::new(Db::open(dir, options.clone())?) as Box<dyn Space>);
        dirs.iter().map(open).collect()
    }

    fn backup(&self, folder: &Path) -> Result<()> {
        self.db.backup(folder)?;
        Ok(())
    }

    fn restore(&self, folder: &Path, dir: &Path) -> Result<()> {
        Backups::open(folder, &self.options)?.restore(None, dir, |_| {})?;
        Ok(())
    }

    fn follow(&self) -> Result<Box<dyn Follower>> {
        Ok(Box::new(Db::open_read_only(self.db.path(), self.options.clone())?))
    }

    fn compact(&mut self) -> Result<()> {
        self.compact_beside().map(drop)
    }

    fn compact_beside(&self) -> Result<bool> {
        self.db.compact_range(..)?;
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

impl Space for Db {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(Db::put(self, key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(Db::get(self, key), found)
    }
}

impl Space for Keyspace {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(Keyspace::put(self, key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(Readable::get(self, key), found)
    }
}

impl Follower for ReadOnlyDb {
    fn catch_up(&self) -> Result<()> {
        self.refresh()?;
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(Readable::get(self, key), found)
    }
}

impl Transact for Transaction {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = Readable::get(self, key)? {
            found(&value);
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Transaction::put(self, key, value);
        Ok(())
    }
}
