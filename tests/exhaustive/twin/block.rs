//! Blocks of tables, as in LevelDB's `table/block.cc`, all of each block decoded at once.

use std::cmp::Ordering;

use super::Bad;
use super::coding::{Input, fixed32};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset in the block.
    pub at: usize,
    end: usize,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// A part of a block, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Entry(Entry),
    /// Damage, and what follows it up to the next restart point. Any entries may have been here.
    Damage,
}

/// A block whose restart array fits.
#[derive(Debug)]
pub struct Block {
    /// The entries from restart point to restart point, which searches and steps backwards read.
    pub items: Vec<Item>,
    /// The entries from the first one on, without regard for restart points.
    pub forwards: Vec<Entry>,
    /// Whether `forwards` ends at the end of the entries.
    pub is_whole: bool,
    entries: Vec<u8>,
    /// Whether an entry goes on past a restart point. If the bytes at the restart point look like
    /// an entry, a search takes them for one, in LevelDB as in minikv; only decoding the whole
    /// block would show it.
    pub is_misaligned: bool,
}

/// Decodes a block; `None` if its restart array does not fit or does not ascend from 0. For
/// LevelDB, a block without restart points is empty whatever it contains, and only reads notice
/// restart points in a wrong order: `Block::new` documents that minikv refuses these blocks.
/// Without entries, a block needs no restart point.
pub fn block(contents: &[u8]) -> Option<Block> {
    let after = contents.len().checked_sub(4)?;
    let restarts = fixed32(contents, after)? as usize;
    let end = after.checked_sub(restarts.checked_mul(4)?)?;
    let restarts: Vec<usize> =
        (0..restarts).map(|i| fixed32(contents, end + 4 * i).unwrap() as usize).collect();
    let ascends = restarts.windows(2).all(|pair| pair[0] < pair[1]);
    let first = *restarts.first().unwrap_or(&end);
    if first != 0 || !ascends || restarts.last() > Some(&end) {
        return None;
    }
    let entries = &contents[..end];
    let mut block = Block {
        items: Vec::new(),
        forwards: Vec::new(),
        is_whole: true,
        entries: entries.to_vec(),
        is_misaligned: false,
    };
    for (i, restart) in restarts.iter().enumerate() {
        block.read_interval(entries, *restart, *restarts.get(i + 1).unwrap_or(&end));
    }
    block.read_forwards(entries);
    Some(block)
}

impl Block {
    /// Reads the entries from one restart point to the next. The first one shares no bytes.
    fn read_interval(&mut self, entries: &[u8], from: usize, to: usize) {
        let (mut at, mut key) = (from, Vec::new());
        while at < to {
            let Ok((entry, next)) = entry(entries, at, &key) else {
                return self.items.push(Item::Damage);
            };
            key = entry.key.clone();
            self.items.push(Item::Entry(entry));
            at = next;
        }
        self.is_misaligned |= at > to;
        // No entry begins at the end, where only an empty block has a restart point.
        if from == to && to > 0 {
            self.items.push(Item::Damage);
        }
    }

    fn read_forwards(&mut self, entries: &[u8]) {
        let (mut at, mut key) = (0, Vec::new());
        while at < entries.len() {
            let Ok((entry, next)) = entry(entries, at, &key) else {
                self.is_whole = false;
                return;
            };
            key = entry.key.clone();
            self.forwards.push(entry);
            at = next;
        }
    }

    /// Returns the entry after `before`, even if it shares bytes at a restart point, where LevelDB
    /// notices that only in searches.
    pub fn after(&self, before: &Entry) -> Option<Entry> {
        entry(&self.entries, before.end, &before.key).ok().map(|(entry, _)| entry)
    }

    pub fn is_damaged(&self) -> bool {
        self.is_misaligned || self.items.contains(&Item::Damage)
    }

    pub fn ascends(&self, order: impl Fn(&[u8], &[u8]) -> Ordering) -> bool {
        let keys: Vec<&[u8]> = self.items.iter().filter_map(Item::key).collect();
        keys.windows(2).all(|pair| order(pair[0], pair[1]) == Ordering::Less)
    }

    /// Returns the index in `items` of the first entry at or after `target`, or else the number of
    /// items; `Err` if damage may hide an earlier one. The keys ascend.
    pub fn seek(
        &self,
        order: impl Fn(&[u8], &[u8]) -> Ordering,
        target: &[u8],
    ) -> Result<usize, Bad> {
        let mut may_hide = false;
        for (i, item) in self.items.iter().enumerate() {
            match item.key() {
                None => may_hide = true,
                Some(key) if order(key, target) == Ordering::Less => may_hide = false,
                Some(_) if may_hide => return Err(Bad::Damaged),
                Some(_) => return Ok(i),
            }
        }
        if may_hide { Err(Bad::Damaged) } else { Ok(self.items.len()) }
    }
}

impl Item {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Item::Entry(entry) => Some(&entry.key),
            Item::Damage => None,
        }
    }
}

/// Decodes the entry at `at`, after an entry with the key `before`. Returns also the offset of the
/// next one.
fn entry(entries: &[u8], at: usize, before: &[u8]) -> Result<(Entry, usize), Bad> {
    let mut input = Input(&entries[at..]);
    let [shared, unshared, value] =
        [input.varint32()?, input.varint32()?, input.varint32()?].map(|len| len as usize);
    if shared > before.len() || unshared + value > input.0.len() {
        return Err(Bad::Damaged);
    }
    let (unshared, rest) = input.0.split_at(unshared);
    let (value, rest) = rest.split_at(value);
    let key = [&before[..shared], unshared].concat();
    let end = entries.len() - rest.len();
    Ok((Entry { at, end, key, value: value.to_vec() }, end))
}
