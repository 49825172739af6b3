//! The files of a database, one by one: tables, logs, MANIFESTs and their names. For tools that
//! read or write such files without opening the database, such as `minikv inspect`.
//!
//! Nothing here takes the lock of a database. A program that writes files next to an open database,
//! or reads them while another process writes, must synchronize that itself. Bytes are checked when
//! they are decoded: damage is an error that names the file and the offset, never a panic.
//!
//! The layouts are described in `docs/format.md`.
//!
//! ```
//! use minikv::files::{LogReader, live_logs, list_files, recover_manifest};
//! use minikv::fs::{DiskFs, Fs};
//! use minikv::{Db, Options};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let db = Db::open(dir, Options::default().create_if_missing(true))?;
//! db.put("apple", "red")?;
//! db.close()?;
//!
//! let recovered = recover_manifest(&DiskFs, dir, "leveldb.BytewiseComparator")?;
//! let mut records = 0;
//! for number in live_logs(&list_files(&DiskFs, dir)?, &recovered) {
//!     let path = dir.join(minikv::files::log_name(number));
//!     let mut log = LogReader::new(DiskFs.open(&path)?, &path)?;
//!     while log.next()?.is_some() {
//!         records += 1;
//!     }
//! }
//! assert!(records > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::engine::open::directory::{
    check_files, has_database, list as list_files, live_logs,
};
pub use crate::engine::version::manifest::{Recovered, recover as recover_manifest};
pub use crate::filter::block::{FilterBlockBuilder, FilterBlockReader};
pub use crate::filter::whole_table::{TABLE_FILTER_NAME, TableFilter, TableFilterBuilder};
pub use crate::format::batch::{BatchOp, BatchOps, decode_header, decode_ops};
pub use crate::format::compress::{ID_NONE, ID_SNAPPY, ID_ZSTD};
pub use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
pub use crate::format::handle::{
    BLOCK_TRAILER_BYTES, BlockHandle, Footer, TABLE_MAGIC, block_trailer,
};
pub use crate::format::key::{
    InternalComparator, KIND_FOR_SEEK, KeyKind, KeyOrder, ParsedKey, SeqNo, UserComparator,
    internal_key, user_key,
};
pub use crate::format::name::{
    CURRENT, FileName, current_contents, legacy_table_name, log_name, manifest_name, parse_current,
    table_name,
};
pub use crate::log::{LogReader, LogWriter, Tail};
pub use crate::table::filters::FILTER_PREFIX;
pub use crate::table::{
    BlockReadOptions, Found, IndexEntry, NoSink, Table, TableBuilder, TableContext, TableCursor,
    TableOptions, TableSink, TableSummary,
};
