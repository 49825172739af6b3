//! Many sorted sources as one: memtables, tables, levels.
//!
//! The sources are a closed enum, so a step costs no virtual call, and all lend: nothing is
//! allocated for an entry. Keys here are internal keys.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::engine::memtable::MemCursor;
use crate::engine::read::level::LevelCursor;
use crate::engine::stats::trace::ReadTrace;
use crate::engine::version::TableFile;
use crate::format::key::{InternalComparator, ParsedKey};
use crate::table::iter::TableCursor;

/// One sorted run of entries.
pub enum Source {
    /// A memtable.
    Mem(MemCursor),
    /// A table of level 0.
    Table(Box<TableCursor>, Arc<TableFile>),
    /// The tables of a sorted level, one after the other.
    Level(Box<LevelCursor>),
}

/// Calls the same method of whichever source it is; memtables cannot fail.
macro_rules! each {
    ($self:ident, $mem:ident => $mem_expr:expr, $cursor:ident => $expr:expr) => {
        match $self {
            Source::Mem($mem) => $mem_expr,
            Source::Table($cursor, _) => $expr,
            Source::Level($cursor) => $expr,
        }
    };
}

impl Source {
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

    /// Says in which table and block an entry is malformed.
    #[cold]
    fn locate(&self, error: Error) -> Error {
        match self {
            Source::Mem(_) => error,
            Source::Table(cursor, _) => cursor.data_error(error),
            Source::Level(cursor) => cursor.current().data_error(error),
        }
    }

    /// The table it stands in.
    fn table(&self) -> Option<&TableFile> {
        match self {
            Source::Mem(_) => None,
            Source::Table(_, file) => Some(file),
            Source::Level(cursor) => cursor.run.files().get(cursor.at).map(|file| &**file),
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

    #[inline]
    fn next(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.next()), cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        each!(self, mem => Ok(mem.prev()), cursor => cursor.prev())
    }

    fn add_trace_to(&self, trace: &mut ReadTrace) {
        match self {
            Source::Mem(_) => {}
            Source::Table(cursor, _) => trace.levels[0].add(cursor.trace()),
            Source::Level(cursor) => trace.levels[cursor.run.level()].add(&cursor.trace()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A cursor over all sources at once. Newer sources come first in `sources`; two of them never
/// hold the same internal key.
pub struct MergeCursor {
    order: InternalComparator,
    sources: Vec<Source>,
    /// Indices of the valid sources as a binary heap: the one whose entry comes next is first.
    heap: Vec<u32>,
    direction: Direction,
}

impl MergeCursor {
    /// Merges `sources`.
    pub fn new(order: InternalComparator, sources: Vec<Source>) -> MergeCursor {
        MergeCursor { order, sources, heap: Vec::new(), direction: Direction::Forward }
    }

    /// Whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    /// The internal key of the entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.top().key()
    }

    /// The internal key in its parts.
    ///
    /// # Errors
    /// Corruption, with the table and the block, if it is malformed.
    #[inline]
    pub fn parsed_key(&self) -> Result<ParsedKey<'_>> {
        ParsedKey::parse(self.key()).map_err(|error| self.locate(error))
    }

    /// Says that the entry is where `error` is about: in which table and block.
    #[cold]
    pub fn locate(&self, error: Error) -> Error {
        self.top().locate(error)
    }

    /// The table the entry is in; `None` for a memtable.
    pub fn table(&self) -> Option<&TableFile> {
        self.top().table()
    }

    /// The value of the entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.top().value()
    }

    /// The value of the entry, shared with the block or memtable it is in.
    pub fn value_bytes(&self) -> Bytes {
        self.top().value_bytes()
    }

    /// The internal key that each source is at; `None` for one that is at its end.
    pub fn positions(&self) -> Vec<Option<Vec<u8>>> {
        let mut positions = vec![None; self.sources.len()];
        for &at in &self.heap {
            positions[at as usize] = Some(self.sources[at as usize].key().to_vec());
        }
        positions
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.position(Direction::Forward, Source::seek_to_first)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.position(Direction::Backward, Source::seek_to_last)
    }

    /// Moves to the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.position(Direction::Forward, |source| source.seek(target))
    }

    /// Moves to the next entry. The cursor must be at one.
    #[expect(clippy::should_implement_trait, reason = "what it moves to is lent, not given")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
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

    /// Moves to the previous entry. The cursor must be at one.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
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

    /// What the sources have read so far.
    pub fn trace(&self) -> ReadTrace {
        let mut trace = ReadTrace::default();
        for source in &self.sources {
            source.add_trace_to(&mut trace);
        }
        trace
    }

    #[inline]
    fn top(&self) -> &Source {
        &self.sources[self.heap[0] as usize]
    }

    fn position(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut Source) -> Result<bool>,
    ) -> Result<bool> {
        self.direction = direction;
        self.heap.clear();
        for (at, source) in self.sources.iter_mut().enumerate() {
            match place(source) {
                Ok(true) => self.heap.push(at as u32),
                Ok(false) => {}
                Err(error) => return self.fail(error),
            }
        }
        self.build_heap();
        Ok(self.valid())
    }

    /// After an error the cursor is at no entry: what it would skip is unknown.
    fn fail(&mut self, error: crate::base::Error) -> Result<bool> {
        self.heap.clear();
        Err(error)
    }

    /// Walking backward, every source but the top is before the entry; walking forward, all must
    /// be after it.
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

    fn turn_backward(&mut self) -> Result<bool> {
        let top = self.heap[0] as usize;
        let key = self.sources[top].key().to_vec();
        self.turn(Direction::Backward, top, |source| {
            if source.seek(&key)? { source.prev() } else { source.seek_to_last() }
        })
    }

    fn turn(
        &mut self,
        direction: Direction,
        top: usize,
        mut place: impl FnMut(&mut Source) -> Result<bool>,
    ) -> Result<bool> {
        let mut at = 0;
        self.position(direction, |source| {
            let is_top = at == top;
            at += 1;
            match (is_top, direction) {
                (true, Direction::Forward) => source.next(),
                (true, Direction::Backward) => source.prev(),
                (false, _) => place(source),
            }
        })
    }

    fn build_heap(&mut self) {
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Restores the heap after its top moved on.
    #[inline]
    fn settle_top(&mut self, valid: bool) -> bool {
        if !valid {
            self.heap.swap_remove(0);
        }
        if self.heap.len() > 1 {
            self.sift_down(0);
        }
        self.valid()
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child =
                if right < self.heap.len() && self.before(right, left) { right } else { left };
            if !self.before(child, at) {
                return;
            }
            self.heap.swap(child, at);
            at = child;
        }
    }

    /// Whether the heap's entry `a` comes before `b` in the direction of the walk.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.heap[a] as usize, self.heap[b] as usize);
        let order = self.order.compare(self.sources[a].key(), self.sources[b].key());
        match (self.direction, order) {
            // The same internal key twice only in a damaged database: the newer source first.
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
