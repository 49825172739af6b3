//! An embedded, ordered, crash-safe key-value store whose files are LevelDB's files.
//!
//! ```
//! use minikv::{Db, Options, WriteBatch};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let db = Db::open(path, Options::default().create_if_missing(true))?;
//! db.put("apple", "red")?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put("banana", "yellow");
//! batch.delete("apple");
//! db.write(batch)?;
//!
//! assert_eq!(db.get("apple")?, None);
//! assert_eq!(db.iter()?.count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The map of the house
//! A module imports only from those below it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`db`] | the handles: [`Db`], [`Snapshot`], [`ReadOnlyDb`] |
//! | [`admin`] | work on a database that is not open |
//! | [`engine`] | write queue, memtable, flush, versions, compaction, reads |
//! | [`table`] | sorted tables: builder, reader, caches |
//! | [`log`] | the log format, of WAL and MANIFEST |
//! | [`fs`] | the filesystem: disk, memory, simulated |
//! | [`filter`] | filter policies, the filter block, the theory |
//! | [`mod@format`] | bytes: every structure on disk, without I/O |
//! | [`base`] | errors, comparators, counters, locks |
//!
//! # What it is not
//! A server, a SQL database, a store shared by processes that write. One process writes at a
//! time; others may read what was there when they looked ([`Db::open_read_only`]).

pub mod admin;
pub mod base;
pub mod db;
pub mod engine;
pub mod filter;
pub mod format;
pub mod fs;
pub mod log;
pub mod table;

pub use admin::checkpoint::checkpoint;
pub use admin::destroy::destroy;
pub use admin::repair::{RepairOptions, RepairReport, repair};
pub use admin::verify::{VerifyReport, verify};
pub use base::{BytewiseComparator, Comparator, Error, Result};
pub use db::{Cursor, Db, Iter, ReadOnlyDb, Snapshot};
pub use engine::advice::FilterAdvice;
pub use engine::explain::Explanation;
pub use engine::health::{Health, HealthState};
pub use engine::metrics::StallCause;
pub use engine::options::{FilterLayout, Options, ReadOptions, WriteOptions};
pub use filter::{BloomFilterPolicy, DelimitedPrefix, FilterPolicy, FixedPrefix, PrefixExtractor};
pub use format::batch::WriteBatch;
pub use format::compress::Compression;

/// The examples of the front page are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
