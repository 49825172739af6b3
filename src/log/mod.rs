//! Logs: files of records. Each record is read completely or not at all. The write-ahead log and
//! the MANIFEST are logs. The layout is drawn in [`format::record`](crate::format::record).

pub(crate) mod reader;
pub(crate) mod writer;

pub use reader::{LogReader, Tail};
pub use writer::LogWriter;

#[cfg(test)]
mod testing;
