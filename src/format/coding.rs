//! Integers and slices. On-disk format: do not change.
//!
//! ```text
//! fixed32, fixed64   little-endian
//! varint32, varint64 7 bits a byte, low bits first; the high bit is set if another byte follows
//!                    300 = 0b1_0010_1100  ->  ac 02
//! slice              varint32 length, then the bytes
//! ```
//!
//! Defined by LevelDB's `util/coding.h`.

use crate::base::{Error, Result};

/// Maximum length of an encoded varint32, in bytes.
pub const MAX_VARINT32_BYTES: usize = 5;
/// Maximum length of an encoded varint64, in bytes.
pub const MAX_VARINT64_BYTES: usize = 10;

/// Appends `value` as a varint32.
#[inline]
pub fn put_varint32(dst: &mut Vec<u8>, value: u32) {
    put_varint64(dst, u64::from(value));
}

/// Appends `value` as a varint64.
#[inline]
pub fn put_varint64(dst: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        dst.push(value as u8 | 0x80);
        value >>= 7;
    }
    dst.push(value as u8);
}

/// Appends the length of `slice` as a varint32, then its bytes. The length must fit in 32 bits.
#[inline]
pub fn put_slice(dst: &mut Vec<u8>, slice: &[u8]) {
    debug_assert!(u32::try_from(slice.len()).is_ok());
    put_varint32(dst, slice.len() as u32);
    dst.extend_from_slice(slice);
}

/// Decodes the varint32 at the start of `src`. Returns the value and the number of bytes read.
/// Returns `None` if `src` ends inside the varint, or if the value does not fit in 32 bits.
#[inline]
pub fn get_varint32(src: &[u8]) -> Option<(u32, usize)> {
    match src.first() {
        Some(&byte) if byte < 0x80 => Some((u32::from(byte), 1)),
        _ => get_varint32_slow(src),
    }
}

fn get_varint32_slow(src: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (i, &byte) in src.iter().take(MAX_VARINT32_BYTES).enumerate() {
        if i == MAX_VARINT32_BYTES - 1 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Decodes the varint64 at the start of `src`. Returns the value and the number of bytes read.
/// Returns `None` if `src` ends inside the varint, or if the value does not fit in 64 bits.
#[inline]
pub fn get_varint64(src: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in src.iter().take(MAX_VARINT64_BYTES).enumerate() {
        if i == MAX_VARINT64_BYTES - 1 && byte > 0x01 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Returns the little-endian u32 at `offset`, or `None` if `src` is too short.
#[inline]
pub fn get_fixed32(src: &[u8], offset: usize) -> Option<u32> {
    let bytes = src.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the little-endian u64 at `offset`, or `None` if `src` is too short.
#[inline]
pub fn get_fixed64(src: &[u8], offset: usize) -> Option<u64> {
    let bytes = src.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A position in a byte slice that advances as values are decoded. Errors contain the position at
/// which decoding failed.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    src: &'a [u8],
    pos: usize,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder at the start of `src`.
    pub fn new(src: &'a [u8]) -> Decoder<'a> {
        Decoder { src, pos: 0 }
    }

    /// Returns the number of bytes decoded so far.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Returns whether all bytes have been decoded.
    pub fn is_empty(&self) -> bool {
        self.pos >= self.src.len()
    }

    /// Returns the bytes not yet decoded.
    pub fn rest(&self) -> &'a [u8] {
        &self.src[self.pos..]
    }

    /// Decodes one byte. `what` names the field in the error.
    pub fn u8(&mut self, what: &str) -> Result<u8> {
        let byte = *self.src.get(self.pos).ok_or_else(|| self.short(what))?;
        self.pos += 1;
        Ok(byte)
    }

    /// Decodes a varint32. `what` names the field in the error.
    pub fn varint32(&mut self, what: &str) -> Result<u32> {
        let (value, len) = get_varint32(self.rest()).ok_or_else(|| self.short(what))?;
        self.pos += len;
        Ok(value)
    }

    /// Decodes a varint64. `what` names the field in the error.
    pub fn varint64(&mut self, what: &str) -> Result<u64> {
        let (value, len) = get_varint64(self.rest()).ok_or_else(|| self.short(what))?;
        self.pos += len;
        Ok(value)
    }

    /// Returns the next `len` bytes. `what` names the field in the error.
    pub fn bytes(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let bytes = self.rest().get(..len).ok_or_else(|| self.short(what))?;
        self.pos += len;
        Ok(bytes)
    }

    /// Decodes a length-prefixed slice. `what` names the field in the error.
    pub fn slice(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.varint32(what)? as usize;
        self.bytes(len, what)
    }

    fn short(&self, what: &str) -> Error {
        Error::corruption(format!("{what} is cut short or malformed")).at(self.pos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes that `value` takes as a varint.
    fn varint_len(value: u64) -> usize {
        (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
    }

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint64(&mut bytes, value);
                assert_eq!(bytes.len(), varint_len(value), "{value}");
                assert_eq!(get_varint64(&bytes), Some((value, bytes.len())));
                assert_eq!(get_varint64(&bytes[..bytes.len() - 1]), None);
                let narrow = u32::try_from(value).ok().map(|value| (value, bytes.len()));
                assert_eq!(get_varint32(&bytes), narrow);
            }
        }
    }

    #[test]
    fn the_worked_example() {
        let mut bytes = Vec::new();
        put_varint32(&mut bytes, 300);
        assert_eq!(bytes, [0xac, 0x02]);
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(get_varint32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(get_varint32(&[0x80; 6]), None);
        assert_eq!(get_varint64(&[0x80; 11]), None);
        let mut over = [0xff; 10];
        over[9] = 0x02;
        assert_eq!(get_varint64(&over), None);
    }

    #[test]
    fn a_decoder_knows_its_position() {
        let mut decoder = Decoder::new(&[5, 0x80, 1, 7]);
        assert_eq!((decoder.position(), decoder.is_empty()), (0, false));
        assert_eq!((decoder.varint32("a number").unwrap(), decoder.position()), (5, 1));
        assert_eq!((decoder.varint32("a number").unwrap(), decoder.position()), (128, 3));
        assert_eq!((decoder.rest(), decoder.bytes(1, "bytes").unwrap()), (&[7][..], &[7][..]));
        assert_eq!((decoder.position(), decoder.is_empty()), (4, true));
    }

    #[test]
    fn a_decoder_names_the_field_that_is_cut_short() {
        let mut decoder = Decoder::new(&[1, 5, b'a']);
        assert_eq!(decoder.u8("tag").unwrap(), 1);
        let error = decoder.slice("name").unwrap_err().to_string();
        assert!(error.contains("name is cut short"), "{error}");
    }
}
