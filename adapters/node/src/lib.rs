//! minikv for Node.js: the native module behind the JavaScript class `MinikvLevel`.
//!
//! JavaScript checks the arguments and encodes them as frames ([`frames`]). Calls that may wait for
//! the disk are jobs ([`job`]) on the threads of libuv. The state that a read sees is chosen on the
//! event loop, at the time of the call; the job does the rest.

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
