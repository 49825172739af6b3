//! The bytes of the store. The format is on disk: do not change it.
//!
//! Everything is in five keyspaces. Numbers are big-endian, so that their byte order is their
//! numeric order. Sizes are in parentheses, in bytes.
//!
//! | keyspace | key | value |
//! | --- | --- | --- |
//! | `log` | index (8) | an entry, see below |
//! | `meta` | `vote` | term (8), node (8), committed (1): 0 or 1 |
//! | `meta` | `committed`, `purged` | a log id |
//! | `meta` | `end` | 1 (1): ends a write whose last byte would be 0 |
//! | `state` | `applied` | a log id |
//! | `state` | `membership` | JSON of openraft's `StoredMembership` |
//! | `data` | the user's key | the user's value |
//! | `sessions` | session (8) | see the state machine, `kv.rs` |
//!
//! A log id is term (8), node (8), index (8). The value of an entry is
//!
//! ```text
//! term (8) | node (8) | kind (1) | payload
//! ```
//!
//! where the kind is 0 for a blank entry, without payload; 1 for a command, in postcard's format;
//! and 2 for a membership, in JSON. For example, the blank entry 7 of term 2 and node 1 has the key
//! `00 00 00 00 00 00 00 07` and the value `00 .. 02 00 .. 01 00`, 17 bytes.

use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, Membership, Vote};

use crate::store::StoreConfig;
use crate::store::error::{Error, Result};

pub(crate) const LOG: &str = "log";
pub(crate) const META: &str = "meta";
pub(crate) const STATE: &str = "state";
pub(crate) const DATA: &str = "data";
pub(crate) const SESSIONS: &str = "sessions";

pub(crate) const VOTE: &str = "vote";
pub(crate) const COMMITTED: &str = "committed";
pub(crate) const PURGED: &str = "purged";
pub(crate) const END: &str = "end";
pub(crate) const APPLIED: &str = "applied";
pub(crate) const MEMBERSHIP: &str = "membership";

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERS: u8 = 2;
const ENTRY_HEAD_BYTES: usize = 17;

/// Reads the big-endian number at the offset `at`. Returns `None` if there are fewer than 8 bytes
/// at that offset.
fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

pub(crate) fn index_of(key: &[u8]) -> Result<u64> {
    match key.len() {
        8 => number(key, 0),
        _ => None,
    }
    .ok_or_else(|| Error::format("a key of the log", format!("{} bytes instead of 8", key.len())))
}

pub(crate) fn encode_log_id(id: &LogId<u64>) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&id.leader_id.term.to_be_bytes());
    bytes[8..16].copy_from_slice(&id.leader_id.node_id.to_be_bytes());
    bytes[16..].copy_from_slice(&id.index.to_be_bytes());
    bytes
}

pub(crate) fn decode_log_id(name: &str, bytes: &[u8]) -> Result<LogId<u64>> {
    match (bytes.len(), number(bytes, 0), number(bytes, 8), number(bytes, 16)) {
        (24, Some(term), Some(node), Some(index)) => {
            Ok(LogId::new(CommittedLeaderId::new(term, node), index))
        }
        _ => Err(Error::format(
            format!("the log id `{name}`"),
            format!("{} bytes instead of 24", bytes.len()),
        )),
    }
}

pub(crate) fn encode_vote(vote: &Vote<u64>) -> [u8; 17] {
    let mut bytes = [0; 17];
    bytes[..8].copy_from_slice(&vote.leader_id.term.to_be_bytes());
    bytes[8..16].copy_from_slice(&vote.leader_id.node_id.to_be_bytes());
    bytes[16] = u8::from(vote.committed);
    bytes
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote<u64>> {
    match (bytes.len(), number(bytes, 0), number(bytes, 8), bytes.get(16)) {
        (17, Some(term), Some(node), Some(0)) => Ok(Vote::new(term, node)),
        (17, Some(term), Some(node), Some(1)) => Ok(Vote::new_committed(term, node)),
        _ => Err(Error::format("the vote", format!("not a vote: {}", bytes.escape_ascii()))),
    }
}

pub(crate) fn encode_entry<C: StoreConfig>(entry: &Entry<C>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&entry.log_id.leader_id.term.to_be_bytes());
    bytes.extend_from_slice(&entry.log_id.leader_id.node_id.to_be_bytes());
    let failed = |what: String| Error::format(format!("the entry {}", entry.log_id), what);
    match &entry.payload {
        EntryPayload::Blank => bytes.push(BLANK),
        EntryPayload::Normal(command) => {
            bytes.push(NORMAL);
            bytes = postcard::to_extend(command, bytes).map_err(|e| failed(e.to_string()))?;
        }
        EntryPayload::Membership(members) => {
            bytes.push(MEMBERS);
            serde_json::to_writer(&mut bytes, members).map_err(|e| failed(e.to_string()))?;
        }
    }
    Ok(bytes)
}

/// Decodes the id of an entry. Succeeds only if the entry has a whole head.
pub(crate) fn decode_id(index: u64, bytes: &[u8]) -> Result<LogId<u64>> {
    match (number(bytes, 0), number(bytes, 8), bytes.len()) {
        (Some(term), Some(node), ENTRY_HEAD_BYTES..) => {
            Ok(LogId::new(CommittedLeaderId::new(term, node), index))
        }
        _ => Err(Error::format(
            format!("the entry {index} of the log"),
            format!("{} bytes, but at least {ENTRY_HEAD_BYTES} are needed", bytes.len()),
        )),
    }
}

pub(crate) fn decode_entry<C: StoreConfig>(index: u64, bytes: &[u8]) -> Result<Entry<C>> {
    let failed = |what: String| Error::format(format!("the entry {index} of the log"), what);
    let log_id = decode_id(index, bytes)?;
    let (kind, payload) = (bytes[ENTRY_HEAD_BYTES - 1], &bytes[ENTRY_HEAD_BYTES..]);
    let payload = match kind {
        BLANK if payload.is_empty() => EntryPayload::Blank,
        NORMAL => {
            EntryPayload::Normal(postcard::from_bytes(payload).map_err(|e| failed(e.to_string()))?)
        }
        MEMBERS => {
            let members: Membership<u64, C::Node> =
                serde_json::from_slice(payload).map_err(|e| failed(e.to_string()))?;
            EntryPayload::Membership(members)
        }
        _ => return Err(failed(format!("an unknown kind, {kind}"))),
    };
    Ok(Entry { log_id, payload })
}
