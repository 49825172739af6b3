//! Commands that clients send to the service, and their outcomes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: Bytes,
    /// The new value, or `None` to delete the key.
    pub value: Option<Bytes>,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The key.
    pub key: Bytes,
    /// The value that the key must have, or `None` if the key must be absent.
    pub expected: Option<Bytes>,
}

/// A command from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes all changes if all conditions hold; otherwise makes none of the changes.
    Write {
        /// The conditions. An unconditional write has none.
        conditions: Vec<Condition>,
        /// The changes, in the order in which they are applied.
        ops: Vec<Op>,
    },
    /// Opens a session.
    OpenSession,
}

/// A request within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The session.
    pub session: u64,
    /// The number of the request in the session, higher than the numbers of earlier requests.
    pub sequence: u64,
}

/// A command, and the id of the request if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id of the request. Without an id, a retry counts as a new request.
    pub id: Option<RequestId>,
    /// The command.
    pub command: Command,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The outcome of a write: whether all conditions held.
    Written(bool),
    /// A session with this number was opened.
    Session(u64),
    /// The session has expired or has never existed.
    SessionExpired,
    /// The session has already applied a later request.
    Superseded,
}
