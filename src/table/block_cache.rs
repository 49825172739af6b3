//! Uncompressed data blocks in memory, within a number of bytes.
//!
//! Each open table has a [`TableBlocks`]: a slot for each of its data blocks. A lookup that knows
//! the number of the block finds it there with one atomic load: no hash, no lock, and no write to
//! anything that other threads read, once a block has been used `MOST_USES` times.
//!
//! What is kept is decided by S3-FIFO (Yang et al., "FIFO queues are all you need for cache
//! eviction", SOSP 2023). New blocks enter a small queue, a tenth of the room. Those used again
//! before they come to its end go on to the main queue, the others leave; if one of these is soon
//! read again, it enters the main queue at once. At the end of the main queue, what was used goes
//! round again. So a scan does not push out what lookups use.
//!
//! Where hardly any block is used again in the small queue, because there are too many for the
//! room, most new ones do not enter it: they are remembered only, as if they had left it. To keep a
//! block costs more than to look at it once.
//!
//! Where the room is divided into shards, a block that is large for one has a queue of its own, and
//! borrows its room from all shards. While there is none to spare, it enters when it is read a
//! second time: to read large values once leaves the other blocks where they are.
//!
//! The memory of blocks that left is kept for those that come, within the same room. Given back, it
//! would go to the part of malloc's memory that the thread has which once read the block, and the
//! one that reads the next has another part: with each part the process would grow.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicBool, AtomicU64};
use crate::base::sync::{ArcSwapAny, Guard, Mutex};
use crate::block::{Block, BlockView, SharedBlock};

/// What a block costs beside its bytes: its head, its places in slot and queue, the allocation.
pub const ENTRY_BYTES: u64 = 128;

/// Uses beyond this are not counted.
const MOST_USES: u8 = 2;

/// The scale of [`Shard::used_in_small`]; below [`FEW_USED`], most new blocks are not let in.
const ALL_USED: u32 = 1 << 16;
const FEW_USED: u32 = ALL_USED / 16;

/// How slowly the average moves.
const AVERAGE_OF: u32 = 128;

/// Of those that are not let in as a rule, one in so many is: things may change.
const LET_IN: u32 = 16;

/// The room of a ghost: blocks are mostly larger.
const GHOST_OF_BYTES: u64 = 2048;

/// Spare memory is taken for a block if no more than this part of the block's length, as a divisor,
/// is left over.
const SPARE_SLACK: usize = 8;

/// So much of the room, as a divisor, is for spare memory where there is any use for it: blocks are
/// not of one length.
const SPARE_PART: u64 = 64;

/// The least room of a shard.
const SHARD_BYTES: u64 = 2 << 20;

/// The most shards: a power of two.
const MOST_SHARDS: u64 = 16;

/// So many large blocks are remembered.
const MOST_LARGE_GHOSTS: u64 = 1024;

/// A block is large if it takes more than this part of a shard, as a divisor.
const LARGE_PART: u64 = 8;

/// This part of all room, as a divisor, is not lent to large blocks.
const KEPT_PART: u64 = 8;

/// A cache of data blocks, shared by all tables of a database. Thread-safe: a hit takes no lock,
/// a block that comes or goes takes that of a shard.
///
/// Hits and misses are counted by those who ask: [`LevelTrace`](crate::table::counts::LevelTrace).
#[derive(Debug)]
pub struct BlockCache {
    /// A power of two; each has the same room.
    shards: Box<[Mutex<Shard>]>,
    /// The large blocks. Locked before a shard.
    large: Mutex<Shard>,
    /// All room, in bytes, and from where on a block is large.
    bytes: u64,
    large_from: u64,
    next_id: AtomicU64,
}

/// The cached blocks of a table. Dropped with it, and its blocks with it.
#[derive(Debug)]
pub struct TableBlocks {
    slots: Arc<Slots>,
}

#[derive(Debug)]
struct Slots {
    cache: Arc<BlockCache>,
    id: u64,
    /// By the number of the block. Set and cleared under the shard's lock. All are empty when the
    /// table goes, and one that is has nothing to drop, which `arc_swap` would ask every thread.
    blocks: Box<[ManuallyDrop<ArcSwapAny<Option<SharedBlock>>>]>,
    /// Whether a block was ever kept.
    in_use: AtomicBool,
}

/// A block that is being looked at, without having been counted as one more owner.
pub struct CachedBlock {
    guard: Guard<Option<SharedBlock>>,
}

/// A part of the cache's room. Guarded by its lock.
#[derive(Debug)]
struct Shard {
    capacity: u64,
    small: Queue,
    main: Queue,
    /// The bytes of entries in the queues whose block went with its table.
    dead: u64,
    spares: Spares,
    ghosts: Ghosts,
    /// How many of the blocks that left the small queue had been used there: a moving average, of
    /// [`ALL_USED`].
    used_in_small: u32,
    /// Counts the new blocks while most of them do not enter.
    turn: u32,
}

/// Blocks that left the small queue lately, or were not let in. A place for each hash: what comes
/// later takes the place of what was there.
#[derive(Debug)]
struct Ghosts(Box<[u32]>);

/// The allocations of blocks that left, by their length.
#[derive(Debug, Default)]
struct Spares {
    by_length: BTreeMap<usize, Vec<SharedBlock>>,
    bytes: u64,
}

/// The number of the table and that of the block in it.
type BlockId = (u64, u32);

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    slots: Weak<Slots>,
    at: u32,
    bytes: u64,
}

impl CachedBlock {
    /// Looks at it.
    #[inline]
    pub fn view(&self) -> Option<BlockView<'_>> {
        self.guard.as_ref().map(BlockView::of)
    }

    /// The block, to keep.
    pub fn to_block(&self) -> Option<Block> {
        self.guard.as_ref().map(|shared| Block::from_shared(shared.clone()))
    }
}

impl TableBlocks {
    /// The block with this number, if it is in memory.
    #[inline]
    pub fn get(&self, at: usize) -> Option<CachedBlock> {
        let guard = self.slots.blocks.get(at)?.load();
        let shared = guard.as_ref()?;
        BlockView::prefetch(shared);
        BlockView::of(shared).count_use(MOST_USES);
        Some(CachedBlock { guard })
    }

    /// Whether a block of about `len` bytes that was read is worth keeping. If not it is
    /// remembered, for the next time.
    pub fn wants(&self, at: usize, len: usize) -> bool {
        let (cache, id, bytes) = (&self.slots.cache, (self.slots.id, at as u32), entry_bytes(len));
        match cache.is_large(bytes) {
            true => cache.wants_large(id, bytes),
            false => cache.shard(id).lock().wants(id),
        }
    }

    /// The memory of a block that left, for one with this number that takes `len` bytes. If need be
    /// one has to leave for it.
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

    /// Keeps a block, and lets others go if need be. A block too large to share the room stays
    /// out.
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
        let entry = Entry { slots: Arc::downgrade(&self.slots), at: at as u32, bytes };
        if shard.ghosts.take(id) {
            shard.main.push(entry);
        } else {
            shard.small.push(entry);
        }
        shard.make_room(0);
        shard.drop_spares();
    }

    /// The memory its slots take, in bytes.
    pub fn slot_bytes(&self) -> usize {
        size_of_val(&self.slots.blocks[..])
    }
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        if !self.slots.in_use.load(Relaxed) {
            return;
        }
        for (at, slot) in self.slots.blocks.iter().enumerate() {
            // Nobody fills one any more.
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
    /// A cache of at most `bytes`; 0 keeps none.
    pub fn new(bytes: usize) -> BlockCache {
        let bytes = bytes as u64;
        let shards = (bytes / SHARD_BYTES).clamp(1, MOST_SHARDS);
        let shards = 1 << shards.ilog2();
        let room = bytes / shards;
        let shard = |_| Mutex::new(Shard::new(room, room / GHOST_OF_BYTES));
        BlockCache {
            shards: (0..shards).map(shard).collect(),
            large: Mutex::new(Shard::new(bytes - bytes / KEPT_PART, MOST_LARGE_GHOSTS)),
            bytes,
            large_from: if shards == 1 { u64::MAX } else { room / LARGE_PART },
            next_id: AtomicU64::new(1),
        }
    }

    /// The slots of a table of so many blocks, all empty.
    pub fn table(self: &Arc<BlockCache>, blocks: usize) -> TableBlocks {
        let id = self.next_id.fetch_add(1, Relaxed);
        let blocks = (0..blocks).map(|_| ManuallyDrop::new(ArcSwapAny::new(None))).collect();
        let in_use = AtomicBool::new(false);
        TableBlocks { slots: Arc::new(Slots { cache: self.clone(), id, blocks, in_use }) }
    }

    /// The bytes in use.
    pub fn usage_bytes(&self) -> u64 {
        let large = self.large.lock();
        large.bytes() + self.small_bytes()
    }

    /// The bytes in use by blocks that are not large.
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

    /// Leaves the shards what `lent` bytes for large blocks leave of all room. Under the lock of
    /// the large blocks.
    fn lend(&self, lent: u64) {
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

/// What a block of this length counts as.
fn entry_bytes(block_len: usize) -> u64 {
    block_len as u64 + ENTRY_BYTES
}

/// Mixes all bits of an id into the upper half.
fn hash((table, block): BlockId) -> u32 {
    let bits = (table << 32 | u64::from(block)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

impl Ghosts {
    fn new(places: u64) -> Ghosts {
        let places = places.clamp(16, 1 << 24).next_power_of_two();
        Ghosts(vec![0; places as usize].into())
    }

    /// Its place, and what stands there for it. The shard's number is in the lowest bits.
    fn place(&mut self, id: BlockId) -> (&mut u32, u32) {
        let hash = hash(id);
        let at = (hash / MOST_SHARDS as u32) as usize & (self.0.len() - 1);
        let sign = (id.0 as u32).wrapping_mul(0x85eb_ca6b) ^ id.1 | 1 << 31;
        (&mut self.0[at], sign)
    }

    fn holds(&mut self, id: BlockId) -> bool {
        let (place, sign) = self.place(id);
        *place == sign
    }

    fn add(&mut self, id: BlockId) {
        let (place, sign) = self.place(id);
        *place = sign;
    }

    fn take(&mut self, id: BlockId) -> bool {
        let (place, sign) = self.place(id);
        let holds = *place == sign;
        if holds {
            *place = 0;
        }
        holds
    }
}

impl Shard {
    fn new(capacity: u64, ghosts: u64) -> Shard {
        Shard {
            capacity,
            small: Queue::default(),
            main: Queue::default(),
            dead: 0,
            spares: Spares::default(),
            ghosts: Ghosts::new(ghosts),
            used_in_small: ALL_USED,
            turn: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes - self.dead
    }

    /// Takes a block out of its slot. Its entry stays behind: to look for it in a queue would be to
    /// walk there for each table that goes.
    fn take(&mut self, slot: &ArcSwapAny<Option<SharedBlock>>) {
        let Some(block) = slot.swap(None) else { return };
        self.dead += entry_bytes(block.slice.len());
        self.spares.push(block);
        if self.dead > self.bytes() {
            self.small.sweep();
            self.main.sweep();
            self.dead = 0;
        }
    }

    fn wants(&mut self, id: BlockId) -> bool {
        if self.used_in_small >= FEW_USED || self.ghosts.holds(id) {
            return true;
        }
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(LET_IN) {
            return true;
        }
        self.ghosts.add(id);
        false
    }

    /// Lets blocks go until there is room for so many bytes.
    fn make_room(&mut self, bytes: u64) {
        let capacity = self.capacity - self.capacity / SPARE_PART;
        while self.bytes() + bytes > capacity.max(bytes) {
            if self.small.bytes > self.capacity / 10 || self.main.entries.is_empty() {
                self.leave_small();
            } else {
                self.leave_main();
            }
        }
    }

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

    fn leave_small(&mut self) {
        let Some(entry) = self.small.pop() else { return };
        let Some((slots, uses)) = entry.uses(|_| 0) else { return self.dead -= entry.bytes };
        self.used_in_small -= self.used_in_small / AVERAGE_OF;
        if uses > 0 {
            self.used_in_small += ALL_USED / AVERAGE_OF;
            return self.main.push(entry);
        }
        self.set_aside(entry.clear(&slots));
        self.ghosts.add((slots.id, entry.at));
    }

    fn leave_main(&mut self) {
        let Some(entry) = self.main.pop() else { return };
        match entry.uses(|uses| uses.saturating_sub(1)) {
            None => self.dead -= entry.bytes,
            Some((slots, 0)) => self.set_aside(entry.clear(&slots)),
            Some(_) => self.main.push(entry),
        }
    }
}

impl Spares {
    fn push(&mut self, block: SharedBlock) {
        let len = block.slice.len();
        self.bytes += entry_bytes(len);
        self.by_length.entry(len).or_default().push(block);
    }

    /// One of `len` bytes or a little more.
    fn take(&mut self, len: usize) -> Option<SharedBlock> {
        let (&found, _) = self.by_length.range(len..=len + len / SPARE_SLACK).next()?;
        self.take_from(found)
    }

    /// The shortest: the least likely to be of use.
    fn pop(&mut self) -> Option<SharedBlock> {
        let (&shortest, _) = self.by_length.first_key_value()?;
        self.take_from(shortest)
    }

    fn take_from(&mut self, len: usize) -> Option<SharedBlock> {
        let of_length = self.by_length.get_mut(&len)?;
        let block = of_length.pop();
        if of_length.is_empty() {
            self.by_length.remove(&len);
        }
        self.bytes -= entry_bytes(len);
        block
    }
}

impl Queue {
    fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Lets those go whose block did.
    fn sweep(&mut self) {
        self.entries.retain(|entry| entry.uses(|uses| uses).is_some());
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }
}

impl Entry {
    /// How often the block was used, and sets what is to be counted from. `None` if it went with
    /// its table.
    fn uses(&self, then: impl Fn(u8) -> u8) -> Option<(Arc<Slots>, u8)> {
        let slots = self.slots.upgrade()?;
        let guard = slots.blocks[self.at as usize].load();
        let block = guard.as_ref().map(BlockView::of)?;
        let uses = block.uses().load(Relaxed);
        if uses > 0 {
            block.uses().store(then(uses), Relaxed);
        }
        drop(guard);
        Some((slots, uses))
    }

    fn clear(&self, slots: &Slots) -> Option<SharedBlock> {
        slots.blocks[self.at as usize].swap(None)
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

    /// The bytes of a table's blocks that are in memory. Looks at each, which counts as a use.
    fn held_bytes(table: &TableBlocks) -> u64 {
        (0..table.slots.blocks.len()).filter_map(|at| len(table, at)).map(entry_bytes).sum()
    }

    #[test]
    fn what_a_table_leaves_in_the_queues_is_not_counted() {
        let cache = Arc::new(BlockCache::new(100 << 10));
        let (goes, stays) = (cache.table(40), cache.table(500));
        (0..40).for_each(|at| goes.insert(at, block(1000)));
        held_bytes(&goes);
        // Those enter the main queue when the small one is left.
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
        }
        assert_eq!(cache.shards[0].lock().dead, 0, "all of it has come to an end");
    }

    /// As where more tables are read than may be open.
    #[test]
    fn tables_that_come_and_go_leave_little_behind() {
        let cache = Arc::new(BlockCache::new(200 << 10));
        for turn in 0..500 {
            let table = cache.table(20);
            (0..turn % 20).for_each(|at| table.insert(at, block(1000)));
            assert_eq!(cache.usage_bytes(), held_bytes(&table));
            drop(table);
            assert_eq!(cache.usage_bytes(), 0);
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
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
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
    fn what_is_soon_read_again_stays() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(1000);
        (0..300).for_each(|at| table.insert(at, block(4096)));
        let here = |at: &usize| table.slots.blocks[*at].load().is_some();
        let gone = (0..300).rfind(|at| !here(at)).unwrap();
        table.insert(gone, block(4096));
        (300..1000).for_each(|at| table.insert(at, block(4096)));
        assert!(here(&gone) && !here(&(gone + 1)));
    }

    /// Reads a block as a lookup does: whether it was there.
    fn read(table: &TableBlocks, at: usize) -> bool {
        let there = table.get(at).is_some();
        if !there && table.wants(at, 4096) {
            table.insert(at, block(4096));
        }
        there
    }

    #[test]
    fn where_nothing_is_used_again_few_blocks_are_let_in_until_something_is() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = cache.table(20_000);
        let kept = |range: std::ops::Range<usize>| {
            let read = |at| !read(&table, at) && table.get(at).is_some();
            range.filter(|&at| read(at)).count()
        };
        // The look at what was kept is a use.
        assert_eq!(kept(0..1000), 1000);
        (1000..3000).for_each(|at| assert!(!read(&table, at)));
        let before = cache.usage_bytes();
        let wanted = (3000..10_000).filter(|&at| table.wants(at, 4096)).count();
        assert_eq!(wanted, 7000 / LET_IN as usize);
        assert_eq!(cache.usage_bytes(), before);
        let few = 10_000..10_050;
        for _ in 0..2 {
            assert!(few.clone().filter(|&at| !read(&table, at)).count() > 0);
        }
        // Some took each other's place among those remembered.
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
        drop(large);
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

    /// Whoever makes room holds a table's slots for a moment, with the shard's lock. If the table
    /// is dropped in that moment, the slots go with the lock held.
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
        let cache = Arc::new(BlockCache::new(300 << 10));
        let tables: Vec<_> = (0..3).map(|_| cache.table(100)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tables = &tables;
                scope.spawn(move || {
                    for i in 0..5000 {
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
        drop(tables);
        assert_eq!(cache.usage_bytes(), 0);
    }
}

#[cfg(test)]
mod transcripts;
