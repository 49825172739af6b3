//! The interface of a kind of filter, and an adapter for filters that were found under an alias.

use std::fmt::Debug;
use std::sync::Arc;

/// A kind of filter. A policy has a name, because a reader uses a filter only if it knows the
/// filter's name. Keys are user keys: whoever builds or queries a table's filters removes the
/// trailers of internal keys.
#[doc(alias = "InternalFilterPolicy", alias = "iFilter")]
pub trait FilterPolicy: Send + Sync + Debug + 'static {
    /// Returns the name on disk, such as `leveldb.BuiltinBloomFilter2`. Change it when the encoding
    /// changes.
    fn name(&self) -> &str;

    /// Returns other names under which filters with the same encoding are found.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Does the same as [`may_match`](FilterPolicy::may_match), but for a filter found under an
    /// alias, which may have been built slightly differently.
    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        self.may_match(key, filter)
    }

    /// Appends the filter of `keys` to `dst`. `keys` are in table order and may repeat.
    #[doc(alias = "CreateFilter")]
    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>);

    /// Returns whether `key` may be among the keys that `filter` was built from. Must never return
    /// false for one of these keys. Should return true for every key if the filter is damaged or
    /// unknown.
    #[doc(alias = "KeyMayMatch", alias = "Contains")]
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;

    /// Returns a builder to which keys are added one at a time, and which stores as little of each
    /// key as possible. Its filters are byte for byte the same as those of
    /// [`FilterPolicy::create`].
    #[doc(alias = "NewGenerator")]
    fn generator(&self) -> Box<dyn FilterGenerator>;
}

#[deny(clippy::missing_trait_methods)]
impl<T: FilterPolicy + ?Sized> FilterPolicy for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn aliases(&self) -> &[&str] {
        (**self).aliases()
    }

    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        (**self).may_match_alias(key, filter)
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        (**self).create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        (**self).may_match(key, filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        (**self).generator()
    }
}

/// Builds one filter after another from keys added one at a time.
pub trait FilterGenerator: Send + Debug {
    /// Adds a key to the current filter.
    fn add_key(&mut self, key: &[u8]);

    /// Returns whether no key was added to the current filter.
    fn is_empty(&self) -> bool;

    /// Appends the current filter to `dst` and starts the next filter.
    #[doc(alias = "Generate", alias = "GenerateFilter")]
    fn finish(&mut self, dst: &mut Vec<u8>);
}

/// A wrapper for a policy whose filter was found under one of its aliases: `may_match` calls the
/// policy's `may_match_alias`.
#[derive(Clone, Debug)]
pub(crate) struct AliasedFilterPolicy(pub Arc<dyn FilterPolicy>);

impl FilterPolicy for AliasedFilterPolicy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.0.create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match_alias(key, filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        self.0.generator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::bloom::BloomFilterPolicy;

    #[test]
    fn a_policy_under_an_alias_keeps_its_name_and_makes_the_same_filters() {
        let policy = Arc::new(BloomFilterPolicy::new(10));
        let alias = AliasedFilterPolicy(policy.clone());
        assert_eq!(alias.name(), policy.name());
        let (mut made, mut expected, mut generated) = (Vec::new(), Vec::new(), Vec::new());
        alias.create(&[b"key"], &mut made);
        policy.create(&[b"key"], &mut expected);
        let mut generator = alias.generator();
        generator.add_key(b"key");
        generator.finish(&mut generated);
        assert_eq!((&made, &generated), (&expected, &expected));
        assert!(alias.may_match(b"key", &made) && !made.is_empty());
    }

    /// A policy whose filter is a copy of the last key.
    #[derive(Debug)]
    struct LastKey;

    impl FilterPolicy for LastKey {
        fn name(&self) -> &str {
            "last key"
        }

        fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
            dst.extend(keys.last().copied().unwrap_or_default());
        }

        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            key == filter
        }

        fn generator(&self) -> Box<dyn FilterGenerator> {
            unreachable!("nothing is written")
        }
    }

    #[test]
    fn a_filter_under_an_alias_is_asked_like_any_other_unless_the_policy_says_otherwise() {
        let alias = AliasedFilterPolicy(Arc::new(LastKey));
        let mut filter = Vec::new();
        alias.create(&[b"a", b"b"], &mut filter);
        assert_eq!([&b"a"[..], b"b"].map(|key| alias.may_match(key, &filter)), [false, true]);
    }
}
