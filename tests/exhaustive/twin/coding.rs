//! Integers, slices and checksums, as in LevelDB's `util/coding.cc` and `util/crc32c.h`.

use std::sync::LazyLock;

use super::Bad;

/// Decodes a varint of at most `most` bytes, whose value has at most `bits` bits. Returns the value
/// and the number of bytes.
///
/// LevelDB drops the bits of the last byte that do not fit. minikv refuses them, as the
/// documentation of `format/coding.rs` says: no writer stores them.
fn varint(src: &[u8], most: usize, bits: u32) -> Option<(u64, usize)> {
    let mut value: u128 = 0;
    for at in 0..most {
        let byte = *src.get(at)?;
        value += u128::from(byte % 128) << (7 * at);
        if byte < 128 {
            return (value < 1 << bits).then_some((value as u64, at + 1));
        }
    }
    None
}

pub fn varint32(src: &[u8]) -> Option<(u32, usize)> {
    varint(src, 5, 32).map(|(value, bytes)| (value as u32, bytes))
}

pub fn varint64(src: &[u8]) -> Option<(u64, usize)> {
    varint(src, 10, 64)
}

/// Returns the integer of `N` bytes at `at`, the lowest byte first.
fn fixed<const N: usize>(src: &[u8], at: usize) -> Option<u64> {
    let bytes = src.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value * 256 + u64::from(*byte)))
}

pub fn fixed32(src: &[u8], at: usize) -> Option<u32> {
    fixed::<4>(src, at).map(|value| value as u32)
}

pub fn fixed64(src: &[u8], at: usize) -> Option<u64> {
    fixed::<8>(src, at)
}

/// The bytes that are left to decode.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn varint32(&mut self) -> Result<u32, Bad> {
        let (value, bytes) = varint32(self.0).ok_or(Bad::Damaged)?;
        self.0 = &self.0[bytes..];
        Ok(value)
    }

    pub fn varint64(&mut self) -> Result<u64, Bad> {
        let (value, bytes) = varint64(self.0).ok_or(Bad::Damaged)?;
        self.0 = &self.0[bytes..];
        Ok(value)
    }

    pub fn byte(&mut self) -> Result<u8, Bad> {
        let (byte, rest) = self.0.split_first().ok_or(Bad::Damaged)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Decodes a length and as many bytes.
    pub fn slice(&mut self) -> Result<&'a [u8], Bad> {
        let len = self.varint32()? as usize;
        if len > self.0.len() {
            return Err(Bad::Damaged);
        }
        let (slice, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(slice)
    }
}

/// The remainders of all bytes by the reversed polynomial of RFC 3720, computed bit by bit.
static REMAINDERS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let step = |crc: u32, _| if crc % 2 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    (0..256).map(|byte| (0..8).fold(byte, step)).collect()
});

/// Returns the CRC-32C of `bytes`, byte by byte.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let remainders = &*REMAINDERS;
    let step = |crc: u32, byte: &u8| crc >> 8 ^ remainders[(crc as u8 ^ byte) as usize];
    !bytes.iter().fold(u32::MAX, step)
}

/// Returns the checksum as it is stored.
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
