//! Encoding of blocks. On-disk format: do not change.
//!
//! ```text
//! block     entry ... | restart, fixed32 ... | number of restarts, fixed32
//! entry     varint32 shared | varint32 unshared | varint32 value length
//!           | unshared bytes of the key | value
//!
//! "ab" -> "1", "ac" -> "2":
//!   00 02 01 61 62 31   01 01 01 63 32   00 00 00 00   01 00 00 00
//! ```
//!
//! `shared` is the length of the prefix shared with the previous key. For the first of every
//! `restart_interval` entries, `shared` is 0 and the entry's offset is recorded as a restart point.
//! A binary search reads only the entries at restart points. Defined by LevelDB's
//! `table/block_builder.cc`.

use crate::base::prefix::common_prefix;
use crate::format::coding::put_varint32;

/// Encodes sorted entries as a block.
///
/// Call order: `add` any number of times, `finish`, `reset`, then the next block. Entries must be
/// added in order; the builder has no comparator and does not check the order.
#[derive(Debug)]
pub struct BlockBuilder {
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    entries_since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Creates a builder that stores the full key of one in every `restart_interval` entries.
    /// `restart_interval` must be at least 1.
    pub fn new(restart_interval: usize) -> BlockBuilder {
        BlockBuilder {
            buffer: Vec::new(),
            restarts: vec![0],
            restart_interval: restart_interval.max(1),
            entries_since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Adds an entry. Lengths and restart points are 32-bit numbers: the key, the value and the
    /// block so far must each be shorter than 4 GiB.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.buffer.is_empty() {
            0
        } else if self.entries_since_restart < self.restart_interval {
            common_prefix(&self.last_key, key)
        } else {
            debug_assert!(u32::try_from(self.buffer.len()).is_ok());
            self.restarts.push(self.buffer.len() as u32);
            self.entries_since_restart = 0;
            0
        };
        self.entries_since_restart += 1;

        put_varint32(&mut self.buffer, shared as u32);
        put_varint32(&mut self.buffer, (key.len() - shared) as u32);
        put_varint32(&mut self.buffer, value.len() as u32);
        self.buffer.extend_from_slice(&key[shared..]);
        self.buffer.extend_from_slice(value);

        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    /// Returns the last key added, even after a reset.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Returns the last key added, and the last `value_bytes` bytes of the block. After an entry
    /// with a value of that length was added, and before `finish`, these are its value.
    #[inline]
    pub(crate) fn last_entry(&self, value_bytes: usize) -> (&[u8], &[u8]) {
        (&self.last_key, &self.buffer[self.buffer.len() - value_bytes..])
    }

    /// Returns whether nothing was added since the last reset.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the length that the block would have if it were finished now, in bytes.
    pub fn estimated_bytes(&self) -> usize {
        self.buffer.len() + self.restarts.len() * 4 + 4
    }

    /// Finishes the block and returns its bytes. Must be followed by `reset`.
    pub fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.buffer.extend_from_slice(&restart.to_le_bytes());
        }
        self.buffer.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.buffer
    }

    /// Starts the next block.
    pub fn reset(&mut self) {
        // Release the memory of a huge value instead of keeping it for the rest of the table.
        const KEEP_BYTES: usize = 1 << 20;
        self.buffer.clear();
        self.buffer.shrink_to(KEEP_BYTES);
        self.restarts.truncate(1);
        self.entries_since_restart = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut builder = BlockBuilder::new(16);
        builder.add(b"ab", b"1");
        builder.add(b"ac", b"2");
        assert_eq!(builder.estimated_bytes(), 19);
        assert_eq!(
            builder.finish(),
            b"\x00\x02\x01ab1\x01\x01\x01c2\x00\x00\x00\x00\x01\x00\x00\x00"
        );
    }

    #[test]
    fn a_reset_forgets_everything_but_the_last_key() {
        let mut builder = BlockBuilder::new(2);
        let mut build = || {
            for key in [b"aaa", b"aab", b"aac", b"aad"] {
                builder.add(key, b"");
            }
            let bytes = builder.finish().to_vec();
            builder.reset();
            assert!(builder.is_empty());
            assert_eq!(builder.last_key(), b"aad");
            bytes
        };
        let first = build();
        assert_eq!(first, build());
        assert_eq!(
            first,
            b"\x00\x03\x00aaa\x02\x01\x00b\x00\x03\x00aac\x02\x01\x00d\
              \x00\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\x00"
        );
    }

    #[test]
    fn an_empty_block_has_one_restart() {
        assert_eq!(BlockBuilder::new(16).finish(), [0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
