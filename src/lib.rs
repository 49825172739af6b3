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
//! Start with [`Db`] and [`Options`]; `examples/` has small programs to copy.
//!
//! # Features
//! - [`Db::put`], [`Db::get`], [`Db::delete`], atomic [`WriteBatch`]es, [`Snapshot`]s, iterators
//!   over ranges and prefixes and [`Cursor`]s, both ways.
//! - C++ LevelDB and goleveldb open what this library writes, and it opens what they write.
//! - Bloom filters, and a view of what they save: [`Db::get_traced`], [`Db::explain`],
//!   [`Db::filter_advice`], [`Stats`].
//! - [`verify`], [`repair`], [`checkpoint`], [`Db::open_read_only`] beside a writer, and
//!   [`Db::health`] and [`Db::resume`] after a full disk.
//! - [`fs::SimFs`], a filesystem that crashes and fails on demand, for tests of your own.
//!
//! Cargo features, both off by default:
//! - `zstd`, for tables compressed with zstd. LevelDB 1.23 and older cannot read those.
//! - `serde`, for `Serialize` of the reports [`Stats`], [`Explanation`], [`VerifyReport`],
//!   [`RepairReport`] and [`FilterAdvice`]. The command's `--json` prints them.
//!
//! # Durability
//! A write survives the end of the process as soon as it returns, and a loss of power too if
//! [`WriteOptions::sync`] was set. After a loss of power what is left is a prefix of the writes, in
//! their order, that holds every synced one; a batch is there whole or not at all.
//!
//! # Threads
//! [`Db`] is `Send + Sync` and cheap to clone; every method but [`Db::close`] takes `&self`. Reads
//! take no lock that a write or a compaction holds for long. Concurrent writes share a log record
//! and a sync. Each open database has three threads in the background: one flushes, two compact.
//! There is no async interface: calls may wait for the disk, so use `spawn_blocking` or the like.
//!
//! # Limits
//! - A key and a value may have up to 3 GiB (3,221,225,471 bytes) each, and either may be empty.
//! - One process writes at a time; others may read what was there when they looked
//!   ([`Db::open_read_only`]).
//! - There are no transactions: put a lock of your own around reading a value and writing it back,
//!   or two threads that do so at once lose one of the updates.
//! - It is tested on Linux. macOS and FreeBSD are meant to compile, and are not tested.
//! - It is not a server, not a SQL database, and has no column families and no expiry of keys.
//!
//! # Module overview
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

pub mod admin;
pub mod advice;
pub mod base;
pub mod block;
pub mod db;
pub mod engine;
pub mod explain;
pub mod filter;
pub mod format;
pub mod fs;
pub mod log;
pub mod table;

#[doc(inline)]
pub use admin::checkpoint::checkpoint;
#[doc(inline)]
pub use admin::destroy::destroy;
#[doc(inline)]
pub use admin::repair::{RepairOptions, RepairReport, repair};
#[doc(inline)]
pub use admin::verify::{VerifyReport, verify};
#[doc(inline)]
pub use advice::FilterAdvice;
#[doc(inline)]
pub use base::error::Corruption;
#[doc(inline)]
pub use base::{BytewiseComparator, Comparator, Error, Result};
/// A key or value that was read: bytes that share their memory when cloned. From the `bytes` crate.
#[doc(no_inline)]
pub use bytes::Bytes;
#[doc(inline)]
pub use db::{Cursor, Db, Iter, ReadOnlyDb, Snapshot};
#[doc(inline)]
pub use engine::health::{Health, HealthState};
#[doc(inline)]
pub use engine::open::replay::{LostLog, Recovery};
#[doc(inline)]
pub use engine::options::{FilterLayout, Options, ReadOptions, WriteOptions};
#[doc(inline)]
pub use engine::stats::metrics::StallCause;
#[doc(inline)]
pub use engine::stats::property::{LevelStats, Stalls, Stats};
#[doc(inline)]
pub use engine::stats::trace::ReadTrace;
#[doc(inline)]
pub use explain::Explanation;
#[doc(inline)]
pub use filter::{BloomFilterPolicy, DelimitedPrefix, FilterPolicy, FixedPrefix, PrefixExtractor};
#[doc(inline)]
pub use format::batch::WriteBatch;
#[doc(inline)]
pub use format::compress::Compression;
#[doc(inline)]
pub use table::counts::LevelTrace;

/// The examples of the front page are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
