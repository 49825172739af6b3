//! The tables of an open database.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Comparator, Result};
use crate::engine::read::get;
use crate::engine::read::point::OwnedPoint;
use crate::engine::report::event::TableInfo;
use crate::engine::stats::trace::ReadTrace;
use crate::engine::version::TableFile;
use crate::files::table::TableReader;
use crate::filter::PrefixExtractor;
use crate::readable::Readable;

/// The tables of an open database at one moment. While this value exists, the files stay, whatever
/// the database does. Its reads do not count in the database's statistics and leave the block cache
/// as it is.
///
/// ```
/// use minikv::files::LiveTables;
/// # use minikv::{Db, Options};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let tables = LiveTables::of(&db);
/// for table in tables.iter() {
///     let (info, reader) = (table.info(), table.open()?);
///     println!("L{} {:06}: {} blocks", info.level, info.number, reader.blocks()?.len());
/// }
/// # assert_eq!(tables.iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LiveTables {
    point: OwnedPoint,
}

/// A table of an open database, from [`LiveTables::iter`].
#[derive(Debug)]
pub struct LiveTable<'a> {
    level: usize,
    file: &'a Arc<TableFile>,
    point: &'a OwnedPoint,
}

impl LiveTables {
    /// Returns the tables that `db` shows now: those of a snapshot or a transaction, if `db` is
    /// one.
    pub fn of(db: &impl Readable) -> LiveTables {
        LiveTables { point: db.reader().point().into_owned().uncached() }
    }

    /// Returns the tables in the order in which a get searches them: level by level, those of level
    /// 0 from the newest to the oldest, the others in key order.
    pub fn iter(&self) -> impl Iterator<Item = LiveTable<'_>> {
        let point = &self.point;
        point.view.version.files().map(move |(level, file)| LiveTable { level, file, point })
    }

    /// Returns the order of the keys.
    pub fn comparator(&self) -> Arc<dyn Comparator> {
        self.point.state().order.user().shared()
    }

    /// Returns the extractor of [`Options::filter_prefix`](crate::Options::filter_prefix), if there
    /// is one.
    pub fn prefix_extractor(&self) -> Option<Arc<dyn PrefixExtractor>> {
        self.point.state().tables.context().prefix_extractor.clone()
    }

    /// Returns the value of `key` at this moment, and the work of the read. `key` is a key as the
    /// tables store it: with the prefix of its keyspace, if it is in one.
    ///
    /// # Errors
    /// Corruption and I/O errors.
    pub fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, ReadTrace)> {
        let mut trace = ReadTrace::default();
        let value = get::get(&self.point.as_point(), key.as_ref(), &mut trace)?;
        Ok((value, trace))
    }
}

impl LiveTable<'_> {
    /// Returns the description of the table.
    pub fn info(&self) -> TableInfo {
        TableInfo::of(self.level, self.file)
    }

    /// Opens the table for reading, or shares it with the database if the database has it open.
    ///
    /// # Errors
    /// Corruption, if the footer or the index is damaged; an I/O error.
    pub fn open(&self) -> Result<TableReader> {
        let tables = &self.point.state().tables;
        tables.with(&self.file.slot, |table| Ok(TableReader::of(table.clone())))
    }
}
