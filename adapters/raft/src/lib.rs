//! Replication for minikv: a store for openraft, and a key-value service that uses this store.
//!
//! | module | contents |
//! | --- | --- |
//! | [`store`] | the store for openraft, which any program can use: log, state machine, snapshots |
//! | [`command`] | the commands of clients, and their outcomes |
//! | [`kv`] | the state machine of the service |
//! | [`requests`] | the encoding of the state machine's commands |
//! | [`watch`] | the latest changes, for clients that watch |
//! | [`service`] | a node of the service, over HTTP |
//! | [`client`] | a client of the service |
//!
//! `docs/replication.md` describes the guarantees.

pub mod client;
pub mod command;
pub mod kv;
pub mod requests;
pub mod service;
pub mod store;
pub mod watch;
