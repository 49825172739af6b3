//! The order of user keys.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use crate::base::prefix::common_prefix;

/// A total order over user keys. A comparator has a name, because files written in one order cannot
/// be read in another order.
///
/// The name is stored in the MANIFEST, and a database cannot be opened with a different comparator.
/// Change the name whenever the order changes.
///
/// The methods are called by every read and write, from any thread and often under a lock, and must
/// not use the database: not even [`Db::health`](crate::Db::health) or
/// [`Db::stats`](crate::Db::stats), which could wait for that lock forever.
///
/// ```
/// use minikv::{Comparator, Db, Options};
/// use std::cmp::Ordering;
///
/// /// Shorter keys first.
/// #[derive(Debug)]
/// struct ByLength;
///
/// impl Comparator for ByLength {
///     fn name(&self) -> &str {
///         "example.ByLength"
///     }
///
///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
///         a.len().cmp(&b.len()).then_with(|| a.cmp(b))
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let options = Options::default().create_if_missing(true).comparator(ByLength);
/// let db = Db::open(path, options)?;
/// db.put("aaa", "")?;
/// db.put("b", "")?;
/// assert_eq!(db.iter().next().unwrap()?.0, "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Comparator: Any + Send + Sync + Debug {
    /// Returns the name that is recorded in databases, such as `leveldb.BytewiseComparator`.
    fn name(&self) -> &str;

    /// Compares two user keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Shortens `start` to a key in `[start, limit)`, if there is a shorter key in that range.
    /// Index blocks store such separators instead of whole keys. Doing nothing is correct.
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// Shortens `key` to a key that is not less than the original. Doing nothing is correct.
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }

    /// Returns whether only identical byte strings compare as equal. Filters distinguish keys by
    /// their bytes, so filters are neither written nor queried if this method returns false.
    /// Default: false, which is always correct.
    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Comparator + ?Sized> Comparator for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (**self).compare(a, b)
    }

    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        (**self).find_shortest_separator(start, limit);
    }

    fn find_short_successor(&self, key: &mut Vec<u8>) {
        (**self).find_short_successor(key);
    }

    fn equal_means_same_bytes(&self) -> bool {
        (**self).equal_means_same_bytes()
    }
}

/// Byte order, LevelDB's default: `leveldb.BytewiseComparator`.
///
/// Separators and successors are exactly those of LevelDB's `util/comparator.cc`, because index
/// blocks contain them.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

impl Comparator for BytewiseComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let min_len = start.len().min(limit.len());
        let shared = common_prefix(start, limit);
        if shared >= min_len {
            return; // one is a prefix of the other
        }
        let byte = start[shared];
        if byte < 0xff && byte + 1 < limit[shared] {
            start[shared] = byte + 1;
            start.truncate(shared + 1);
        }
    }

    fn find_short_successor(&self, key: &mut Vec<u8>) {
        if let Some(i) = key.iter().position(|&b| b != 0xff) {
            key[i] += 1;
            key.truncate(i + 1);
        }
    }

    fn equal_means_same_bytes(&self) -> bool {
        true
    }
}

/// Comparators for unit tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Comparator, Ordering};

    /// Descending byte order.
    #[derive(Debug)]
    pub(crate) struct Reverse;

    impl Comparator for Reverse {
        fn name(&self) -> &str {
            "test.Reverse"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    /// Byte order in which upper and lower case letters are equal.
    #[derive(Debug)]
    pub(crate) struct CaseBlind;

    impl Comparator for CaseBlind {
        fn name(&self) -> &str {
            "test.CaseBlind"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
    }
}
