//! Fences: sorted keys reduced to one array of integers, so that a search touches few cache lines.

use crate::base::prefix::{common_prefix, head};

/// The first eight bytes of each key of a sorted list, after the prefix common to all keys.
///
/// A search compares these bytes first. Only keys whose eight bytes equal the target's need a full
/// comparison.
#[derive(Clone, Debug)]
pub(crate) struct Fences {
    /// The prefix common to all keys.
    shared: Vec<u8>,
    /// The [`head`] of each key's bytes after the prefix, in ascending order.
    heads: Vec<u64>,
    /// The last head of each group of [`GROUP`] heads. A search reads `tops` first, which touches
    /// fewer cache lines.
    tops: Vec<u64>,
}

/// Number of heads per group; 16 heads fill two cache lines. With larger groups, a search reads
/// fewer elements of `tops` and more of `heads`.
const GROUP: usize = 16;

impl Fences {
    /// Creates the fences of `len` keys, where `key(i)` returns the key at index `i`. Returns
    /// `None` if `len` is 0, a key is missing, or the keys are not in byte order.
    pub(crate) fn new<'a>(len: usize, key: impl Fn(usize) -> Option<&'a [u8]>) -> Option<Fences> {
        if len == 0 {
            return None;
        }
        let first = key(0)?;
        let shared = &first[..common_prefix(first, key(len - 1)?)];
        let mut heads = Vec::with_capacity(len);
        for i in 0..len {
            heads.push(head(key(i)?.strip_prefix(shared)?));
        }
        let tops = heads.chunks(GROUP).filter_map(|group| group.last().copied()).collect();
        heads.is_sorted().then(|| Fences { shared: shared.to_vec(), heads, tops })
    }

    /// Returns bounds `(low, high)` for a lower-bound search: the keys before index `low` are less
    /// than `key`, and the key at index `high`, if there is one, is not less than `key`.
    #[inline]
    pub(crate) fn around(&self, key: &[u8]) -> (usize, usize) {
        let Some(rest) = key.strip_prefix(&self.shared[..]) else { return self.outside(key) };
        let head = head(rest);
        let group = self.tops.partition_point(|&top| top < head) * GROUP;
        let group = group.min(self.heads.len());
        let end = self.heads.len().min(group + GROUP);
        let below = |&fence: &u64| usize::from(fence < head);
        let low = group + self.heads[group..end].iter().map(below).sum::<usize>();
        let same = self.heads[low..].iter().take_while(|&&fence| fence == head).count();
        (low, low + same)
    }

    /// Returns the bounds for a key that lacks the shared prefix. Such a key is before all keys or
    /// after all keys.
    #[cold]
    fn outside(&self, key: &[u8]) -> (usize, usize) {
        let at = if key < &self.shared[..] { 0 } else { self.heads.len() };
        (at, at)
    }

    /// Returns the size of the arrays in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.shared.len() + size_of_val(&self.heads[..]) + size_of_val(&self.tops[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Rng;

    #[test]
    fn the_first_key_not_less_lies_between_the_fences() {
        let mut rng = Rng::new(42);
        let mut next = |below: u64| rng.below(below);
        for round in 0..300 {
            let shared = b"the same for all"[..next(17) as usize].to_vec();
            let mut random_key = |alphabet: u64| {
                let mut key = shared.clone();
                key.extend((0..next(14)).map(|_| b'a' - 1 + next(alphabet) as u8));
                key
            };
            let mut keys: Vec<_> = (0..1 + round).map(|_| random_key(3)).collect();
            keys.sort();
            keys.dedup();
            let fences = Fences::new(keys.len(), |i| Some(&keys[i][..])).unwrap();
            let mut targets: Vec<_> = (0..200).map(|_| random_key(4)).collect();
            targets.extend(keys.iter().cloned());
            targets.extend([b"".to_vec(), b"the".to_vec(), b"tha".to_vec(), b"thz".to_vec()]);
            for target in targets {
                let (low, high) = fences.around(&target);
                let plain = keys.partition_point(|key| *key < target);
                assert!(low <= plain && plain <= high, "round {round}, target {target:?}");
                let fence = |key: &Vec<u8>| head(&key[fences.shared.len()..]);
                let same = |pair: &[Vec<u8>]| fence(&pair[0]) == fence(&pair[1]);
                assert!(keys[low..high].windows(2).all(same), "round {round}");
            }
        }
    }

    #[test]
    fn keys_out_of_order_have_no_fences() {
        let keys: [&[u8]; 3] = [b"b", b"c", b"a"];
        assert!(Fences::new(3, |i| Some(keys[i])).is_none());
        assert!(Fences::new(0, |_| Some(b"")).is_none());
        assert!(Fences::new(2, |i| (i == 0).then_some(&b"a"[..])).is_none());
    }
}
