//! The block cache: uncompressed data blocks in memory, up to a capacity in bytes.
//!
//! Each open table has a [`TableBlocks`]: a slot for each of its data blocks. A lookup that knows
//! the number of a block finds the block in its slot with one atomic load: no hash, no lock and,
//! once the block has been used `MAX_USES` times, no write to memory that other threads read.
//!
//! - **Eviction** follows S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction",
//!   SOSP 2023). New blocks enter a small queue, a tenth of the capacity. A block at the end of the
//!   small queue moves to the main queue if it was used; otherwise it is evicted and leaves a ghost
//!   entry. If an evicted block is read again and still has a ghost entry, it enters the main queue
//!   directly. A used block at the end of the main queue goes back to the start. A scan therefore
//!   does not evict the blocks that lookups use.
//! - **Admission** is restricted while hardly any block in the small queue is used again because
//!   the capacity is too small for the blocks in use. During this time, most new blocks only get a
//!   ghost entry, because inserting a block costs more than searching it once.
//! - **Large blocks** (relative to a shard) share a queue of their own, and borrow their capacity
//!   from all shards. If no capacity is free, a block is admitted when it is read a second time, so
//!   that reading large values once does not evict other blocks.
//! - **Spares**: the memory of evicted blocks is kept for new blocks, within the same capacity. If
//!   this memory were freed, it would go back to the malloc arena of the thread that once read the
//!   block. The thread that reads the next block would allocate from another arena, so the process
//!   would grow with each arena.
//!
//! # Invariants
//! 1. A slot is filled and emptied only under the lock of its block's shard, and every block in a
//!    slot has one entry in a queue of that shard.
//! 2. `dead_bytes` is the total size of the queue entries whose block was dropped with its table.
//!    So the size of a shard's cached blocks, `Shard::bytes`, is the size of the shard's queues
//!    minus `dead_bytes`.
//! 3. When the lock of a shard is released, the shard's blocks and spares together do not exceed
//!    the shard's capacity.
//! 4. When the last table is closed, no block is in use.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicBool, AtomicU64};
use crate::base::sync::{ArcSwapAny, Guard, LockRank, Mutex};
use crate::block::{Block, BlockView, SharedBlock};
use crate::table::block_cache::budget::{Budget, OpenTables};

pub mod budget;

/// Overhead per block, in bytes: the memory of its header, slot, queue entry and allocation.
pub const ENTRY_BYTES: u64 = 128;

/// Largest use count of a block. With a higher limit, blocks stay longer after their last use.
pub(crate) const MAX_USES: u8 = 2;

/// The value of [`Shard::used_in_small`] if all blocks were used. Admission is restricted while
/// `used_in_small` is below [`FEW_USED`].
pub(crate) const ALL_USED: u32 = 1 << 16;
pub(crate) const FEW_USED: u32 = ALL_USED / 16;

/// Number of blocks over which [`Shard::used_in_small`] is averaged. With a higher number, the
/// average reacts more slowly.
pub(crate) const AVERAGE_DIVISOR: u32 = 128;

/// While admission is restricted, one of every `ADMIT_DIVISOR` new blocks is admitted anyway, so
/// that a new access pattern is noticed. With a higher number, the new pattern is noticed later.
pub(crate) const ADMIT_DIVISOR: u32 = 16;

/// A shard has one ghost entry for every `BYTES_PER_GHOST` bytes of its capacity, rounded up to a
/// power of two. Most blocks are longer than `BYTES_PER_GHOST`, so there are more ghost entries
/// than blocks. With a larger value, the cache remembers fewer blocks and takes less memory.
pub(crate) const BYTES_PER_GHOST: u64 = 2048;

/// Divisor of a block's length: a spare allocation is reused for the block if it is longer by at
/// most an eighth. A larger divisor wastes less memory and reuses fewer spares.
const SPARE_SLACK_DIVISOR: usize = 8;

/// Divisor of a shard's capacity: a 64th is left for spares when blocks are evicted to make room
/// for a new one. Because blocks differ in length, the allocation of an evicted block may not suit
/// the new block, but a spare may. A larger divisor leaves less for spares.
pub(crate) const SPARE_DIVISOR: u64 = 64;

/// Smallest capacity, in bytes, of a shard in a cache of several shards. With a larger value, there
/// are fewer shards (and so fewer locks), and fewer blocks count as large.
const MIN_SHARD_BYTES: u64 = 2 << 20;

/// Largest number of shards; a power of two. With more shards, threads wait less for the shards'
/// locks.
const MAX_SHARDS: u64 = 16;

/// Number of ghost entries for large blocks. With a higher number, more large blocks are
/// remembered.
const LARGE_GHOSTS: u64 = 1024;

/// Divisor of a shard's capacity: a block is large if it takes more than an eighth. With a larger
/// divisor, more blocks are large.
const LARGE_DIVISOR: u64 = 8;

/// Divisor of the whole capacity: an eighth is never lent to large blocks. With a larger divisor,
/// more is lent.
const KEPT_DIVISOR: u64 = 8;

/// A cache of data blocks, shared by all tables of a database or of several databases. Thread-safe:
/// a hit takes no lock; inserting or evicting a block takes the lock of a shard.
///
/// Callers count the hits and misses, in [`LevelTrace`](crate::table::counts::LevelTrace).
#[derive(Debug)]
pub struct BlockCache {
    /// The shards, all of the same capacity. Their number is a power of two.
    shards: Box<[Mutex<Shard>]>,
    /// The large blocks. A thread that needs both locks takes this lock before the lock of a shard.
    large: Mutex<Shard>,
    /// The whole capacity, in bytes.
    bytes: u64,
    /// Size in bytes above which a block is large.
    large_from: u64,
    /// The budget that the cache shares with memtables and open tables; `None` if the cache has its
    /// whole capacity to itself.
    budget: Option<Budget>,
    next_id: AtomicU64,
}

/// The cached blocks of a table. They are evicted when this value is dropped with the table.
#[derive(Debug)]
pub struct TableBlocks {
    slots: Arc<Slots>,
    /// Number of bytes that the table takes from the cache's budget.
    taken: u64,
}

#[derive(Debug)]
struct Slots {
    cache: Arc<BlockCache>,
    id: u64,
    /// A slot for each data block. Filled and emptied under the shard's lock. All slots are empty
    /// when the table is dropped. `ManuallyDrop` skips the destructors of the slots, because the
    /// destructor of `arc_swap` would have to check every thread for borrowed blocks.
    blocks: Box<[ManuallyDrop<ArcSwapAny<Option<SharedBlock>>>]>,
    /// Whether a block was ever inserted.
    in_use: AtomicBool,
}

/// A borrowed block of the cache. Does not increment the block's reference count.
pub struct CachedBlock {
    guard: Guard<Option<SharedBlock>>,
}

/// A part of the cache, with its own lock.
#[derive(Debug)]
struct Shard {
    /// Capacity of the shard in bytes.
    capacity: u64,
    small: BlockQueue,
    main: BlockQueue,
    /// Size in bytes of the queue entries whose block was dropped with its table.
    dead_bytes: u64,
    spares: Spares,
    ghosts: Ghosts,
    /// Moving average of the fraction of blocks that were used before they left the small queue, in
    /// units of 1 / [`ALL_USED`].
    used_in_small: u32,
    /// Number of blocks that were offered while admission was restricted and that had no ghost
    /// entry.
    offered: u32,
}

/// Ghost entries: the blocks that were recently evicted from the small queue or not admitted. The
/// hash of a block selects the block's entry. A later block with the same entry replaces the
/// earlier block.
#[derive(Debug)]
struct Ghosts(Box<[u32]>);

/// The allocations of evicted blocks, by length in bytes.
#[derive(Debug, Default)]
struct Spares {
    by_length: BTreeMap<usize, Vec<SharedBlock>>,
    bytes: u64,
}

/// The table's id and the block's number in the table.
type BlockId = (u64, u32);

#[derive(Debug, Default)]
struct BlockQueue {
    entries: VecDeque<Queued>,
    bytes: u64,
}

#[derive(Debug)]
struct Queued {
    slots: Weak<Slots>,
    at: u32,
    bytes: u64,
}

impl CachedBlock {
    /// Returns a view of the block.
    #[inline]
    pub fn view(&self) -> Option<BlockView<'_>> {
        self.guard.as_ref().map(BlockView::of)
    }

    /// Returns the block as an owned value, which keeps the block's memory alive.
    pub fn to_block(&self) -> Option<Block> {
        self.guard.as_ref().map(|shared| Block::from_shared(shared.clone()))
    }
}

impl TableBlocks {
    /// Returns the block with this number, if the block is cached, and counts the use.
    #[inline]
    pub fn get(&self, at: usize) -> Option<CachedBlock> {
        let guard = self.slots.blocks.get(at)?.load();
        let shared = guard.as_ref()?;
        BlockView::prefetch(shared);
        BlockView::of(shared).count_use(MAX_USES);
        Some(CachedBlock { guard })
    }

    /// Returns whether a block of about `len` bytes, which was just read, should be inserted. If
    /// not, the block gets a ghost entry, so that it is admitted when it is read again. A large
    /// block that exceeds the capacity for large blocks gets no ghost entry.
    pub fn wants(&self, at: usize, len: usize) -> bool {
        let (cache, id, bytes) = (&self.slots.cache, (self.slots.id, at as u32), entry_bytes(len));
        match cache.is_large(bytes) {
            true => cache.wants_large(id, bytes),
            false => cache.shard(id).lock().wants(id),
        }
    }

    /// Returns a suitable allocation of an evicted block, if there is one, to be reused for the
    /// block with this number and length in bytes. First evicts blocks until the new block fits.
    pub fn spare(&self, at: usize, len: usize) -> Option<SharedBlock> {
        let bytes = entry_bytes(len);
        if self.slots.cache.is_large(bytes) {
            return None;
        }
        let mut shard = self.slots.cache.shard((self.slots.id, at as u32)).lock();
        if bytes > shard.capacity {
            return None;
        }
        shard.make_room(bytes);
        shard.spares.take(len)
    }

    /// Inserts a block, evicting others if necessary. Does nothing if the block is larger than the
    /// capacity or is already cached.
    pub fn insert(&self, at: usize, block: Block) {
        let Some(slot) = self.slots.blocks.get(at) else { return };
        let (cache, id) = (&self.slots.cache, (self.slots.id, at as u32));
        let bytes = entry_bytes(block.len());
        let is_large = cache.is_large(bytes);
        let mut shard = if is_large { &cache.large } else { cache.shard(id) }.lock();
        if bytes > shard.capacity || slot.load().is_some() {
            return;
        }
        if is_large {
            shard.make_room(bytes);
            shard.spares = Spares::default();
            cache.lend(shard.bytes() + bytes);
        }
        self.slots.in_use.store(true, Relaxed);
        slot.store(Some(block.into_shared()));
        let entry = Queued { slots: Arc::downgrade(&self.slots), at: at as u32, bytes };
        if shard.ghosts.take(id) {
            shard.main.push(entry);
        } else {
            shard.small.push(entry);
        }
        shard.make_room(0);
        shard.drop_spares();
    }

    /// Counts `bytes` bytes, the size of the table's index and filters, against the cache's budget
    /// until the table is dropped.
    pub fn take(&mut self, bytes: usize) {
        let (before, now) = (std::mem::replace(&mut self.taken, bytes as u64), bytes as u64);
        self.slots.cache.change_budget(|budget| {
            budget.add_table(now);
            budget.remove_table(before);
        });
    }

    /// Returns the memory that the slots take, in bytes.
    pub fn slot_bytes(&self) -> usize {
        size_of_val(&self.slots.blocks[..])
    }
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        self.slots.cache.change_budget(|budget| budget.remove_table(self.taken));
        if !self.slots.in_use.load(Relaxed) {
            return;
        }
        for (at, slot) in self.slots.blocks.iter().enumerate() {
            // The table is being dropped, so no thread fills its slots any more.
            let Some(bytes) = slot.load().as_ref().map(|block| entry_bytes(block.slice.len()))
            else {
                continue;
            };
            let cache = &self.slots.cache;
            if cache.is_large(bytes) {
                let mut large = cache.large.lock();
                large.take(slot);
                large.spares = Spares::default();
                cache.lend(large.bytes());
            } else {
                cache.shard((self.slots.id, at as u32)).lock().take(slot);
            }
        }
    }
}

impl BlockCache {
    /// Creates a cache of at most `bytes` bytes. A cache of 0 bytes keeps no blocks.
    pub fn new(bytes: usize) -> BlockCache {
        BlockCache::of_bytes(bytes, None)
    }

    /// Creates a cache with a budget of `bytes` bytes. The cache may use the part of the budget
    /// that memtables and the indexes and filters of open tables do not take.
    pub fn with_budget(bytes: usize) -> BlockCache {
        BlockCache::of_bytes(bytes, Some(Budget::new(bytes)))
    }

    fn of_bytes(bytes: usize, budget: Option<Budget>) -> BlockCache {
        let bytes = bytes as u64;
        let shards = (bytes / MIN_SHARD_BYTES).clamp(1, MAX_SHARDS);
        let shards = 1 << shards.ilog2();
        let room = bytes / shards;
        let shard = || Shard::new(room, room / BYTES_PER_GHOST);
        let large = Shard::new(large_capacity(bytes), LARGE_GHOSTS);
        BlockCache {
            shards: (0..shards).map(|_| Mutex::ranked(LockRank::Shard, shard())).collect(),
            large: Mutex::ranked(LockRank::LargeBlocks, large),
            bytes,
            large_from: if shards == 1 { u64::MAX } else { room / LARGE_DIVISOR },
            budget,
            next_id: AtomicU64::new(1),
        }
    }

    /// Returns empty slots for a table of `blocks` data blocks.
    pub fn table(self: &Arc<BlockCache>, blocks: usize) -> TableBlocks {
        let id = self.next_id.fetch_add(1, Relaxed);
        let blocks = (0..blocks).map(|_| ManuallyDrop::new(ArcSwapAny::new(None))).collect();
        let in_use = AtomicBool::new(false);
        TableBlocks { slots: Arc::new(Slots { cache: self.clone(), id, blocks, in_use }), taken: 0 }
    }

    /// Returns the cache's capacity in bytes. If the cache has a budget, this is the whole budget.
    pub fn capacity_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes of the budget that memtables and tables take.
    pub fn taken_bytes(&self) -> u64 {
        self.budget.as_ref().map_or(0, Budget::taken)
    }

    /// Sets the number of bytes of the budget that memtables take.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        self.change_budget(|budget| budget.set_memtables(bytes));
    }

    /// Registers `tables`, some of which may be closed when the open tables of all databases
    /// together take too much of the budget.
    pub fn may_close(&self, tables: Weak<dyn OpenTables>) {
        if let Some(budget) = &self.budget {
            budget.may_close(tables);
        }
    }

    /// Closes tables if the open tables of all databases together take more than their part of the
    /// budget.
    pub fn close_tables(&self) {
        if let Some(budget) = &self.budget {
            budget.close_tables();
        }
    }

    /// Calls `change` on the budget, if there is one, and gives the shards the bytes that memtables
    /// and tables leave unused.
    fn change_budget(&self, change: impl FnOnce(&Budget)) {
        let Some(budget) = &self.budget else { return };
        change(budget);
        if budget.reserve() {
            let mut large = self.large.lock();
            large.capacity = large_capacity(self.bytes.saturating_sub(budget.reserved()));
            large.make_room(0);
            large.drop_spares();
            self.lend(large.bytes());
        }
    }

    /// Returns the memory in use by blocks, in bytes.
    pub fn usage_bytes(&self) -> u64 {
        let large = self.large.lock();
        large.bytes() + self.small_bytes()
    }

    /// Returns the memory in use by blocks that are not large, in bytes.
    fn small_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }

    fn is_large(&self, bytes: u64) -> bool {
        bytes > self.large_from
    }

    fn wants_large(&self, id: BlockId, bytes: u64) -> bool {
        let mut large = self.large.lock();
        if bytes > large.capacity {
            return false;
        }
        let has_room = large.bytes() + self.small_bytes() + bytes <= self.bytes;
        if has_room || large.ghosts.holds(id) {
            return true;
        }
        large.ghosts.add(id);
        false
    }

    /// Divides among the shards the capacity that is neither lent to large blocks (`lent` bytes)
    /// nor taken by memtables and tables. The caller holds the lock of the large blocks.
    fn lend(&self, lent: u64) {
        let reserved = self.budget.as_ref().map_or(0, Budget::reserved);
        let lent = lent.saturating_add(reserved);
        let room = self.bytes.saturating_sub(lent) / self.shards.len() as u64;
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.capacity = room;
            shard.make_room(0);
            shard.drop_spares();
        }
    }

    fn shard(&self, (table, block): BlockId) -> &Mutex<Shard> {
        &self.shards[hash((table, block)) as usize & (self.shards.len() - 1)]
    }
}

/// Returns the number of bytes that a cache of `bytes` bytes may use for large blocks.
fn large_capacity(bytes: u64) -> u64 {
    bytes - bytes / KEPT_DIVISOR
}

/// Returns the number of bytes that a block of this length takes from the capacity.
fn entry_bytes(block_len: usize) -> u64 {
    block_len as u64 + ENTRY_BYTES
}

/// Returns a hash of a block's id. Every bit of the id affects the upper half of the hash.
fn hash((table, block): BlockId) -> u32 {
    let bits = (table << 32 | u64::from(block)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

impl Ghosts {
    fn new(slots: u64) -> Ghosts {
        let slots = slots.clamp(16, 1 << 24).next_power_of_two();
        Ghosts(vec![0; slots as usize].into())
    }

    /// Returns the ghost entry selected by the hash of a block, and the value that stands for the
    /// block in that entry. The lowest bits of the hash already select the shard, so they are not
    /// used here.
    fn slot(&mut self, id: BlockId) -> (&mut u32, u32) {
        let hash = hash(id);
        let at = (hash / MAX_SHARDS as u32) as usize & (self.0.len() - 1);
        let mark = (id.0 as u32).wrapping_mul(0x85eb_ca6b) ^ id.1 | 1 << 31;
        (&mut self.0[at], mark)
    }

    fn holds(&mut self, id: BlockId) -> bool {
        let (slot, mark) = self.slot(id);
        *slot == mark
    }

    fn add(&mut self, id: BlockId) {
        let (slot, mark) = self.slot(id);
        *slot = mark;
    }

    fn take(&mut self, id: BlockId) -> bool {
        let (slot, mark) = self.slot(id);
        let holds = *slot == mark;
        if holds {
            *slot = 0;
        }
        holds
    }
}

impl Shard {
    fn new(capacity: u64, ghosts: u64) -> Shard {
        Shard {
            capacity,
            small: BlockQueue::default(),
            main: BlockQueue::default(),
            dead_bytes: 0,
            spares: Spares::default(),
            ghosts: Ghosts::new(ghosts),
            used_in_small: ALL_USED,
            offered: 0,
        }
    }

    /// Returns the memory in use by blocks, in bytes.
    fn bytes(&self) -> u64 {
        let queued = self.small.bytes + self.main.bytes;
        debug_assert!(self.dead_bytes <= queued, "more entries are dead than there are");
        queued - self.dead_bytes
    }

    /// Moves the block of a dropped table from its slot to the spares. The block's queue entry
    /// stays, because finding it would require a search of the queue for each dropped table.
    fn take(&mut self, slot: &ArcSwapAny<Option<SharedBlock>>) {
        let Some(block) = slot.swap(None) else { return };
        self.dead_bytes += entry_bytes(block.slice.len());
        self.spares.push(block);
        if self.dead_bytes > self.bytes() {
            self.small.sweep();
            self.main.sweep();
            self.dead_bytes = 0;
        }
    }

    /// Panics if the recorded sizes are wrong.
    #[cfg(test)]
    fn check(&self) {
        let mut dead_bytes = 0;
        for queue in [&self.small, &self.main] {
            let is_dead = |entry: &&Queued| entry.block(&entry.slots.upgrade()).is_none();
            dead_bytes +=
                queue.entries.iter().filter(is_dead).map(|entry| entry.bytes).sum::<u64>();
            let bytes: u64 = queue.entries.iter().map(|entry| entry.bytes).sum();
            assert_eq!(queue.bytes, bytes, "the size of a queue");
        }
        assert_eq!(self.dead_bytes, dead_bytes, "the size of dead entries");
        let mut spare_bytes = 0;
        for (len, spares) in &self.spares.by_length {
            assert!(!spares.is_empty(), "a length without spares");
            assert!(spares.iter().all(|spare| spare.slice.len() == *len), "of another length");
            spare_bytes += spares.len() as u64 * entry_bytes(*len);
        }
        assert_eq!(self.spares.bytes, spare_bytes, "the size of spares");
        assert!(self.used_in_small <= ALL_USED, "more than all blocks were used");
        assert!(self.bytes() + self.spares.bytes <= self.capacity, "more than the capacity");
    }

    fn wants(&mut self, id: BlockId) -> bool {
        if self.used_in_small >= FEW_USED || self.ghosts.holds(id) {
            return true;
        }
        self.offered = self.offered.wrapping_add(1);
        if self.offered.is_multiple_of(ADMIT_DIVISOR) {
            return true;
        }
        self.ghosts.add(id);
        false
    }

    /// Evicts blocks until `bytes` more bytes fit.
    fn make_room(&mut self, bytes: u64) {
        let capacity = self.capacity - self.capacity / SPARE_DIVISOR;
        while self.bytes() + bytes > capacity.max(bytes) {
            if self.small.bytes > self.capacity / 10 || self.main.entries.is_empty() {
                debug_assert!(!self.small.entries.is_empty(), "bytes in use without an entry");
                self.evict_from_small();
            } else {
                self.evict_from_main();
            }
        }
    }

    /// Keeps the memory of an evicted block as a spare.
    fn set_aside(&mut self, block: Option<SharedBlock>) {
        if let Some(block) = block {
            self.spares.push(block);
        }
    }

    fn drop_spares(&mut self) {
        while self.bytes() + self.spares.bytes > self.capacity && self.spares.bytes > 0 {
            self.spares.pop();
        }
    }

    /// Removes the oldest entry of the small queue: moves it to the main queue if its block was
    /// used, otherwise evicts the block.
    fn evict_from_small(&mut self) {
        let Some(entry) = self.small.pop() else { return };
        let Some((slots, uses)) = entry.replace_uses(|_| 0) else {
            return self.bury(&entry);
        };
        self.used_in_small -= self.used_in_small / AVERAGE_DIVISOR;
        if uses > 0 {
            self.used_in_small += ALL_USED / AVERAGE_DIVISOR;
            return self.main.push(entry);
        }
        self.set_aside(entry.clear(&slots));
        self.ghosts.add((slots.id, entry.at));
    }

    /// Removes the oldest entry of the main queue: appends it again if its block was used,
    /// otherwise evicts the block.
    fn evict_from_main(&mut self) {
        let Some(entry) = self.main.pop() else { return };
        match entry.replace_uses(|uses| uses.saturating_sub(1)) {
            None => self.bury(&entry),
            Some((slots, 0)) => self.set_aside(entry.clear(&slots)),
            Some(_) => self.main.push(entry),
        }
    }

    /// Subtracts from `dead_bytes` the size of a dead entry that was removed from its queue.
    fn bury(&mut self, entry: &Queued) {
        debug_assert!(entry.bytes <= self.dead_bytes, "a dead entry was not counted");
        self.dead_bytes -= entry.bytes;
    }
}

impl Spares {
    fn push(&mut self, block: SharedBlock) {
        let len = block.slice.len();
        self.bytes += entry_bytes(len);
        self.by_length.entry(len).or_default().push(block);
    }

    /// Removes and returns a spare of `len` bytes or slightly more, if there is one.
    fn take(&mut self, len: usize) -> Option<SharedBlock> {
        let (&found, _) = self.by_length.range(len..=len + len / SPARE_SLACK_DIVISOR).next()?;
        self.take_from(found)
    }

    /// Removes and returns the shortest spare, which is the least useful one.
    fn pop(&mut self) -> Option<SharedBlock> {
        let (&shortest, _) = self.by_length.first_key_value()?;
        self.take_from(shortest)
    }

    fn take_from(&mut self, len: usize) -> Option<SharedBlock> {
        let of_length = self.by_length.get_mut(&len)?;
        let block = of_length.pop();
        debug_assert!(block.is_some() && entry_bytes(len) <= self.bytes, "spares miscounted");
        if of_length.is_empty() {
            self.by_length.remove(&len);
        }
        self.bytes -= entry_bytes(len);
        block
    }
}

impl BlockQueue {
    fn push(&mut self, entry: Queued) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_front()?;
        debug_assert!(entry.bytes <= self.bytes, "a queue miscounts its entries");
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Removes the queue entries whose block was dropped with its table.
    fn sweep(&mut self) {
        self.entries.retain(|entry| entry.replace_uses(|uses| uses).is_some());
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }
}

impl Queued {
    /// Returns the block's use count. If the count is above 0, replaces it with `new(count)`.
    /// Returns `None` if the block was dropped with its table.
    fn replace_uses(&self, new: impl Fn(u8) -> u8) -> Option<(Arc<Slots>, u8)> {
        let slots = self.slots.upgrade()?;
        let guard = slots.blocks[self.at as usize].load();
        let block = guard.as_ref().map(BlockView::of)?;
        let uses = block.uses().load(Relaxed);
        if uses > 0 {
            block.uses().store(new(uses), Relaxed);
        }
        drop(guard);
        Some((slots, uses))
    }

    /// Removes the block from its slot and returns it.
    fn clear(&self, slots: &Slots) -> Option<SharedBlock> {
        slots.blocks[self.at as usize].swap(None)
    }

    #[cfg(test)]
    fn block(&self, slots: &Option<Arc<Slots>>) -> Option<Block> {
        let guard = slots.as_ref()?.blocks[self.at as usize].load();
        guard.as_ref().map(|shared| Block::from_shared(shared.clone()))
    }
}

#[cfg(test)]
impl BlockCache {
    /// Panics if an invariant stated at the top of this file is broken. No other thread may use the
    /// cache during the call.
    pub(crate) fn check(&self) {
        self.large.lock().check();
        self.shards.iter().for_each(|shard| shard.lock().check());
        assert!(self.shards.len().is_power_of_two());
    }
}

/// Checks that no block is in use when the cache is dropped, because the cache outlives its tables.
#[cfg(debug_assertions)]
impl Drop for BlockCache {
    fn drop(&mut self) {
        let shards = self.shards.iter_mut().chain([&mut self.large]);
        let in_use: u64 = shards.map(|shard| shard.get_mut().bytes()).sum();
        assert!(in_use == 0, "{in_use} bytes of blocks are in use without a table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::block_builder::BlockBuilder;

    fn block(value_bytes: usize) -> Block {
        let mut builder = BlockBuilder::new(1);
        builder.add(b"key", &vec![b'v'; value_bytes]);
        Block::new(builder.finish()).unwrap()
    }

    fn len(table: &TableBlocks, at: usize) -> Option<usize> {
        table.get(at).and_then(|block| block.to_block()).map(|block| block.len())
    }

    #[test]
    fn a_cache_has_a_shard_for_each_two_mebibytes_up_to_sixteen() {
        let shape = |bytes: usize| {
            let cache = BlockCache::new(bytes);
            let (large, shard) = (cache.large.lock(), cache.shards[0].lock());
            let ghosts = shard.ghosts.0.len();
            (cache.shards.len(), shard.capacity, ghosts, large.capacity, cache.large_from)
        };
        assert_eq!(shape(0), (1, 0, 16, 0, u64::MAX));
        assert_eq!(shape((2 << 20) - 1), (1, (2 << 20) - 1, 1024, 1_835_008, u64::MAX));
        assert_eq!(shape(4 << 20), (2, 2 << 20, 1024, 3_670_016, 256 << 10));
        assert_eq!(shape(15 << 20), (4, 15 << 18, 2048, 13_762_560, 15 << 15));
        assert_eq!(shape(16 << 20).0, 8);
        assert_eq!(shape(64 << 20), (16, 4 << 20, 2048, 56 << 20, 512 << 10));
        assert_eq!(Arc::new(BlockCache::new(0)).table(10).slot_bytes(), 80);
    }

    #[test]
    fn blocks_have_the_rest_of_a_budget() {
        let cache = Arc::new(BlockCache::with_budget(64 << 20));
        let table = cache.table(2000);
        let fill = || {
            for at in 0..2000 {
                if table.get(at).is_none() && table.wants(at, 64 << 10) {
                    table.insert(at, block(64 << 10));
                }
            }
            cache.usage_bytes() >> 20
        };
        assert!((60..=64).contains(&fill()));
        cache.set_memtable_bytes(32 << 20);
        assert!(cache.usage_bytes() <= 32 << 20);
        assert!((28..=32).contains(&fill()));
        let mut other = cache.table(1);
        other.take(8 << 20);
        other.take(16 << 20);
        assert_eq!(cache.taken_bytes(), 48 << 20);
        assert!(cache.usage_bytes() <= 16 << 20);
        cache.check();
        drop(other);
        cache.set_memtable_bytes(0);
        assert!((60..=64).contains(&fill()));
        cache.set_memtable_bytes(u64::MAX);
        assert_eq!(cache.usage_bytes(), 0);
    }

    #[test]
    fn blocks_are_spread_over_the_shards() {
        let cache = BlockCache::new(64 << 20);
        let mut blocks = [0; 16];
        for id in (1..51).flat_map(|table| (0..64).map(move |block| (table, block))) {
            let shard = std::ptr::from_ref(cache.shard(id));
            let at = cache.shards.iter().position(|other| std::ptr::eq(other, shard));
            blocks[at.unwrap()] += 1;
        }
        assert!(blocks.iter().all(|count| (150..250).contains(count)), "{blocks:?}");
    }

    #[test]
    fn ghosts_of_blocks_with_a_common_slot_are_told_apart() {
        let mut ghosts = Ghosts::new(0);
        let ids: Vec<BlockId> = (1..9).flat_map(|table| [(table, 0), (table, 7)]).collect();
        for &id in &ids {
            ghosts.add(id);
            assert!(ids.iter().all(|&other| ghosts.holds(other) == (other == id) || other < id));
        }
        let held = ids.iter().filter(|&&id| ghosts.holds(id)).count();
        assert!((6..16).contains(&held), "{held} of 16 in 16 slots");
        let last = ids[ids.len() - 1];
        assert!(ghosts.take(last) && !ghosts.take(last) && !ghosts.holds(last));
    }

    #[test]
    fn blocks_are_let_in_while_one_in_sixteen_is_used() {
        let mut shard = Shard::new(1 << 20, 16);
        shard.used_in_small = FEW_USED;
        assert!(shard.wants((1, 1)));
        shard.used_in_small = FEW_USED - 1;
        assert!(!shard.wants((1, 1)), "not at once");
        assert!(shard.wants((1, 1)), "for the second time");
    }

    #[test]
    fn a_spare_is_taken_for_a_block_that_is_shorter_by_a_ninth_at_most() {
        let mut spares = Spares::default();
        let len = block(900).len();
        let wanted = (1..=len).find(|wanted| wanted + wanted / SPARE_SLACK_DIVISOR >= len).unwrap();
        for (wanted, fits) in [(wanted - 1, false), (wanted, true), (len, true), (len + 1, false)] {
            spares.push(block(900).into_shared());
            assert_eq!(spares.take(wanted).is_some(), fits, "{wanted} of {len}");
            spares = Spares::default();
        }
    }

    #[test]
    fn spares_fill_the_capacity_and_the_shortest_go_first() {
        let mut shard = Shard::new(0, 16);
        let lens = [100, 300, 200].map(|bytes| block(bytes).len());
        for bytes in [100, 300, 200] {
            shard.spares.push(block(bytes).into_shared());
        }
        for gone in 0..=3 {
            let mut left = lens;
            left.sort_unstable();
            let left = left[gone..].iter().map(|&len| entry_bytes(len)).sum::<u64>();
            shard.capacity = left;
            shard.drop_spares();
            assert_eq!(shard.spares.bytes, left);
        }
    }

    #[test]
    fn the_average_use_in_the_small_queue_moves_by_a_128th() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(2);
        (0..2).for_each(|at| table.insert(at, block(10)));
        table.get(1);
        let mut shard = cache.shards[0].lock();
        shard.used_in_small = 12_800;
        shard.evict_from_small();
        assert_eq!(shard.used_in_small, 12_700, "unused");
        shard.evict_from_small();
        assert_eq!(shard.used_in_small, 12_700 - 99 + ALL_USED / AVERAGE_DIVISOR, "used");
    }

    #[test]
    fn blocks_are_kept_by_table_and_number() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let (one, two) = (cache.table(3), cache.table(3));
        one.insert(0, block(10));
        one.insert(2, block(20));
        assert_eq!(len(&one, 0), Some(block(10).len()));
        assert_eq!(len(&one, 2), Some(block(20).len()));
        assert!(one.get(1).is_none() && two.get(0).is_none() && one.get(3).is_none());
        let bytes = (block(10).len() + block(20).len()) as u64 + 2 * ENTRY_BYTES;
        assert_eq!(cache.usage_bytes(), bytes);
        one.insert(0, block(10));
        one.insert(3, block(10));
        assert_eq!(cache.usage_bytes(), bytes, "one that is there, and one that is none");
        cache.check();
    }

    #[test]
    fn the_bytes_in_use_stay_within_the_bound() {
        for bytes in [256 << 10, 5 << 20] {
            let cache = Arc::new(BlockCache::new(bytes));
            let table = cache.table(10_000);
            for at in 0..10_000 {
                table.insert(at, block(4096));
                table.get(at * 7 % (at + 1));
                assert!(cache.usage_bytes() <= bytes as u64);
            }
            assert!(cache.usage_bytes() > bytes as u64 / 2);
            let held = (0..10_000).filter_map(|at| len(&table, at));
            let held: u64 = held.map(|len| len as u64 + ENTRY_BYTES).sum();
            assert_eq!(cache.usage_bytes(), held);
            cache.check();
        }
    }

    #[test]
    fn a_table_takes_its_blocks_with_it() {
        let cache = Arc::new(BlockCache::new(64 << 20));
        let (one, two) = (cache.table(100), cache.table(100));
        (0..100).for_each(|at| one.insert(at, block(100)));
        (0..50).for_each(|at| two.insert(at, block(100)));
        let held = one.get(7).unwrap();
        drop(one);
        assert_eq!(cache.usage_bytes(), 50 * (block(100).len() as u64 + ENTRY_BYTES));
        assert!(held.view().is_some(), "who looks at a block keeps it");
        drop(two);
        assert_eq!(cache.usage_bytes(), 0);
    }

    /// Returns the total size of the table's cached blocks. The call counts as a use of each block.
    fn held_bytes(table: &TableBlocks) -> u64 {
        (0..table.slots.blocks.len()).filter_map(|at| len(table, at)).map(entry_bytes).sum()
    }

    #[test]
    fn blocks_of_dropped_tables_in_the_queues_are_not_counted() {
        let cache = Arc::new(BlockCache::new(100 << 10));
        let (goes, stays) = (cache.table(40), cache.table(500));
        (0..40).for_each(|at| goes.insert(at, block(1000)));
        held_bytes(&goes);
        // As these inserts fill the small queue, the blocks of `goes` move to the main queue.
        (0..60).for_each(|at| stays.insert(at, block(1000)));
        let before = cache.usage_bytes();
        assert_eq!(before, held_bytes(&goes) + held_bytes(&stays));
        let gone = held_bytes(&goes);
        assert!(gone > 30 << 10);
        drop(goes);
        assert_eq!(cache.usage_bytes(), before - gone);
        for at in 60..500 {
            stays.insert(at, block(1000));
            if at % 50 == 0 {
                cache.table(1).insert(0, block(1000));
            }
            assert_eq!(cache.usage_bytes(), held_bytes(&stays));
            assert!(cache.usage_bytes() <= 100 << 10);
            cache.check();
        }
        assert_eq!(cache.shards[0].lock().dead_bytes, 0, "all of it has come to an end");
    }

    /// Checks that the cache stays small while tables are opened and dropped again and again.
    #[test]
    fn tables_that_come_and_go_leave_little_behind() {
        let cache = Arc::new(BlockCache::new(200 << 10));
        for turn in 0..500 {
            let table = cache.table(20);
            (0..turn % 20).for_each(|at| table.insert(at, block(1000)));
            assert_eq!(cache.usage_bytes(), held_bytes(&table));
            drop(table);
            assert_eq!(cache.usage_bytes(), 0);
            cache.check();
            let shard = cache.shards[0].lock();
            assert!(shard.small.entries.len() + shard.main.entries.len() < 40);
        }
    }

    #[test]
    fn memory_of_blocks_that_left_is_used_again() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(2000);
        let order = crate::table::testing::internal_order();
        let mut reused = 0;
        for at in 0..2000 {
            let contents = block(4000 + at * 37 % 300);
            let spare = |len| {
                let spare = table.spare(at, len);
                reused += usize::from(spare.is_some());
                spare
            };
            let block = Block::with_heads(&contents, &order, &mut Vec::new(), spare).unwrap();
            assert_eq!(block.as_ref(), contents.as_ref());
            table.insert(at, block);
            let shard = cache.shards[0].lock();
            assert!(shard.bytes() + shard.spares.bytes <= 1 << 20);
        }
        assert!(reused > 1600, "{reused} times");
        cache.check();
    }

    #[test]
    fn a_scan_does_not_push_out_blocks_in_use() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let (used, scanned) = (cache.table(100), cache.table(2000));
        for at in 0..100 {
            used.insert(at, block(4096));
            used.get(at);
        }
        (0..2000).for_each(|at| scanned.insert(at, block(4096)));
        let left = (0..100).filter(|&at| used.get(at).is_some()).count();
        assert_eq!(left, 100);
        let left = (0..2000).filter(|&at| scanned.get(at).is_some()).count();
        assert!((50..200).contains(&left), "{left}");
    }

    #[test]
    fn a_block_that_is_soon_read_again_stays() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(1000);
        (0..300).for_each(|at| table.insert(at, block(4096)));
        let here = |at: &usize| table.slots.blocks[*at].load().is_some();
        let gone = (0..300).rfind(|at| !here(at)).unwrap();
        table.insert(gone, block(4096));
        (300..1000).for_each(|at| table.insert(at, block(4096)));
        assert!(here(&gone) && !here(&(gone + 1)));
    }

    /// Reads a block as a lookup does. Returns whether the block was cached.
    fn read(table: &TableBlocks, at: usize) -> bool {
        let there = table.get(at).is_some();
        if !there && table.wants(at, 4096) {
            table.insert(at, block(4096));
        }
        there
    }

    #[test]
    fn few_blocks_are_admitted_until_blocks_are_used_again() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(20_000);
        let kept = |range: std::ops::Range<usize>| {
            let read = |at| !read(&table, at) && table.get(at).is_some();
            range.filter(|&at| read(at)).count()
        };
        // `kept` looks up each block that was kept, which counts as a use of the block.
        assert_eq!(kept(0..1000), 1000);
        (1000..3000).for_each(|at| assert!(!read(&table, at)));
        let before = cache.usage_bytes();
        let wanted = (3000..10_000).filter(|&at| table.wants(at, 4096)).count();
        assert_eq!(wanted, 7000 / ADMIT_DIVISOR as usize);
        assert_eq!(cache.usage_bytes(), before);
        let few = 10_000..10_050;
        for _ in 0..2 {
            assert!(few.clone().filter(|&at| !read(&table, at)).count() > 0);
        }
        // A few blocks lost their ghost entries because another block's hash selected the same
        // entry.
        let stayed = few.filter(|&at| read(&table, at)).count();
        assert!(stayed > 40, "read twice, {stayed} of 50 stay");
    }

    #[test]
    fn blocks_larger_than_a_shard_borrow_its_room_and_give_it_back() {
        let bytes = 8 << 20;
        let cache = Arc::new(BlockCache::new(bytes));
        assert!(cache.shards.len() > 1);
        let (small, large) = (cache.table(3000), cache.table(100));
        let read_large = |at: usize| {
            let there = large.get(at).is_some();
            if !there && large.wants(at, 3 << 20) {
                large.insert(at, block(3 << 20));
            }
            there
        };
        assert!(!read_large(0) && !read_large(1));
        assert!((0..20).all(|turn| read_large(turn % 2)), "both stay");
        for at in 0..3000 {
            small.insert(at, block(4096));
            small.get(at);
            assert!(cache.usage_bytes() <= bytes as u64);
        }
        assert!(read_large(0) && read_large(1));
        assert_eq!(cache.usage_bytes(), held_bytes(&small) + held_bytes(&large));
        cache.check();
        drop(large);
        cache.check();
        let left = held_bytes(&small);
        assert_eq!(cache.usage_bytes(), left);
        (0..3000).for_each(|at| small.insert(at, block(4096)));
        assert!(held_bytes(&small) > 3 * left, "the room is theirs again");
    }

    #[test]
    fn large_blocks_that_are_read_once_push_nothing_out() {
        let bytes = 8 << 20;
        let cache = Arc::new(BlockCache::new(bytes));
        let (small, large) = (cache.table(3000), cache.table(100));
        (0..3000).for_each(|at| small.insert(at, block(4096)));
        let before = held_bytes(&small);
        assert!((0..100).all(|at| !large.wants(at, 1 << 20)));
        assert_eq!(held_bytes(&small), before);
        assert!(large.wants(99, 1 << 20), "for the second time");
        assert!(!large.wants(0, bytes) && !large.wants(0, bytes), "larger than all there is");
        large.insert(99, block(1 << 20));
        assert!(large.get(99).is_some() && cache.usage_bytes() <= bytes as u64);
    }

    #[test]
    fn a_cache_of_no_bytes_keeps_nothing() {
        let cache = Arc::new(BlockCache::new(0));
        let table = cache.table(1);
        table.insert(0, block(1));
        assert!(table.get(0).is_none());
        assert_eq!(cache.usage_bytes(), 0);
    }

    /// Checks that slots can be dropped while the lock of their shard is held. A thread that evicts
    /// blocks holds a reference to a table's slots for a moment, under the shard's lock. If the
    /// table is dropped in that moment, this reference is the last.
    #[test]
    fn slots_may_go_while_their_shard_is_locked() {
        let cache = Arc::new(BlockCache::new(1 << 10));
        let (sender, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let table = cache.table(1);
            table.insert(0, block(1));
            let held = table.slots.clone();
            drop(table);
            let shard = cache.shards[0].lock();
            drop(held);
            sender.send(shard.bytes()).unwrap();
        });
        let left = done.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(left, Ok(0), "nobody waits for ever");
    }

    #[test]
    fn threads_see_the_blocks_they_ask_for() {
        const READS: usize = if cfg!(miri) { 60 } else { 5000 };
        let cache = Arc::new(BlockCache::new(300 << 10));
        let tables: Vec<_> = (0..3).map(|_| cache.table(100)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tables = &tables;
                scope.spawn(move || {
                    for i in 0..READS {
                        let (table, at) = ((i + thread) % 3, (i * 7 + thread * 3) % 100);
                        let want = block(4000 + table * 100 + at).len();
                        match len(&tables[table], at) {
                            Some(len) => assert_eq!(len, want),
                            None => tables[table].insert(at, block(4000 + table * 100 + at)),
                        }
                    }
                });
            }
        });
        assert!(cache.usage_bytes() <= 300 << 10);
        cache.check();
        drop(tables);
        assert_eq!(cache.usage_bytes(), 0);
    }
}

#[cfg(test)]
mod transcripts;
