//! Prefixes of keys, which let a scan of one prefix skip whole tables.
//!
//! A table written with a [`PrefixExtractor`] has a prefix filter, built from the prefixes of its
//! keys, in addition to the filter over the keys. Keys without a prefix are not in the prefix
//! filter. The filter has the format of [`crate::filter::whole_table`], and its name is
//! [`PREFIX_FILTER_NAME`] followed by the extractor's name.

use std::fmt::Debug;
use std::ops::Bound;

use crate::base::prefix::common_prefix;

/// First part of a prefix filter's name in the metaindex. The extractor's name follows this part.
pub(crate) const PREFIX_FILTER_NAME: &str = "minikv.prefix-filter.v1.binary-fuse.";

/// Maps keys to their prefixes.
///
/// Scans rely on one law: if `prefix(key)` is `Some(p)`, then `prefix(longer)` is also `Some(p)`
/// for every `longer` that starts with `key`. The rule "the first four bytes, if there are four"
/// satisfies this law. The rule "up to four bytes" does not, and scans would miss entries.
///
/// ```
/// use minikv::{DelimitedPrefix, PrefixExtractor, Readable};
///
/// let until_slash = DelimitedPrefix::new(b'/');
/// assert_eq!(until_slash.prefix(b"user/7"), Some(&b"user/"[..]));
/// assert_eq!(until_slash.prefix(b"user"), None);
/// ```
pub trait PrefixExtractor: Send + Sync + Debug + 'static {
    /// Returns the extractor's name, which is stored on disk. Change the name whenever the prefix
    /// of any key changes: a filter is queried only if it has the current name.
    fn name(&self) -> &str;

    /// Returns the prefix of `key`, if the key has one.
    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]>;
}

/// Extracts prefixes of a fixed length. Shorter keys have no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedPrefix {
    name: String,
    bytes: usize,
}

impl FixedPrefix {
    /// Creates an extractor of the first `bytes` bytes.
    pub fn new(bytes: usize) -> FixedPrefix {
        FixedPrefix { name: format!("minikv.fixed.{bytes}"), bytes }
    }
}

impl PrefixExtractor for FixedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..self.bytes)
    }
}

/// Extracts the part of a key up to and including the first delimiter. Keys without a delimiter
/// have no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelimitedPrefix {
    name: String,
    delimiter: u8,
}

impl DelimitedPrefix {
    /// Creates an extractor of prefixes that end with this byte.
    pub fn new(delimiter: u8) -> DelimitedPrefix {
        DelimitedPrefix { name: format!("minikv.delimited.{delimiter:02x}"), delimiter }
    }
}

impl PrefixExtractor for DelimitedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let at = key.iter().position(|&byte| byte == self.delimiter)?;
        Some(&key[..=at])
    }
}

/// Returns the prefix that all keys of a range share under byte order; `None` if the keys may have
/// different prefixes.
pub fn prefix_of_range<'k>(
    extractor: &dyn PrefixExtractor,
    lower: Bound<&'k [u8]>,
    upper: Bound<&'k [u8]>,
) -> Option<&'k [u8]> {
    let (Bound::Included(from) | Bound::Excluded(from)) = lower else { return None };
    let (Bound::Included(to) | Bound::Excluded(to)) = upper else { return None };
    let common = common_prefix(from, to);
    // Every key between two keys with a common prefix also has that prefix.
    if let Some(prefix) = extractor.prefix(&from[..common]) {
        return Some(prefix);
    }
    // The range from "a" (inclusive) to "b" (exclusive) contains every key that starts with "a".
    // Scans of one prefix usually have such a range.
    let ends_before = matches!(upper, Bound::Excluded(_))
        && to.len() == common + 1
        && from.get(common).is_some_and(|&byte| byte.checked_add(1) == Some(to[common]));
    if ends_before { extractor.prefix(&from[..=common]) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_keys() {
        let fixed = FixedPrefix::new(3);
        assert_eq!(fixed.name(), "minikv.fixed.3");
        assert_eq!(fixed.prefix(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(fixed.prefix(b"abc"), Some(&b"abc"[..]));
        assert_eq!(fixed.prefix(b"ab"), None);
        let delimited = DelimitedPrefix::new(b'/');
        assert_eq!(delimited.name(), "minikv.delimited.2f");
        assert_eq!(delimited.prefix(b"a/b/c"), Some(&b"a/"[..]));
        assert_eq!(delimited.prefix(b"/"), Some(&b"/"[..]));
        assert_eq!(delimited.prefix(b"abc"), None);
    }

    #[test]
    fn ranges_within_one_prefix() {
        let fixed = FixedPrefix::new(2);
        let delimited = DelimitedPrefix::new(b'/');
        let of = |extractor: &dyn PrefixExtractor, lower: Bound<&str>, upper: Bound<&str>| {
            let own = |bound: Bound<&str>| bound.map(|key| key.as_bytes().to_vec());
            let (lower, upper) = (own(lower), own(upper));
            let slice = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| key.clone());
            let (lower, upper) = (slice(&lower), slice(&upper));
            let prefix = prefix_of_range(
                extractor,
                lower.as_ref().map(|key| &key[..]),
                upper.as_ref().map(|key| &key[..]),
            );
            prefix.map(|prefix| String::from_utf8(prefix.to_vec()).unwrap())
        };
        use Bound::{Excluded, Included, Unbounded};
        let some = |prefix: &str| Some(prefix.to_string());
        assert_eq!(of(&fixed, Included("abc"), Included("abd")), some("ab"));
        assert_eq!(of(&fixed, Excluded("abc"), Excluded("abd")), some("ab"));
        assert_eq!(of(&fixed, Included("ab"), Excluded("ac")), some("ab"));
        assert_eq!(of(&fixed, Included("abx"), Excluded("ac")), some("ab"));
        assert_eq!(of(&fixed, Included("ab"), Included("ac")), None, "the key ac, too");
        assert_eq!(of(&fixed, Included("ab"), Excluded("aca")), None);
        assert_eq!(of(&fixed, Included("ab"), Excluded("ad")), None);
        assert_eq!(of(&fixed, Included("a"), Included("ab")), None);
        assert_eq!(of(&fixed, Included("ab"), Unbounded), None);
        assert_eq!(of(&fixed, Unbounded, Excluded("ab")), None);
        assert_eq!(of(&delimited, Included("a/"), Excluded("a0")), some("a/"));
        assert_eq!(of(&delimited, Included("a/x"), Excluded("a/y")), some("a/"));
        assert_eq!(of(&delimited, Included("a"), Excluded("b")), None);
    }

    /// Checks that every key of a range has the prefix that `prefix_of_range` returns for the
    /// range. Uses short keys made of few letters.
    #[test]
    fn every_key_of_such_a_range_has_its_prefix() {
        let mut keys = vec![Vec::new()];
        for at in 0..120 {
            for byte in [b'/', b'0', b'1', 0xff] {
                let key: Vec<u8> = [&keys[at][..], &[byte]].concat();
                keys.push(key);
            }
        }
        keys.sort();
        let extractors: [&dyn PrefixExtractor; 3] =
            [&FixedPrefix::new(1), &FixedPrefix::new(2), &DelimitedPrefix::new(b'/')];
        let mut ranges = 0;
        for extractor in extractors {
            for from in keys.iter().step_by(3) {
                for to in &keys {
                    for upper in [Bound::Included(&to[..]), Bound::Excluded(&to[..])] {
                        let lower = Bound::Included(&from[..]);
                        let Some(prefix) = prefix_of_range(extractor, lower, upper) else {
                            continue;
                        };
                        ranges += 1;
                        for key in keys.iter().filter(|key| {
                            let below = matches!(upper, Bound::Included(_)) && *key == to;
                            *key >= from && (*key < to || below)
                        }) {
                            assert_eq!(extractor.prefix(key), Some(prefix), "{from:?} {upper:?}");
                        }
                    }
                }
            }
        }
        assert!(ranges > 1_000, "{ranges}");
    }
}
