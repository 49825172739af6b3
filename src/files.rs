//! Access to the individual files of a database: tables, logs, MANIFESTs and their names. Meant for
//! tools that read such files without opening the database, such as `minikv inspect`.
//!
//! Nothing here takes the lock of a database. A program that reads files while another process
//! writes them must do the synchronization itself. Bytes are checked when they are decoded: damage
//! is an error that names the file and the offset, never a panic.
//!
//! The layouts are described in `docs/format.md`.
//!
//! ```
//! use minikv::files::{FileName, LogReader, ParsedKey, TableCursor};
//! use minikv::files::{list_files, live_logs, recover_manifest};
//! use minikv::fs::{DiskFs, Fs};
//! use minikv::{Db, Options, WriteBatch};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let options = Options::default().create_if_missing(true);
//! let db = Db::open(dir, options.clone())?;
//! db.put("apple", "red")?;
//! db.delete("apple")?;
//! db.flush()?;
//! db.put("banana", "yellow")?;
//! db.close()?;
//!
//! let recovered = recover_manifest(&DiskFs, dir, "leveldb.BytewiseComparator")?;
//! for table in &recovered.edit.new_files {
//!     let name = FileName::Table { number: table.number, legacy_sst: false };
//!     let mut cursor = TableCursor::open(dir.join(name.to_string()), &options)?;
//!     let mut valid = cursor.seek_to_first()?;
//!     while valid {
//!         let key = ParsedKey::parse(cursor.key())?;
//!         println!("{:?} {:?} = {:?}", key.user_key, key.kind, cursor.value());
//!         valid = cursor.next()?;
//!     }
//! }
//! let mut puts = 0;
//! for number in live_logs(&list_files(&DiskFs, dir)?, &recovered) {
//!     let path = dir.join(FileName::Log(number).to_string());
//!     let mut log = LogReader::new(DiskFs.open(&path)?, &path)?;
//!     while let Some(record) = log.next()? {
//!         puts += WriteBatch::from_contents(record)?.len();
//!     }
//! }
//! assert_eq!(puts, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Result};
pub use crate::engine::open::directory::live_logs;
pub use crate::engine::open::entries::list as list_files;
use crate::engine::options::Options;
pub use crate::engine::version::manifest::{Recovered, recover as recover_manifest};
pub use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::InternalComparator;
pub use crate::format::key::{KeyKind, ParsedKey, SeqNo};
pub use crate::format::name::FileName;
use crate::fs::absolute;
pub use crate::log::{LogReader, Tail};
pub use crate::table::iter::TableCursor;
use crate::table::{BlockReadOptions, Table};

impl TableCursor {
    /// Opens the table file at `path` and returns a cursor over its entries that is not yet
    /// positioned. Keys in a database's tables are internal keys: [`ParsedKey::parse`] splits an
    /// internal key into its parts, and [`ParsedKey::encode`] makes an internal key to seek to.
    ///
    /// Uses only the comparator and the filesystem from `options`.
    ///
    /// # Errors
    /// Corruption, if the footer or the index is damaged; an I/O error.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<TableCursor> {
        let path = &absolute(&*options.fs, path.as_ref())?;
        let file = options.fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
        let order = InternalComparator::new(options.comparator.clone());
        let context = options.table_context(&order, None);
        let table = Table::open(file, file_bytes, path.clone(), &context)?;
        Ok(Arc::new(table).cursor(BlockReadOptions::default()))
    }
}
