//! The public cursor: keys as users of a keyspace see them, without entries that have expired. The
//! cursor of a transaction records the ranges that it walks over.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::engine::read::merge::Direction;
use crate::engine::read::read_log::TrackedWalk;
use crate::engine::read::visible::VisibleCursor;
use crate::engine::span::Span;
use crate::format::keyspace::Space;

/// A cursor over the entries of a database, a keyspace or a transaction at one point in time. Keys
/// and values are borrowed from the cursor, so a step allocates nothing.
///
/// A new cursor is at no entry. Every move returns whether the cursor is at an entry afterwards;
/// after an error the cursor is at no entry. A cursor borrows nothing and may outlive every other
/// handle of the database. While the cursor exists, the table files that it may read are not
/// removed.
///
/// The cursor of a transaction shows the writes that were made before it was created. The ranges
/// that it walks over count as read, including the gaps between the entries: from the key of a seek
/// to the entry that the seek found, and from each entry to the next. At a commit, a cursor that
/// still exists counts as having read everything that it could reach.
///
/// ```
/// # use minikv::{Db, Readable};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
/// db.put("a", "1")?;
/// db.put("b", "2")?;
/// let mut cursor = db.cursor()?;
/// let mut valid = cursor.seek("b")?;
/// while valid {
///     println!("{:?} = {:?}", cursor.key(), cursor.value());
///     valid = cursor.prev()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cursor {
    entries: VisibleCursor,
    space: Space,
    /// Whether moves need no more than those of `entries`.
    plain: bool,
    /// Number of bytes before each key that users do not see.
    prefix_bytes: usize,
    /// Number of bytes after each value that users do not see.
    expiry_bytes: usize,
    walk: Option<Box<CursorWalk>>,
}

/// The record of what the cursor of a transaction has read.
#[derive(Debug)]
struct CursorWalk {
    /// The range walked since the last seek; `None` before a seek, or once the range is recorded.
    walked: Option<Span>,
    /// The direction of the last move.
    direction: Direction,
    // Must stay the last field: dropping the walk removes its stand-in from the record of reads.
    walk: TrackedWalk,
}

impl Cursor {
    /// Returns a cursor over `entries` within `space`. If `walk` is given, the cursor records what
    /// it reads.
    pub(super) fn new(entries: VisibleCursor, space: Space, walk: Option<TrackedWalk>) -> Cursor {
        let new_walk =
            |walk| Box::new(CursorWalk { walked: None, direction: Direction::Forward, walk });
        Cursor {
            plain: space.is_whole() && walk.is_none(),
            prefix_bytes: space.prefix_bytes(),
            expiry_bytes: space.expiry_bytes(),
            walk: walk.map(new_walk),
            entries,
            space,
        }
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.entries.valid()
    }

    /// Returns the key of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.entries.key()[self.prefix_bytes..]
    }

    /// Returns the value of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let stored = self.entries.value();
        &stored[..stored.len() - self.expiry_bytes]
    }

    /// Returns the value of the entry as [`Bytes`], which stays valid after the cursor has moved.
    /// The value shares the memory of its block or memtable and keeps that memory alive. After a
    /// step backward, a value of up to 1 KiB is a copy.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn value_bytes(&self) -> Bytes {
        let mut value = self.entries.value_bytes();
        value.truncate(value.len() - self.expiry_bytes);
        value
    }

    /// Moves to the first entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// Corruption and I/O errors, as for every method that moves the cursor. After an error, the
    /// cursor is at no entry.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        if self.plain { self.entries.seek_to_first() } else { self.seek_from(Bound::Unbounded) }
    }

    /// Moves to the last entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        if self.plain { self.entries.seek_to_last() } else { self.seek_to(Bound::Unbounded) }
    }

    /// Moves to the first entry whose key is not before `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if self.plain { self.entries.seek(key) } else { self.seek_from(Bound::Included(key)) }
    }

    /// Moves to the last entry whose key is not after `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if self.plain {
            self.entries.seek_for_prev(key)
        } else {
            self.seek_to(Bound::Included(key))
        }
    }

    /// Moves to the next entry. Returns `false` if there is no next entry, or if the cursor was at
    /// no entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[expect(clippy::should_implement_trait, reason = "the entry is borrowed from the cursor")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        if self.plain { self.entries.next() } else { self.step(Direction::Forward) }
    }

    /// Moves to the previous entry. Returns `false` if there is no previous entry, or if the cursor
    /// was at no entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        if self.plain { self.entries.prev() } else { self.step(Direction::Backward) }
    }

    fn seek_from(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        self.begin_walk(Direction::Forward);
        let Span { from, to: end } = Span::within(&self.space, (from, Bound::Unbounded));
        self.entries.seek_from(from.as_ref().map(Vec::as_slice))?;
        let valid = self.settle(Direction::Forward)?;
        if let Some(walk) = &mut self.walk {
            // If there is no entry, everything from the bound on was read.
            let to = if valid { Bound::Included(self.entries.key().to_vec()) } else { end };
            walk.walked = Some(Span { from, to });
        }
        Ok(valid)
    }

    fn seek_to(&mut self, to: Bound<&[u8]>) -> Result<bool> {
        self.begin_walk(Direction::Backward);
        let Span { from: start, to } = Span::within(&self.space, (Bound::Unbounded, to));
        self.entries.seek_to(to.as_ref().map(Vec::as_slice))?;
        let valid = self.settle(Direction::Backward)?;
        if let Some(walk) = &mut self.walk {
            let from = if valid { Bound::Included(self.entries.key().to_vec()) } else { start };
            walk.walked = Some(Span { from, to });
        }
        Ok(valid)
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if !self.valid() {
            return Ok(false);
        }
        if self.walk.as_ref().is_some_and(|walk| walk.direction != direction) {
            self.note_position();
        }
        let moved = match direction {
            Direction::Forward => self.entries.next(),
            Direction::Backward => self.entries.prev(),
        };
        let moved = moved.and_then(|_| self.settle(direction));
        let Some(walk) = &mut self.walk else { return moved };
        walk.direction = direction;
        // The walk reached the end, or failed after an unknown distance.
        if let (Ok(false) | Err(_), Some(walked)) = (&moved, &mut walk.walked) {
            let Span { from, to } = Span::within(&self.space, (Bound::Unbounded, Bound::Unbounded));
            match direction {
                Direction::Forward => walked.to = to,
                Direction::Backward => walked.from = from,
            }
        }
        moved
    }

    /// Skips expired entries. If this moves the cursor out of the keyspace, or if a move fails, the
    /// cursor is at no entry. Returns whether the cursor is at an entry.
    fn settle(&mut self, direction: Direction) -> Result<bool> {
        let settled = self.find_live(direction);
        if !matches!(settled, Ok(true)) {
            self.entries.leave();
        }
        settled
    }

    fn find_live(&mut self, direction: Direction) -> Result<bool> {
        while self.valid() && self.space.strip(self.entries.key()).is_some() {
            let (key, stored) = (self.entries.key(), self.entries.value());
            let now = || self.entries.clock().now_millis();
            if self.space.live(key, stored, now)?.is_some() {
                return Ok(true);
            }
            match direction {
                Direction::Forward => self.entries.next()?,
                Direction::Backward => self.entries.prev()?,
            };
        }
        Ok(false)
    }

    /// Ends the walk since the last seek, and begins one in `direction`.
    fn begin_walk(&mut self, direction: Direction) {
        self.end_walk();
        let space = &self.space;
        if let Some(walk) = &mut self.walk {
            walk.direction = direction;
            walk.walk.begin(|| Span::within(space, (Bound::Unbounded, Bound::Unbounded)));
        }
    }

    /// Extends the walked range to the current entry. It is enough to call this where a walk turns
    /// or ends, because the outermost entries of the walk are there.
    fn note_position(&mut self) {
        let Some(walk) = &mut self.walk else { return };
        if let Some(walked) = walk.walked.as_mut().filter(|_| self.entries.valid()) {
            walked.extend_to(walk.walk.order(), self.entries.key());
        }
    }

    fn end_walk(&mut self) {
        self.note_position();
        if let Some(walk) = &mut self.walk
            && let Some(walked) = walk.walked.take()
        {
            walk.walk.read(walked);
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if self.walk.is_some() {
            self.end_walk();
        }
    }
}
