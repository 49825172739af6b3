//! CRC-32C, masked. Do not change: on disk.
//!
//! A checksum of bytes that themselves hold checksums is weak, so LevelDB stores it masked:
//! rotated right by 15 bits, plus a constant. Defined by LevelDB's `util/crc32c.h`.

const MASK_DELTA: u32 = 0xa282_ead8;

/// The CRC-32C of `bytes`.
#[inline]
pub fn value(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC-32C of what `crc` is the checksum of, followed by `bytes`.
#[inline]
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The form in which a checksum is stored.
#[inline]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The checksum of a stored form.
#[inline]
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}
