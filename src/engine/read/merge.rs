//! A merge of many sorted sources: the writes of a transaction, memtables, tables of level 0, and
//! sorted levels.
//!
//! The sources are a closed enum, so that a step needs no virtual call. Entries are borrowed from
//! the sources, so a step allocates nothing. All keys in this module are internal keys.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::entry_sum::EntrySum;
use crate::base::{Error, Result};
use crate::engine::memtable::MemCursor;
use crate::engine::read::input::{Inner, InputCursor};
use crate::engine::read::level::LevelCursor;
use crate::engine::read::own::OwnCursor;
use crate::engine::version::TableFile;
use crate::format::key::{InternalComparator, ParsedKey};
use crate::table::counts::LevelTrace;
use crate::table::iter::TableCursor;

/// One sorted run of entries.
pub(crate) enum Source {
    /// The writes of the transaction that reads.
    Own(Box<OwnCursor>),
    /// A memtable.
    Mem(MemCursor),
    /// A table of level 0.
    Table(Box<TableCursor>, Arc<TableFile>),
    /// The tables of a sorted level, one after the other.
    Level(Box<LevelCursor>),
    /// A table or a level that a compaction reads, with a sum of its entries.
    Input(Box<InputCursor>),
}

/// Calls the same method on any kind of source. The methods of sources in memory cannot fail.
macro_rules! each {
    ($self:ident, $mem:ident => $mem_expr:expr, $cursor:ident => $expr:expr) => {
        match $self {
            Source::Own($mem) => $mem_expr,
            Source::Mem($mem) => $mem_expr,
            Source::Table($cursor, _) => $expr,
            Source::Level($cursor) => $expr,
            Source::Input($cursor) => $expr,
        }
    };
}

impl Source {
    /// Returns a source with a sum of its entries.
    pub(crate) fn summed(inner: Inner) -> Source {
        Source::Input(Box::new(InputCursor::new(inner)))
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, mem => mem.key(), cursor => cursor.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, mem => mem.value(), cursor => cursor.value())
    }

    fn value_bytes(&self) -> Bytes {
        each!(self, mem => mem.value_bytes(), cursor => cursor.value_bytes())
    }

    /// Adds the table and the block of the current entry to `error`.
    #[cold]
    fn locate(&self, error: Error) -> Error {
        match self {
            Source::Own(_) | Source::Mem(_) => error,
            Source::Table(cursor, _) => cursor.data_error(error),
            Source::Level(cursor) => cursor.current().data_error(error),
            Source::Input(cursor) => cursor.locate(error),
        }
    }

    /// Returns the table of the current entry; `None` if the entry is in memory.
    fn table(&self) -> Option<&TableFile> {
        match self {
            Source::Own(_) | Source::Mem(_) => None,
            Source::Table(_, file) => Some(file),
            Source::Level(cursor) => cursor.file(),
            Source::Input(cursor) => cursor.table(),
        }
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.seek_to_first()), cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.seek_to_last()), cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        each!(self, mem => Ok(mem.seek(target)), cursor => cursor.seek(target))
    }

    /// Moves to the last entry before `target`. If `or_at` is set and `target` is itself an entry,
    /// moves to that entry instead.
    fn seek_before(&mut self, target: &[u8], or_at: bool) -> Result<bool> {
        // In a table, the seek and the step back can be separate moves, because the entries of a
        // table never change.
        each!(self, mem => Ok(mem.seek_before(target, or_at)), cursor => {
            match cursor.seek(target)? {
                true if or_at && cursor.key() == target => Ok(true),
                true => cursor.prev(),
                false => cursor.seek_to_last(),
            }
        })
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.next()), cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.prev()), cursor => cursor.prev())
    }

    fn each_trace(&self, mut count: impl FnMut(usize, &LevelTrace)) {
        match self {
            Source::Own(_) | Source::Mem(_) => {}
            Source::Table(cursor, _) => count(0, cursor.trace()),
            Source::Level(cursor) => cursor.each_trace(count),
            Source::Input(cursor) => cursor.each_trace(count),
        }
    }
}

/// The direction of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// A cursor over all sources at once. Newer sources come first in `sources`. Two sources hold the
/// same internal key only in a damaged database; the newer source's entry then comes first.
///
/// # Invariants
/// - `heap` holds each source that is at an entry exactly once, and no other source.
/// - In the direction of the walk, a source's entry never comes before the entry of its parent in
///   the heap. So the current entry is the entry of `heap[0]`.
/// - In a forward walk, every source is at its first entry that is not before the current entry. In
///   a backward walk, every source is at its last entry that is not after the current entry. The
///   only exceptions are entries that were inserted into a memtable after the source was
///   positioned.
pub(crate) struct MergeCursor {
    order: InternalComparator,
    sources: Vec<Source>,
    /// Indices of the sources that are at an entry, as a binary heap.
    heap: Vec<u32>,
    /// The place in the heap of the first of the top's children; 0 if it is unknown, as after every
    /// step that changed the top. Most steps leave the same source at the top: most entries are in
    /// the last level.
    first_child: usize,
    direction: Direction,
}

impl MergeCursor {
    /// Returns a cursor over `sources`, newest first. The cursor is at no entry.
    pub(crate) fn new(order: InternalComparator, sources: Vec<Source>) -> MergeCursor {
        MergeCursor {
            order,
            sources,
            heap: Vec::new(),
            first_child: 0,
            direction: Direction::Forward,
        }
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    /// Returns the internal key of the entry.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.top().key()
    }

    /// Returns the parts of the entry's internal key.
    ///
    /// # Errors
    /// Corruption, with the table and the block, if the key is malformed.
    #[inline]
    pub(crate) fn parsed_key(&self) -> Result<ParsedKey<'_>> {
        ParsedKey::parse(self.key()).map_err(|error| self.locate(error))
    }

    /// Adds the table and the block of the current entry to `error`.
    #[cold]
    pub(crate) fn locate(&self, error: Error) -> Error {
        self.top().locate(error)
    }

    /// Returns the table of the entry; `None` if the entry is in a memtable.
    pub(crate) fn table(&self) -> Option<&TableFile> {
        self.top().table()
    }

    /// Returns the value of the entry.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.top().value()
    }

    /// Returns the value of the entry, which shares the memory of its block or memtable.
    pub(crate) fn value_bytes(&self) -> Bytes {
        self.top().value_bytes()
    }

    /// Returns the internal key of each source's entry; `None` if the source is at no entry.
    pub(crate) fn positions(&self) -> Vec<Option<Vec<u8>>> {
        let mut positions = vec![None; self.sources.len()];
        for &at in &self.heap {
            positions[at as usize] = Some(self.sources[at as usize].key().to_vec());
        }
        positions
    }

    /// Returns the sum of the entries of the inputs ([`Source::Input`]) that the merge has passed.
    ///
    /// # Errors
    /// Corruption if the merge has lost an input before the input's end.
    pub(crate) fn inputs_passed(&self) -> Result<EntrySum> {
        let mut sum = EntrySum::default();
        for (at, source) in self.sources.iter().enumerate() {
            let Source::Input(input) = source else { continue };
            if input.is_at_entry() && !self.heap.contains(&(at as u32)) {
                return Err(input.locate(Error::corruption("a merge left out the rest of a table")));
            }
            sum = sum.and(input.sum());
        }
        Ok(sum)
    }

    /// Moves to the first entry. Like every method that moves the cursor, returns whether the
    /// cursor is then at an entry.
    pub(crate) fn seek_to_first(&mut self) -> Result<bool> {
        self.position(Direction::Forward, Source::seek_to_first)
    }

    /// Moves to the last entry.
    pub(crate) fn seek_to_last(&mut self) -> Result<bool> {
        self.position(Direction::Backward, Source::seek_to_last)
    }

    /// Moves to the first entry at or after `target`.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.position(Direction::Forward, |source| source.seek(target))
    }

    /// Moves to the last entry before `target`. If `or_at` is set and `target` is itself an entry,
    /// moves to that entry instead.
    pub(crate) fn seek_before(&mut self, target: &[u8], or_at: bool) -> Result<bool> {
        self.position(Direction::Backward, |source| source.seek_before(target, or_at))
    }

    /// Moves to the next entry. The cursor must be at an entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        debug_assert!(self.valid(), "a step forward from no entry");
        if self.direction == Direction::Backward {
            self.turn_forward()?;
            return Ok(self.valid());
        }
        let top = self.heap[0] as usize;
        match self.sources[top].next() {
            Ok(valid) => Ok(self.settle_top(valid)),
            Err(error) => self.fail(error),
        }
    }

    /// Moves to the previous entry. The cursor must be at an entry.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        debug_assert!(self.valid(), "a step backward from no entry");
        if self.direction == Direction::Forward {
            self.turn_backward()?;
            return Ok(self.valid());
        }
        let top = self.heap[0] as usize;
        match self.sources[top].prev() {
            Ok(valid) => Ok(self.settle_top(valid)),
            Err(error) => self.fail(error),
        }
    }

    /// Passes levels, and counts of the work that the sources have done there so far, to `count`.
    /// A level can come several times.
    pub(crate) fn each_trace(&self, mut count: impl FnMut(usize, &LevelTrace)) {
        self.sources.iter().for_each(|source| source.each_trace(&mut count));
    }

    /// Returns the number of bytes read from files so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        let mut bytes = 0;
        self.each_trace(|_, trace| bytes += trace.bytes_read);
        bytes
    }

    #[inline]
    fn top(&self) -> &Source {
        &self.sources[self.heap[0] as usize]
    }

    /// Moves each source by calling `seek`, and rebuilds the heap.
    fn position(
        &mut self,
        direction: Direction,
        mut seek: impl FnMut(&mut Source) -> Result<bool>,
    ) -> Result<bool> {
        self.direction = direction;
        self.heap.clear();
        for (at, source) in self.sources.iter_mut().enumerate() {
            match seek(source) {
                Ok(true) => self.heap.push(at as u32),
                Ok(false) => {}
                Err(error) => return self.fail(error),
            }
        }
        self.build_heap();
        self.first_child = 0;
        debug_assert!(self.check(), "the heap of sources is out of order");
        Ok(self.valid())
    }

    /// Returns `error`. Leaves the cursor at no entry, because it is unknown which entries the next
    /// step would skip.
    fn fail(&mut self, error: Error) -> Result<bool> {
        self.heap.clear();
        Err(error)
    }

    /// Turns from a backward walk to a forward walk: moves the top source, which is at the current
    /// entry, and all other sources, which are before the current entry, to entries after the
    /// current entry. Returns whether there is a next entry.
    fn turn_forward(&mut self) -> Result<bool> {
        let top = self.heap[0] as usize;
        let key = self.sources[top].key().to_vec();
        let order = self.order.clone();
        self.turn(Direction::Forward, top, |source| {
            let valid = source.seek(&key)?;
            if valid && order.compare(source.key(), &key) == Ordering::Equal {
                return source.next();
            }
            Ok(valid)
        })
    }

    /// Turns from a forward walk to a backward walk: moves all sources to entries before the
    /// current entry. Returns whether there is a previous entry.
    fn turn_backward(&mut self) -> Result<bool> {
        let top = self.heap[0] as usize;
        let key = self.sources[top].key().to_vec();
        self.turn(Direction::Backward, top, |source| source.seek_before(&key, false))
    }

    /// Steps the source `top` in `direction`, and moves all other sources by calling `seek`.
    /// Returns whether there is an entry in that direction.
    fn turn(
        &mut self,
        direction: Direction,
        top: usize,
        mut seek: impl FnMut(&mut Source) -> Result<bool>,
    ) -> Result<bool> {
        let mut at = 0;
        self.position(direction, |source| {
            let is_top = at == top;
            at += 1;
            match (is_top, direction) {
                (true, Direction::Forward) => source.next(),
                (true, Direction::Backward) => source.prev(),
                (false, _) => seek(source),
            }
        })
    }

    /// Returns whether `heap` is in heap order and holds no source twice.
    fn check(&self) -> bool {
        let mut held: Vec<u32> = self.heap.clone();
        held.sort_unstable();
        held.is_sorted_by(|a, b| a < b)
            && held.last().is_none_or(|&last| (last as usize) < self.sources.len())
            && (1..self.heap.len()).all(|at| !self.before(at, (at - 1) / 2))
    }

    fn build_heap(&mut self) {
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Restores the heap order after a step of the top source. `valid` tells whether that source is
    /// still at an entry. Returns whether the cursor is at an entry.
    #[inline]
    fn settle_top(&mut self, valid: bool) -> bool {
        if !valid {
            self.heap.swap_remove(0);
            self.first_child = 0;
        }
        if self.first_child == 0 {
            self.first_child = self.child_of(0).unwrap_or(0);
        }
        if self.first_child != 0 && self.before(self.first_child, 0) {
            self.heap.swap(self.first_child, 0);
            self.sift_down(self.first_child);
            self.first_child = 0;
        }
        debug_assert!(
            (1..self.heap.len().min(3)).all(|at| !self.before(at, 0)),
            "a source comes before the top"
        );
        self.valid()
    }

    fn sift_down(&mut self, mut at: usize) {
        while let Some(child) = self.child_of(at).filter(|&child| self.before(child, at)) {
            self.heap.swap(child, at);
            at = child;
        }
    }

    /// Returns the first of the children of the place `at` of the heap, if there is one.
    #[inline]
    fn child_of(&self, at: usize) -> Option<usize> {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        match self.heap.len() {
            len if len <= left => None,
            len if len == right => Some(left),
            _ => Some(if self.before(right, left) { right } else { left }),
        }
    }

    /// Returns whether the source at position `a` of the heap comes before the source at position
    /// `b`, in the direction of the walk.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.heap[a] as usize, self.heap[b] as usize);
        let order = self.order.compare(self.sources[a].key(), self.sources[b].key());
        match (self.direction, order) {
            (_, Ordering::Equal) => a < b,
            (Direction::Forward, order) => order == Ordering::Less,
            (Direction::Backward, order) => order == Ordering::Greater,
        }
    }
}

impl std::fmt::Debug for MergeCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeCursor").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::base::{BytewiseComparator, Comparator};
    use crate::engine::memtable::{Arena, Memtable};
    use crate::engine::version::testing;
    use crate::format::batch::WriteBatch;
    use crate::format::key::{KIND_FOR_SEEK, UserComparator, internal_key, user_key};

    /// Byte order. The next comparison first calls the stored function, if there is one.
    struct Interrupted(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl std::fmt::Debug for Interrupted {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Interrupted")
        }
    }

    impl Comparator for Interrupted {
        fn name(&self) -> &str {
            "interrupted"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let interrupt = self.0.lock().unwrap().take();
            if let Some(interrupt) = interrupt {
                interrupt();
            }
            BytewiseComparator.compare(a, b)
        }
    }

    fn put(mem: &Memtable, arena: &mut Arena, keys: &[&str], seq: u64) {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| batch.put(key, ""));
        mem.insert_batch(batch.contents(), seq, arena).unwrap();
    }

    /// Checks moves during which new entries are written to the memtable and sorted, as other
    /// threads could do at that time.
    #[test]
    fn a_move_backward_is_not_turned_around_by_entries_that_are_inserted_meanwhile() {
        type Move = fn(&mut MergeCursor) -> Result<bool>;
        let moves: [Move; 3] = [
            MergeCursor::prev,
            |merge| merge.seek_before(&internal_key(b"b", 9, KIND_FOR_SEEK), false),
            |merge| merge.seek_before(&internal_key(b"b", 0, KIND_FOR_SEEK), true),
        ];
        for (number, step) in moves.into_iter().enumerate() {
            let interrupted = Arc::new(Interrupted(Mutex::new(None)));
            let order = UserComparator::new(interrupted.clone());
            let [old, new] = [(); 2].map(|()| Arc::new(Memtable::new(&order, 1 << 20)));
            let mut arena = Arena::default();
            put(&old, &mut Arena::default(), &["a", "b"], 2);
            put(&new, &mut arena, &["A"], 4);
            let sources = [&new, &old].map(|mem| Source::Mem(mem.cursor())).into();
            let order = InternalComparator::new(interrupted.clone());
            let mut merge = MergeCursor::new(order, sources);
            assert!(merge.seek(&internal_key(b"b", 9, KIND_FOR_SEEK)).unwrap());
            let later = new.clone();
            *interrupted.0.lock().unwrap() = Some(Box::new(move || {
                put(&later, &mut arena, &["z"], 5);
                later.cursor();
            }));
            assert!(step(&mut merge).unwrap());
            assert!(interrupted.0.lock().unwrap().is_none(), "nothing was compared");
            let expected = if number == 2 { b"b" } else { b"a" };
            assert_eq!(user_key(merge.key()), expected, "move {number}");
        }
    }

    #[test]
    fn all_entries_come_in_order_from_whichever_sources_in_runs_or_in_turns() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for count in [1, 2, 3, 4, 7, 12] {
            let order = testing::order();
            let mem = |_| Arc::new(Memtable::new(order.user(), 1 << 20));
            let mems: Vec<_> = (0..count).map(mem).collect();
            let mut arenas: Vec<_> = (0..count).map(|_| Arena::default()).collect();
            let mut at = 0;
            let keys: Vec<String> = (0..400).map(|number| format!("{number:04}")).collect();
            for (number, key) in keys.iter().enumerate() {
                if random(4) == 0 {
                    at = random(count as u64) as usize;
                }
                put(&mems[at], &mut arenas[at], &[key], 1 + number as u64);
            }
            let sources = mems.iter().map(|mem| Source::Mem(mem.cursor())).collect();
            let mut merge = MergeCursor::new(order, sources);
            type Move = fn(&mut MergeCursor) -> Result<bool>;
            let mut walk = |seek: Move, step: Move| {
                let (mut found, mut valid) = (Vec::new(), seek(&mut merge).unwrap());
                while valid {
                    found.push(String::from_utf8(user_key(merge.key()).to_vec()).unwrap());
                    valid = step(&mut merge).unwrap();
                }
                found
            };
            assert_eq!(walk(MergeCursor::seek_to_first, MergeCursor::next), keys);
            let back = walk(MergeCursor::seek_to_last, MergeCursor::prev);
            assert!(back.iter().eq(keys.iter().rev()), "{count} sources: {back:?}");
        }
    }

    #[test]
    fn a_heap_holds_each_of_the_sources_at_most_once() {
        let mut merge = MergeCursor::new(testing::order(), Vec::new());
        assert!(merge.check());
        for heap in [vec![0], vec![0, 0], vec![1, 1], vec![3]] {
            merge.heap = heap;
            assert!(!merge.check(), "{:?} of no source", merge.heap);
        }
    }
}
