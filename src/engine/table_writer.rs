//! Writing one table of a database: its file, its entries, and what its line in the MANIFEST says.
//! Flushes, compactions and repair all write their tables here.

use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::engine::options::Options;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::edit::NewFile;
use crate::format::key::{InternalComparator, ParsedKey};
use crate::format::name;
use crate::fs::Fs;
use crate::table::builder::TableBuilder;

/// Where new tables go, and how they are written.
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
}

impl Target<'_> {
    /// Returns the path of the table `number`.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.dir.join(name::table_name(number))
    }
}

/// A table that is being written.
///
/// Call order: `create`, `add` in ascending order of internal keys at least once, then `finish`.
/// Two things are left to the caller, because they cost less for several tables at a time: syncing
/// the directory after `finish`, and removing the file after an error.
pub(crate) struct TableWriter {
    builder: TableBuilder,
    file: NewFile,
    counts: EntryCounts,
}

impl TableWriter {
    /// Creates the file of the table `number`, which will belong to `level`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn create(target: &Target<'_>, level: usize, number: u64) -> Result<TableWriter> {
        let path = target.path(number);
        let file = target.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let options = target.options.table_options(target.order, level);
        let builder = TableBuilder::new(file, path, options);
        let (smallest, largest) = (Vec::new(), Vec::new());
        let file = NewFile { level, number, file_bytes: 0, smallest, largest };
        Ok(TableWriter { builder, file, counts: EntryCounts::default() })
    }

    /// Adds an entry; `entry` is `key`, parsed.
    ///
    /// # Errors
    /// Those of [`TableBuilder::add`].
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], entry: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        self.builder.add(key, value)?;
        if self.counts.entries == 0 {
            self.file.smallest.extend_from_slice(key);
        }
        self.counts.add(entry);
        Ok(())
    }

    /// Returns the internal key added last; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.builder.last_key()
    }

    /// Returns the size of the data blocks so far, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.builder.file_bytes()
    }

    /// Writes the remaining parts and syncs the file. Returns the table and the counts of its
    /// entries.
    ///
    /// # Errors
    /// I/O errors; the file is then not a table.
    pub(crate) fn finish(mut self) -> Result<(NewFile, EntryCounts)> {
        debug_assert!(self.counts.entries > 0, "table {} is empty", self.file.number);
        self.file.largest = self.builder.last_key().to_vec();
        self.file.file_bytes = self.builder.finish()?.file_bytes;
        Ok((self.file, self.counts))
    }
}
