//! Writing a table. On-disk format: existing readers rely on the order of the parts, so do not
//! change it.
//!
//! ```text
//! data block ... | filter block, if there is a policy | metaindex block | index block | footer
//! ```
//!
//! Every block is followed by its trailer (`format/handle.rs`). The metaindex maps `filter.<policy
//! name>` to the filter block's handle. For each data block, the index maps a separator (a key that
//! is at or after the block's last key and before the next block's first key) to the block's
//! handle. Without compression, each block is byte for byte the block that LevelDB's
//! `table/table_builder.cc` writes.
//!
//! Filters that LevelDB does not have (`filter/whole_table.rs`, `filter/prefix.rs`) follow the
//! filter block. LevelDB does not look up their names in the metaindex, and reads the table as if
//! it did not have these filters. If entries of the table expire, a block with their expiry times
//! (`format/expiry.rs`) follows in the same way.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::entry_sum::EntrySum;
use crate::base::{Error, Result};
use crate::filter::whole_table::TABLE_FILTER_NAME;
use crate::filter::{FilterBlockBuilder, FilterPolicy, PrefixExtractor, TableFilterBuilder};
use crate::format::block_builder::BlockBuilder;
use crate::format::compress::{self, Compression, Compressor, ID_NONE};
use crate::format::expiry::{EXPIRY_NAME, TableExpiry};
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle, Footer, block_trailer};
use crate::format::key::KeyOrder;
use crate::fs::WriteFile;
use crate::table::filters::{FILTER_PREFIX, prefix_filter_name};

/// Size of the write buffer, in bytes. One write contains many blocks. A larger buffer was not
/// faster.
const WRITE_BUFFER_BYTES: usize = 128 << 10;

/// Largest size of a data block, in bytes. A block of this size can take one more entry without
/// overflowing its 32-bit lengths and restart points.
const MAX_BLOCK_BYTES: usize = 1 << 30;

/// Options for writing tables.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The order of the keys that will be added.
    pub order: KeyOrder,
    /// The policy of the filters in the filter block; `None` writes no filter block.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Bits per key (1 to 64) of the filter over all user keys; `None` writes no such filter.
    pub table_filter_bits_per_key: Option<u32>,
    /// The extractor of prefixes, and the bits per prefix (1 to 64) of the filter over the
    /// prefixes; `None` writes no such filter.
    pub prefix_filter: Option<(Arc<dyn PrefixExtractor>, u32)>,
    /// Size before compression, in bytes, at which a data block is finished. At most 1 GiB.
    pub block_bytes: usize,
    /// Number of entries between restart points in data blocks. At least 1.
    pub block_restart_interval: usize,
    /// Compression of the blocks.
    pub compression: Compression,
}

/// A summary of a finished table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSummary {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Total size of the filters, in bytes; 0 if the table has no filter.
    pub filter_bytes: u64,
    /// Size of the index block as stored, in bytes.
    pub index_bytes: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
}

/// Compares a block as it is stored, with its compression id, to its contents.
type BlockCheck = fn((&[u8], u8), &[u8]) -> Result<()>;

/// Writes one table.
///
/// Call order: `add` any number of times, in ascending key order, then `finish`. Dropping the
/// builder without calling `finish` abandons the table, and the caller must remove the file. After
/// an I/O error, every further call returns that error. Not thread-safe, but can be sent between
/// threads.
#[derive(Debug)]
pub struct TableBuilder {
    options: TableOptions,
    out: Output,
    compressor: Compressor,
    /// The check of each data block, if there is one.
    pub(super) check: Option<BlockCheck>,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<FilterBlockBuilder>,
    table_filter: Option<TableFilterBuilder>,
    prefix_filter: Option<TableFilterBuilder>,
    /// The expiry times of the entries; `None` if no entry expires.
    expiry: Option<TableExpiry>,
    /// Handle of the last finished data block. The block's index entry is written when the next key
    /// is known, so that the separator can be short.
    pending: Option<BlockHandle>,
    separator: Vec<u8>,
    /// The sum over the entries, as they are in the data blocks; if not `is_summed`, their number
    /// only.
    sum: EntrySum,
    is_summed: bool,
    data_blocks: u64,
}

impl TableBuilder {
    /// Creates a builder that writes to `file`, which must be empty. `path` appears in errors.
    pub fn new(file: Box<dyn WriteFile>, path: PathBuf, mut options: TableOptions) -> TableBuilder {
        options.block_bytes = options.block_bytes.min(MAX_BLOCK_BYTES);
        let mut filter = options.filter_policy.as_deref().map(FilterBlockBuilder::new);
        if let Some(filter) = &mut filter {
            filter.start_block(0);
        }
        TableBuilder {
            out: Output::new(file, path),
            compressor: Compressor::new(options.compression),
            check: None,
            data: BlockBuilder::new(options.block_restart_interval),
            index: BlockBuilder::new(1),
            filter,
            table_filter: options.table_filter_bits_per_key.map(TableFilterBuilder::new),
            prefix_filter: options.prefix_filter.as_ref().map(|(_, b)| TableFilterBuilder::new(*b)),
            expiry: None,
            pending: None,
            separator: Vec::new(),
            sum: EntrySum::default(),
            is_summed: true,
            data_blocks: 0,
            options,
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], if `key` does not come after the previous key, or if the key or
    /// the value is longer than 3 GiB - 1; the builder remains usable. An I/O error.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.out.check()?;
        self.check_entry(key, value)?;
        if let Some(handle) = self.pending.take() {
            self.separator.clear();
            self.separator.extend_from_slice(self.data.last_key());
            self.options.order.find_shortest_separator(&mut self.separator, key);
            self.add_to_index(handle);
        }
        self.add_to_filters(key);
        self.data.add(key, value);
        if self.is_summed {
            let (key, value) = self.data.last_entry(value.len());
            self.sum.add(key, value);
        } else {
            self.sum.entries += 1;
        }
        if self.data.estimated_bytes() >= self.options.block_bytes {
            self.end_data_block()?;
        }
        Ok(())
    }

    /// Sets the expiry times of the table's entries.
    pub(crate) fn set_expiry(&mut self, expiry: Option<TableExpiry>) {
        self.expiry = expiry;
    }

    /// Lets the builder count entries without a sum, which takes time.
    pub(crate) fn without_sum(mut self) -> TableBuilder {
        self.is_summed = false;
        self
    }

    /// Sets whether the builder undoes the compression of each data block, and compares.
    pub(crate) fn verify_compression(mut self, yes: bool) -> TableBuilder {
        self.check = yes.then_some(compress::check);
        self
    }

    /// Returns the sum over the entries added.
    pub(crate) fn sum(&self) -> Option<EntrySum> {
        self.is_summed.then_some(self.sum)
    }

    /// Returns the last key added; empty if none was added.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.data.last_key()
    }

    /// Returns the size of the data blocks so far, in bytes. The unfinished block counts with its
    /// uncompressed size.
    pub fn file_bytes(&self) -> u64 {
        let under_way = if self.data.is_empty() { 0 } else { self.data.estimated_bytes() };
        self.out.offset + under_way as u64
    }

    /// Writes the remaining parts, and syncs and closes the file. Syncing the directory is left to
    /// the caller. Returns a summary of the table.
    ///
    /// # Errors
    /// An I/O error, after which the file is not a valid table.
    pub fn finish(mut self) -> Result<TableSummary> {
        self.out.check()?;
        self.end_data_block()?;

        let filters = self.write_filters()?;
        let filter_bytes = filters.iter().map(|(_, handle)| handle.size).sum();
        let mut meta = filters;
        if let Some(expiry) = self.expiry {
            let handle = self.out.write_block((&expiry.encode(), ID_NONE))?;
            meta.push((EXPIRY_NAME.to_owned(), handle));
            meta.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        let mut metaindex = BlockBuilder::new(self.options.block_restart_interval);
        for (name, handle) in &meta {
            metaindex.add(name.as_bytes(), &encoded(*handle));
        }
        let metaindex = self.out.write_block(self.compressor.compress(metaindex.finish()))?;

        if let Some(handle) = self.pending.take() {
            self.separator.clear();
            self.separator.extend_from_slice(self.data.last_key());
            self.options.order.find_short_successor(&mut self.separator);
            self.add_to_index(handle);
        }
        let index = self.out.write_block(self.compressor.compress(self.index.finish()))?;
        self.out.append(&Footer { metaindex, index }.encode())?;
        self.out.sync()?;
        self.out.close()?;
        Ok(TableSummary {
            file_bytes: self.out.offset,
            entries: self.sum.entries,
            filter_bytes,
            index_bytes: index.size,
            data_blocks: self.data_blocks,
        })
    }

    fn check_entry(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let last = self.data.last_key();
        if self.sum.entries > 0 && self.options.order.compare(last, key) != Ordering::Less {
            return Err(Error::invalid(format!(
                "keys of a table must ascend: \"{}\" came after \"{}\"",
                excerpt(key),
                excerpt(last),
            )));
        }
        let limit = u32::MAX as usize - MAX_BLOCK_BYTES;
        if key.len() > limit || value.len() > limit {
            return Err(Error::invalid(format!(
                "an entry of {} + {} bytes is too long for a table (at most {limit} each)",
                key.len(),
                value.len(),
            )));
        }
        Ok(())
    }

    /// Ends the current data block, so that the next entry begins another. Does nothing if the
    /// block is empty.
    ///
    /// # Errors
    /// An I/O error. Corruption, if compression is verified and wrong.
    pub fn end_data_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let raw = self.data.finish();
        let stored = self.compressor.compress(raw);
        if let Some(check) = self.check {
            let checked = check(stored, raw);
            checked.inspect_err(|error| self.out.failed = Some(error.clone()))?;
        }
        debug_assert!(self.pending.is_none(), "a data block without an index entry");
        self.pending = Some(self.out.write_block(stored)?);
        self.data.reset();
        self.data_blocks += 1;
        if let Some(filter) = &mut self.filter {
            filter.start_block(self.out.offset);
        }
        Ok(())
    }

    fn add_to_filters(&mut self, key: &[u8]) {
        let user_key = self.options.order.user_key(key);
        if let Some(filter) = &mut self.filter {
            filter.add_key(user_key);
        }
        if let Some(filter) = &mut self.table_filter {
            filter.add_key(user_key);
        }
        if let Some(filter) = &mut self.prefix_filter
            && let Some((extractor, _)) = &self.options.prefix_filter
            && let Some(prefix) = extractor.prefix(user_key)
        {
            filter.add_key(prefix);
        }
    }

    /// Writes the filters. Returns the filters' names and handles, in the order of the metaindex.
    fn write_filters(&mut self) -> Result<Vec<(String, BlockHandle)>> {
        let mut filters = Vec::new();
        if let (Some(filter), Some(policy)) = (self.filter.take(), &self.options.filter_policy) {
            let handle = self.out.write_block((&filter.finish(), ID_NONE))?;
            filters.push(([FILTER_PREFIX, policy.name()].concat(), handle));
        }
        if let Some(filter) = self.table_filter.take() {
            let handle = self.out.write_block((&filter.finish(), ID_NONE))?;
            filters.push((TABLE_FILTER_NAME.to_owned(), handle));
        }
        if let (Some(filter), Some((extractor, _))) =
            (self.prefix_filter.take(), &self.options.prefix_filter)
        {
            let handle = self.out.write_block((&filter.finish(), ID_NONE))?;
            filters.push((prefix_filter_name(&**extractor), handle));
        }
        filters.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(filters)
    }

    fn add_to_index(&mut self, handle: BlockHandle) {
        debug_assert!(
            self.options.order.user().custom().is_some()
                || self.index.is_empty()
                || self.options.order.compare(self.index.last_key(), &self.separator).is_lt(),
            "separators do not ascend"
        );
        self.index.add(&self.separator, &encoded(handle));
    }
}

/// Returns the start of a key, escaped for an error message.
fn excerpt(key: &[u8]) -> impl std::fmt::Display {
    key[..key.len().min(64)].escape_ascii()
}

fn encoded(handle: BlockHandle) -> Vec<u8> {
    let mut bytes = Vec::new();
    handle.encode_to(&mut bytes);
    bytes
}

/// A buffered output file, which remembers the first error.
#[derive(Debug)]
struct Output {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Number of bytes written or buffered.
    offset: u64,
    failed: Option<Error>,
}

impl Output {
    fn new(file: Box<dyn WriteFile>, path: PathBuf) -> Output {
        let buffer = Vec::with_capacity(WRITE_BUFFER_BYTES);
        Output { file, path, buffer, offset: 0, failed: None }
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes a block and its trailer. Returns the block's handle.
    fn write_block(&mut self, (stored, id): (&[u8], u8)) -> Result<BlockHandle> {
        let handle = BlockHandle { offset: self.offset, size: stored.len() as u64 };
        self.append(stored)?;
        self.append(&block_trailer(stored, id))?;
        debug_assert_eq!(self.offset, handle.offset + handle.size + BLOCK_TRAILER_BYTES as u64);
        Ok(handle)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let direct = bytes.len() >= WRITE_BUFFER_BYTES / 2;
        if direct || self.buffer.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        if direct {
            let written = self.file.write(bytes);
            self.note("append", written)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.write(&self.buffer);
        self.buffer.clear();
        self.note("append", written)
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let synced = self.file.sync();
        self.note("sync", synced)
    }

    fn close(&mut self) -> Result<()> {
        let closed = self.file.close();
        self.note("close", closed)
    }

    fn note(&mut self, op: &'static str, result: std::io::Result<()>) -> Result<()> {
        result.map_err(|source| {
            let error = Error::io(op, &self.path, source);
            self.failed = Some(error.clone());
            error
        })
    }
}
