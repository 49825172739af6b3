//! Publishing: makes an edit of the MANIFEST durable, and shows the resulting version to readers.
//! Flushes, compactions and changes of the tables all end here.
//!
//! [`Engine::publish`] takes these steps:
//!
//! 1. With the manifest lock held, the edit is committed: it is durable, and the MANIFEST's current
//!    version is one that no reader sees yet.
//! 2. The counts of the new tables are stored in the version.
//! 3. With the state lock held in addition, the state gets the version, and whatever else changes
//!    with it. The observer is told, and readers see the version.
//!
//! The state lock is released before the manifest lock, so the next edit is made of a version that
//! readers see. If step 1 fails, nothing is shown, and the caller decides what becomes of the files
//! that the edit names: the MANIFEST may name them ([`VersionSet::is_in_doubt`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::Result;
use crate::engine::read::view::VisibleSeq;
use crate::engine::report::event::EventKind;
use crate::engine::version::Version;
use crate::engine::version::set::VersionSet;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::{Engine, State};
use crate::format::edit::VersionEdit;
use crate::format::key::SeqNo;

/// A change of the version.
#[derive(Default)]
pub(super) struct Publication<'a> {
    /// The difference to the current version.
    pub edit: VersionEdit,
    /// Counts of the entries of the tables that were written, by table number.
    pub counts: &'a [(u64, EntryCounts)],
    /// The sequence number that readers see from now on, if the change is a write of its own.
    /// `None` if the new memtables and version have the same writes as before.
    pub visible: Option<Arc<VisibleSeq>>,
    /// The same as for [`ReadState::show`](crate::engine::read::view::ReadState::show).
    pub lost_after: Option<SeqNo>,
}

impl Engine {
    /// Makes a change of the version durable and shows it to readers. `manifest` is what the
    /// manifest lock guards, so the caller holds that lock.
    ///
    /// `settle` changes the rest of the state, and its result is returned; `event` returns the
    /// event to report, if there is one. Both are called with the state lock held.
    ///
    /// # Errors
    /// The same as for [`VersionSet::commit`], after which neither function was called. The error
    /// is not recorded in the state.
    pub(super) fn publish<R, E: Into<Option<EventKind>>>(
        &self,
        manifest: &mut VersionSet,
        publication: Publication<'_>,
        settle: impl FnOnce(&mut State) -> R,
        event: impl FnOnce(&Version, &R) -> E,
    ) -> Result<R> {
        let Publication { edit, counts, visible, lost_after } = publication;
        self.assert_in_step(manifest, &self.state.lock());
        let levels: BTreeSet<usize> = edit.new_files.iter().map(|file| file.level).collect();
        let version = manifest.commit(edit)?;
        for level in levels {
            version.set_counts(level, counts);
        }
        let mut state = self.state.lock();
        state.version = version;
        let settled = settle(&mut state);
        self.observe(|| event(&state.version, &settled));
        debug_assert_eq!(state.check(), Ok(()));
        match visible {
            Some(visible) => self.reads.show_next(state.layers(), visible, lost_after),
            None => self.reads.show(state.layers(), lost_after),
        }
        Ok(settled)
    }

    /// Asserts that readers see the current version of the MANIFEST. The caller must hold the
    /// manifest lock and the state lock.
    pub(super) fn assert_in_step(&self, manifest: &VersionSet, state: &State) {
        debug_assert!(
            Arc::ptr_eq(manifest.current(), &state.version),
            "an edit is made of a version that readers do not see"
        );
    }

    /// Wakes all threads that wait for a change of the state, and the background threads, for which
    /// there may be work now.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
        self.reads.work.give();
    }
}
