//! Masked CRC-32C. On-disk format: do not change.
//!
//! The CRC of a string that contains CRCs is a poor checksum, so LevelDB stores each CRC masked:
//! rotated right by 15 bits, with a constant added. Defined by LevelDB's `util/crc32c.h`.

const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C's polynomial, with the coefficient of x^0 in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// Returns the CRC-32C of `bytes`.
#[inline]
pub fn value(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Returns the CRC-32C of `a + bytes`, where `crc` is the CRC-32C of `a`.
#[inline]
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Returns the CRC-32C of `a` followed by `count` zeros, where `crc` is the CRC-32C of `a`. Takes
/// time in the logarithm of `count`.
pub fn extend_zeros(crc: u32, count: u64) -> u32 {
    // A zero byte multiplies the register by x^8; the CRC is the register's complement.
    let (mut power, mut square, mut left) = (ONE, ONE >> 8, count);
    while left > 0 {
        if left & 1 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        left >>= 1;
    }
    !product(power, !crc)
}

/// Returns the product of two polynomials modulo CRC-32C's. The highest bit is the coefficient of
/// x^0.
fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    for bit in (0..u32::BITS).rev() {
        if a >> bit & 1 == 1 {
            sum ^= b;
        }
        b = b >> 1 ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    sum
}

/// Returns the masked form of `crc`, as stored on disk.
#[inline]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the checksum whose masked form is `masked`.
#[inline]
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_extend_a_checksum_as_their_bytes_do() {
        for crc in [0, 1, value(b"123456789"), u32::MAX] {
            for count in [0, 1, 2, 7, 8, 255, 4096, 100_003] {
                let zeros = vec![0; count];
                assert_eq!(extend_zeros(crc, count as u64), extend(crc, &zeros), "{count}");
            }
        }
        let halves = extend_zeros(extend_zeros(5, u64::MAX / 2), u64::MAX / 2 + 1);
        assert_eq!(halves, extend_zeros(5, u64::MAX));
    }
}
