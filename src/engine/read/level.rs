//! A cursor over the tables of a sorted level.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::Result;
use crate::engine::read::prefix_scan::PrefixScan;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::version::TableFile;
use crate::table::counts::LevelTrace;
use crate::table::iter::TableCursor;
use crate::table::reader::BlockReadOptions;

/// Sorted, disjoint tables.
pub enum Run {
    /// A level of a view.
    Level(Arc<ReadView>, usize),
    /// Some tables of a level.
    Tables(usize, Vec<Arc<TableFile>>),
}

impl Run {
    #[inline]
    pub(super) fn files(&self) -> &[Arc<TableFile>] {
        match self {
            Run::Level(view, level) => view.version.level(*level),
            Run::Tables(_, files) => files,
        }
    }

    pub(super) fn level(&self) -> usize {
        match *self {
            Run::Level(_, level) | Run::Tables(level, _) => level,
        }
    }
}

/// A cursor over the tables of a sorted level. Tables are opened as it comes to them.
pub struct LevelCursor {
    state: Arc<ReadState>,
    pub(super) run: Run,
    options: BlockReadOptions,
    /// What the cursor is for, if it need not come to all tables.
    scan: Option<Arc<PrefixScan>>,
    /// Those it may come to.
    window: Range<usize>,
    /// The table the cursor is in.
    pub(super) at: usize,
    cursor: Option<TableCursor>,
    /// Of the cursors before.
    trace: LevelTrace,
}

impl LevelCursor {
    /// A cursor over the entries of `run`, or of those of its tables that `scan` needs.
    pub fn new(
        state: Arc<ReadState>,
        run: Run,
        options: BlockReadOptions,
        scan: Option<Arc<PrefixScan>>,
    ) -> LevelCursor {
        let window = match &scan {
            Some(scan) => scan.window(state.order.user(), run.files()),
            None => 0..run.files().len(),
        };
        let trace = LevelTrace::default();
        LevelCursor { state, run, options, scan, at: window.start, window, cursor: None, trace }
    }

    #[inline]
    pub(super) fn current(&self) -> &TableCursor {
        self.cursor.as_ref().expect("only a valid cursor is asked for its entry")
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.current().value()
    }

    pub(super) fn value_bytes(&self) -> Bytes {
        self.current().value_bytes()
    }

    pub(super) fn trace(&self) -> LevelTrace {
        let mut trace = self.trace.clone();
        if let Some(cursor) = &self.cursor {
            trace.add(cursor.trace());
        }
        trace
    }

    /// Moves to a table; to no cursor if `scan` does not need it.
    fn open(&mut self, at: usize) -> Result<Option<&mut TableCursor>> {
        if self.cursor.is_none() || self.at != at {
            self.drop_cursor();
            self.at = at;
            let table = self.state.tables.table(&self.run.files()[at].slot)?;
            if self.scan.as_ref().is_none_or(|scan| scan.admits(&table, &mut self.trace)) {
                self.cursor = Some(table.cursor(self.options));
            }
        }
        Ok(self.cursor.as_mut())
    }

    fn drop_cursor(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.trace.add(cursor.trace());
        }
    }

    pub(super) fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_forward(self.window.start, TableCursor::seek_to_first)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<bool> {
        if self.window.is_empty() {
            return Ok(false);
        }
        let valid = match self.open(self.window.end - 1)? {
            Some(cursor) => cursor.seek_to_last()?,
            None => false,
        };
        if valid { Ok(true) } else { self.skip_backward() }
    }

    pub(super) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let order = &self.state.order;
        let files = self.run.files();
        let at = files.partition_point(|file| order.compare(&file.largest, target).is_lt());
        self.seek_forward(at.max(self.window.start), |cursor| cursor.seek(target))
    }

    /// Goes to where `place` puts the cursor in a table, or to the first entry after it.
    fn seek_forward(
        &mut self,
        at: usize,
        place: impl FnOnce(&mut TableCursor) -> Result<bool>,
    ) -> Result<bool> {
        if at >= self.window.end {
            self.drop_cursor();
            return Ok(false);
        }
        let valid = match self.open(at)? {
            Some(cursor) => place(cursor)?,
            None => false,
        };
        if valid { Ok(true) } else { self.skip_forward() }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<bool> {
        let valid = match &mut self.cursor {
            Some(cursor) => cursor.next()?,
            None => return Ok(false),
        };
        if valid { Ok(true) } else { self.skip_forward() }
    }

    #[inline]
    pub(super) fn prev(&mut self) -> Result<bool> {
        let valid = match &mut self.cursor {
            Some(cursor) => cursor.prev()?,
            None => return Ok(false),
        };
        if valid { Ok(true) } else { self.skip_backward() }
    }

    fn skip_forward(&mut self) -> Result<bool> {
        while self.at + 1 < self.window.end {
            if let Some(cursor) = self.open(self.at + 1)?
                && cursor.seek_to_first()?
            {
                return Ok(true);
            }
        }
        self.drop_cursor();
        Ok(false)
    }

    fn skip_backward(&mut self) -> Result<bool> {
        while self.at > self.window.start {
            if let Some(cursor) = self.open(self.at - 1)?
                && cursor.seek_to_last()?
            {
                return Ok(true);
            }
        }
        self.drop_cursor();
        Ok(false)
    }
}
