//! Ranges of keys as arguments.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `..`, `"a".."b"`, `"a"..="b"`, `"a"..`, `.."b"`, `..="b"`, or a pair of bounds.
/// Keys are anything that is `AsRef<[u8]>`.
pub trait KeyBounds {
    /// Returns the lower and the upper bound.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_bounds {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyBounds for $range {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                (self.start_bound().map(K::as_ref), self.end_bound().map(K::as_ref))
            }
        }
    )*};
}

key_bounds!(
    Range<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeInclusive<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);
