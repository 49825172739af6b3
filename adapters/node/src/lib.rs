//! minikv for Node.js: the native module behind the JavaScript class `MinikvLevel`.
//!
//! JavaScript has checked the arguments and put them into frames ([`frames`]). Calls that may wait
//! for the disk are jobs ([`job`]) on the threads of libuv. The state that a read shows is fixed on
//! the event loop, when the read is called; the job does the rest.

mod database;
mod error;
mod frames;
mod iterator;
mod job;
mod options;
mod slot;
#[cfg_attr(test, allow(dead_code, reason = "napi-rs exports nothing from tests"))]
mod tools;
mod walk;
