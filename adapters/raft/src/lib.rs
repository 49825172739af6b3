//! minikv replicated: a store for openraft, and a key-value service on it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`store`] | the store for openraft: log, state machine, snapshots; for any program |
//! | [`command`] | the commands of clients, and their outcomes |
//! | [`kv`] | the state machine of the service |
//! | [`requests`] | the commands of the state machine, as bytes |
//! | [`watch`] | the latest changes, for clients that watch |
//! | [`service`] | a node of the service, over HTTP |
//! | [`client`] | a client of the service |
//!
//! `docs/replication.md` says what is guaranteed.

pub mod client;
pub mod command;
pub mod kv;
pub mod requests;
pub mod service;
pub mod store;
pub mod watch;
