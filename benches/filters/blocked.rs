//! Blocked bloom filters that were tried and rejected.

use crate::Kind;

/// A cache line of 512 bits.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

fn at(hash: u64, blocks: usize) -> usize {
    ((u128::from(hash) * blocks as u128) >> 64) as usize
}

fn lines(hashes: &[u64], bits_per_key: u32) -> Vec<Line> {
    vec![Line::default(); (hashes.len() * bits_per_key as usize).div_ceil(512)]
}

fn probes(bits_per_key: u32) -> u32 {
    match bits_per_key {
        8 => 5,
        10 => 6,
        _ => 9,
    }
}

/// A blocked filter. A lookup takes seven bit positions, of nine bits each, from one product, and
/// tests all seven bits without a branch in between.
pub struct Sliced {
    lines: Vec<Line>,
    probes: u32,
}

impl Kind for Sliced {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<Sliced> {
        let LeavingEarly { lines, probes } = LeavingEarly::build(hashes, bits_per_key)?;
        Some(Sliced { lines, probes })
    }

    fn has(&self, hash: u64) -> bool {
        let line = &self.lines[at(hash, self.lines.len())];
        let mut mixed = mix(hash);
        let mut left = self.probes;
        loop {
            let mut bits = mixed;
            let mut all_set = 1;
            for _ in 0..left.min(7) {
                all_set &= line.0[(bits >> 6 & 7) as usize] >> (bits & 63);
                bits >>= 9;
            }
            if all_set & 1 == 0 || left <= 7 {
                return all_set & 1 == 1;
            }
            left -= 7;
            mixed = mix(mixed);
        }
    }

    fn bytes(&self) -> usize {
        self.lines.len() * 64
    }
}

/// A filter like [`Sliced`], except that a lookup ends at the first bit that is not set.
pub struct LeavingEarly {
    lines: Vec<Line>,
    probes: u32,
}

fn mix(x: u64) -> u64 {
    let product = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

fn slices(hash: u64) -> impl Iterator<Item = u64> {
    let mut mixed = mix(hash);
    let mut bits = mixed;
    let mut given = 0;
    std::iter::from_fn(move || {
        if given == 7 {
            mixed = mix(mixed);
            bits = mixed;
            given = 0;
        }
        let bit = bits & 511;
        bits >>= 9;
        given += 1;
        Some(bit)
    })
}

impl Kind for LeavingEarly {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<LeavingEarly> {
        let mut lines = lines(hashes, bits_per_key);
        let probes = probes(bits_per_key);
        for &hash in hashes {
            let line = at(hash, lines.len());
            for bit in slices(hash).take(probes as usize) {
                lines[line].0[(bit >> 6) as usize] |= 1 << (bit & 63);
            }
        }
        Some(LeavingEarly { lines, probes })
    }

    fn has(&self, hash: u64) -> bool {
        let line = &self.lines[at(hash, self.lines.len())];
        slices(hash)
            .take(self.probes as usize)
            .all(|bit| line.0[(bit >> 6) as usize] >> (bit & 63) & 1 == 1)
    }

    fn bytes(&self) -> usize {
        self.lines.len() * 64
    }
}

/// A blocked filter that takes each bit position from the high bits of a product, as RocksDB's
/// cache-local filter does.
pub struct Multiplied {
    lines: Vec<Line>,
    probes: u32,
}

impl Kind for Multiplied {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<Multiplied> {
        let mut lines = lines(hashes, bits_per_key);
        let probes = probes(bits_per_key);
        for &hash in hashes {
            let line = at(hash, lines.len());
            let mut low = hash as u32;
            for _ in 0..probes {
                let bit = low >> 23;
                lines[line].0[(bit >> 6) as usize] |= 1 << (bit & 63);
                low = low.wrapping_mul(0x9e37_79b9);
            }
        }
        Some(Multiplied { lines, probes })
    }

    fn has(&self, hash: u64) -> bool {
        let line = &self.lines[at(hash, self.lines.len())];
        let mut low = hash as u32;
        let mut all_set = 1;
        for _ in 0..self.probes {
            let bit = low >> 23;
            all_set &= line.0[(bit >> 6) as usize] >> (bit & 63);
            low = low.wrapping_mul(0x9e37_79b9);
        }
        all_set & 1 == 1
    }

    fn bytes(&self) -> usize {
        self.lines.len() * 64
    }
}

/// Parquet's split block filter, which sets one bit in each of eight 32-bit words.
pub struct Split(Vec<[u32; 8]>);

const SALT: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

fn mask(hash: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

impl Kind for Split {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<Split> {
        let blocks = (hashes.len() * bits_per_key as usize).div_ceil(256);
        let mut blocks = vec![[0; 8]; blocks];
        for &hash in hashes {
            let block = at(hash, blocks.len());
            blocks[block].iter_mut().zip(mask(hash)).for_each(|(word, bit)| *word |= bit);
        }
        Some(Split(blocks))
    }

    fn has(&self, hash: u64) -> bool {
        let block = &self.0[at(hash, self.0.len())];
        block.iter().zip(mask(hash)).fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
    }

    fn bytes(&self) -> usize {
        self.0.len() * 32
    }
}
