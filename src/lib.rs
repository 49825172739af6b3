//! An embedded, ordered, crash-safe key-value store whose files are LevelDB's files.
//!
//! ```
//! use minikv::{Db, Readable, WriteBatch};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let db = Db::create(path)?;
//! db.put("apple", "red")?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put("banana", "yellow");
//! batch.delete("apple");
//! db.write(batch)?;
//!
//! assert_eq!(db.get("apple")?, None);
//! assert_eq!(db.iter().count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Start with [`Db`] and [`Options`]; `examples/` has small programs to copy.
//!
//! # Why minikv
//! - **LevelDB's files.** C++ LevelDB and goleveldb open the databases that this library writes,
//!   and this library opens databases written by them, by Chromium and by others. A program can
//!   switch to minikv, and switch back.
//! - **Concurrent, in safe Rust.** Reads do not wait for writes, and both continue during flushes
//!   and compactions. `unsafe` is in three files of `fs`, for mapped tables and the end of the log.
//! - **It explains its reads.** [`Db::explain`] shows which tables, filters and blocks a get goes
//!   through; the package `minikv-instrument` says what other filters would save.
//! - **Damage is never "not found".** Damage on disk is an [`Error`] that names the file, the
//!   offset, and what was expected there.
//!
//! # Features
//! - [`Db::put`], [`Db::get`], [`Db::delete`], atomic [`WriteBatch`]es, [`Snapshot`]s, and
//!   iterators over ranges and prefixes and [`Cursor`]s, which move in both directions.
//! - Serializable transactions: [`Db::transact`], [`Db::update`] and [`Transaction`].
//! - Keyspaces, named spaces of keys in one database: [`Db::keyspace`] and [`Keyspace`]. Entries
//!   may have a time to live: [`Db::expiring_keyspace`].
//! - Bloom filters per block, filters per table, and counters of the reads that they save:
//!   [`Db::get_traced`], [`Stats`].
//! - Events of flushes, compactions and write stalls, for an observer ([`Options::observer`]).
//! - [`verify`], [`repair()`], [`checkpoint`], [`Db::open_read_only`] beside a writer, and
//!   [`Db::health`] and [`Db::resume`] after a full disk.
//!
//! Cargo features, all of them off by default:
//! - `serde`: `Serialize` for [`Stats`], [`Explanation`], [`VerifyReport`] and [`RepairReport`].
//!   With `--json`, the command prints these types.
//! - `zlib`: tables compressed with zlib or raw deflate, as in Minecraft's databases. LevelDB
//!   cannot read such tables.
//! - `zstd`: tables compressed with zstd, which LevelDB 1.23 and older cannot read.
//! - `sim`: `fs::SimFs`, a filesystem that crashes and fails on demand, for tests.
//!
//! Until 1.0, a new minor version may change what this documentation shows. The files stay
//! LevelDB's.
//!
//! # Durability
//! Once a write has returned, it survives the end of the process, and also a loss of power if
//! [`WriteOptions::sync`] was set. After a loss of power, a prefix of the sequence of writes is
//! left, which contains every synced write. A batch survives whole or not at all.
//!
//! # Threads
//! [`Db`] is `Send + Sync` and cheap to clone; every method but [`Db::close`] takes `&self`. Reads
//! take no lock that a write or a compaction holds for long. Concurrent writes share a log record
//! and a sync. Each open database has three background threads, unless it shares threads with other
//! databases ([`Resources`]): one thread flushes and two compact. If there is an observer, a
//! further thread calls it. There is no async interface: calls may wait for the disk, so use
//! `spawn_blocking` or the like, as `examples/async_service.rs` does.
//!
//! # Limits
//! - A key and a value must each be shorter than 3 GiB (3,221,225,472 bytes); either may be empty.
//! - One process writes at a time. Other processes may read the state at the moment when they
//!   opened the database ([`Db::open_read_only`]) or last refreshed it ([`ReadOnlyDb::refresh`]).
//! - A get followed by a put is not atomic: if two threads read a value and write it back at the
//!   same time, one of the updates is lost. Use [`Db::update`] or a [`Transaction`].
//! - minikv is tested on Linux; `docs/platforms.md` lists the other systems.
//! - minikv is not a server and not a SQL database.
//!
//! # Modules
//! Types for everyday use are here, at the crate root. The others are in modules:
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`stats`] | the parts of [`Stats`], of a [`ReadTrace`] and of a [`ReadSample`] |
//! | [`events`] | the events that an observer receives ([`Options::observer`]) |
//! | [`bulk`] | tables written outside a database, for [`Db::ingest`] |
//! | [`backup`](mod@backup) | the folder of backups that [`Db::backup`] adds to |
//! | [`repair`](mod@repair) | the parts of a [`RepairReport`] and of a [`Recovery`] |
//! | [`follow`] | the changes of a database ([`Db::changes_since`], [`ReadOnlyDb::follow`]) |
//! | [`explain`] | the parts of an [`Explanation`] |
//! | [`filter`] | filters on their own, and their theory |
//! | [`fs`] | the filesystem interface, with implementations on disk, in memory and simulated |
//! | [`files`] | the files of a database one by one, for tools |

// Only items that users, tests or the command can reach are `pub`.
#![cfg_attr(all(feature = "internals", not(any(shuttle, minikv_loom))), deny(unreachable_pub))]

pub mod backup;
pub mod bulk;
pub mod events;
pub mod explain;
pub mod files;
pub mod filter;
pub mod follow;
pub mod fs;
pub mod repair;
pub mod stats;

mod admin;
mod base;
mod block;
mod db;
mod dialect;
mod engine;
mod format;
mod keyspace;
mod log;
mod readable;
mod table;
mod transaction;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

pub use admin::backup::take::backup;
pub use admin::checkpoint::checkpoint;
pub use admin::destroy::destroy;
pub use admin::findings::Progress;
pub use admin::repair::{RepairOptions, RepairReport, repair, repair_with};
pub use admin::verify::{VerifyReport, verify, verify_with};
pub use base::comparator::{BytewiseComparator, Comparator};
pub use base::error::{Corruption, Error, Feature, Result};
pub use base::key_bounds::KeyBounds;
/// The type of the keys and values that reads return, from the `bytes` crate. Clones share memory.
#[doc(no_inline)]
pub use bytes::Bytes;
pub use db::{Db, ReadOnlyDb};
pub use dialect::indexed_db::IndexedDbComparator;
pub use engine::compact::filter::CompactionDecision;
pub use engine::compression::TableCompression;
pub use engine::delete_range::DeletedRange;
pub use engine::options::{Filters, Options, ReadOptions, WriteOptions};
pub use engine::read::cursor::Cursor;
pub use engine::read::iter::{Iter, Keys};
pub use engine::read::reader::Reader;
pub use engine::read::snapshot::Snapshot;
pub use engine::report::health::{Health, HealthState};
pub use engine::report::recovery::Recovery;
pub use engine::report::stats::Stats;
pub use engine::resources::Resources;
pub use engine::stats::sample::ReadSample;
pub use engine::stats::trace::ReadTrace;
pub use explain::Explanation;
pub use filter::bloom::BloomFilterPolicy;
pub use filter::policy::{FilterGenerator, FilterPolicy};
pub use filter::prefix::{DelimitedPrefix, FixedPrefix, PrefixExtractor};
pub use format::batch::{BatchOp, BatchOps, WriteBatch};
pub use format::compress::Compression;
pub use format::keyspace::KeyspaceKind;
pub use keyspace::Keyspace;
pub use keyspace::expiry::Expiry;
pub use readable::Readable;
pub use transaction::{Savepoint, Transaction};

/// Includes the README, so that its examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
