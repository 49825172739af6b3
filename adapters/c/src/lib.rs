//! minikv with LevelDB's C API, as `libminikv.so` and `libminikv.a`.
//!
//! The headers in `include/` describe the functions: those of `leveldb/c.h`, and minikv's own. All
//! `unsafe` code is in `border`.
#![allow(non_camel_case_types, reason = "the types have the names of the header")]

mod batch;
mod border;
mod callbacks;
mod db;
mod iterator;
mod options;
mod own;
mod snapshot;
mod transaction;
