//! The part of the engine that is used by reads. Reads share nothing else with the engine, and
//! never wait for the rest of the engine.
//!
//! A reader loads the current [`ReadView`] (one atomic load, no lock) and *then* the visible
//! sequence number. With this order, the sequence number may be newer than the view, which is
//! harmless: the view holds every write up to the time at which it was replaced by the next view,
//! and that time is after the beginning of the read. With the opposite order, a compaction between
//! the two loads could have dropped versions that the older sequence number needs.
//!
//! A snapshot also reads the current view, at the snapshot's own sequence number, because
//! compactions keep what the snapshot shows. A change that drops entries that snapshots show, such
//! as a range delete that drops whole tables, keeps the view from before the change for those
//! snapshots ([`ReadState::show_view`]). A reader looks for such an earlier view after it has
//! loaded the current view. So if the current view is from after the change, the reader finds the
//! earlier view.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, OnceLock};

use crate::base::clock::Clock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Guard, LockRank, Mutex};
use crate::engine::memtable::Memtable;
use crate::engine::resources::signal::WorkSignal;
use crate::engine::stats::sample::{LookupSample, ScanSample};
use crate::engine::stats::totals::ReadTotals;
use crate::engine::version::Version;
use crate::engine::version::deleted_ranges::DeletedRanges;
use crate::engine::version::obsolete::Trash;
use crate::format::key::{InternalComparator, SeqNo};
use crate::fs::FileLock;
use crate::table::block_cache::BlockCache;
use crate::table::table_cache::TableCache;

/// Everything that can be read at one point in time. A view keeps its memtables and tables alive.
#[derive(Debug)]
pub(crate) struct ReadView {
    /// The memtable that writes go to.
    pub mem: Arc<Memtable>,
    /// Frozen memtables that are not flushed yet, newest first.
    pub imm: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
}

impl ReadView {
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

/// The state needed for reads, shared by the database, its snapshots and its cursors. The directory
/// stays locked until the last reference to this state is dropped.
///
/// Thread-safe. The engine replaces `view` under its state lock, and the commit leader advances
/// `visible_seq`. Both are read without a lock.
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
    /// A sample of the keys that were looked up by gets.
    pub sample: LookupSample,
    /// A sample of the ranges read by scans with two bounds.
    pub scans: ScanSample,
    /// Obsolete tables to remove.
    pub trash: Arc<Trash>,
    /// Ranges whose tables were dropped by a range delete, for the conflict checks of transactions.
    pub deleted_ranges: DeletedRanges,
    /// Signal that there may be background work.
    pub work: WorkSignal,
    view: ArcSwap<ReadView>,
    /// Sequence number of the last visible write. Never decreases.
    visible_seq: AtomicU64,
    /// Sequence numbers that snapshots hold.
    snapshots: Mutex<BTreeMap<SeqNo, Held>>,
    _lock: Option<Arc<dyn FileLock>>,
}

/// A sequence number that snapshots hold.
#[derive(Debug, Default)]
struct Held {
    /// Number of snapshots that hold the sequence number.
    count: usize,
    kept_view: KeptView,
}

/// The view that a snapshot reads instead of the current view; empty while the current view has
/// everything that the snapshot shows.
type KeptView = Arc<OnceLock<Arc<ReadView>>>;

impl ReadState {
    /// Returns a state with the view `view`, in which writes up to `visible_seq` are visible.
    /// `lock` is the directory's lock; `None` if the directory is not locked.
    pub(crate) fn new(
        order: InternalComparator,
        tables: Arc<TableCache>,
        block_cache: Option<Arc<BlockCache>>,
        trash: Arc<Trash>,
        view: ReadView,
        visible_seq: SeqNo,
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
            sample: LookupSample::default(),
            scans: ScanSample::default(),
            view: ArcSwap::from_pointee(view),
            visible_seq: AtomicU64::new(visible_seq),
            snapshots: Mutex::ranked(LockRank::Snapshots, BTreeMap::new()),
            _lock: lock,
        }
    }

    /// Returns the state with the clock `clock` instead of the system clock.
    pub(crate) fn with_clock(self, clock: Clock) -> ReadState {
        ReadState { clock, ..self }
    }

    /// Returns a new state that stays at the current view. It shares the tables and the block
    /// cache, and has counters of its own. Used for a database opened for reading only, which holds
    /// no lock.
    pub(crate) fn frozen(&self) -> Arc<ReadState> {
        let ReadView { mem, imm, version } = &*self.view_owned();
        let view = ReadView { mem: mem.clone(), imm: imm.clone(), version: version.clone() };
        let state = ReadState::new(
            self.order.clone(),
            self.tables.clone(),
            self.block_cache.clone(),
            self.trash.clone(),
            view,
            self.visible_seq(),
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

    /// Makes `view` the view that is used by all further reads.
    pub(crate) fn set_view(&self, view: ReadView) {
        debug_assert!(view.has_distinct_memtables(), "a memtable is in the view twice");
        self.view.store(Arc::new(view));
    }

    /// Like [`set_view`](ReadState::set_view), for a change that affects more than the view. Reads
    /// and snapshots see the whole change or none of it.
    ///
    /// If `lost_after` is given, the new view lacks entries that are visible to snapshots with
    /// higher sequence numbers. These snapshots keep the old view. If `seq` is given, writes up to
    /// this sequence number become visible.
    pub(crate) fn show_view(&self, view: ReadView, lost_after: Option<SeqNo>, seq: Option<SeqNo>) {
        // No snapshot is taken while this lock is held. A read without a snapshot sees either the
        // old view, which has nothing of the change, or the new view and then the new sequence
        // number.
        let snapshots = self.snapshots.lock();
        if let Some(after) = lost_after {
            let before = self.view_owned();
            for (_, held) in snapshots.range((Excluded(after), Unbounded)) {
                held.kept_view.get_or_init(|| before.clone());
            }
        }
        if let Some(seq) = seq {
            self.set_visible_seq(seq);
        }
        self.set_view(view);
    }

    /// Returns the sequence number of the last visible write. Must be loaded after the view.
    #[inline]
    pub(crate) fn visible_seq(&self) -> SeqNo {
        self.visible_seq.load(Ordering::Acquire)
    }

    /// Makes writes up to `seq` visible.
    pub(crate) fn set_visible_seq(&self, seq: SeqNo) {
        debug_assert!(seq >= self.visible_seq(), "the visible sequence number goes back");
        self.visible_seq.store(seq, Ordering::Release);
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
        let snapshots = self.snapshots.lock();
        let mut seqs: Vec<SeqNo> = snapshots.keys().copied().collect();
        let newest = seqs.last().copied().unwrap_or(0);
        let visible = self.visible_seq();
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
        let snapshots = self.snapshots.lock();
        snapshots.keys().next().copied().unwrap_or_else(|| self.visible_seq())
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
#[derive(Debug)]
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
    kept_view: KeptView,
    // Must stay the last field: the sweep removes the tables that only the kept view kept alive.
    sweep: Sweep,
}

impl ReadSeq {
    /// Creates a hold on the current visible sequence number.
    pub(crate) fn now(state: &Arc<ReadState>) -> ReadSeq {
        // The sequence number is read under the lock. If a compaction lists the snapshots before
        // this snapshot is added to them, it keeps everything that is visible at that time, and
        // this snapshot's sequence number is not lower than the sequence number that is visible at
        // that time.
        let mut snapshots = state.snapshots.lock();
        let seq = state.visible_seq();
        debug_assert!(
            snapshots.keys().next_back().is_none_or(|&newest| newest <= seq),
            "a snapshot is newer than the last visible write"
        );
        let held = snapshots.entry(seq).or_default();
        held.count += 1;
        ReadSeq { seq, kept_view: held.kept_view.clone(), sweep: Sweep(state.clone()) }
    }

    /// Returns the state of the database.
    pub(crate) fn state(&self) -> &Arc<ReadState> {
        &self.sweep.0
    }

    /// Returns the sequence number.
    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    /// Returns the view to read: the kept view if there is one, otherwise `current`. The caller
    /// must have loaded `current` before this call: see the [module](self).
    pub(crate) fn view_or<'a>(&'a self, current: &'a Arc<ReadView>) -> &'a Arc<ReadView> {
        self.kept_view.get().unwrap_or(current)
    }
}

impl Drop for ReadSeq {
    fn drop(&mut self) {
        let mut snapshots = self.state().snapshots.lock();
        debug_assert!(snapshots.contains_key(&self.seq), "a held sequence number is not listed");
        let ended = snapshots.get_mut(&self.seq).is_some_and(|held| {
            held.count -= 1;
            held.count == 0
        });
        // The kept view, if there is one, is dropped with the last snapshot that holds the sequence
        // number, after the lock is released.
        let _kept = ended.then(|| snapshots.remove(&self.seq));
        drop(snapshots);
    }
}
