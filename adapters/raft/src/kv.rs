//! The state machine of the service: entries, conditions and sessions.
//!
//! A session makes retries safe. The number of a session is derived from the index of the log entry
//! that opened the session. Each request in a session has a sequence number, and the session stores
//! the number, the entry and the outcome of the last request. If that request is repeated, it
//! changes nothing and gets the stored outcome and entry. An older request is refused. A session
//! that was not used for [`SESSION_ENTRIES`] entries of the log has expired, and its requests are
//! refused. Each request is therefore applied at most once, however often the client sends it.
//!
//! On disk, the value of a session consists of the index of the log entry with the last request of
//! the session (8 bytes, big-endian), the sequence number of that request (8 bytes), and the
//! outcome of that request in postcard's format.

use minikv::Readable;
use std::sync::Arc;

use bytes::Bytes;
use openraft::LogId;

use crate::command::{Command, Op, Outcome, Request};
use crate::requests::Requests;
use crate::store::{Changes, Error, Machine, Result, SnapshotDir, Space};
use crate::watch::{Change, ChangeId, Hub};

openraft::declare_raft_types!(
    /// The types of the service's Raft group.
    pub TypeConfig:
        D = Requests,
        R = Vec<Answered>,
        NodeId = u64,
        Node = openraft::BasicNode,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotDir,
        AsyncRuntime = openraft::TokioRuntime,
);

/// The index of the entry that a request was applied with, the first time if it is a repeated one,
/// and its outcome.
pub type Answered = (u64, Outcome);

/// Number of log entries after which an unused session expires.
pub const SESSION_ENTRIES: u64 = 1 << 20;
/// Number of log entries between two sweeps of expired sessions.
const SWEEP_ENTRIES: u64 = 1 << 12;
/// Maximum number of sessions examined in one sweep.
const MAX_SWEPT_SESSIONS: usize = 1 << 16;

/// The state machine of the service.
pub struct Kv {
    hub: Arc<Hub>,
    /// Changes that reads cannot see yet, and the total size in bytes of their log entries.
    changes: Vec<Change>,
    bytes: usize,
}

impl Kv {
    /// Creates a state machine that reports changes to `hub`.
    pub fn new(hub: Arc<Hub>) -> Kv {
        Kv { hub, changes: Vec::new(), bytes: 0 }
    }

    fn request(
        &mut self,
        index: u64,
        request: Request,
        changes: &mut Changes<'_>,
    ) -> Result<Answered> {
        let Some(id) = request.id else {
            return Ok((index, self.run(index, request.command, changes)?));
        };
        let key = session_key(id.session);
        let Some(known) = changes.get(Space::Sessions, &key)? else {
            return Ok((index, Outcome::SessionExpired));
        };
        let known = Session::decode(id.session, &known)?;
        if index.saturating_sub(known.index) > SESSION_ENTRIES {
            return Ok((index, Outcome::SessionExpired));
        }
        if id.sequence <= known.sequence {
            let is_same = id.sequence == known.sequence;
            return Ok(match is_same {
                true => (known.index, known.outcome),
                false => (index, Outcome::Superseded),
            });
        }
        let outcome = self.run(index, request.command, changes)?;
        let session = Session { index, sequence: id.sequence, outcome };
        changes.put(Space::Sessions, key, session.encode(id.session)?);
        Ok((index, session.outcome))
    }

    /// Returns the id of the next change of the entry `index`.
    fn next_change(&self, index: u64) -> ChangeId {
        let last = self.changes.last().filter(|change| change.id.index == index);
        ChangeId { index, position: last.map_or(0, |last| last.id.position + 1) }
    }

    fn run(&mut self, index: u64, command: Command, changes: &mut Changes<'_>) -> Result<Outcome> {
        match command {
            Command::OpenSession => {
                // Sessions opened by the same log entry share the index of that entry, so a count
                // in the low bits of the number distinguishes them.
                let mut number = index << 12;
                while changes.get(Space::Sessions, &session_key(number))?.is_some() {
                    number += 1;
                }
                let opened = Session { index, sequence: 0, outcome: Outcome::Session(number) };
                changes.put(Space::Sessions, session_key(number), opened.encode(number)?);
                Ok(opened.outcome)
            }
            Command::Write { conditions, ops } => {
                for condition in conditions {
                    if changes.get(Space::Data, &condition.key)? != condition.expected {
                        return Ok(Outcome::Written(false));
                    }
                }
                for Op { key, value } in ops {
                    let id = self.next_change(index);
                    self.changes.push(Change { id, key: key.clone(), value: value.clone() });
                    match value {
                        Some(value) => changes.put(Space::Data, key, value),
                        None => changes.delete(Space::Data, key),
                    }
                }
                Ok(Outcome::Written(true))
            }
        }
    }

    /// Deletes expired sessions. A sweep may miss some of them, which does no harm: requests in
    /// expired sessions are refused even if the sessions were not deleted.
    fn sweep(&self, index: u64, changes: &mut Changes<'_>) -> Result<()> {
        let Some(before) = index.checked_sub(SESSION_ENTRIES) else { return Ok(()) };
        for entry in changes.state().sessions().iter().take(MAX_SWEPT_SESSIONS) {
            let (key, _) = entry?;
            // An earlier command in this batch may have used the session.
            let Some(value) = changes.get(Space::Sessions, &key)? else { continue };
            let Some(session) = key.as_ref().try_into().ok().map(u64::from_be_bytes) else {
                return Err(Error::Format {
                    place: "a session".into(),
                    what: format!("a key of {} bytes instead of 8", key.len()),
                });
            };
            if session >> 12 > before {
                break;
            }
            if Session::decode(session, &value)?.index < before {
                changes.delete(Space::Sessions, key);
            }
        }
        Ok(())
    }
}

impl Machine<TypeConfig> for Kv {
    fn apply(
        &mut self,
        id: &LogId<u64>,
        requests: Requests,
        changes: &mut Changes<'_>,
    ) -> Result<Vec<Answered>> {
        if id.index.is_multiple_of(SWEEP_ENTRIES) {
            self.sweep(id.index, changes)?;
        }
        self.bytes += requests.bytes();
        requests
            .decode()?
            .into_iter()
            .map(|request| self.request(id.index, request, changes))
            .collect()
    }

    fn no_command(&self) -> Vec<Answered> {
        Vec::new()
    }

    fn written(&mut self, id: &LogId<u64>) {
        let (changes, bytes) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.bytes));
        self.hub.publish(id.index, changes, bytes);
    }

    fn replaced(&mut self, id: Option<&LogId<u64>>) {
        (self.changes, self.bytes) = (Vec::new(), 0);
        self.hub.reset(id.map_or(0, |id| id.index));
    }
}

/// The stored state of a session.
struct Session {
    index: u64,
    sequence: u64,
    outcome: Outcome,
}

fn session_key(session: u64) -> Bytes {
    Bytes::copy_from_slice(&session.to_be_bytes())
}

impl Session {
    fn encode(&self, session: u64) -> Result<Bytes> {
        let mut bytes = self.index.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        let bytes = postcard::to_extend(&self.outcome, bytes).map_err(|e| damaged(session, &e))?;
        Ok(bytes.into())
    }

    fn decode(session: u64, bytes: &[u8]) -> Result<Session> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_be_bytes).ok_or_else(|| damaged(session, &"too few bytes"))
        };
        let (index, sequence) = (number(0)?, number(8)?);
        let outcome = postcard::from_bytes(&bytes[16..]).map_err(|e| damaged(session, &e))?;
        Ok(Session { index, sequence, outcome })
    }
}

fn damaged(session: u64, what: &dyn std::fmt::Display) -> Error {
    Error::Format { place: format!("the session {session}"), what: what.to_string() }
}
