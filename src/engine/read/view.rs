//! What reads see: the half of the engine that never waits for the other.
//!
//! A reader loads the current [`ReadView`] (one atomic load, no lock) and *then* the visible
//! sequence number. In this order the sequence may be newer than the view, which is harmless: the
//! view holds everything up to the moment it was replaced, and that came after the read began.
//! The other way round, a compaction could have dropped versions which the older sequence needs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Condvar, Guard, LockRank, Mutex};
use crate::engine::memtable::Memtable;
use crate::engine::stats::sample::LookupSample;
use crate::engine::stats::totals::ReadTotals;
use crate::engine::version::Version;
use crate::engine::version::obsolete::Trash;
use crate::format::key::{InternalComparator, SeqNo};
use crate::fs::FileLock;
use crate::table::block_cache::BlockCache;
use crate::table::table_cache::TableCache;

/// Everything there is to read at one moment. What it names lives as long as it does.
#[derive(Debug)]
pub struct ReadView {
    /// The memtable writes go to.
    pub mem: Arc<Memtable>,
    /// Frozen memtables that are not tables yet, newest first.
    pub imm: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
}

impl ReadView {
    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.mem).chain(&self.imm)
    }
}

/// What every read needs, shared by the database, its snapshots and its cursors. While any of
/// them lives, the directory stays locked.
///
/// Thread-safe. `view` and `visible_seq` are replaced by the engine under its state lock and by
/// its commit leader; everyone reads them without a lock.
pub struct ReadState {
    /// The order of internal keys.
    pub order: InternalComparator,
    /// The open tables.
    pub tables: Arc<TableCache>,
    /// The cached blocks; `None` if nothing is to be cached.
    pub block_cache: Option<Arc<BlockCache>>,
    /// What all reads did.
    pub totals: ReadTotals,
    /// Some of the keys that gets looked up.
    pub sample: LookupSample,
    /// Where obsolete tables go.
    pub trash: Arc<Trash>,
    /// Told when there may be work in the background, and at close. Waits with the engine's state
    /// lock; a reader tells it without, so that the background may miss it, until the next time.
    pub work: Condvar,
    view: ArcSwap<ReadView>,
    /// Writes up to this one are visible.
    visible_seq: AtomicU64,
    /// Sequences that snapshots hold, with how many hold each.
    snapshots: Mutex<BTreeMap<SeqNo, usize>>,
    _lock: Option<Arc<dyn FileLock>>,
}

impl ReadState {
    /// Starts with `view`, of which everything up to `visible_seq` is visible.
    pub fn new(
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
            trash,
            work: Condvar::new(),
            totals: ReadTotals::default(),
            sample: LookupSample::default(),
            view: ArcSwap::from_pointee(view),
            visible_seq: AtomicU64::new(visible_seq),
            snapshots: Mutex::ranked(LockRank::Snapshots, BTreeMap::new()),
            _lock: lock,
        }
    }

    /// The current view, for a read that is over soon.
    #[inline]
    pub fn view(&self) -> Guard<Arc<ReadView>> {
        self.view.load()
    }

    /// The current view, to keep.
    pub fn view_owned(&self) -> Arc<ReadView> {
        self.view.load_full()
    }

    /// Shows `view` to reads that begin from now on.
    pub fn set_view(&self, view: ReadView) {
        self.view.store(Arc::new(view));
    }

    /// Writes up to this one are visible. Load it after the view.
    #[inline]
    pub fn visible_seq(&self) -> SeqNo {
        self.visible_seq.load(Ordering::Acquire)
    }

    /// Makes writes up to `seq` visible.
    pub fn set_visible_seq(&self, seq: SeqNo) {
        debug_assert!(seq >= self.visible_seq(), "what was visible stays visible");
        self.visible_seq.store(seq, Ordering::Release);
    }

    /// The sequences whose view of the database must be kept, ascending: those of the snapshots,
    /// and the visible one.
    pub fn held_seqs(&self) -> Vec<SeqNo> {
        let snapshots = self.snapshots.lock();
        let mut seqs: Vec<SeqNo> = snapshots.keys().copied().collect();
        let visible = self.visible_seq();
        if seqs.last() != Some(&visible) {
            seqs.push(visible);
        }
        debug_assert!(seqs.is_sorted_by(|a, b| a < b), "no snapshot is of the future");
        seqs
    }

    /// The least of [`ReadState::held_seqs`].
    pub fn oldest_held_seq(&self) -> SeqNo {
        let snapshots = self.snapshots.lock();
        snapshots.keys().next().copied().unwrap_or_else(|| self.visible_seq())
    }

    /// How many snapshots are held, and the oldest one's sequence.
    pub fn snapshots_held(&self) -> (usize, Option<SeqNo>) {
        let snapshots = self.snapshots.lock();
        (snapshots.values().sum(), snapshots.keys().next().copied())
    }
}

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState")
            .field("visible_seq", &self.visible_seq())
            .finish_non_exhaustive()
    }
}

/// The last field of what holds a view: when it is dropped, the view is gone, and tables that
/// only it named are removed.
#[derive(Debug)]
pub struct Sweep(pub Arc<ReadState>);

impl Drop for Sweep {
    fn drop(&mut self) {
        self.0.trash.empty();
    }
}

/// A sequence that a snapshot holds. Compactions keep what it sees until it is dropped.
#[derive(Debug)]
pub struct HeldSeq {
    state: Arc<ReadState>,
    seq: SeqNo,
}

impl HeldSeq {
    /// Holds the database as it is now.
    pub fn now(state: &Arc<ReadState>) -> HeldSeq {
        // The sequence is read under the lock: a compaction that lists the snapshots before this
        // one is there keeps what is visible then, which is not newer.
        let mut snapshots = state.snapshots.lock();
        let seq = state.visible_seq();
        *snapshots.entry(seq).or_insert(0) += 1;
        HeldSeq { state: state.clone(), seq }
    }

    /// Whose it is.
    pub fn state(&self) -> &Arc<ReadState> {
        &self.state
    }

    /// The sequence.
    pub fn seq(&self) -> SeqNo {
        self.seq
    }
}

impl Drop for HeldSeq {
    fn drop(&mut self) {
        let mut snapshots = self.state.snapshots.lock();
        debug_assert!(snapshots.contains_key(&self.seq), "{} was held", self.seq);
        if let Some(count) = snapshots.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&self.seq);
            }
        }
    }
}
