//! Reading tables: opening one, and looking up a key.
//!
//! A lookup first queries the whole-table filter, if there is one. Then it finds the data block
//! through the index and, without a whole-table filter, queries the block's own filter. Only then
//! does it read the block. The layout of a table is drawn at the head of
//! [`builder`](crate::table::builder). Defined by LevelDB's `table/table.cc`.

use std::cell::Cell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::hash::KeyHash;
use crate::base::{Error, Result};
use crate::block::{Block, BlockView, ByHeads, LooseBlock};
use crate::filter::{FilterBlockReader, FilterPolicy, PrefixExtractor, TableFilter};
use crate::format::coding::Decoder;
use crate::format::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::key::{KeyKind, KeyOrder, ParsedKey, SeqNo, pack_trailer, trailer};
use crate::fs::ReadFile;
use crate::table::BlockCache;
use crate::table::answers::Answers;
use crate::table::block_cache::{CachedBlock, TableBlocks};
use crate::table::filters::{FilterInfo, Filters};
use crate::table::index::{Index, IndexSpot};
use crate::table::sink::{BlockSource, IndexEntry, NoSink, TableSink};
use crate::table::stored::{Stored, read_footer, read_stored};

/// Values up to this length, in bytes, are copied out of their block; longer ones share the memory
/// of a cached block. Raising it means more copying, but fewer blocks kept alive by values.
pub const COPIED_VALUE_BYTES: usize = 1 << 10;

/// The settings common to all tables of a database.
#[derive(Clone, Debug)]
pub struct TableContext {
    /// The order of the tables' keys.
    pub order: KeyOrder,
    /// The kind of block filter to use; `None` ignores all filters.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// The extractor whose prefix filters to use.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// The cache of data blocks; `None` caches none.
    pub block_cache: Option<Arc<BlockCache>>,
    /// Whether opening a table checks the order of all separators, too.
    pub paranoid: bool,
}

/// Options for reading data blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReadOptions {
    /// Verifies the checksum of every block read from the file. Default: true.
    pub verify_checksums: bool,
    /// Inserts blocks read from the file into the block cache. Default: true.
    pub fill_cache: bool,
    /// Queries filters first. Default: true.
    pub use_filter: bool,
}

impl Default for BlockReadOptions {
    fn default() -> BlockReadOptions {
        BlockReadOptions { verify_checksums: true, fill_cache: true, use_filter: true }
    }
}

/// The entry a lookup found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The sequence number of the write; 0 in a table of plain keys.
    pub seq: SeqNo,
    /// Whether the write was a put or a deletion; `Value` in a table of plain keys.
    pub kind: KeyKind,
    /// The value. If longer than [`COPIED_VALUE_BYTES`] and from a cached block, it shares the
    /// block's memory.
    pub value: Bytes,
}

/// An index entry, which describes a data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// A key that is not before the block's last key, and before the next block's first key.
    pub separator: Vec<u8>,
    /// The location of the block.
    pub handle: BlockHandle,
}

/// An open table. Immutable and thread-safe. Its index and filters stay in memory while it is open.
#[doc(alias = "sstable")]
pub struct Table {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    file_bytes: u64,
    order: KeyOrder,
    /// The cached data blocks; `None` if there is no cache.
    blocks: Option<TableBlocks>,
    footer: Footer,
    index: Index,
    meta: Vec<(Vec<u8>, BlockHandle)>,
    filters: Filters,
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
            filters: Filters::default(),
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

    /// Reads the names and handles in the metaindex.
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

    fn open_filters(&self, context: &TableContext) -> Result<Filters> {
        let mut filters = Filters::open(&self.meta, context, |handle| {
            read_stored(&*self.file, &self.path, handle, true, &mut NoSink, |stored| {
                Ok(Bytes::copy_from_slice(stored.contents))
            })
        })?;
        filters.error = filters.error.map(|error| error.in_file(&self.path));
        Ok(filters)
    }

    /// Checks that every index entry is readable and that block offsets ascend, so that a malicious
    /// index that names a block many times cannot make a scan read more than the file holds. With
    /// `separators_too`, also checks that separators ascend.
    fn check_index(&self, separators_too: bool) -> Result<()> {
        let mut end = 0;
        let mut last: Option<Vec<u8>> = None;
        let mut cursor = self.index.block().cursor();
        let mut valid = cursor.seek_to_first();
        let in_file = |error: Error| error.at(self.footer.index.offset).in_file(&self.path);
        // An index that LevelDB did not write is both walked and searched by its restart points:
        // each must be an entry.
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
                let entry = view.entry_at_restart(restart).map_err(in_file)?;
                restart += usize::from(entry.value.as_ptr() == cursor.value().as_ptr());
            }
            valid = cursor.next();
        }
        if restart < restarts && !self.index.block().is_empty() {
            return Err(in_file(Error::corruption("a restart of the index is inside an entry")));
        }
        Ok(())
    }

    /// Looks up `key`: returns the first entry at or after it, if that has the same user key. In
    /// the engine's tables `key` is an internal key of the user key and the newest visible sequence
    /// number.
    ///
    /// Every step is reported to `sink`.
    ///
    /// # Errors
    /// Corruption, if the index, the data block or the entry is damaged; an I/O error.
    pub fn get<S: TableSink>(
        &self,
        key: &[u8],
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        self.get_hashed(key, &KeyHash::new(self.order.user_key(key)), options, sink)
    }

    /// Does what [`Table::get`] does, with a user-key hash that is computed once for several
    /// tables.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get_hashed<S: TableSink>(
        &self,
        key: &[u8],
        hash: &KeyHash<'_>,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        let Some(filter) = self.filters.table.as_ref().filter(|_| options.use_filter) else {
            return self.search(key, options.use_filter, options, sink);
        };
        let may_match = filter.may_match_hash(hash.get());
        sink.table_filter(may_match);
        if !may_match {
            return Ok(None);
        }
        // After this filter's "maybe", the block's own filter has little to add.
        let found = self.search(key, false, options, sink)?;
        sink.table_filter_outcome(found.is_some());
        Ok(found)
    }

    /// Looks up `key` through the index and, if `ask_block_filter`, the block's filter. Lends the
    /// search the thread's scratch buffer and its record of filter answers.
    fn search<S: TableSink>(
        &self,
        key: &[u8],
        ask_block_filter: bool,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        thread_local! {
            static KEPT: Cell<(Vec<u8>, Answers)> = Cell::default();
        }
        const KEEP_BYTES: usize = 64 << 10;
        // A destructor of a thread-local may read after these are gone.
        let (mut scratch, mut answers) = KEPT.try_with(Cell::take).unwrap_or_default();
        let found =
            self.search_with(key, ask_block_filter, options, sink, &mut scratch, &mut answers);
        scratch.shrink_to(KEEP_BYTES);
        let _dropped_if_gone = KEPT.try_with(|kept| kept.set((scratch, answers)));
        found
    }

    fn search_with<S: TableSink>(
        &self,
        key: &[u8],
        ask_block_filter: bool,
        options: &BlockReadOptions,
        sink: &mut S,
        scratch: &mut Vec<u8>,
        answers: &mut Answers,
    ) -> Result<Option<Found>> {
        let Some(spot) = self.index_seek(key, scratch, sink)? else { return Ok(None) };
        let handle = spot.handle;
        let user_key = self.order.user_key(key);
        let filter = self.filters.block.as_ref().filter(|_| ask_block_filter);
        let at_once = filter.is_none() || answers.promise_a_match();
        let mut cached = if at_once { self.cached(spot) } else { None };
        if let Some((_, filter)) = filter {
            let may_match = filter.key_may_match(handle.offset, user_key);
            sink.block_filter(may_match);
            answers.add(may_match);
            if !may_match {
                return Ok(None);
            }
        }
        if !at_once {
            cached = self.cached(spot);
        }
        let found = match cached.as_ref().and_then(|block| Some((block, block.view()?))) {
            Some((block, view)) => {
                sink.data_block(handle, BlockSource::Cache);
                self.find_in(view, key, user_key, scratch, || block.to_block())
            }
            None => self.find_in_file(spot, key, options, sink, scratch),
        };
        let found = found.map_err(|error| error.at(handle.offset).in_file(&self.path))?;
        sink.block_searched(found.as_ref());
        if filter.is_some() {
            sink.block_filter_outcome(found.is_some());
        }
        Ok(found)
    }

    /// Returns whether a lookup of `key` would find an entry, without filters, cache or sink.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn holds(&self, key: &[u8]) -> Result<bool> {
        let scratch = &mut Vec::new();
        let Some(spot) = self.index_seek(key, scratch, &mut NoSink)? else { return Ok(false) };
        let handle = spot.handle;
        let (_, block) = self.read_block(handle, true)?;
        let found = self
            .find_in(block.view(), key, self.order.user_key(key), scratch, || Some(block.clone()))
            .map_err(|error| error.at(handle.offset).in_file(&self.path))?;
        Ok(found.is_some())
    }

    /// Finds the data block that holds the first entry at or after `key`, if there is one.
    #[inline]
    fn index_seek<S: TableSink>(
        &self,
        key: &[u8],
        scratch: &mut Vec<u8>,
        sink: &mut S,
    ) -> Result<Option<IndexSpot>> {
        let found = self.index.seek(&self.order, key, scratch);
        let spot = found.map_err(|error| self.index_error(error))?;
        sink.index_seek(spot.as_ref().map(|spot| IndexEntry {
            separator: match S::HEARS_SEPARATORS {
                true => self.index.separator(spot, scratch),
                false => &[],
            },
            handle: spot.handle,
        }));
        Ok(spot)
    }

    /// Adds the index block's offset and the file to `error`.
    pub(crate) fn index_error(&self, error: Error) -> Error {
        in_index(error, self.footer.index.offset, &self.path)
    }

    /// Looks up a key in a block. `owned` returns the block itself, for a value that shares its
    /// memory.
    #[inline]
    fn find_in(
        &self,
        block: BlockView<'_>,
        key: &[u8],
        user_key: &[u8],
        scratch: &mut Vec<u8>,
        owned: impl FnOnce() -> Option<Block>,
    ) -> Result<Option<Found>> {
        let (trailer, value) = match block.find_by_heads(user_key, trailer(key)) {
            ByHeads::Found(trailer, value) => (trailer, value),
            ByHeads::Absent => return Ok(None),
            ByHeads::Unknown => match self.find_plain(block, key, user_key, scratch)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let kind = match KeyKind::from_u8(trailer as u8) {
            Some(kind) => kind,
            None => return Err(Error::mismatch("unknown kind of key", "0 or 1", trailer as u8)),
        };
        // Taking a reference to the block costs more than a short copy, and a short value should
        // not keep a whole block alive.
        let value = match (value.len() > COPIED_VALUE_BYTES).then(owned).flatten() {
            Some(block) => block.share(value),
            None => Bytes::copy_from_slice(value),
        };
        Ok(Some(Found { seq: trailer >> 8, kind, value }))
    }

    /// Looks up a key in a block without heads. Returns its trailer and the value.
    fn find_plain<'a>(
        &self,
        block: BlockView<'a>,
        key: &[u8],
        user_key: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<(u64, &'a [u8])>> {
        let Some(entry) = block.get_ge(&self.order, key, scratch)? else { return Ok(None) };
        let (found_key, trailer) = match &self.order {
            KeyOrder::Internal(_) => {
                let parsed = ParsedKey::parse(entry.key)?;
                (parsed.user_key, trailer(entry.key))
            }
            KeyOrder::User(_) => (entry.key, pack_trailer(0, KeyKind::Value)),
        };
        let same = self.order.user().compare(found_key, user_key) == Ordering::Equal;
        Ok(same.then_some((trailer, entry.value)))
    }

    #[inline]
    fn cached(&self, spot: IndexSpot) -> Option<CachedBlock> {
        self.blocks.as_ref()?.get(spot.at?)
    }

    /// Returns a data block, from the cache or the file.
    pub(crate) fn data_block<S: TableSink>(
        &self,
        spot: IndexSpot,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Block> {
        if let Some(block) = self.cached(spot).and_then(|block| block.to_block()) {
            sink.data_block(spot.handle, BlockSource::Cache);
            return Ok(block);
        }
        self.read_data_block(spot, options, sink)
    }

    /// Reads a data block from the file and offers it to the cache.
    #[inline(never)]
    fn read_data_block<S: TableSink>(
        &self,
        spot: IndexSpot,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Block> {
        let verify = options.verify_checksums;
        sink.data_block(spot.handle, BlockSource::File);
        read_stored(&*self.file, &self.path, spot.handle, verify, sink, |stored| {
            match self.keeper(spot, options, stored.contents.len()) {
                Some(keeper) => self.keep(keeper, stored),
                None => Block::new(stored.contents),
            }
        })
        .map_err(|error| error.in_file(&self.path))
    }

    /// Looks up a key in a data block read from the file. A block that will not be cached is
    /// searched in the buffer it was decompressed into.
    #[inline(never)]
    fn find_in_file<S: TableSink>(
        &self,
        spot: IndexSpot,
        key: &[u8],
        options: &BlockReadOptions,
        sink: &mut S,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let (verify, user_key) = (options.verify_checksums, self.order.user_key(key));
        sink.data_block(spot.handle, BlockSource::File);
        read_stored(&*self.file, &self.path, spot.handle, verify, sink, |stored| {
            match self.keeper(spot, options, stored.contents.len()) {
                Some(keeper) => {
                    let block = self.keep(keeper, stored)?;
                    self.find_in(block.view(), key, user_key, scratch, || Some(block.clone()))
                }
                None => {
                    let block = LooseBlock::new(stored.contents)?;
                    self.find_in(block.view(), key, user_key, scratch, || None)
                }
            }
        })
    }

    /// Who keeps a block of `len` bytes that was just read, if anyone.
    fn keeper(
        &self,
        spot: IndexSpot,
        options: &BlockReadOptions,
        len: usize,
    ) -> Option<(&TableBlocks, usize)> {
        let keeper = self.blocks.as_ref().filter(|_| options.fill_cache).zip(spot.at)?;
        keeper.0.wants(keeper.1, len).then_some(keeper)
    }

    fn keep(&self, (blocks, at): (&TableBlocks, usize), stored: Stored<'_>) -> Result<Block> {
        let spare = |len| blocks.spare(at, len);
        let block = Block::with_heads(stored.contents, &self.order, stored.buffer, spare)?;
        blocks.insert(at, block.clone());
        Ok(block)
    }

    /// Reads a block without the cache. Returns the id of its compression and its contents.
    ///
    /// # Errors
    /// Corruption, if the block is damaged or outside the file; an I/O error.
    pub fn read_block(&self, handle: BlockHandle, verify_checksum: bool) -> Result<(u8, Block)> {
        handle
            .within(self.file_bytes)
            .and_then(|handle| {
                read_stored(
                    &*self.file,
                    &self.path,
                    handle,
                    verify_checksum,
                    &mut NoSink,
                    |stored| Ok((stored.id, Block::new(stored.contents)?)),
                )
            })
            .map_err(|error| error.in_file(&self.path))
    }

    /// Returns the approximate offset in the file at which `key` is or would be.
    ///
    /// # Errors
    /// Corruption, if the index is damaged.
    pub fn approximate_offset_of(&self, key: &[u8]) -> Result<u64> {
        let spot = self.index_seek(key, &mut Vec::new(), &mut NoSink)?;
        Ok(spot.map_or(self.footer.metaindex.offset, |spot| spot.handle.offset))
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

    /// Returns the names and handles in the metaindex; empty if it is damaged.
    pub fn meta(&self) -> &[(Vec<u8>, BlockHandle)] {
        &self.meta
    }

    /// Returns the footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns facts about the filter block, if the table has one of a known kind.
    pub fn filter(&self) -> Option<FilterInfo> {
        self.filters.block_info()
    }

    /// Returns the filter block, if the table has one of a known kind.
    pub fn filter_block(&self) -> Option<&FilterBlockReader> {
        self.filters.block.as_ref().map(|(_, filter)| filter)
    }

    /// Returns the filter over all keys, if the table has one. Lookups query it instead of the
    /// filter block.
    pub fn table_filter(&self) -> Option<&TableFilter> {
        self.filters.table.as_ref()
    }

    /// Returns the filter over all key prefixes, if the table has one of a known kind.
    pub fn prefix_filter(&self) -> Option<&TableFilter> {
        self.filters.prefix.as_ref()
    }

    /// Returns whether the table has a filter that lookups query.
    pub fn has_filter(&self) -> bool {
        self.filters.block.is_some() || self.filters.table.is_some()
    }

    /// Returns the damage because of which the table is read without one of its filters.
    pub fn filter_error(&self) -> Option<&Error> {
        self.filters.error.as_ref()
    }

    /// Returns the memory the filters take while the table is open, in bytes.
    pub fn filter_memory_bytes(&self) -> usize {
        self.filters.memory_bytes()
    }

    /// Returns the memory the index, the filters and the block slots take while the table is open,
    /// in bytes.
    pub fn pinned_bytes(&self) -> usize {
        let slots = self.blocks.as_ref().map_or(0, TableBlocks::slot_bytes);
        self.index.memory_bytes() + self.filters.memory_bytes() + slots
    }

    /// Returns the size of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the order of the keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

/// Adds the footer's offset to `error`.
fn at_footer(error: Error, file_bytes: u64) -> Error {
    error.at(file_bytes.saturating_sub(FOOTER_BYTES as u64))
}

/// Sets the offset in `error` to that of the index block: the offset inside the value that was
/// decoded tells nobody anything.
fn in_index(error: Error, offset: u64, path: &Path) -> Error {
    match error {
        Error::Corruption(mut corruption) => {
            corruption.offset = Some(offset);
            Error::Corruption(corruption).in_file(path)
        }
        other => other,
    }
}
