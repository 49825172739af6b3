//! The interface through which a lookup in a table reports its steps.
//!
//! There are three kinds of sinks: [`NoSink`], the counters [`LevelTrace`] and [`LevelTally`], and
//! the recorder behind `explain`.

use bytes::Bytes;

use crate::format::handle::BlockHandle;
use crate::format::key::{KeyKind, SeqNo};
use crate::table::counts::{LevelTally, LevelTrace};

/// Maximum length, in bytes, of values that are copied out of their block. A longer value shares
/// the memory of its cached block. With a higher limit, more bytes are copied, and values keep
/// fewer blocks alive.
pub(crate) const MAX_COPIED_VALUE_BYTES: usize = 1 << 10;

/// An entry found by a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The sequence number of the write; 0 in a table of plain user keys.
    pub seq: SeqNo,
    /// Whether the write was a put or a deletion; `Value` in a table of plain user keys.
    pub kind: KeyKind,
    /// The value. If it is longer than 1 KiB and comes from a cached block, it shares the block's
    /// memory.
    pub value: Bytes,
}

/// Receives every step of a lookup, in order. Lookups are compiled separately for each type of
/// sink, so that counting costs only the additions, and [`NoSink`] costs nothing.
pub(crate) trait TableSink {
    /// Whether the sink uses separators. A sink that does not use them receives empty separators,
    /// which need not be decoded.
    const HEARS_SEPARATORS: bool = false;

    /// Reports a query of the whole-table filter, and the filter's answer.
    fn table_filter(&mut self, may_match: bool);

    /// Reports whether the key was found after the whole-table filter had answered "maybe".
    fn table_filter_outcome(&mut self, found: bool);

    /// Reports that the index was searched. `entry` is `None` if every key of the table is less
    /// than the key looked up.
    fn index_seek(&mut self, entry: Option<IndexEntry<'_>>);

    /// Reports a query of the block's filter, and the filter's answer.
    fn block_filter(&mut self, may_match: bool);

    /// Reports whether the key was found after the block's filter had answered "maybe".
    fn block_filter_outcome(&mut self, found: bool);

    /// Reports that a data block is about to be read.
    fn data_block(&mut self, handle: BlockHandle, source: BlockSource);

    /// Reports that `bytes` bytes were read from the file.
    fn bytes_read(&mut self, bytes: u64);

    /// Reports that a block's checksum was verified.
    fn checksum_verified(&mut self);

    /// Reports that a block was decompressed to `bytes` bytes.
    fn bytes_decompressed(&mut self, bytes: u64);

    /// Reports a search of the data block, and the entry that it found.
    fn block_searched(&mut self, found: Option<&Found>);
}

/// An index entry found by a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexEntry<'a> {
    /// A key that is at or after the block's last key, and before the next block's first key. In
    /// the engine's tables, it is an internal key. Empty unless [`TableSink::HEARS_SEPARATORS`] is
    /// set.
    pub separator: &'a [u8],
    /// The location of the block.
    pub handle: BlockHandle,
}

/// The source of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum BlockSource {
    /// The block cache.
    Cache,
    /// The table's file.
    File,
}

/// Addition to a plain or an atomic counter, so that both kinds of counters share one
/// implementation of [`TableSink`].
trait Counter {
    fn count(&mut self, n: u64);
}

impl Counter for u64 {
    #[inline]
    fn count(&mut self, n: u64) {
        *self += n;
    }
}

macro_rules! counting_sink {
    ($sink:ty) => {
        impl TableSink for $sink {
            #[inline]
            fn table_filter(&mut self, may_match: bool) {
                self.table_filter_checks.count(1);
                if !may_match {
                    self.table_filter_negatives.count(1);
                }
            }

            #[inline]
            fn table_filter_outcome(&mut self, found: bool) {
                if found {
                    self.table_filter_true_positives.count(1);
                } else {
                    self.table_filter_false_positives.count(1);
                }
            }

            #[inline]
            fn index_seek(&mut self, _: Option<IndexEntry<'_>>) {
                self.index_seeks.count(1);
            }

            #[inline]
            fn block_filter(&mut self, may_match: bool) {
                self.filter_checks.count(1);
                if !may_match {
                    self.filter_negatives.count(1);
                }
            }

            #[inline]
            fn block_filter_outcome(&mut self, found: bool) {
                if found {
                    self.filter_true_positives.count(1);
                } else {
                    self.filter_false_positives.count(1);
                }
            }

            #[inline]
            fn data_block(&mut self, _: BlockHandle, source: BlockSource) {
                match source {
                    BlockSource::Cache => self.data_blocks_from_cache.count(1),
                    BlockSource::File => self.data_blocks_from_file.count(1),
                }
            }

            #[inline]
            fn bytes_read(&mut self, bytes: u64) {
                self.bytes_read.count(bytes);
            }

            #[inline]
            fn checksum_verified(&mut self) {
                self.checksums_verified.count(1);
            }

            #[inline]
            fn bytes_decompressed(&mut self, bytes: u64) {
                self.bytes_decompressed.count(bytes);
            }

            #[inline]
            fn block_searched(&mut self, _: Option<&Found>) {}
        }
    };
}

counting_sink!(LevelTrace);
counting_sink!(&LevelTally);

/// A sink that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoSink;

impl TableSink for NoSink {
    #[inline]
    fn table_filter(&mut self, _: bool) {}

    #[inline]
    fn table_filter_outcome(&mut self, _: bool) {}

    #[inline]
    fn index_seek(&mut self, _: Option<IndexEntry<'_>>) {}

    #[inline]
    fn block_filter(&mut self, _: bool) {}

    #[inline]
    fn block_filter_outcome(&mut self, _: bool) {}

    #[inline]
    fn data_block(&mut self, _: BlockHandle, _: BlockSource) {}

    #[inline]
    fn bytes_read(&mut self, _: u64) {}

    #[inline]
    fn checksum_verified(&mut self) {}

    #[inline]
    fn bytes_decompressed(&mut self, _: u64) {}

    #[inline]
    fn block_searched(&mut self, _: Option<&Found>) {}
}
