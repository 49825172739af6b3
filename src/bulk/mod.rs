//! Bulk load: sorted entries are written into tables outside of the database, which are then added
//! to it in one step. They bypass the log and the memtable and, if their key range is new,
//! compaction.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `writer` | sorted entries become tables in a directory |
//! | `sorted` | finished tables, and the checks on a table file that is to be ingested |
//!
//! [`engine::ingest`](crate::engine::ingest) adds the tables to the database.

pub(crate) mod sorted;
pub(crate) mod writer;
