//! Bulk load: sorted entries are written into tables outside of the database, and these tables are
//! then added to the database in one step. The entries bypass the log and the memtable and, if
//! there are no other keys in their range, compaction.
//!
//! | file | contents |
//! | --- | --- |
//! | `writer` | writes sorted entries into tables in a directory |
//! | `sorted` | finished tables, and the checks on a table file that is to be ingested |
//!
//! [`engine::ingest`](crate::engine::ingest) adds the tables to the database.

pub(crate) mod sorted;
pub(crate) mod writer;

pub use sorted::{Ingested, SortedTable};
pub use writer::TableWriter;
