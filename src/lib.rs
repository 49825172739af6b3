//! minikv: an embedded LSM key-value store whose files are LevelDB's files.

pub mod base;
pub mod db;
pub mod engine;
pub mod filter;
pub mod format;
pub mod fs;
pub mod log;
pub mod table;

pub use base::{BytewiseComparator, Comparator, Error, Result};
pub use db::{Cursor, Db, Iter, ReadOnlyDb, Snapshot};
pub use engine::options::{Options, ReadOptions, WriteOptions};
pub use filter::{BloomFilterPolicy, FilterPolicy};
pub use format::batch::WriteBatch;
pub use format::compress::Compression;
