//! The block cache beside its simulation in the instrument.

use std::sync::Arc;

use minikv::internals::base::random::Rng;
use minikv::internals::block::Block;
use minikv::internals::format::block_builder::BlockBuilder;
use minikv::internals::table::BlockCache;
use minikv_instrument::advice::BlockRead;
use minikv_instrument::advice::curve::{ENTRY_BYTES, file_reads, file_reads_with};

const BLOCKS: u64 = 40_000;
const READS: u32 = 300_000;
/// Length of each value, in bytes.
const LEN: usize = 200;

fn block() -> Block {
    let mut builder = BlockBuilder::new(1);
    builder.add(b"key", &[b'v'; LEN]);
    Block::new(builder.finish()).unwrap()
}

fn read(lookup: u32, id: u64) -> BlockRead {
    let (table, block_number) = ((id / 1000) as u32, (id % 1000) as u32);
    let bytes = block().len() as u32;
    BlockRead { lookup, table, block: block_number, quarter: 0, bytes }
}

/// Returns reads that follow Zipf's law, over blocks in random order.
fn zipf(exponent: f64) -> Vec<BlockRead> {
    let mut rng = Rng::new(7);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=BLOCKS)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let template = read(0, 0);
    (0..READS)
        .map(|lookup| {
            let at = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * sum;
            let rank = sums.partition_point(|sum| *sum <= at) as u64;
            let id = Rng::new(rank).below(BLOCKS);
            let (table, block) = ((id / 1000) as u32, (id % 1000) as u32);
            BlockRead { lookup, table, block, ..template }
        })
        .collect()
}

/// Returns reads that follow Zipf's law, interrupted by three scans that each read half of the
/// blocks.
fn with_scans() -> Vec<BlockRead> {
    let mut reads = zipf(0.9);
    let template = reads[0];
    for start in [50_000, 150_000, 250_000] {
        for i in 0..20_000 {
            let id = (i + start) % BLOCKS;
            let (table, block) = ((id / 1000) as u32, (id % 1000) as u32);
            let read = &mut reads[(start + i) as usize];
            *read = BlockRead { lookup: read.lookup, table, block, ..template };
        }
    }
    reads
}

/// Returns ten cache sizes, from 1/512 of the size of all blocks up to the size of all blocks.
fn sizes() -> impl Iterator<Item = u64> {
    let all = BLOCKS * (block().len() as u64 + ENTRY_BYTES);
    (0..10).rev().map(move |half| all >> half)
}

/// Returns the number of reads that miss a real cache.
fn real(reads: &[BlockRead], bytes: u64, from: u32) -> u64 {
    let cache = Arc::new(BlockCache::new(bytes as usize));
    let tables: Vec<_> = (0..BLOCKS / 1000).map(|_| cache.table(1000)).collect();
    let mut missed = 0;
    for read in reads {
        let (table, at) = (&tables[read.table as usize], read.block as usize);
        if table.get(at).is_none() {
            missed += u64::from(read.lookup >= from);
            if table.wants(at, read.bytes as usize) {
                table.insert(at, block());
            }
        }
    }
    missed
}

#[test]
fn the_simulation_is_within_two_points_of_the_cache() {
    for (name, reads) in [("0.8", zipf(0.8)), ("scans", with_scans())] {
        for bytes in sizes() {
            let simulated = file_reads(&reads, bytes, READS / 2).reads;
            let real = real(&reads, bytes, READS / 2) as f64;
            let points = (simulated - real) / f64::from(READS / 2) * 100.0;
            assert!(points.abs() < 2.0, "{name}, {bytes}: {points} points");
        }
    }
}

/// Returns reads of 3000 blocks in a loop.
fn in_a_loop() -> Vec<BlockRead> {
    numbered(|i| i % 3000)
}

/// Returns reads in which each block is read twice, 601 reads apart, and then not for a long time.
fn twice() -> Vec<BlockRead> {
    numbered(|i| if i % 2 == 0 { i / 2 } else { i / 2 + BLOCKS - 300 })
}

fn numbered(id: impl Fn(u64) -> u64) -> Vec<BlockRead> {
    let template = read(0, 0);
    let read = |lookup: u32| {
        let id = id(u64::from(lookup)) % BLOCKS;
        let (table, block) = ((id / 1000) as u32, (id % 1000) as u32);
        BlockRead { lookup, table, block, ..template }
    };
    (0..READS).map(read).collect()
}

/// Checks that the full simulation follows the rules of the cache. The results differ only because
/// blocks get other slots for their ghost entries in the simulation than in the cache.
#[test]
fn the_whole_simulation_is_within_a_third_of_a_point_of_the_cache() {
    let all = [zipf(0.8), with_scans(), in_a_loop(), twice()];
    for (reads, name) in all.iter().zip(["0.8", "scans", "loop", "twice"]) {
        for bytes in sizes() {
            let simulated = file_reads_with(reads, bytes, READS / 2, u64::MAX >> 20).reads;
            let real = real(reads, bytes, READS / 2) as f64;
            let points = (simulated - real) / f64::from(READS / 2) * 100.0;
            assert!(points.abs() < 0.33, "{name}, {bytes}: {points} points");
        }
    }
}
