//! What can be set. Sizes are in bytes.

use std::sync::Arc;

use crate::base::{BytewiseComparator, Comparator, Error, Result};
use crate::engine::reader::Snapshot;
use crate::filter::{BloomFilterPolicy, FilterPolicy};
use crate::format::compress::Compression;
use crate::format::key::{InternalComparator, KeyOrder};
use crate::fs::{DiskFs, Fs};
use crate::table::builder::TableOptions;
use crate::table::reader::BlockReadOptions;

/// How a database is opened and how its new files are written.
///
/// Every option has LevelDB's meaning and, unless it says otherwise, LevelDB's default. The
/// defaults write files that LevelDB 1.20 and later and goleveldb read completely.
///
/// ```
/// let options = minikv::Options::default().create_if_missing(true).write_buffer_bytes(64 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) paranoid_checks: bool,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) max_open_files: usize,
    pub(crate) block_cache_bytes: usize,
    pub(crate) block_bytes: usize,
    pub(crate) block_restart_interval: usize,
    pub(crate) max_file_bytes: u64,
    pub(crate) compression: Compression,
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) reuse_logs: bool,
    pub(crate) comparator: Arc<dyn Comparator>,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) manifest_rotate_bytes: u64,
    pub(crate) inline_background: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            write_buffer_bytes: 4 << 20,
            max_open_files: 1000,
            block_cache_bytes: 8 << 20,
            block_bytes: 4 << 10,
            block_restart_interval: 16,
            max_file_bytes: 2 << 20,
            compression: Compression::Snappy,
            filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
            reuse_logs: false,
            comparator: Arc::new(BytewiseComparator),
            fs: Arc::new(DiskFs),
            manifest_rotate_bytes: 1 << 20,
            inline_background: None,
        }
    }
}

impl Options {
    /// Makes the database if there is none. Default: false, and opening nothing is an error.
    #[must_use]
    pub fn create_if_missing(mut self, yes: bool) -> Options {
        self.create_if_missing = yes;
        self
    }

    /// Fails if there is a database already. Default: false.
    #[must_use]
    pub fn error_if_exists(mut self, yes: bool) -> Options {
        self.error_if_exists = yes;
        self
    }

    /// Fails at the first damage that could otherwise be worked around: a bad record inside a
    /// log refuses the open instead of ending the log there, and an index block is checked whole
    /// when its table is opened. Default: false.
    ///
    /// `docs/durability.md` has every case.
    #[must_use]
    pub fn paranoid_checks(mut self, yes: bool) -> Options {
        self.paranoid_checks = yes;
        self
    }

    /// How much a memtable holds before it is frozen and flushed to a table. Up to three times
    /// as much may be in memory while flushes lag. Default: 4 MiB.
    #[must_use]
    pub fn write_buffer_bytes(mut self, bytes: usize) -> Options {
        self.write_buffer_bytes = bytes;
        self
    }

    /// How many tables are kept open, each with its index and filters in memory; 16 at least.
    /// Default: 1000.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Options {
        self.max_open_files = files;
        self
    }

    /// How many bytes of uncompressed data blocks are kept in memory. 0 keeps none.
    /// Default: 8 MiB.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: usize) -> Options {
        self.block_cache_bytes = bytes;
        self
    }

    /// The size at which a data block is ended, before compression. Default: 4 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Options {
        self.block_bytes = bytes;
        self
    }

    /// Every how many keys a block stores one whole, to search from. Default: 16.
    #[must_use]
    pub fn block_restart_interval(mut self, keys: usize) -> Options {
        self.block_restart_interval = keys;
        self
    }

    /// The size at which a compaction ends a table and begins the next. LevelDB's
    /// `max_file_size`. Default: 2 MiB.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Options {
        self.max_file_bytes = bytes;
        self
    }

    /// How blocks of new tables are compressed; any table is read. Default: snappy.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Options {
        self.compression = compression;
        self
    }

    /// The filter of new tables, and the one reads know. `None` writes and uses none.
    /// Default: LevelDB's bloom filter with 10 bits a key (LevelDB's own default is none).
    /// Without effect under a comparator that takes different bytes for the same key
    /// ([`Comparator::equal_means_same_bytes`]).
    #[must_use]
    pub fn filter_policy(mut self, policy: Option<Arc<dyn FilterPolicy>>) -> Options {
        self.filter_policy = policy;
        self
    }

    /// Continues the last log and MANIFEST at open, where they end cleanly, instead of starting
    /// new ones. Default: false.
    #[must_use]
    pub fn reuse_logs(mut self, yes: bool) -> Options {
        self.reuse_logs = yes;
        self
    }

    /// The order of keys. It must be the one the database was made with. Default: byte order.
    #[must_use]
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Options {
        self.comparator = comparator;
        self
    }

    /// Where the files live. Default: the disk.
    #[must_use]
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Options {
        self.fs = fs;
        self
    }
}

/// For tests of the engine itself.
#[doc(hidden)]
impl Options {
    /// A MANIFEST longer than this, and than twice what its version takes, is started anew.
    /// Default: 1 MiB.
    #[must_use]
    pub fn manifest_rotate_bytes(mut self, bytes: u64) -> Options {
        self.manifest_rotate_bytes = bytes;
        self
    }

    /// Starts no threads: writers and waiters do the flushes and compactions, when the seed says
    /// so. One thread that uses the database then always does the same operations in the same
    /// order. Default: `None`, threads.
    #[must_use]
    pub fn inline_background(mut self, seed: Option<u64>) -> Options {
        self.inline_background = seed;
        self
    }
}

impl Options {
    /// The options, if they can be meant.
    pub(crate) fn checked(self) -> Result<Options> {
        let positive = [
            ("write_buffer_bytes", self.write_buffer_bytes),
            ("block_bytes", self.block_bytes),
            ("block_restart_interval", self.block_restart_interval),
            ("max_open_files", self.max_open_files),
            ("max_file_bytes", usize::try_from(self.max_file_bytes).unwrap_or(usize::MAX)),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((option, _)) => Err(Error::invalid(format!("{option} cannot be 0"))),
            None => Ok(self),
        }
    }

    /// The filter policy, if filters may be used under the order of keys.
    pub(crate) fn usable_filter_policy(&self) -> Option<Arc<dyn FilterPolicy>> {
        self.filter_policy.clone().filter(|_| self.comparator.equal_means_same_bytes())
    }

    /// How new tables are built.
    pub(crate) fn table_options(&self, order: &InternalComparator) -> TableOptions {
        TableOptions {
            order: KeyOrder::Internal(order.clone()),
            filter_policy: self.usable_filter_policy(),
            block_bytes: self.block_bytes,
            block_restart_interval: self.block_restart_interval,
            compression: self.compression,
        }
    }
}

/// How one read is done.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub(crate) verify_checksums: bool,
    pub(crate) fill_cache: bool,
    pub(crate) use_filter: bool,
    pub(crate) snapshot: Option<Snapshot>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { verify_checksums: true, fill_cache: true, use_filter: true, snapshot: None }
    }
}

impl ReadOptions {
    /// Checks the checksum of every block read from a file. Default: true (LevelDB: false).
    #[must_use]
    pub fn verify_checksums(mut self, yes: bool) -> ReadOptions {
        self.verify_checksums = yes;
        self
    }

    /// Puts blocks read from a file into the block cache. Default: true.
    #[must_use]
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.fill_cache = yes;
        self
    }

    /// Asks filters before reading data blocks. Default: true. With false the same files are
    /// read as if they had none: what a filter saves is the difference.
    #[must_use]
    pub fn use_filter(mut self, yes: bool) -> ReadOptions {
        self.use_filter = yes;
        self
    }

    /// Reads the database as it was when `snapshot` was taken. Default: as it is now.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> ReadOptions {
        self.snapshot = Some(snapshot.clone());
        self
    }
}

impl ReadOptions {
    pub(crate) fn block_options(&self) -> BlockReadOptions {
        BlockReadOptions {
            verify_checksums: self.verify_checksums,
            fill_cache: self.fill_cache,
            use_filter: self.use_filter,
        }
    }
}

/// How one write is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) sync: bool,
}

impl WriteOptions {
    /// Returns only when the write would survive a loss of power. Default: false, and it
    /// survives the end of the process.
    #[must_use]
    pub fn sync(mut self, yes: bool) -> WriteOptions {
        self.sync = yes;
        self
    }
}
