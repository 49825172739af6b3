//! The miss-ratio curve: how many block reads would miss a block cache of a given size.
//!
//! The cache is simulated with the rules of the library's block cache, but without
//! the contents of blocks. A large cache is simulated in miniature: only blocks whose hashed number
//! is below a threshold take part, in a cache that is smaller in proportion (Waldspurger et al.,
//! "Cache modeling and optimization using miniature simulations", USENIX ATC 2017, with the
//! spatially hashed sampling of SHARDS, FAST 2015). If one read of a block takes part, all reads of
//! the block do, so the number of reads between two reads of a block shrinks in proportion to the
//! cache. A simulation never holds more than about [`MOST_BLOCKS`] blocks, however large the cache
//! is. A cache of fewer blocks is simulated at full size.

use std::collections::{HashMap, VecDeque};

use crate::advice::shadow::BlockRead;
use crate::random::Rng;

/// Overhead of a cached block, in bytes.
pub const ENTRY_BYTES: u64 = 128;

// The numbers of the library's block cache, which explains them. A test of the library compares
// the simulation with that cache.
const MAX_USES: u8 = 2;
const ALL_USED: u32 = 1 << 16;
const FEW_USED: u32 = ALL_USED / 16;
const AVERAGE_DIVISOR: u32 = 128;
const ADMIT_DIVISOR: u32 = 16;
const BYTES_PER_GHOST: u64 = 2048;
const SPARE_DIVISOR: u64 = 64;

/// Maximum number of blocks in a simulated cache. With more blocks, the estimate is more exact, and
/// takes more memory and time.
pub const MOST_BLOCKS: u64 = 4096;

/// Number of samples, with different hashes, from which the error of a miniature simulation is
/// estimated. A higher number takes more time.
const SAMPLES: u64 = 3;

impl BlockRead {
    fn id(&self) -> u64 {
        u64::from(self.table) << 32 | u64::from(self.block)
    }

    /// Converts this read to a read of blocks that are `2^log` times as large, where `log` is at
    /// least -2. The new block is the larger block that contains the original block, or a part of
    /// the original block.
    #[must_use]
    pub fn resized(&self, log: i32) -> BlockRead {
        match log {
            0.. => BlockRead { block: self.block >> log, bytes: self.bytes << log, ..*self },
            _ => {
                let part = u32::from(self.quarter) >> (2 + log);
                let block = (self.block << -log) + part;
                BlockRead { block, bytes: self.bytes >> -log, ..*self }
            }
        }
    }
}

/// An estimate of the number of blocks read from files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileReads {
    /// Number of reads from files.
    pub reads: f64,
    /// The estimated standard error of `reads`.
    pub error: f64,
    /// Fraction of the blocks that were simulated.
    pub sampled: f64,
}

/// Returns an estimate of the number of `reads` that would miss a cache of `bytes` bytes. Lookups
/// before the lookup `from` only warm up the cache: their reads are not counted.
pub fn file_reads(reads: &[BlockRead], bytes: u64, from: u32) -> FileReads {
    file_reads_with(reads, bytes, from, MOST_BLOCKS)
}

/// Does the same as [`file_reads`], with at most about `most_blocks` simulated blocks.
pub fn file_reads_with(reads: &[BlockRead], bytes: u64, from: u32, most_blocks: u64) -> FileReads {
    let all: u64 = reads.iter().map(|read| u64::from(read.bytes) + ENTRY_BYTES).sum();
    let mean = all / (reads.len() as u64).max(1);
    let sampled = (most_blocks * mean) as f64 / bytes.max(1) as f64;
    if sampled >= 1.0 || reads.is_empty() {
        let reads = simulate(reads, bytes, from, 1.0, 0) as f64;
        return FileReads { reads, error: 0.0, sampled: 1.0 };
    }
    let of = |seed| {
        let left = simulate(reads, (bytes as f64 * sampled) as u64, from, sampled, seed);
        left as f64 / sampled
    };
    let each: Vec<f64> = (0..SAMPLES).map(of).collect();
    let n = SAMPLES as f64;
    let mean = each.iter().sum::<f64>() / n;
    let variance = each.iter().map(|reads| (reads - mean).powi(2)).sum::<f64>() / (n - 1.0);
    FileReads { reads: mean, error: (variance / n).sqrt(), sampled }
}

/// Returns the number of reads that miss a cache of `bytes` bytes if only the fraction `sampled` of
/// all blocks takes part.
fn simulate(reads: &[BlockRead], bytes: u64, from: u32, sampled: f64, seed: u64) -> u64 {
    let threshold = (sampled * u64::MAX as f64) as u64;
    let mut cache = Simulated::new(bytes);
    let mut missed = 0;
    for read in reads {
        let id = read.id();
        if Rng::new(id ^ seed << 56).next() > threshold {
            continue;
        }
        let hit = cache.read(id, u64::from(read.bytes) + ENTRY_BYTES);
        missed += u64::from(!hit && read.lookup >= from);
    }
    missed
}

/// A block cache that holds no contents, only the identities of blocks.
struct Simulated {
    capacity: u64,
    small: Queue,
    main: Queue,
    /// Sizes and use counts of the cached blocks.
    cached: HashMap<u64, (u64, u8)>,
    ghosts: Box<[u64]>,
    used_in_small: u32,
    offered: u32,
}

#[derive(Default)]
struct Queue {
    blocks: VecDeque<u64>,
    bytes: u64,
}

impl Simulated {
    fn new(capacity: u64) -> Simulated {
        let ghosts = (capacity / BYTES_PER_GHOST).clamp(16, 1 << 24).next_power_of_two();
        Simulated {
            capacity,
            small: Queue::default(),
            main: Queue::default(),
            cached: HashMap::new(),
            ghosts: vec![u64::MAX; ghosts as usize].into(),
            used_in_small: ALL_USED,
            offered: 0,
        }
    }

    /// Reads a block. Returns whether it was cached.
    fn read(&mut self, id: u64, bytes: u64) -> bool {
        if let Some((_, uses)) = self.cached.get_mut(&id) {
            *uses = (*uses + 1).min(MAX_USES);
            return true;
        }
        if bytes <= self.capacity && self.wants(id) {
            self.cached.insert(id, (bytes, 0));
            let known = *self.ghost(id) == id;
            if known {
                *self.ghost(id) = u64::MAX;
                self.main.push(id, bytes);
            } else {
                self.small.push(id, bytes);
            }
            self.make_room();
        }
        false
    }

    fn ghost(&mut self, id: u64) -> &mut u64 {
        let at = Rng::new(!id).next() as usize & (self.ghosts.len() - 1);
        &mut self.ghosts[at]
    }

    fn wants(&mut self, id: u64) -> bool {
        if self.used_in_small >= FEW_USED || *self.ghost(id) == id {
            return true;
        }
        self.offered = self.offered.wrapping_add(1);
        if self.offered.is_multiple_of(ADMIT_DIVISOR) {
            return true;
        }
        *self.ghost(id) = id;
        false
    }

    fn make_room(&mut self) {
        let capacity = self.capacity - self.capacity / SPARE_DIVISOR;
        while self.small.bytes + self.main.bytes > capacity {
            if self.small.bytes > self.capacity / 10 || self.main.blocks.is_empty() {
                self.evict_from_small();
            } else {
                self.evict_from_main();
            }
        }
    }

    fn evict_from_small(&mut self) {
        let Some((id, bytes, uses)) = self.small.pop(&self.cached) else { return };
        self.used_in_small -= self.used_in_small / AVERAGE_DIVISOR;
        if uses > 0 {
            self.used_in_small += ALL_USED / AVERAGE_DIVISOR;
            self.cached.insert(id, (bytes, 0));
            self.main.push(id, bytes);
        } else {
            self.cached.remove(&id);
            *self.ghost(id) = id;
        }
    }

    fn evict_from_main(&mut self) {
        let Some((id, bytes, uses)) = self.main.pop(&self.cached) else { return };
        if uses > 0 {
            self.cached.insert(id, (bytes, uses - 1));
            self.main.push(id, bytes);
        } else {
            self.cached.remove(&id);
        }
    }
}

impl Queue {
    fn push(&mut self, id: u64, bytes: u64) {
        self.blocks.push_back(id);
        self.bytes += bytes;
    }

    /// Removes the oldest block. Returns its size and use count.
    fn pop(&mut self, cached: &HashMap<u64, (u64, u8)>) -> Option<(u64, u64, u8)> {
        let id = self.blocks.pop_front()?;
        let (bytes, uses) = cached.get(&id).copied().unwrap_or_default();
        self.bytes -= bytes;
        Some((id, bytes, uses))
    }
}

#[cfg(test)]
mod tests;
