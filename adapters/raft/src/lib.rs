//! minikv replicated: a store for openraft, and a key-value service on it.
pub mod kv;
pub mod service;
pub mod store;
pub mod watch;
