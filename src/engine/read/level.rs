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

/// Sorted, disjoint tables of one level.
pub(crate) enum Run {
    /// All tables of a level of a view.
    Level(Arc<ReadView>, usize),
    /// Some tables of a level, in key order.
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

    /// Returns whether the tables are disjoint and in order.
    fn is_sorted(&self, state: &ReadState) -> bool {
        let order = &state.order;
        self.files()
            .windows(2)
            .all(|pair| order.compare(&pair[0].largest, &pair[1].smallest).is_lt())
    }

    pub(super) fn level(&self) -> usize {
        match *self {
            Run::Level(_, level) | Run::Tables(level, _) => level,
        }
    }
}

/// A cursor over the tables of a sorted level. A table is opened when the cursor reaches it.
pub(crate) struct LevelCursor {
    state: Arc<ReadState>,
    pub(super) run: Run,
    options: BlockReadOptions,
    /// The prefix scan that the cursor serves, if the cursor may skip tables.
    scan: Option<Arc<PrefixScan>>,
    /// Indices of the tables that the cursor may read.
    range: Range<usize>,
    /// Index of the current table.
    at: usize,
    /// The cursor in the current table; `None` if there is no current entry.
    cursor: Option<TableCursor>,
    /// Counts of the work done by earlier table cursors.
    trace: LevelTrace,
}

impl LevelCursor {
    /// Returns a cursor over the entries of `run`. If `scan` is given, the cursor skips tables that
    /// have no keys of the scan.
    pub(crate) fn new(
        state: Arc<ReadState>,
        run: Run,
        options: BlockReadOptions,
        scan: Option<Arc<PrefixScan>>,
    ) -> LevelCursor {
        let range = match &scan {
            Some(scan) => scan.tables_in_range(state.order.user(), run.files()),
            None => 0..run.files().len(),
        };
        debug_assert!(run.is_sorted(&state), "tables of a sorted level overlap");
        debug_assert!(
            range.start <= range.end && range.end <= run.files().len(),
            "the range is outside of the level"
        );
        let trace = LevelTrace::default();
        LevelCursor { state, run, options, scan, at: range.start, range, cursor: None, trace }
    }

    #[inline]
    pub(super) fn current(&self) -> &TableCursor {
        self.cursor.as_ref().expect("the cursor is at an entry")
    }

    /// Returns the table of the current entry.
    pub(super) fn file(&self) -> Option<&TableFile> {
        self.run.files().get(self.at).map(|file| &**file)
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

    /// Passes the level, and counts of the work done so far, to `count`, one or two times.
    pub(super) fn each_trace(&self, mut count: impl FnMut(usize, &LevelTrace)) {
        let level = self.run.level();
        count(level, &self.trace);
        if let Some(cursor) = &self.cursor {
            count(level, cursor.trace());
        }
    }

    /// Makes the table at index `at` the current table. Returns the table's cursor, or `None` if
    /// `scan` skips the table.
    fn open(&mut self, at: usize) -> Result<Option<&mut TableCursor>> {
        debug_assert!(self.range.contains(&at), "a table outside of the range");
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
        self.seek_forward(self.range.start, TableCursor::seek_to_first)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<bool> {
        if self.range.is_empty() {
            return Ok(false);
        }
        let valid = match self.open(self.range.end - 1)? {
            Some(cursor) => cursor.seek_to_last()?,
            None => false,
        };
        if valid { Ok(true) } else { self.skip_backward() }
    }

    pub(super) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let order = &self.state.order;
        let files = self.run.files();
        let at = files.partition_point(|file| order.compare(&file.largest, target).is_lt());
        self.seek_forward(at.max(self.range.start), |cursor| cursor.seek(target))
    }

    /// Opens the table at index `at` and positions its cursor with `position`. If the cursor is
    /// then at no entry, moves to the first entry of the tables that follow.
    fn seek_forward(
        &mut self,
        at: usize,
        position: impl FnOnce(&mut TableCursor) -> Result<bool>,
    ) -> Result<bool> {
        if at >= self.range.end {
            self.drop_cursor();
            return Ok(false);
        }
        let valid = match self.open(at)? {
            Some(cursor) => position(cursor)?,
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
        while self.at + 1 < self.range.end {
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
        while self.at > self.range.start {
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
