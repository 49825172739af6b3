//! Read points: everything that one read sees, taken in one step.

use std::sync::Arc;

use crate::base::sync::Guard;
use crate::engine::read::view::{ReadSeq, ReadState, ReadView, Sweep};
use crate::format::key::SeqNo;
use crate::table::reader::BlockReadOptions;

/// Everything that one read sees: a view, the sequence number at which to read it, and the options
/// of the read. For short reads: the view may delay the release of old views.
pub(crate) struct ReadPoint<'a> {
    /// The database.
    pub state: &'a Arc<ReadState>,
    view: Guard<Arc<ReadView>>,
    /// The sequence number of the last write that the read sees.
    pub seq: SeqNo,
    /// The options for reads of blocks.
    pub options: BlockReadOptions,
}

impl<'a> ReadPoint<'a> {
    /// Returns the newest state of the database.
    #[inline]
    pub(crate) fn now(state: &'a Arc<ReadState>, options: BlockReadOptions) -> ReadPoint<'a> {
        let view = state.view();
        let seq = view.seq();
        ReadPoint { state, view, seq, options }
    }

    /// Returns the database as it was when `held` was taken.
    #[inline]
    pub(crate) fn at(held: &'a ReadSeq, options: BlockReadOptions) -> ReadPoint<'a> {
        let current = held.state().view();
        debug_assert!(held.seq() <= current.seq(), "a read of writes that are not visible yet");
        // The current view is loaded first: see the module `view`.
        let view = held.kept_view().map_or(current, |kept| Guard::from_inner(kept.clone()));
        ReadPoint { state: held.state(), view, seq: held.seq(), options }
    }

    /// Returns the view to read.
    #[inline]
    pub(crate) fn view(&self) -> &ReadView {
        &self.view
    }

    /// Returns the read point for a read of any length, which borrows nothing.
    pub(crate) fn into_owned(self) -> OwnedPoint {
        let ReadPoint { state, view, seq, options } = self;
        OwnedPoint { view: Guard::into_inner(view), seq, options, sweep: Sweep(state.clone()) }
    }
}

/// A [`ReadPoint`] that borrows nothing, for cursors and iterators.
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
    // Must stay the last field, so that the view is dropped first.
    sweep: Sweep,
}

impl OwnedPoint {
    /// Returns the database.
    pub(crate) fn state(&self) -> &Arc<ReadState> {
        &self.sweep.0
    }
}
