//! The C++ LevelDB library, to hold minikv against: a safe handle over its C API.

pub mod ffi;

pub use ffi::{LevelDb, Settings, repair};
