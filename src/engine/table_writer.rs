//! Writing one table of a database: its file, its entries, and its entry in the MANIFEST. Flushes,
//! compactions and repair all write their tables here.

use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::engine::options::Options;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::edit::NewFile;
use crate::format::expiry::NEVER;
use crate::format::key::{InternalComparator, ParsedKey};
use crate::format::keyspace::expiry_of;
use crate::format::name;
use crate::fs::Fs;
use crate::table::builder::TableBuilder;

/// The destination of new tables, and the options with which they are written.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The filesystem of the directory.
    pub fs: &'a dyn Fs,
    /// The database's directory.
    pub dir: &'a Path,
    /// The database's options.
    pub options: &'a Options,
    /// The order of internal keys.
    pub order: &'a InternalComparator,
    /// The name of the file of a table with this number.
    pub name: fn(u64) -> String,
}

impl<'a> Target<'a> {
    /// Returns the destination of tables under their own names in the directory `dir`.
    pub(crate) fn new(
        fs: &'a dyn Fs,
        dir: &'a Path,
        options: &'a Options,
        order: &'a InternalComparator,
    ) -> Target<'a> {
        Target { fs, dir, options, order, name: name::table_name }
    }

    /// Returns the path of the table `number`.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.dir.join((self.name)(number))
    }
}

/// A table that is being written.
///
/// Call order: `create`, `add` in ascending order of internal keys at least once, then `finish`.
/// The caller must sync the directory after `finish`, and remove the file after an error, because
/// both cost less for several tables at once.
pub(crate) struct TableOutput {
    builder: TableBuilder,
    file: NewFile,
    counts: EntryCounts,
    /// Whether the keys may belong to expiring keyspaces, which exist only in byte order.
    has_keyspaces: bool,
}

impl TableOutput {
    /// Creates the file of the table `number`, which will belong to `level`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn create(target: &Target<'_>, level: usize, number: u64) -> Result<TableOutput> {
        let path = target.path(number);
        let file = target.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let options = target.options.table_options(target.order, level);
        let verifies = target.options.verify_compression;
        let builder = TableBuilder::new(file, path, options).verify_compression(verifies);
        let (smallest, largest) = (Vec::new(), Vec::new());
        let file = NewFile { level, number, file_bytes: 0, smallest, largest };
        let has_keyspaces = target.order.user().custom().is_none();
        Ok(TableOutput { builder, file, counts: EntryCounts::default(), has_keyspaces })
    }

    /// Writes a table that nobody compares with what went in.
    fn without_sum(self) -> TableOutput {
        TableOutput { builder: self.builder.without_sum(), ..self }
    }

    /// Adds an entry. `entry` is the parsed form of `key`.
    ///
    /// # Errors
    /// Errors of [`TableBuilder::add`].
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], entry: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        self.builder.add(key, value)?;
        if self.counts.entries == 0 {
            self.file.smallest.extend_from_slice(key);
        }
        let expiry = if self.has_keyspaces { expiry_of(entry.user_key, value) } else { NEVER };
        self.counts.add(entry, expiry);
        Ok(())
    }

    /// Returns the internal key of the last entry added; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.builder.last_key()
    }

    /// Returns the size of the data blocks written so far, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.builder.file_bytes()
    }

    /// Writes the remaining parts and syncs the file. Returns the table and the counts of its
    /// entries.
    ///
    /// # Errors
    /// I/O errors, after which the file is not a valid table.
    pub(crate) fn finish(mut self) -> Result<(NewFile, EntryCounts)> {
        debug_assert!(self.counts.entries > 0, "table {} is empty", self.file.number);
        self.file.largest = self.builder.last_key().to_vec();
        self.builder.set_expiry(self.counts.expiry());
        self.counts.sum = self.builder.sum();
        self.file.file_bytes = self.builder.finish()?.file_bytes;
        Ok((self.file, self.counts))
    }
}

/// Tables written one after another, each of about `max_bytes` bytes. Call order: `add` in
/// ascending order of internal keys, then `end`. The caller must sync the directory, and remove the
/// files after an error.
pub(crate) struct TableRun {
    level: usize,
    max_bytes: u64,
    /// Whether the tables are compared with what went in.
    is_summed: bool,
    open: Option<TableOutput>,
    /// The finished tables, with the counts of their entries.
    pub done: Vec<(NewFile, EntryCounts)>,
}

impl TableRun {
    /// Creates an empty run of tables of `level`.
    pub(crate) fn new(level: usize, max_bytes: u64) -> TableRun {
        TableRun { level, max_bytes, is_summed: true, open: None, done: Vec::new() }
    }

    /// Creates an empty run of tables that nobody compares with what went in.
    pub(crate) fn without_sums(level: usize, max_bytes: u64) -> TableRun {
        TableRun { is_summed: false, ..TableRun::new(level, max_bytes) }
    }

    /// Adds an entry. Any entry may begin a new table, which gets the number returned by `number`.
    /// Therefore, callers that set a size limit must add at most one version of each user key.
    ///
    /// # Errors
    /// I/O errors; corruption if `key` is not an internal key.
    pub(crate) fn add(
        &mut self,
        target: &Target<'_>,
        number: impl FnOnce() -> u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if self.open_bytes() >= self.max_bytes {
            self.end()?;
        }
        self.push(target, number, key, &ParsedKey::parse(key)?, value)
    }

    /// Adds an entry to the open table, whatever its size, or to a new table if none is open.
    /// `entry` is the parsed form of `key`.
    ///
    /// # Errors
    /// I/O errors.
    #[inline]
    pub(crate) fn push(
        &mut self,
        target: &Target<'_>,
        number: impl FnOnce() -> u64,
        key: &[u8],
        entry: &ParsedKey<'_>,
        value: &[u8],
    ) -> Result<()> {
        let table = match &mut self.open {
            Some(table) => table,
            None => {
                let table = TableOutput::create(target, self.level, number())?;
                self.open.insert(if self.is_summed { table } else { table.without_sum() })
            }
        };
        let last_key = match (table.last_key(), self.done.last()) {
            ([], Some((done, _))) => &done.largest,
            (last_key, _) => last_key,
        };
        debug_assert!(
            last_key.is_empty() || target.order.compare(last_key, key).is_lt(),
            "the keys of a new table do not ascend"
        );
        table.add(key, entry, value)
    }

    /// Returns the internal key of the last entry of the open table.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.open.as_ref().map(TableOutput::last_key)
    }

    /// Returns the size of the open table so far, in bytes.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, TableOutput::file_bytes)
    }

    /// Finishes the open table, if there is one, and syncs its file.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(table) = self.open.take() else { return Ok(()) };
        self.done.push(table.finish()?);
        Ok(())
    }
}
