//! The index of an open table: a block whose entries say which data block ends at or after a key.
//!
//! A search of the block itself decodes an entry and misses a cache at each step. Where every
//! entry of the block is a restart (LevelDB writes it so) and keys are in byte order, the first
//! eight bytes in which separators differ are kept beside it as numbers, in one array: the search
//! goes there first, and into the block only among separators that share them.

use std::cmp::Ordering;

use crate::base::Result;
use crate::format::block::{Block, EntryRef};
use crate::format::key::KeyOrder;

/// An index block, and a faster way into it.
#[derive(Debug)]
pub struct Index {
    block: Block,
    /// `None` where keys are not in byte order, or not every entry is a restart.
    fences: Option<Fences>,
}

/// The user keys of the separators, cut down to numbers.
#[derive(Debug)]
struct Fences {
    /// What all of them begin with.
    shared: Vec<u8>,
    /// The eight bytes after that, big-endian, padded with zeros: one for each entry, ascending.
    heads: Vec<u64>,
}

impl Index {
    /// Takes a table's index block. Damage in it is not told here, but by who comes upon it.
    pub fn new(block: Block, order: &KeyOrder) -> Index {
        let fences = Fences::of(&block, order);
        Index { block, fences }
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The bytes it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.block.len() + self.fences.as_ref().map_or(0, |fences| size_of_val(&fences.heads[..]))
    }

    /// The first entry whose separator is not less than `target`. `scratch` holds keys on the way.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed.
    #[inline]
    pub fn get_ge<'a>(
        &'a self,
        order: &KeyOrder,
        target: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<EntryRef<'a>>> {
        let Some(fences) = &self.fences else { return self.block.get_ge(order, target, scratch) };
        let (low, high) = fences.around(order.user_key(target));
        let below = self.block.restarts_below(order, target, low, high)?;
        if below == self.block.restarts() {
            return Ok(None);
        }
        self.block.entry_at_restart(below).map(Some)
    }
}

impl Fences {
    fn of(block: &Block, order: &KeyOrder) -> Option<Fences> {
        if order.user().custom().is_some() || !block.restarts_are_entries() {
            return None;
        }
        let key = |i: usize| block.entry_at_restart(i).ok().map(|entry| order.user_key(entry.key));
        let first = key(0)?;
        let last = key(block.restarts() - 1)?;
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let mut heads = Vec::with_capacity(block.restarts());
        for i in 0..block.restarts() {
            // Damaged separators may be out of order: then the block is searched as it is.
            let key = key(i)?.strip_prefix(&first[..shared])?;
            heads.push(head(key));
        }
        let fences = Fences { shared: first[..shared].to_vec(), heads };
        fences.heads.is_sorted().then_some(fences)
    }

    /// Between which entries the first lies that is not less than `key`: entries before the one
    /// are less, and the other, if there is one, is not.
    #[inline]
    fn around(&self, key: &[u8]) -> (usize, usize) {
        let start = &key[..key.len().min(self.shared.len())];
        match start.cmp(&self.shared[..]) {
            Ordering::Less => (0, 0),
            Ordering::Greater => (self.heads.len(), self.heads.len()),
            Ordering::Equal => {
                let head = head(&key[self.shared.len()..]);
                let low = self.heads.partition_point(|&fence| fence < head);
                let same = self.heads[low..].iter().take_while(|&&fence| fence == head).count();
                (low, low + same)
            }
        }
    }
}

#[inline]
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::base::BytewiseComparator;
    use crate::format::block_builder::BlockBuilder;
    use crate::format::key::UserComparator;

    fn order() -> KeyOrder {
        KeyOrder::User(UserComparator::new(Arc::new(BytewiseComparator)))
    }

    fn index(keys: &[Vec<u8>], restart_interval: usize) -> Index {
        let mut builder = BlockBuilder::new(restart_interval);
        for (i, key) in keys.iter().enumerate() {
            builder.add(key, &(i as u32).to_le_bytes());
        }
        let block = Block::new(Bytes::copy_from_slice(builder.finish())).unwrap();
        Index::new(block, &order())
    }

    #[test]
    fn a_search_by_fences_finds_what_a_search_of_the_block_finds() {
        let mut seed = 42u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for round in 0..300 {
            let shared = b"the same for all"[..next(17) as usize].to_vec();
            let mut random_key = |alphabet: u64| {
                let mut key = shared.clone();
                key.extend((0..next(14)).map(|_| b'a' - 1 + next(alphabet) as u8));
                key
            };
            let mut keys: Vec<_> = (0..1 + round).map(|_| random_key(3)).collect();
            keys.sort();
            keys.dedup();
            let index = index(&keys, 1);
            assert!(index.fences.is_some());
            let mut targets: Vec<_> = (0..200).map(|_| random_key(4)).collect();
            targets.extend(keys.iter().cloned());
            targets.extend([b"".to_vec(), b"the".to_vec(), b"tha".to_vec(), b"thz".to_vec()]);
            for target in targets {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                let fast = index.get_ge(&order(), &target, &mut one).unwrap();
                let plain = index.block.get_ge(&order(), &target, &mut other).unwrap();
                let of = |entry: Option<EntryRef<'_>>| entry.map(|entry| entry.key.to_vec());
                assert_eq!(of(fast), of(plain), "round {round}, target {target:?}");
            }
        }
    }

    #[test]
    fn a_block_whose_entries_are_not_all_restarts_is_searched_as_it_is() {
        let keys: Vec<Vec<u8>> = (0..100u8).map(|i| vec![b'k', i]).collect();
        let index = index(&keys, 16);
        assert!(index.fences.is_none());
        let mut scratch = Vec::new();
        let found = index.get_ge(&order(), b"k\x32", &mut scratch).unwrap().unwrap();
        assert_eq!(found.key, b"k\x32");
    }
}
