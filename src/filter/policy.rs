//! The interface of a kind of filter, and an adapter that hides sequence numbers from it.

use std::fmt::Debug;
use std::sync::Arc;

use crate::format::key::user_key;

/// A kind of filter. It has a name, because a reader uses a filter only if it knows the filter's
/// name.
pub trait FilterPolicy: Send + Sync + Debug + 'static {
    /// Returns the name on disk, such as `leveldb.BuiltinBloomFilter2`. Change it when the encoding
    /// changes.
    fn name(&self) -> &str;

    /// Returns other names under which filters with the same encoding are found.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Does what [`may_match`](FilterPolicy::may_match) does, for a filter found under an alias,
    /// which may have been built slightly differently.
    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        self.may_match(key, filter)
    }

    /// Appends the filter of `keys` to `dst`. `keys` are in table order and may repeat.
    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>);

    /// Returns whether `key` may be among the keys `filter` was built from. Must never return false
    /// for one that was; returns true for a filter that is damaged or unknown.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;

    /// Returns a builder that takes one key at a time and keeps as little of each as it can. Its
    /// filters are byte for byte those of [`FilterPolicy::create`].
    fn generator(&self) -> Box<dyn FilterGenerator>;
}

/// Builds one filter after another from keys added one at a time.
pub trait FilterGenerator: Send + Debug {
    /// Adds a key to the current filter.
    fn add_key(&mut self, key: &[u8]);

    /// Returns whether no key was added to the current filter.
    fn is_empty(&self) -> bool;

    /// Appends the current filter to `dst` and starts the next.
    fn finish(&mut self, dst: &mut Vec<u8>);
}

/// A policy over internal keys that passes only their user keys to the wrapped policy: a get must
/// find a key whatever its sequence number. LevelDB has the same class in `db/dbformat.h`.
///
/// ```
/// use std::sync::Arc;
/// use minikv::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
///
/// let policy = InternalFilterPolicy::new(Arc::new(BloomFilterPolicy::new(10)));
/// let mut filter = Vec::new();
/// policy.create(&[b"key\x01\x07\0\0\0\0\0\0"], &mut filter);
/// assert!(policy.may_match(b"key\x01\xff\xff\xff\xff\xff\xff\xff", &filter));
/// ```
#[derive(Clone, Debug)]
pub struct InternalFilterPolicy {
    user: Arc<dyn FilterPolicy>,
}

impl InternalFilterPolicy {
    /// Wraps a policy over user keys.
    pub fn new(user: Arc<dyn FilterPolicy>) -> InternalFilterPolicy {
        InternalFilterPolicy { user }
    }

    /// Returns the wrapped policy.
    pub fn user_policy(&self) -> &Arc<dyn FilterPolicy> {
        &self.user
    }
}

impl FilterPolicy for InternalFilterPolicy {
    /// Returns the wrapped policy's name, because the filters on disk are the same.
    fn name(&self) -> &str {
        self.user.name()
    }

    fn aliases(&self) -> &[&str] {
        self.user.aliases()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let user_keys: Vec<&[u8]> = keys.iter().map(|key| user_key(key)).collect();
        self.user.create(&user_keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.user.may_match(user_key(key), filter)
    }

    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        self.user.may_match_alias(user_key(key), filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(InternalGenerator(self.user.generator()))
    }
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

#[derive(Debug)]
struct InternalGenerator(Box<dyn FilterGenerator>);

impl FilterGenerator for InternalGenerator {
    fn add_key(&mut self, key: &[u8]) {
        self.0.add_key(user_key(key));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        self.0.finish(dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::BloomFilterPolicy;
    use crate::format::key::{KeyKind, internal_key};

    #[test]
    fn filters_see_user_keys_only() {
        let bloom = BloomFilterPolicy::new(10);
        let policy = InternalFilterPolicy::new(Arc::new(bloom));
        let old = internal_key(b"key", 7, KeyKind::Value);
        let new = internal_key(b"key", 70_000, KeyKind::Deletion);

        let (mut of_user, mut of_internal, mut generated) = (Vec::new(), Vec::new(), Vec::new());
        bloom.create(&[b"key"], &mut of_user);
        policy.create(&[&old], &mut of_internal);
        let mut generator = policy.generator();
        assert!(generator.is_empty());
        generator.add_key(&old);
        assert!(!generator.is_empty());
        generator.finish(&mut generated);

        assert_eq!(of_internal, of_user);
        assert_eq!(generated, of_user);
        assert!(policy.may_match(&new, &of_internal));
        assert!(!policy.may_match(&internal_key(b"other", 7, KeyKind::Value), &of_internal));
        assert_eq!(policy.name(), "leveldb.BuiltinBloomFilter2");
        assert_eq!(policy.aliases(), ["leveldb.BuiltinBloomFilter"]);
    }
}
