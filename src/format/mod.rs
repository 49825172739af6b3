//! Bytes only: every structure of LevelDB's files, encoded and decoded, without any I/O.
//!
//! What is frozen by files in the world says so. Nothing here panics on foreign bytes: decoding
//! returns an error that says what was expected.

pub mod batch;
pub mod block;
pub mod block_builder;
pub mod block_cursor;
pub mod block_heads;
pub mod coding;
pub mod compress;
pub mod crc;
pub mod edit;
pub mod fences;
pub mod handle;
pub mod key;
pub mod name;
pub mod record;
