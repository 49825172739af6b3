//! Reads: what a reader sees, and how gets and cursors find it.
//!
//! | file | contents |
//! | --- | --- |
//! | `view` | what can be read at one point in time, and the sequence numbers that snapshots hold |
//! | `point` | what one read sees: a view, a sequence number, and options |
//! | `reader` | the reads of all handles: get, multi-get, cursor, iterator, approximate size |
//! | `get` | the search for one key, from the newest source to the oldest |
//! | `cursor`, `iter` | cursors and iterators over the newest visible versions |
//! | `sources`, `merge`, `level` | a cursor's sorted sources and their merge; a level as a source |
//! | `prefix_scan` | scans of one prefix, which skip tables by their prefix filters |
//! | `snapshot` | the public handle that holds a sequence number to read at |

pub(crate) mod cursor;
pub(crate) mod get;
pub(crate) mod iter;
pub(crate) mod level;
pub(crate) mod merge;
pub(crate) mod point;
pub(crate) mod prefix_scan;
pub(crate) mod reader;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod view;

#[cfg(test)]
mod transcripts;
