//! What can be set. Sizes are in bytes.

use std::sync::Arc;

use crate::base::{BytewiseComparator, Comparator, Error, Result};
use crate::engine::read::snapshot::Snapshot;
use crate::filter::whole_table::MAX_BITS_PER_KEY;
use crate::filter::{BloomFilterPolicy, FilterPolicy, PrefixExtractor};
use crate::format::compress::Compression;
use crate::format::edit::NUM_LEVELS;
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
    /// The per-block kind; `None` if no filter of any kind is to be written or asked.
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) filter: LevelFilter,
    pub(crate) level_filters: Vec<(usize, LevelFilter)>,
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    pub(crate) reuse_logs: bool,
    pub(crate) preallocate_logs: bool,
    pub(crate) comparator: Arc<dyn Comparator>,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) manifest_rotate_bytes: u64,
    pub(crate) inline_background: Option<u64>,
}

/// Where the filters of a new table are, and so what they save. LevelDB and goleveldb read all
/// such tables.
///
/// | | before a get is sure that a table does not have a key | LevelDB's gets |
/// | --- | --- | --- |
/// | `None` | it searches the index and a data block | the same |
/// | `Block` | it searches the index and asks a filter | the same |
/// | `Table` | it asks a filter | as with `None` |
/// | `Both` | it asks a filter | as with `Block` |
///
/// A whole-table filter costs some twenty nanoseconds a key more when the table is written, and is
/// wrong less often: by theory, at 10 bits a key, once in 256 times, and a bloom filter with
/// LevelDB's six probes once in 119. (Measured, LevelDB's is wrong about once in 100 times: its
/// probes are not independent.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum FilterLayout {
    /// No filters.
    None,
    /// LevelDB's: a bloom filter for the data blocks that begin in each 2 KiB.
    #[default]
    Block,
    /// One filter for the table's keys.
    Table,
    /// Both of them. minikv asks the table's, LevelDB the blocks'.
    Both,
}

/// The filters of the tables of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelFilter {
    layout: FilterLayout,
    bits_per_key: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            write_buffer_bytes: 4 << 20,
            max_open_files: 10_000,
            block_cache_bytes: 8 << 20,
            block_bytes: 4 << 10,
            block_restart_interval: 16,
            max_file_bytes: 2 << 20,
            compression: Compression::Snappy,
            filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
            filter: LevelFilter { layout: FilterLayout::Block, bits_per_key: 10 },
            level_filters: Vec::new(),
            prefix_extractor: None,
            reuse_logs: false,
            preallocate_logs: true,
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

    /// How many tables are kept open, each with its index and filters in memory: where entries are
    /// small, a twenty-fifth of the table. 16 at least. To read another, one of them is closed.
    /// Default: 10,000, which are 20 GiB of tables.
    ///
    /// They hold no more than half of the file descriptors the process may have; the file of a
    /// table beyond that is opened for each block that is read.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Options {
        self.max_open_files = files;
        self
    }

    /// How many bytes of uncompressed data blocks are kept in memory, with what makes them fast to
    /// search (up to a fifth of a block; nothing where entries are small). A block leaves with its
    /// table, too: see [`Options::max_open_files`]. The memory of those that left is kept for those
    /// that come. 0 keeps none. Default: 8 MiB.
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

    /// The per-block filter of new tables, and the one reads know. `None` writes and uses no
    /// filter of any kind. Default: LevelDB's bloom filter with 10 bits a key (LevelDB's own
    /// default is none).
    /// Filters are without effect under a comparator that takes different bytes for the same key
    /// ([`Comparator::equal_means_same_bytes`]).
    ///
    /// This and [`Options::filter`] set the same thing: the later call counts.
    #[must_use]
    pub fn filter_policy(mut self, policy: Option<Arc<dyn FilterPolicy>>) -> Options {
        let layout = if policy.is_some() { FilterLayout::Block } else { FilterLayout::None };
        self.filter.layout = layout;
        self.filter_policy = policy;
        self
    }

    /// Which filters new tables get, with `bits_per_key` bits a key, 1 to 64, for each. Reads ask
    /// the filters that are there. Default: [`FilterLayout::Block`], 10.
    #[must_use]
    pub fn filter(mut self, layout: FilterLayout, bits_per_key: u32) -> Options {
        self.filter_policy = Some(Arc::new(BloomFilterPolicy::new(bits_per_key)));
        self.filter = LevelFilter { layout, bits_per_key };
        self
    }

    /// [`Options::filter`] for the tables of one level, 0 to 6, whatever the others have. A custom
    /// [`Options::filter_policy`] stays the per-block kind here, too.
    ///
    /// A table has the filters of the level it was written for, also when it is moved down as it
    /// is. Most entries are at the last level that has any: without filters there, filters take
    /// about a tenth of the memory, and gets of absent keys read one data block more.
    ///
    /// ```
    /// use minikv::{FilterLayout, Options};
    ///
    /// let options = Options::default()
    ///     .filter(FilterLayout::Table, 12)
    ///     .filter_at_level(0, FilterLayout::Table, 16)
    ///     .filter_at_level(6, FilterLayout::None, 0);
    /// ```
    #[must_use]
    pub fn filter_at_level(
        mut self,
        level: usize,
        layout: FilterLayout,
        bits_per_key: u32,
    ) -> Options {
        if self.filter_policy.is_none() {
            self.filter_policy = Some(Arc::new(BloomFilterPolicy::new(bits_per_key)));
        }
        self.level_filters.retain(|(other, _)| *other != level);
        self.level_filters.push((level, LevelFilter { layout, bits_per_key }));
        self
    }

    /// Gives new tables a filter over the prefixes of their keys, too, by which a scan of one
    /// prefix leaves whole tables out: [`Db::prefix`](crate::Db::prefix), and ranges within one
    /// prefix. It takes the level's bits for each prefix; levels without filters have none.
    /// Needs byte order. Default: none.
    #[must_use]
    pub fn filter_prefix(mut self, extractor: impl PrefixExtractor) -> Options {
        self.prefix_extractor = Some(Arc::new(extractor));
        self
    }

    /// Continues the last log and MANIFEST at open, where they end cleanly, instead of starting
    /// new ones. Default: false.
    #[must_use]
    pub fn reuse_logs(mut self, yes: bool) -> Options {
        self.reuse_logs = yes;
        self
    }

    /// Whether a log may be longer than its records while it is written, by zeros. Default: true.
    ///
    /// Without it, each group of writes is appended with one system call (one of more than 1 MiB
    /// with several), and what a killed process leaves of the log ends with a record, or inside
    /// one as LevelDB's own logs do. That is for readers that take zeros for damage: goleveldb
    /// with `StrictJournal`; and LevelDB with `paranoid_checks`, if the process was killed in the
    /// middle of writing a record that crosses 32 KiB of the log. All others read both kinds.
    /// Unsynced puts take longer, and so do synced ones.
    #[must_use]
    pub fn preallocate_logs(mut self, yes: bool) -> Options {
        self.preallocate_logs = yes;
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
        if let Some((option, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(format!("{option} cannot be 0")));
        }
        self.check_filters()?;
        Ok(self)
    }

    fn check_filters(&self) -> Result<()> {
        if let Some((level, _)) = self.level_filters.iter().find(|(level, _)| *level >= NUM_LEVELS)
        {
            return Err(Error::invalid(format!("there is no level {level} to have filters")));
        }
        let levels = self.level_filters.iter().map(|(_, filter)| filter);
        for LevelFilter { layout, bits_per_key } in levels.chain([&self.filter]) {
            if *layout != FilterLayout::None && !(1..=MAX_BITS_PER_KEY).contains(bits_per_key) {
                return Err(Error::invalid(format!(
                    "a filter has 1 to {MAX_BITS_PER_KEY} bits a key, not {bits_per_key}"
                )));
            }
        }
        let order = self.comparator.name();
        if self.prefix_extractor.is_some() && order != BytewiseComparator.name() {
            return Err(Error::invalid(format!(
                "filter_prefix needs byte order; this database is in the order of {order}"
            )));
        }
        Ok(())
    }

    /// The filter policy, if filters may be used under the order of keys.
    pub(crate) fn usable_filter_policy(&self) -> Option<Arc<dyn FilterPolicy>> {
        self.filter_policy.clone().filter(|_| self.comparator.equal_means_same_bytes())
    }

    /// How new tables of a level are built.
    pub(crate) fn table_options(&self, order: &InternalComparator, level: usize) -> TableOptions {
        let own = self.level_filters.iter().find(|(other, _)| *other == level);
        let LevelFilter { layout, bits_per_key } = own.map_or(self.filter, |(_, filter)| *filter);
        let has_block = matches!(layout, FilterLayout::Block | FilterLayout::Both);
        let has_table = matches!(layout, FilterLayout::Table | FilterLayout::Both);
        let bloom = BloomFilterPolicy::new(bits_per_key);
        let policy = match self.usable_filter_policy() {
            Some(policy) if own.is_some() && policy.name() == bloom.name() => {
                Some(Arc::new(bloom) as Arc<dyn FilterPolicy>)
            }
            policy => policy,
        };
        let bits = (policy.is_some() && layout != FilterLayout::None).then_some(bits_per_key);
        TableOptions {
            order: KeyOrder::Internal(order.clone()),
            filter_policy: policy.filter(|_| has_block),
            table_filter_bits_per_key: bits.filter(|_| has_table),
            prefix_filter: self.prefix_extractor.clone().zip(bits),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits a key of the three kinds of filters that tables of a level get; 0 for none.
    fn bits(options: &Options, level: usize) -> [u32; 3] {
        let order = InternalComparator::new(Arc::new(BytewiseComparator));
        let table = options.table_options(&order, level);
        let block = table.filter_policy.map_or(0, |policy| {
            let mut filter = Vec::new();
            policy.create(&[&b"key"[..]; 800], &mut filter);
            filter.len() as u32 / 100
        });
        let prefix = table.prefix_filter.map_or(0, |(_, bits)| bits);
        [block, table.table_filter_bits_per_key.unwrap_or(0), prefix]
    }

    #[test]
    fn each_level_has_its_filters() {
        let default = Options::default();
        assert_eq!(bits(&default, 0), [10, 0, 0]);
        let options = default
            .filter_prefix(crate::filter::FixedPrefix::new(4))
            .filter(FilterLayout::Both, 12)
            .filter_at_level(1, FilterLayout::Block, 8)
            .filter_at_level(2, FilterLayout::Table, 16)
            .filter_at_level(3, FilterLayout::None, 5)
            .filter_at_level(4, FilterLayout::None, 5)
            .filter_at_level(4, FilterLayout::Both, 6);
        let expected = [[12, 12, 12], [8, 0, 8], [0, 16, 16], [0, 0, 0], [6, 6, 6], [12, 12, 12]];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|level| bits(&options, level)), expected);
    }

    #[test]
    fn the_later_of_policy_and_layout_counts() {
        let bloom = |bits| Some(Arc::new(BloomFilterPolicy::new(bits)) as Arc<dyn FilterPolicy>);
        let of = |options: Options| bits(&options, 0);
        let layout = Options::default().filter(FilterLayout::Table, 16);
        assert_eq!(of(layout.clone()), [0, 16, 0]);
        assert_eq!(of(layout.clone().filter_policy(bloom(4))), [4, 0, 0]);
        assert_eq!(of(layout.clone().filter_policy(None)), [0, 0, 0]);
        assert_eq!(of(layout.filter_policy(None).filter(FilterLayout::Both, 9)), [9, 9, 0]);
        let none = Options::default().filter_policy(None);
        assert!(none.usable_filter_policy().is_none());
        let one_level = none.filter_at_level(2, FilterLayout::Both, 9);
        assert_eq!((of(one_level.clone()), bits(&one_level, 2)), ([0, 0, 0], [9, 9, 0]));
    }

    /// Byte order, but case does not count.
    #[derive(Debug)]
    struct CaseBlind;

    impl Comparator for CaseBlind {
        fn name(&self) -> &str {
            "test.CaseBlind"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }

        fn equal_means_same_bytes(&self) -> bool {
            false
        }
    }

    #[test]
    fn keys_that_are_equal_in_other_bytes_get_no_filters() {
        let options = Options::default().comparator(Arc::new(CaseBlind));
        assert_eq!(bits(&options.clone().filter(FilterLayout::Both, 10), 0), [0, 0, 0]);
        let prefix = options.filter_prefix(crate::filter::FixedPrefix::new(4));
        assert!(prefix.checked().unwrap_err().to_string().contains("test.CaseBlind"));
    }
}
