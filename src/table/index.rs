//! The index of an open table, which maps a key to the data block that may contain the key.
//!
//! Each step of a search in the index block itself decodes an entry and misses the CPU's caches.
//! Therefore two arrays are built from the index block when the table is opened: the location of
//! each data block and, if keys are in byte order, the [`Fences`] (key heads) of the separators. A
//! lookup reads the index block itself only if a separator has the same fence as the key.

use crate::base::Result;
use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::block::fences::Fences;
use crate::format::coding::Decoder;
use crate::format::handle::BlockHandle;
use crate::format::key::KeyOrder;

/// An index block, with arrays that make searching it faster.
#[derive(Debug)]
pub(crate) struct Index {
    block: Block,
    file_bytes: u64,
    /// The location of each data block. `None` if an entry of the index block is malformed, is not
    /// a restart point (in LevelDB's tables, every entry is one), or does not fit in a
    /// [`PackedHandle`]. Such an index block is searched directly, and the search reports any
    /// damage.
    handles: Option<Box<[PackedHandle]>>,
    /// The fences of all separators except the last; `None` if they cannot be built, for example
    /// because keys are not in byte order. The last separator is a short successor ("1" after
    /// "0417"). If it were included, the separators would have no common prefix, and all their
    /// heads would be equal.
    fences: Option<Fences>,
}

/// The location of a data block in the first 4 GiB of a file.
#[derive(Clone, Copy, Debug)]
struct PackedHandle {
    offset: u32,
    size: u32,
}

/// The data block that a search of the index found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSpot {
    /// The position of the data block in the index. `None` if the [`Index`] has no array of
    /// locations, because the index block is damaged or has a layout that LevelDB does not write,
    /// or because the file is larger than 4 GiB.
    pub at: Option<usize>,
    /// The location of the data block.
    pub handle: BlockHandle,
}

impl Index {
    /// Creates the index from the index block of a table of `file_bytes` bytes. Damage in the block
    /// is not reported here, but by the first lookup that reads the damaged entry.
    pub(crate) fn new(block: Block, order: &KeyOrder, file_bytes: u64) -> Index {
        let handles = packed_handles(&block, file_bytes);
        let key = |i: usize| Some(order.user_key(block.view().entry_at_restart(i).ok()?.key));
        let fences = handles
            .as_ref()
            .filter(|_| order.user().custom().is_none())
            .and_then(|handles| Fences::new(handles.len() - 1, key));
        Index { file_bytes, handles, fences, block }
    }

    /// Swaps the locations of the first and the last data block.
    #[cfg(test)]
    pub(crate) fn swap_ends(&mut self) {
        let handles = self.handles.as_mut().expect("the index has locations");
        handles.swap(0, handles.len() - 1);
    }

    /// Loses the locations of all data blocks, so that a search finds none.
    #[cfg(test)]
    pub(crate) fn lose_locations(&mut self) {
        (self.handles, self.fences) = (Some(Box::default()), None);
    }

    /// Returns the index block.
    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the number of data blocks; `None` if the index has no array of their locations.
    pub(crate) fn blocks(&self) -> Option<usize> {
        self.handles.as_ref().map(|handles| handles.len())
    }

    /// Returns the memory that the index takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.len()
            + self.handles.as_ref().map_or(0, |handles| size_of_val(&handles[..]))
            + self.fences.as_ref().map_or(0, Fences::memory_bytes)
    }

    /// Returns the first data block whose separator is not less than `target`.
    ///
    /// # Errors
    /// Corruption, if an entry read by the search is malformed.
    #[inline]
    pub(crate) fn seek(&self, order: &KeyOrder, target: &[u8]) -> Result<Option<IndexSpot>> {
        let Some(handles) = &self.handles else { return self.seek_plain(order, target) };
        let (low, high) = match &self.fences {
            Some(fences) => match fences.around(order.user_key(target)) {
                (low, high) if high + 1 == handles.len() => (low, high + 1),
                around => around,
            },
            None => (0, handles.len()),
        };
        debug_assert!(low <= high && high <= handles.len(), "{low} to {high} of the index");
        let at = match low == high {
            true => low,
            false => self.block.view().restarts_below(order, target, low, high)?,
        };
        let spot = |handle: &PackedHandle| IndexSpot { at: Some(at), handle: handle.unpack() };
        Ok(handles.get(at).map(spot))
    }

    /// Does the same as [`Index::seek`], but searches the index block itself.
    #[cold]
    fn seek_plain(&self, order: &KeyOrder, target: &[u8]) -> Result<Option<IndexSpot>> {
        let mut cursor = self.block.cursor();
        if !cursor.seek(order, target)? {
            return Ok(None);
        }
        Ok(Some(IndexSpot { at: None, handle: decode(cursor.value(), self.file_bytes)? }))
    }

    /// Returns whether `spot` is the data block for `target` by the index block alone: the
    /// separator before it is less than `target`, its own is not, and the locations are the same.
    /// If `spot` is `None`, all separators must be less than `target`.
    ///
    /// # Errors
    /// The same as for [`Index::seek`].
    #[cold]
    pub(crate) fn confirms(
        &self,
        order: &KeyOrder,
        target: &[u8],
        spot: Option<IndexSpot>,
    ) -> Result<bool> {
        let Some(IndexSpot { at: Some(at), handle }) = spot else {
            let plain = self.seek_plain(order, target)?;
            return Ok(plain.map(|plain| plain.handle) == spot.map(|spot| spot.handle));
        };
        let view = self.block.view();
        let is_place = view.restarts_below(order, target, at.saturating_sub(1), at + 1)? == at;
        Ok(is_place && self.handle(view.entry_at_restart(at)?.value)? == handle)
    }

    /// Returns the separator of the data block that [`Index::seek`] finds for `target`; empty if no
    /// block is found. Slower than `seek`, because the separator must be decoded.
    pub(crate) fn separator(&self, order: &KeyOrder, target: &[u8]) -> Result<Vec<u8>> {
        let mut cursor = self.block.cursor();
        Ok(if cursor.seek(order, target)? { cursor.key().to_vec() } else { Vec::new() })
    }

    /// Returns a cursor over the data blocks. The cursor is not yet positioned.
    pub(crate) fn cursor(&self) -> IndexCursor {
        match self.handles {
            Some(_) => IndexCursor::Numbers(None),
            None => IndexCursor::Plain(self.block.cursor()),
        }
    }

    /// Decodes the block handle in the value of an entry.
    ///
    /// # Errors
    /// Corruption, if the handle is malformed or points outside the file.
    pub(crate) fn handle(&self, value: &[u8]) -> Result<BlockHandle> {
        decode(value, self.file_bytes)
    }
}

impl PackedHandle {
    #[inline]
    fn unpack(&self) -> BlockHandle {
        BlockHandle { offset: self.offset.into(), size: self.size.into() }
    }
}

fn decode(value: &[u8], file_bytes: u64) -> Result<BlockHandle> {
    BlockHandle::decode(&mut Decoder::new(value)).and_then(|handle| handle.within(file_bytes))
}

fn packed_handles(block: &Block, file_bytes: u64) -> Option<Box<[PackedHandle]>> {
    if !block.view().restarts_are_entries() {
        return None;
    }
    let packed = |i: usize| {
        let handle = decode(block.view().entry_at_restart(i).ok()?.value, file_bytes).ok()?;
        let (offset, size) = (handle.offset.try_into().ok()?, handle.size.try_into().ok()?);
        Some(PackedHandle { offset, size })
    };
    (0..block.restarts()).map(packed).collect()
}

/// A cursor over the data blocks of an index. The same index must be passed to each call.
#[derive(Debug)]
pub(crate) enum IndexCursor {
    /// A position in the array of blocks; `None` if the cursor is not positioned.
    Numbers(Option<usize>),
    /// A cursor over the index block itself.
    Plain(BlockCursor),
}

impl IndexCursor {
    /// Moves to the first data block whose separator is not less than `target`. Returns false if
    /// there is none.
    ///
    /// # Errors
    /// Corruption, if an entry that the search reads is malformed. All other moves return the same
    /// error.
    pub(crate) fn seek(&mut self, index: &Index, order: &KeyOrder, target: &[u8]) -> Result<bool> {
        match self {
            IndexCursor::Plain(cursor) => cursor.seek(order, target),
            IndexCursor::Numbers(at) => {
                *at = None;
                *at = index.seek(order, target)?.and_then(|spot| spot.at);
                Ok(at.is_some())
            }
        }
    }

    /// Moves to the first data block. Returns false if there are no data blocks.
    pub(crate) fn seek_to_first(&mut self, index: &Index) -> Result<bool> {
        match self {
            IndexCursor::Plain(cursor) => cursor.seek_to_first(),
            IndexCursor::Numbers(at) => Ok(move_to(at, index, Some(0))),
        }
    }

    /// Moves to the last data block. Returns false if there are no data blocks.
    pub(crate) fn seek_to_last(&mut self, index: &Index) -> Result<bool> {
        match self {
            IndexCursor::Plain(cursor) => cursor.seek_to_last(),
            IndexCursor::Numbers(at) => {
                Ok(move_to(at, index, index.blocks().and_then(|blocks| blocks.checked_sub(1))))
            }
        }
    }

    /// Moves to the next data block. Returns false if there is no next block.
    pub(crate) fn next(&mut self, index: &Index) -> Result<bool> {
        match self {
            IndexCursor::Plain(cursor) => cursor.next(),
            IndexCursor::Numbers(at) => Ok(move_to(at, index, at.map(|at| at + 1))),
        }
    }

    /// Moves to the previous data block. Returns false if there is no previous block.
    pub(crate) fn prev(&mut self, index: &Index) -> Result<bool> {
        match self {
            IndexCursor::Plain(cursor) => cursor.prev(),
            IndexCursor::Numbers(at) => Ok(move_to(at, index, at.and_then(|at| at.checked_sub(1)))),
        }
    }

    /// Returns the current data block.
    ///
    /// # Errors
    /// Corruption, if the block's index entry is malformed or points outside the file, or if the
    /// cursor is not positioned.
    pub(crate) fn spot(&self, index: &Index) -> Result<IndexSpot> {
        match self {
            IndexCursor::Plain(cursor) => {
                Ok(IndexSpot { at: None, handle: index.handle(cursor.value())? })
            }
            IndexCursor::Numbers(at) => {
                let handle = at.and_then(|at| index.handles.as_ref()?.get(at));
                let handle = handle.map_or_else(|| index.handle(b""), |h| Ok(h.unpack()))?;
                Ok(IndexSpot { at: *at, handle })
            }
        }
    }
}

/// Sets the position to data block `to`, or to `None` if there is no such block. Returns whether
/// the block exists.
fn move_to(at: &mut Option<usize>, index: &Index, to: Option<usize>) -> bool {
    *at = to.filter(|&to| index.blocks().is_some_and(|blocks| to < blocks));
    at.is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::base::comparator::testing::Reverse;
    use crate::base::random::Rng;
    use crate::base::{BytewiseComparator, Comparator};
    use crate::format::block_builder::BlockBuilder;
    use crate::format::key::UserComparator;

    fn user(order: impl Comparator + 'static) -> KeyOrder {
        KeyOrder::User(UserComparator::new(Arc::new(order)))
    }

    fn index(keys: &[Vec<u8>], restart_interval: usize, order: &KeyOrder) -> Index {
        let mut builder = BlockBuilder::new(restart_interval);
        for (i, key) in keys.iter().enumerate() {
            let mut value = Vec::new();
            BlockHandle { offset: 10 * i as u64, size: 5 }.encode_to(&mut value);
            builder.add(key, &value);
        }
        let block = Block::new(Bytes::copy_from_slice(builder.finish())).unwrap();
        Index::new(block, order, 1 << 20)
    }

    #[test]
    fn a_search_by_numbers_agrees_with_a_search_of_the_block() {
        let mut rng = Rng::new(42);
        let mut next = |below: u64| rng.below(below);
        for round in 0..300 {
            let order = if round % 3 == 0 { user(Reverse) } else { user(BytewiseComparator) };
            let mut random_key = |alphabet: u64| -> Vec<u8> {
                let shared = b"all begin alike".iter().copied();
                shared.chain((0..next(14)).map(|_| b'a' - 1 + next(alphabet) as u8)).collect()
            };
            let mut keys: Vec<_> = (0..2 + round).map(|_| random_key(3)).collect();
            keys.sort_by(|a, b| order.compare(a, b));
            keys.dedup();
            if round % 3 == 1 {
                keys.push(b"b".to_vec());
            }
            let index = index(&keys, 1, &order);
            assert_eq!(index.blocks(), Some(keys.len()));
            assert_eq!(index.fences.is_some(), round % 3 != 0 && keys.len() > 1);
            let mut targets: Vec<_> = (0..200).map(|_| random_key(4)).collect();
            targets.extend(keys.iter().cloned());
            targets.extend([b"".to_vec(), b"all".to_vec(), b"alk".to_vec(), b"z".to_vec()]);
            for target in targets {
                let fast = index.seek(&order, &target).unwrap();
                let plain = index.seek_plain(&order, &target).unwrap();
                let handle = |spot: Option<IndexSpot>| spot.map(|spot| spot.handle);
                assert_eq!(handle(fast), handle(plain), "round {round}, target {target:?}");
                let at = fast.and_then(|spot| spot.at).and_then(|at| keys.get(at));
                let separator = index.separator(&order, &target).unwrap();
                assert_eq!(separator, at.cloned().unwrap_or_default(), "target {target:?}");
            }
        }
    }

    #[test]
    fn a_last_separator_that_begins_otherwise_hides_no_difference() {
        let key = |i: usize| format!("{i:016}").into_bytes();
        let keys: Vec<_> = (0..500).map(key).chain([b"1".to_vec()]).collect();
        let index = index(&keys, 1, &user(BytewiseComparator));
        let fences = index.fences.as_ref().unwrap();
        assert!((0..500).all(|i| fences.around(&key(i)) == (i, i + 1)));
        assert_eq!(fences.around(b"0000000000000123x"), (124, 124));
    }

    #[test]
    fn a_block_whose_entries_are_not_all_restarts_is_searched_as_it_is() {
        let keys: Vec<Vec<u8>> = (0..100u8).map(|i| vec![b'k', i]).collect();
        let order = user(BytewiseComparator);
        let index = index(&keys, 16, &order);
        assert!(index.blocks().is_none() && index.fences.is_none());
        let spot = index.seek(&order, b"k\x32").unwrap().unwrap();
        assert_eq!((spot.at, spot.handle.offset), (None, 500));
        assert_eq!(index.separator(&order, b"k\x31\0").unwrap(), b"k\x32");
    }

    #[test]
    fn a_handle_outside_the_file_is_an_error_when_it_is_read() {
        let keys: Vec<Vec<u8>> = (0..100u8).map(|i| vec![b'k', i]).collect();
        let order = user(BytewiseComparator);
        let mut index = index(&keys, 1, &order);
        index = Index::new(index.block, &order, 700);
        let seek = |key: &[u8]| index.seek(&order, key);
        assert!(seek(b"k\x32").unwrap().is_some());
        assert!(seek(b"k\x62").unwrap_err().is_corruption());
        let mut cursor = index.cursor();
        assert!(cursor.seek_to_first(&index).unwrap() && cursor.spot(&index).is_ok());
        assert!(cursor.seek_to_last(&index).unwrap() && cursor.spot(&index).is_err());
    }
}
