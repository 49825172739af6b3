//! A ribbon filter: one linear equation per key over 128 neighbouring rows (Dillinger and Walzer,
//! "Ribbon filter: practically smaller than Bloom and Xor", 2021).

use crate::Kind;

const WIDTH: usize = 128;
/// Number of rows per key. With fewer rows, banding often fails for tables of 20,000 keys, and has
/// to be repeated.
const OVERHEAD: f64 = 1.05;

/// The solution of the equations. For each group of 128 rows, `words` contains one word per column.
pub struct Ribbon {
    words: Vec<u128>,
    columns: usize,
    rows: usize,
    seed: u64,
}

/// Returns the equation of a hash: the first row, the coefficients from that row on, and the
/// fingerprint.
fn equation(hash: u64, seed: u64, rows: usize, columns: usize) -> (usize, u128, u64) {
    let x = mix(hash ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let start = ((u128::from(x) * (rows - WIDTH + 1) as u128) >> 64) as usize;
    let (y, z) = (mix(x ^ 0xa5a5), mix(x ^ 0x5a5a_0000));
    let coefficients = (u128::from(y) << 64 | u128::from(z)) | 1;
    (start, coefficients, mix(y) & ((1 << columns) - 1))
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// Returns the parity of `x`. On processors without an instruction to count bits, folding is faster
/// than counting.
fn parity(x: u128) -> u64 {
    let x = (x >> 64) as u64 ^ x as u64;
    let x = x ^ x >> 32;
    let x = x ^ x >> 16;
    let x = x ^ x >> 8;
    let x = x ^ x >> 4;
    0x6996 >> (x & 15) & 1
}

/// Adds the equations one by one, with Gaussian elimination. Returns `None` if the equations
/// contradict each other.
fn band(hashes: &[u64], seed: u64, rows: usize, columns: usize) -> Option<Vec<(u128, u64)>> {
    let mut banded = vec![(0u128, 0u64); rows];
    for &hash in hashes {
        let (mut row, mut coefficients, mut fingerprint) = equation(hash, seed, rows, columns);
        loop {
            let (there, result) = banded[row];
            if there == 0 {
                banded[row] = (coefficients, fingerprint);
                break;
            }
            coefficients ^= there;
            fingerprint ^= result;
            if coefficients == 0 {
                if fingerprint != 0 {
                    return None;
                }
                break;
            }
            let zeros = coefficients.trailing_zeros();
            row += zeros as usize;
            coefficients >>= zeros;
        }
    }
    Some(banded)
}

impl Kind for Ribbon {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<Ribbon> {
        let columns = (f64::from(bits_per_key) / OVERHEAD) as usize;
        let rows = (hashes.len() as f64 * OVERHEAD) as usize;
        let rows = rows.next_multiple_of(WIDTH).max(2 * WIDTH);
        let (seed, banded) = (0..1000)
            .find_map(|seed| Some((seed, band(hashes, seed, rows, columns)?)))
            .expect("some seed works");

        let mut words = vec![0; rows / WIDTH * columns];
        // For each column, the bits of the solution for 128 rows, starting at the current row.
        let mut windows = vec![0u128; columns];
        for row in (0..rows).rev() {
            let (coefficients, fingerprint) = banded[row];
            for (column, window) in windows.iter_mut().enumerate() {
                *window <<= 1;
                let bit = parity(*window & coefficients) ^ (fingerprint >> column & 1);
                *window |= u128::from(bit & u64::from(coefficients != 0));
                if row % WIDTH == 0 {
                    words[row / WIDTH * columns + column] = *window;
                }
            }
        }
        Some(Ribbon { words, columns, rows, seed })
    }

    fn has(&self, hash: u64) -> bool {
        let (start, coefficients, fingerprint) = equation(hash, self.seed, self.rows, self.columns);
        let (group, offset) = (start / WIDTH, start % WIDTH);
        let here = &self.words[group * self.columns..][..self.columns];
        let low = coefficients << offset;
        let mut result = 0;
        if offset == 0 {
            for (column, word) in here.iter().enumerate() {
                result |= parity(word & low) << column;
            }
            return result == fingerprint;
        }
        let next = &self.words[(group + 1) * self.columns..][..self.columns];
        let high = coefficients >> (WIDTH - offset);
        for (column, (word, next)) in here.iter().zip(next).enumerate() {
            result |= parity((word & low) ^ (next & high)) << column;
        }
        result == fingerprint
    }

    fn bytes(&self) -> usize {
        self.words.len() * 16
    }
}
