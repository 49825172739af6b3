//! Moving over a table: a cursor over the index, and one over the data block it stands at.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::stats::LevelTrace;
use crate::base::{Error, Result};
use crate::format::block_cursor::BlockCursor;
use crate::table::index::IndexCursor;
use crate::table::reader::{BlockReadOptions, Table};

/// Moves over the entries of a table, both ways. Owns its table; keys and values are lent until
/// the next move.
///
/// Before the first move, past either end and after an error it stands at no entry: `next` and
/// `prev` then stay there, and only a seek leaves it.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    options: BlockReadOptions,
    index: IndexCursor,
    /// In the block that `index` stands at, if it is valid.
    data: BlockCursor,
    trace: LevelTrace,
}

impl Table {
    /// A cursor over the entries, at none of them yet. The filter has no part in it.
    pub fn cursor(self: &Arc<Table>, options: BlockReadOptions) -> TableCursor {
        TableCursor {
            table: self.clone(),
            options,
            index: self.index().cursor(),
            data: self.index().block().cursor(),
            trace: LevelTrace::default(),
        }
    }
}

#[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend or fail")]
impl TableCursor {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What the cursor has read so far.
    pub fn trace(&self) -> &LevelTrace {
        &self.trace
    }

    /// Whether it stands at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.data.valid()
    }

    /// The key. Empty if the cursor stands at no entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.data.key()
    }

    /// The value. Empty if the cursor stands at no entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.data.value()
    }

    /// The value, sharing the memory of its block.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        self.data.value_bytes()
    }

    /// Goes to the first entry; false if there is none.
    ///
    /// # Errors
    /// Corruption, where what it must read is damaged; an error of the file. So do all moves.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.data.invalidate();
        let found = self
            .index
            .seek_to_first(self.table.index())
            .map_err(|error| self.table.index_error(error))?;
        self.enter_forward(found)
    }

    /// Goes to the last entry; false if there is none.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.data.invalidate();
        let found = self
            .index
            .seek_to_last(self.table.index())
            .map_err(|error| self.table.index_error(error))?;
        self.enter_backward(found)
    }

    /// Goes to the first entry whose key is not less than `target`; false if there is none.
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
        // The target is between the block's last key and its separator.
        self.next_block()
    }

    /// Goes to the next entry; false if there is none.
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

    /// Goes to the entry before; false if there is none.
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

    /// Goes to the first entry from the block at the index's position on; `found` says whether
    /// it has one.
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

    /// Goes to the last entry up to the block at the index's position.
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

    fn load_block(&mut self) -> Result<()> {
        self.data.invalidate();
        let spot = self.index.spot(self.table.index());
        let spot = spot.map_err(|error| self.table.index_error(error))?;
        self.data.set_block(self.table.data_block(spot, &self.options, &mut self.trace)?);
        Ok(())
    }

    /// Names the data block it stands in as the place of the damage.
    pub(crate) fn data_error(&self, error: Error) -> Error {
        let offset = self.index.spot(self.table.index()).map_or(0, |spot| spot.handle.offset);
        error.at(offset).in_file(self.table.path())
    }
}
