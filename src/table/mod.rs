//! Tables: sorted, immutable files of entries, with an index and filters.
//!
//! [`TableBuilder`](builder::TableBuilder) writes a table, [`Table`] reads it and
//! [`TableCursor`](iter::TableCursor) iterates over it. A
//! [`TableCache`](table_cache::TableCache) keeps the tables of a database open, and a
//! [`BlockCache`](block_cache::BlockCache) keeps their data blocks in memory.

mod answers;
pub mod block_cache;
pub(crate) mod builder;
pub(crate) mod compression;
pub mod counts;
#[cfg(test)]
mod filter_tests;
pub(crate) mod filters;
pub(crate) mod index;
pub(crate) mod iter;
pub(crate) mod lookup;
pub(crate) mod reader;
pub(crate) mod refilter;
pub(crate) mod settings;
pub(crate) mod sink;
pub(crate) mod stored;
pub(crate) mod table_cache;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use reader::Table;
pub use settings::BlockReadOptions;
#[cfg(any(test, feature = "internals"))]
pub use settings::TableContext;
pub use sink::BlockSource;
#[cfg(any(test, feature = "internals"))]
pub use sink::Found;
pub(crate) use sink::{IndexEntry, TableSink};
pub(crate) use table_cache::TableSlot;
