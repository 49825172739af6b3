//! Reading one table file: its parts, its blocks and its filters.

use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::engine::options::{Filters, Options};
use crate::filter::{FilterBlockReader, TableFilter};
use crate::format::handle::BlockHandle;
use crate::format::key::{InternalComparator, KeyOrder, UserComparator};
use crate::fs::{ReadFile, absolute};
use crate::table::iter::TableCursor;
use crate::table::reader::BlockInfo;
use crate::table::refilter::TableTail;
use crate::table::settings::TableContext;
use crate::table::{BlockReadOptions, Table};

/// An open table file, which can be read part by part. Its index and filters stay in memory.
/// Thread-safe; clones are cheap and share the memory.
///
/// ```
/// use minikv::files::{FileName, ParsedKey, TableReader, recover_manifest};
/// use minikv::fs::DiskFs;
/// use minikv::{Db, Options};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let options = Options::default().create_if_missing(true);
/// let db = Db::open(dir, options.clone())?;
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// db.flush()?;
///
/// let recovered = recover_manifest(&DiskFs, dir, "leveldb.BytewiseComparator")?;
/// let number = recovered.edit.new_files[0].number;
/// let name = FileName::Table { number, legacy_sst: false };
/// let table = TableReader::open(dir.join(name.to_string()), &options)?;
/// for block in table.blocks()? {
///     let filter = table.filter_block().expect("filters are on");
///     assert!(filter.key_may_match(block.handle.offset, b"apple"));
///     let mut entries = table.read_block(block.handle)?.entries();
///     while let Some((key, value)) = entries.next()? {
///         println!("{:?} = {value:?}", ParsedKey::parse(key)?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableReader {
    table: Arc<Table>,
}

impl TableReader {
    /// Opens the table file at `path`. Uses the comparator, the filter policy, the prefix extractor
    /// and the filesystem from `options`.
    ///
    /// A damaged filter is not an error: [`TableReader::filter_error`] returns it.
    ///
    /// # Errors
    /// Corruption, if the footer or the index is damaged; an I/O error.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<TableReader> {
        let path = path.as_ref();
        let file = options.fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let order = InternalComparator::new(options.comparator.clone());
        TableReader::open_in(file, path, &options.table_context(&order, None))
    }

    /// Opens a table of a program's own keys, which LevelDB's `TableBuilder` or
    /// [`SingleTableBuilder`](crate::files::SingleTableBuilder) wrote to `file`. `path` appears in
    /// errors. Uses the comparator, the filter policy and the prefix extractor from `options`.
    /// Cursors seek to keys and return them as they were added.
    ///
    /// # Errors
    /// The same as for [`TableReader::open`].
    pub fn open_single(
        file: Arc<dyn ReadFile>,
        path: impl AsRef<Path>,
        options: &Options,
    ) -> Result<TableReader> {
        let order = InternalComparator::new(options.comparator.clone());
        let mut context = options.table_context(&order, None);
        context.order = KeyOrder::User(UserComparator::new(options.comparator.clone()));
        TableReader::open_in(file, path.as_ref(), &context)
    }

    fn open_in(
        file: Arc<dyn ReadFile>,
        path: &Path,
        context: &TableContext,
    ) -> Result<TableReader> {
        let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
        let table = Table::open(file, file_bytes, path.to_path_buf(), context)?;
        Ok(TableReader::of(Arc::new(table)))
    }

    pub(super) fn of(table: Arc<Table>) -> TableReader {
        TableReader { table }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.table.path()
    }

    /// Returns the size of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.table.file_bytes()
    }

    /// Returns the location of the index block.
    pub fn index(&self) -> BlockHandle {
        self.table.footer().index
    }

    /// Returns the location of the metaindex block.
    pub fn metaindex(&self) -> BlockHandle {
        self.table.footer().metaindex
    }

    /// Returns the names and locations of the meta blocks, such as
    /// `filter.leveldb.BuiltinBloomFilter2`; empty if the metaindex is damaged.
    pub fn meta(&self) -> &[(Vec<u8>, BlockHandle)] {
        self.table.meta()
    }

    /// Returns the data blocks in key order, as the index lists them.
    ///
    /// # Errors
    /// Corruption, if the index is damaged.
    pub fn blocks(&self) -> Result<Vec<BlockInfo>> {
        self.table.blocks()
    }

    /// Reads the data block at `handle` from the file, verifies its checksum and decompresses it.
    /// Uses no cache.
    ///
    /// # Errors
    /// Corruption, if the block is damaged or outside the file;
    /// [`Error::Unsupported`](crate::Error::Unsupported), if its compression is unknown; an I/O
    /// error.
    pub fn read_block(&self, handle: BlockHandle) -> Result<TableBlock> {
        let (compression, block) = self.table.read_block(handle, true)?;
        Ok(TableBlock { compression, block, handle, table: self.table.clone() })
    }

    /// Returns a cursor over the entries. The cursor is not yet positioned.
    pub fn cursor(&self) -> TableCursor {
        let options = BlockReadOptions { fill_cache: false, ..BlockReadOptions::default() };
        self.table.cursor(options)
    }

    /// Returns the approximate offset in the file, in bytes, at which the entry of `key` is or
    /// would be. `key` is like the keys of the table: in a database's table, an internal key.
    ///
    /// # Errors
    /// Corruption, if the index is damaged.
    pub fn approximate_offset_of(&self, key: &[u8]) -> Result<u64> {
        self.table.approximate_offset_of(key)
    }

    /// Returns the filters of the data blocks, if the table has them and the filter policy given
    /// when the table was opened can read them.
    pub fn filter_block(&self) -> Option<&FilterBlockReader> {
        self.table.filter_block()
    }

    /// Returns the name of the policy of [`TableReader::filter_block`], as the table states it.
    pub fn filter_policy(&self) -> Option<&str> {
        self.table.filter_policy_name()
    }

    /// Returns the filter over all keys of the table, if the table has one. Reads query it instead
    /// of [`TableReader::filter_block`].
    pub fn table_filter(&self) -> Option<&TableFilter> {
        self.table.table_filter()
    }

    /// Returns the damage that keeps a filter from being used, if there is any.
    pub fn filter_error(&self) -> Option<&Error> {
        self.table.filter_error()
    }

    /// Returns the memory that the filters take while the table is open, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.table.filter_memory_bytes()
    }

    /// Returns the memory that the index and the filters take while the table is open, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.pinned_bytes()
    }

    /// Returns the end of the file as it would be with other filters; the data blocks stay as they
    /// are. `block` is a filter block and the name of its policy, and `table` is a whole-table
    /// filter. All other meta blocks are left out: a table can be read without them.
    ///
    /// # Errors
    /// Corruption, if the index is damaged; an I/O error.
    pub fn with_filters(
        &self,
        block: Option<(&str, &[u8])>,
        table: Option<&[u8]>,
    ) -> Result<TableTail> {
        self.table.with_filters(block, table)
    }
}

/// A data block of a table, decompressed.
#[derive(Clone, Debug)]
pub struct TableBlock {
    compression: &'static str,
    block: Block,
    handle: BlockHandle,
    table: Arc<Table>,
}

impl TableBlock {
    /// Returns the name of the compression of the stored block: `none`, `snappy`, `zstd`, `zlib` or
    /// `deflate`.
    pub fn compression(&self) -> &'static str {
        self.compression
    }

    /// Returns the size of the decompressed block, in bytes.
    pub fn raw_bytes(&self) -> usize {
        self.block.len()
    }

    /// Returns a reader of the entries, which begins before the first entry.
    pub fn entries(&self) -> BlockEntries {
        let (cursor, table) = (self.block.cursor(), self.table.clone());
        BlockEntries { cursor, table, offset: self.handle.offset, is_begun: false }
    }
}

/// The entries of a data block, in key order.
#[derive(Debug)]
pub struct BlockEntries {
    cursor: BlockCursor,
    table: Arc<Table>,
    offset: u64,
    is_begun: bool,
}

impl BlockEntries {
    /// Returns the next entry: its internal key, which
    /// [`ParsedKey::parse`](crate::files::ParsedKey::parse) splits, and its value. Returns `None`
    /// after the last entry and after an error.
    ///
    /// # Errors
    /// Corruption, if the entry is damaged.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend or fail")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let moved = match self.is_begun {
            true if !self.cursor.valid() => Ok(false),
            true => self.cursor.next(),
            false => self.cursor.seek_to_first(),
        };
        self.is_begun = true;
        match moved {
            Ok(true) => Ok(Some((self.cursor.key(), self.cursor.value()))),
            Ok(false) => Ok(None),
            Err(error) => Err(error.at(self.offset).in_file(self.table.path())),
        }
    }
}

impl TableCursor {
    /// Opens the table file at `path` and returns a cursor over its entries that is not yet
    /// positioned. Keys in a database's tables are internal keys:
    /// [`ParsedKey::parse`](crate::files::ParsedKey::parse) splits an internal key into its parts,
    /// and [`ParsedKey::encode`](crate::files::ParsedKey::encode) makes an internal key to seek to.
    ///
    /// Uses only the comparator and the filesystem from `options`.
    ///
    /// # Errors
    /// Corruption, if the footer or the index is damaged; an I/O error.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<TableCursor> {
        let path = absolute(&*options.fs, path.as_ref())?;
        let options = options.clone().filters(Filters::None);
        Ok(TableReader::open(path, &options)?.cursor())
    }
}
