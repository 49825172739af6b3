//! Reading a block: its entries in both directions, and the first at or after a key.
//!
//! The bytes are drawn at the head of [`block_builder`](crate::format::block_builder). Defined by
//! LevelDB's `table/block.cc`.
//!
//! Nothing in a block is trusted. The restart array is checked once, when the block is made; an
//! entry when it is decoded, and what is wrong with one is an error, never the end of the block.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::format::coding::{get_fixed32, get_varint32};
use crate::format::key::KeyOrder;

/// The contents of a block, uncompressed. Cheap to clone; shares its bytes.
#[derive(Clone)]
pub struct Block {
    data: Bytes,
    /// Where the entries end and the restart array begins.
    entries_end: usize,
    restarts: usize,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("entries_bytes", &self.entries_end)
            .field("restarts", &self.restarts)
            .finish()
    }
}

/// Where the parts of an entry lie.
#[derive(Clone, Copy, Debug)]
struct RawEntry {
    /// Bytes of its key that are those of the key before it.
    shared: usize,
    /// Where the rest of its key begins.
    key_start: usize,
    value_start: usize,
    end: usize,
}

/// An entry of a block.
#[derive(Clone, Debug)]
pub struct EntryRef<'a> {
    /// The whole key.
    pub key: &'a [u8],
    block: &'a Block,
    value: Range<usize>,
}

impl<'a> EntryRef<'a> {
    /// The value.
    pub fn value(&self) -> &'a [u8] {
        &self.block.data[self.value.clone()]
    }

    /// The value, sharing the block's memory.
    pub fn value_bytes(&self) -> Bytes {
        self.block.data.slice(self.value.clone())
    }
}

impl Block {
    /// Takes `data` as a block.
    ///
    /// # Errors
    /// Corruption, if the restart array does not fit or is not ascending from 0.
    pub fn new(data: Bytes) -> Result<Block> {
        let block = Block::layout(data)?;
        block.check_restarts()?;
        Ok(block)
    }

    fn layout(data: Bytes) -> Result<Block> {
        let short = |len: usize| Error::mismatch("block too short", "at least 4 bytes", len);
        let count_at = data.len().checked_sub(4).ok_or_else(|| short(data.len()))?;
        let restarts = get_fixed32(&data, count_at).unwrap_or(0) as usize;
        if restarts > count_at / 4 {
            let room = format!("at most {}", count_at / 4);
            return Err(Error::mismatch("block has impossibly many restarts", room, restarts));
        }
        Ok(Block { entries_end: count_at - restarts * 4, restarts, data })
    }

    fn check_restarts(&self) -> Result<()> {
        if self.entries_end == 0 {
            // LevelDB gives an empty block the one restart 0.
            return match (0..self.restarts).find(|&i| self.restart(i) != 0 || i > 0) {
                None => Ok(()),
                Some(i) => Err(self.bad_restart(i)),
            };
        }
        if self.restarts == 0 {
            return Err(Error::corruption("block has entries but no restarts"));
        }
        let mut least = 0;
        for i in 0..self.restarts {
            let offset = self.restart(i);
            if offset < least || offset >= self.entries_end || (i == 0 && offset != 0) {
                return Err(self.bad_restart(i));
            }
            least = offset + 1;
        }
        Ok(())
    }

    fn bad_restart(&self, i: usize) -> Error {
        Error::mismatch(
            format!("restart {i} of the block is out of order or range"),
            format_args!("ascending from 0 and below {}", self.entries_end),
            self.restart(i),
        )
    }

    /// The bytes it occupies in memory.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether it holds no entries.
    pub fn is_empty(&self) -> bool {
        self.entries_end == 0
    }

    /// The number of restarts.
    pub fn restarts(&self) -> usize {
        self.restarts
    }

    /// The offset of the restart `i`.
    #[inline]
    fn restart(&self, i: usize) -> usize {
        get_fixed32(&self.data, self.entries_end + 4 * i).unwrap_or(0) as usize
    }

    fn malformed(&self, at: usize, why: &str) -> Error {
        Error::corruption(format!("malformed entry at byte {at} of the block: {why}"))
    }

    /// Decodes the entry at `at`, which is before the end of the entries.
    #[inline]
    fn entry(&self, at: usize) -> Result<RawEntry> {
        let entries = &self.data[..self.entries_end];
        let (shared, unshared, value_len, key_start) = match entries.get(at..at + 3) {
            Some(&[a, b, c]) if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), at + 3),
            _ => self.entry_header(at)?,
        };
        // Three 32-bit numbers and an offset in memory: no overflow in 64 bits.
        let value_start = key_start as u64 + u64::from(unshared);
        let end = value_start + u64::from(value_len);
        if end > entries.len() as u64 {
            return Err(self.malformed(at, "it runs past the entries"));
        }
        Ok(RawEntry {
            shared: shared as usize,
            key_start,
            value_start: value_start as usize,
            end: end as usize,
        })
    }

    #[cold]
    fn entry_header(&self, at: usize) -> Result<(u32, u32, u32, usize)> {
        let entries = &self.data[..self.entries_end];
        let mut pos = at;
        let mut lens = [0u32; 3];
        for len in &mut lens {
            let (value, taken) = get_varint32(&entries[pos..])
                .ok_or_else(|| self.malformed(at, "a length is cut short or over 32 bits"))?;
            *len = value;
            pos += taken;
        }
        Ok((lens[0], lens[1], lens[2], pos))
    }

    /// The whole key at a restart.
    #[inline]
    fn restart_key(&self, i: usize) -> Result<&[u8]> {
        let at = self.restart(i);
        let entry = self.entry(at)?;
        if entry.shared != 0 {
            return Err(self.malformed(at, "it is a restart but shares a prefix"));
        }
        Ok(&self.data[entry.key_start..entry.value_start])
    }

    /// The entry at the restart `i`, which is one.
    ///
    /// # Errors
    /// Corruption, if it is malformed.
    #[inline]
    pub fn entry_at_restart(&self, i: usize) -> Result<EntryRef<'_>> {
        let at = self.restart(i);
        let entry = self.entry(at)?;
        if entry.shared != 0 {
            return Err(self.malformed(at, "it is a restart but shares a prefix"));
        }
        Ok(EntryRef {
            key: &self.data[entry.key_start..entry.value_start],
            block: self,
            value: entry.value_start..entry.end,
        })
    }

    /// Whether each entry is sound and a restart, as in an index block.
    pub fn restarts_are_entries(&self) -> bool {
        let next = |i: usize| if i < self.restarts { self.restart(i) } else { self.entries_end };
        !self.is_empty()
            && (0..self.restarts).all(|i| {
                self.entry(self.restart(i))
                    .is_ok_and(|entry| entry.shared == 0 && entry.end == next(i + 1))
            })
    }

    /// The number of restarts whose key is less than `target`, which is known to be from `low` to
    /// `high`: a search over them.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed.
    pub fn restarts_below(
        &self,
        order: &KeyOrder,
        target: &[u8],
        mut low: usize,
        mut high: usize,
    ) -> Result<usize> {
        while low < high {
            let middle = low + (high - low) / 2;
            if order.compare(self.restart_key(middle)?, target) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first entry whose key is not less than `target`, for lookups that want no more.
    /// `scratch` holds keys on the way, so that nothing is allocated once it has grown.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed.
    pub fn get_ge<'a>(
        &'a self,
        order: &KeyOrder,
        target: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<EntryRef<'a>>> {
        let mut position = Position::default();
        if !position.seek(self, order, target, scratch)? {
            return Ok(None);
        }
        Ok(Some(EntryRef {
            key: position.key(self, scratch),
            block: self,
            value: position.value_start..position.end,
        }))
    }

    /// A cursor over the entries, at none of them yet.
    pub fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.clone())
    }
}

/// An entry that was reached, and where its key is: in the block, if it shares nothing with the
/// key before, else put together in a buffer of whoever moves.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    at: usize,
    /// The key in the block. Unused if it is in the buffer.
    key_start: usize,
    key_end: usize,
    key_in_buffer: bool,
    value_start: usize,
    end: usize,
}

impl Position {
    #[inline]
    fn key<'a>(&self, block: &'a Block, buffer: &'a [u8]) -> &'a [u8] {
        if self.key_in_buffer { buffer } else { &block.data[self.key_start..self.key_end] }
    }

    /// Goes to the entry at `at`, which is a restart.
    #[inline]
    fn restart(&mut self, block: &Block, at: usize) -> Result<()> {
        (self.key_in_buffer, self.key_start, self.key_end) = (false, at, at);
        self.step(block, at, &mut Vec::new())
    }

    /// Goes to the entry at `at`, which follows the one stood at.
    #[inline]
    fn step(&mut self, block: &Block, at: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let entry = block.entry(at)?;
        if entry.shared == 0 {
            self.key_in_buffer = false;
            (self.key_start, self.key_end) = (entry.key_start, entry.value_start);
        } else {
            if entry.shared > self.key(block, buffer).len() {
                return Err(block.malformed(at, "it shares more than the key before it has"));
            }
            if self.key_in_buffer {
                buffer.truncate(entry.shared);
            } else {
                let shared = &block.data[self.key_start..self.key_start + entry.shared];
                buffer.clear();
                buffer.extend_from_slice(shared);
                self.key_in_buffer = true;
            }
            buffer.extend_from_slice(&block.data[entry.key_start..entry.value_start]);
        }
        (self.at, self.value_start, self.end) = (at, entry.value_start, entry.end);
        Ok(())
    }

    /// Goes to the first entry whose key is not less than `target`; false if there is none.
    fn seek(
        &mut self,
        block: &Block,
        order: &KeyOrder,
        target: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        if block.is_empty() {
            return Ok(false);
        }
        let below = block.restarts_below(order, target, 0, block.restarts)?;
        if below == 0 {
            self.restart(block, 0)?;
            return Ok(true);
        }
        // The search has told that this restart's key is less and the next one's is not.
        self.restart(block, block.restart(below - 1))?;
        let known = if below < block.restarts { block.restart(below) } else { block.entries_end };
        while self.end < known {
            self.step(block, self.end, buffer)?;
            if order.compare(self.key(block, buffer), target) != Ordering::Less {
                return Ok(true);
            }
        }
        if self.end != known {
            return Err(block.malformed(self.at, "it runs into the next restart"));
        }
        if known == block.entries_end {
            return Ok(false);
        }
        self.restart(block, known)?;
        Ok(true)
    }
}

/// Moves over the entries of a block. Owns its block; keys and values are lent until the next
/// move. Before the first move, past either end and after an error it stands at no entry, and
/// `next` and `prev` stay there.
#[derive(Debug)]
pub struct BlockCursor {
    block: Block,
    valid: bool,
    position: Position,
    key_buffer: Vec<u8>,
    /// The entries between a restart and the position, gathered by the first step back, so that
    /// going back over all of them decodes each once.
    behind: Vec<Behind>,
    behind_keys: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Behind {
    at: usize,
    /// Its key in `behind_keys`.
    key_start: usize,
    key_end: usize,
    value_start: usize,
    end: usize,
}

impl Behind {
    fn new(scan: &Position, key: &[u8], keys: &mut Vec<u8>) -> Behind {
        let key_start = keys.len();
        keys.extend_from_slice(key);
        let key_end = keys.len();
        Behind { at: scan.at, key_start, key_end, value_start: scan.value_start, end: scan.end }
    }
}

#[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend or fail")]
impl BlockCursor {
    /// A cursor over `block`.
    pub fn new(block: Block) -> BlockCursor {
        BlockCursor {
            block,
            valid: false,
            position: Position::default(),
            key_buffer: Vec::new(),
            behind: Vec::new(),
            behind_keys: Vec::new(),
        }
    }

    /// Turns to another block, keeping the buffers.
    pub fn set_block(&mut self, block: Block) {
        self.block = block;
        self.invalidate();
    }

    /// Leaves the entry it stands at.
    pub fn invalidate(&mut self) {
        self.valid = false;
        self.behind.clear();
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Whether it stands at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key. Empty if the cursor stands at no entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid { self.position.key(&self.block, &self.key_buffer) } else { &[] }
    }

    /// The value. Empty if the cursor stands at no entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.valid {
            &self.block.data[self.position.value_start..self.position.end]
        } else {
            &[]
        }
    }

    /// The value, sharing the block's memory.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        if self.valid {
            self.block.data.slice(self.position.value_start..self.position.end)
        } else {
            Bytes::new()
        }
    }

    /// Goes to the first entry whose key is not less than `target`; false if there is none.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed. So do all moves.
    pub fn seek(&mut self, order: &KeyOrder, target: &[u8]) -> Result<bool> {
        self.invalidate();
        self.valid = self.position.seek(&self.block, order, target, &mut self.key_buffer)?;
        Ok(self.valid)
    }

    /// Goes to the first entry; false if there is none.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.invalidate();
        if self.block.is_empty() {
            return Ok(false);
        }
        self.position.restart(&self.block, 0)?;
        self.valid = true;
        Ok(true)
    }

    /// Goes to the last entry; false if there is none.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.invalidate();
        if self.block.is_empty() {
            return Ok(false);
        }
        self.position.restart(&self.block, self.block.restart(self.block.restarts - 1))?;
        while self.position.end < self.block.entries_end {
            self.position.step(&self.block, self.position.end, &mut self.key_buffer)?;
        }
        self.valid = true;
        Ok(true)
    }

    /// Goes to the next entry; false if there is none.
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        if !self.behind.is_empty() {
            self.behind.clear();
        }
        self.valid = false;
        if self.position.end < self.block.entries_end {
            self.position.step(&self.block, self.position.end, &mut self.key_buffer)?;
            self.valid = true;
        }
        Ok(self.valid)
    }

    /// Goes to the entry before; false if there is none.
    pub fn prev(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        self.valid = false;
        if self.behind.is_empty() && self.position.at > 0 {
            self.gather_behind()?;
        }
        let Some(entry) = self.behind.pop() else { return Ok(false) };
        self.key_buffer.clear();
        self.key_buffer.extend_from_slice(&self.behind_keys[entry.key_start..entry.key_end]);
        self.position = Position {
            at: entry.at,
            key_in_buffer: true,
            value_start: entry.value_start,
            end: entry.end,
            ..Position::default()
        };
        self.valid = true;
        Ok(true)
    }

    /// Decodes the entries from the last restart before the position up to it. Where their keys
    /// are too long to keep, only the last one: a block can claim terabytes of shared prefixes.
    fn gather_behind(&mut self) -> Result<()> {
        const KEEP_BYTES: usize = 1 << 20;
        let stop = self.position.at;
        self.behind_keys.clear();
        let mut key_bytes = 0usize;
        let mut scan = Position::default();
        scan.restart(&self.block, self.restart_before(stop))?;
        loop {
            let key = scan.key(&self.block, &self.key_buffer);
            key_bytes = key_bytes.saturating_add(key.len());
            if key_bytes <= KEEP_BYTES {
                self.behind.push(Behind::new(&scan, key, &mut self.behind_keys));
            }
            if scan.end >= stop {
                break;
            }
            if let Err(error) = scan.step(&self.block, scan.end, &mut self.key_buffer) {
                self.behind.clear();
                return Err(error);
            }
        }
        if key_bytes > KEEP_BYTES {
            self.behind.clear();
            self.behind_keys.clear();
            let key = scan.key(&self.block, &self.key_buffer);
            self.behind.push(Behind::new(&scan, key, &mut self.behind_keys));
        }
        if scan.end != stop {
            self.behind.clear();
            return Err(self.block.malformed(scan.at, "it runs into the next restart"));
        }
        Ok(())
    }

    /// The offset of the last restart before `at`, which is not 0.
    fn restart_before(&self, at: usize) -> usize {
        let (mut low, mut high) = (0, self.block.restarts);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle) < at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.block.restart(low.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::block_builder::BlockBuilder;
    use crate::format::coding::put_varint32;
    use crate::format::key::UserComparator;
    use std::sync::Arc;

    type Model = Vec<(Vec<u8>, Vec<u8>)>;

    fn order() -> KeyOrder {
        KeyOrder::User(UserComparator::new(Arc::new(crate::base::BytewiseComparator)))
    }

    fn build(entries: &Model, interval: usize) -> Block {
        let mut builder = BlockBuilder::new(interval);
        for (key, value) in entries {
            builder.add(key, value);
        }
        Block::new(Bytes::copy_from_slice(builder.finish())).unwrap()
    }

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, limit: u64) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) % limit) as usize
        }

        fn bytes(&mut self, max: u64, alphabet: u64) -> Vec<u8> {
            (0..self.below(max + 1)).map(|_| self.below(alphabet) as u8).collect()
        }
    }

    fn model(rng: &mut Rng, entries: u64) -> Model {
        let mut keys: Vec<_> = (0..rng.below(entries)).map(|_| rng.bytes(12, 3)).collect();
        if rng.below(4) == 0 {
            keys.iter_mut().step_by(3).for_each(|key| key.extend_from_slice(&[1; 300]));
        }
        keys.sort();
        keys.dedup();
        keys.into_iter().map(|key| (key, rng.bytes(200, 256))).collect()
    }

    /// Makes a random move with `cursor` and with an index into the model, where the length
    /// stands for "no entry".
    fn step(rng: &mut Rng, model: &Model, cursor: &mut BlockCursor, at: usize) -> usize {
        let (found, at) = match rng.below(8) {
            0 => (cursor.seek_to_first().unwrap(), 0),
            1 => (cursor.seek_to_last().unwrap(), model.len().wrapping_sub(1)),
            2 => {
                let target = rng.bytes(13, 3);
                let at = model.partition_point(|(key, _)| *key < target);
                (cursor.seek(&order(), &target).unwrap(), at)
            }
            3..6 => (cursor.next().unwrap(), if at < model.len() { at + 1 } else { at }),
            _ if at < model.len() => (cursor.prev().unwrap(), at.wrapping_sub(1)),
            _ => (cursor.prev().unwrap(), at),
        };
        let at = at.min(model.len());
        assert_eq!((found, cursor.valid()), (at < model.len(), at < model.len()));
        at
    }

    #[test]
    fn a_cursor_moves_as_a_sorted_list_does() {
        for seed in 0..300 {
            let mut rng = Rng(seed);
            let model = model(&mut rng, 120);
            let block = build(&model, 1 + rng.below(20));
            let mut cursor = block.cursor();
            let mut at = model.len();
            for _ in 0..200 {
                at = step(&mut rng, &model, &mut cursor, at);
                let (key, value) = model.get(at).cloned().unwrap_or_default();
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "seed {seed}");
                assert_eq!(cursor.value_bytes(), value, "seed {seed}");
            }
        }
    }

    #[test]
    fn get_ge_finds_what_a_sorted_list_does() {
        for seed in 0..300 {
            let mut rng = Rng(seed);
            let model = model(&mut rng, 120);
            let block = build(&model, 1 + rng.below(20));
            let mut scratch = Vec::new();
            for _ in 0..100 {
                let target = rng.bytes(13, 3);
                let found = block.get_ge(&order(), &target, &mut scratch).unwrap();
                let found = found.map(|entry| (entry.key.to_vec(), entry.value().to_vec()));
                let want = model.iter().find(|(key, _)| *key >= target).cloned();
                assert_eq!(found, want, "seed {seed}");
            }
        }
    }

    /// A block of one entry with these lengths, and a well-formed restart array.
    fn forged(lens: [u32; 3], rest: &[u8]) -> Block {
        let mut bytes = Vec::new();
        lens.into_iter().for_each(|len| put_varint32(&mut bytes, len));
        bytes.extend_from_slice(rest);
        bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        Block::new(bytes.into()).unwrap()
    }

    #[test]
    fn malformed_entries_are_errors_in_every_move() {
        const MAX: u32 = u32::MAX;
        let lens = [[0, 5, 0], [0, 0, 5], [1, 1, 1], [MAX; 3], [0, MAX, MAX], [0, MAX, 0]];
        for block in lens.map(|lens| forged(lens, b"abcd")) {
            let mut cursor = block.cursor();
            for error in [
                cursor.seek_to_first().unwrap_err(),
                cursor.seek_to_last().unwrap_err(),
                cursor.seek(&order(), b"a").unwrap_err(),
                block.get_ge(&order(), b"a", &mut Vec::new()).unwrap_err(),
            ] {
                assert!(error.is_corruption() && error.to_string().contains("byte 0"), "{error}");
            }
            assert!(!cursor.valid() && !cursor.next().unwrap() && !cursor.prev().unwrap());
        }
        let cut = Block::new(Bytes::from_static(b"\x00\x80\0\0\0\0\x01\0\0\0")).unwrap();
        assert!(cut.cursor().seek_to_first().unwrap_err().is_corruption());
    }

    #[test]
    fn a_malformed_second_entry_is_an_error_after_the_first() {
        let block = forged([0, 1, 1], b"kv\x02\x00\x00");
        let mut cursor = block.cursor();
        assert!(cursor.seek_to_first().unwrap());
        let error = cursor.next().unwrap_err();
        assert!(error.to_string().contains("byte 5"), "{error}");
        assert!(!cursor.valid());
    }

    #[test]
    fn bad_restart_arrays_are_refused() {
        let cases: [&[u8]; 8] = [
            b"",
            b"\x01\0\0",
            b"\x01\0\0\0",
            b"\xff\xff\xff\xff",
            b"\0\x01\x01kv\0\0\0\0",             // entries without a restart
            b"\0\x01\x01kv\x01\0\0\0\x01\0\0\0", // the first is not at 0
            b"\0\x01\x01kv\0\0\0\0\x05\0\0\0\x02\0\0\0", // past the entries
            b"\0\x01\0a\0\x01\0b\0\x01\0c\0\0\0\0\x08\0\0\0\x04\0\0\0\x03\0\0\0", // descending
        ];
        for case in cases {
            let error = Block::new(Bytes::from_static(case)).unwrap_err();
            assert!(error.is_corruption(), "{case:?}");
        }
        assert!(Block::new(Bytes::from_static(&[0; 4])).unwrap().is_empty());
        assert!(Block::new(Bytes::from_static(&[0, 0, 0, 0, 1, 0, 0, 0])).unwrap().is_empty());
    }

    #[test]
    fn no_change_of_a_byte_panics() {
        let mut rng = Rng(1);
        let model = model(&mut rng, 60);
        let bytes = build(&model, 3).data.to_vec();
        for i in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[i] ^= flip;
                let Ok(block) = Block::new(changed.into()) else { continue };
                let mut cursor = block.cursor();
                let mut valid = cursor.seek_to_first();
                while valid.as_ref().is_ok_and(|&valid| valid) {
                    valid = cursor.next();
                }
                let mut valid = cursor.seek_to_last();
                while valid.as_ref().is_ok_and(|&valid| valid) {
                    valid = cursor.prev();
                }
                let _ = cursor.seek(&order(), b"\x01\x01");
            }
        }
    }

    #[test]
    fn going_back_over_keys_too_long_to_keep() {
        let entries: Model =
            (0..40u8).map(|i| ([vec![b'k'; 100_000], vec![i]].concat(), vec![i])).collect();
        let mut cursor = build(&entries, 64).cursor();
        let mut found = cursor.seek_to_last().unwrap();
        for (key, value) in entries.iter().rev() {
            assert!(found && cursor.key() == key && cursor.value() == value);
            found = cursor.prev().unwrap();
        }
        assert!(!found);
        assert!(cursor.behind_keys.capacity() < 4 << 20);
    }
}
