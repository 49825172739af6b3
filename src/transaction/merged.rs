//! A cursor over the database and the writes of a transaction, merged by user key. A write of the
//! transaction hides the database's entry of the same key.
//!
//! While the cursor moves forward, its position in the database and its position in the
//! transaction's writes are each at the first entry that is not before the current entry. While it
//! moves backward, each is at the last entry that is not after the current entry. When the
//! direction changes, seeks find both positions again.

use std::cmp::Ordering;
use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::engine::read::cursor::Cursor;
use crate::transaction::own::{OwnWrite, OwnWrites};

/// The source of the current entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The cursor is at no entry.
    Nowhere,
    /// The database's entry is the current entry.
    Base,
    /// The transaction's write is the current entry.
    Own,
    /// The transaction's write is the current entry, and hides the database's entry of the same
    /// key.
    Both,
}

/// The direction of the last move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// A cursor over a transaction's view.
#[derive(Debug)]
pub(super) struct MergedCursor<'t> {
    base: Cursor,
    writes: &'t OwnWrites,
    own: Option<OwnWrite<'t>>,
    place: Place,
    direction: Direction,
}

impl<'t> MergedCursor<'t> {
    /// Returns a cursor over the entries of `base` and the writes. The cursor is at no entry until
    /// it is first moved.
    pub(super) fn new(base: Cursor, writes: &'t OwnWrites) -> MergedCursor<'t> {
        let direction = Direction::Forward;
        MergedCursor { base, writes, own: None, place: Place::Nowhere, direction }
    }

    pub(super) fn valid(&self) -> bool {
        self.place != Place::Nowhere
    }

    /// Leaves the current entry, so that the cursor is at no entry.
    pub(super) fn leave(&mut self) {
        self.place = Place::Nowhere;
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn key(&self) -> &[u8] {
        match (self.place, &self.own) {
            (Place::Own | Place::Both, Some(own)) => own.key,
            _ => self.base.key(),
        }
    }

    pub(super) fn value(&self) -> &[u8] {
        match (self.place, &self.own) {
            (Place::Own | Place::Both, Some(own)) => own.value.map_or(&[], |value| value),
            _ => self.base.value(),
        }
    }

    pub(super) fn value_bytes(&self) -> Bytes {
        match (self.place, &self.own) {
            (Place::Own | Place::Both, Some(own)) => own.value.cloned().unwrap_or_default(),
            _ => self.base.value_bytes(),
        }
    }

    /// Moves to the first entry within the lower bound. Like all moves, returns whether there is
    /// such an entry.
    pub(super) fn seek_from(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        self.place = Place::Nowhere;
        self.direction = Direction::Forward;
        match from {
            Bound::Unbounded => self.base.seek_to_first()?,
            Bound::Included(key) => self.base.seek(key)?,
            Bound::Excluded(key) => {
                let is_at_key = self.base.seek(key)?
                    && self.writes.order().compare(self.base.key(), key).is_eq();
                if is_at_key { self.base.next()? } else { self.base.valid() }
            }
        };
        self.own = self.writes.first_from(from);
        self.settle()
    }

    /// Moves to the last entry within the upper bound.
    pub(super) fn seek_to(&mut self, to: Bound<&[u8]>) -> Result<bool> {
        self.place = Place::Nowhere;
        self.direction = Direction::Backward;
        match to {
            Bound::Unbounded => self.base.seek_to_last()?,
            Bound::Included(key) => self.base.seek_for_prev(key)?,
            Bound::Excluded(key) => self.base.seek_before(key)?,
        };
        self.own = self.writes.last_to(to);
        self.settle()
    }

    /// Moves to the next entry, if the cursor is at an entry.
    pub(super) fn next(&mut self) -> Result<bool> {
        match (self.place, self.direction) {
            (Place::Nowhere, _) => Ok(false),
            (_, Direction::Forward) => self.step(),
            (_, Direction::Backward) => {
                let key = self.key().to_vec();
                self.seek_from(Bound::Excluded(&key))
            }
        }
    }

    /// Moves to the previous entry, if the cursor is at an entry.
    pub(super) fn prev(&mut self) -> Result<bool> {
        match (self.place, self.direction) {
            (Place::Nowhere, _) => Ok(false),
            (_, Direction::Backward) => self.step(),
            (_, Direction::Forward) => {
                let key = self.key().to_vec();
                self.seek_to(Bound::Excluded(&key))
            }
        }
    }

    /// Moves past the current entry in the direction of the last move, to the next entry.
    fn step(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => return Ok(false),
            Place::Base => self.step_base()?,
            Place::Own => self.step_own(),
            Place::Both => {
                self.step_base()?;
                self.step_own();
            }
        }
        self.settle()
    }

    fn step_base(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.base.next()?,
            Direction::Backward => self.base.prev()?,
        };
        Ok(())
    }

    fn step_own(&mut self) {
        let (writes, direction) = (self.writes, self.direction);
        self.own = self.own.and_then(|own| match direction {
            Direction::Forward => writes.first_from(Bound::Excluded(own.key)),
            Direction::Backward => writes.last_to(Bound::Excluded(own.key)),
        });
    }

    /// Finds the next entry in the direction of the last move. The search starts at the positions
    /// in both sources.
    fn settle(&mut self) -> Result<bool> {
        loop {
            let Some(own) = self.own else {
                self.place = if self.base.valid() { Place::Base } else { Place::Nowhere };
                return Ok(self.valid());
            };
            let order = match self.base.valid() {
                true => self.writes.order().compare(own.key, self.base.key()),
                false => Ordering::Equal,
            };
            let is_later = match self.direction {
                Direction::Forward => order.is_gt(),
                Direction::Backward => order.is_lt(),
            };
            self.place = match order {
                _ if is_later => Place::Base,
                Ordering::Equal if self.base.valid() => Place::Both,
                _ => Place::Own,
            };
            if is_later || own.value.is_some() {
                return Ok(true);
            }
            // The transaction's write is a deletion.
            if std::mem::replace(&mut self.place, Place::Nowhere) == Place::Both {
                self.step_base()?;
            }
            self.step_own();
        }
    }
}
