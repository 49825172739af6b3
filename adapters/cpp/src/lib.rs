//! The Rust half of minikv's `libleveldb.so.1d`: the C API of `adapters/c`, which is compiled from
//! there, and functions for the C++ half (`*.cc`) where the C API does not reach. The names of
//! these functions begin with `cpp_`, and the library does not export them; `bridge.h` declares
//! them.
#![allow(non_camel_case_types, reason = "the types have the names of the header")]

#[path = "../../c/src/batch.rs"]
mod batch;
#[path = "../../c/src/border.rs"]
mod border;
#[path = "../../c/src/callbacks.rs"]
mod callbacks;
#[path = "../../c/src/db.rs"]
mod db;
#[path = "../../c/src/iterator.rs"]
mod iterator;
#[path = "../../c/src/options.rs"]
mod options;
#[path = "../../c/src/own.rs"]
mod own;
#[path = "../../c/src/snapshot.rs"]
mod snapshot;
#[path = "../../c/src/transaction.rs"]
mod transaction;

mod calls;
mod env;
mod listing;
mod lock;
mod log;
mod order;
mod tables;
