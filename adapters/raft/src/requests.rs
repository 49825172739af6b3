//! The requests of one entry of the log, as bytes. The format is on disk: do not change it.
//!
//! ```text
//! requests:  request*
//! request:   flags (1) | session (8), sequence (8) if flag 1 | a write if not flag 2
//! write:     count (4) | condition* | count (4) | change*
//! condition, change:  key | flags (1) | value if flag 1
//! key, value:         length (4) | bytes
//! ```
//!
//! Flag 1 of a request: it has an id; flag 2: it opens a session, and is not a write. Numbers are
//! big-endian. For example, a put of the value `b` for the key `a`, without an id, is
//! `00 00000000 00000001 00000001 61 01 00000001 62`.
//!
//! Requests stay encoded on their way from the client's node through the log and to other nodes.
//! They are decoded once, when they are applied; keys and values are then slices of the encoded
//! bytes, not copies.

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

use crate::command::{Command, Condition, Op, Request, RequestId};
use crate::store::{Error, Result};

const HAS_ID: u8 = 1;
const OPENS_SESSION: u8 = 2;
const HAS_VALUE: u8 = 1;

/// The encoded requests of one log entry, which may come from many clients. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests(Bytes);

impl Requests {
    /// Encodes requests.
    pub fn new(requests: &[Request]) -> Requests {
        let mut bytes = Vec::new();
        for request in requests {
            put_request(&mut bytes, request);
        }
        Requests(bytes.into())
    }

    /// Returns the size of the encoded requests, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Decodes the requests.
    ///
    /// # Errors
    /// [`Error::Format`] if the bytes are not valid requests.
    pub fn decode(mut self) -> Result<Vec<Request>> {
        let mut requests = Vec::new();
        while self.0.has_remaining() {
            let Some(request) = take_request(&mut self.0) else {
                let what = format!("request {} cannot be decoded", requests.len());
                return Err(Error::Format { place: "an entry of the log".into(), what });
            };
            requests.push(request);
        }
        Ok(requests)
    }
}

fn put_request(to: &mut Vec<u8>, request: &Request) {
    let opens = matches!(request.command, Command::OpenSession);
    to.push(u8::from(request.id.is_some()) * HAS_ID + u8::from(opens) * OPENS_SESSION);
    if let Some(id) = &request.id {
        to.extend_from_slice(&id.session.to_be_bytes());
        to.extend_from_slice(&id.sequence.to_be_bytes());
    }
    if let Command::Write { conditions, ops } = &request.command {
        put_length(to, conditions.len());
        for Condition { key, expected } in conditions {
            put_pair(to, key, expected.as_ref());
        }
        put_length(to, ops.len());
        for Op { key, value } in ops {
            put_pair(to, key, value.as_ref());
        }
    }
}

/// Appends a length as 4 bytes, which is enough because the bodies of requests are smaller than 4
/// GiB.
fn put_length(to: &mut Vec<u8>, length: usize) {
    to.extend_from_slice(&(length as u32).to_be_bytes());
}

fn put_pair(to: &mut Vec<u8>, key: &Bytes, value: Option<&Bytes>) {
    put_length(to, key.len());
    to.extend_from_slice(key);
    to.push(u8::from(value.is_some()) * HAS_VALUE);
    if let Some(value) = value {
        put_length(to, value.len());
        to.extend_from_slice(value);
    }
}

fn take_request(from: &mut Bytes) -> Option<Request> {
    let flags = take_flags(from, HAS_ID | OPENS_SESSION)?;
    let id = match flags & HAS_ID != 0 {
        true => Some(RequestId {
            session: from.try_get_u64().ok()?,
            sequence: from.try_get_u64().ok()?,
        }),
        false => None,
    };
    if flags & OPENS_SESSION != 0 {
        return Some(Request { id, command: Command::OpenSession });
    }
    let pairs = take_pairs(from)?;
    let conditions = pairs.map(|(key, expected)| Condition { key, expected }).collect();
    let ops = take_pairs(from)?.map(|(key, value)| Op { key, value }).collect();
    Some(Request { id, command: Command::Write { conditions, ops } })
}

fn take_flags(from: &mut Bytes, known: u8) -> Option<u8> {
    from.try_get_u8().ok().filter(|flags| flags & !known == 0)
}

fn take_pairs(from: &mut Bytes) -> Option<impl Iterator<Item = (Bytes, Option<Bytes>)> + use<>> {
    let count = from.try_get_u32().ok()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = take_bytes(from)?;
        let has_value = take_flags(from, HAS_VALUE)? == HAS_VALUE;
        let value = if has_value { Some(take_bytes(from)?) } else { None };
        pairs.push((key, value));
    }
    Some(pairs.into_iter())
}

fn take_bytes(from: &mut Bytes) -> Option<Bytes> {
    let length = from.try_get_u32().ok()? as usize;
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_requests() -> Vec<Request> {
        let key = |name: &'static str| Bytes::from(name);
        let conditions = vec![
            Condition { key: key("a"), expected: None },
            Condition { key: key(""), expected: Some(key("")) },
        ];
        let ops = vec![
            Op { key: key("a"), value: Some(key("value")) },
            Op { key: key("gone"), value: None },
        ];
        let id = Some(RequestId { session: 7, sequence: u64::MAX });
        vec![
            Request { id, command: Command::Write { conditions, ops } },
            Request { id: None, command: Command::OpenSession },
            Request { id: None, command: Command::Write { conditions: vec![], ops: vec![] } },
        ]
    }

    #[test]
    fn requests_survive_being_bytes() {
        let requests = some_requests();
        assert_eq!(Requests::new(&requests).decode().unwrap(), requests);
        assert_eq!(Requests::new(&[]).decode().unwrap(), []);

        let put = Op { key: "a".into(), value: Some("b".into()) };
        let command = Command::Write { conditions: vec![], ops: vec![put] };
        let bytes = Requests::new(&[Request { id: None, command }]).0;
        assert_eq!(bytes[..], *b"\0\0\0\0\0\0\0\0\x01\0\0\0\x01a\x01\0\0\0\x01b");
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_requests() {
        let Requests(whole) = Requests::new(&some_requests()[..1]);
        for end in 1..whole.len() {
            assert!(Requests(whole.slice(..end)).decode().is_err(), "cut at {end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 1 << bit;
                // Decoding damaged bytes must not panic or allocate much memory. If decoding
                // succeeds, encoding the requests must give the damaged bytes again.
                if let Ok(requests) = Requests(bytes.clone().into()).decode() {
                    assert_eq!(Requests::new(&requests).0, bytes, "byte {at}, bit {bit}");
                }
            }
        }
    }
}
