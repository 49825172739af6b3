//! Read points: everything that one read sees, taken in one step.

use std::sync::Arc;

use crate::base::sync::Guard;
use crate::engine::read::own::{OwnCursor, OwnWrites};
use crate::engine::read::read_log::ReadLog;
use crate::engine::read::view::{ReadSeq, ReadState, ReadView, Sweep};
use crate::format::key::SeqNo;
use crate::format::keyspace::{Space, WHOLE};
use crate::table::reader::BlockReadOptions;

/// The part of a transaction that its reads show or record.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The writes of the transaction, which hide the entries of the database.
    pub writes: OwnWrites,
    /// The record of what the transaction has read.
    pub log: Arc<ReadLog>,
}

/// Everything that one read sees: a view, the sequence number at which to read it, the keyspace, a
/// transaction's writes, and the options of the read. For short reads: the view may delay the
/// release of old views.
pub(crate) struct ReadPoint<'a> {
    /// The database.
    pub state: &'a Arc<ReadState>,
    pub(super) view: Guard<Arc<ReadView>>,
    /// The sequence number of the last write that the read sees.
    pub seq: SeqNo,
    /// The options for reads of blocks.
    pub options: BlockReadOptions,
    /// The keys that the read sees.
    pub(super) space: &'a Space,
    /// The transaction that reads.
    pub(super) overlay: Option<&'a Overlay>,
    /// The record of the read; `None` if the read need not be checked.
    pub(super) log: Option<&'a Arc<ReadLog>>,
}

impl<'a> ReadPoint<'a> {
    /// Returns the newest state of the database, all of it.
    #[inline]
    pub(super) fn now(state: &'a Arc<ReadState>) -> ReadPoint<'a> {
        let view = state.view();
        let seq = view.seq();
        let (options, space) = (BlockReadOptions::default(), &WHOLE);
        ReadPoint { state, view, seq, options, space, overlay: None, log: None }
    }

    /// Returns the database as it was when `held` was taken, all of it.
    #[inline]
    pub(super) fn at(held: &'a ReadSeq) -> ReadPoint<'a> {
        let current = held.state().view();
        debug_assert!(held.seq() <= current.seq(), "a read of writes that are not visible yet");
        // The current view is loaded first: see the module `view`.
        let view = held.kept_view().map_or(current, |kept| Guard::from_inner(kept.clone()));
        let (options, space) = (BlockReadOptions::default(), &WHOLE);
        let (state, seq) = (held.state(), held.seq());
        ReadPoint { state, view, seq, options, space, overlay: None, log: None }
    }

    /// Returns the view to read.
    #[inline]
    pub(crate) fn view(&self) -> &ReadView {
        &self.view
    }

    /// Returns the read point for a read of any length, which borrows nothing.
    pub(crate) fn into_owned(self) -> OwnedPoint {
        let ReadPoint { state, view, seq, options, overlay, .. } = self;
        let own = overlay.and_then(|overlay| overlay.writes.cursor());
        OwnedPoint { view: Guard::into_inner(view), seq, options, own, sweep: Sweep(state.clone()) }
    }
}

/// A [`ReadPoint`] that borrows nothing, for cursors and iterators over the database's keys.
///
/// Must be declared after every field that keeps tables alive, for the reason given at [`Sweep`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedPoint {
    /// The view to read.
    pub view: Arc<ReadView>,
    /// The sequence number of the last write that the read sees.
    pub seq: SeqNo,
    /// The options for reads of blocks.
    pub options: BlockReadOptions,
    /// The writes of the transaction that reads, if it has written anything.
    pub own: Option<OwnCursor>,
    // Must stay the last field, so that the view is dropped first.
    sweep: Sweep,
}

impl OwnedPoint {
    /// Returns the read point for reads that do not fill the block cache.
    pub(crate) fn uncached(mut self) -> OwnedPoint {
        self.options.fill_cache = false;
        self
    }

    /// Returns a read point for short reads of the same state, without the writes of a transaction.
    pub(crate) fn as_point(&self) -> ReadPoint<'_> {
        ReadPoint {
            state: self.state(),
            view: Guard::from_inner(self.view.clone()),
            seq: self.seq,
            options: self.options,
            space: &WHOLE,
            overlay: None,
            log: None,
        }
    }

    /// Returns the database.
    pub(crate) fn state(&self) -> &Arc<ReadState> {
        &self.sweep.0
    }
}
