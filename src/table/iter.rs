//! A cursor over a table, made of a cursor over the index and a cursor over the current data block.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::block::cursor::BlockCursor;
use crate::table::counts::LevelTrace;
use crate::table::index::IndexCursor;
use crate::table::reader::Table;
use crate::table::settings::BlockReadOptions;
use crate::table::sink::NoSink;

/// A cursor over the entries of a table. The cursor shares ownership of the table; keys and values
/// are borrowed until the next move.
///
/// Before the first move, past either end and after an error, the cursor is not positioned. In this
/// state, `next` and `prev` have no effect, and only a seek positions the cursor.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    options: BlockReadOptions,
    index: IndexCursor,
    /// A cursor over the current data block, if there is one.
    data: BlockCursor,
    /// The offset in the file of the data block of `data`; `None` before the first one.
    loaded: Option<u64>,
    trace: LevelTrace,
}

impl Table {
    /// Returns a cursor over the entries. The cursor is not yet positioned, and does not use the
    /// filters.
    pub fn cursor(self: &Arc<Table>, options: BlockReadOptions) -> TableCursor {
        TableCursor {
            table: self.clone(),
            options,
            index: self.index().cursor(),
            data: self.index().block().cursor(),
            loaded: None,
            trace: LevelTrace::default(),
        }
    }
}

#[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend or fail")]
impl TableCursor {
    /// Returns the counts of the cursor's work so far.
    pub fn trace(&self) -> &LevelTrace {
        &self.trace
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.data.valid()
    }

    /// Panics if the cursor is at no entry: an empty key would pass for one.
    #[inline]
    fn assert_valid(&self) {
        assert!(self.valid(), "the cursor is at no entry");
    }

    /// Returns the key of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.assert_valid();
        self.data.key()
    }

    /// Returns the value of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.assert_valid();
        self.data.value()
    }

    /// Returns the value of the entry, which shares the memory of its block.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        self.assert_valid();
        self.data.value_bytes()
    }

    /// Moves to the first entry. Returns false if the table is empty.
    ///
    /// # Errors
    /// Corruption, if a block that the cursor reads is damaged; an I/O error. All other moves
    /// return the same errors.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.data.invalidate();
        let found = self
            .index
            .seek_to_first(self.table.index())
            .map_err(|error| self.table.index_error(error))?;
        self.enter_forward(found)
    }

    /// Moves to the last entry. Returns false if the table is empty.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.data.invalidate();
        let found = self
            .index
            .seek_to_last(self.table.index())
            .map_err(|error| self.table.index_error(error))?;
        self.enter_backward(found)
    }

    /// Moves to the first entry whose key is not less than `target`. Returns false if there is no
    /// such entry.
    pub fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.data.invalidate();
        self.trace.index_seeks += 1;
        let found = self.index.seek(self.table.index(), self.table.order(), target);
        if !found.map_err(|error| self.table.index_error(error))? {
            return Ok(false);
        }
        self.load_block()?;
        let found = self.data.seek(self.table.order(), target);
        if found.map_err(|error| self.data_error(error))? {
            return Ok(true);
        }
        // `target` is after the block's last key, and not after the block's separator.
        self.next_block()
    }

    /// Moves to the next entry. Returns false if there is no next entry.
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        if !self.data.valid() {
            return Ok(false);
        }
        match self.data.next() {
            Ok(true) => Ok(true),
            Ok(false) => self.next_block(),
            Err(error) => Err(self.data_error(error)),
        }
    }

    /// Moves to the previous entry. Returns false if there is no previous entry.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        if !self.data.valid() {
            return Ok(false);
        }
        match self.data.prev() {
            Ok(true) => Ok(true),
            Ok(false) => self.prev_block(),
            Err(error) => Err(self.data_error(error)),
        }
    }

    fn next_block(&mut self) -> Result<bool> {
        let found =
            self.index.next(self.table.index()).map_err(|error| self.table.index_error(error))?;
        self.enter_forward(found)
    }

    fn prev_block(&mut self) -> Result<bool> {
        let found =
            self.index.prev(self.table.index()).map_err(|error| self.table.index_error(error))?;
        self.enter_backward(found)
    }

    /// Moves to the first entry of the index's current block or, if the block is empty, of the next
    /// block that has an entry. `found` tells whether the index cursor is at a block.
    fn enter_forward(&mut self, mut found: bool) -> Result<bool> {
        while found {
            self.load_block()?;
            if self.data.seek_to_first().map_err(|error| self.data_error(error))? {
                return Ok(true);
            }
            found = self
                .index
                .next(self.table.index())
                .map_err(|error| self.table.index_error(error))?;
        }
        Ok(false)
    }

    /// Moves to the last entry of the index's current block or, if the block is empty, of the
    /// nearest earlier block that has an entry. `found` tells whether the index cursor is at a
    /// block.
    fn enter_backward(&mut self, mut found: bool) -> Result<bool> {
        while found {
            self.load_block()?;
            if self.data.seek_to_last().map_err(|error| self.data_error(error))? {
                return Ok(true);
            }
            found = self
                .index
                .prev(self.table.index())
                .map_err(|error| self.table.index_error(error))?;
        }
        Ok(false)
    }

    /// Makes `data` a cursor over the index's current block, unless it is one already.
    fn load_block(&mut self) -> Result<()> {
        self.data.invalidate();
        let spot = self.index.spot(self.table.index());
        let spot = spot.map_err(|error| self.table.index_error(error))?;
        let offset = spot.handle.offset;
        if self.loaded == Some(offset) {
            return Ok(());
        }
        let block = self.table.data_block(spot, &self.options, &mut self.trace)?;
        if self.options.twice {
            let again = self.table.read_data_block(spot, &self.options, &mut NoSink)?;
            if again.as_ref() != block.as_ref() {
                let what = "two reads of a block differ: the processor or memory may be damaged";
                return Err(self.data_error(Error::corruption(what)));
            }
        }
        self.data.set_block(block);
        self.loaded = Some(offset);
        Ok(())
    }

    /// Adds the file's path and the current data block's offset to `error`.
    pub(crate) fn data_error(&self, error: Error) -> Error {
        let offset = self.index.spot(self.table.index()).map_or(0, |spot| spot.handle.offset);
        error.at(offset).in_file(self.table.path())
    }
}
