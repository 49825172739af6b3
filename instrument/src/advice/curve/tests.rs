use super::*;

const BLOCKS: u64 = 40_000;
const READS: u32 = 300_000;
/// Length of each block, in bytes.
const LEN: u32 = 219;

fn read(lookup: u32, id: u64) -> BlockRead {
    let (table, block) = ((id / 1000) as u32, (id % 1000) as u32);
    BlockRead { lookup, table, block, quarter: 0, bytes: LEN }
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
            let at = (rng.next() >> 11) as f64 / (1u64 << 53) as f64 * sum;
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
    let all = BLOCKS * (u64::from(LEN) + ENTRY_BYTES);
    (0..10).rev().map(move |half| all >> half)
}

/// Checks, for ten cache sizes, that the miss ratio of a miniature simulation is within two
/// percentage points of the miss ratio of the full simulation. A miniature may simulate as few as a
/// tenth of the blocks.
#[test]
fn a_miniature_is_within_two_points_of_the_whole() {
    for (name, reads) in [("0.8", zipf(0.8)), ("1.0", zipf(1.0)), ("scans", with_scans())] {
        let mut miniatures = 0;
        for bytes in sizes() {
            let whole = file_reads_with(&reads, bytes, READS / 2, u64::MAX >> 20);
            let small = file_reads_with(&reads, bytes, READS / 2, MOST_BLOCKS);
            assert_eq!((whole.error, whole.sampled), (0.0, 1.0));
            miniatures += u32::from(small.sampled < 0.5);
            let points = (whole.reads - small.reads) / f64::from(READS / 2) * 100.0;
            assert!(points.abs() < 2.0, "{name}, {bytes}: {points}, {small:?}");
            let stated = small.error / f64::from(READS / 2) * 100.0;
            assert!(stated < 2.0, "{name}, {bytes}: {stated} points of error");
        }
        assert!(miniatures >= 3, "{miniatures}");
    }
}

#[test]
fn a_larger_cache_leaves_less_and_one_of_all_blocks_leaves_nothing() {
    let reads = zipf(0.9);
    let left: Vec<f64> = sizes().map(|bytes| file_reads(&reads, bytes, READS / 2).reads).collect();
    assert!(left.is_sorted_by(|small, large| small >= large), "{left:?}");
    let twice: Vec<_> = (0..2).flat_map(|i| (0..100).map(move |id| read(i * 100, id))).collect();
    assert_eq!(file_reads(&twice, 1 << 20, 100).reads, 0.0);
    assert_eq!(file_reads(&twice, 1 << 20, 0).reads, 100.0);
    assert_eq!(file_reads(&twice, 0, 0).reads, 200.0);
    assert_eq!(file_reads(&[], 1 << 20, 0).reads, 0.0);
}

#[test]
fn larger_blocks_have_their_neighbours_and_smaller_ones_their_quarters() {
    let read = BlockRead { lookup: 0, table: 3, block: 5, quarter: 2, bytes: 4000 };
    let of = |log| (read.resized(log).block, read.resized(log).bytes);
    assert_eq!(
        [-2, -1, 0, 1, 2].map(of),
        [(22, 1000), (11, 2000), (5, 4000), (2, 8000), (1, 16_000)]
    );
}

#[test]
fn the_error_of_a_miniature_is_that_of_the_mean_of_its_samples() {
    let reads = zipf(0.8);
    let bytes = sizes().last().unwrap() / 2;
    let small = file_reads_with(&reads, bytes, READS / 2, 500);
    assert!(small.sampled < 0.1, "{small:?}");
    let of = |seed| {
        let bytes = (bytes as f64 * small.sampled) as u64;
        simulate(&reads, bytes, READS / 2, small.sampled, seed) as f64 / small.sampled
    };
    let [a, b, c] = [0, 1, 2].map(of);
    assert!((small.reads - (a + b + c) / 3.0).abs() < 1e-6, "{small:?}");
    let squares = (a - b).powi(2) + (b - c).powi(2) + (c - a).powi(2);
    // The variance of `a`, `b` and `c` is a sixth of `squares`. The variance of their mean is a
    // third of the variance of the numbers.
    assert!((small.error - (squares / 18.0).sqrt()).abs() < 1e-6 && small.error > 0.0, "{small:?}");
}
