//! Resources that several databases of a process may share: a block cache, a memory budget,
//! threads, and a limit on background I/O.

use std::fmt;
use std::sync::Arc;

use crate::engine::resources::limit::IoLimit;
use crate::engine::resources::memory::Memory;
use crate::engine::resources::pool::Pool;
use crate::table::block_cache::BlockCache;

pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod signal;

/// A block cache or a memory budget, background threads and a limit on background I/O that several
/// databases share.
///
/// A clone refers to the same resources. A resource that is not set is not shared: each database
/// then has its own block cache ([`Options::block_cache_bytes`]), its own three threads, and no
/// limit. The threads and the cache live until the last clone and the last database are dropped.
///
/// ```
/// use minikv::{Db, Options, Resources};
/// # let dir = tempfile::tempdir()?;
/// let shared = Resources::default()
///     .block_cache_bytes(256 << 20)
///     .compaction_threads(2)
///     .background_bytes_per_second(100 << 20);
/// let options = Options::default().create_if_missing(true).resources(&shared);
/// let users = Db::open(dir.path().join("users"), options.clone())?;
/// let orders = Db::open(dir.path().join("orders"), options)?;
/// # users.put("a", "1")?;
/// # orders.put("a", "1")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Options::block_cache_bytes`]: crate::Options::block_cache_bytes
#[derive(Clone, Default)]
pub struct Resources {
    /// The shared cache: `None` if no cache is shared, `Some(None)` if the databases have no cache.
    pub(crate) block_cache: Option<Option<Arc<BlockCache>>>,
    /// The memory budget. If it is set, its block cache is the shared cache.
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) limit: Option<Arc<IoLimit>>,
}

impl Resources {
    /// A cache of uncompressed data blocks that all databases share, with a size of `bytes` bytes;
    /// 0 turns caching off.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: usize) -> Resources {
        self.block_cache = Some((bytes > 0).then(|| Arc::new(BlockCache::new(bytes))));
        self
    }

    /// A budget for the memory of all databases, in bytes; at least 1 MiB. The budget covers
    /// memtables, the indexes and filters of open tables, and a shared cache of uncompressed data
    /// blocks, which gets the rest of the budget.
    ///
    /// - **Memtables**: a write buffer has at most an eighth of the budget. Once all memtables
    ///   together take a quarter of the budget, the largest memtable is flushed, whichever database
    ///   it belongs to. Once all memtables together take half of the budget, writes are slowed down
    ///   until flushes catch up. A database that cannot flush keeps its memtables; the others then
    ///   share what is left, but at least a quarter of these limits.
    /// - **Tables**: once the indexes and filters of open tables take a quarter of the budget,
    ///   tables are closed, beginning with the database whose open tables take the most memory.
    ///
    /// Memory that is still held by reads, such as a memtable read by an iterator, may cause the
    /// total to exceed the budget. The budget includes the block cache, so
    /// [`block_cache_bytes`](Self::block_cache_bytes) has no effect if the budget is set.
    ///
    /// ```
    /// use minikv::{Db, Options, Resources};
    /// # let dir = tempfile::tempdir()?;
    /// let shared = Resources::default().memory_bytes(64 << 20);
    /// let options = Options::default().create_if_missing(true).resources(&shared);
    /// let db = Db::open(dir.path(), options)?;
    /// db.put("a", "1")?;
    /// assert!(shared.memory_used_bytes() <= 64 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Resources {
        self.memory = Some(Arc::new(Memory::new(bytes)));
        self
    }

    /// Returns the number of bytes of the memory budget that are in use; 0 if there is no memory
    /// budget.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.used_bytes())
    }

    /// Returns the block cache of a database: the shared cache or, if no cache is shared, a new
    /// cache of `own_bytes` bytes. Returns `None` if the database has no cache.
    pub(crate) fn block_cache(&self, own_bytes: usize) -> Option<Arc<BlockCache>> {
        let own = || (own_bytes > 0).then(|| Arc::new(BlockCache::new(own_bytes)));
        match (&self.memory, &self.block_cache) {
            (Some(memory), _) => Some(memory.cache().clone()),
            (None, Some(shared)) => shared.clone(),
            (None, None) => own(),
        }
    }

    /// A set of background threads that all databases share: one thread for flushes, and `threads`
    /// threads (at least one) for compactions. The threads start when the first database is opened.
    /// Databases that have work to do take turns.
    #[must_use]
    pub fn compaction_threads(mut self, threads: usize) -> Resources {
        self.pool = Some(Arc::new(Pool::new(threads.max(1))));
        self
    }

    /// Maximum number of bytes that flushes and compactions of all databases together may read and
    /// write per second; at least 1. Flushes have priority: a flush waits only for other flushes.
    /// Writes are slowed down if, at this rate, flushes or compactions do not keep up with them.
    #[must_use]
    pub fn background_bytes_per_second(mut self, bytes: u64) -> Resources {
        self.limit = Some(Arc::new(IoLimit::new(bytes.max(1))));
        self
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("shares_block_cache", &self.block_cache.is_some())
            .field("memory", &self.memory)
            .field("shares_threads", &self.pool.is_some())
            .field("limit", &self.limit)
            .finish()
    }
}
