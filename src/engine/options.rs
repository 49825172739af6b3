//! Options for opening, reading and writing. Sizes are in bytes.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::clock::Clock;
use crate::base::{BytewiseComparator, Comparator, Error, Result};
use crate::engine::compact::filter::{CompactionDecision, CompactionFilter};
use crate::engine::report::event::{Observed, Observer};
use crate::engine::resources::Resources;
use crate::engine::stats::sample::ReadSample;
use crate::filter::keyspace::KeyspacePrefixes;
use crate::filter::whole_table::MAX_BITS_PER_KEY;
use crate::filter::{BloomFilterPolicy, FilterPolicy, PrefixExtractor};
use crate::format::compress::Compression;
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{InternalComparator, KeyOrder};
use crate::format::keyspace::Space;
use crate::fs::{DiskFs, Fs};
use crate::table::block_cache::BlockCache;
use crate::table::builder::TableOptions;
use crate::table::reader::{BlockReadOptions, TableContext};

/// Options of a database: how it is opened, and how its new files are written.
///
/// An option that LevelDB also has means the same as in LevelDB, and has LevelDB's default unless
/// its description says otherwise. LevelDB, from version 1.20 on, and goleveldb can read all files
/// that are written with the default options.
///
/// ```
/// let options = minikv::Options::default().create_if_missing(true).write_buffer_bytes(64 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) paranoid_checks: bool,
    pub(crate) allow_no_lock: bool,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) max_open_files: usize,
    pub(crate) map_tables: bool,
    pub(crate) block_cache_bytes: usize,
    pub(crate) block_bytes: usize,
    pub(crate) block_restart_interval: usize,
    pub(crate) max_file_bytes: u64,
    /// The compression of new tables; `None` for that of the database's tables.
    pub(crate) compression: Option<Compression>,
    filters: Filters,
    /// The filters of levels that have filters of their own.
    level_filters: Vec<(usize, Filters)>,
    /// The policy of block filters; `None` for LevelDB's bloom filter.
    filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// The prefix extractor for all keys, composed of the extractors in the next two fields.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// The prefix extractor for keys outside of keyspaces.
    outer_prefix: Option<Arc<dyn PrefixExtractor>>,
    /// The prefix extractors for keys in keyspaces, with the names of the keyspaces.
    keyspace_prefixes: Vec<(Vec<u8>, Arc<dyn PrefixExtractor>)>,
    pub(crate) compaction_filter: Option<CompactionFilter>,
    pub(crate) observer: Option<Observed>,
    pub(crate) sample: Option<ReadSample>,
    pub(crate) resources: Resources,
    pub(crate) reuse_logs: bool,
    pub(crate) preallocate_logs: bool,
    pub(crate) verify_compression: bool,
    pub(crate) keep_logs_bytes: u64,
    pub(crate) keep_logs_for: Duration,
    pub(crate) clock: Clock,
    pub(crate) comparator: Arc<dyn Comparator>,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) manifest_rotate_bytes: u64,
    pub(crate) inline_background: Option<u64>,
}

/// The filters of new tables. Each kind has a number of bits per key, 1 to 64.
///
/// The kind determines the work that a get does in a table that does not contain the key:
///
/// | filters | work of a get in minikv | work of a get in LevelDB |
/// | --- | --- | --- |
/// | `None` | searches the index and a data block | the same |
/// | `Block` | searches the index and queries a filter | the same |
/// | `Table` | queries a filter | as with `None` |
/// | `Both` | queries a filter | as with `Block` |
///
/// LevelDB and goleveldb can read tables with all kinds of filters.
///
/// A whole-table filter takes about twenty nanoseconds more per key to build, and has fewer false
/// positives: in theory one in 256 at 10 bits per key, against one in 119 for a bloom filter with
/// LevelDB's six probes. (Measurements of LevelDB's filters show about one in 100, because their
/// probes are not independent.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(into = "LayoutAndBits"))]
#[non_exhaustive]
pub enum Filters {
    /// No filters.
    None,
    /// LevelDB's filters: one bloom filter for the data blocks that begin in each 2 KiB of the
    /// file.
    Block(u32),
    /// One filter for all keys of the table.
    Table(u32),
    /// Both kinds of filters. minikv queries the whole-table filter, LevelDB the block filters.
    Both(u32),
}

impl Default for Filters {
    /// Returns LevelDB's filters with 10 bits per key.
    fn default() -> Filters {
        Filters::Block(10)
    }
}

impl Filters {
    /// Returns the number of bits per key, or `None` without filters.
    pub fn bits_per_key(self) -> Option<u32> {
        match self {
            Filters::None => None,
            Filters::Block(bits) | Filters::Table(bits) | Filters::Both(bits) => Some(bits),
        }
    }

    /// Returns whether tables get LevelDB's filters.
    pub fn has_block(self) -> bool {
        match self {
            Filters::None | Filters::Table(_) => false,
            Filters::Block(_) | Filters::Both(_) => true,
        }
    }

    /// Returns whether tables get a filter for all of their keys.
    pub fn has_table(self) -> bool {
        match self {
            Filters::None | Filters::Block(_) => false,
            Filters::Table(_) | Filters::Both(_) => true,
        }
    }
}

/// The JSON of filters.
#[cfg(feature = "serde")]
#[derive(serde::Serialize)]
struct LayoutAndBits {
    layout: &'static str,
    bits_per_key: u32,
}

#[cfg(feature = "serde")]
impl From<Filters> for LayoutAndBits {
    fn from(filters: Filters) -> LayoutAndBits {
        let layout = match filters {
            Filters::None => "none",
            Filters::Block(_) => "block",
            Filters::Table(_) => "table",
            Filters::Both(_) => "both",
        };
        LayoutAndBits { layout, bits_per_key: filters.bits_per_key().unwrap_or(0) }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            allow_no_lock: false,
            write_buffer_bytes: 4 << 20,
            max_open_files: 10_000,
            map_tables: false,
            block_cache_bytes: 8 << 20,
            block_bytes: 4 << 10,
            block_restart_interval: 16,
            max_file_bytes: 2 << 20,
            compression: None,
            filters: Filters::default(),
            level_filters: Vec::new(),
            filter_policy: None,
            prefix_extractor: None,
            outer_prefix: None,
            keyspace_prefixes: Vec::new(),
            compaction_filter: None,
            observer: None,
            sample: None,
            resources: Resources::default(),
            reuse_logs: false,
            preallocate_logs: true,
            verify_compression: false,
            keep_logs_bytes: 0,
            keep_logs_for: Duration::ZERO,
            clock: Clock::default(),
            comparator: Arc::new(BytewiseComparator),
            fs: Arc::new(DiskFs),
            manifest_rotate_bytes: 1 << 20,
            inline_background: None,
        }
    }
}

impl Options {
    /// Creates the database if it does not exist. Default: false, so that opening a missing
    /// database fails with [`Error::DatabaseMissing`](crate::Error::DatabaseMissing).
    #[must_use]
    pub fn create_if_missing(mut self, yes: bool) -> Options {
        self.create_if_missing = yes;
        self
    }

    /// Size in bytes at which a memtable is frozen and flushed to a table. With a larger size,
    /// there are larger tables and fewer compactions, and the replay at open takes longer. While
    /// flushes lag behind, writes wait before the memtables take more than twice this size.
    /// Default: 4 MiB.
    #[must_use]
    pub fn write_buffer_bytes(mut self, bytes: usize) -> Options {
        self.write_buffer_bytes = bytes;
        self
    }

    /// Size of the block cache in bytes. The cache holds uncompressed data blocks and their lookup
    /// structures. The lookup structures of a block take up to a fifth of the block's size (nothing
    /// if its entries are small). When a table is closed, its blocks are dropped, too: see
    /// [`Options::max_open_files`]. The memory of dropped blocks is reused for new blocks. A size
    /// of 0 turns the cache off. Default: 8 MiB.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: usize) -> Options {
        self.block_cache_bytes = bytes;
        self
    }

    /// Compression of the blocks of new tables. Existing tables stay readable.
    ///
    /// By default, new tables have the compression of the newest compressed table, so that programs
    /// that read the database can still read it: a world of Minecraft keeps deflate. If the tables
    /// are not compressed, neither are new ones. New databases get snappy, like LevelDB's. A
    /// compression given here is used whatever the tables have;
    /// [`Db::compression`](crate::Db::compression) tells who cannot read them.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Options {
        self.compression = Some(compression);
        self
    }

    /// Filters of new tables. Default: [`Filters::Block`] with 10 bits per key (LevelDB's own
    /// default is no filter). Reads use whatever filters a table has, except with
    /// [`Filters::None`]: then filters are neither written nor used, unless some level has filters
    /// of its own ([`Options::filters_at_level`]).
    ///
    /// Filters have no effect with a comparator that may consider different byte strings to be the
    /// same key ([`Comparator::equal_means_same_bytes`]).
    #[must_use]
    pub fn filters(mut self, filters: Filters) -> Options {
        self.filters = filters;
        self
    }

    /// Order of the keys. A database can be opened only with the comparator that it was created
    /// with; the comparator is recognised by its name. Default: byte order.
    #[must_use]
    pub fn comparator(mut self, comparator: impl Comparator) -> Options {
        self.comparator =
            shared::<_, dyn Comparator>(comparator, |comparator| Arc::new(comparator));
        self
    }

    /// Rule that compactions apply to the entries that they read: it gets a key and its value, and
    /// decides whether to keep the entry, to remove it or to change its value. Default: none.
    ///
    /// ```
    /// use minikv::{CompactionDecision, Db, Options, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// let options = Options::default().create_if_missing(true).compaction_filter(|key, _value| {
    ///     match key.starts_with(b"tmp/") {
    ///         true => CompactionDecision::Remove,
    ///         false => CompactionDecision::Keep,
    ///     }
    /// });
    /// let db = Db::open(dir.path(), options)?;
    /// db.put("tmp/1", "")?;
    /// db.put("user/1", "")?;
    /// db.compact_range(..)?;
    /// assert_eq!(db.iter().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Reads show an entry as it was put until a compaction has read it. Flushes do not call the
    /// rule, nor do compactions that only move a table to another level. [`Db::compact_range`]
    /// reads every entry of its range. The rule is not called for deletions, for overwritten
    /// versions, or for entries shown by a snapshot that exists when the compaction begins.
    /// Iterators, cursors, and snapshots that are taken while the compaction runs go on showing the
    /// entries as they were before the compaction.
    ///
    /// A change made by the rule is not a write: it conflicts with no transaction, and no log
    /// contains it. The rule is called by several threads at once, with the keys of keyspaces as
    /// the database stores them, and may be called again for entries that it kept. The rule may
    /// read the database, but calls that change the database or wait for its background work fail
    /// with [`Error::InvalidArgument`], because the compaction would wait for itself; so do those
    /// for a database that shares its threads ([`Resources::compaction_threads`]). It may change
    /// other databases, but rules of two databases that change each other may wait for each other
    /// for ever. If the rule panics, the compaction fails with [`Error::Panicked`], and the
    /// database takes no more writes until [`Db::resume`].
    ///
    /// [`Db::compact_range`]: crate::Db::compact_range
    /// [`Db::resume`]: crate::Db::resume
    /// [`Resources::compaction_threads`]: crate::Resources::compaction_threads
    #[must_use]
    pub fn compaction_filter(
        mut self,
        filter: impl Fn(&[u8], &[u8]) -> CompactionDecision + Send + Sync + 'static,
    ) -> Options {
        self.compaction_filter = Some(CompactionFilter::new(filter));
        self
    }

    /// Observer of the database's flushes, compactions, changes of tables, and write stalls.
    /// Default: none.
    ///
    /// ```
    /// use minikv::events::{Event, EventKind};
    /// use minikv::{Db, Options};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let flushed_bytes = Arc::new(AtomicU64::new(0));
    /// let counter = flushed_bytes.clone();
    /// let options = Options::default().create_if_missing(true).observer(move |event: &Event| {
    ///     if let EventKind::FlushEnded { table: Some(table), .. } = &event.kind {
    ///         counter.fetch_add(table.file_bytes, Relaxed);
    ///     }
    /// });
    /// let db = Db::open(dir.path(), options)?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let counted = db.stats().flush_bytes;
    /// db.close()?;
    /// assert_eq!(flushed_bytes.load(Relaxed), counted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The database calls the observer from a thread of its own, for one event at a time, without
    /// holding a lock: the observer may use the database (an observer that owns a clone of the `Db`
    /// keeps the database open until [`Db::close`]). The database does not wait for the observer,
    /// so events take memory until they are delivered. When [`Db::close`] returns, or the last
    /// clone of the `Db` is dropped, all events have been delivered: an observer must not wait for
    /// a thread that does one of these, such as by work of another database, in whose callback
    /// that thread is. If the observer panics, the database takes no more writes until
    /// [`Db::resume`], but the next event is still delivered.
    ///
    /// [`Db::close`]: crate::Db::close
    /// [`Db::resume`]: crate::Db::resume
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Options {
        self.observer = Some(Observed(Arc::new(observer)));
        self
    }

    /// Sample of the keys of gets and of the ranges of scans, which the database fills and the
    /// program reads. It costs a lock for one get in 256 or, at first, for every get. Default:
    /// none, so that no key is kept.
    #[must_use]
    pub fn sample_reads(mut self, sample: &ReadSample) -> Options {
        self.sample = Some(sample.clone());
        self
    }

    /// Block cache, background threads, background I/O limit, and memory budget that the database
    /// shares with others. Default: nothing is shared, and there is no I/O limit and no memory
    /// budget.
    #[must_use]
    pub fn resources(mut self, resources: &Resources) -> Options {
        self.resources = resources.clone();
        self
    }

    /// Size in bytes at which a compaction begins a new table. A table above the last level may
    /// have half to twice this size, so that it ends where tables of the next level do. Larger
    /// tables mean fewer files, but each compaction takes longer. LevelDB calls this option
    /// `max_file_size`. Default: 2 MiB.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Options {
        self.max_file_bytes = bytes;
        self
    }

    /// Size in bytes, before compression, at which a data block is complete. Larger blocks compress
    /// better, but every get that reads a block reads more bytes. Default: 4 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Options {
        self.block_bytes = bytes;
        self
    }

    /// When the database is opened, continues the last log and the MANIFEST if they end cleanly,
    /// instead of starting new ones. Default: false.
    #[must_use]
    pub fn reuse_logs(mut self, yes: bool) -> Options {
        self.reuse_logs = yes;
        self
    }

    /// Total size in bytes up to which logs are kept after their writes were flushed, so that
    /// [`Db::changes_since`](crate::Db::changes_since) and
    /// [`ReadOnlyDb::changes_since`](crate::ReadOnlyDb::changes_since) can read further back. Logs
    /// that are not flushed yet do not count. Default: 0, which removes a log at once, unless
    /// [`Options::keep_logs_for`] keeps it.
    ///
    /// A log is kept as long as *either* option says so. Logs beyond both limits are removed at the
    /// next flush and at the next open, the oldest first. An open without these options removes all
    /// kept logs, and so does an open by LevelDB or goleveldb. Kept logs are read for changes only:
    /// no open replays them, and no checkpoint or backup copies them. Each log is synced once in
    /// the background, before it counts as flushed.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// // Readers may fall behind by 256 MiB of writes, or by an hour if that is more.
    /// let options = minikv::Options::default()
    ///     .keep_logs_bytes(256 << 20)
    ///     .keep_logs_for(Duration::from_secs(3600));
    /// ```
    #[must_use]
    pub fn keep_logs_bytes(mut self, bytes: u64) -> Options {
        self.keep_logs_bytes = bytes;
        self
    }

    /// Age up to which logs are kept after their writes were flushed; [`Options::keep_logs_bytes`]
    /// describes kept logs. The age of a log is the time since the last write to it; on a custom
    /// filesystem that does not record that time ([`Fs::modified`]), it is the time since the flush
    /// or the open. Default: zero.
    #[must_use]
    pub fn keep_logs_for(mut self, age: Duration) -> Options {
        self.keep_logs_for = age;
        self
    }
}

/// # Rarely needed
impl Options {
    /// Makes opening an existing database fail with
    /// [`Error::DatabaseExists`](crate::Error::DatabaseExists). Default: false.
    #[must_use]
    pub fn error_if_exists(mut self, yes: bool) -> Options {
        self.error_if_exists = yes;
        self
    }

    /// Opens a database also on a filesystem that has no locks, such as some network filesystems
    /// and shared folders. There, nothing keeps another process from writing to the same database,
    /// which damages it beyond repair: set this only if the program makes sure of it by other
    /// means. Within this process, and on every filesystem that has locks, the database is locked
    /// as always. [`Health::has_lock`](crate::Health::has_lock) tells which it is. Default: false.
    #[must_use]
    pub fn allow_no_lock(mut self, yes: bool) -> Options {
        self.allow_no_lock = yes;
        self
    }

    /// Treats damage as an error even where the database could work around it: a bad record inside
    /// a log makes the open fail instead of ending the log there, and the whole index block of a
    /// table is checked when the table is opened. Default: false.
    ///
    /// `docs/durability.md` lists all cases.
    #[must_use]
    pub fn paranoid_checks(mut self, yes: bool) -> Options {
        self.paranoid_checks = yes;
        self
    }

    /// Maximum number of tables kept open. The index and filters of an open table are in memory;
    /// with small entries, they take about a twenty-fifth of the table's size. At the limit,
    /// opening a table closes another one. Values below 16 count as 16. Default: 10,000, which is
    /// 20 GiB of tables of the default size.
    ///
    /// Open tables use at most half of the file descriptors that the process may have. The file of
    /// any further table is opened anew for each block read.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Options {
        self.max_open_files = files;
        self
    }

    /// Reads tables through memory mappings, as LevelDB does: a get from a table in the system's
    /// page cache then takes some 30 % less time. While many reads have to wait for the disk, they
    /// do without the mappings.
    ///
    /// A failing disk, or a program that makes a table shorter while it is open, then ends the
    /// process with `SIGBUS`; without mappings, the read returns an error. Mapped tables count as
    /// memory of the process, which the system takes back when it needs it. Has no effect on
    /// Windows, on 32-bit systems, and with a filesystem ([`Options::fs`]) that is not the
    /// operating system's. Default: false.
    #[must_use]
    pub fn map_tables(mut self, yes: bool) -> Options {
        self.map_tables = yes;
        self
    }

    /// Number of entries between restart points. A block stores whole keys at restart points only,
    /// and searches start at restart points, so a higher number makes blocks smaller and searches
    /// longer. Default: 16.
    #[must_use]
    pub fn block_restart_interval(mut self, keys: usize) -> Options {
        self.block_restart_interval = keys;
        self
    }

    /// Like [`Options::filters`], but only for the new tables of one level, 0 to 6.
    ///
    /// A table keeps the filters of the level that it was written for, even when it is moved to
    /// another level unchanged. Most entries are at the last level in use: if the tables of that
    /// level have no filters, all filters together take about a tenth of the memory, and gets of
    /// absent keys read one more data block.
    ///
    /// ```
    /// use minikv::{Filters, Options};
    ///
    /// let options = Options::default()
    ///     .filters(Filters::Table(12))
    ///     .filters_at_level(0, Filters::Table(16))
    ///     .filters_at_level(6, Filters::None);
    /// ```
    #[must_use]
    pub fn filters_at_level(mut self, level: usize, filters: Filters) -> Options {
        self.level_filters.retain(|(other, _)| *other != level);
        self.level_filters.push((level, filters));
        self
    }

    /// Policy that makes and queries block filters, in place of LevelDB's bloom filter. Reads use
    /// only the block filters that were written with a policy of the same name. Default: LevelDB's
    /// bloom filter.
    ///
    /// [`Options::filters`] still decides which new tables have block filters: with
    /// [`Filters::Table`], the policy only serves tables that have block filters already, and with
    /// [`Filters::None`] it has no effect. The policy decides how many bits a block filter takes;
    /// the bits per key in [`Filters`] apply to all other filters.
    #[must_use]
    pub fn filter_policy(mut self, policy: impl FilterPolicy) -> Options {
        self.filter_policy = Some(shared::<_, dyn FilterPolicy>(policy, |policy| Arc::new(policy)));
        self
    }

    /// Adds to new tables a filter over the prefixes of their keys. With this filter, a scan of one
    /// prefix ([`Db::prefix`](crate::Readable::prefix), or a range within one prefix) skips tables
    /// without that prefix. The filter has as many bits per prefix as the other filters of its
    /// level have per key; at levels without other filters, there is no prefix filter. Requires
    /// byte order. Default: none.
    #[must_use]
    pub fn filter_prefix(mut self, extractor: impl PrefixExtractor) -> Options {
        self.outer_prefix = Some(Arc::new(extractor));
        self.compose_prefixes()
    }

    /// Like [`Options::filter_prefix`], for the keys of the keyspace `keyspace`. The extractor gets
    /// the keys as they are within the keyspace. If any keyspace has an extractor of its own,
    /// [`Options::filter_prefix`] applies only to keys outside of keyspaces. Default: none.
    ///
    /// A prefix filter is used only if all extractors are the same as when it was written. After an
    /// extractor was changed, the existing tables have no usable prefix filters until they are
    /// compacted.
    ///
    /// ```
    /// use minikv::{DelimitedPrefix, FixedPrefix, Options};
    ///
    /// let options = Options::default()
    ///     .filter_prefix_in("users", FixedPrefix::new(4))
    ///     .filter_prefix_in("paths", DelimitedPrefix::new(b'/'));
    /// ```
    #[must_use]
    pub fn filter_prefix_in(
        mut self,
        keyspace: impl AsRef<[u8]>,
        extractor: impl PrefixExtractor,
    ) -> Options {
        let keyspace = keyspace.as_ref();
        self.keyspace_prefixes.retain(|(name, _)| name != keyspace);
        self.keyspace_prefixes.push((keyspace.to_vec(), Arc::new(extractor)));
        self.compose_prefixes()
    }

    /// Allows a log that is being written to end in zeros after its records. This makes writes
    /// faster, including synced ones. Default: true.
    ///
    /// With false, each group of writes is appended with one system call (several for a group of
    /// more than 1 MiB), and the log of a killed process ends either with a complete record or, as
    /// LevelDB's own logs may, in the middle of a record. Use false if programs that treat the
    /// zeros as damage will read the log: goleveldb with `StrictJournal`, and LevelDB with
    /// `paranoid_checks` if the process was killed while it wrote a record across a 32 KiB boundary
    /// of the log. All other readers accept both kinds of logs.
    #[must_use]
    pub fn preallocate_logs(mut self, yes: bool) -> Options {
        self.preallocate_logs = yes;
        self
    }

    /// Undoes the compression of each block that the database writes, and compares; compactions
    /// read each block twice. So most errors of a processor in the middle of this, which no
    /// checksum shows, make the flush or the compaction fail with
    /// [`Error::Corruption`](crate::Error::Corruption), and what went in stays. Both take longer.
    /// Default: false.
    #[must_use]
    pub fn verify_compression(mut self, yes: bool) -> Options {
        self.verify_compression = yes;
        self
    }

    /// Clock that decides when entries of expiring keyspaces expire
    /// ([`Db::expiring_keyspace`](crate::Db::expiring_keyspace)), for tests. Default: the system
    /// clock.
    ///
    /// The clock is called by every read of such a keyspace and by every step of its iterators and
    /// cursors, from any thread, and must not use the database.
    ///
    /// ```
    /// # use minikv::{Db, Options, Readable};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let seconds = Arc::new(AtomicU64::new(1000));
    /// let now = seconds.clone();
    /// let clock = move || UNIX_EPOCH + Duration::from_secs(now.load(Relaxed));
    /// # let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path(), Options::default().create_if_missing(true).clock(clock))?;
    /// let sessions = db.expiring_keyspace("sessions")?;
    /// sessions.put_for("s1", "ann", Duration::from_secs(60))?;
    /// seconds.store(1060, Relaxed);
    /// assert_eq!(sessions.get("s1")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Options {
        self.clock = Clock::new(now);
        self
    }

    /// Filesystem that holds the database. Default: the operating system's.
    #[must_use]
    pub fn fs(mut self, fs: impl Fs) -> Options {
        self.fs = shared::<_, dyn Fs>(fs, |fs| Arc::new(fs));
        self
    }
}

/// Options for tests.
impl Options {
    /// Size in bytes above which a new MANIFEST is started, if the old one is also more than twice
    /// as long as it was when it held only one version. Default: 1 MiB.
    #[cfg(any(test, feature = "internals"))]
    #[doc(hidden)]
    #[must_use]
    pub fn manifest_rotate_bytes(mut self, bytes: u64) -> Options {
        self.manifest_rotate_bytes = bytes;
        self
    }

    /// Starts no threads: writers, and calls that wait, run the flushes and compactions instead,
    /// when a random number generator with this seed decides so. If one thread uses the database,
    /// the same calls then always write the same files, as tests want it; otherwise the scheduler
    /// decides which tables a compaction reads. Writes are slower. Default: `None`, which starts
    /// threads.
    #[must_use]
    pub fn inline_background(mut self, seed: Option<u64>) -> Options {
        self.inline_background = seed;
        self
    }
}

impl Options {
    fn compose_prefixes(mut self) -> Options {
        self.prefix_extractor = match &self.keyspace_prefixes[..] {
            [] => self.outer_prefix.clone(),
            inside => {
                Some(Arc::new(KeyspacePrefixes::new(self.outer_prefix.clone(), inside.to_vec())))
            }
        };
        self
    }

    /// Returns the options if their values are valid.
    ///
    /// # Errors
    /// Invalid argument, with the name of the option.
    pub(crate) fn checked(mut self) -> Result<Options> {
        let positive = [
            ("write_buffer_bytes", self.write_buffer_bytes),
            ("block_bytes", self.block_bytes),
            ("block_restart_interval", self.block_restart_interval),
            ("max_open_files", self.max_open_files),
            ("max_file_bytes", usize::try_from(self.max_file_bytes).unwrap_or(usize::MAX)),
        ];
        if let Some((option, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(format!("{option} must not be 0")));
        }
        self.check_filters()?;
        if let Some(memory) = &self.resources.memory {
            self.write_buffer_bytes = self.write_buffer_bytes.min(memory.most_write_buffer_bytes());
        }
        Ok(self)
    }

    fn check_filters(&self) -> Result<()> {
        if let Some((level, _)) = self.level_filters.iter().find(|(level, _)| *level >= NUM_LEVELS)
        {
            return Err(Error::invalid(format!(
                "filters are set for level {level}, but levels are 0 to {}",
                NUM_LEVELS - 1
            )));
        }
        let bits = self.all_filters().filter_map(Filters::bits_per_key);
        if let Some(bits) = bits.into_iter().find(|bits| !(1..=MAX_BITS_PER_KEY).contains(bits)) {
            return Err(Error::invalid(format!(
                "a filter has 1 to {MAX_BITS_PER_KEY} bits per key, not {bits}"
            )));
        }
        self.keyspace_prefixes.iter().try_for_each(|(name, _)| Space::named(name).map(drop))?;
        let order = self.comparator.name();
        if self.prefix_extractor.is_some() && order != BytewiseComparator.name() {
            return Err(Error::invalid(format!(
                "filter_prefix requires byte order; this database has the order of {order}"
            )));
        }
        Ok(())
    }

    fn all_filters(&self) -> impl Iterator<Item = Filters> {
        self.level_filters.iter().map(|(_, filters)| *filters).chain([self.filters])
    }

    /// Returns the policy with which block filters are read, or `None` if filters of all kinds are
    /// ignored.
    pub(crate) fn usable_filter_policy(&self) -> Option<Arc<dyn FilterPolicy>> {
        let wanted = self.all_filters().any(|filters| filters != Filters::None);
        // LevelDB's bloom filter of any size can read those of all sizes.
        let policy = || self.block_filter_policy(10);
        (wanted && self.comparator.equal_means_same_bytes()).then(policy)
    }

    fn block_filter_policy(&self, bits_per_key: u32) -> Arc<dyn FilterPolicy> {
        let bloom = || Arc::new(BloomFilterPolicy::new(bits_per_key)) as Arc<dyn FilterPolicy>;
        self.filter_policy.clone().unwrap_or_else(bloom)
    }

    /// Returns the context for reading the database's tables.
    pub(crate) fn table_context(
        &self,
        order: &InternalComparator,
        block_cache: Option<Arc<BlockCache>>,
    ) -> TableContext {
        TableContext {
            order: KeyOrder::Internal(order.clone()),
            filter_policy: self.usable_filter_policy(),
            prefix_extractor: self.prefix_extractor.clone(),
            block_cache,
            paranoid: self.paranoid_checks,
        }
    }

    /// Returns the filters of new tables of a level.
    pub(crate) fn filters_of(&self, level: usize) -> Filters {
        let own = self.level_filters.iter().find(|(other, _)| *other == level);
        match self.comparator.equal_means_same_bytes() {
            true => own.map_or(self.filters, |(_, filters)| *filters),
            false => Filters::None,
        }
    }

    /// Returns the options for new tables of a level.
    pub(crate) fn table_options(&self, order: &InternalComparator, level: usize) -> TableOptions {
        let filters = self.filters_of(level);
        let bits = filters.bits_per_key();
        let block_bits = bits.filter(|_| filters.has_block());
        TableOptions {
            order: KeyOrder::Internal(order.clone()),
            filter_policy: block_bits.map(|bits| self.block_filter_policy(bits)),
            table_filter_bits_per_key: bits.filter(|_| filters.has_table()),
            prefix_filter: self.prefix_extractor.clone().zip(bits),
            block_bytes: self.block_bytes,
            block_restart_interval: self.block_restart_interval,
            compression: self.compression.unwrap_or_default(),
        }
    }
}

/// Returns `value` in an [`Arc`]: as it is if it is such an `Arc` already, else made by `wrap`.
fn shared<T: 'static, D: ?Sized + 'static>(value: T, wrap: impl Fn(T) -> Arc<D>) -> Arc<D> {
    let any: &dyn Any = &value;
    any.downcast_ref::<Arc<D>>().cloned().unwrap_or_else(|| wrap(value))
}

/// Options of a read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The options that apply to reading blocks of tables.
    pub(crate) blocks: BlockReadOptions,
    /// Whether the commit of a transaction checks the read.
    pub(crate) track: bool,
}

impl Default for ReadOptions {
    #[inline]
    fn default() -> ReadOptions {
        ReadOptions { blocks: BlockReadOptions::default(), track: true }
    }
}

impl ReadOptions {
    /// Verifies the checksum of every block read from a file. Default: true (LevelDB: false).
    #[must_use]
    pub fn verify_checksums(mut self, yes: bool) -> ReadOptions {
        self.blocks.verify_checksums = yes;
        self
    }

    /// Adds blocks read from files to the block cache. Turn this off for a long scan, so that the
    /// scan does not evict blocks that calls of `get` need. Default: true.
    #[must_use]
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.blocks.fill_cache = yes;
        self
    }

    /// Queries filters before reading data blocks. With false, tables are read as if they had no
    /// filters, which shows how much filters save. Default: true.
    #[must_use]
    pub fn use_filter(mut self, yes: bool) -> ReadOptions {
        self.blocks.use_filter = yes;
        self
    }

    /// Makes the commit of a transaction fail if what is read has changed. Turn this off only for
    /// values that do not affect what the transaction writes. Has no effect outside of
    /// transactions. Default: true.
    #[must_use]
    pub fn track(mut self, yes: bool) -> ReadOptions {
        self.track = yes;
        self
    }
}

/// Options of a write, for [`Db::writing`](crate::Db::writing).
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) sync: bool,
}

impl WriteOptions {
    /// Makes the write return only once it would survive a loss of power. With false, the default,
    /// the write survives the end of the process, even if a signal kills it.
    #[must_use]
    pub fn sync(mut self, yes: bool) -> WriteOptions {
        self.sync = yes;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::testing::CaseBlind;

    /// Returns the bits per key of the three kinds of filters of a level's tables; 0 for a kind
    /// that the tables do not have.
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
            .filter_prefix(crate::filter::prefix::FixedPrefix::new(4))
            .filters(Filters::Both(12))
            .filters_at_level(1, Filters::Block(8))
            .filters_at_level(2, Filters::Table(16))
            .filters_at_level(3, Filters::None)
            .filters_at_level(4, Filters::None)
            .filters_at_level(4, Filters::Both(6));
        let expected = [[12, 12, 12], [8, 0, 8], [0, 16, 16], [0, 0, 0], [6, 6, 6], [12, 12, 12]];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|level| bits(&options, level)), expected);
    }

    #[test]
    fn filter_policy_and_filters_may_be_set_in_either_order() {
        let expected = [
            (Filters::None, [0, 0, 0]),
            (Filters::Block(16), [4, 0, 0]),
            (Filters::Table(16), [0, 16, 0]),
            (Filters::Both(16), [4, 16, 0]),
        ];
        for (filters, expected) in expected {
            let bloom = || BloomFilterPolicy::new(4);
            let before = Options::default().filter_policy(bloom()).filters(filters);
            let after = Options::default().filters(filters).filter_policy(bloom());
            assert_eq!([bits(&before, 0), bits(&after, 0)], [expected; 2], "{filters:?}");
            let at_level = before.filters(Filters::None).filters_at_level(2, filters);
            assert_eq!([bits(&at_level, 0), bits(&at_level, 2)], [[0; 3], expected]);
        }
    }

    #[test]
    fn filters_are_read_if_any_level_has_them() {
        let reads = |options: &Options| options.usable_filter_policy().is_some();
        let none = Options::default().filters(Filters::None);
        assert!(reads(&Options::default()) && !reads(&none));
        assert!(!reads(&none.clone().filter_policy(BloomFilterPolicy::new(10))));
        assert!(!reads(&none.clone().filters_at_level(2, Filters::None)));
        assert!(reads(&none.filters_at_level(2, Filters::Table(10))));
        assert!(reads(&Options::default().filters_at_level(2, Filters::None)));
    }

    #[test]
    fn keys_that_are_equal_in_other_bytes_get_no_filters() {
        let options = Options::default().comparator(CaseBlind);
        assert_eq!(bits(&options.clone().filters(Filters::Both(10)), 0), [0, 0, 0]);
        let prefix = options.filter_prefix(crate::filter::prefix::FixedPrefix::new(4));
        assert!(prefix.checked().unwrap_err().to_string().contains("test.CaseBlind"));
    }

    #[test]
    fn shared_parts_are_passed_on_as_they_are() {
        let order: Arc<dyn Comparator> = Arc::new(CaseBlind);
        let fs: Arc<dyn Fs> = Arc::new(crate::fs::MemFs::new());
        let policy: Arc<dyn FilterPolicy> = Arc::new(BloomFilterPolicy::new(4));
        let options = Options::default();
        let options =
            options.comparator(order.clone()).fs(fs.clone()).filter_policy(policy.clone());
        assert!(Arc::ptr_eq(&options.comparator, &order) && Arc::ptr_eq(&options.fs, &fs));
        assert!(Arc::ptr_eq(&options.filter_policy.unwrap(), &policy));
        // Plain byte order must be recognised, because it is compared without a virtual call.
        for options in [
            Options::default().comparator(BytewiseComparator),
            Options::default().comparator(Arc::new(BytewiseComparator)),
            Options::default().comparator(Arc::new(BytewiseComparator) as Arc<dyn Comparator>),
        ] {
            assert!(InternalComparator::new(options.comparator).user().custom().is_none());
        }
    }
}
