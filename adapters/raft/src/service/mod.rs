//! The service: one node of a replicated key-value store, over HTTP.
//!
//! | file | contents |
//! | --- | --- |
//! | `node` | a node: Raft, its store, and the tasks around them |
//! | `serve`, `connections` | the listener of a node, and the limit of its connections |
//! | `hosts` | which hosts and pages are served |
//! | `routes` | the router, and checks that apply to all routes |
//! | `query` | the parameters and bodies of requests |
//! | `writes` | write requests of many clients, combined into entries of the log |
//! | `leading` | calls of Raft that are answered only while the node leads |
//! | `reads` | linearizable reads, reads by lease, and stale reads |
//! | `rounds` | linearizable reads, combined into rounds |
//! | `lease` | the period during which no other node can be leader |
//! | `elections` | when this node may stand for election |
//! | `network` | messages sent to other nodes |
//! | `beats` | heartbeats beside entries or a snapshot that take long |
//! | `sending` | snapshots sent to other nodes |
//! | `target` | the other nodes, and streams to them |
//! | `rpc` | messages from other nodes |
//! | `lane` | a connection on which messages may take long |
//! | `pace` | the number of bytes under way on a connection |
//! | `stream` | the connection for entries of the log |
//! | `sums` | checksums of messages |
//! | `trim` | snapshots and purges when the log gets too large |
//! | `wire` | the HTTP client that `network`, `stream` and `client.rs` use |
//! | `tls` | certificates, and the addresses on which a node may listen |
//! | `http` | the routes of users: entries, batches, ranges |
//! | `events` | the route for watching changes |
//! | `cluster` | the routes that create and change the cluster |
//! | `identity` | the cluster that a node belongs to, checked on every message between nodes |
//! | `peers` | questions to other nodes outside Raft: who they are |
//! | `status`, `health` | what a node knows of its cluster, and whether it can serve requests |
//! | `caretaker` | completing what an older version or an earlier leader has left |
//! | `report` | metrics and the status page |
//! | `text` | keys and values in JSON and in paths |
//! | `error` | errors as HTTP answers |
//! | `notices` | lines on stderr |
//! | `backup` | the routes for reading a backup |
//! | `kept` | the snapshots of backups |
//! | `faults`, `fault_routes` | faults on demand, in builds for tests |

mod backup;
mod beats;
mod caretaker;
mod cluster;
mod connections;
mod elections;
mod error;
mod events;
#[cfg(feature = "faults")]
mod fault_routes;
#[cfg(feature = "faults")]
mod faults;
mod health;
mod hosts;
mod http;
mod identity;
mod kept;
mod lane;
mod leading;
mod lease;
mod network;
mod node;
mod notices;
mod pace;
mod peers;
mod query;
mod reads;
mod report;
mod rounds;
mod routes;
mod rpc;
mod sending;
mod serve;
mod status;
mod stream;
mod sums;
mod target;
mod text;
pub mod tls;
mod trim;
pub(crate) mod wire;
mod writes;

#[cfg(feature = "faults")]
pub use faults::Faults;
pub use node::{LayoutArg, Node, NodeOptions};
pub use notices::notice;
pub use reads::Read;
pub use routes::routes;
pub use serve::Listening;
pub use status::Status;
pub use text::{Text, decode_percent, encode_percent};

/// The bodies of requests and responses, for use by the client.
pub(crate) mod api {
    pub(crate) use super::backup::Listing;
    pub(crate) use super::cluster::{InitBody, JoinBody, LeaveBody};
    pub(crate) use super::error::ErrorBody;
    pub(crate) use super::events::ChangeBody;
    pub(crate) use super::http::{
        BatchBody, ConditionBody, OpBody, Page, SEQUENCE, SESSION, SessionBody, Written,
    };
}
