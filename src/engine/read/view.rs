//! The part of the engine that is used by reads. Reads share nothing else with the engine, and
//! never wait for the rest of the engine.
//!
//! What a read sees is a view and a sequence number. The number is part of the view
//! ([`VisibleSeq`]), so one atomic load, without a lock, gives both
//! ([`ReadPoint`](crate::engine::read::point::ReadPoint)):
//! - A write advances the number of the current view.
//! - A flush or a compaction changes no entries, so the next view shares the number of the view
//!   before.
//! - A new memtable, a change of the set of tables, or a refresh gives the next view a number of
//!   its own. The number of the view before is then final.
//!
//! A reader of any view therefore sees every write up to the view's number, and no later write. A
//! compaction reads the current number before it drops versions, and its view has that number or a
//! higher one, so no reader of the view needs these versions.
//!
//! A snapshot also reads the current view, at the snapshot's own sequence number, because
//! compactions keep what the snapshot shows. A change that drops entries that snapshots show, such
//! as a range delete that drops whole tables, keeps the view from before the change for those
//! snapshots ([`ReadState::show_next`]). A reader looks for such an earlier view after it has
//! loaded the current view. So if the current view is from after the change, the reader finds the
//! earlier view.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::base::clock::Clock;
use crate::base::sync::lock_free::{AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Guard, LockRank, Mutex};
use crate::engine::memtable::Memtable;
use crate::engine::resources::signal::WorkSignal;
use crate::engine::stats::sample::ReadSample;
use crate::engine::stats::totals::ReadTotals;
use crate::engine::version::Version;
use crate::engine::version::deleted_ranges::DeletedRanges;
use crate::engine::version::obsolete::Trash;
use crate::format::key::{InternalComparator, SeqNo};
use crate::fs::FileLock;
use crate::table::block_cache::BlockCache;
use crate::table::table_cache::TableCache;

/// The memtables and tables that hold the entries of a database.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// The memtable that writes go to.
    pub mem: Arc<Memtable>,
    /// Frozen memtables that are not flushed yet, newest first.
    pub imm: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
}

impl Layers {
    /// Returns the memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.mem).chain(&self.imm)
    }

    fn has_distinct_memtables(&self) -> bool {
        let mut addresses: Vec<_> = self.memtables().map(Arc::as_ptr).collect();
        addresses.sort_unstable();
        addresses.is_sorted_by(|a, b| a < b)
    }
}

/// The sequence number of the last visible write, for one view or for several views that follow
/// each other. Never decreases. Only the commit leader advances it.
#[derive(Debug)]
pub(crate) struct VisibleSeq {
    seq: AtomicU64,
    /// The number by which `seq` exceeds the sequence number in the files of a followed database;
    /// 0 for every other database.
    shift: SeqNo,
}

impl VisibleSeq {
    /// Returns the number `seq` of a database whose files have the same number.
    pub(crate) fn new(seq: SeqNo) -> Arc<VisibleSeq> {
        VisibleSeq::shifted(seq, 0)
    }

    /// Returns the number `seq` of a database whose files have the number `seq - shift`.
    pub(crate) fn shifted(seq: SeqNo, shift: SeqNo) -> Arc<VisibleSeq> {
        debug_assert!(shift <= seq, "a sequence number in the files is negative");
        Arc::new(VisibleSeq { seq: AtomicU64::new(seq), shift })
    }

    /// Makes writes up to `seq` visible to the readers of every view that has this number.
    #[inline]
    pub(crate) fn advance(&self, seq: SeqNo) {
        debug_assert!(seq >= self.get(), "the visible sequence number goes back");
        self.seq.store(seq, Ordering::Release);
    }

    /// Returns the sequence number of the last visible write.
    #[inline]
    pub(crate) fn get(&self) -> SeqNo {
        self.seq.load(Ordering::Acquire)
    }
}

/// Everything that can be read at one point in time: layers, and the number up to which writes are
/// visible. A view keeps its memtables and tables alive.
#[derive(Debug)]
pub(crate) struct ReadView {
    layers: Layers,
    visible: Arc<VisibleSeq>,
}

impl Deref for ReadView {
    type Target = Layers;

    #[inline]
    fn deref(&self) -> &Layers {
        &self.layers
    }
}

impl ReadView {
    fn new(layers: Layers, visible: Arc<VisibleSeq>) -> ReadView {
        debug_assert!(layers.has_distinct_memtables(), "a memtable is in the view twice");
        ReadView { layers, visible }
    }

    /// Returns the sequence number of the last write that the view shows.
    #[inline]
    pub(crate) fn seq(&self) -> SeqNo {
        self.visible.get()
    }

    /// Returns the number by which sequence numbers of this view exceed those in the files.
    pub(crate) fn shift(&self) -> SeqNo {
        self.visible.shift
    }
}

/// The state needed for reads, shared by the database, its snapshots and its cursors. The directory
/// stays locked until the last reference to this state is dropped.
///
/// Thread-safe. The engine replaces `view` under its state lock, and a refresh under the lock of
/// its progress. The commit leader advances the number of the view. Both are read without a lock.
pub(crate) struct ReadState {
    /// The order of internal keys.
    pub order: InternalComparator,
    /// The open tables.
    pub tables: Arc<TableCache>,
    /// The block cache; `None` if it is turned off.
    pub block_cache: Option<Arc<BlockCache>>,
    /// The clock that decides when entries expire.
    pub clock: Clock,
    /// Counts of all reads.
    pub totals: ReadTotals,
    /// A sample of the reads; `None` unless the options ask for one.
    pub sample: Option<ReadSample>,
    /// Obsolete tables to remove.
    pub trash: Arc<Trash>,
    /// Ranges whose tables were dropped by a range delete, for the conflict checks of transactions.
    pub deleted_ranges: DeletedRanges,
    /// Signal that there may be background work.
    pub work: WorkSignal,
    view: ArcSwap<ReadView>,
    /// Sequence numbers that snapshots hold.
    snapshots: Mutex<BTreeMap<SeqNo, Held>>,
    _lock: Option<Arc<dyn FileLock>>,
}

/// A sequence number that snapshots hold.
#[derive(Debug, Default)]
struct Held {
    /// Number of snapshots that hold the sequence number.
    count: usize,
    /// The view that the newest of these snapshots keeps. Those from before a change without a
    /// write have one of their own.
    kept_view: KeptView,
}

/// The view that a snapshot reads instead of the current view; empty while the current view has
/// everything that the snapshot shows.
type KeptView = Arc<OnceLock<Arc<ReadView>>>;

impl ReadState {
    /// Returns a state whose view consists of `layers`, in which writes up to `visible` are
    /// visible. `lock` is the directory's lock; `None` if the directory is not locked.
    pub(crate) fn new(
        order: InternalComparator,
        tables: Arc<TableCache>,
        block_cache: Option<Arc<BlockCache>>,
        trash: Arc<Trash>,
        layers: Layers,
        visible: Arc<VisibleSeq>,
        lock: Option<Arc<dyn FileLock>>,
    ) -> ReadState {
        ReadState {
            order,
            tables,
            block_cache,
            clock: Clock::default(),
            trash,
            deleted_ranges: DeletedRanges::new(),
            work: WorkSignal::default(),
            totals: ReadTotals::default(),
            sample: None,
            view: ArcSwap::from_pointee(ReadView::new(layers, visible)),
            snapshots: Mutex::ranked(LockRank::Snapshots, BTreeMap::new()),
            _lock: lock,
        }
    }

    /// Returns the state with the clock `clock` instead of the system clock.
    pub(crate) fn with_clock(self, clock: Clock) -> ReadState {
        ReadState { clock, ..self }
    }

    /// Returns the state with a sample of its reads, if `sample` is given.
    pub(crate) fn with_sample(self, sample: Option<ReadSample>) -> ReadState {
        ReadState { sample, ..self }
    }

    /// Returns a new state that stays at the current view. It shares the tables and the block
    /// cache, and has counters of its own. Used for a database opened for reading only, which holds
    /// no lock.
    pub(crate) fn frozen(&self) -> Arc<ReadState> {
        let view = self.view_owned();
        let visible = VisibleSeq::shifted(view.seq(), view.shift());
        let state = ReadState::new(
            self.order.clone(),
            self.tables.clone(),
            self.block_cache.clone(),
            self.trash.clone(),
            view.layers.clone(),
            visible,
            None,
        );
        Arc::new(state.with_clock(self.clock.clone()))
    }

    /// Returns the current view, for a short read: the guard may delay the release of old views.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<ReadView>> {
        self.view.load()
    }

    /// Returns the current view, for a read of any length.
    pub(crate) fn view_owned(&self) -> Arc<ReadView> {
        self.view.load_full()
    }

    /// Shows `layers` to all further reads. They must have the same writes as the view before.
    ///
    /// If `lost_after` is given, they lack entries that are visible to snapshots with higher
    /// sequence numbers. These snapshots keep the view before.
    pub(crate) fn show(&self, layers: Layers, lost_after: Option<SeqNo>) {
        let visible = self.view().visible.clone();
        self.show_next(layers, visible, lost_after);
    }

    /// Shows `layers` to all further reads, with a number of their own. They must have every write
    /// up to that number.
    ///
    /// `lost_after` is the same as for [`show`](ReadState::show).
    pub(crate) fn show_next(
        &self,
        layers: Layers,
        visible: Arc<VisibleSeq>,
        lost_after: Option<SeqNo>,
    ) {
        let before = self.view_owned();
        debug_assert!(before.seq() <= visible.get(), "the visible sequence number goes back");
        let view = Arc::new(ReadView::new(layers, visible));
        let Some(after) = lost_after else { return self.view.store(view) };
        // No snapshot is taken while this lock is held, so every snapshot either keeps the view
        // before or is taken of the new view.
        let snapshots = self.snapshots.lock();
        for (_, held) in snapshots.range((Excluded(after), Unbounded)) {
            held.kept_view.get_or_init(|| before.clone());
        }
        self.view.store(view);
    }

    /// Returns the sequence number of the last visible write.
    pub(crate) fn visible_seq(&self) -> SeqNo {
        self.view().seq()
    }

    /// Returns the sequence number of the last visible write, as it is in the files.
    pub(crate) fn sequence(&self) -> SeqNo {
        let view = self.view();
        view.seq() - view.shift()
    }

    /// Returns the sequence numbers at which the database may be read, ascending: the sequence
    /// numbers of the snapshots, and the sequence number of the last visible write. Compactions
    /// keep everything that is visible at one of these sequence numbers.
    pub(crate) fn read_seqs(&self) -> Vec<SeqNo> {
        self.newest_snapshot_and_read_seqs().1
    }

    /// Returns the sequence number of the newest snapshot (0 if there is no snapshot), and the
    /// sequence numbers that [`ReadState::read_seqs`] returns.
    pub(crate) fn newest_snapshot_and_read_seqs(&self) -> (SeqNo, Vec<SeqNo>) {
        // Variables are dropped in reverse order, so the view is released without the lock.
        let (view, snapshots) = {
            let snapshots = self.snapshots.lock();
            (self.view_owned(), snapshots)
        };
        let mut seqs: Vec<SeqNo> = snapshots.keys().copied().collect();
        let newest = seqs.last().copied().unwrap_or(0);
        let visible = view.seq();
        if seqs.last() != Some(&visible) {
            seqs.push(visible);
        }
        debug_assert!(
            seqs.is_sorted_by(|a, b| a < b),
            "a snapshot is newer than the last visible write"
        );
        (newest, seqs)
    }

    /// Returns the lowest of the sequence numbers that [`ReadState::read_seqs`] returns.
    pub(crate) fn oldest_read_seq(&self) -> SeqNo {
        // A snapshot that is taken after this load has this number or a higher one.
        let visible = self.visible_seq();
        let snapshots = self.snapshots.lock();
        snapshots.keys().next().copied().unwrap_or(visible)
    }

    /// Returns the number of snapshots, and the sequence number of the oldest one.
    pub(crate) fn snapshots_held(&self) -> (usize, Option<SeqNo>) {
        let snapshots = self.snapshots.lock();
        (snapshots.values().map(|held| held.count).sum(), snapshots.keys().next().copied())
    }
}

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState")
            .field("visible_seq", &self.visible_seq())
            .finish_non_exhaustive()
    }
}

/// Removes obsolete tables when it is dropped.
///
/// A `Sweep` must be declared after the fields that hold a view. Rust drops fields in the order of
/// their declaration, so the view is already dropped when the `Sweep` is dropped, and tables that
/// only the view kept alive are removed at once. If the `Sweep` came before the view, those tables
/// would remain until the next sweep.
#[derive(Clone, Debug)]
pub(crate) struct Sweep(pub Arc<ReadState>);

impl Drop for Sweep {
    fn drop(&mut self) {
        self.0.trash.empty();
    }
}

/// A sequence number that a snapshot holds. Until the `ReadSeq` is dropped, everything that is
/// visible at that sequence number is in the current view, or in the view that the snapshot keeps.
#[derive(Debug)]
pub(crate) struct ReadSeq {
    seq: SeqNo,
    /// The number by which `seq` exceeds the sequence number in the files.
    shift: SeqNo,
    kept_view: KeptView,
    // Must stay the last field: the sweep removes the tables that only the kept view kept alive.
    sweep: Sweep,
}

impl ReadSeq {
    /// Creates a hold on the current visible sequence number. Also returns the view that has that
    /// number.
    pub(crate) fn now(state: &Arc<ReadState>) -> (ReadSeq, Arc<ReadView>) {
        // The view is loaded under the lock. If a compaction lists the snapshots before this
        // snapshot is added to them, it keeps everything that is visible at that time, and this
        // snapshot's sequence number is not lower than the sequence number that is visible at that
        // time.
        let mut snapshots = state.snapshots.lock();
        let view = state.view_owned();
        let seq = view.seq();
        debug_assert!(
            snapshots.keys().next_back().is_none_or(|&newest| newest <= seq),
            "a snapshot is newer than the last visible write"
        );
        let held = snapshots.entry(seq).or_default();
        held.count += 1;
        if held.kept_view.get().is_some() {
            // The change that the earlier snapshots with this number do not show came before this
            // snapshot.
            held.kept_view = KeptView::default();
        }
        let (kept_view, sweep) = (held.kept_view.clone(), Sweep(state.clone()));
        (ReadSeq { seq, shift: view.shift(), kept_view, sweep }, view)
    }

    /// Returns the state of the database.
    pub(crate) fn state(&self) -> &Arc<ReadState> {
        &self.sweep.0
    }

    /// Returns the sequence number.
    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    /// Returns the sequence number, as it is in the files.
    pub(crate) fn sequence(&self) -> SeqNo {
        self.seq - self.shift
    }

    /// Returns the view to read instead of the current view, if there is one. The caller must have
    /// loaded the current view before this call: see the [module](self).
    pub(crate) fn kept_view(&self) -> Option<&Arc<ReadView>> {
        self.kept_view.get()
    }
}

impl Drop for ReadSeq {
    fn drop(&mut self) {
        let process = self.state().trash.process;
        let Some(mut snapshots) = process.lock(&self.state().snapshots) else { return };
        debug_assert!(snapshots.contains_key(&self.seq), "a held sequence number is not listed");
        let ended = snapshots.get_mut(&self.seq).is_some_and(|held| {
            held.count -= 1;
            held.count == 0
        });
        // The kept view, if there is one, is dropped with the last snapshot that shares it, after
        // the lock is released.
        let _kept = ended.then(|| snapshots.remove(&self.seq));
        drop(snapshots);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::process::in_time;
    use crate::engine::testing::engine_in_memory;
    use crate::fs::MemFs;

    #[test]
    fn a_snapshot_ends_in_a_forked_child_while_a_thread_of_its_parent_takes_one() {
        let mut state = engine_in_memory().reads.frozen();
        let trash = Trash::new(Arc::new(MemFs::new()), Path::new("db")).inherited();
        Arc::get_mut(&mut state).unwrap().trash = Arc::new(trash);
        let (snapshot, _) = ReadSeq::now(&state);
        let _held = state.snapshots.lock();
        in_time(move || drop(snapshot));
    }
}
