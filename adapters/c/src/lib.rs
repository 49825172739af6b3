//! minikv with LevelDB's C API, as `libminikv.so` and `libminikv.a`.
//!
//! The headers in `include/` describe the functions: the functions of `leveldb/c.h`, and functions
//! that only minikv has. All `unsafe` code is in `border`.
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
