//! Access to the individual files of a database: tables, logs, MANIFESTs and their names. Meant for
//! tools that read such files without opening the database, such as `minikv inspect`.
//!
//! Nothing here takes the lock of a database. A program that reads files while another process
//! writes them must do the synchronization itself; for logs, there is [`LogReader::beside_writer`].
//! Bytes are checked when they are decoded: damage is an error that names the file and the offset,
//! never a panic.
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
//!     let mut log = LogReader::of_batches(DiskFs.open(&path)?, &path)?;
//!     while let Some(record) = log.next()? {
//!         puts += WriteBatch::from_contents(record)?.len();
//!     }
//! }
//! assert_eq!(puts, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod builder;
mod live;
mod table;

pub use batch::BatchRecord;
pub use builder::SingleTableBuilder;
pub use live::{LiveTable, LiveTables};
pub use table::{BlockEntries, TableBlock, TableReader};

pub use crate::engine::open::directory::{check_files, has_database, live_logs};
pub use crate::engine::open::entries::list_files;
pub use crate::engine::version::manifest::{Recovered, read_current, recover_manifest};
pub use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
pub use crate::format::handle::{BlockHandle, TABLE_MAGIC};
pub use crate::format::key::{KeyKind, MAX_SEQ_NO, ParsedKey, SeqNo, user_key};
pub use crate::format::name::{FileName, current_contents, parse_current};
pub use crate::log::{LogReader, LogWriter, Tail};
pub use crate::table::iter::TableCursor;
pub use crate::table::reader::BlockInfo;
pub use crate::table::refilter::TableTail;
