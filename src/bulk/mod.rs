//! Bulk load: entries that come sorted are written into tables outside of the database, which then
//! become tables of the database in one step. They pass neither the log nor the memtable and, if
//! their range of keys is new, no compaction.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `writer` | sorted entries become tables in a directory |
//! | `sorted` | a table outside of a database, and the check of one that was found |
//!
//! How the tables get into the database is told in [`engine::ingest`](crate::engine::ingest).

pub(crate) mod sorted;
pub(crate) mod writer;
