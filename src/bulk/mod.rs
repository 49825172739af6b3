//! Bulk load: sorted entries are written into tables outside of the database, and these tables are
//! then added to the database in one step. The entries bypass the log and the memtable and, if
//! there are no other keys in their range, compaction.
//!
//! [`TableWriter`] writes sorted entries into tables in a directory, [`SortedTable`] is a finished
//! table that has been checked, and [`Db::ingest`](crate::Db::ingest) adds tables to a database.

pub(crate) mod sorted;
pub(crate) mod writer;

pub use sorted::{Ingested, SortedTable};
pub use writer::TableWriter;
