//! Reads: what they see, and how a get or a cursor finds it.

pub mod get;
pub mod iter;
pub mod level;
pub mod merge;
pub mod prefix_scan;
pub mod reader;
pub mod snapshot;
pub mod sources;
pub mod view;

#[cfg(test)]
mod transcripts;
