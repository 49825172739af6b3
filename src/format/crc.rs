//! Masked CRC-32C. On-disk format: do not change.
//!
//! The CRC of a string that contains CRCs is a poor checksum, so LevelDB stores each CRC masked:
//! rotated right by 15 bits, with a constant added. Defined by LevelDB's `util/crc32c.h`.

const MASK_DELTA: u32 = 0xa282_ead8;

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
