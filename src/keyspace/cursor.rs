//! A cursor that stays within a keyspace.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::base::clock::Clock;
use crate::engine::read::cursor::Cursor;
use crate::format::keyspace::Space;

/// A cursor over the entries of a [`Keyspace`](crate::Keyspace) at one moment. It moves like a
/// [`Cursor`], and its keys are those within the keyspace, without the keyspace's prefix.
///
/// ```
/// # use minikv::{Db, Options};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
/// let days = db.keyspace("days")?;
/// days.put("01", "Monday")?;
/// days.put("02", "Tuesday")?;
/// let mut cursor = days.cursor()?;
/// assert!(cursor.seek_to_last()?);
/// assert_eq!((cursor.key(), cursor.value()), (&b"02"[..], &b"Tuesday"[..]));
/// assert!(cursor.prev()? && !cursor.prev()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeyspaceCursor {
    cursor: Cursor,
    space: Space,
    /// The clock that decides which entries have expired.
    clock: Clock,
    /// Length of the current entry's value, without the expiry that is stored with the value.
    value_len: usize,
    /// Whether the cursor is at an entry of the keyspace.
    valid: bool,
    /// Buffer for the key to seek, in the form in which the database stores it.
    sought: Vec<u8>,
}

impl KeyspaceCursor {
    /// Returns a cursor over the entries of `space`. The cursor is at no entry until it is first
    /// moved.
    pub(super) fn new(cursor: Cursor, space: Space, clock: Clock) -> KeyspaceCursor {
        KeyspaceCursor { cursor, space, clock, value_len: 0, valid: false, sought: Vec::new() }
    }

    /// Returns whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the key of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn key(&self) -> &[u8] {
        self.space.strip(self.entry().key()).expect("the cursor is outside of its keyspace")
    }

    /// Returns the value of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn value(&self) -> &[u8] {
        &self.entry().value()[..self.value_len]
    }

    /// Returns the value of the entry as [`Bytes`], like [`Cursor::value_bytes`].
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn value_bytes(&self) -> Bytes {
        let mut value = self.entry().value_bytes();
        value.truncate(self.value_len);
        value
    }

    /// Moves to the first entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// Corruption and I/O errors, as for all moves. After an error, the cursor is at no entry.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.seek(b"")
    }

    /// Moves to the last entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.valid = false;
        let moved = match self.space.upper(Bound::Unbounded) {
            Bound::Excluded(end) => self.cursor.seek_before(&end)?,
            _ => self.cursor.seek_to_last()?,
        };
        self.settle(moved, Cursor::prev)
    }

    /// Moves to the first entry whose key is not before `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.valid = false;
        self.space.write_key(key.as_ref(), &mut self.sought);
        let moved = self.cursor.seek(&self.sought)?;
        self.settle(moved, Cursor::next)
    }

    /// Moves to the last entry whose key is not after `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.valid = false;
        self.space.write_key(key.as_ref(), &mut self.sought);
        let moved = self.cursor.seek_for_prev(&self.sought)?;
        self.settle(moved, Cursor::prev)
    }

    /// Moves to the next entry. Returns `false` if there is no next entry, or if the cursor was at
    /// no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    #[expect(clippy::should_implement_trait, reason = "the entry is borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        let moved = std::mem::take(&mut self.valid) && self.cursor.next()?;
        self.settle(moved, Cursor::next)
    }

    /// Moves to the previous entry. Returns `false` if there is no previous entry, or if the cursor
    /// was at no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn prev(&mut self) -> Result<bool> {
        let moved = std::mem::take(&mut self.valid) && self.cursor.prev()?;
        self.settle(moved, Cursor::prev)
    }

    /// Returns the database's cursor, which is at an entry of the keyspace.
    fn entry(&self) -> &Cursor {
        assert!(self.valid, "the cursor is at no entry");
        &self.cursor
    }

    /// Completes a move. `moved` tells whether the move reached an entry. Skips expired entries by
    /// calling `step`. Returns whether the cursor is at an entry of the keyspace.
    fn settle(
        &mut self,
        mut moved: bool,
        step: impl Fn(&mut Cursor) -> Result<bool>,
    ) -> Result<bool> {
        while moved && self.space.strip(self.cursor.key()).is_some() {
            let (key, stored) = (self.cursor.key(), self.cursor.value());
            if let Some((value, _)) = self.space.live(key, stored, || self.clock.now_millis())? {
                self.value_len = value.len();
                self.valid = true;
                return Ok(true);
            }
            moved = step(&mut self.cursor)?;
        }
        Ok(false)
    }
}
