//! The settings for reading tables.

use std::sync::Arc;

use crate::filter::{FilterPolicy, PrefixExtractor};
use crate::format::key::KeyOrder;
use crate::table::block_cache::BlockCache;

/// The settings common to all tables of a database.
#[derive(Clone, Debug)]
pub struct TableContext {
    /// The order of the tables' keys.
    pub order: KeyOrder,
    /// The policy whose block filters are used; `None` ignores filters of every kind.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// The extractor whose prefix filters are used; `None` ignores prefix filters.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// The cache of data blocks; `None` if data blocks are not cached.
    pub block_cache: Option<Arc<BlockCache>>,
    /// Whether opening a table also checks the order of all separators.
    pub paranoid: bool,
}

/// Options for reading data blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReadOptions {
    /// Verifies the checksum of every block read from the file. Default: true.
    pub verify_checksums: bool,
    /// Inserts blocks read from the file into the block cache. Default: true.
    pub fill_cache: bool,
    /// Queries filters before reading data blocks. Default: true.
    pub use_filter: bool,
    /// Lets cursors read each block twice, and compare. Default: false.
    pub twice: bool,
}

impl Default for BlockReadOptions {
    fn default() -> BlockReadOptions {
        BlockReadOptions {
            verify_checksums: true,
            fill_cache: true,
            use_filter: true,
            twice: false,
        }
    }
}
