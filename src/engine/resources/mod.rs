//! What several databases of a process may share: a block cache, threads, and a limit of
//! background I/O.

use std::fmt;
use std::sync::Arc;

use crate::engine::resources::limit::IoLimit;
use crate::engine::resources::pool::Pool;
use crate::table::block_cache::BlockCache;

pub(crate) mod limit;
pub(crate) mod pool;
pub(crate) mod signal;

/// A block cache, background threads and a limit of background I/O that several databases share.
///
/// A clone stands for the same resources. What is not set stays as it is without: each database
/// has its own block cache ([`Options::block_cache_bytes`]) and its own three threads, and no
/// limit. Threads and cache live until the last clone and the last database are dropped.
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
    /// The shared cache: `Some(None)` if the databases have none.
    pub(crate) block_cache: Option<Option<Arc<BlockCache>>>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) limit: Option<Arc<IoLimit>>,
}

impl Resources {
    /// One cache of uncompressed data blocks, of this size in bytes, for all databases; 0 turns
    /// caching off.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: usize) -> Resources {
        self.block_cache = Some((bytes > 0).then(|| Arc::new(BlockCache::new(bytes))));
        self
    }

    /// One set of background threads for all databases: one thread that flushes, and `threads`
    /// threads, at least one, that compact. They start when the first database is opened. Databases
    /// with work to do take turns.
    #[must_use]
    pub fn compaction_threads(mut self, threads: usize) -> Resources {
        self.pool = Some(Arc::new(Pool::new(threads.max(1))));
        self
    }

    /// Largest number of bytes a second that flushes and compactions of all databases together
    /// read and write; at least 1. Flushes go first: they wait only for other flushes. Writes are
    /// held back if flushes or compactions do not keep up with them at this rate.
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
            .field("shares_threads", &self.pool.is_some())
            .field("limit", &self.limit)
            .finish()
    }
}
