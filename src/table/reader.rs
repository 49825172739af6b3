//! Opening and checking tables, and the properties of an open table. Lookups are in
//! [`lookup`](crate::table::lookup).
//!
//! The layout of a table is drawn at the top of [`builder`](crate::table::builder). LevelDB's
//! `table/table.cc` defines it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::block::Block;
use crate::filter::{FilterBlockReader, TableFilter};
use crate::format::coding::Decoder;
use crate::format::expiry::{EXPIRY_NAME, TableExpiry};
use crate::format::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::key::KeyOrder;
use crate::fs::ReadFile;
use crate::table::block_cache::TableBlocks;
use crate::table::filters::OpenFilters;
use crate::table::index::Index;
pub(crate) use crate::table::settings::{BlockReadOptions, TableContext};
use crate::table::sink::NoSink;
pub(crate) use crate::table::sink::{Found, MAX_COPIED_VALUE_BYTES};
use crate::table::stored::{read_footer, read_stored};

/// An index entry, which describes a data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// A key that is at or after the block's last key, and before the next block's first key.
    pub separator: Vec<u8>,
    /// The location of the block.
    pub handle: BlockHandle,
}

/// An open table. Immutable and thread-safe. Its index and filters stay in memory while it is open.
#[doc(alias = "sstable")]
pub struct Table {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) path: PathBuf,
    file_bytes: u64,
    pub(super) order: KeyOrder,
    /// The table's data blocks in the cache; `None` if there is no cache.
    pub(super) blocks: Option<TableBlocks>,
    footer: Footer,
    pub(super) index: Index,
    meta: Vec<(Vec<u8>, BlockHandle)>,
    pub(super) filters: OpenFilters,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("path", &self.path)
            .field("file_bytes", &self.file_bytes)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens the table of `file_bytes` bytes in `file`. `path` appears in errors.
    ///
    /// A damaged metaindex or filter is not an error: the table is read without the filter, and
    /// [`Table::filter_error`] returns the cause.
    ///
    /// # Errors
    /// Corruption, if the footer or the index is damaged; an I/O error.
    pub fn open(
        file: Arc<dyn ReadFile>,
        file_bytes: u64,
        path: PathBuf,
        context: &TableContext,
    ) -> Result<Table> {
        let in_file = |error: Error| error.in_file(&path);
        let footer = read_footer(&*file, file_bytes, &path).map_err(in_file)?;
        let index = Table::read_index(&*file, file_bytes, &path, &footer).map_err(in_file)?;
        let index = Index::new(index, &context.order, file_bytes);
        let mut table = Table {
            blocks: context
                .block_cache
                .as_ref()
                .and_then(|cache| Some(cache.table(index.blocks()?))),
            order: context.order.clone(),
            file,
            path,
            file_bytes,
            footer,
            index,
            meta: Vec::new(),
            filters: OpenFilters::default(),
        };
        table.check_index(context.paranoid)?;
        match table.read_meta() {
            Ok(meta) => table.meta = meta,
            Err(error) if error.is_corruption() => table.filters.error = Some(error),
            Err(error) => return Err(error.in_file(&table.path)),
        }
        if table.filters.error.is_none() {
            table.filters = table.open_filters(context)?;
        }
        let pinned_bytes = table.pinned_bytes();
        if let Some(blocks) = &mut table.blocks {
            blocks.take(pinned_bytes);
        }
        Ok(table)
    }

    fn read_index(
        file: &dyn ReadFile,
        file_bytes: u64,
        path: &Path,
        footer: &Footer,
    ) -> Result<Block> {
        let handle = footer.index.within(file_bytes).map_err(|e| at_footer(e, file_bytes))?;
        read_stored(file, path, handle, true, &mut NoSink, |stored| Block::new(stored.contents))
    }

    /// Reads the metaindex from the file. Returns its names and handles.
    fn read_meta(&self) -> Result<Vec<(Vec<u8>, BlockHandle)>> {
        let at = self.footer.metaindex;
        let result = at.within(self.file_bytes).map_err(|e| at_footer(e, self.file_bytes));
        let (_, block) = self.read_block(result?, true)?;
        let mut cursor = block.cursor();
        let mut meta = Vec::new();
        let mut valid = cursor.seek_to_first();
        while valid.map_err(|error| error.at(at.offset).in_file(&self.path))? {
            let handle = BlockHandle::decode(&mut Decoder::new(cursor.value()));
            let handle = handle.and_then(|handle| handle.within(self.file_bytes));
            let handle = handle.map_err(|e| in_index(e, at.offset, &self.path))?;
            meta.push((cursor.key().to_vec(), handle));
            valid = cursor.next();
        }
        Ok(meta)
    }

    fn open_filters(&self, context: &TableContext) -> Result<OpenFilters> {
        let mut filters = OpenFilters::open(&self.meta, context, |handle| {
            read_stored(&*self.file, &self.path, handle, true, &mut NoSink, |stored| {
                Ok(Bytes::copy_from_slice(stored.contents))
            })
        })?;
        filters.error = filters.error.map(|error| error.in_file(&self.path));
        Ok(filters)
    }

    /// Checks that every index entry is readable and that block offsets ascend. If offsets did not
    /// ascend, a malicious index could point to the same block many times, and a scan would read
    /// more than the whole file. With `separators_too`, also checks that separators ascend.
    fn check_index(&self, separators_too: bool) -> Result<()> {
        let mut end = 0;
        let mut last: Option<Vec<u8>> = None;
        let mut cursor = self.index.block().cursor();
        let mut valid = cursor.seek_to_first();
        let in_file = |error: Error| error.at(self.footer.index.offset).in_file(&self.path);
        // An index with a layout that LevelDB does not write is read from entry to entry, and is
        // searched by its restart points. Each restart point must therefore be the start of an
        // entry.
        let view = self.index.block().view();
        let restarts =
            if self.index.blocks().is_some() { 0 } else { self.index.block().restarts() };
        let mut restart = 0;
        while valid.map_err(in_file)? {
            let handle = self.index.handle(cursor.value());
            let handle =
                handle.map_err(|error| in_index(error, self.footer.index.offset, &self.path))?;
            let is_after = |last: &Vec<u8>| self.order.compare(last, cursor.key()).is_lt();
            if handle.offset < end || !last.as_ref().is_none_or(is_after) {
                let what = "the index is out of order at the data block of offset";
                return Err(in_file(Error::corruption(format!("{what} {}", handle.offset))));
            }
            end = handle.end().unwrap_or(u64::MAX);
            if separators_too {
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(cursor.key());
            }
            if restart < restarts {
                view.entry_at_restart(restart).map_err(in_file)?;
                restart += usize::from(view.restart(restart) == cursor.offset());
            }
            valid = cursor.next();
        }
        if restart < restarts && !self.index.block().is_empty() {
            return Err(in_file(Error::corruption("a restart of the index is inside an entry")));
        }
        Ok(())
    }

    /// Adds the file's path and the index block's offset to `error`.
    pub(crate) fn index_error(&self, error: Error) -> Error {
        in_index(error, self.footer.index.offset, &self.path)
    }

    /// Reads a block without using the cache. Returns the name of the compression method ("none",
    /// "snappy", "zstd", "zlib" or "deflate") and the contents.
    ///
    /// # Errors
    /// Corruption, if the block is damaged or outside the file; an I/O error.
    pub fn read_block(
        &self,
        handle: BlockHandle,
        verify_checksum: bool,
    ) -> Result<(&'static str, Block)> {
        handle
            .within(self.file_bytes)
            .and_then(|handle| {
                read_stored(
                    &*self.file,
                    &self.path,
                    handle,
                    verify_checksum,
                    &mut NoSink,
                    |stored| Ok((stored.method.name(), Block::new(stored.contents)?)),
                )
            })
            .map_err(|error| error.in_file(&self.path))
    }

    /// Returns the data blocks in index order.
    ///
    /// # Errors
    /// Corruption, if the index is damaged.
    pub fn blocks(&self) -> Result<Vec<BlockInfo>> {
        let mut blocks = Vec::new();
        let mut cursor = self.index.block().cursor();
        let mut valid = cursor.seek_to_first();
        while valid.map_err(|error| self.index_error(error))? {
            let handle = self.index.handle(cursor.value());
            let handle = handle.map_err(|error| self.index_error(error))?;
            blocks.push(BlockInfo { separator: cursor.key().to_vec(), handle });
            valid = cursor.next();
        }
        Ok(blocks)
    }

    /// Reads the expiry times of the table's entries from the file. Returns `None` if the table has
    /// no record of expiry times.
    ///
    /// # Errors
    /// Corruption, if the block with the record is damaged; an I/O error.
    pub(crate) fn expiry(&self) -> Result<Option<TableExpiry>> {
        let mut meta = self.meta.iter();
        let Some((_, handle)) = meta.find(|(name, _)| name == EXPIRY_NAME.as_bytes()) else {
            return Ok(None);
        };
        let read = read_stored(&*self.file, &self.path, *handle, true, &mut NoSink, |stored| {
            TableExpiry::decode(stored.contents)
        });
        read.map(Some).map_err(|error| error.in_file(&self.path))
    }

    /// Returns the footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the filter block, if the table has a filter block of a known kind.
    pub fn filter_block(&self) -> Option<&FilterBlockReader> {
        self.filters.block.as_ref().map(|(_, filter)| filter)
    }

    /// Returns the filter over all keys, if the table has such a filter. Lookups query it instead
    /// of the filter block.
    pub fn table_filter(&self) -> Option<&TableFilter> {
        self.filters.table.as_ref()
    }

    /// Returns the filter over all key prefixes, if the table has such a filter of a known kind.
    pub(crate) fn prefix_filter(&self) -> Option<&TableFilter> {
        self.filters.prefix.as_ref()
    }

    /// Returns whether the table has a filter that lookups query.
    pub(crate) fn has_filter(&self) -> bool {
        self.filters.block.is_some() || self.filters.table.is_some()
    }

    /// Returns the damage that prevents one of the table's filters from being used, if there is
    /// any.
    pub fn filter_error(&self) -> Option<&Error> {
        self.filters.error.as_ref()
    }

    /// Returns the memory that the index, the filters and the block slots take while the table is
    /// open, in bytes.
    pub fn pinned_bytes(&self) -> usize {
        let slots = self.blocks.as_ref().map_or(0, TableBlocks::slot_bytes);
        self.index.memory_bytes() + self.filters.memory_bytes() + slots
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the order of the keys.
    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

/// Information for tools that read table files.
impl Table {
    /// Returns the names and handles in the metaindex; empty if the metaindex is damaged.
    pub fn meta(&self) -> &[(Vec<u8>, BlockHandle)] {
        &self.meta
    }

    /// Returns the name of the filter block's policy, without the prefix `filter.`, if the table
    /// has a filter block of a known kind.
    pub(crate) fn filter_policy_name(&self) -> Option<&str> {
        self.filters.block.as_ref().map(|(name, _)| &name[..])
    }

    /// Returns the memory that the filters take while the table is open, in bytes.
    pub fn filter_memory_bytes(&self) -> usize {
        self.filters.memory_bytes()
    }

    /// Returns the size of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

/// Adds the footer's offset to `error`.
fn at_footer(error: Error, file_bytes: u64) -> Error {
    error.at(file_bytes.saturating_sub(FOOTER_BYTES as u64))
}

/// Sets the offset in `error` to the offset of the index block, because an offset inside the
/// decoded value would be of no use to the reader.
fn in_index(error: Error, offset: u64, path: &Path) -> Error {
    match error {
        Error::Corruption(mut corruption) => {
            corruption.offset = Some(offset);
            Error::Corruption(corruption).in_file(path)
        }
        other => other,
    }
}
