//! The files of a database, one by one: tables, logs, MANIFESTs and their names. For tools that
//! read such files without opening the database, such as `minikv inspect`.
//!
//! Nothing here takes the lock of a database. A program that reads files while another process
//! writes them must synchronize that itself. Bytes are checked when they are decoded: damage is an
//! error that names the file and the offset, never a panic.
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

pub use crate::engine::open::directory::{list as list_files, live_logs};
pub use crate::engine::version::manifest::{Recovered, recover as recover_manifest};
pub use crate::filter::whole_table::TableFilter;
pub use crate::format::batch::{BatchOp, BatchOps, decode_header, decode_ops};
pub use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
pub use crate::format::handle::{BlockHandle, Footer};
pub use crate::format::key::{
    InternalComparator, KeyKind, KeyOrder, ParsedKey, SeqNo, UserComparator, internal_key, user_key,
};
pub use crate::format::name::{FileName, legacy_table_name, log_name, manifest_name, table_name};
pub use crate::log::{LogReader, Tail};
pub use crate::table::{BlockReadOptions, Found, Table, TableContext, TableCursor};
