//! Tables: sorted, immutable files of entries, with an index and filters.
//!
//! [`TableBuilder`] writes a table, [`Table`] reads it and [`TableCursor`] iterates over it. A
//! [`TableCache`] keeps the tables of a database open, and a [`BlockCache`] keeps their data blocks
//! in memory.

mod answers;
pub mod block_cache;
pub mod builder;
pub mod counts;
#[cfg(test)]
mod filter_tests;
pub mod filters;
pub mod index;
pub mod iter;
pub mod lookup;
pub mod reader;
pub mod settings;
pub mod sink;
pub mod stored;
pub mod table_cache;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use builder::{TableBuilder, TableOptions, TableSummary};
pub use iter::TableCursor;
pub use reader::Table;
pub use settings::{BlockReadOptions, TableContext};
pub use sink::{BlockSource, Found, IndexEntry, NoSink, TableSink};
pub use table_cache::TableSlot;
