//! Tables outside of a database, ready to be ingested.

use std::path::Path;
use std::sync::Arc;

use crate::admin::findings::Findings;
use crate::admin::tables::examine;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::ingest::Incoming;
use crate::engine::options::Options;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::compress::Method;
use crate::format::expiry::NEVER;
use crate::format::key::{InternalComparator, KeyKind, ParsedKey, user_key};
use crate::format::keyspace::expiry_of;
use crate::fs::{ReadFile, absolute};
use crate::table::Table;
use crate::table::compression::compression_of;
use crate::table::reader::TableContext;

/// A finished table outside of any database: entries in ascending order, one per key, and no
/// deletions. [`TableWriter::finish`](crate::bulk::TableWriter::finish) returns such tables;
/// [`SortedTable::open`] reads such a table from a file. [`Db::ingest`](crate::Db::ingest) adds the
/// tables to a database.
///
/// This value only describes the file: it neither keeps the file open nor removes it.
#[derive(Clone, Debug)]
pub struct SortedTable {
    pub(crate) table: Incoming,
}

impl SortedTable {
    /// Reads the table in the file `path` completely, and checks that it can be ingested into a
    /// database with these options. Accepts any LevelDB table that has one entry per key and no
    /// deletions.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the table holds deletions, several versions of a key, or no
    /// entries; [`Error::Corruption`] if it is damaged, or not in the order of the options'
    /// comparator; I/O errors.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<SortedTable> {
        let fs = &*options.fs;
        let path = &absolute(fs, path.as_ref())?;
        let file = fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let order = InternalComparator::new(options.comparator.clone());
        let context = options.table_context(&order, None);
        let mut tell = |_| {};
        let mut findings = Findings::new(&mut tell);
        let facts = examine(fs, path, 0, None, &context, &mut findings);
        if let Some(error) = findings.io.or(findings.unsupported) {
            return Err(error);
        }
        let has_none = facts.as_ref().is_some_and(|facts| facts.entries == 0);
        let no_entries = || Error::invalid(format!("{} has no entries", path.display()));
        if has_none && is_empty(file.clone(), path, &context).unwrap_or(false) {
            return Err(no_entries());
        }
        if let Some(fault) = findings.faults.into_iter().next() {
            return Err(Error::Corruption(Box::new(fault)));
        }
        let Some(facts) = facts.filter(|facts| facts.entries > 0) else {
            return Err(no_entries());
        };
        let method = compression_of(&*file, path)?.filter(|method| *method != Method::None);
        let table = Arc::new(Table::open(file, facts.file_bytes, path.clone(), &context)?);
        let counts = count_entries(&table, path, &order)?;
        Ok(SortedTable {
            table: Incoming {
                path: facts.path,
                comparator: options.comparator.name().to_owned(),
                file_bytes: facts.file_bytes,
                smallest: facts.smallest,
                largest: facts.largest,
                oldest: facts.min_seq,
                counts,
                method,
                is_synced: false,
            },
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.table.path
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.table.counts.entries
    }

    /// Returns the length of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.table.file_bytes
    }

    /// Returns the first key.
    pub fn first_key(&self) -> &[u8] {
        user_key(&self.table.smallest)
    }

    /// Returns the last key.
    pub fn last_key(&self) -> &[u8] {
        user_key(&self.table.largest)
    }
}

/// Returns whether a table without damage has no entries.
fn is_empty(file: Arc<dyn ReadFile>, path: &Path, context: &TableContext) -> Result<bool> {
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    let table = Arc::new(Table::open(file, file_bytes, path.to_path_buf(), context)?);
    Ok(!table.cursor(Default::default()).seek_to_first()?)
}

/// Checks that all entries of a table are puts, with one entry per key. Returns the counts of the
/// entries.
fn count_entries(
    table: &Arc<Table>,
    path: &Path,
    order: &InternalComparator,
) -> Result<EntryCounts> {
    let mut counts = EntryCounts::default();
    // Only databases in byte order have keyspaces.
    let has_keyspaces = order.user().custom().is_none();
    let mut cursor = table.cursor(Default::default());
    let mut last_key: Option<Vec<u8>> = None;
    let mut valid = cursor.seek_to_first()?;
    while valid {
        let entry = ParsedKey::parse(cursor.key()).map_err(|error| cursor.data_error(error))?;
        let is_again = last_key
            .as_deref()
            .is_some_and(|last| order.user().compare(last, entry.user_key).is_eq());
        if is_again || entry.kind == KeyKind::Deletion {
            let what = if is_again { "several versions of" } else { "a deletion of" };
            let key = entry.user_key.escape_ascii();
            return Err(Error::invalid(format!("{} has {what} {key}", path.display())));
        }
        let last = last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(entry.user_key);
        let expires = has_keyspaces.then(|| expiry_of(entry.user_key, cursor.value()));
        counts.add(&entry, expires.unwrap_or(NEVER));
        valid = cursor.next()?;
    }
    Ok(counts)
}

/// Counts of the tables and entries added by [`Db::ingest`](crate::Db::ingest).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Ingested {
    /// Number of tables.
    pub tables: u64,
    /// Number of entries.
    pub entries: u64,
    /// Total length of the tables before they were added, in bytes.
    pub file_bytes: u64,
    /// Number of tables that had to be rewritten. The usual reason is that the database held newer
    /// writes; the others are that its tables have another compression, and that the sequence
    /// numbers of the rewritten table were more than a day ahead.
    pub rewritten_tables: u64,
}

/// Adds `tables` to a database.
///
/// # Errors
/// Errors of [`Db::ingest`](crate::Db::ingest).
pub(crate) fn ingest(engine: &Engine, tables: &[SortedTable]) -> Result<Ingested> {
    let incoming: Vec<_> = tables.iter().map(|table| table.table.clone()).collect();
    let done = engine.ingest(&incoming)?;
    Ok(Ingested {
        tables: tables.len() as u64,
        entries: tables.iter().map(SortedTable::entries).sum(),
        file_bytes: tables.iter().map(SortedTable::file_bytes).fold(0, u64::saturating_add),
        rewritten_tables: done.rewritten,
    })
}
