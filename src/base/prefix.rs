//! Common prefixes of keys, and heads: the eight bytes of a key after a common prefix, as an
//! integer.

/// Returns the length of the longest common prefix of `a` and `b`.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    // Compare eight bytes at a time: neighbouring keys mostly share long prefixes.
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let (Ok(x), Ok(y)) = (x.try_into(), y.try_into()) else { break };
        let differing = u64::from_le_bytes(x) ^ u64::from_le_bytes(y);
        if differing != 0 {
            return shared + differing.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(x, y)| x == y).count()
}

/// Returns the first eight bytes of a key as a big-endian number; a shorter key is padded with
/// zeros. If two heads differ, their order is the byte order of their keys; if they are equal, the
/// rest of the keys decides.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => key
            .iter()
            .zip([56, 48, 40, 32, 24, 16, 8])
            .fold(0, |head, (&byte, shift)| head | u64::from(byte) << shift),
    }
}

/// Returns the first byte string that sorts after all byte strings that start with `prefix`, or
/// `None` if there is no such byte string.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    debug_assert!(end.as_slice() > prefix && !end.starts_with(prefix), "{end:?}, {prefix:?}");
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_prefixes_are_counted_at_every_length() {
        for len in 0..40usize {
            let a: Vec<u8> = (0..len as u8).collect();
            assert_eq!(common_prefix(&a, &a), len);
            for at in 0..len {
                let mut b = a.clone();
                b[at] ^= 0x80;
                assert_eq!(common_prefix(&a, &b), at);
                assert_eq!(common_prefix(&a, &a[..at]), at);
                assert_eq!(common_prefix(&a[..at], &b), at);
            }
        }
    }

    #[test]
    fn heads_are_the_first_bytes_padded_with_zeros() {
        assert_eq!(head(b""), 0);
        assert_eq!(head(b"a"), 0x61 << 56);
        assert_eq!(head(b"abcdefg"), 0x6162_6364_6566_6700);
        assert_eq!(head(b"abcdefghi"), 0x6162_6364_6566_6768);
    }
}
