//! Write batches: the unit of atomicity, and the payload of a log record. On-disk format: do not
//! change.
//!
//! ```text
//! sequence of the first operation: fixed64 | count of operations: fixed32 | operation ...
//! operation: 01 key: slice  value: slice        put
//!            00 key: slice                      delete
//!
//! put "k" = "v", delete "k", from sequence 7 on:
//! 07 00 00 00 00 00 00 00 | 02 00 00 00 | 01 01 6b 01 76 | 00 01 6b
//! ```
//!
//! Defined by LevelDB's `db/write_batch.cc`.

use std::fmt;

use crate::base::{Error, Feature, Result};
use crate::format::coding::{Decoder, MAX_VARINT32_BYTES, get_fixed32, get_fixed64, put_slice};
use crate::format::key::{KeyKind, MAX_KEY_OR_VALUE_BYTES, MAX_SEQ_NO, SeqNo};

/// Size of the header before the first operation, in bytes.
pub const HEADER_BYTES: usize = 12;

/// Maximum number of operations in a batch that is written: a memtable takes all of them.
pub(crate) const MAX_OPERATIONS: u32 = (1 << 28) - 1;

const COUNT_OFFSET: usize = 8;
const EMPTY: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// Operations that are applied atomically, in the order they were added.
///
/// A key or a value may be up to 3 GiB - 1 byte long, and a batch may have up to 2^28 - 1
/// operations. Writing a batch with a longer key or value, or with more operations, fails.
///
/// ```
/// use minikv::WriteBatch;
///
/// let mut batch = WriteBatch::new();
/// batch.put("key", "value");
/// batch.delete("old key");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct WriteBatch {
    /// The encoded batch. Empty until the header is needed.
    contents: Vec<u8>,
    /// Reason why the batch cannot be written, if there is one.
    invalid: Option<String>,
}

impl WriteBatch {
    /// Creates an empty batch. Does not allocate.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Creates an empty batch with room for `bytes` bytes of operations.
    pub fn with_capacity(bytes: usize) -> WriteBatch {
        let mut contents = Vec::with_capacity(HEADER_BYTES.saturating_add(bytes));
        contents.extend_from_slice(&EMPTY);
        WriteBatch { contents, invalid: None }
    }

    /// Adds a put of `value` under `key`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.takes("key", key.len()) && self.takes("value", value.len()) {
            self.begin(KeyKind::Value, key.len() + value.len() + 2 * MAX_VARINT32_BYTES);
            put_slice(&mut self.contents, key);
            put_slice(&mut self.contents, value);
        }
    }

    /// Adds a deletion of `key`. Deleting an absent key is not an error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        if self.takes("key", key.len()) {
            self.begin(KeyKind::Deletion, key.len() + MAX_VARINT32_BYTES);
            put_slice(&mut self.contents, key);
        }
    }

    /// Appends the operations of `other` to this batch.
    pub fn append(&mut self, other: &WriteBatch) {
        if self.invalid.is_none() {
            self.invalid.clone_from(&other.invalid);
        }
        if !other.is_empty() {
            let operations = &other.contents()[HEADER_BYTES..];
            self.reserve(operations.len());
            self.add_count(other.count());
            self.contents.extend_from_slice(operations);
        }
    }

    /// Removes all operations and any error, keeping the allocated memory.
    pub fn clear(&mut self) {
        self.contents.clear();
        self.invalid = None;
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    /// Returns whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns the length of the encoded batch, which is its size in the log without record
    /// headers, in bytes.
    pub fn approximate_bytes(&self) -> usize {
        self.contents().len()
    }

    /// Returns an iterator over the operations, in order.
    pub fn iter(&self) -> BatchOps<'_> {
        decode_ops(self.contents())
    }

    /// Returns the sequence number of the first operation; 0 until the engine assigns a number.
    pub fn sequence(&self) -> SeqNo {
        get_fixed64(self.contents(), 0).unwrap_or(0)
    }

    /// Sets the sequence number of the first operation. The numbers of the later operations follow
    /// without gaps.
    pub(crate) fn set_sequence(&mut self, seq: SeqNo) {
        self.reserve(0);
        self.contents[..COUNT_OFFSET].copy_from_slice(&seq.to_le_bytes());
    }

    /// Returns the encoded batch.
    pub fn contents(&self) -> &[u8] {
        if self.contents.is_empty() { &EMPTY } else { &self.contents }
    }

    /// Creates a batch from its encoded form.
    ///
    /// # Errors
    /// Corruption, if the encoding is cut short or its count of operations is wrong; unsupported,
    /// if the batch contains an operation that this build does not know.
    pub fn from_contents(contents: impl Into<Vec<u8>>) -> Result<WriteBatch> {
        let contents = contents.into();
        decode_ops(&contents).try_for_each(|op| op.map(drop))?;
        Ok(WriteBatch { contents, invalid: None })
    }

    /// Checks that the batch can be written.
    ///
    /// # Errors
    /// Invalid argument, if a key or value in the batch is too long, or if the batch has too many
    /// operations.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.invalid {
            Some(what) => Err(Error::invalid(what.clone())),
            None => Ok(()),
        }
    }

    fn count(&self) -> u32 {
        get_fixed32(&self.contents, COUNT_OFFSET).unwrap_or(0)
    }

    fn takes(&mut self, what: &str, len: usize) -> bool {
        let fits = len <= MAX_KEY_OR_VALUE_BYTES;
        if !fits && self.invalid.is_none() {
            let limit = MAX_KEY_OR_VALUE_BYTES;
            self.invalid = Some(format!("a {what} of {len} bytes is over the limit of {limit}"));
        }
        fits
    }

    fn begin(&mut self, kind: KeyKind, bytes: usize) {
        self.reserve(1 + bytes);
        self.add_count(1);
        self.contents.push(kind as u8);
    }

    /// Reserves room for `bytes` more bytes, and adds the header if the batch has none yet.
    fn reserve(&mut self, bytes: usize) {
        if self.contents.is_empty() {
            self.contents.reserve(HEADER_BYTES.saturating_add(bytes));
            self.contents.extend_from_slice(&EMPTY);
        } else {
            self.contents.reserve(bytes);
        }
    }

    /// Adds `ops` to the count in the header, which must be present.
    fn add_count(&mut self, ops: u32) {
        match self.count().checked_add(ops) {
            Some(count) => {
                self.contents[COUNT_OFFSET..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
            }
            None => {
                self.invalid = Some(format!("a batch takes at most {MAX_OPERATIONS} operations"));
            }
        }
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("sequence", &self.sequence())
            .field("operations", &self.len())
            .field("bytes", &self.contents().len())
            .field("invalid", &self.invalid)
            .finish()
    }
}

/// Adds a put for each pair of a key and a value.
///
/// ```
/// use minikv::WriteBatch;
///
/// let mut batch: WriteBatch = [("alice", "70"), ("bob", "30")].into_iter().collect();
/// batch.extend((0..10u32).map(|i| (i.to_be_bytes(), "")));
/// assert_eq!(batch.len(), 12);
/// ```
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for WriteBatch {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| self.put(key, value));
    }
}

/// Creates a batch with a put for each pair of a key and a value.
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for WriteBatch {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.extend(entries);
        batch
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = Result<BatchOp<'a>>;
    type IntoIter = BatchOps<'a>;

    fn into_iter(self) -> BatchOps<'a> {
        self.iter()
    }
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// A put.
    Put {
        /// The user key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A deletion.
    Delete {
        /// The user key.
        key: &'a [u8],
    },
}

impl<'a> BatchOp<'a> {
    /// Returns the user key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            BatchOp::Put { key, .. } | BatchOp::Delete { key } => key,
        }
    }
}

/// Decodes the header of an encoded batch. Returns the sequence number of the first operation, and
/// the number of operations that the header states.
///
/// # Errors
/// Corruption, if `contents` is shorter than a header or a sequence number would exceed 56 bits.
pub fn decode_header(contents: &[u8]) -> Result<(SeqNo, u32)> {
    let (Some(seq), Some(count)) = (get_fixed64(contents, 0), get_fixed32(contents, COUNT_OFFSET))
    else {
        return Err(Error::mismatch("batch too short", "at least 12 bytes", contents.len()));
    };
    if seq.checked_add(u64::from(count)).is_none_or(|end| end > MAX_SEQ_NO + 1) {
        let limit = format!("at most {MAX_SEQ_NO}");
        return Err(Error::mismatch("batch sequence number out of range", limit, seq));
    }
    Ok((seq, count))
}

/// Returns an iterator over the operations of the encoded batch `contents`. The iterator borrows
/// from `contents` and ends after the first error. It also returns an error if the number of
/// operations differs from the count in the header. Offsets in errors are relative to `contents`.
pub fn decode_ops(contents: &[u8]) -> BatchOps<'_> {
    let operations = Decoder::new(contents.get(HEADER_BYTES..).unwrap_or(&[]));
    match decode_header(contents) {
        Ok((_, count)) => BatchOps { operations, count, found: 0, state: DecodeState::Going },
        Err(error) => {
            BatchOps { operations, count: 0, found: 0, state: DecodeState::Failed(error) }
        }
    }
}

/// Iterator over the operations of an encoded batch, created by [`WriteBatch::iter`].
#[derive(Clone, Debug)]
pub struct BatchOps<'a> {
    operations: Decoder<'a>,
    /// Number of operations stated in the header.
    count: u32,
    found: u32,
    state: DecodeState,
}

#[derive(Clone, Debug)]
enum DecodeState {
    Going,
    /// The header is malformed, and the iterator's next item is this error.
    Failed(Error),
    Done,
}

impl<'a> BatchOps<'a> {
    fn decode(&mut self) -> Result<BatchOp<'a>> {
        if self.found == self.count {
            let more = format!("{} bytes more", self.operations.rest().len());
            return Err(self.wrong_count(more));
        }
        let op = match self.operations.u8("batch tag")? {
            tag if tag == KeyKind::Value as u8 => {
                let key = self.operations.slice("key of a put")?;
                BatchOp::Put { key, value: self.operations.slice("value of a put")? }
            }
            tag if tag == KeyKind::Deletion as u8 => {
                BatchOp::Delete { key: self.operations.slice("key of a delete")? }
            }
            tag => return Err(Error::unsupported(Feature::BatchTag, tag.to_string())),
        };
        self.found += 1;
        Ok(op)
    }

    fn wrong_count(&self, found: String) -> Error {
        let position = self.operations.position() as u64;
        Error::mismatch("batch has the wrong count of operations", self.count, found).at(position)
    }
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = Result<BatchOp<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<BatchOp<'a>>> {
        if let DecodeState::Going = self.state {
            let op = if !self.operations.is_empty() {
                self.decode()
            } else if self.found < self.count {
                Err(self.wrong_count(self.found.to_string()))
            } else {
                self.state = DecodeState::Done;
                return None;
            };
            return Some(op.map_err(|error| {
                self.state = DecodeState::Done;
                error.at(HEADER_BYTES as u64)
            }));
        }
        match std::mem::replace(&mut self.state, DecodeState::Done) {
            DecodeState::Failed(error) => Some(Err(error)),
            DecodeState::Going | DecodeState::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worked_example() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put("k", "v");
        batch.delete("k");
        batch.set_sequence(7);
        batch
    }

    fn first_error(contents: &[u8]) -> Error {
        decode_ops(contents).find_map(Result::err).expect("an error")
    }

    #[test]
    fn the_first_operation_reserves_just_enough() {
        let value = [7; 1000];
        let mut batch = WriteBatch::new();
        batch.put(b"key", value);
        // The batch reserves one byte for the tag, and five bytes for each length to be encoded.
        assert_eq!(batch.contents.capacity(), HEADER_BYTES + 1 + 3 + 5 + 1000 + 5);
        let mut batch = WriteBatch::new();
        batch.delete(value);
        assert_eq!(batch.contents.capacity(), HEADER_BYTES + 1 + 1000 + 5);
        let mut batch = WriteBatch::with_capacity(10);
        assert_eq!(batch.contents.capacity(), HEADER_BYTES + 10);
        let filled = batch.contents.capacity() - batch.contents.len();
        batch.put(b"", vec![7; 10 * filled]);
        assert_eq!(batch.contents.capacity(), HEADER_BYTES + 1 + 5 + 10 * filled + 5);
    }

    #[test]
    fn the_worked_example() {
        let batch = worked_example();
        let bytes = b"\x07\0\0\0\0\0\0\0\x02\0\0\0\x01\x01k\x01v\0\x01k";
        assert_eq!(batch.contents(), bytes);
        assert_eq!((batch.len(), batch.sequence(), batch.approximate_bytes()), (2, 7, 20));
        let ops: Vec<_> = batch.iter().collect::<Result<_>>().unwrap();
        assert_eq!(ops, [BatchOp::Put { key: b"k", value: b"v" }, BatchOp::Delete { key: b"k" }]);
        assert_eq!(WriteBatch::from_contents(*bytes).unwrap().contents(), bytes);
    }

    #[test]
    fn an_empty_batch_is_a_header() {
        let mut batch = WriteBatch::new();
        assert!(batch.is_empty());
        assert_eq!(batch.contents(), [0; 12]);
        assert_eq!(batch.iter().count(), 0);
        batch.set_sequence(3);
        assert_eq!((batch.sequence(), batch.len(), batch.contents().len()), (3, 0, 12));
        assert_eq!(WriteBatch::with_capacity(100).contents(), [0; 12]);
        batch.put("", "");
        batch.clear();
        assert_eq!(batch.contents(), [0; 12]);
        assert_eq!(batch.iter().count(), 0);
    }

    #[test]
    fn batches_append() {
        let mut batch = WriteBatch::new();
        batch.append(&WriteBatch::new());
        batch.append(&worked_example());
        assert_eq!(batch.sequence(), 0, "the appended batch's sequence is not taken");
        batch.append(&worked_example());
        assert_eq!(batch.len(), 4);
        assert_eq!(batch.iter().collect::<Result<Vec<_>>>().unwrap().len(), 4);
    }

    #[test]
    fn a_batch_with_too_long_values_or_too_many_entries_is_refused_when_written() {
        let mut batch = worked_example();
        assert!(batch.takes("key", MAX_KEY_OR_VALUE_BYTES) && batch.check().is_ok());
        assert!(!batch.takes("value", MAX_KEY_OR_VALUE_BYTES + 1));
        let error = batch.check().unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        let mut other = WriteBatch::new();
        other.append(&batch);
        assert!(other.check().is_err(), "append takes it along");
        batch.clear();
        assert!(batch.check().is_ok());

        let mut full = worked_example();
        full.add_count(u32::MAX - 2);
        assert!(full.check().is_ok());
        full.delete("one more");
        let error = full.check().unwrap_err().to_string();
        assert!(error.contains(&format!("at most {MAX_OPERATIONS} operations")), "{error}");
    }

    #[test]
    fn counts_are_checked_against_the_operations() {
        let good = worked_example().contents().to_vec();
        for (count, found) in [(1, "3 bytes more"), (3, "2"), (u32::MAX, "2")] {
            let mut bytes = good.clone();
            bytes[8..12].copy_from_slice(&u32::to_le_bytes(count));
            let error = first_error(&bytes);
            assert!(error.is_corruption());
            assert!(error.to_string().contains(found), "{error}");
        }
    }

    #[test]
    fn unknown_tags_are_named() {
        let mut bytes = worked_example().contents().to_vec();
        bytes[12] = 9;
        let error = first_error(&bytes);
        assert!(matches!(
            &error,
            Error::Unsupported { what: Feature::BatchTag, name, .. } if name == "9"
        ));
        assert!(WriteBatch::from_contents(bytes).is_err());
    }

    #[test]
    fn every_truncation_is_an_error_and_the_last_item() {
        let good = worked_example().contents().to_vec();
        for len in 0..good.len() {
            let items: Vec<_> = decode_ops(&good[..len]).collect();
            let (last, before) = items.split_last().expect("an error");
            assert!(last.as_ref().is_err_and(Error::is_corruption), "{len} bytes");
            assert!(before.iter().all(Result::is_ok));
        }
    }

    #[test]
    fn sequences_past_56_bits_are_damage() {
        let mut batch = worked_example();
        batch.set_sequence(MAX_SEQ_NO - 1);
        assert!(decode_header(batch.contents()).is_ok());
        for seq in [MAX_SEQ_NO, MAX_SEQ_NO + 1, u64::MAX] {
            batch.set_sequence(seq);
            assert!(first_error(batch.contents()).is_corruption());
        }
    }
}
