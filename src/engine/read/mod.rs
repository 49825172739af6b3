//! Reads: what a reader sees, and how gets and cursors find it.
//!
//! | file | contents |
//! | --- | --- |
//! | `view` | what can be read at one point in time, and the sequence numbers that snapshots hold |
//! | `reader` | what a handle reads: its database, snapshot, keyspace, transaction, and options |
//! | `point` | what one read sees: a view, a sequence number, a keyspace, a transaction |
//! | `reads` | the reads: get, multi-get, cursor, iterator |
//! | `get` | the search for one key, from the newest source to the oldest |
//! | `cursor`, `iter` | the public cursor and iterator |
//! | `visible` | a cursor over the newest visible versions |
//! | `own`, `read_log` | the writes of a transaction, and the record of what it has read |
//! | `sources`, `merge`, `level` | a cursor's sorted sources and their merge; a level as a source |
//! | `input` | a source of a compaction, which sums its entries |
//! | `prefix_scan` | scans of one prefix, which skip tables by their prefix filters |
//! | `snapshot` | the public handle that holds a sequence number to read at |

pub(crate) mod cursor;
pub(crate) mod get;
pub(crate) mod input;
pub(crate) mod iter;
pub(crate) mod level;
pub(crate) mod merge;
pub(crate) mod own;
pub(crate) mod point;
pub(crate) mod prefix_scan;
pub(crate) mod read_log;
pub(crate) mod reader;
pub(crate) mod reads;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod view;
mod visible;

#[cfg(test)]
mod transcripts;
