//! Logs: files of records, each there whole or not at all. The write-ahead log and the MANIFEST
//! are both written and read here. [`format::record`](crate::format::record) draws the bytes.

pub mod reader;
pub mod writer;

pub use reader::{LogReader, Tail};
pub use writer::LogWriter;

#[cfg(test)]
mod testing;
