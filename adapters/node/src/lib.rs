//! minikv for Node.js: the native module behind the JavaScript class `MinikvLevel`.
//!
//! JavaScript code checks the arguments and encodes them as frames ([`frames`]). Calls that may
//! wait for the disk run as jobs ([`job`]) on libuv threads, except those that README.md names. The
//! event loop chooses the state that a read sees, at the time of the call; the job does the rest.

mod changes;
mod database;
mod error;
mod frames;
mod iterator;
mod job;
mod options;
mod shared_transaction;
mod slot;
mod space;
#[cfg_attr(test, allow(dead_code, reason = "napi-rs exports nothing from tests"))]
mod tools;
#[cfg_attr(test, allow(dead_code, reason = "napi-rs exports nothing from tests"))]
mod transaction;
mod view;
mod walk;
