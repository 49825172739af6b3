//! The commands of the service's clients, and their outcomes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: Bytes,
    /// The new value; `None` deletes the key.
    pub value: Option<Bytes>,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The key.
    pub key: Bytes,
    /// The value that the key must have; `None` if the key must be absent.
    pub expected: Option<Bytes>,
}

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes all changes if all conditions hold, and otherwise none.
    Write {
        /// The conditions; a plain write has none.
        conditions: Vec<Condition>,
        /// The changes, in the order in which they are made.
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

/// A command, with its id if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id; without one, a retry counts as a new request.
    pub id: Option<RequestId>,
    /// The command.
    pub command: Command,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Whether the conditions held; true if there were none.
    Written(bool),
    /// The session was opened, with this number.
    Session(u64),
    /// The session has expired, or never existed.
    SessionExpired,
    /// The session has already applied a later request.
    Superseded,
}
