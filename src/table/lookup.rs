//! Looking up a key in a table, step by step.
//!
//! 1. The whole-table filter is queried, if there is one ([`Table::get_hashed`]).
//! 2. The index leads to the data block that may contain the key (`Table::index_seek`).
//! 3. Without a whole-table filter, the block's own filter is queried (`Table::search`).
//! 4. The block is taken from the cache, or read from the file and offered to the cache
//!    (`Table::search_block`, `Table::find_in_file`).
//! 5. The block's entry heads, or a plain search, lead to the entry (`Table::find_in`).
//! 6. If a filter promised the key and there is no entry, a plain search of the block must find
//!    none, either, and the index must name this block (`Table::check_absence`,
//!    `Table::check_spot`). A wrong block is told hardly ever unless the whole table has a filter:
//!    that block's own filter ends the lookup in step 3, except once in a hundred times.
//!
//! Every step is reported to a [`TableSink`].

use std::cell::Cell;
use std::cmp::Ordering;

use bytes::Bytes;

use crate::base::hash::KeyHash;
use crate::base::{Error, Result};
use crate::block::{Block, BlockView, ByHeads, LooseBlock};
use crate::format::key::{KeyKind, KeyOrder, ParsedKey, pack_trailer, trailer};
use crate::table::answers::Answers;
use crate::table::block_cache::{CachedBlock, TableBlocks};
#[cfg(any(test, feature = "internals"))]
use crate::table::counts::LevelTrace;
use crate::table::index::IndexSpot;
use crate::table::reader::Table;
use crate::table::settings::BlockReadOptions;
use crate::table::sink::{
    BlockSource, Found, IndexEntry, MAX_COPIED_VALUE_BYTES, NoSink, TableSink,
};
use crate::table::stored::{Stored, read_stored};

/// Capacity in bytes to which a thread's scratch buffer is shrunk after each use. A higher limit
/// keeps more memory per thread.
const KEEP_SCRATCH_BYTES: usize = 64 << 10;

/// Calls `f` with the thread's scratch buffer, which receives keys decoded during a lookup. Returns
/// the result of `f`.
#[inline]
fn with_scratch<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // The destructor of another thread-local may do a lookup after `SCRATCH` was destroyed.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = f(&mut scratch);
    scratch.shrink_to(KEEP_SCRATCH_BYTES);
    let _dropped_if_gone = SCRATCH.try_with(|kept| kept.set(scratch));
    result
}

/// A key that is looked up in a data block.
struct Sought<'k> {
    key: &'k [u8],
    user_key: &'k [u8],
    spot: IndexSpot,
    /// Whether a filter answered "maybe".
    is_promised: bool,
}

impl Table {
    /// Does the same as `Table::get_hashed`, and adds the work done to `trace`.
    ///
    /// # Errors
    /// The same as for `Table::get_hashed`.
    #[cfg(any(test, feature = "internals"))]
    pub fn get(
        &self,
        key: &[u8],
        options: &BlockReadOptions,
        trace: &mut LevelTrace,
    ) -> Result<Option<Found>> {
        self.get_hashed(key, &KeyHash::new(self.order.user_key(key)), options, trace)
    }

    /// Looks up `key`. Returns the first entry at or after `key`, if that entry has the same user
    /// key. In the engine's tables, `key` is an internal key: a user key with the newest visible
    /// sequence number. `hash` is the hash of the user key, which the caller computes once for
    /// several tables. Reports every step to `sink`.
    ///
    /// # Errors
    /// Corruption, if the index, the data block or the entry is damaged; an I/O error.
    #[inline]
    pub(crate) fn get_hashed<S: TableSink>(
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
        // When the whole-table filter answers "maybe", the block's own filter adds little
        // information.
        let found = self.search(key, false, options, sink)?;
        sink.table_filter_outcome(found.is_some());
        Ok(found)
    }

    /// Looks up `key` through the index and, if `ask_block_filter` is set, the block's filter.
    /// Returns the entry found.
    fn search<S: TableSink>(
        &self,
        key: &[u8],
        ask_block_filter: bool,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        let by_table_filter = options.use_filter && !ask_block_filter;
        let Some(spot) = self.index_seek(key, sink)? else {
            if by_table_filter {
                self.check_spot(key, None)?;
            }
            return Ok(None);
        };
        let filter = self.filters.block.as_ref().filter(|_| ask_block_filter);
        // If the filter is likely to answer "maybe", the block is prefetched before the filter is
        // queried. If there is no filter, the block is fetched here, too.
        let fetches_first = filter.is_none() || Answers::promise_a_match();
        let fetched = fetches_first.then(|| self.cached(spot));
        if let Some((_, filter)) = filter {
            let may_match = filter.key_may_match(spot.handle.offset, self.order.user_key(key));
            sink.block_filter(may_match);
            Answers::add(may_match);
            if !may_match {
                return Ok(None);
            }
        }
        let cached = fetched.unwrap_or_else(|| self.cached(spot));
        let is_promised = filter.is_some() || by_table_filter;
        let sought = Sought { key, user_key: self.order.user_key(key), spot, is_promised };
        let found = self.search_block(cached, &sought, options, sink)?;
        if found.is_none() && is_promised {
            self.check_spot(key, Some(spot))?;
        }
        if filter.is_some() {
            sink.block_filter_outcome(found.is_some());
        }
        Ok(found)
    }

    /// Looks up a key in the data block `cached`. If `cached` is `None`, the block is read from the
    /// file.
    #[inline]
    fn search_block<S: TableSink>(
        &self,
        cached: Option<CachedBlock>,
        sought: &Sought<'_>,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        let handle = sought.spot.handle;
        let found = match cached.as_ref().and_then(|block| Some((block, block.view()?))) {
            Some((block, view)) => {
                sink.data_block(handle, BlockSource::Cache);
                self.find_in(view, sought, || block.to_block())
            }
            None => self.find_in_file(sought, options, sink),
        };
        let found = found.map_err(|error| error.at(handle.offset).in_file(&self.path))?;
        sink.block_searched(found.as_ref());
        Ok(found)
    }

    /// Returns whether a lookup of `key` would find an entry. Uses neither filters nor the cache.
    ///
    /// # Errors
    /// The same as for `Table::get_hashed`.
    pub fn holds(&self, key: &[u8]) -> Result<bool> {
        let Some(spot) = self.index_seek(key, &mut NoSink)? else { return Ok(false) };
        let handle = spot.handle;
        let (_, block) = self.read_block(handle, true)?;
        let user_key = self.order.user_key(key);
        let found = self
            .find_in(block.view(), &Sought { key, user_key, spot, is_promised: false }, || None)
            .map_err(|error| error.at(handle.offset).in_file(&self.path))?;
        Ok(found.is_some())
    }

    /// Returns the approximate offset in the file at which the entry of `key` is or would be.
    ///
    /// # Errors
    /// Corruption, if the index is damaged.
    pub fn approximate_offset_of(&self, key: &[u8]) -> Result<u64> {
        let spot = self.index_seek(key, &mut NoSink)?;
        Ok(spot.map_or(self.footer().metaindex.offset, |spot| spot.handle.offset))
    }

    /// Returns the data block that contains the first entry at or after `key`, if there is such an
    /// entry.
    #[inline]
    fn index_seek<S: TableSink>(&self, key: &[u8], sink: &mut S) -> Result<Option<IndexSpot>> {
        let in_index = |error| self.index_error(error);
        let spot = self.index.seek(&self.order, key).map_err(in_index)?;
        let separator = match S::HEARS_SEPARATORS {
            true => self.index.separator(&self.order, key).map_err(in_index)?,
            false => Vec::new(),
        };
        let entry = |spot: IndexSpot| IndexEntry { separator: &separator, handle: spot.handle };
        sink.index_seek(spot.map(entry));
        Ok(spot)
    }

    /// Looks up a key in a block. `owned` returns the owned block, so that a long value can share
    /// the block's memory.
    #[inline]
    fn find_in(
        &self,
        block: BlockView<'_>,
        sought: &Sought<'_>,
        owned: impl FnOnce() -> Option<Block>,
    ) -> Result<Option<Found>> {
        let found = match block.find_by_heads(sought.user_key, trailer(sought.key)) {
            ByHeads::Found(trailer, value) => Some((trailer, value)),
            ByHeads::Absent => None,
            ByHeads::Unknown => self.find_plain(block, sought)?,
        };
        let Some((trailer, value)) = found else {
            if sought.is_promised {
                self.check_absence(block, sought)?;
            }
            return Ok(None);
        };
        let kind = match KeyKind::from_u8(trailer as u8) {
            Some(kind) => kind,
            None => return Err(Error::mismatch("unknown kind of key", "0 or 1", trailer as u8)),
        };
        // Short values are copied: that costs less than taking a reference to the block, and a
        // reference would keep the whole block alive.
        let value = match (value.len() > MAX_COPIED_VALUE_BYTES).then(owned).flatten() {
            Some(block) => block.share(value),
            None => Bytes::copy_from_slice(value),
        };
        Ok(Some(Found { seq: trailer >> 8, kind, value }))
    }

    /// Looks up a key by a plain search of a block, because the block has no heads or the heads did
    /// not decide the lookup. Returns the key's trailer and the value.
    fn find_plain<'a>(
        &self,
        block: BlockView<'a>,
        sought: &Sought<'_>,
    ) -> Result<Option<(u64, &'a [u8])>> {
        with_scratch(|scratch| {
            let Some(entry) = block.get_ge(&self.order, sought.key, scratch)? else {
                return Ok(None);
            };
            let (found_key, trailer) = match &self.order {
                KeyOrder::Internal(_) => {
                    let parsed = ParsedKey::parse(entry.key)?;
                    (parsed.user_key, trailer(entry.key))
                }
                KeyOrder::User(_) => (entry.key, pack_trailer(0, KeyKind::Value)),
            };
            let same = self.order.user().compare(found_key, sought.user_key) == Ordering::Equal;
            Ok(same.then_some((trailer, entry.value)))
        })
    }

    /// Searches the block once more, without heads. A filter rarely says "maybe" to an absent key,
    /// so an absence after it may come from a processor that erred, or from heads that changed in
    /// memory.
    ///
    /// # Errors
    /// Corruption, if the key is there.
    #[cold]
    fn check_absence(&self, block: BlockView<'_>, sought: &Sought<'_>) -> Result<()> {
        match self.find_plain(block.without_heads(), sought)? {
            None => Ok(()),
            Some(_) => Err(Error::corruption("a search missed an entry: memory may be damaged")),
        }
    }

    /// Checks for the same reason that the block is the one that the index names, or that the index
    /// names none.
    ///
    /// # Errors
    /// Corruption, if the key belongs to another block than the one that was searched.
    #[cold]
    fn check_spot(&self, key: &[u8], spot: Option<IndexSpot>) -> Result<()> {
        let confirmed = self.index.confirms(&self.order, key, spot);
        match confirmed.map_err(|error| self.index_error(error))? {
            true => Ok(()),
            false => Err(self
                .index_error(Error::corruption("a search missed a block: memory may be damaged"))),
        }
    }

    /// Returns a data block, if the block is cached.
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

    /// Reads a data block from the file, offers it to the cache, and returns it.
    #[inline(never)]
    pub(crate) fn read_data_block<S: TableSink>(
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

    /// Looks up a key in a data block after reading the block from the file. A block that will not
    /// be cached is searched in the decompression buffer. Returns the entry found.
    #[inline(never)]
    fn find_in_file<S: TableSink>(
        &self,
        sought: &Sought<'_>,
        options: &BlockReadOptions,
        sink: &mut S,
    ) -> Result<Option<Found>> {
        let (verify, spot) = (options.verify_checksums, sought.spot);
        sink.data_block(spot.handle, BlockSource::File);
        read_stored(&*self.file, &self.path, spot.handle, verify, sink, |stored| {
            match self.keeper(spot, options, stored.contents.len()) {
                Some(keeper) => {
                    let block = self.keep(keeper, stored)?;
                    self.find_in(block.view(), sought, || Some(block.clone()))
                }
                None => {
                    let block = LooseBlock::new(stored.contents)?;
                    self.find_in(block.view(), sought, || None)
                }
            }
        })
    }

    /// Decides whether to cache a block of `len` bytes that was just read. If so, returns the
    /// table's cached blocks and the number of the block.
    fn keeper(
        &self,
        spot: IndexSpot,
        options: &BlockReadOptions,
        len: usize,
    ) -> Option<(&TableBlocks, usize)> {
        let keeper = self.blocks.as_ref().filter(|_| options.fill_cache).zip(spot.at)?;
        keeper.0.wants(keeper.1, len).then_some(keeper)
    }

    /// Caches a block that was just read, and returns it.
    fn keep(&self, (blocks, at): (&TableBlocks, usize), stored: Stored<'_>) -> Result<Block> {
        let spare = |len| blocks.spare(at, len);
        let block = Block::with_heads(stored.contents, &self.order, stored.buffer, spare)?;
        blocks.insert(at, block.clone());
        Ok(block)
    }
}
