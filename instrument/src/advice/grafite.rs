//! The false-positive bound of a Grafite range filter, for keys that are whole numbers.

use std::ops::{Bound, Range};

use minikv::stats::ScannedRange;

/// Number of decimal digits that always fit in 64 bits.
const MAX_DIGITS: usize = 19;

/// Number of hexadecimal digits that always fit in 64 bits.
const MAX_HEX_DIGITS: usize = 16;

/// Returns the upper bound of the false-positive rate of a Grafite filter for ranges of `keys`
/// keys.
pub fn grafite_bound(keys: f64, bits_per_key: f64) -> f64 {
    (keys / (bits_per_key - 2.0).exp2()).min(1.0)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The form of keys that are whole numbers.
struct Form {
    /// Position of the digits in each key.
    digits: Range<usize>,
    /// Base of the digits, 10 or 16; `None` if keys are eight big-endian bytes.
    radix: Option<u32>,
}

impl Form {
    /// Returns the form of `keys`, which must all have the same length. Leaves out the common
    /// prefix of the keys. If `may_trim` is set and the keys have too many digits for a number,
    /// also leaves out the zeros at the end of all keys.
    fn of(keys: &[&[u8]], may_trim: bool) -> Option<Form> {
        let first = keys.first()?;
        let from = keys.iter().map(|key| common_prefix(first, key)).min()?;
        let zeros = |key: &&[u8]| key.iter().rev().take_while(|&&byte| byte == b'0').count();
        let padding = match may_trim && first.len() - from > MAX_DIGITS {
            true => keys.iter().map(zeros).min()?,
            false => 0,
        };
        let digits = from..(first.len() - padding).max(from);
        let all = |is_digit: fn(&u8) -> bool| {
            keys.iter().all(|key| key[digits.clone()].iter().all(is_digit))
        };
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let radix = match digits.len() {
            0..=MAX_DIGITS if all(u8::is_ascii_digit) => Some(10),
            0..=MAX_HEX_DIGITS if all(is_hex) => Some(16),
            _ => None,
        };
        Some(Form { digits, radix })
    }

    /// Returns the number that `key` encodes; `None` if `key` has another form.
    fn number(&self, key: &[u8]) -> Option<u64> {
        match self.radix {
            _ if self.digits.is_empty() => Some(0),
            Some(radix) => {
                let digits = std::str::from_utf8(&key[self.digits.clone()]).ok()?;
                u64::from_str_radix(digits, radix).ok()
            }
            None => Some(u64::from_be_bytes(key.try_into().ok()?)),
        }
    }
}

/// Returns the mean number of keys between the bounds, if all bounds are whole numbers of one form
/// and length: decimal or hexadecimal digits, or eight big-endian bytes. A common prefix of all
/// bounds is left out. If all upper bounds are exclusive and have too many digits for a number, the
/// zeros that end all bounds are left out, too.
pub fn mean_range(ranges: &[ScannedRange]) -> Option<f64> {
    let bounds: Vec<[&[u8]; 2]> = ranges.iter().map(bounds_of).collect::<Option<_>>()?;
    let keys = bounds.as_flattened();
    if keys.iter().any(|key| key.len() != keys[0].len()) {
        return None;
    }
    // If the zeros of an inclusive upper bound were left out, the range would also include later
    // keys that start with the digits of the bound.
    let all_excluded = ranges.iter().all(|range| matches!(range.to, Bound::Excluded(_)));
    let form = Form::of(keys, all_excluded)?;
    let mut sum = 0.0;
    for ([from, to], range) in bounds.iter().zip(ranges) {
        let included = u64::from(matches!(range.to, Bound::Included(_)));
        let distance = form.number(to)?.saturating_sub(form.number(from)?);
        sum += distance.saturating_add(included) as f64;
    }
    Some(sum / ranges.len() as f64)
}

/// Returns the two bounds of a range, or `None` if the range has no upper bound.
fn bounds_of(range: &ScannedRange) -> Option<[&[u8]; 2]> {
    match &range.to {
        Bound::Included(to) | Bound::Excluded(to) => Some([&range.from, to]),
        Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &[u8], to: &[u8]) -> ScannedRange {
        ScannedRange { from: from.to_vec(), to: Bound::Excluded(to.to_vec()) }
    }

    #[test]
    fn only_bounds_that_are_numbers_have_a_distance() {
        assert_eq!(mean_range(&[range(b"0010", b"0030"), range(b"0000", b"0100")]), Some(60.0));
        assert_eq!(mean_range(&[range(b"0010", b"0030"), range(b"abc", b"abd")]), None);
        let (from, to) = (5u64.to_be_bytes(), 300u64.to_be_bytes());
        assert_eq!(mean_range(&[range(&from, &to)]), Some(295.0));
        assert_eq!(mean_range(&[range(b"user/1", b"user/4")]), Some(3.0));
        assert_eq!(mean_range(&[range(b"user/1", b"user/z")]), None);
        assert_eq!(mean_range(&[range(b"user/1", b"user/12")]), None);
        let (from, to) = (b"00000000000000ff", b"0000000000000200");
        assert_eq!(mean_range(&[range(from, to)]), Some(257.0), "of sixteen");
        assert_eq!(mean_range(&[]), None);
    }

    #[test]
    fn padding_does_not_make_a_range_larger() {
        let padded = |n: u32| format!("{n:016}{:032}", 0).into_bytes();
        assert_eq!(mean_range(&[range(&padded(7), &padded(10))]), Some(3.0));
        // With an inclusive bound, the zeros cannot be left out.
        let to = Bound::Included(padded(10));
        assert_eq!(mean_range(&[ScannedRange { from: padded(7), to }]), None, "33 digits");
        let short = |to| ScannedRange { from: b"700".to_vec(), to };
        assert_eq!(mean_range(&[short(Bound::Included(b"900".to_vec()))]), Some(201.0));
        assert_eq!(mean_range(&[short(Bound::Excluded(b"900".to_vec()))]), Some(200.0));
        assert_eq!(mean_range(&[short(Bound::Excluded(b"700".to_vec()))]), Some(0.0));
    }
}
