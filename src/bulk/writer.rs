//! Writes sorted entries into tables outside of a database.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::process::ProcessId;
use crate::base::{Error, Result};
use crate::bulk::sorted::SortedTable;
use crate::engine::checkpoint::check_empty;
use crate::engine::ingest::{INGEST_LEVEL, Incoming, fresh_seq};
use crate::engine::open::directory::create_dir;
use crate::engine::options::Options;
use crate::engine::table_writer::{TableRun, Target};
use crate::format::compress::Compression;
use crate::format::key::{InternalComparator, KeyKind, SeqNo, pack_trailer, user_key};
use crate::format::name;
use crate::fs::{absolute, sync_dir};

/// Writes entries, given in ascending order of their keys, into tables in a separate directory.
/// [`Db::ingest`](crate::Db::ingest) adds these tables to a database, usually without rewriting
/// them.
///
/// The tables are written with the options of the database: its comparator, compression, block and
/// table sizes, and filters. If they name no compression, the tables get snappy, and an ingest
/// rewrites them if the database's tables have another one: for such a database, give
/// [`Db::compression`](crate::Db::compression) to the options. A writer that is dropped before
/// [`finish`](TableWriter::finish) removes all files that it wrote.
///
/// ```
/// use minikv::bulk::TableWriter;
/// use minikv::{Db, Options};
///
/// # let home = tempfile::tempdir()?;
/// # let (path, tables) = (home.path().join("db"), home.path().join("tables"));
/// let options = Options::default().create_if_missing(true);
/// let mut writer = TableWriter::create(&tables, &options)?;
/// for i in 0..1000u32 {
///     writer.put(i.to_be_bytes(), i.to_string())?;
/// }
/// let written = writer.finish()?;
///
/// let db = Db::open(&path, options)?;
/// db.ingest(&written)?;
/// assert_eq!(db.get(7u32.to_be_bytes())?.as_deref(), Some(&b"7"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TableWriter {
    options: Options,
    order: InternalComparator,
    dir: PathBuf,
    /// Whether the directory existed before the writer was created.
    was_there: bool,
    /// Sequence number of all entries.
    seq: SeqNo,
    run: TableRun,
    /// Number of files created. The files are numbered from 1.
    files: u64,
    /// The internal key of the last entry added; empty if there is none.
    last_key: Vec<u8>,
    /// Whether the tables are kept when the writer is dropped.
    is_finished: bool,
    /// The process that the tables belong to.
    process: ProcessId,
}

impl TableWriter {
    /// Creates the directory `dir`, which must be empty or missing, for the tables.
    ///
    /// Ingesting the tables is fastest if `dir` is on the filesystem of the database.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::DatabaseExists`] if `dir` is not empty;
    /// [`Error::InvalidArgument`] if an option has an invalid value; I/O errors.
    pub fn create(dir: impl AsRef<Path>, options: &Options) -> Result<TableWriter> {
        let options = options.clone().checked()?;
        let fs = &*options.fs;
        let dir = absolute(fs, dir.as_ref())?;
        check_empty(fs, &dir)?;
        let was_there = fs.exists(&dir).map_err(|error| Error::io("look for", &dir, error))?;
        create_dir(fs, &dir)?;
        Ok(TableWriter {
            order: InternalComparator::new(options.comparator.clone()),
            run: TableRun::without_sums(INGEST_LEVEL, options.max_file_bytes),
            options,
            dir,
            was_there,
            seq: fresh_seq(),
            files: 0,
            last_key: Vec::new(),
            is_finished: false,
            process: ProcessId::current(),
        })
    }

    /// Adds an entry. Its key must be after the key of the previous entry.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key is not after the previous key; the tables are then
    /// unchanged. I/O errors, after which the writer can only be dropped.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let is_first = self.last_key.is_empty();
        if !is_first && self.order.user().compare(user_key(&self.last_key), key).is_ge() {
            return Err(Error::invalid(format!(
                "the key {} is not after the key before it, {}",
                key.escape_ascii(),
                user_key(&self.last_key).escape_ascii()
            )));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let trailer = pack_trailer(self.seq, KeyKind::Value);
        self.last_key.extend_from_slice(&trailer.to_le_bytes());
        let (fs, dir) = (&*self.options.fs, &*self.dir);
        let target = Target::new(fs, dir, &self.options, &self.order);
        let files = &mut self.files;
        let number = || {
            *files += 1;
            *files
        };
        self.run.add(&target, number, &self.last_key, value.as_ref())
    }

    /// Completes the tables and makes them durable. Returns the tables in key order; the list is
    /// empty if no entry was added.
    ///
    /// # Errors
    /// I/O errors, after which the tables are removed.
    pub fn finish(mut self) -> Result<Vec<SortedTable>> {
        self.run.end()?;
        sync_dir(&*self.options.fs, &self.dir)?;
        self.is_finished = true;
        let method = match self.options.compression {
            Some(_) => None,
            None => Some(Compression::default().method()),
        };
        let done = std::mem::take(&mut self.run.done);
        let tables = done.into_iter().map(|(file, counts)| SortedTable {
            table: Incoming {
                path: self.dir.join(name::table_name(file.number)),
                comparator: self.options.comparator.name().to_owned(),
                file_bytes: file.file_bytes,
                smallest: file.smallest,
                largest: file.largest,
                oldest: self.seq,
                counts,
                method,
                is_synced: true,
            },
        });
        Ok(tables.collect())
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if self.is_finished || !self.process.is_current() {
            return;
        }
        let fs = &self.options.fs;
        for number in 1..=self.files {
            let _ = fs.remove(&self.dir.join(name::table_name(number)));
        }
        if !self.was_there {
            let _ = fs.remove_dir(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Fs, MemFs};

    #[test]
    fn a_writer_that_is_dropped_removes_its_files_but_not_in_a_forked_child() {
        let fs = MemFs::new();
        let options = Options::default().fs(fs.clone());
        let (home, dir) = (Path::new("/home"), Path::new("/home/tables"));
        fs.create_dir(home).unwrap();
        let writer = || {
            let mut writer = TableWriter::create(dir, &options).unwrap();
            writer.put("key", "value").unwrap();
            writer
        };
        drop(writer());
        assert!(!fs.exists(dir).unwrap());
        let mut inherited = writer();
        inherited.process = ProcessId::other();
        drop(inherited);
        assert_eq!(fs.list(dir).unwrap(), [name::table_name(1)]);
    }
}
