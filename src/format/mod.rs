//! Encoding and decoding of every structure in LevelDB's files, as bytes and without any I/O.
//!
//! The documentation of each structure says whether its layout is fixed by existing files. Decoding
//! never panics, whatever the bytes: it returns an error that says what was expected.

pub(crate) mod batch;
pub mod block_builder;
pub mod coding;
pub mod compress;
pub mod crc;
pub(crate) mod edit;
pub(crate) mod expiry;
pub(crate) mod handle;
pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod name;
pub mod record;
