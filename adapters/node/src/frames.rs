//! Frames: keys or entries, with their lengths, in one buffer that is passed to or from JavaScript
//! in one step.
//!
//! Numbers have 32 bits and are little-endian. `lib/frames.js` is the JavaScript side.
//!
//! ```text
//! keys:    { length · key }                                   getMany, hasMany
//! batch:   { key length · value length or NONE · key · value }  NONE deletes the key
//!          in an expiring keyspace, the value ends in its expiry: milliseconds in 8 bytes
//! values:  { length or NONE · value }                         NONE: the key is absent
//! changes: { sequence in 8 bytes · number of operations · batch }
//! entries: 1 at the end, else 0 · { key length · value length · key · value }
//! ```

use minikv::{BatchOp, Bytes, WriteBatch};

use crate::error::Fault;

/// The length that stands for a missing value.
const NONE: u32 = u32::MAX;

/// Returns the fault of frames that JavaScript has written wrongly.
pub fn malformed() -> Fault {
    Fault::Other("a frame is cut off".to_owned())
}

/// Frames, which are read from the front.
struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    fn take(&mut self, length: u32) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(length).map_err(|_| malformed())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Fault> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*bytes))
    }
}

/// Returns the keys in `frames`.
pub fn keys(frames: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut frames = Frames(frames);
    let mut keys = Vec::new();
    while !frames.0.is_empty() {
        let length = frames.number()?;
        keys.push(frames.take(length)?.to_vec());
    }
    Ok(keys)
}

/// Calls `each` with the key of each operation in `frames`, and with the value of a put.
pub fn each_operation(
    frames: &[u8],
    mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut frames = Frames(frames);
    while !frames.0.is_empty() {
        let (key_length, value_length) = (frames.number()?, frames.number()?);
        let key = frames.take(key_length)?;
        match value_length {
            NONE => each(key, None)?,
            length => each(key, Some(frames.take(length)?))?,
        }
    }
    Ok(())
}

fn push_length(into: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Fault> {
    // Keys and values are never longer than 3 GiB.
    let length = u32::try_from(bytes.len()).map_err(|_| malformed())?;
    into.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Returns `values` encoded as frames.
pub fn values(values: &[Option<Bytes>]) -> Result<Vec<u8>, Fault> {
    let bytes = values.iter().flatten().map(|value| value.len()).sum::<usize>();
    let mut frames = Vec::with_capacity(bytes + 4 * values.len());
    for value in values {
        match value {
            Some(value) => {
                push_length(&mut frames, value)?;
                frames.extend_from_slice(value);
            }
            None => frames.extend_from_slice(&NONE.to_le_bytes()),
        }
    }
    Ok(frames)
}

/// Appends a committed batch to `frames`, with the number of its first operation.
pub fn push_change(frames: &mut Vec<u8>, batch: &WriteBatch) -> Result<(), Fault> {
    frames.extend_from_slice(&batch.sequence().to_le_bytes());
    let count = u32::try_from(batch.len()).map_err(|_| malformed())?;
    frames.extend_from_slice(&count.to_le_bytes());
    for operation in batch {
        let operation = operation?;
        push_length(frames, operation.key())?;
        match operation {
            BatchOp::Put { key, value } => {
                push_length(frames, value)?;
                frames.extend_from_slice(key);
                frames.extend_from_slice(value);
            }
            BatchOp::Delete { key } => {
                frames.extend_from_slice(&NONE.to_le_bytes());
                frames.extend_from_slice(key);
            }
        }
    }
    Ok(())
}

/// The entries returned by one read of an iterator, encoded as frames.
pub struct Entries {
    frames: Vec<u8>,
    pub count: usize,
}

impl Entries {
    /// Returns an empty list of entries, with capacity for `bytes` bytes of frames.
    pub fn with_capacity(bytes: usize) -> Entries {
        let mut frames = Vec::with_capacity(bytes);
        frames.extend_from_slice(&[0; 4]);
        Entries { frames, count: 0 }
    }

    /// Adds an entry.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        push_length(&mut self.frames, key)?;
        push_length(&mut self.frames, value)?;
        self.frames.extend_from_slice(key);
        self.frames.extend_from_slice(value);
        self.count += 1;
        Ok(())
    }

    /// Returns the frames. `is_end` says whether the iterator has reached its end.
    pub fn finish(mut self, is_end: bool) -> Vec<u8> {
        self.frames[0] = u8::from(is_end);
        self.frames
    }
}

#[cfg(test)]
mod tests {
    use minikv::BatchOp;

    use super::*;

    fn batch(frames: &[u8]) -> Result<WriteBatch, Fault> {
        let mut batch = WriteBatch::new();
        each_operation(frames, |key, value| {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
            Ok(())
        })?;
        Ok(batch)
    }

    const KEYS: &[u8] = b"\x02\0\0\0ab\0\0\0\0";
    const BATCH: &[u8] = b"\x01\0\0\0\x02\0\0\0kvw\x01\0\0\0\xff\xff\xff\xffd";

    #[test]
    fn keys_and_batches_are_read() {
        assert_eq!(keys(KEYS).ok(), Some(vec![b"ab".to_vec(), Vec::new()]));
        let batch = batch(BATCH).ok().unwrap();
        let operations: Vec<_> = batch.iter().map(Result::unwrap).collect();
        assert_eq!(
            operations,
            [BatchOp::Put { key: b"k", value: b"vw" }, BatchOp::Delete { key: b"d" }]
        );
    }

    #[test]
    fn frames_that_are_cut_off_are_errors() {
        for length in 1..KEYS.len() {
            assert_eq!(keys(&KEYS[..length]).is_ok(), length == 6, "{length}");
        }
        for length in 1..BATCH.len() {
            assert_eq!(batch(&BATCH[..length]).is_ok(), length == 11, "{length}");
        }
        assert!(keys(&[0xff; 12]).is_err());
        assert!(batch(&[0xff; 12]).is_err());
    }

    #[test]
    fn changes_are_written_as_batches() {
        let mut frames = Vec::new();
        push_change(&mut frames, &batch(BATCH).ok().unwrap()).ok().unwrap();
        assert_eq!(frames[..12], *b"\0\0\0\0\0\0\0\0\x02\0\0\0");
        assert_eq!(&frames[12..], BATCH);
    }

    #[test]
    fn values_and_entries_are_written() {
        let found = [Some(Bytes::from_static(b"v")), None];
        assert_eq!(values(&found).ok().unwrap(), b"\x01\0\0\0v\xff\xff\xff\xff");
        let mut entries = Entries::with_capacity(0);
        entries.push(b"k", b"vw").ok().unwrap();
        assert_eq!(entries.count, 1);
        assert_eq!(entries.finish(true), b"\x01\0\0\0\x01\0\0\0\x02\0\0\0kvw");
    }
}
